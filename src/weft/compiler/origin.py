"""Where a network came from: kept beside it, never part of its identity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from weft.language import Program, Traced


@dataclass(frozen=True)
class Origin:
    """The program, sizes and options that a network was compiled from."""

    program: Program
    sizes: dict[str, Any]
    target: str = "elsa"
    optimize: str = "faithful"
    tokens: int | None = None
    added: tuple[str, ...] = ()

    @property
    def traced(self) -> Traced:
        return self.program.trace(**self.sizes)
