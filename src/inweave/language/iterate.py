"""Loops: a step is recorded once, and the network repeats one tied module."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from inweave.errors import InputError, ShapeError
from inweave.exact.whole import is_whole
from inweave.language.expressions import Carried, Expr, Loop, LoopResult, current
from inweave.language.refusals import refuse, user_line
from inweave.language.values import Value, lift


def iterate(step: Callable[..., Any], init: Any, times: int) -> Any:
    """Apply a step `times` times. Several carried values: pass and return tuples.

    The step is traced once; the network repeats one tied module.

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
    before = len(recording.made)
    with recording.step(recording.path):
        stepped = _stepped(step, carried)
    if times == 0:
        results = start
    else:
        made = {one() for one in recording.made[before:]}
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
