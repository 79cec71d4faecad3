"""Affine loops whose matrix is not symmetric: what speed takes beside depth, and what that buys.

Depth mode multiplies the powers of a step's matrix whatever they are. Speed mode does where a look
at the powers finds that they keep the digits that steps keep, and takes the steps elsewhere. Each
program runs on tame data, and on data far from normal, whose powers are large on the way to a small
answer; every row says how far both answers are from steps in extended precision, and how far steps
in float64 are, in units of 1e-16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import inweave
from benchmarks import measure
from benchmarks.row import Row
from inweave import Matrix, Program, Scalar, Vector

N, STEPS = 8, 300
CLIPS = 10  # of them inside a loop of so many
BATCHES = (1, 64)
BAR = 1.05
MODES = ("speed", "depth")


class Loop(NamedTuple):
    """A program, the same by hand in any dtype, and its inputs but for the matrix."""

    program: Program
    by_hand: Callable[..., Any]
    more: dict[str, tuple[int, ...]]


@inweave.program
def chain(A: Matrix["n", "n"], x: Vector["n"], *, steps: int):
    return inweave.iterate(lambda x: A @ x, x, steps)


@inweave.program
def affine(A: Matrix["n", "n"], x: Vector["n"], b: Vector["n"], *, steps: int):
    return inweave.iterate(lambda x: A @ x + b, x, steps)


@inweave.program
def midpoint(A: Matrix["n", "n"], x: Vector["n"], h: Scalar, *, steps: int):
    return inweave.iterate(lambda x: x + h * (A @ (x + h / 2 * (A @ x)) - x), x, steps)


@inweave.program
def covariance(A: Matrix["n", "n"], S: Matrix["n", "n"], *, steps: int):
    return inweave.iterate(lambda P: A @ P @ A.T + S, S, steps)


@inweave.program
def clipped(A: Matrix["n", "n"], x: Vector["n"], b: Vector["n"], *, steps: int):
    def step(x):
        return inweave.relu(inweave.iterate(lambda x: A @ x + b, x, steps // CLIPS)) + b

    return inweave.iterate(step, x, CLIPS)


def _clipped(A: Any, x: Any, b: Any) -> Any:
    for i in range(STEPS):
        x = A @ x + b
        if (i + 1) % (STEPS // CLIPS) == 0:
            x = np.maximum(x, 0) + b
    return x


def _stepped(step: Callable[..., Any], start: str) -> Callable[..., Any]:
    def by_hand(**inputs: Any) -> Any:
        value = inputs[start]
        for _ in range(STEPS):
            value = step(value, **inputs)
        return value

    return by_hand


LOOPS = {
    "chain": Loop(chain, _stepped(lambda v, A, **_: A @ v, "x"), {"x": (N,)}),
    "affine": Loop(affine, _stepped(lambda v, A, b, **_: A @ v + b, "x"), {"x": (N,), "b": (N,)}),
    "clipped": Loop(clipped, _clipped, {"x": (N,), "b": (N,)}),
    "midpoint": Loop(
        midpoint,
        _stepped(lambda v, A, h, **_: v + h * (A @ (v + h / 2 * (A @ v)) - v), "x"),
        {"x": (N,), "h": ()},
    ),
    "covariance": Loop(covariance, _stepped(lambda v, A, S: A @ v @ A.mT + S, "S"), {"S": (N, N)}),
}


def tame(rng: np.random.Generator) -> Any:
    """The transition matrix of a Markov chain."""
    P = rng.random((N, N))
    return P / P.sum(axis=1, keepdims=True)


def far_from_normal(rng: np.random.Generator) -> Any:
    """Eigenvalues within 0.9, and large entries above them, in other coordinates."""
    Q = np.linalg.qr(rng.normal(size=(N, N)))[0]
    return Q @ (np.diag(rng.uniform(-0.9, 0.9, N)) + np.triu(rng.normal(size=(N, N)), 1)) @ Q.T


MATRICES = {"tame": tame, "far from normal": far_from_normal}


def rows(threads: int, seconds: float = 0.3, batches: tuple[int, ...] = BATCHES) -> Iterator[Row]:
    for name, loop in LOOPS.items():
        found = {
            mode: inweave.compile(loop.program, n=N, steps=STEPS, optimize=mode, verify=False)
            for mode in MODES
        }
        for data, matrix in MATRICES.items():
            for batch in batches:
                inputs = _inputs(loop, matrix, batch)
                calls = {
                    mode: lambda net=net, inputs=inputs: net(**inputs, check=False)
                    for mode, net in found.items()
                }
                timing = measure.interleaved(calls, seconds, threads=threads)
                lost = _lost(loop, inputs, {mode: call() for mode, call in calls.items()})
                yield Row.of(
                    "digits", f"{name}, {data}, batch={batch}", timing.ratio(*MODES),
                    against="depth", threads=threads, bar=BAR, seconds=timing.seconds(),
                    note="errors: " + ", ".join(f"{who} {x:.3g}" for who, x in lost.items()),
                )  # fmt: skip


def _inputs(loop: Loop, matrix: Callable[[np.random.Generator], Any], batch: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    many = [] if batch == 1 else [batch]
    inputs: dict[str, Any] = {"A": matrix(rng)}
    if many:
        inputs["A"] = np.array([matrix(rng) for _ in range(batch)])
    for name, shape in loop.more.items():
        inputs[name] = rng.normal(size=(*many, *shape)) if shape else 0.1
    return inputs


def _lost(loop: Loop, inputs: dict[str, Any], answers: dict[str, Any]) -> dict[str, float]:
    """How far answers are from steps in extended precision, of the worst prompt."""
    matrices = ("A", "S")

    def stepped(dtype: Any) -> Any:
        lifted = {
            name: np.asarray(x, dtype)[..., None]
            if np.ndim(x) and name not in matrices
            else dtype(x)
            for name, x in inputs.items()
        }
        value = loop.by_hand(**lifted)
        return value if "S" in inputs else value[..., 0]

    exact = stepped(np.longdouble)
    axes = (-2, -1) if "S" in inputs else (-1,)
    top = abs(exact).max(axis=axes, keepdims=True)
    found = {**answers, "steps": stepped(np.float64)}
    return {who: float((abs(x - exact) / top).max()) / 1e-16 for who, x in found.items()}
