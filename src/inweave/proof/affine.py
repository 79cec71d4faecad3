"""Loops of affine steps, all their steps at once: z ← A z + c is a matrix and a column.

At a point of a field such a loop need not be followed. What its step does to what it carries is
written as a matrix A, block by block: the step itself is read, products with what is fixed are
multiplied up, and what does not move is left out; c is what a step makes of zero. Then powers of A
are squared. That is the program's own value at that point, by the laws of matrices and with nothing
drawn anew, so comparing it is as sure as if every step had been taken.

Over bounds, the step is taken once on values of norm one. It makes `(Σ aⱼ xⱼ + g) / s` of them,
where the norms of all aⱼ and of g add up to at most 2^b. From xⱼ = pⱼ / S it makes
`(Σ aⱼ pⱼ + g S) / (s S)`: if pⱼ have B bits, the next have b + max(B, bits(S)) at most, over s S,
and their degree is larger by that of one step. So T steps add no more than T max(b, bits(s)) bits
to the larger of B and bits(S).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from inweave.exact.arithmetic import Arithmetic
from inweave.exact.constants import Array
from inweave.language import evaluate
from inweave.language import expressions as ex
from inweave.proof.heights import VARIABLE, Bounded, Height, Heights, bits_of, common, power

FEW = 32  # steps that are taken one by one
LARGEST = 600  # entries of a column of what is carried
PASSES = 40  # multiplications that reading an entry of a matrix is worth


class NotAffine(Exception):
    """A step is not seen to be affine in what it carries."""


class Moving:
    """A value that is linear in what a loop carries: `Σ Mᵢ zᵢ`, or the transpose of that.

    A part that is None is the identity.
    """

    def __init__(self, parts: dict[int, Array | None], turned: bool) -> None:
        self.parts, self.turned = parts, turned


class Step:
    """What one step of a loop does to what it carries, as matrices; everything else is known."""

    def __init__(self, loop: ex.Loop, known: evaluate.Known, arithmetic: Arithmetic) -> None:
        self.loop, self.known, self.arithmetic = loop, known, arithmetic
        self.turned, shapes = columns_of(loop)
        self.sizes = [rows for rows, _ in shapes]
        self.moving: dict[ex.Expr, Moving] = {
            x: Moving({i: None}, self.turned[i]) for i, x in enumerate(loop.carried)
        }
        for x in loop.body:
            found = self._moved(x)
            self.moving[x] = Moving(found.parts, found.turned and not x.is_scalar)

    def rows(self) -> list[list[Array]]:
        """A, as blocks."""
        out = []
        for i, x in enumerate(self.loop.step):
            found = self.moving.get(x, Moving({}, self.turned[i]))
            if found.turned != self.turned[i]:
                raise NotAffine
            out.append([self._part(found, i, j) for j in range(len(self.sizes))])
        return out

    def _part(self, x: Moving, i: int, j: int) -> Array:
        if j not in x.parts:
            return self.arithmetic.zeros((self.sizes[i], self.sizes[j]))
        part = x.parts[j]
        return self._identity(j) if part is None else part

    def _identity(self, i: int) -> Array:
        return self.arithmetic.array(np.eye(self.sizes[i]))

    def _value(self, x: ex.Expr) -> Array:
        return evaluate.value(x, self.known, self.arithmetic)

    def _moved(self, x: ex.Expr) -> Moving:
        moving = [part in self.moving for part in x.parts]
        match x:
            case ex.Held():
                return self.moving[x.x]
            case ex.Transposed():
                return Moving(self.moving[x.x].parts, not self.moving[x.x].turned)
            case ex.Sum():
                return self._sum(x)
            case ex.Product(a=a, b=b) if not all(moving):
                return self._times(a, self.moving[b]) if moving[1] else self._after(a, b)
            case ex.Scaled(s=s, x=y) if not all(moving):
                return self._scaled(self.moving[y], s) if moving[1] else self._outer(s, y)
            case ex.Entrywise(a=a, b=b) if not all(moving) and x.cols == 1:
                fixed, other = (a, b) if moving[1] else (b, a)
                return self._scaled(self.moving[other], fixed)
        raise NotAffine

    def _sum(self, x: ex.Sum) -> Moving:
        terms = [(c, self.moving[y]) for c, y in x.terms if y in self.moving and c]
        if len({term.turned for _, term in terms}) > 1:
            raise NotAffine
        total: dict[int, Array] = {}
        for c, term in terms:
            for i, part in term.parts.items():
                full = self._identity(i) if part is None else part
                if c != 1:
                    full = full * self.arithmetic.number(c)
                total[i] = full if i not in total else total[i] + full
        return Moving(dict(total), terms[0][1].turned if terms else False)

    def _times(self, a: ex.Expr, x: Moving) -> Moving:
        """A fixed matrix times what moves."""
        if x.turned:
            raise NotAffine
        return self._multiplied(self._value(a), x)

    def _after(self, a: ex.Expr, b: ex.Expr) -> Moving:
        """What moves times a fixed matrix."""
        x = self.moving[a]
        if a.is_scalar:
            return self._outer(a, b)
        if x.turned:
            return self._multiplied(self._value(b).mT, x)
        if b.is_scalar:
            return self._scaled(x, b)
        raise NotAffine

    def _outer(self, s: ex.Expr, x: ex.Expr) -> Moving:
        """A scalar that moves, times a fixed column or row."""
        if x.cols == 1:
            return self._multiplied(self._value(x), self.moving[s])
        if x.rows != 1:
            raise NotAffine
        turned = self._multiplied(self._value(x).mT, self.moving[s])
        return Moving(turned.parts, True)

    def _multiplied(self, a: Array, x: Moving) -> Moving:
        parts = {i: a if part is None else a @ part for i, part in x.parts.items()}
        return Moving(dict(parts), x.turned)

    def _scaled(self, x: Moving, s: ex.Expr) -> Moving:
        """What moves, times a scalar, or entry by entry a column."""
        if x.turned and not s.is_scalar:
            raise NotAffine
        value = self._value(s)
        parts = {
            i: (self._identity(i) if part is None else part) * value for i, part in x.parts.items()
        }
        return Moving(dict(parts), x.turned)


def columns_of(loop: ex.Loop) -> tuple[list[bool], list[tuple[int, int]]]:
    """Which of the values that a loop carries lie, and their shapes as columns, all as wide."""
    shapes = [(x.cols, 1) if x.rows == 1 else x.shape for x in loop.carried]
    if len({cols for _, cols in shapes}) > 1:
        raise NotAffine
    return [x.rows == 1 < x.cols for x in loop.carried], shapes


def column_size(loop: ex.Loop) -> int | None:
    """How long a column of what a loop carries is, if its step is affine; None if not seen."""
    known: evaluate.Known = {x: Bounded(x.shape, VARIABLE) for x in loop.outer}
    try:
        step = Step(loop, known, Heights())
        step.rows()
    except NotAffine:
        return None
    return sum(step.sizes)


# -- at a point -----------------------------------------------------------------------------------
def powered(
    loop: ex.Loop, start: Sequence[Array], known: evaluate.Known, arithmetic: Arithmetic
) -> list[Array]:
    """What a loop ends with; NotAffine if its steps have to be taken."""
    if loop.times <= FEW or sum(rows for rows, _ in columns_of(loop)[1]) > LARGEST:
        raise NotAffine
    step = Step(loop, known, arithmetic)
    blocks = step.rows()
    A = arithmetic.concat([arithmetic.concat(row, -1) for row in blocks], -2)
    zero = [arithmetic.zeros(x.shape) for x in loop.carried]
    c = _stacked(evaluate.run(loop, zero, known, arithmetic, 1), step, arithmetic)
    z = _affine_power(A, c, _stacked(start, step, arithmetic), loop.times)
    ends = np.cumsum([0, *step.sizes])
    parts = [z[..., low:high, :] for low, high in pairwise(ends)]
    return [part.mT if turned else part for part, turned in zip(parts, step.turned, strict=True)]


def _stacked(values: Sequence[Array], step: Step, arithmetic: Arithmetic) -> Array:
    pairs = zip(values, step.turned, strict=True)
    return arithmetic.concat([x.mT if turned else x for x, turned in pairs], -2)


def _affine_power(A: Array, c: Array, z: Array, times: int) -> Array:
    """z after so many steps z ← A z + c: some by squaring, those that are left one by one."""
    size = A.shape[-1]
    while times:
        if times * PASSES * size**2 <= 2 * size**3:  # a square costs more than all that is left
            for _ in range(times):
                z = A @ z + c
            return z
        if times % 2:
            z = A @ z + c
        c, A, times = A @ c + c, A @ A, times // 2
    return z


# -- over bounds ----------------------------------------------------------------------------------
def bounded(
    loop: ex.Loop, start: Sequence[Bounded], known: evaluate.Known, arithmetic: Heights
) -> list[Bounded]:
    """Bounds of what a loop ends with; NotAffine if its steps have to be taken."""
    if loop.times <= FEW or column_size(loop) is None:
        raise NotAffine
    units = [Bounded(x.shape, Height()) for x in loop.carried]
    step = [x.height for x in evaluate.run(loop, units, known, arithmetic, 1)]
    begin = [x.height for x in start]
    if any(x.below or x.below_bits for x in (*step, *begin)):
        raise NotAffine
    scale, each = common(begin), common(step)
    most = max(bits_of(scale), *(x.bits for x in begin))
    more = max(bits_of(each), *(x.bits for x in step))
    height = Height(
        max(0, *(x.degree for x in begin)) + loop.times * max(0, *(x.degree for x in step)),
        most + loop.times * more,
        power(scale, each, loop.times),
    )
    return [Bounded(x.shape, height) for x in loop.carried]
