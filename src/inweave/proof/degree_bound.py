"""An upper bound on the degree of a program's answers, in no more time than the program is long.

Degrees are added in products and the larger one counts in sums, so a step of a loop takes the
degrees of what it carries to others by a function F whose every entry is the largest of some sums
`a + Σ c_i d_i` with natural a and c: convex along every line. So where F moves d by v and d + v by
v again, and also moves d + (T - 1) v by v, it does so at every point between, and T steps from d
lead to d + T v. (A convex function that meets a line at three points is that line between the
outermost ones.) The same is tried for a few steps together, which may move degrees in turn. Where
degrees multiply, F(d) <= M F(1, ..., 1) for M the largest of d bounds every step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from inweave.exact.arithmetic import is_zero
from inweave.language import expressions as ex
from inweave.language.expressions import Expr
from inweave.language.program import Traced

FIRST = 50  # steps of a loop that are taken one by one, after which degrees move regularly
PERIODS = range(1, 7)

Degree = int | None  # None is the degree of zero
Degrees = tuple[Degree, ...]


def degree_bound(traced: Traced) -> int:
    """At most this is the degree of the answers; of a program without functions."""
    order = ex.ordered(traced.outputs.values())
    known: dict[Expr, Degree] = {x: 1 for x in order if isinstance(x, ex.InputExpr)}
    _fill(order, known)
    return max(0, *(known[x] or 0 for x in traced.outputs.values()))


def _fill(order: Sequence[Expr], known: dict[Expr, Degree]) -> None:
    loops: dict[ex.Loop, Degrees] = {}
    for x in order:
        if x in known:
            continue
        if isinstance(x, ex.LoopResult):
            if x.loop not in loops:
                start = tuple(known[y] for y in x.loop.init)
                step = partial(_step, x.loop, {y: known[y] for y in x.loop.outer})
                loops[x.loop] = _repeated(step, start, x.loop.times)
            known[x] = loops[x.loop][x.index]
        else:
            known[x] = _degree(x, [known[part] for part in x.parts])


def _step(loop: ex.Loop, outside: dict[Expr, Degree], state: Degrees) -> Degrees:
    known = outside | dict(zip(loop.carried, state, strict=True))
    _fill(loop.body, known)
    return tuple(known[x] for x in loop.step)


def _degree(x: Expr, parts: Sequence[Degree]) -> Degree:
    match x:
        case ex.ConstantExpr():
            return None if is_zero(x.constant) else 0
        case ex.Sum():
            terms = zip(x.terms, parts, strict=True)
            return max((d for (c, _), d in terms if c and d is not None), default=None)
        case ex.Product() | ex.Scaled() | ex.Entrywise():
            left, right = parts
            return None if left is None or right is None else left + right
        case ex.Transposed() | ex.Held():
            return parts[0]
    raise ValueError(f"{x!r} is no polynomial")


def _repeated(step: Callable[[Degrees], Degrees], state: Degrees, times: int) -> Degrees:
    """The degrees after so many steps, or more."""
    for _ in range(min(times, FIRST)):
        state = step(state)
    times -= min(times, FIRST)
    for period in PERIODS:
        turns, rest = divmod(times, period)
        after = _moved(partial(_times, step, period), state, turns)
        if after is not None:
            return _times(step, rest, after)
    factor = max((d for d in step((1,) * len(state)) if d is not None), default=0)
    largest = max((d for d in state if d is not None), default=0)
    return tuple(max(1, factor) ** times * max(1, largest) for _ in state)


def _times(step: Callable[[Degrees], Degrees], times: int, state: Degrees) -> Degrees:
    for _ in range(times):
        state = step(state)
    return state


def _moved(step: Callable[[Degrees], Degrees], start: Degrees, times: int) -> Degrees | None:
    """The degrees after so many steps, if each moves them in the same way."""
    if times == 0:
        return start
    first = step(start)
    if [d is None for d in first] != [d is None for d in start]:
        return None
    by = [0 if a is None or b is None else b - a for a, b in zip(start, first, strict=True)]

    def at(steps: int) -> Degrees:
        return tuple(None if d is None else d + steps * v for d, v in zip(start, by, strict=True))

    regular = all(step(at(steps)) == at(steps + 1) for steps in {min(1, times - 1), times - 1})
    return at(times) if regular else None
