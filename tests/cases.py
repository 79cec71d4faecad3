"""One table of programs, used by the tests of every stage.

Each case is a program, the sizes it is compiled at, and a range for its inputs that keeps loops
from growing. References are the programs themselves, evaluated in exact arithmetic; independent
references (LAPACK, scikit-learn) belong to the gallery's tests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import inweave
from inweave import Matrix, Program, Scalar, Vector


@dataclass(frozen=True)
class Case:
    program: Program
    sizes: dict[str, Any]
    scale: float = 0.5
    tags: frozenset[str] = field(default_factory=frozenset)

    @property
    def name(self) -> str:
        return self.program.name

    def inputs(self, seed: int = 0, batch: tuple[int, ...] = ()) -> dict[str, np.ndarray]:
        """Random float64 inputs, small enough for every loop to stay finite."""
        rng = np.random.default_rng(seed)
        traced = self.program.trace(**self.sizes)
        return {
            spec.name: self.scale * rng.uniform(-1, 1, size=(*batch, *spec.shape))
            for spec in traced.inputs
        }


CASES: list[Case] = []


def case(scale: float = 0.5, tags: tuple[str, ...] = (), **sizes: Any) -> Any:
    """Mark a program as a case at the given sizes."""

    def add(program: Program) -> Program:
        CASES.append(Case(program, sizes, scale, frozenset(tags)))
        return program

    return add


# -- single products and transposes in every orientation -------------------------------------------
@case(n=3, m=2, k=4)
@inweave.program
def product(A: Matrix["n", "m"], B: Matrix["m", "k"]):
    return A @ B


@case(n=3, m=2, k=4)
@inweave.program
def product_left_transposed(A: Matrix["m", "n"], B: Matrix["m", "k"]):
    return A.T @ B


@case(n=3, m=2, k=4)
@inweave.program
def product_right_transposed(A: Matrix["n", "m"], B: Matrix["k", "m"]):
    return A @ B.T


@case(n=3, m=2, k=4)
@inweave.program
def product_both_transposed(A: Matrix["m", "n"], B: Matrix["k", "m"]):
    return A.T @ B.T


@case(n=3, m=2)
@inweave.program
def transpose(A: Matrix["n", "m"]):
    return A.T


@case(n=3, m=2)
@inweave.program
def identity(A: Matrix["n", "m"]):
    return A


@case(n=3, m=2)
@inweave.program
def gram_both_ways(A: Matrix["n", "m"]):
    return {"inner": A.T @ A, "outer": A @ A.T, "again": A @ (A.T @ A)}


@case(n=3)
@inweave.program
def inner_and_outer(u: Vector["n"], v: Vector["n"]):
    return {"inner": u.T @ v, "outer": u @ v.T}


# -- sums, chains, constants, slices ---------------------------------------------------------------
@case(n=3, m=2)
@inweave.program
def sums(A: Matrix["n", "m"], B: Matrix["n", "m"], C: Matrix["m", "n"]):
    return 2 * A - B / 3 + C.T + 0.25 * inweave.ones(3, 2)


@case(n=2)
@inweave.program
def product_of_sums(A: Matrix["n", "n"], B: Matrix["n", "n"], C: Matrix["n", "n"]):
    return (A + B) @ (B - C) @ (C + inweave.eye(2))


@case(n=2, m=3)
@inweave.program
def chain_of_four(A: Matrix["n", "m"], B: Matrix["m", "n"]):
    return A @ B @ A @ B


@case(n=2)
@inweave.program
def chain_of_nine(A: Matrix["n", "n"], B: Matrix["n", "n"], C: Matrix["n", "n"]):
    return A @ B @ C @ A.T @ B.T @ C.T @ A @ C @ B


@case(n=3, m=2)
@inweave.program
def constant_factors(A: Matrix["n", "m"], x: Vector["n"]):
    F = np.array([[1.0, 0.5, -2.0], [0.1, 3.0, 0.0]])
    G = np.array([[0.3, 1.0], [2.0, -1.0]])
    vector = A.T @ (F.T @ (F @ x))
    return {"left": F @ A, "both": F @ A @ G, "vector": vector, "fixed": x * 0 + F[0]}


@case(n=4, m=3)
@inweave.program
def slices(A: Matrix["n", "m"], x: Vector["n"]):
    return {
        "rows": A[1:3, :],
        "cols": A[:, 1:],
        "corner": A[2:, :2] @ A[:2, 1:],
        "entry": A[1, 2] * x,
        "head": x[:2],
    }


@case(n=2, m=3)
@inweave.program
def stacks(A: Matrix["n", "m"], B: Matrix["n", "m"], x: Vector["m"]):
    tall, wide = inweave.vstack([A, B]), inweave.hstack([A, B])
    square = inweave.block([[A @ A.T, inweave.zeros(2, 2)], [inweave.eye(2), B @ B.T]])
    return {"tall": tall @ x, "wide": wide @ inweave.vstack([x, x]), "square": square @ square}


@case(n=3)
@inweave.program
def scalars(x: Vector["n"], A: Matrix["n", "n"], s: Scalar, t: Scalar):
    return {"vector": s * t * x, "matrix": (1 - s) * A + s * s * (A @ A), "number": s * t - 2 * s}


@case(n=3)
@inweave.program
def computed_scalar(x: Vector["n"], A: Matrix["n", "n"]):
    return {"vector": (x.T @ x) * (A @ x), "matrix": (x.T @ A @ x) * A}


@case(n=2, m=3)
@inweave.program
def constant_answer(A: Matrix["n", "m"]):
    return {"fixed": inweave.ones(2, 3) * 0.5, "used": A}


# -- loops -----------------------------------------------------------------------------------------
@case(n=5, d=3, steps=7, tags=("ridge",))
@inweave.program
def ridge_gd(
    X: Matrix["n", "d"], y: Vector["n"], u: Vector["d"], lam: Scalar, eta: Scalar, *, steps: int
) -> Scalar:
    def step(w):
        return w - eta * (X.T @ (X @ w - y) + lam * w)

    w = inweave.iterate(step, inweave.zeros(X.shape[1]), steps)
    return u.T @ w


@inweave.program
def ridge_weights(
    X: Matrix["n", "d"], y: Vector["n"], lam: Scalar, eta: Scalar, *, steps: int
) -> Vector["d"]:
    """No case: `ridge_gd` without a query, for tests that need a program of few inputs."""

    def step(w):
        return w - eta * (X.T @ (X @ w - y) + lam * w)

    return inweave.iterate(step, inweave.zeros(X.shape[1]), steps)


@case(n=3, d=5, steps=4, tags=("ridge",))
@inweave.program
def ridge_from_w0(
    X: Matrix["n", "d"],
    y: Vector["n"],
    w0: Vector["d"],
    lam: Scalar,
    eta: Scalar,
    *,
    steps: int,
) -> Vector["d"]:
    return inweave.iterate(lambda w: w - eta * (X.T @ (X @ w - y) + lam * w), w0, steps)


@case(n=5, d=2, steps=4, tags=("ridge",))
@inweave.program
def ridge_dual(
    X: Matrix["n", "d"], y: Vector["n"], u: Vector["d"], lam: Scalar, eta: Scalar, *, steps: int
) -> Scalar:
    def step(a):
        return a - eta * (X @ (X.T @ a) + lam * a - y)

    return u.T @ (X.T @ inweave.iterate(step, inweave.zeros(X.shape[0]), steps))


@case(n=4, d=3, m=2, steps=3, tags=("ridge",))
@inweave.program
def ridge_multi_output(
    X: Matrix["n", "d"], Y: Matrix["n", "m"], lam: Scalar, eta: Scalar, *, steps: int
):
    def step(W):
        return W - eta * (X.T @ (X @ W - Y) + lam * W)

    return inweave.iterate(step, inweave.zeros(X.shape[1], Y.shape[1]), steps)


@case(n=4, d=3, steps=5)
@inweave.program
def heavy_ball(X: Matrix["n", "d"], y: Vector["n"], eta: Scalar, beta: Scalar, *, steps: int):
    def step(w, v):
        return w - eta * (X.T @ (X @ w - y)) + beta * (w - v), w

    start = inweave.zeros(X.shape[1])
    w, v = inweave.iterate(step, (start, start), steps)
    return {"w": w, "previous": v}


@case(n=3, steps=4)
@inweave.program
def swap_and_rotate(x: Vector["n"], z: Vector["n"], A: Matrix["n", "n"], *, steps: int):
    p, q = inweave.iterate(lambda x, z: (z, A @ x - z), (x, z), steps)
    return {"p": p, "q": q}


@case(n=3, steps=4)
@inweave.program
def power_iteration(A: Matrix["n", "n"], x: Vector["n"], *, steps: int):
    return inweave.iterate(lambda v: A @ v, x, steps)


@case(n=3, steps=3, scale=0.3)
@inweave.program
def newton_schulz(A: Matrix["n", "n"], *, steps: int):
    S = A.T @ A
    return inweave.iterate(lambda M: 2 * M - M @ S @ M, 0.5 * S, steps)


@case(n=2, steps=2, inner=3)
@inweave.program
def nested(A: Matrix["n", "n"], x: Vector["n"], eta: Scalar, *, steps: int, inner: int):
    def outer(w):
        z = inweave.iterate(lambda z: z - eta * (A @ z - w), x, inner)
        return w + z

    return inweave.iterate(outer, x, steps)


@case(n=3, steps=3)
@inweave.program
def loop_after_loop(A: Matrix["n", "n"], x: Vector["n"], *, steps: int):
    first = inweave.iterate(lambda v: A @ v + x, x, steps)
    second = inweave.iterate(lambda v: A.T @ v - first, 2 * first, steps)
    return first.T @ second


@case(n=3, d=2, steps=3)
@inweave.program
def plain_python_loop(X: Matrix["n", "d"], y: Vector["n"], eta: Scalar, *, steps: int):
    w = inweave.zeros(X.shape[1])
    for _ in range(steps):
        w = w - eta * (X.T @ (X @ w - y))
    return w


@case(n=3, d=2, steps=3)
@inweave.program
def gram_outside(X: Matrix["n", "d"], y: Vector["n"], eta: Scalar, *, steps: int):
    G, b = X.T @ X, X.T @ y
    return inweave.iterate(lambda w: w - eta * (G @ w - b), b, steps)


@case(n=3, steps=3)
@inweave.program
def row_state(A: Matrix["n", "n"], x: Vector["n"], *, steps: int):
    return inweave.iterate(lambda r: r @ A + x.T, x.T, steps) @ x


@case(n=2, steps=3)
@inweave.program
def two_sided(A: Matrix["n", "n"], S: Matrix["n", "n"], *, steps: int):
    return inweave.iterate(lambda P: A @ P @ A.T + S @ S.T, inweave.eye(2), steps)


@case(steps=3)
@inweave.program
def scalar_loop(s: Scalar, t: Scalar, *, steps: int) -> Scalar:
    return inweave.iterate(lambda x: x * x + t * x - s, s, steps)


@case(n=2, steps=2)
@inweave.program
def scalar_carried_with_vector(x: Vector["n"], A: Matrix["n", "n"], *, steps: int):
    def step(s, v):
        return s * 0.5 + v.T @ v, s * (A @ v)

    s, v = inweave.iterate(step, (1.0, x), steps)
    return {"s": s, "v": v, "scaled": s * A}


@case(n=3, m=2)
@inweave.program
def part_of_a_symmetric_sum(A: Matrix["m", "n"], B: Matrix["m", "n"]):
    P = A @ B.T
    return {"row": (P + P.T)[0], "product": (P + P.T) * P, "difference": (P - 2 * P.T)[:, 1]}


@case(n=3)
@inweave.program
def alike_in_rows_and_columns(s: Scalar, x: Vector["n"]):
    even = s + np.ones((3, 3))
    return even + even * even + x[:, None] - 2 * x[None, :]
