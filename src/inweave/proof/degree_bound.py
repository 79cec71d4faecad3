"""The degree of a program's answers, or a bound of it, in no more time than the program is long.

Degrees are added in products and the larger one counts in sums, so a step of a loop takes the
degrees of what it carries to others by a function F whose every entry is the largest of some sums
`a + Σ c_i d_i` with natural a and c: convex along every line. So where F takes d to d + v, that to
d + (1 + r) v, and d + s v to d + (1 + r s) v for a large s, it does so for every smaller one, and T
steps from d lead to d + (1 + r + ... + r^(T-1)) v. (A convex function that meets a line at three
points is that line between the outermost ones.) The same is tried for a few steps together, which
may move degrees in turn. Else F(d) <= M F(1, ..., 1) for M the largest of d bounds every step.

Such a bound is the degree if nothing cancels, and that can often be told from signs. A value whose
leading form has coefficients of one sign only, in every entry, keeps that in products, and in sums
if all terms of the highest degree have the same sign. Signs go through loops with the degrees:
between two points at which F is a line, the terms that are largest are always the same ones (each
is convex and below that line, so it meets it everywhere or nowhere between), hence a step that
keeps the signs at both ends and at one point between them keeps them at every point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from inweave.exact.constants import Constant, Shift, is_zero
from inweave.language import expressions as ex
from inweave.language.expressions import Expr
from inweave.language.program import Traced

FIRST = 50  # steps of a loop that are taken one by one, after which degrees move regularly
PERIODS = range(1, 7)
LARGEST = 10_000  # entries of constants whose signs are looked at
ALIKE: Mapping[str, int] = {}  # weights of inputs that count once each

Degree = int | None  # None is the degree of zero
Degrees = tuple[Degree, ...]
Lead = tuple[Degree, int]
"""At most this degree; and exactly this one, with that sign, if that is not 0."""
Step = Callable[[Degrees], Degrees]


def degree_bound(traced: Traced, weights: Mapping[str, int] = ALIKE) -> int:
    """At most this is the degree of the answers; of a program without functions."""
    return leading(traced, weights)[0]


def leading(traced: Traced, weights: Mapping[str, int] = ALIKE) -> tuple[int, bool]:
    """At most this is the degree of the answers, and whether it is known to be that.

    An input counts once in a degree, or as often as its weight says.
    """
    order = ex.ordered(traced.outputs.values())
    known: dict[Expr, Lead] = {
        x: (weights.get(x.name, 1), 1) for x in order if isinstance(x, ex.InputExpr)
    }
    _fill(order, known)
    found = [known[x] for x in traced.outputs.values()]
    most = max(0, *(degree or 0 for degree, _ in found))
    return most, most == 0 or any(sign for degree, sign in found if degree == most)


def _fill(order: Sequence[Expr], known: dict[Expr, Lead]) -> None:
    loops: dict[ex.Loop, list[Lead]] = {}
    for x in order:
        if x in known:
            continue
        if isinstance(x, ex.LoopResult):
            if x.loop not in loops:
                start = [known[y] for y in x.loop.init]
                outside = {y: known[y] for y in x.loop.outer}
                loops[x.loop] = _looped(x.loop, outside, start)
            known[x] = loops[x.loop][x.index]
        else:
            known[x] = _lead(x, [known[part] for part in x.parts])


def _looped(loop: ex.Loop, outside: dict[Expr, Lead], start: Sequence[Lead]) -> list[Lead]:
    """What a loop ends with: with signs, if they become regular, or without."""
    degrees, signs = tuple(d for d, _ in start), tuple(sign for _, sign in start)

    def signed(state: Degrees) -> Degrees:
        return _step(loop, outside, state)

    def unsigned(state: Degrees) -> Degrees:
        return _step(loop, outside, (*state, *(0 for _ in state)))[: len(state)]

    found = _regular(signed, (*degrees, *signs), loop.times)
    if found is None:
        return [(d, 0) for d in _repeated(unsigned, degrees, loop.times)]
    pairs = zip(found[: len(start)], found[len(start) :], strict=True)
    return [(degree, sign or 0) for degree, sign in pairs]


def _step(loop: ex.Loop, outside: dict[Expr, Lead], state: Degrees) -> Degrees:
    """Degrees, then signs, of what is carried after one step."""
    half = len(loop.carried)
    leads = ((d, sign or 0) for d, sign in zip(state[:half], state[half:], strict=True))
    known = outside | dict(zip(loop.carried, leads, strict=True))
    _fill(loop.body, known)
    after = [known[x] for x in loop.step]
    return (*(d for d, _ in after), *(sign for _, sign in after))


def _lead(x: Expr, parts: Sequence[Lead]) -> Lead:
    match x:
        case ex.ConstantExpr():
            return (None, 0) if is_zero(x.constant) else (0, _sign(x.constant))
        case ex.Sum():
            terms = [
                (d, sign if c > 0 else -sign)
                for (c, _), (d, sign) in zip(x.terms, parts, strict=True)
                if c and d is not None
            ]
            top = max((d for d, _ in terms), default=None)
            signs = {sign for d, sign in terms if d == top}
            return top, signs.pop() if len(signs) == 1 else 0
        case ex.Product() | ex.Scaled() | ex.Entrywise():
            (left, one), (right, other) = parts
            return (None, 0) if left is None or right is None else (left + right, one * other)
        case ex.Transposed() | ex.Held():
            return parts[0]
    raise ValueError(f"{x!r} is no polynomial")


def _sign(constant: Constant) -> int:
    """The sign of all entries of a constant, or 0."""
    if constant.rows * constant.cols > LARGEST or (
        isinstance(constant, Shift) and constant.size < constant.rows * constant.cols
    ):
        return 0
    entries = constant.entries()
    return 1 if np.all(entries > 0) else -1 if np.all(entries < 0) else 0


# -- loops ----------------------------------------------------------------------------------------
def _repeated(step: Step, state: Degrees, times: int) -> Degrees:
    """The degrees after so many steps, or more."""
    found = _regular(step, state, times)
    if found is not None:
        return found
    state = _times(step, min(times, FIRST), state)
    factor = max((d for d in step((1,) * len(state)) if d is not None), default=0)
    largest = max((d for d in state if d is not None), default=0)
    return tuple(max(1, factor) ** (times - FIRST) * max(1, largest) for _ in state)


def _regular(step: Step, state: Degrees, times: int) -> Degrees | None:
    """The numbers after so many steps, if they become regular after some."""
    state = _times(step, min(times, FIRST), state)
    times -= min(times, FIRST)
    for period in PERIODS:
        turns, rest = divmod(times, period)
        after = _moved(partial(_times, step, period), state, turns)
        if after is not None:
            return _times(step, rest, after)
    return None


def _times(step: Step, times: int, state: Degrees) -> Degrees:
    for _ in range(times):
        state = step(state)
    return state


def _moved(step: Step, start: Degrees, times: int) -> Degrees | None:
    """The numbers after so many steps, if each moves them on along a line, r times as far."""
    if times == 0:
        return start
    first = step(start)
    if times == 1:
        return first
    second = step(first)
    if not [d is None for d in start] == [d is None for d in first] == [d is None for d in second]:
        return None
    by = [(b or 0) - (a or 0) for a, b in zip(start, first, strict=True)]
    ratio = _ratio(by, [(b or 0) - (a or 0) for a, b in zip(first, second, strict=True)])
    if ratio is None:
        return None

    def at(place: int) -> Degrees:
        return tuple(None if d is None else d + place * v for d, v in zip(start, by, strict=True))

    last = times - 1 if ratio == 1 else (ratio ** (times - 1) - 1) // (ratio - 1)
    end = at(1 + ratio * last)
    return end if step(at(last)) == end else None


def _ratio(by: Sequence[int], after: Sequence[int]) -> int | None:
    """How many times as far a second step moves, if that is a whole number."""
    ratio = next((b // a for a, b in zip(by, after, strict=True) if a), 1)
    return ratio if ratio >= 1 and [ratio * a for a in by] == list(after) else None
