"""Where a network came from: kept beside it, never part of its identity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from inweave.language.program import Program, Traced
from inweave.model.network import Network


@dataclass(frozen=True)
class Origin:
    """The program, sizes and options that a network was compiled from.

    `candidate` is the one that was kept where several were compared: the same weights at other
    sizes are of the same candidate, whichever would be cheaper there.

    `recorded` is the program as it was then: recorded again it may be another one, because it reads
    globals. `made` is the network as it was compiled: a changed one has this origin too, but what
    is known from the program is not known of it.
    """

    program: Program
    sizes: dict[str, Any]
    target: str = "elsa"
    optimize: str = "faithful"
    tokens: int | str | None = None
    layout: Any = None
    candidate: str = ""
    added: tuple[str, ...] = ()
    made_at: dict[str, Any] | None = None  # the sizes that the weights were compiled at, if others
    recorded: Traced | None = field(default=None, compare=False, repr=False)
    made: Network | None = field(default=None, compare=False, repr=False)

    @cached_property
    def traced(self) -> Traced:
        return self.recorded or self.program.trace(**self.sizes)

    def record(self, others: Mapping[str, int]) -> Traced:
        """The program at other sizes."""
        return self.program.trace(**{**self.sizes, **others})

    def at(self, sizes: Mapping[str, Any], made_at: Mapping[str, Any] | None = None) -> Origin:
        """The same program at other sizes, where it is not recorded yet."""
        there = None if made_at is None else dict(made_at)
        return replace(self, sizes=dict(sizes), made_at=there, recorded=None, made=None)


@dataclass(frozen=True)
class Compiled:
    """A network and where it came from."""

    network: Network
    origin: Origin
