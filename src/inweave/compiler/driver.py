"""The compiler. This page is the list of its passes.

A pass is a pure function of what the pass before it made and of the options. What was recorded of a
program (expressions) is first written in forms, then scheduled in layers of heads over stored
values, which are allocated to blocks of the prompt; those heads are the network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

from inweave.compiler.allocate import allocate
from inweave.compiler.collapse import collapse
from inweave.compiler.constants import constants
from inweave.compiler.emit import emit
from inweave.compiler.expand import expand
from inweave.compiler.forms import Forms, Written
from inweave.compiler.gather import gather
from inweave.compiler.given import given_form
from inweave.compiler.layers import Allocation, Schedule
from inweave.compiler.merge import merge
from inweave.compiler.normalize import normalize
from inweave.compiler.options import AS_WRITTEN, COLLAPSED, FACTORED, HOISTED, Options
from inweave.compiler.reroll import reroll
from inweave.compiler.schedule import schedule
from inweave.compiler.symmetry import symmetry
from inweave.compiler.units import units
from inweave.language.expressions import LoopResult
from inweave.language.program import Traced
from inweave.model.network import Network


class Pass(NamedTuple):
    """A pass, what it makes in a few words, and the candidates or target that it is for."""

    run: Callable[[Any, Options], Any]
    makes: str
    only: tuple[str, ...] = ()  # all, if none are named
    heeds: tuple[Callable[[Options, Any], bool], ...] = ()  # what of a candidate matters to it


def _hoists(options: Options, before: Traced | Written) -> bool:
    if isinstance(before, Written):
        return options.hoists and bool(before.loops)
    return options.hoists and any(isinstance(x, LoopResult) for x in before.operations)


def _picks(options: Options, _: Written) -> bool:
    return options.picks


def _least_work(options: Options, _: Written) -> bool:
    return options.least_work


PASSES = {
    "reroll": Pass(reroll, "Python loops that collapse are loops again", (COLLAPSED,)),
    "normalize": Pass(normalize, "matrix polynomials", heeds=(_hoists,)),
    "symmetry": Pass(symmetry, "matrices that loops carry are known to be symmetric"),
    "gather": Pass(
        gather, "matrices of affine steps are computed before their loops", (FACTORED, HOISTED)
    ),
    "collapse": Pass(collapse, "affine loops have logarithmic depth", (COLLAPSED,)),
    "expand": Pass(
        expand,
        "products are multiplied out where that saves a layer",
        (AS_WRITTEN, HOISTED, COLLAPSED),
        (_hoists, _picks),
    ),
    "schedule": Pass(
        schedule,
        "layers of heads (query · keyᵀ · value → destination)",
        heeds=(_hoists, _least_work),
    ),
    "allocate": Pass(allocate, "blocks and the values that stand in them over time"),
    "merge": Pass(merge, "heads that share two parts are one, and so are linear updates"),
    "constants": Pass(constants, "constants stand in blocks of the prompt", ("lsa",)),
    "emit": Pass(emit, "the network"),
}

T = TypeVar("T")
Check = Callable[[str, Any, Any], None]  # of a pass, by name: what it was given, what it made
_check: ContextVar[Check | None] = ContextVar("check", default=None)


@contextmanager
def checked_by(check: Check | None) -> Iterator[None]:
    """Have every pass checked by a function, or by none; rooms further down have such functions."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


@dataclass(frozen=True)
class Compilation:
    """What was recorded of a program, and what each pass made, by name."""

    recorded: Traced
    made: dict[str, Any]

    @property
    def schedule(self) -> Schedule:
        return self.made["schedule"]  # type: ignore[no-any-return]

    @property
    def allocation(self) -> Allocation:
        return self.made.get("constants", self.made["merge"])  # type: ignore[no-any-return]

    @property
    def network(self) -> Network:
        return self.made["emit"]  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Shared:
    """What candidates of one program have in common: their forms, and what came of what.

    A pass is pure, so what it made of something it need not make again of something equal.
    """

    forms: Forms = field(default_factory=Forms)
    made: list[tuple[tuple[Any, ...], Any, Any]] = field(default_factory=list)

    def once(self, how: tuple[Any, ...], before: Any, make: Callable[[], T]) -> T:
        for known, given, after in self.made:
            if known == how and (given is before or given == before):
                return after  # type: ignore[no-any-return]
        after = make()
        self.made.append((how, before, after))
        return after


def run(
    recorded: Traced, layout: Any = None, shared: Shared | None = None, **asked: Any
) -> Compilation:
    """Every pass in turn; `asked` are options, and the same for all that share, but the candidate.

    With nothing shared, a network depends on its program and options alone: which of equal forms
    was made first decides the order of heads.
    """
    shared = shared or Shared()
    given = None if layout is None else given_form(layout, recorded, shared.forms)
    known = (recorded.inputs, recorded.kinds, shared.forms)
    sizes = shared.once(("units",), recorded, partial(units, recorded))
    options = Options(*known, given=given, units=sizes, **asked)
    made: dict[str, Any] = {}
    check, before = _check.get(), recorded  # type: Any, Any
    for name, step in PASSES.items():
        if not step.only or {options.candidate, options.target}.intersection(step.only):
            how = (name, *(heeded(options, before) for heeded in step.heeds))
            after = shared.once(how, before, partial(step.run, before, options))
            if check is not None:
                check(name, before, after)
            made[name] = before = after
    return Compilation(recorded, made)
