"""Division by a ReLU network, as printed in the paper's Appendix A.3.

An even f that decreases for x > 0 is replaced by a piecewise linear function through chosen points.
Each piece is a hard sigmoid, the difference of two ReLUs: r⁺ is the sum of those for x > 0, r⁻ of
those for x < 0, and σ_f = r⁺ + r⁻. With f(x) = 1/x² (`invsqr`), x σ_f(x) stands in for 1/x.

**Known loss.** For negative x, r⁺ is y_1 and r⁻ is f(x) - y_1. Each hard sigmoid of r⁻ is moreover
the difference of two ReLUs that both grow like α x, that is like y_1 |x|/x_1 for the steepest. Only
f(x) should be left, and float64 leaves it with an error of about 2⁻⁵² y_1 |x|/x_1: for 1/x² a
relative error of 2⁻⁵² (|x|/x_1)³, so no digit is right once |x| > 1.7e5 x_1. For positive x the
terms that would cancel are exact zeros and nothing is lost. The sum is kept as printed;
`Sigma.piecewise` is what it should give, and inweave's own reciprocal uses a stable form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from inweave.errors import InputError, ShapeError
from inweave.exact.constants import Array, exact, fractions, real_array
from inweave.model.layers import PointwiseLayer
from inweave.model.relunet import relu

Function = Callable[[Any], Any]
MOST_KNOTS = 1_000_000


def inverse_square(x: Any) -> Any:
    """`1 / x²`, the f of the paper's division; exact for Fractions."""
    return 1 / (x * x)


@dataclass(frozen=True, eq=False)
class Sigma:
    """σ_f of equation (117), made by `sigma` or `invsqr`.

    `knots` are the paper's x_1 < ... < x_{n+1} and `values` its y_1 > ... > y_{n+1} = 0. Hard
    sigmoid k, counted from 0, lies between knots[k] and knots[k + 1]; the paper counts it k + 2.
    Fractions in, Fractions out: σ_f is evaluated exactly at rational x, and in float64 at floats.
    """

    knots: Array
    values: Array

    @property
    def pieces(self) -> int:
        """n, the number of hard sigmoids on each side; σ_f has 4n ReLU units."""
        return len(self.knots) - 1

    @property
    def domain(self) -> tuple[Any, Any]:
        """(x_1, x_n): the |x| between which σ_f interpolates f; after x_n it falls to 0."""
        return self.knots[0], self.knots[-2]

    @cached_property
    def _floats(self) -> tuple[Array, Array, Array]:
        return _with_slopes(self.knots.astype(np.float64), self.values.astype(np.float64))

    @cached_property
    def _exact(self) -> tuple[Array, Array, Array]:
        return _with_slopes(fractions(self.knots), fractions(self.values))

    def _numbers(self, x: Any) -> tuple[Array, Array, Array, Array]:
        x = real_array("x", x)
        return (x, *(self._exact if x.dtype == object else self._floats))

    @property
    def slopes(self) -> Array:
        """α_k⁺ = α_k⁻ of equations (95), (108): (y_k - y_{k-1}) / (x_k - x_{k-1}), all negative."""
        return (self._exact if self.knots.dtype == object else self._floats)[2]

    # -- the sums of ReLUs, as printed ------------------------------------------------------------
    def r_plus_k(self, k: int, x: Any) -> Any:
        """Equations (93) to (99): `(α(x - x_k))_+ - (α(x - x_{k-1}))_+` with α < 0.

        Right of x_k both are 0; between the knots only the second is 0 and the first falls to 0;
        left of x_{k-1} both are active and leave α(x_{k-1} - x_k) = y_{k-1} - y_k.
        """
        x, knots, _, slopes = self._numbers(x)
        return _hard_sigmoid(x, slopes[k], knots[k], knots[k + 1])[()]

    def r_minus_k(self, k: int, x: Any) -> Any:
        """Equations (106) to (112): `(α(x + x_k))_+ - (α(x + x_{k-1}))_+` with α < 0.

        Right of -x_{k-1} both are 0; between the knots only the first is 0; left of -x_k both are
        active and leave α(x_k - x_{k-1}) = y_k - y_{k-1}.
        """
        x, knots, _, slopes = self._numbers(x)
        return _hard_sigmoid(x, slopes[k], -knots[k], -knots[k + 1])[()]

    def r_plus(self, x: Any) -> Any:
        """Equation (100), the sum of all r_plus_k: y_1 for x <= x_1, f at the knots, then 0."""
        x, knots, _, slopes = self._numbers(x)
        return _sum(x, slopes, knots)[()]

    def r_minus(self, x: Any) -> Any:
        """Equation (113), the sum of all r_minus_k: f - y_1 at the negative knots, then 0."""
        x, knots, _, slopes = self._numbers(x)
        return _sum(x, slopes, -knots)[()]

    def __call__(self, x: Any) -> Any:
        """Equation (117), `σ_f = r⁺ + r⁻`, as printed.

        In float64 the terms cancel for large negative x, down to no correct digit: see the module.
        """
        return self.r_plus(x) + self.r_minus(x)

    # -- the same, piece by piece -----------------------------------------------------------------
    def piecewise(self, x: Any) -> Any:
        """Equation (118): what the sum of ReLUs adds up to, computed without any cancellation.

        For x in (x_{k-1}, x_k] all sigmoids further right give their left value; these telescope
        to y_k, and sigmoid k adds α_k(x - x_k). For x in (-x_k, -x_{k-1}] the ones nearer 0 give
        y_{k-1} - y_1, sigmoid k adds -α_k(x + x_{k-1}), and r⁺ = y_1 completes it.
        """
        x, knots, values, slopes = self._numbers(x)
        last = self.pieces
        right = np.clip(np.searchsorted(knots, x, side="left"), 1, last)
        left = np.clip(np.searchsorted(knots, -x, side="right"), 1, last)
        on_right = slopes[right - 1] * (x - knots[right]) + values[right]
        on_left = -slopes[left - 1] * (x + knots[left - 1]) + values[left - 1]
        out = np.where(x > 0, on_right, on_left)
        out = np.where(abs(x) <= knots[0], values[0], out)
        return np.where(abs(x) >= knots[-1], x * 0, out)[()]

    # -- as a network component -------------------------------------------------------------------
    def layer(self, m: int, n: int, row: int, col: int, exactly: bool = False) -> PointwiseLayer:
        """The component with σ_f at entry (row, col) of an m x n matrix and σ_id everywhere else.

        Sigmoids k take four units: α(x ∓ x_k) with output weight 1 and α(x ∓ x_{k-1}) with -1. At
        all other entries the first two units are the identity and the others are zero. σ_id is
        needed there because σ_f(0) = y_1 is large, not 0. Units of one k stand together: summed in
        that order, the rounding of α(x - x_k) and of α(x + x_k) often cancels, though not always.
        """
        if not (0 <= row < m and 0 <= col < n):
            raise ShapeError(f"entry ({row}, {col}) does not lie in a {m} x {n} matrix")
        knots, _, slopes = self._exact if exactly else self._floats
        V, W, B = (np.zeros((4 * self.pieces, m, n), knots.dtype) for _ in range(3))
        V[0], V[1], W[0], W[1] = 1, -1, 1, -1
        here = slopes * knots[1:], slopes * knots[:-1]
        V[:, row, col] = np.tile([1, -1, 1, -1], self.pieces)
        W[:, row, col] = np.repeat(slopes, 4)
        B[:, row, col] = np.stack([-here[0], -here[1], here[0], here[1]], axis=1).ravel()
        return PointwiseLayer(V, W, B, np.zeros(V.shape))


def _with_slopes(knots: Array, values: Array) -> tuple[Array, Array, Array]:
    return knots, values, (values[1:] - values[:-1]) / (knots[1:] - knots[:-1])


def _hard_sigmoid(x: Array, slope: Any, near: Any, far: Any) -> Array:
    """The piece between two knots, the one nearer to 0 first; for r⁻ both are negative."""
    return np.asarray(relu(slope * (x - far)) - relu(slope * (x - near)))


def _sum(x: Array, slopes: Array, knots: Array) -> Array:
    pieces = zip(slopes, knots[:-1], knots[1:], strict=True)
    return np.asarray(sum((_hard_sigmoid(x, *piece) for piece in pieces), start=x * 0))


def sigma(f: Function, knots: Sequence[Any] | Array) -> Sigma:
    """σ_f through (±x_k, f(x_k)), k = 1..n, and through (±x_{n+1}, 0), from x_1 < ... < x_{n+1}.

    f is even and, for x > 0, positive and decreasing (the paper asks this of |f|; a negative f
    comes out with the wrong sign, see docs/errata.md). Fractions as knots make σ_f exact.
    """
    points = list(knots)
    rational = all(isinstance(x, Fraction) for x in points)
    x = real_array("knots", np.array(points, dtype=object if rational else None))
    if x.ndim != 1 or len(x) < 2:
        raise ShapeError(f"knots must be a sequence of at least 2 numbers, got shape {x.shape}")
    if x[0] <= 0:
        raise InputError(f"knots must be positive, the first is {x[0]}")
    for k in range(1, len(x)):
        if not x[k - 1] < x[k]:
            raise InputError(f"knots must increase, but knot {k} is {x[k]} after {x[k - 1]}")
    y = [_value(f, p) for p in (x if rational else x.tolist())[:-1]]
    for k in range(1, len(y)):
        if not y[k - 1] > y[k]:
            raise InputError(
                f"f must decrease for x > 0, but f({x[k - 1]}) = {y[k - 1]} and f({x[k]}) = {y[k]}"
            )
    if y[-1] <= 0:
        raise InputError(f"f must be positive, but f({x[-2]}) = {y[-1]}")
    return Sigma(x, np.array([*y, y[0] * 0], dtype=x.dtype))


def _value(f: Function, x: Any) -> Any:
    with np.errstate(all="ignore"):
        try:
            y, mirrored = f(x), f(-x)
        except ArithmeticError as error:
            raise InputError(f"f({x}) cannot be computed: {error}") from error
    value = exact(y)  # refuses what is not a finite real number
    if abs(value - exact(mirrored)) > abs(value) / 10**12:
        raise InputError(f"f must be even, but f({x}) = {y} and f({-x}) = {mirrored}")
    return value if isinstance(x, Fraction) else float(value)


def invsqr(knots: Sequence[Any] | Array) -> Sigma:
    """σ_invsqr of Appendix A.3.1: σ_f for f(x) = 1/x², so that `x * invsqr(knots)(x)` is about 1/x.

    Between knots with ratio ρ it is too large by a factor of at most 1 + `chord_error(ρ)`. Mind the
    module's note on negative x.
    """
    return sigma(inverse_square, knots)


def chord_error(ratio: float) -> float:
    """The largest relative error of 1/x² replaced by its chord over [a, ratio a], about 0.75 ln²ρ.

    With t = x/a the chord is 1 + s - s t, s = (ρ + 1)/ρ². The relative error t²(1 + s - s t) - 1 is
    never negative (1/x² is convex) and is largest at t = 2(1 + s)/(3 s), where it is
    4(1 + s)³/(27 s²) - 1 = (2 - s)²(1 + 4 s)/(27 s²), with 2 - s = (2ρ + 1)(ρ - 1)/ρ².
    """
    if not (math.isfinite(ratio) and ratio >= 1):
        raise InputError(f"the ratio of two knots is a finite number above 1, got {ratio!r}")
    s = (ratio + 1) / ratio**2
    away = (2 * ratio + 1) * (ratio - 1) / ratio**2
    return away**2 * (1 + 4 * s) / (27 * s**2)


def invsqr_error(knots: Sequence[Any] | Array) -> float:
    """The largest relative error of `invsqr(knots)` for |x| in its domain, [x_1, x_n], on paper."""
    x = invsqr(knots).knots.astype(np.float64)
    return max((chord_error(r) for r in (x[1:-1] / x[:-2]).tolist()), default=0.0)


def geometric_knots(low: float, high: float, ratio: float) -> Array:
    """Knots from x_1 = low to x_n = high with equal ratios, at most `ratio`, and x_{n+1} beyond.

    1/x² looks alike at every scale, so equal ratios give equal relative errors.
    """
    if not (0 < low < high and ratio > 1 and all(map(math.isfinite, (low, high, ratio)))):
        raise InputError(f"expected 0 < low < high and ratio > 1, got {low}, {high}, {ratio}")
    steps = math.ceil(math.log(high / low) / math.log(ratio) * (1 - 1e-12))
    if steps > MOST_KNOTS:
        raise InputError(f"ratio {ratio} from {low} to {high} takes {steps} knots; choose a larger")
    x = np.geomspace(low, high, steps + 1)
    return np.append(x, high * ratio)
