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


@dataclass(frozen=True)
class Options:
    """How a program is compiled, and the forms that its passes share."""

    inputs: tuple[Input, ...]
    kinds: Mapping[str, Kind]  # of the answers
    forms: Forms
    target: str = "elsa"
    mode: str = "faithful"
    tokens: int | None = None
    given: Given | None = None  # the user's own input form
    narrow: bool = False  # tokens are free, columns are not
    flipped: Mapping[str, bool] | None = None  # which values stand transposed, if that is known
    units: Sizes = UNKNOWN  # of inputs

    @property
    def hoists(self) -> bool:
        """Whether what a loop does not change leaves it."""
        return self.mode != "faithful"
