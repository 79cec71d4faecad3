"""What the pieces of a collapsed loop are called: `A³`, `w₉`, `X·A³`, `w₂₇−w₉`.

`A` is what a step multiplies by and `w` what the loop carries: `w₉` is w after nine steps, and `z₉`
is that from zero, where the loop starts elsewhere. A name says what a value is as far as few words
can; nothing that a pass does depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from inweave.compiler.forms import Form, InputLeaf, LoopForm, ordered
from inweave.compiler.names import SYMBOL
from inweave.exact.names import GREEK, compound

STEMS = ("A", "B", "M", "P", "S")
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
LOWERED = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def joined(words: Iterable[str]) -> str:
    """A product as one word; with dots where letters could be taken for a name."""
    greek = [GREEK.get(word, word) for word in words]
    text = "".join(greek)
    short = all(map(SYMBOL.fullmatch, greek))
    return text if short and (compound(text) or len(greek) < 2) else "·".join(greek)


@dataclass(frozen=True)
class Names:
    """The names of what a loop comes to: of its matrix, and of what it carries."""

    matrix: str
    carried: tuple[str, ...]
    from_zero: bool
    alike: bool = True  # all steps multiply by the same

    def power(self, steps: int) -> str:
        """`A³`; A alone is A."""
        if not self.alike:
            return f"{steps}step{'s' * (steps > 1)}"
        plain = self.matrix if self.matrix.isalnum() else f"({self.matrix})"
        return self.matrix if steps == 1 else f"{plain}{str(steps).translate(RAISED)}"

    def state(self, steps: int, index: int = 0) -> str:
        """What is carried after so many steps."""
        return f"{self.carried[index]}{str(steps).translate(LOWERED)}"

    def sum(self, steps: int, index: int = 0) -> str:
        """What would be carried after so many steps from zero."""
        if self.from_zero:
            return self.state(steps, index)
        return f"z{str(steps).translate(LOWERED)}"


def names(
    matrices: Sequence[Form], loop: LoopForm, start: Sequence[Form], taken: set[str]
) -> Names:
    """The names in a loop; its matrix has its own, or a letter that nothing else has."""
    carried = tuple(leaf.name for leaf in loop.carried)
    from_zero = all(f.is_zero for f in start)
    if len(matrices) == 1 and (sole := matrices[0].sole) and isinstance(sole[0], InputLeaf):
        if sole[2] == 1:
            return Names(repr(matrices[0]), carried, from_zero)
    inputs = {x.name for x in ordered((*loop.init, *loop.step)) if isinstance(x, InputLeaf)}
    free = (stem for stem in STEMS if stem not in taken | inputs)
    stem = next(free, f"A({carried[0]})")
    taken.add(stem)
    return Names(stem, carried, from_zero)
