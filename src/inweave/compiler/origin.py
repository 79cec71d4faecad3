"""Where a network came from: kept beside it, never part of its identity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from inweave.language.program import Program, Traced
from inweave.model.network import Network


@dataclass(frozen=True)
class Origin:
    """The program, sizes and options that a network was compiled from."""

    program: Program
    sizes: dict[str, Any]
    target: str = "elsa"
    optimize: str = "faithful"
    tokens: int | str | None = None
    layout: Any = None
    added: tuple[str, ...] = ()
    made_at: dict[str, Any] | None = None  # the sizes that the weights were compiled at, if others

    @property
    def traced(self) -> Traced:
        return self.program.trace(**self.sizes)


@dataclass(frozen=True)
class Compiled:
    """A network and where it came from."""

    network: Network
    origin: Origin
