"""Algorithms that go through data, at sizes at which written out by hand they were refused."""

from __future__ import annotations

import numpy as np
import pytest

import inweave
from inweave import Matrix, Vector

WIDE = (1e-2, 1e3)


@inweave.program
def cholesky(A: Matrix["d", "d"]):
    def step(A, e):
        column = A @ e
        column = column * inweave.rsqrt(e @ column, domain=WIDE)
        return A - inweave.outer(column, column), column

    return inweave.scan(step, A, np.eye(A.shape[0]))[1].T


@inweave.program
def lu(A: Matrix["d", "d"]):
    def step(A, e):
        column, row = A @ e, A.T @ e
        column = column * inweave.reciprocal(e @ column, domain=WIDE)
        return A - inweave.outer(column, row), (column, row)

    _, (columns, rows) = inweave.scan(step, A, np.eye(A.shape[0]))
    return {"L": columns.T, "U": rows}


@inweave.program
def gram_schmidt(X: Matrix["n", "d"]):
    def step(P, x):
        v = x - P @ x
        q = v * inweave.rsqrt(v @ v, domain=WIDE)
        return P + inweave.outer(q, q), q

    return inweave.scan(step, inweave.zeros(X.shape[1], X.shape[1]), X)[1]


@inweave.program
def least_squares(X: Matrix["n", "d"], y: Vector["n"]):
    """Recursive least squares: every weight on the way."""

    def step(carried, x, t):
        w, P = carried
        k = P @ x
        g = k * inweave.reciprocal(1 + x @ k, domain=(1, 1e5))
        return (w + g * (t - x @ w), P - inweave.outer(g, k)), w

    d = X.shape[1]
    return inweave.scan(step, (inweave.zeros(d), 10 * inweave.eye(d)), X, y)[1]


@inweave.program
def kalman(y: Vector["n"], A: Matrix["d", "d"], c: Vector["d"], Q: Matrix["d", "d"]):
    def step(carried, y):
        x, P = carried
        x, P = A @ x, A @ P @ A.T + Q
        k = (P @ c) * inweave.reciprocal(c @ P @ c + 0.1, domain=(0.05, 1e4))
        return (x + k * (y - c @ x), P - inweave.outer(k, c @ P)), x

    d = A.shape[0]
    return inweave.scan(step, (inweave.zeros(d), inweave.eye(d)), y)[1]


@inweave.program
def oja(X: Matrix["n", "d"], w: Vector["d"]):
    return inweave.scan(lambda w, x: (w + 0.01 * (x @ w) * (x - (x @ w) * w), None), w, X)[0]


def positive(rng, d):
    M = rng.normal(size=(d, d)) / (2 * np.sqrt(d))
    return M @ M.T + np.eye(d), M


@pytest.mark.parametrize("target", ["elsa", "lsa"])
def test_factorizations_at_32(target):
    A, M = positive(np.random.default_rng(0), 32)
    net = inweave.compile(cholesky, d=32, target=target)
    np.testing.assert_allclose(net(A=A), np.linalg.cholesky(A), atol=1e-13)
    B = A + M / 20
    found = inweave.compile(lu, d=32, target=target)(A=B)
    np.testing.assert_allclose(np.tril(found["L"]), found["L"], atol=1e-13)
    np.testing.assert_allclose(np.triu(found["U"]), found["U"], atol=1e-13)
    np.testing.assert_allclose(found["L"] @ found["U"], B, atol=1e-13)
    X = np.eye(32) + M
    Q = inweave.compile(gram_schmidt, n=32, d=32, target=target)(X=X)
    np.testing.assert_allclose(Q @ Q.T, np.eye(32), atol=1e-12)
    np.testing.assert_allclose(np.triu(Q @ X.T, 1).T, np.tril(X @ Q.T, -1), atol=1e-12)


def test_filters_at_1024():
    rng, n, d = np.random.default_rng(1), 1024, 3
    X, y = rng.normal(size=(n, d)), rng.normal(size=n)
    found = inweave.compile(least_squares, n=n, d=d)(X=X, y=y)
    seen = slice(0, n - 1)
    ridge = np.linalg.solve(X[seen].T @ X[seen] + 0.1 * np.eye(d), X[seen].T @ y[seen])
    np.testing.assert_allclose(found[-1], ridge, atol=1e-12)
    A, c, Q = np.array([[1, 0.1], [0, 0.9]]), np.array([1.0, 0.0]), 0.01 * np.eye(2)
    found = inweave.compile(kalman, n=n, d=2)(y=y, A=A, c=c, Q=Q)
    x, P = np.zeros(2), np.eye(2)
    for i in range(n):
        np.testing.assert_allclose(found[i], A @ x, atol=1e-12)
        x, P = A @ x, A @ P @ A.T + Q
        k = P @ c / (c @ P @ c + 0.1)
        x, P = x + k * (y[i] - c @ x), P - np.outer(k, c @ P)
    X, w = rng.normal(size=(n, 32)) / 4, rng.normal(size=32) / 6
    found, expected = inweave.compile(oja, n=n, d=32)(X=X, w=w), w
    for row in X:
        s = row @ expected
        expected = expected + 0.01 * s * (row - s * expected)
    np.testing.assert_allclose(found, expected, atol=1e-12)
