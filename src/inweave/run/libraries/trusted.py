"""Powers of any matrix: computed, looked at, and trusted if they kept the digits that steps keep.

The powers of a matrix that is not symmetric may be large on the way to a small answer, and their
rounding errors then too. Whether they are, is known with the data only, but quickly once they are
computed. With vᵢ the norm of the power Pᵢ (its largest sum of a row, or of a column), cᵢ that of
what so many steps add and x that of the value that it meets, in units of the rounding of a product

    squaring errs by vᵢ² and doubles what was there,      e ← vᵢ (2 e + vᵢ)
    what is added is added to its own power,              f ← (1 + vᵢ) (f + cᵢ) + e cᵢ
    and a product with the value brings all of it in,     g ← vᵢ (g + x) + e x + f + cᵢ

and g is compared with the answer, for every prompt by itself. Norms of products are rarely the
products of norms, and rounding errors are of either sign, so what is lost is less by orders of
magnitude: where g is ALLOWED roundings, about ten times what steps lose; but those of many steps do
add up. Where the matrix turns out to be symmetric, but for roundings, as Xᵀ D X with
a diagonal D, no power is larger than what it does: there is a rounding for every step at most, and
of few steps nothing more is looked at. Its square, which is there, tells: with A = S + K, S = Sᵀ
and K = -Kᵀ, the squares of all entries sum up to |A|² = |S|² + |K|², and the diagonal of A² to
|S|² - |K|². Eigenvalues are no further from those of S than K is large, so that powers differ by
(1 ± |K| / |S|)ᵏ from what those of S do: nothing, where k |K| is small beside |S|.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from inweave.exact.constants import Array
from inweave.run.libraries.compiled import einsum
from inweave.run.values.node import GROWTH, Powers

ALLOWED = 16384.0  # roundings that the bound may come to, beside the answer, times the root of rows
STRICT = 1 / 16  # of that for a power which is not seen beside an answer
FEW = 256  # steps, beyond which less is allowed
MANY = 1024  # steps, beyond which powers of symmetric matrices are looked at as well
MIRRORED = 0.0625  # of the norm of a step, squared: what all steps may differ from symmetric ones


@lru_cache(maxsize=64)
def all_kept(lead: tuple[int, ...]) -> Array:
    """That no prompt of a batch loses digits: one array for each shape, by which it is known."""
    found = np.zeros((*lead, 1, 1), bool)
    found.flags.writeable = False
    return found


KEPT = all_kept(())  # of one prompt
Sizes = tuple[Any, Any, Any]
"""The norms of powers, of both sides if they are on both, of what each adds, and of values."""

_greatest = np.maximum.reduce
_all = np.logical_and.reduce


class Look:
    """A look at powers: which prompts lost digits by them perhaps, and are to take the steps."""

    def __init__(self, made: Powers, dtype: Any) -> None:
        self.made, self.count = made, made.squarings + 1
        self.allowed = _allowed(made.repeat, made.rows)
        info = np.finfo(dtype)
        self.mirror = 0.5 * made.rows * made.repeat**2 / MIRRORED
        self.seen = 1.0 - self.mirror * 2.0 * made.rows * float(info.eps)  # beside roundings
        self.seen *= made.squarings > 0 and made.repeat <= MANY
        self.inside = (..., slice(made.rows), slice(made.rows))
        self.least = float(info.tiny / info.eps)  # of a sum of squares that tells anything
        each = np.eye(made.rows + made.beside, dtype=dtype)[:, made.rows - 1 :]  # sums A, and c
        each[: made.rows, 0] = 1.0
        self.each = each

    def __call__(self, arrays: Sequence[Array]) -> Array:
        lead = arrays[-1].shape[:-2]
        none = all_kept(lead)
        if self.seen > 0 and self.mirrored(*arrays[:2]):
            return none
        held, found = self.held(arrays), list[Sizes]()
        for sizes in (self.by_rows, self.by_columns):
            found.append(sizes(*held))
            if self.kept(*(_of_all(*found[-1]) if lead else found[-1])):
                return none
        if not lead:
            return ~KEPT
        with np.errstate(all="ignore"):  # what overflows is not kept
            kept: Array = self.kept(*found[0]) | self.kept(*found[1])
        return ~kept.reshape(none.shape)

    def kept(self, norms: Any, added: Any, values: Any) -> Any:
        """Whether digits are, of each prompt."""
        most = self.allowed * values[-1]
        return (self.error(norms, added, values) <= most) & (most < math.inf)

    def mirrored(self, step: Array, square: Array) -> bool:
        """Whether a step is symmetric but for what all of them together do not notice."""
        if self.made.beside:
            step, square = step[self.inside], square[self.inside]
        norm = einsum("...ij,...ij->...", step, step)
        apart = self.mirror * (norm - einsum("...ii->...", square)) + self.least
        near = apart < self.seen * norm
        return bool(near if step.ndim == 2 else _all(near, None))

    def held(self, arrays: Sequence[Array]) -> tuple[Array, Array]:
        """Absolute values: the first axis counts powers, which prompts may share, and columns."""
        rows, count = self.made.rows, self.count
        columns = arrays[count:]
        if self.made.beside:
            columns = [x[..., :rows, :] for x in columns]
        lead = columns[-1].shape
        if lead[:-2]:  # what is added may be that of all prompts
            columns = [x if x.shape == lead else np.broadcast_to(x, lead) for x in columns]
        return _sizes(arrays[:count]), _sizes(columns).reshape(len(columns), *lead[:-1])

    def by_rows(self, powers: Array, values: Array) -> Sizes:
        """The norms of powers, of what they add, and of values: their largest entries."""
        rows, shape = self.made.rows, powers.shape[:-1]
        sums = powers.reshape(-1, shape[-1]).dot(self.each)
        if not self.made.beside:
            return self.parted(_largest(sums.reshape(shape)), _largest(values))
        sums = sums.reshape(*shape, 2)[..., :rows, :]
        return _largest(sums[..., 0]), _largest(sums[..., 1]), _largest(values)

    def by_columns(self, powers: Array, values: Array) -> Sizes:
        """The same with sums of columns, which those of a Markov chain, qᵀ ← qᵀ P, never exceed."""
        rows = self.made.rows
        sums = einsum("...ij->...j", powers[..., :rows, :])
        norms, sizes = _largest(sums[..., :rows]), _listed(einsum("...i->...", values))
        if not self.made.beside:
            return self.parted(norms, sizes)
        return norms, _listed(sums[..., rows]), sizes

    def parted(self, norms: Any, values: Any) -> Sizes:
        """What powers add stands before the values, if it is there."""
        count = self.count
        if not self.made.added:
            return norms, [0.0] * count, values
        return norms, values[:count], values[count:]

    def error(self, norms: Sequence[Any], added: Sequence[Any], values: Sequence[Any]) -> Any:
        """The bound, in roundings of one product; NaN too where something is not finite."""
        repeat, last = self.made.repeat, self.made.squarings
        times = [repeat >> j if j == last else repeat >> j & 1 for j in range(last + 1)]
        met = iter([*[0.0] * (1 + sum(times) - len(values)), *values])  # it may begin with zero
        of_added: Any = 0.0
        of_value: Any = 0.0
        for j, ((v, of_power), c) in enumerate(zip(self.powers(norms), added, strict=True)):
            for _ in range(times[j]):
                of_value = v * of_value + (v + of_power) * next(met) + of_added + c
            if j < last:
                of_added = (1.0 + v) * (of_added + c) + of_power * c
        return of_value

    def powers(self, norms: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        """What multiplies in so many steps: its norm, and the bound of its error."""
        error: Any = 0.0
        for v in norms:
            yield v, error
            error = v * (2.0 * error + v)


class LookFromBothSides(Look):
    """The same for a matrix, `X ← L X R + C`.

    An entry of X is at most as large as all, times the sums of a row of L and of a column of R; and
    products err by L's error beside R, R's beside L, and once more where both are multiplied.
    """

    def __init__(self, made: Powers, dtype: Any) -> None:
        super().__init__(made, dtype)
        self.seen = 0.0  # symmetric ones are not told apart

    def held(self, arrays: Sequence[Array]) -> tuple[Any, ...]:
        sides, count, shape = self.made.sides, self.count, arrays[-1].shape
        stacked, rest = dict[str, Array](), list(arrays)
        for side in dict.fromkeys(sides):
            stacked[side], rest = _sizes(rest[:count]), rest[count:]
        if sides == "LL":
            stacked["R"] = stacked["L"].mT
        rest = [x if x.shape == shape else np.broadcast_to(x, shape) for x in rest]
        return stacked, _sizes(rest).reshape(len(rest), *shape[:-2], shape[-2] * shape[-1])

    def by_rows(self, powers: Any, values: Array) -> Sizes:
        sums = {"L": "...ij->...i", "R": "...ij->...j"}
        return self.parted(self.norms(powers, sums), _largest(values))

    def by_columns(self, powers: Any, values: Array) -> Sizes:
        sums = {"L": "...ij->...j", "R": "...ij->...i"}
        return self.parted(self.norms(powers, sums), _listed(einsum("...i->...", values)))

    def norms(self, powers: dict[str, Array], sums: dict[str, str]) -> tuple[Any, ...]:
        return tuple(_largest(einsum(sums[side], of)) for side, of in powers.items())

    def powers(self, norms: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        one, *other = (super(LookFromBothSides, self).powers(side) for side in norms)
        if not other:
            yield from one
            return
        for (v, error), (w, errors) in zip(one, *other, strict=True):
            yield v * w, v * errors + error * w + v * w


class LookAtPower:
    """A look at a power that is to multiply any value: what is lost is compared with itself.

    Nor may it be large, or a value that steps keep as it is would be lost. Doubled and added to,

        e ← v (2 e + v),   f ← (1 + v) f + e s + v s + s

    are the errors of a power of norm v and of what it adds, of norm s; a factor of A more, of norm
    a, brings each of them a (e + v) and a (f + s). Norms are roots of sums of squares. Beside what
    is added, a small power may lose more of its own digits, and errors that only a value larger by
    all digits would show are nothing.
    """

    def __init__(self, made: Powers, dtype: Any) -> None:
        self.repeat, self.bits = made.repeat, bin(made.repeat)[3:]
        self.count = 1 + sum(1 + int(bit) for bit in self.bits)
        self.allowed = STRICT * _allowed(made.repeat, made.rows)
        self.nothing = self.allowed * float(np.finfo(dtype).eps)

    def __call__(self, arrays: Sequence[Array]) -> Array:
        norms = [_norm(x) for x in arrays]
        powers, sums = norms[: self.count], norms[self.count :]
        most = GROWTH * self.repeat
        with np.errstate(all="ignore"):  # what overflows is not kept
            lost = self.lost(powers)
            kept = (lost <= self.allowed * powers[-1]) & (powers[-1] <= most)
            if sums:
                kept |= (lost <= self.allowed) & (lost <= self.allowed / STRICT * powers[-1])
                kept |= lost <= self.nothing
                kept &= self.lost(powers, sums) <= self.allowed * sums[-1]
                kept &= 2 * sums[-1] <= most * self.repeat * sums[0]
        return np.reshape(np.logical_not(kept), (*np.shape(kept), 1, 1))

    def lost(self, powers: Sequence[Any], sums: Sequence[Any] = ()) -> Any:
        """The bound of the error of the last one, or of the last sum, in roundings of a product."""
        error, of_sum, at, a = 0.0, 0.0, 0, powers[0]
        for bit in self.bits:
            v = powers[at]
            if sums:
                of_sum = (1.0 + v) * of_sum + (error + v + 1.0) * sums[at]
            error, at = v * (2.0 * error + v), at + 1
            if bit == "1":
                if sums:
                    of_sum = a * (of_sum + sums[at])
                error, at = a * (error + powers[at]), at + 1
        return of_sum if sums else error


def look(made: Powers, dtype: Any) -> Look | LookAtPower:
    """The look that powers like these need."""
    if made.itself:
        return LookAtPower(made, dtype)
    return LookFromBothSides(made, dtype) if made.sides else Look(made, dtype)


def _of_all(norms: Any, added: Any, values: Array) -> Sizes:
    """The largest of all prompts, beside their answers: no prompt's bound is above theirs."""
    last = values[-1]
    with np.errstate(all="ignore"):  # an answer may be zero
        each = tuple(map(_tops, norms)) if isinstance(norms, tuple) else _tops(norms)
        return each, _tops([x / last for x in added]), _tops(values / last)


def _allowed(repeat: int, rows: int) -> float:
    return ALLOWED * min(1.0, FEW / repeat) * math.sqrt(rows)


def _norm(x: Array) -> Any:
    """The root of the sum of squares, of every prompt."""
    squares = einsum("...ij,...ij->...", x, x)
    return math.sqrt(squares) if x.ndim == 2 else np.sqrt(squares)


def _sizes(arrays: Sequence[Array]) -> Array:
    """Absolute values of arrays of one shape, one after the other."""
    return abs(np.concatenate(arrays)).reshape(len(arrays), *arrays[0].shape)


def _tops(sizes: Any) -> Any:
    sizes = np.asarray(sizes)
    return sizes.reshape(len(sizes), -1).max(1, initial=0.0).tolist()


def _largest(rows: Array) -> Any:
    """The largest entry of every row, by columns, which is quicker where rows are short."""
    return _listed(_greatest(rows.reshape(-1, rows.shape[-1]).T.copy()).reshape(rows.shape[:-1]))


def _listed(norms: Array) -> Any:
    """In float64; those of one prompt as numbers of Python, which are quicker to compute with."""
    return norms.tolist() if norms.ndim == 1 else norms.astype(np.float64)
