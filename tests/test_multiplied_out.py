"""Products are multiplied out over sums only where that saves a layer: what cancels is not lost."""

from __future__ import annotations

import numpy as np
import pytest

import inweave
from inweave import Matrix, Scalar, Vector

FAR = 1e6
N, D = 7, 3


@inweave.program
def scatter(X: Matrix["n", "d"], m: Vector["d"]):
    S = inweave.zeros(X.shape[1], X.shape[1])
    for x in X:
        S = 0.9 * S + inweave.outer(x - m, x - m)
    return S


@inweave.program
def energy(X: Matrix["n", "d"], m: Vector["d"]):
    s = inweave.zeros(1)
    for x in X:
        s = 0.5 * s + (x - m) @ (x - m)
    return s


@inweave.program
def differences(X: Matrix["n", "d"], m: Vector["d"]):
    S = inweave.outer(X[0] - m, X[0] - m)
    for i in range(1, X.shape[0]):
        S = S + inweave.outer(X[i] - X[i - 1], X[i] - X[i - 1])
    return S


@inweave.program
def welford(X: Matrix["n", "d"], m: Vector["d"]):
    S = inweave.zeros(X.shape[1], X.shape[1])
    for i in range(X.shape[0]):
        e = X[i] - m
        m = m + e / (i + 2)
        S = S + inweave.outer(e, X[i] - m)
    return S


def data(dtype):
    rng = np.random.default_rng(0)
    X, m = FAR + rng.normal(size=(N, D)), FAR + rng.normal(size=D)
    return {"X": X.astype(dtype), "m": m.astype(dtype)}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mode", ["faithful", "speed"])
@pytest.mark.parametrize("program", [scatter, energy, differences], ids=lambda p: p.name)
def test_data_far_from_zero_lose_no_digits_in_sums_that_heads_read(program, mode, dtype):
    net = inweave.compile(program, n=N, d=D, optimize=mode)
    given = data(dtype)
    exact = program(**{name: x.astype(np.float64) for name, x in given.items()})
    error = np.max(np.abs(net(**given) - exact)) / np.max(np.abs(exact))
    assert error < 30 * np.finfo(dtype).eps
    assert net.depth == 1


def test_a_mean_that_moves_keeps_the_digits_that_its_steps_keep():
    net, given = inweave.compile(welford, n=N, d=D), data(np.float64)
    near = {name: x - FAR for name, x in given.items()}  # which is exact
    exact = welford(**near)
    errors = [np.max(np.abs(run(**given) - exact)) for run in (net, welford)]
    assert errors[0] < 30 * errors[1]


@pytest.mark.parametrize("mode", ["faithful", "speed"])
def test_a_covariance_of_centred_data_is_one_layer_and_keeps_its_digits(mode):
    @inweave.program
    def covariance(X: Matrix["n", "d"]):
        C = X - X.mean(axis=0)
        return C.T @ C

    net, X = inweave.compile(covariance, n=N, d=D, optimize=mode), data(np.float64)["X"]
    exact = covariance(X=X - FAR)
    assert net.depth == 1
    assert np.max(np.abs(net(X=X) - exact)) < 1e-8 * np.max(np.abs(exact))


def test_a_product_is_multiplied_out_where_that_saves_a_layer():
    @inweave.program
    def descent(X: Matrix["n", "d"], y: Vector["n"], w: Vector["d"]):
        return w - X.T @ (X @ w - y)

    assert inweave.compile(descent, n=N, d=D).depth == 1
    assert inweave.compile(descent, n=N, d=D, optimize="speed").depth >= 1


def test_sums_that_are_read_take_a_head_and_not_one_for_each_pair_of_terms():
    net = inweave.compile(scatter, n=N, d=D)
    assert sum(len(layer.heads) for layer in net.layers) == N


@inweave.program
def variance(x: Vector["n"]):
    return (x - x.mean()) @ (x - x.mean())


@inweave.program
def covariance_of_two(x: Vector["n"], y: Vector["n"]):
    return (x - x.mean()) @ (y - y.mean())


@inweave.program
def squared(x: Vector["n"]):
    return inweave.squared_norm(x - x.mean())


@inweave.program
def difference_of_numbers(s: Scalar, t: Scalar, A: Matrix["n", "n"], B: Matrix["n", "n"]):
    return (s - t) * (A - B)


@inweave.program
def from_the_first(A: Matrix["n", "n"], B: Matrix["n", "n"], x: Vector["n"]):
    return (A - B) @ (x - x[0])


@inweave.program
def of_differences(x: Vector["n"]):
    d = x[1:] - x[:-1]
    return (d - d.mean()) @ (d - d.mean())


@inweave.program
def cubed(A: Matrix["n", "n"], s: Scalar):
    return (A - s) @ (A - s) @ (A - s)


@inweave.program
def apart(x: Vector["n"], y: Vector["n"]):
    return ((x - y) ** 2).sum()


@inweave.program
def of_rows(A: Matrix["n", "n"]):
    return sum((r - r.mean()) @ (r - r.mean()) for r in A)


@inweave.program
def in_steps(x: Vector["n"]):
    s = 0 * x[0]
    for i in range(1, 5):
        s = 0.9 * s + (x[i] - x[i - 1]) ** 2
    return s


FAR_FROM_ZERO = (
    variance, covariance_of_two, squared, difference_of_numbers, from_the_first, of_differences,
    cubed, apart, of_rows, in_steps,
)  # fmt: skip


@pytest.mark.parametrize("optimize", ["faithful", "speed", "depth"])
@pytest.mark.parametrize("program", FAR_FROM_ZERO, ids=lambda program: program.name)
def test_differences_of_data_far_from_zero_keep_their_digits(program, optimize):
    net = inweave.compile(program, n=5, optimize=optimize, verify=False)
    rng = np.random.default_rng(0)
    given = {x.name: 1e6 + rng.normal(size=x.shape) for x in net.inputs}
    exact = program(**{name: np.asarray(x, np.longdouble) for name, x in given.items()})
    scale = np.abs(exact).max()
    steps = np.abs(program(**given) - exact).max() / scale
    assert np.abs(net(**given) - exact).max() / scale <= 8 * steps + 1e-14


@inweave.program
def energy_about(y: Vector["n"], s: Scalar):
    return (y - s) @ (y - s)


@inweave.program
def thrice(A: Matrix["n", "n"], z: Vector["n"], s: Scalar):
    return (A - s).T @ ((A - s) @ (z - s))


@inweave.program
def norm_about(A: Matrix["n", "n"], s: Scalar):
    return inweave.squared_norm(A - s)


@inweave.program
def centred_beside(A: Matrix["n", "n"], y: Vector["n"], s: Scalar):
    return (A - A.mean(axis=0)).T @ (y - s)


@pytest.mark.parametrize("optimize", ["faithful", "speed"])
@pytest.mark.parametrize(
    "program", [energy_about, thrice, norm_about, centred_beside], ids=lambda program: program.name
)
def test_a_number_is_subtracted_first_unless_the_fewest_layers_are_asked_for(program, optimize):
    test_differences_of_data_far_from_zero_keep_their_digits(program, optimize)
    least = inweave.compile(program, n=5, optimize="depth", verify=False)
    assert least.depth <= inweave.compile(program, n=5, optimize=optimize, verify=False).depth


def _centred(n):
    return np.eye(n) - 1 / n


@inweave.program
def gram_of_centred(X: Matrix["n", "d"]):
    Y = _centred(X.shape[0]) @ X
    return Y.T @ Y


@inweave.program
def centred_gradient(X: Matrix["n", "d"], w: Vector["d"]):
    Y = X @ _centred(X.shape[1])
    return Y.T @ (Y @ w)


@inweave.program
def steps_of_differences(X: Matrix["n", "d"]):
    D = np.eye(X.shape[0])[1:] - np.eye(X.shape[0])[:-1]
    return (D @ X).T @ (D @ X)


@pytest.mark.parametrize("optimize", ["faithful", "speed"])
@pytest.mark.parametrize("far", [1e6, 1e8])
@pytest.mark.parametrize("program", [gram_of_centred, centred_gradient, steps_of_differences])
def test_what_a_constant_takes_differences_of_keeps_the_digits_that_it_has(program, far, optimize):
    """By C and then by X, errors of far times a rounding were multiplied by far once more."""
    rng = np.random.default_rng(0)
    given = {"X": far + rng.normal(size=(6, 3)), "w": rng.normal(size=3)}
    net = inweave.compile(program, n=6, d=3, optimize=optimize)
    given = {x.name: given[x.name] for x in net.inputs}
    exact = program(**{name: x.astype(np.longdouble) for name, x in given.items()})
    error = np.abs(net(**given) - exact).max() / np.abs(exact).max()
    assert error <= 64 * far * np.finfo(float).eps
