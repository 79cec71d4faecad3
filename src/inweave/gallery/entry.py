"""What an entry of the gallery is: a program, where it comes from, data to run it on, a reference.

The reference is written without inweave (numpy, or a textbook loop), so that program, network and
reference can be laid side by side and only two of them share a line of code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from inweave.compiler.options import TARGETS
from inweave.language.program import Program
from inweave.model.prompt import by_name
from inweave.network import Network, compile

Inputs = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """A named algorithm.

    `inputs(rng, **sizes)` makes example data at any sizes, `reference(**inputs, **statics)` is the
    independent answer, to which the network agrees within `tolerance` (relative).
    """

    program: Program
    source: str
    sizes: Mapping[str, Any]
    inputs: Callable[..., Inputs]
    answer: Callable[..., Any]
    tolerance: float = 1e-10
    targets: tuple[str, ...] = TARGETS
    options: Mapping[str, Any] = field(default_factory=dict)  # of `inweave.compile`

    @property
    def family(self) -> str:
        """The file it stands in."""
        return self.program.function.__module__.rpartition(".")[2]

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def summary(self) -> str:
        """The first line of the program's docstring."""
        return (self.program.__doc__ or "").strip().partition("\n")[0].rstrip(".")

    def example(self, seed: int = 0, **sizes: Any) -> Inputs:
        """Example inputs, at the entry's own sizes unless told."""
        return self.inputs(np.random.default_rng(seed), **{**self.sizes, **sizes})

    def reference(self, **given: Any) -> Any:
        """The answer without inweave; static arguments default to the entry's own."""
        statics = {k: v for k, v in self.sizes.items() if k in self.program.statics}
        return self.answer(**{**statics, **given})

    def compile(self, **options: Any) -> Network:
        """The network at the entry's sizes; any option of `inweave.compile`, or another size."""
        return compile(self.program, **{**self.sizes, **self.options, **options})


def difference(found: Any, expected: Any) -> float:
    """The largest difference of two answers, relative to the largest number expected."""
    if isinstance(expected, (Mapping, tuple)):
        got = by_name(found)
        return max(difference(got[name], value) for name, value in by_name(expected).items())
    gap = float(np.max(np.abs(np.asarray(found) - np.asarray(expected))))
    size = float(np.max(np.abs(expected)))
    return gap / size if size else gap
