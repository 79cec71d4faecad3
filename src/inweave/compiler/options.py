"""What is asked of a compilation: the same for every pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from inweave.compiler.forms import Forms
from inweave.compiler.given import Given
from inweave.compiler.units import UNKNOWN, Sizes
from inweave.model.prompt import Input, Kind

TARGETS = ("elsa", "lsa")
MODES = ("faithful", "speed", "depth")
AS_WRITTEN, FACTORED, HOISTED, COLLAPSED = "as written", "factored", "hoisted", "collapsed"
CANDIDATES = {
    AS_WRITTEN: "loops compute what they compute, in the fewest layers",
    FACTORED: "the least work, no product is multiplied out over a sum",
    HOISTED: "the least work, what loops do not change is computed before them",
    COLLAPSED: "the fewest layers, affine loops have logarithmic depth",
}
"""The ways to compile a program, nearest to it first; which is best depends on the sizes."""


@dataclass(frozen=True)
class Options:
    """How a program is compiled, and the forms that its passes share."""

    inputs: tuple[Input, ...]
    kinds: Mapping[str, Kind]  # of the answers
    forms: Forms
    target: str = "elsa"
    candidate: str = AS_WRITTEN
    tokens: int | None = None
    given: Given | None = None  # the user's own input form
    narrow: bool = False  # tokens are free, columns are not
    flipped: Mapping[str, bool] | None = None  # which values stand transposed, if that is known
    units: Sizes = UNKNOWN  # of inputs
    least_depth: bool = False  # words are cut inside the steps of loops where that saves a layer
    picks: bool = False  # what constants pick of a value is taken to be read, not computed
    steady: bool = False  # loops collapse only where powers keep the digits that steps keep
    draft: bool = False  # tell costs apart: search orientations and trees a little

    @property
    def hoists(self) -> bool:
        """Whether what a loop does not change leaves it."""
        return self.candidate != AS_WRITTEN

    @property
    def least_work(self) -> bool:
        """Whether a schedule saves work before it saves layers."""
        return self.candidate in (FACTORED, HOISTED)
