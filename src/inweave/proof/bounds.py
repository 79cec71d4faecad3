"""What every exact network of attention layers for a program has at least: layers, heads, columns.

Three arguments, each with what it takes for granted:

- **Layers.** An attention layer at most triples degrees in the entries of the prompt, so a program
  of degree D in them takes ⌈log₃ D⌉ (`inweave.proof.entries`).
- **Columns.** Where each entry of an input has an entry of the prompt to itself, tokens x columns
  is no less than the number of entries of all inputs that the program uses.
- **Heads.** An answer of degree 2 or more stands nowhere in the prompt, so there is a head. No
  argument gives more than one for each layer: heads can be bought with copies of the prompt (see
  docs/explanation/lower-bound.md), and a loop's are stored once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inweave.language.program import Traced
from inweave.model.prompt import Fill
from inweave.proof.degree import has_functions
from inweave.proof.entries import Degree, reached


@dataclass(frozen=True)
class Bounds:
    """What no exact network of attention layers is below.

    `degree` is None of a program with pointwise functions, which has none: nothing is known of its
    depth. `entries` is the number of entries of the inputs that the program uses.
    """

    degree: Degree | None
    entries: int

    @property
    def depth(self) -> int:
        """At least so many attention layers."""
        return 0 if self.degree is None else self.degree.layers or 0

    @property
    def heads(self) -> int:
        """At least so many heads are stored."""
        return int(self.depth > 0)

    def width(self, tokens: int) -> int:
        """At least so many columns, in a prompt of so many tokens."""
        return -(-self.entries // tokens)

    def __str__(self) -> str:
        lines = ["every exact network of attention layers has at least"]
        if self.degree is not None:
            lines.append(f"  {self.depth} layers {self.degree.holds} ({self.degree})")
        lines.append(
            f"  {self.entries} / tokens columns, if each entry of an input has one of the prompt "
            "to itself"
        )
        return "\n".join(lines)


def bounds(traced: Traced, fills: Sequence[Fill] = ()) -> Bounds:
    """The bounds of a program on a prompt; without one, on every prompt affine in the inputs."""
    used = [spec for spec in traced.inputs if spec.name not in traced.unused]
    degree = None
    if not has_functions(traced):
        degree = reached(traced, fills)
    if degree is not None and degree.number == 0:  # it reads some, times zero
        used = []
    return Bounds(degree, sum(spec.rows * spec.cols for spec in used))
