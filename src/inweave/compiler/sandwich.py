"""What `x ← L x R + c`, or `x ← L xᵀ + c`, comes to after many steps, in logarithmic depth.

With Λ_a what a steps multiply by, `z_(a+b) = z_a + Λ_a z_b`: no longer a matrix, but one factor on
either side, `Λ_a z = L^a z R^a`. So z_e is a sum of such products of shorter sums, each of them one
head, and a layer goes as far as the powers that are there and the longest sum that is there reach
together: from 3^k powers and z of (3^k + 1)/2 steps to (3^(k+1) + 1)/2.

A step that transposes multiplies on the left and on the right in turn: for `x ← L xᵀ + c`,
`Λ_a z = L^⌈a/2⌉ z L^⌊a/2⌋ᵀ`, with z transposed if a is odd.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from inweave.compiler.affine import FIXED, Places
from inweave.compiler.forms import ONE, Form, Forms
from inweave.compiler.naming import Names
from inweave.compiler.recurrence import thirds

Level = Callable[[Form], int]  # after how many layers a form can be read


class Powers:
    """The powers of a matrix, each stored once; of none, nothing."""

    def __init__(self, matrix: Form | None, names: Names, forms: Forms, level: Level) -> None:
        self.names, self.forms, self.exists = names, forms, matrix is not None
        self._known: dict[int, Form] = {}
        self.level = 0
        if matrix is not None:
            bound = forms.bind(matrix, names.power(1)) if matrix.products else matrix
            self._known[1], self.level = bound, level(bound)

    def __call__(self, e: int) -> list[Form]:
        """The power as factors of a product."""
        return [self._power(e)] if e and self.exists else []

    def _power(self, e: int) -> Form:
        if e not in self._known:
            chain = [self._power(part) for part in thirds(e) if part]
            made = self.forms.product((), chain)
            self._known[e] = self.forms.bind(made, self.names.power(e))
        return self._known[e]

    def largest(self, layers: int) -> int:
        """The largest exponent that is there after so many layers."""
        return int(3 ** (layers - self.level)) if layers >= self.level else 0


@dataclass(frozen=True)
class Around:
    """What stands on either side of a value after so many steps."""

    left: Powers
    right: Powers
    turned: bool
    forms: Forms

    def __call__(self, steps: int, f: Form) -> Form:
        ahead, behind = self._counts(steps)
        if not self.turned:
            return self.forms.product((), [*self.left(ahead), f, *self.right(behind)])
        f = self.forms.transpose(f) if steps % 2 else f
        if self.left.exists:
            back = [self.forms.transpose(g) for g in self.left(behind)]
            return self.forms.product((), [*self.left(ahead), f, *back])
        front = [self.forms.transpose(g) for g in self.right(ahead)]
        return self.forms.product((), [*front, f, *self.right(behind)])

    def _counts(self, steps: int) -> tuple[int, int]:
        """Exponents on the left and on the right."""
        if not self.turned:
            return steps, steps
        more, less = -(-steps // 2), steps // 2
        return (more, less) if self.left.exists else (less, more)

    def farthest(self, layers: int) -> int:
        """Of how many steps these are there after so many layers."""
        each = [side.largest(layers) for side in (self.left, self.right) if side.exists]
        return min(each) * (2 if self.turned else 1)


class Sandwich:
    """Sums and states of a loop, each stored once."""

    def __init__(
        self, around: Around, constant: Form, start: Form, names: Names, level: Level
    ) -> None:
        forms = around.forms
        self.around, self.names, self.forms, self.level = around, names, forms, level
        if constant.products:
            constant = forms.bind(constant, names.sum(1))
        start = forms.bind(start, names.state(0)) if start.products else start
        self._sums, self._states = {1: constant}, {0: start}
        self._reached: dict[tuple[bool, int], int] = {}

    def last(self, e: int) -> Form:
        """x_e as a sum of products, not stored."""
        return self._value(e, not self._states[0].is_zero)

    @cached_property
    def _first(self) -> dict[bool, int]:
        """After how many layers the first sum and the first state are there."""
        return {False: self.level(self._sums[1]), True: self.level(self._states[0])}

    def _reach(self, state: bool, layers: int) -> int:
        """The steps of the longest sum or state that is there after so many layers; -1: none."""
        key = (state, layers)
        if key not in self._reached:
            here = (0 if state else 1) if layers >= self._first[state] else -1
            if layers > 0:
                below = self._reach(state, layers - 1)
                sums = self._sums[1].is_zero or self._reach(False, layers - 1) > 0
                if below >= 0 and sums:
                    here = max(here, self.around.farthest(layers - 1) + below)
            self._reached[key] = here
        return self._reached[key]

    def _stored(self, e: int, state: bool) -> Form:
        known = self._states if state else self._sums
        if e not in known:
            name = self.names.state(e) if state else self.names.sum(e)
            known[e] = self.forms.bind(self._value(e, state), name)
        return known[e]

    def _value(self, e: int, state: bool) -> Form:
        """Sums after one another, the last of which may be a state."""
        if e == (0 if state else 1):
            return self._stored(e, state)
        layers = 1
        while self._reach(state, layers) < e:
            layers += 1
        far, longest = self.around.farthest(layers - 1), self._reach(state, layers - 1)
        end = min(max(round(e / 3), e - far, 0 if state else 1), longest)
        terms = [(ONE, self.around(e - end, self._stored(end, state)))]
        if not self._sums[1].is_zero:
            at, most = 0, self._reach(False, layers - 1)
            parts = max(-(-(e - end) // most), min(2, e - end))
            for i in range(parts):
                size = (e - end - at) // (parts - i)
                terms.append((ONE, self.around(at, self._stored(size, False))))
                at += size
        return self.forms.combine(terms)


def sandwich(
    places: Places,
    start: Form,
    names: Callable[[Form, bool], Names],  # of a matrix, and whether it stands on the right
    forms: Forms,
    level: Level,
) -> Sandwich | None:
    """What a loop over one value comes to if that stands in one place of its step; else None."""
    found = [(place, left) for place, left in places.items() if place != FIXED]
    if len(found) != 1:
        return None
    ((place, left),) = found
    right = place.right
    one, other = not left.is_identity, right is not None
    if not (one or other) or (place.turned and one and other):
        return None
    constant = places.get(FIXED, forms.form(start.rows, start.cols))
    called = names(left, False)
    around = Around(
        Powers(left if one else None, called, forms, level),
        Powers(right, called if right is None else names(right, True), forms, level),
        place.turned,
        forms,
    )
    return Sandwich(around, constant, start, called, level)
