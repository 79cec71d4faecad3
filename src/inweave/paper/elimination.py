"""Gaussian elimination from components, as printed in the paper's Appendix A.4.

The state is (m + 1) x (m + 1): [F | a] over a row of zeros. FE_k clears column k below the
diagonal, BS1_k solves for variable k and leaves it in the last column. Every step is masks, one
σ_invsqr at the pivot, affine components, and matrix products with the state (multiplication skips).
Rows are never exchanged, so every leading minor of F must be nonzero; that F is invertible, which
is all the paper asks, is not enough.

Numbering. The print calls the input of FE_1 both P_0 and P_1, and the module that solves variable
m - 1 both BS1_m and BS1_{m-1}. Here indices are 0-based and a step is named after the column or
variable it is about: FE[0], ..., FE[m - 2], then BS1[m - 1], ..., BS1[0].

What an approximate division does. FE_k and BS1_k use the same r_k = (1 + e_k)/p_k for one over the
pivot p_k. BS1_k then finds exactly what exact elimination finds for F - diag(e_k p_k/(1 + e_k)).
The entries printed as 0 below the diagonal are left as -e_k p_{i,k}, and back substitution adds
their share to variables already solved. For F symmetric positive definite the relative error of x
is at most (m + 1) κ₂(F) e to first order in e = max e_k: the change of F is at most e λ_max, which
F⁻¹ enlarges to e κ; and one share is at most e κ |x_k|, because the column c below a pivot s and
the block S that remains after it obey cᵀ S⁻¹ c <= (κ - 1) s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from inweave.errors import BlockError, DomainError, InputError, ShapeError
from inweave.exact.constants import Array, real_array
from inweave.exact.whole import whole
from inweave.paper.components import affine, anti_mask, apply, as_matrix, identity, masking
from inweave.paper.division import Function, Sigma, inverse_square, sigma
from inweave.paper.properties import Span, mask

Divide = Callable[[Array, int], Array]
"""Z⁽¹⁾ and k to Z⁽²⁾: 1/x² at entry (k, k), the identity at all others."""

HALF_THE_DIGITS = 2.0**-26


@dataclass(frozen=True)
class Step:
    """One executed module: its name, the state before, Z⁽¹⁾, Z⁽²⁾, ... by name, the state after."""

    name: str
    variable: int
    before: Array = field(repr=False)
    Z: dict[str, Array] = field(repr=False)
    after: Array = field(repr=False)


@dataclass(frozen=True)
class Elimination:
    """Every step of one solution, in order; `trace["FE[0]"].Z["Z5"]` reads one matrix."""

    steps: tuple[Step, ...]

    @property
    def solution(self) -> Array:
        """The last column of the last state, without the row of zeros."""
        return self.steps[-1].after[..., :-1, -1]

    def __getitem__(self, name: str) -> Step:
        for step in self.steps:
            if step.name == name:
                return step
        raise BlockError(f"no step {name!r}; steps are {', '.join(s.name for s in self.steps)}")

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)


# -- the two kinds of division --------------------------------------------------------------------
def approximate_division(division: Sigma) -> Divide:
    """σ_f at the pivot by the network component of Appendix A.3."""

    def divide(Z1: Array, k: int) -> Array:
        size = Z1.shape[-1]
        return apply(division.layer(size, size, k, k, exactly=Z1.dtype == object), Z1)

    return divide


def exact_division(f: Function = inverse_square) -> Divide:
    """f itself at the pivot: what the network component stands for. Exact for Fractions."""

    def divide(Z1: Array, k: int) -> Array:
        Z2 = apply(identity(*Z1.shape[-2:]), Z1)
        with np.errstate(all="ignore"):
            Z2[..., k, k] = f(Z1[..., k, k])
        return Z2

    return divide


# -- the modules ----------------------------------------------------------------------------------
def forward_step(P: Array, k: int, divide: Divide) -> Step:
    """FE_k, equations (119) to (125), (126) to (132): the first column, and column k < m - 1.

    Z1 has the pivot p alone, Z2 is 1/p² there, Z3 = -Z1 Z2 is -1/p. Z4 has the column below the
    pivot, Z5 = Z4 Z3 is that column over -p, and Z6 = Z5 + I. Row i of Z6 P is then row i of P
    minus p_{i,k}/p times row k, which is 0 in column k.
    """
    P = as_matrix(P, "P")
    size, at = P.shape[-1], (k, k + 1)
    Z1 = _masked(P, at, at)
    Z2 = divide(Z1, k)
    Z3 = -(Z1 @ Z2)
    Z4 = _masked(P, (k + 1, size - 1), at)
    Z5 = Z4 @ Z3
    Z6 = _affine(Z5, 1, np.eye(size))
    Z = {"Z1": Z1, "Z2": Z2, "Z3": Z3, "Z4": Z4, "Z5": Z5, "Z6": Z6}
    return Step(f"FE[{k}]", k, P, Z, Z6 @ P)


def last_variable(Q: Array, divide: Divide) -> Step:
    """BS1_m, equations (133) to (138): row m - 1 over its pivot, and the pivot's place cleared.

    Z3 = Z1 Z2 is 1/q, Z4 the identity with 1/q at the pivot, so Z4 Q divides that row by q. The
    anti-mask (a Hadamard product) then clears the pivot, which is 1, so that later steps leave the
    row alone. The print has -1/q in Z4; that would give minus the solution.
    """
    Q = as_matrix(Q, "Q")
    k = Q.shape[-1] - 2
    at = (k, k + 1)
    Z1 = _masked(Q, at, at)
    Z2 = divide(Z1, k)
    Z3 = Z1 @ Z2
    Z4 = _affine(Z3, 1, _eye_without(Q.shape[-1], k))
    after = _anti_masked(Z4 @ Q, k)
    return Step(f"BS1[{k}]", k, Q, {"Z1": Z1, "Z2": Z2, "Z3": Z3, "Z4": Z4}, after)


def backward_step(Q: Array, k: int, divide: Divide) -> Step:
    """BS1_k, equations (139) to (147), (148) to (157): the last but one, and variable k < m - 1.

    Z1 has the variable ξ solved last (row k + 1, last column) alone and Z2 = I - Z1, so Z3 = Q Z2
    subtracts ξ times column k + 1 from the last column: ξ is put into every row. Then as for the
    last variable: Z4 is the pivot, Z5 is 1/q², Z6 = Z5 Z4, Z7 the identity with 1/q at the pivot,
    and the anti-mask clears the pivot of Z7 Z3. (The print ends with Z6 Z3: all other rows lost.)
    """
    Q = as_matrix(Q, "Q")
    size, at = Q.shape[-1], (k, k + 1)
    Z1 = _masked(Q, (k + 1, k + 2), (size - 1, size))
    Z2 = _affine(Z1, -1, np.eye(size))
    Z3 = Q @ Z2
    Z4 = _masked(Z3, at, at)
    Z5 = divide(Z4, k)
    Z6 = Z5 @ Z4
    Z7 = _affine(Z6, 1, _eye_without(size, k))
    Z = {"Z1": Z1, "Z2": Z2, "Z3": Z3, "Z4": Z4, "Z5": Z5, "Z6": Z6, "Z7": Z7}
    return Step(f"BS1[{k}]", k, Q, Z, _anti_masked(Z7 @ Z3, k))


def forward_elimination(P: Array, divide: Divide) -> Iterator[Step]:
    """FE[0], ..., FE[m - 2]: from P_0 = [F | a] over zeros to a triangular system."""
    for k in range(np.shape(P)[-1] - 2):
        step = forward_step(P, k, divide)
        P = step.after
        yield step


def back_substitution(Q: Array, divide: Divide) -> Iterator[Step]:
    """BS_m: BS1[m - 1], ..., BS1[0], after which the last column holds the solution."""
    step = last_variable(Q, divide)
    yield step
    for k in reversed(range(np.shape(Q)[-1] - 2)):
        step = backward_step(step.after, k, divide)
        yield step


def _masked(X: Array, rows: Span, cols: Span) -> Array:
    m, n = X.shape[-2:]
    return apply(masking(mask(m, n, rows, cols)), X)


def _anti_masked(X: Array, k: int) -> Array:
    m, n = X.shape[-2:]
    return apply(masking(anti_mask(m, n, (k, k + 1), (k, k + 1))), X)


def _affine(X: Array, gamma: int, C: Array) -> Array:
    return apply(affine(np.full(C.shape, float(gamma)), C), X)


def _eye_without(size: int, k: int) -> Array:
    return np.eye(size) * anti_mask(size, size, (k, k + 1), (k, k + 1))


# -- the solver -----------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class GaussianElimination:
    """Solves F x = a for m unknowns; made by `gaussian_elimination`."""

    m: int
    f: Function
    sigma: Sigma | None

    def __call__(self, F: Array, a: Array, *, check: bool = True) -> Array:
        """x, of the shape of a: (m,) or (m, 1), with leading batch axes if there are any."""
        x = self.trace(F, a, check=check).solution
        return x[..., np.newaxis] if np.shape(a)[-2:] == (self.m, 1) else x

    def trace(self, F: Array, a: Array, *, check: bool = True) -> Elimination:
        """Every step with its Z⁽¹⁾, Z⁽²⁾, ... With `check`, a pivot that cannot be divided by is an
        error; without it the network does with that pivot whatever it does."""
        P = self._system(F, a)
        divide = approximate_division(self.sigma) if self.sigma else exact_division(self.f)
        if check:
            divide = self._checked(divide)
        with np.errstate(over="ignore", invalid="ignore"):
            try:
                forward = tuple(forward_elimination(P, divide))
                backward = tuple(back_substitution(forward[-1].after, divide))
                as_matrix(backward[-1].after, "the last state")
            except InputError as error:  # F and a were finite, so a product overflowed
                raise DomainError(f"elimination left the range of float64: {error}") from error
        return Elimination((*forward, *backward))

    def _system(self, F: Array, a: Array) -> Array:
        """P_0 of equation (119): [F | a] over a row of zeros."""
        m = self.m
        F, a = as_matrix(F, "F"), real_array("a", a)
        if F.shape[-2:] != (m, m):
            raise ShapeError(f"F must be {m} x {m}, got {F.shape[-2]} x {F.shape[-1]}")
        if a.shape[-2:] != (m, 1):
            if a.shape[-1:] != (m,):
                raise ShapeError(f"a must have shape ({m},) or ({m}, 1), got {a.shape}")
            a = a[..., np.newaxis]
        if (F.dtype == object) != (a.dtype == object):
            raise InputError("F and a must both be floats or both be Fractions")
        try:
            lead = np.broadcast_shapes(F.shape[:-2], a.shape[:-2])
        except ValueError:
            raise ShapeError(
                f"the batch axes of F {F.shape[:-2]} and of a {a.shape[:-2]} do not fit"
            ) from None
        P = np.zeros((*lead, m + 1, m + 1), dtype=F.dtype)
        P[..., :m, :m], P[..., :m, m:] = F, a
        return P

    def _checked(self, divide: Divide) -> Divide:
        def checked(Z1: Array, k: int) -> Array:
            pivots = np.ravel(Z1[..., k, k])
            for pivot in pivots:
                self._check_pivot(k, pivot)
            Z2 = divide(Z1, k)
            for pivot, value in zip(pivots, np.ravel(Z2[..., k, k]), strict=True):
                self._check_value(k, pivot, value)
            return Z2

        return checked

    def _check_pivot(self, k: int, pivot: Any) -> None:
        what = f"pivot {k} of {self.m} is {pivot}"
        if self.sigma is None:
            if pivot == 0:
                raise DomainError(f"{what}: cannot divide by it, and rows are never exchanged")
            return
        low, high = self.sigma.domain
        if not low <= abs(pivot) <= high:
            raise DomainError(
                f"{what}, outside the domain {low} <= |x| <= {high} of its division. Rows are "
                f"never exchanged: F needs nonzero leading minors. If it has them, widen the knots"
            )

    def _check_value(self, k: int, pivot: Any, value: Any) -> None:
        if self.sigma is None:
            return
        right = self.sigma.piecewise(pivot)
        if not abs(value - right) <= HALF_THE_DIGITS * right:
            raise DomainError(
                f"pivot {k} of {self.m} is {pivot}: the printed sum of ReLUs cancels for large "
                f"negative x and gives {value} for {right}. Change the sign of that row of F and "
                f"a, or start the knots higher"
            )


def gaussian_elimination(
    m: int, *, knots: Sequence[Any] | Array | None, f: Function = inverse_square
) -> GaussianElimination:
    """The paper's solver of F x = a for m >= 2 unknowns, Appendix A.4.

    `knots` are the x_1 < ... < x_{n+1} of Appendix A.3: one over a pivot p, x_1 <= |p| <= x_n, is
    p σ_f(p), f being 1/x² or something like it. Between knots of ratio ρ that is too large by at
    most `chord_error(ρ)`; the module's text says what this does to x. With `knots=None` the
    component is replaced by f itself, which over Fractions is exact elimination.
    """
    return GaussianElimination(whole("m", m, 2), f, None if knots is None else sigma(f, knots))
