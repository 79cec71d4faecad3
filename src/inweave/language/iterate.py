"""Loops: one step is recorded, and the network repeats one tied module.

A step that Python would run differently each time (it counts its calls, draws random numbers) has
no one recording: frozen at its first call it would be another algorithm, proved equal to itself. So
the step is recorded a second time. Expressions are interned: what it gives must be the same object.
If that call changed something that the step reads, a later one may still differ: then the step is
called as often as the loop repeats.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, overload

from inweave.errors import InputError, InweaveError, ShapeError
from inweave.exact.whole import is_whole
from inweave.language.expressions import Carried, Expr, Loop, LoopResult, current
from inweave.language.memory import State
from inweave.language.refusals import refuse, user_line
from inweave.language.values import Value, lift

if TYPE_CHECKING:
    from inweave.language.typed import Expression, Number

    More = Number | list[Any] | tuple[Any, Any, Any, Any, Any, *tuple[Any, ...]]

V = TypeVar("V", bound="Expression")
A = TypeVar("A", bound="Expression")
B = TypeVar("B", bound="Expression")
C = TypeVar("C", bound="Expression")
D = TypeVar("D", bound="Expression")


@overload
def iterate(step: Callable[[V], V], init: V, times: int) -> V: ...
@overload
def iterate(
    step: Callable[[A, B], tuple[A, B]], init: tuple[A | Number, B | Number], times: int
) -> tuple[A, B]: ...
@overload
def iterate(
    step: Callable[[A, B, C], tuple[A, B, C]],
    init: tuple[A | Number, B | Number, C | Number],
    times: int,
) -> tuple[A, B, C]: ...
@overload
def iterate(
    step: Callable[[A, B, C, D], tuple[A, B, C, D]],
    init: tuple[A | Number, B | Number, C | Number, D | Number],
    times: int,
) -> tuple[A, B, C, D]: ...
@overload
def iterate(step: Callable[..., Any], init: More, times: int) -> Any: ...


def iterate(step: Callable[..., Any], init: Any, times: int) -> Any:
    """Apply a step `times` times. Several carried values: pass and return tuples.

    The network repeats one tied module, so the step must be the same each time: what changes from
    step to step is carried. (It is called twice while the program is recorded, to see that it is,
    and as often as it will run if a call changes something that the step reads.)

    >>> import inweave
    >>> from inweave import Scalar
    >>> @inweave.program
    ... def fibonacci(a: Scalar, b: Scalar):
    ...     a, b = inweave.iterate(lambda a, b: (b, a + b), (a, b), 10)
    ...     return a
    >>> float(fibonacci(a=0, b=1))
    55.0
    """
    if not is_whole(times):
        raise refuse(
            f"iterate needs a number of times known at compile time, got {times!r}", InputError
        )
    if times < 0:
        raise refuse(f"iterate cannot run {times} times", InputError)
    several = isinstance(init, (tuple, list))
    start = tuple(lift(x) for x in (init if several else (init,)))
    if not start:
        raise refuse("iterate needs at least one carried value", InputError)
    many = f"carries {len(start)} value{'s' if len(start) > 1 else ''} and calls it with as many"
    names = parameters(step, len(start), "iterate", many)
    recorded = Recorded("iterate", step, int(times), partial(_stepped, step), names, start)
    results = start if times == 0 else recorded.results()
    values = tuple(map(Value, results))
    return values if several else values[0]


MOST_CALLS = 1000  # of steps that change what they read, in one recording of a program

Step = Callable[[tuple[Carried, ...]], tuple[Expr, ...]]


class Recorded:
    """A step on symbols for what it carries, recorded again to see that it is one step.

    `what` is the user's word for the loop, `own` the user's step and `step` what is recorded of it.
    It may give more values than it carries: those that `carry` takes up.
    """

    def __init__(
        self,
        what: str,
        own: Callable[..., Any],
        times: int,
        step: Step,
        names: Sequence[str],
        start: Sequence[Expr],
    ) -> None:
        self._what, self._own, self._times, self._step = what, own, times, step
        self._where, self._recording = user_line(), current()
        self._path, before = self._recording.path, len(self._recording.made)
        self.carried: tuple[Carried, ...] = ()
        self.start: tuple[Expr, ...] = ()
        self.carry(names, start)
        again = self._recording.again  # then the step around this one is compared, and so is this
        untouched = State(own) if again else None
        with self._recording.step(self._path):
            self.stepped = step(self.carried)
        self._made = {one() for one in self._recording.made[before:]}
        state = State(own)
        if untouched is None or state.changed(untouched):
            self._call_again(state, least=1 if again else 2)

    def _call_again(self, state: State, least: int) -> None:
        """Refuse a step that is another one later, as far as it may be."""
        for _ in range(max(self._times, least) - 1):
            with self._recording.step(self._path, again=True):
                _check_memory(self._what, self._step, self.carried, self.stepped)
            state, before = State(self._own), state
            names = state.changed(before)
            if not names:
                return
            self._recording.calls += 1
            if self._recording.calls > MOST_CALLS:
                raise _keeps_changing(self._what, names)

    def carry(self, names: Sequence[str], start: Sequence[Expr]) -> tuple[Carried, ...]:
        """Symbols for values that the loop carries too."""
        pairs = zip(names, start, strict=True)
        new = tuple(Carried(n, x, self._where, self._recording, self._path) for n, x in pairs)
        self.carried, self.start = (*self.carried, *new), (*self.start, *start)
        return new

    def results(self) -> tuple[LoopResult, ...]:
        """What is carried after the last step."""
        loop = Loop(self.carried, self.start, self.stepped, self._times, self._made)
        return tuple(LoopResult(loop, i) for i in range(len(self.carried)))


def _stepped(step: Callable[..., Any], carried: tuple[Carried, ...]) -> tuple[Expr, ...]:
    """What a step makes of what it carries."""
    result = step(*map(Value, carried))
    if result is None:
        raise refuse("the step of iterate returns nothing")
    after = result if isinstance(result, (tuple, list)) else (result,)
    return of_same_shapes("iterate", carried, after)


def of_same_shapes(what: str, carried: Sequence[Expr], after: Sequence[Any]) -> tuple[Expr, ...]:
    """What a step carries on: as many values as before, of the same shapes."""
    if len(after) != len(carried):
        raise refuse(f"the step of {what} returns {len(after)} values, it carries {len(carried)}")
    lifted = tuple(map(lift, after))
    for before, x in zip(carried, lifted, strict=True):
        if before.shape != x.shape:
            raise refuse(
                f"the step of {what} changes the shape of {before.text()}: "
                f"{before.rows} x {before.cols} before, {x!r} after",
                ShapeError,
            )
    return lifted


def _check_memory(
    what: str, step: Step, carried: tuple[Carried, ...], stepped: tuple[Expr, ...]
) -> None:
    """Refuse a step that is another one when it is recorded again."""
    try:
        again = step(carried)
    except Exception as error:
        raise _has_memory(what, f"raises {type(error).__name__}: {error}") from error
    if len(again) != len(stepped):
        raise _has_memory(what, f"returns {len(again)} values where it returned {len(stepped)}")
    for first, second in zip(stepped, again, strict=True):
        if first is not second:
            a, b = (x.text() for x in _parted(first, second))
            raise _has_memory(
                what, "computes " + (f"{b} where {a} stood" if a != b else "something else")
            )


_INSTEAD = (
    "What is known of every step beforehand (a schedule, a counter) is a constant to scan "
    "over, inweave.scan(step, w, [0.5, 0.25, 0.125]); what is computed on the way is carried"
)


def _has_memory(what: str, does: str) -> InweaveError:
    return refuse(
        f"the step of {what} {does} when it is called again: it reads something that changes "
        f"between calls (a counter, an iterator, random numbers), but a loop repeats one step. "
        f"{_INSTEAD}"
    )


def _keeps_changing(what: str, names: Sequence[str]) -> InweaveError:
    return refuse(
        f"the step of {what} reads {', '.join(names)}, which changes between its calls or cannot "
        f"be looked into, and {MOST_CALLS:,} calls, all alike, were too few to see that it is the "
        f"same step each time; a loop repeats one step. {_INSTEAD}"
    )


def _parted(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Where two expressions first differ."""
    while type(a) is type(b) and len(a.parts) == len(b.parts):
        differing = [(x, y) for x, y in zip(a.parts, b.parts, strict=True) if x is not y]
        if not differing:
            break
        a, b = differing[0]
    return a, b


def parameters(step: Callable[..., Any], count: int, what: str, called: str) -> list[str]:
    """The names of a step's arguments; refuses a step that cannot be called as it will be."""
    if not callable(step):
        raise refuse(f"the step of {what} must be a function, got {step!r}")
    try:
        signature = inspect.signature(step)
    except (TypeError, ValueError):
        names = []
    else:
        names = list(signature.parameters)
        try:
            signature.bind(*range(count))
        except TypeError:
            raise refuse(f"the step of {what} takes {signature}, but {what} {called}") from None
    return names if len(names) == count else [f"state{i}" for i in range(count)]
