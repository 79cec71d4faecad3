"""What `x ← A x + c` comes to after many steps, in logarithmic depth.

After T steps, x = A^T x_0 + z_T. Now `A^(a+b+c) = A^a A^b A^c` is one attention layer, and so is
`z_(a+b+c) = z_a + A^a z_b + A^a A^b z_c`. With a, b, c the near-thirds of T two neighbouring
exponents per level suffice. The levels are those of a ternary tree whose leaves are the factors: T
of them in A^T, one more with x_0, one more with a read-out u in front. So a read-out takes a layer
of its own only if the tree is full; otherwise `u A^a`, carried beside the powers, is one of the
last layer's three factors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from inweave.compiler.entrywise import entrywise
from inweave.compiler.forms import ONE, Form, Forms
from inweave.compiler.naming import Names, joined
from inweave.exact import constants
from inweave.exact.constants import Constant, Dense, Ones, Shift, added, is_zero, product
from inweave.exact.rational import integers

EXACT = 1000  # steps whose constants are added up: exact numbers get longer with every one of them
GROWTH = 4  # of what T steps do to a value, for each of them: see `keeps_digits`
MOST_SHIFTS, MOST_DIAGONALS = 64, 8  # of a power of shifts; if there are more, it is dense


class Recurrence:
    """`x ← A x + c` from a start: powers, sums, states and read-outs, each stored once."""

    def __init__(self, A: Form, c: Form, start: Form, names: Names, forms: Forms) -> None:
        self.start, self.names, self.forms = start, names, forms
        self._powers = {1: A}
        self._sums = {0: forms.form(start.rows, start.cols), 1: c}
        self._states = {0: start}
        self._rows: dict[tuple[Form, int], Form] = {}
        self._totals = {1: forms.identity(start.rows)}

    def power(self, e: int) -> Form:
        """A^e."""
        if e not in self._powers and self._dense is not None:
            k, c = self._dense
            scale, raised = constants.power(k, e)
            self._powers[e] = self.forms.constant(raised, scale * c**e)
        if e not in self._powers:
            chain = [self.power(part) for part in thirds(e) if part]
            self._powers[e] = self.forms.bind(self._product(chain), self._power_name(e))
        return self._powers[e]

    def sum(self, e: int) -> Form:
        """z_e = c + A c + ... + A^(e-1) c."""
        if e not in self._sums:
            out = self._after(thirds(e), self.sum)
            self._sums[e] = self.forms.bind(out, self.names.sum(e))
        return self._sums[e]

    def state(self, e: int) -> Form:
        """x_e = A^e x_0 + z_e."""
        if self.start.is_zero:
            return self.sum(e)
        if e not in self._states:
            out = self._after(thirds(e), self.state)
            self._states[e] = self.forms.bind(out, self.names.state(e))
        return self._states[e]

    def last(self, e: int) -> Form:
        """x_e as a sum of products, not stored.

        Two parts where both fit one level below: then a factor in front of the sum fits too. With
        a constant A there is nothing to compute but A^e and A^0 + ... + A^(e-1).
        """
        if self._is_exact(e):
            parts = [(ONE, self.forms.form(self.start.rows, self.start.cols))]
            for made, of in ((self.power, self.start), (self._all, self._sums[1])):
                parts += [] if of.is_zero else [(ONE, self._product([made(e), of]))]
            return self.forms.combine(parts)
        factors = e if self.start.is_zero else e + 1
        below = 1
        while 3 * below < factors:
            below *= 3
        halves = -(-e // 2), 0, e // 2
        split = halves if factors <= 2 * below else thirds(e)
        out, first = self._after(split, self.state), self.sum(split[0])
        later = repr(self.forms.combine([(ONE, out), (-ONE, first)]))
        self.forms.called[later] = self.names.gain(e, split[0])
        return out

    def _is_exact(self, e: int) -> bool:
        A = self._powers[1]
        return A.is_constant and (e <= EXACT or A.is_identity)

    def keeps_digits(self, e: int) -> bool:
        """Whether what e steps come to is a constant that loses no more digits than they do.

        A^e is exact and rounded once, entry by entry, so `A^e x` is off by about 2^-53 |A^e| |x|.
        Steps round their first product, which is `A^(e-1) r` in the end, with |r| about
        2^-53 |A| |x|: as much, for |A^e| <= |A^(e-1)| |A|, and each step adds its own. Only where
        they happen to round nothing, as with small integers, may they lose less; what is then lost
        is of no account while |A^e| 1 <= O(e), which is what the errors of e steps add up to if A
        keeps sizes, and so for the sum of A^0 ... A^(e-1) while it is O(e^2).
        """
        if not self._is_exact(e):
            return False
        most, sums = GROWTH * e, not self._sums[1].is_zero
        return _growth(self.power(e)) <= most and not (
            sums and 2 * _growth(self._all(e)) > most * e
        )

    def _all(self, e: int) -> Form:
        """A^0 + ... + A^(e-1) of a constant A, by halves."""
        if e not in self._totals and self._dense is not None:
            scale, total = constants.geometric(added([self._dense[::-1]]), e)
            self._totals[e] = self.forms.constant(total, scale)
        if e not in self._totals:
            a, b = -(-e // 2), e // 2
            later = self._product([self.power(b), self._all(a)])
            self._totals[e] = self.forms.total(later, self._all(b))
        return self._totals[e]

    @property
    def _dense(self) -> tuple[Constant, Fraction] | None:
        """A constant A that has to be written out, and its coefficient."""
        found = self._powers[1].constants if self._powers[1].is_constant else ()
        return found[0] if len(found) == 1 and isinstance(found[0][0], Dense) else None

    def read(self, u: Form, e: int) -> Form:
        """u x_e, with u carried through the powers; the smallest third stands beside u."""
        if self._is_exact(e):
            return self.forms.product((), [u, self.last(e)])
        large, middle, small = thirds(e)
        ahead = self._carried(u, small)
        chains = (
            [u, self.sum(small)],
            [ahead, self.sum(large)],
            [ahead, self.power(large), self.state(middle)],
        )
        return self.forms.combine([(ONE, self.forms.product((), chain)) for chain in chains])

    def _carried(self, u: Form, e: int) -> Form:
        """u A^e."""
        if e == 0:
            return u
        if (u, e) not in self._rows:
            *parts, small = thirds(e)
            chain = [self._carried(u, small), *(self.power(part) for part in parts if part)]
            name = joined([u, self.names.power(e)])
            self._rows[u, e] = self.forms.bind(self.forms.product((), chain), name)
        return self._rows[u, e]

    def _after(self, split: tuple[int, int, int], end: Callable[[int], Form]) -> Form:
        """z_a + A^a z_b + A^a A^b end(c)."""
        a, b, c = split
        terms, chain = [(ONE, self.sum(a))], [self.power(a)]
        if b:
            terms.append((ONE, self._product([*chain, self.sum(b)])))
            chain.append(self.power(b))
        terms.append((ONE, self._product([*chain, end(c)])))
        return self.forms.combine(terms)

    def _product(self, chain: Sequence[Form]) -> Form:
        return self.forms.product((), chain)

    def _power_name(self, e: int) -> str:
        return self.names.power(e)


class Entrywise(Recurrence):
    """`x ← a * x + c` entry by entry: the same, with vectors in place of matrices."""

    def _product(self, chain: Sequence[Form]) -> Form:
        if any(f.is_zero for f in chain):
            return self.forms.form(chain[0].rows, chain[0].cols)
        return entrywise(self.forms, chain)

    def _power_name(self, e: int) -> str:
        return ""  # `A³` would be said of matrices

    def read(self, u: Form, e: int) -> Form:
        return self.forms.product((), [u, self.last(e)])


def _growth(f: Form) -> Fraction:
    """What the entries of a vector come to at most, times a constant, if they are one at most."""
    return sum((abs(c) * _row_sum(k) for k, c in f.constants), Fraction(0))


def _row_sum(k: Constant) -> Fraction:
    """The largest sum of the sizes in a row."""
    if isinstance(k, Shift):
        return Fraction(min(k.size, 1))
    if isinstance(k, Ones):
        return Fraction(k.cols)
    top, bottom = k.whole
    return Fraction(int(integers(abs(top)).sum(axis=1).max(initial=0)), bottom)


def is_written_out(A: Form, times: int) -> bool:
    """Whether the powers of a constant sum are one dense constant each, up to so many steps.

    Those of shifts in one direction are sums of few shifts; around, of many that stand on few
    diagonals; up and down, of more with every step, and soon of more than a matrix has rows twice.
    """
    once = {k for k, _ in A.constants}
    if not all(isinstance(k, Shift) for k in once) or len(once) == 1 or A.rows != A.cols:
        return any(isinstance(k, Dense) for k in once)
    found: set[Any] = set(once)
    for _ in range(min(times, MOST_SHIFTS) - 1):  # one more in every step is too many by then
        found = {k for a in once for b in found if not is_zero(k := product(a, b)[1])}
        if len(found) > min(MOST_SHIFTS, 2 * A.rows):
            short = A.rows * 2 < MOST_SHIFTS
            return short or len({k.row - k.col for k in found}) > MOST_DIAGONALS
    return False


def thirds(e: int) -> tuple[int, int, int]:
    """Near-thirds of an exponent, largest first."""
    a, c = -(-e // 3), e // 3
    return a, e - a - c, c


def diagonal(matrix: Form, forms: Forms) -> Form | None:
    """The vector of a matrix all of whose terms are seen to be diagonal; else None.

    `a * x` entry by entry is `Σ_j E_jj a e_jᵀ x`, and `Σ_j E_jj a` is a again.
    """
    if matrix.rows == 1:
        return None  # a number: nothing is gained
    ones, found = forms.constant(Ones(matrix.rows, 1)), list[tuple[Fraction, Form]]()
    alike: dict[tuple[tuple[Form, ...], tuple[Form, ...]], list[tuple[Fraction, Constant]]] = {}
    for c, k in ((c, k) for k, c in matrix.constants):
        if not k.is_identity():
            return None
        found.append((c, ones))
    for p, _, c in matrix.products:  # a diagonal matrix is its own transpose
        chain = list(p.chain)
        if chain[0].is_identity:
            found.append((c, forms.product(p.scalars, [ones])))
            continue
        if chain[-1].rows > 1:
            chain = list(forms.mirrored(chain))
        if chain[-1].rows > 1:  # E_ji is e_j e_iᵀ
            if _row(chain[0]) != _row(forms.transpose(chain[0])):
                chain = list(forms.mirrored(chain))
            end = chain[-1]
            row, col = _row(end), _row(forms.transpose(end))
            if row is None or col is None:
                return None
            units = Shift(end.rows, 1, row, 0, 1), Shift(1, end.cols, 0, col, 1)
            chain[-1:] = map(forms.constant, units)
        at = _row(chain[0])
        if len(chain) < 3 or at is None or at != _row(forms.transpose(chain[-1])):
            return None
        key = p.scalars, tuple(chain[1:-1])
        alike.setdefault(key, []).append((c, chain[0].constants[0][0]))
    if not alike or matrix.leaves:
        return None
    for (scalars, inner), parts in alike.items():
        found.append((ONE, forms.product(scalars, [forms.constant(added(parts)), *inner])))
    return forms.combine(found)


def _row(f: Form) -> int | None:
    """The row of a unit in which a constant has its only entry."""
    units = [k for k, c in f.constants if isinstance(k, Shift) and k.size == c == 1]
    return units[0].row if f.is_constant and len(f.constants) == len(units) == 1 else None
