"""Loops: one step is recorded, and the network repeats one tied module.

A step that Python would run differently each time (it counts its calls, draws random numbers) has
no one recording: frozen at its first call it would be another algorithm, proved equal to itself. So
the step is recorded a second time. Expressions are interned: what it gives must be the same object.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from inweave.errors import InputError, InweaveError, ShapeError
from inweave.exact.whole import is_whole
from inweave.language.expressions import Carried, Expr, Loop, LoopResult, current
from inweave.language.refusals import refuse, user_line
from inweave.language.values import Value, lift


def iterate(step: Callable[..., Any], init: Any, times: int) -> Any:
    """Apply a step `times` times. Several carried values: pass and return tuples.

    The network repeats one tied module, so the step must be the same each time: what changes from
    step to step is carried. (It is called twice while the program is recorded, to see that it is.)

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
    names, where, recording = _parameter_names(step, len(start)), user_line(), current()
    carried = tuple(Carried(n, x, where, recording) for n, x in zip(names, start, strict=True))
    path, before = recording.path, len(recording.made)
    with recording.step(path):
        stepped = _stepped(step, carried)
    made = {one() for one in recording.made[before:]}
    if not recording.again:  # then the step around this one is compared, and so is this one
        with recording.step(path, again=True):
            _check_memory(step, carried, stepped)
    if times == 0:
        results = start
    else:
        loop = Loop(carried, start, stepped, int(times), made)
        results = tuple(LoopResult(loop, i) for i in range(len(start)))
    values = tuple(map(Value, results))
    return values if several else values[0]


def _stepped(step: Callable[..., Any], carried: tuple[Carried, ...]) -> tuple[Expr, ...]:
    """What a step makes of what it carries: as many values, of the same shapes."""
    result = step(*map(Value, carried))
    if result is None:
        raise refuse("the step of iterate returns nothing")
    after = tuple(lift(x) for x in (result if isinstance(result, (tuple, list)) else (result,)))
    if len(after) != len(carried):
        raise refuse(f"the step of iterate returns {len(after)} values, it carries {len(carried)}")
    for symbol, x in zip(carried, after, strict=True):
        if symbol.shape != x.shape:
            raise refuse(
                f"the step of iterate changes the shape of {symbol.name}: "
                f"{symbol.rows} x {symbol.cols} before, {x!r} after",
                ShapeError,
            )
    return after


def _check_memory(
    step: Callable[..., Any], carried: tuple[Carried, ...], stepped: tuple[Expr, ...]
) -> None:
    """Refuse a step that is another one when it is recorded again."""
    try:
        again = _stepped(step, carried)
    except Exception as error:
        raise _has_memory(f"raises {type(error).__name__}: {error}") from error
    for first, second in zip(stepped, again, strict=True):
        if first is not second:
            a, b = (x.text() for x in _parted(first, second))
            raise _has_memory(
                "computes " + (f"{b} where {a} stood" if a != b else "something else")
            )


def _has_memory(what: str) -> InweaveError:
    return refuse(
        f"the step of iterate {what} when it is called again: it reads something that changes "
        "between calls (a counter, an iterator, random numbers), but a loop repeats one step. "
        "Carry what changes as a value of the loop, iterate(step, (w, counter), steps), and make "
        "constants before it"
    )


def _parted(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Where two expressions first differ."""
    while type(a) is type(b) and len(a.parts) == len(b.parts):
        differing = [(x, y) for x, y in zip(a.parts, b.parts, strict=True) if x is not y]
        if not differing:
            break
        a, b = differing[0]
    return a, b


def _parameter_names(step: Callable[..., Any], count: int) -> list[str]:
    """What a step calls the values it carries; refuses a step that does not take so many."""
    if not callable(step):
        raise refuse(f"the step of iterate must be a function, got {step!r}")
    try:
        signature = inspect.signature(step)
    except (TypeError, ValueError):
        names = []
    else:
        names = list(signature.parameters)
        try:
            signature.bind(*range(count))
        except TypeError:
            raise refuse(
                f"the step of iterate takes {signature}, but iterate carries {count} "
                f"value{'s' if count > 1 else ''} and calls it with as many",
            ) from None
    return names if len(names) == count else [f"state{i}" for i in range(count)]
