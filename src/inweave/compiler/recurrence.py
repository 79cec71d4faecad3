"""What `x ← A x + c` comes to after many steps, in logarithmic depth.

After T steps, x = A^T x_0 + z_T. Now `A^(a+b+c) = A^a A^b A^c` is one attention layer, and so is
`z_(a+b+c) = z_a + A^a z_b + A^a A^b z_c`. With a, b, c the near-thirds of T two neighbouring
exponents per level suffice. The levels are those of a ternary tree whose leaves are the factors: T
of them in A^T, one more with x_0, one more with a read-out u in front. So a read-out takes a layer
of its own only if the tree is full; otherwise `u A^a`, carried beside the powers, is one of the
last layer's three factors.
"""

from __future__ import annotations

from collections.abc import Callable

from inweave.compiler.forms import ONE, Form, Forms
from inweave.compiler.naming import Names, joined


class Recurrence:
    """`x ← A x + c` from a start: powers, sums, states and read-outs, each stored once."""

    def __init__(self, A: Form, c: Form, start: Form, names: Names, forms: Forms) -> None:
        self.start, self.names, self.forms = start, names, forms
        self._powers = {1: A}
        self._sums = {0: forms.form(start.rows, start.cols), 1: c}
        self._states = {0: start}
        self._rows: dict[tuple[Form, int], Form] = {}

    def power(self, e: int) -> Form:
        """A^e."""
        if e not in self._powers:
            chain = [self.power(part) for part in thirds(e) if part]
            self._powers[e] = self.forms.bind(self.forms.product((), chain), self.names.power(e))
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

        Two parts where both fit one level below: then a factor in front of the sum fits too.
        """
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

    def read(self, u: Form, e: int) -> Form:
        """u x_e, with u carried through the powers; the smallest third stands beside u."""
        large, middle, small = thirds(e)
        ahead = self._carried(u, small)
        product = self.forms.product
        return self.forms.combine(
            [
                (ONE, product((), [u, self.sum(small)])),
                (ONE, product((), [ahead, self.sum(large)])),
                (ONE, product((), [ahead, self.power(large), self.state(middle)])),
            ]
        )

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
            terms.append((ONE, self.forms.product((), [*chain, self.sum(b)])))
            chain.append(self.power(b))
        terms.append((ONE, self.forms.product((), [*chain, end(c)])))
        return self.forms.combine(terms)


def thirds(e: int) -> tuple[int, int, int]:
    """Near-thirds of an exponent, largest first."""
    a, c = -(-e // 3), e // 3
    return a, e - a - c, c
