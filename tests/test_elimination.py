"""Elimination in layers: linear systems and ridge regression solved inside one network."""

from __future__ import annotations

import numpy as np
import pytest

import inweave
from inweave import Matrix, gallery
from inweave.data import diabetes
from inweave.model.layers import AttentionLayer, BlockPointwiseLayer


def systems(m, k, condition, seed=0):
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(m, m)))[0]
    return basis * np.geomspace(1, condition, m) @ basis.T, rng.normal(size=(m, k))


def relative(found, expected):
    return np.max(np.abs(found - expected)) / np.max(np.abs(expected))


@pytest.mark.parametrize("target", ["elsa", "lsa"])
@pytest.mark.parametrize("m", [2, 3, 4, 5, 6])
def test_gauss_jordan_and_closed_form_ridge_are_proved_exactly(m, target):
    for network in (
        inweave.compile(gallery.gauss_jordan, m=m, k=2, target=target),
        inweave.compile(gallery.ridge_closed_form, n=m + 3, d=m, target=target),
    ):
        found = network.verify(trials=2)
        assert found.method == "induction"
        assert found.probability < 1e-12
        assert network.target == target


def test_a_wrong_construction_is_found():
    @inweave.program
    def almost(F: Matrix["m", "m"], B: Matrix["m", "k"]) -> Matrix["m", "k"]:
        m = F.shape[0]
        up, left = np.roll(np.eye(m), 1, axis=1), np.eye(m + B.shape[1])
        left[:m, :m] = up.T

        def step(P):
            pivot = inweave.reciprocal(P[0, 0], domain=(1e-6, 1e6), error=1e-15)
            return (
                up @ inweave.hold(P - P[:, 0:1] * pivot @ P[0:1, :]) @ left
            )  # the corner is missing

        return inweave.iterate(step, inweave.hstack([F, B]), m)[:, m:]

    network = inweave.compile(almost, m=3, k=1)
    with pytest.raises(inweave.VerificationError, match="differ"):
        inweave.verify(gallery.gauss_jordan, network)


@pytest.mark.parametrize("m", [2, 6, 12])
def test_gauss_jordan_is_one_tied_module_without_multiplication_skips(m):
    network = inweave.compile(gallery.gauss_jordan, m=m, k=1)
    tied = [module for module in network.modules if module.repeat > 1]
    assert [module.repeat for module in tied] == [m]
    assert all(isinstance(x, AttentionLayer | BlockPointwiseLayer) for x in network.layers)
    stored = [inweave.compile(gallery.gauss_jordan, m=k, k=1, verify=False) for k in (3, 9)]
    assert stored[0].heads == stored[1].heads == network.heads


def test_the_untied_order_stores_more_heads_as_systems_grow():
    sizes = [inweave.compile(gallery.gaussian_elimination, m=m, k=1, verify=False) for m in (2, 4)]
    assert sizes[1].heads > 2 * sizes[0].heads
    assert all(module.repeat == 1 for network in sizes for module in network.modules)


@pytest.mark.parametrize(
    ("m", "k", "condition"), [(2, 1, 10), (6, 3, 1e3), (15, 1, 1e6), (24, 2, 1e4)]
)
def test_gauss_jordan_solves_like_lapack(m, k, condition):
    F, B = systems(m, k, condition)
    network = inweave.compile(gallery.gauss_jordan, m=m, k=k, domain=(0.1, 1e7))
    expected = np.linalg.solve(F, B)
    assert relative(network(F=F, B=B), expected) < 1e-15 * condition * m


def test_systems_that_are_not_symmetric_are_solved_too():
    rng = np.random.default_rng(3)
    F = rng.normal(size=(5, 5)) + 6 * np.eye(5)
    B = rng.normal(size=(5, 2))
    assert (
        relative(inweave.compile(gallery.gauss_jordan, m=5, k=2)(F=F, B=B), np.linalg.solve(F, B))
        < 1e-13
    )


def test_many_systems_at_once():
    made = [systems(4, 1, 100, seed) for seed in range(50)]
    F, B = (np.stack(parts) for parts in zip(*made, strict=True))
    network = inweave.compile(gallery.gauss_jordan, m=4, k=1)
    assert relative(network(F=F, B=B), np.linalg.solve(F, B)) < 1e-12


@pytest.mark.parametrize("pivot", [0, 1, 2])
def test_a_singular_or_indefinite_system_is_refused_with_the_pivot(pivot):
    network = inweave.compile(gallery.gauss_jordan, m=3, k=1)
    for value in (0.0, -1.0):
        F = np.eye(3)
        F[pivot, pivot] = value
        with pytest.raises(inweave.DomainError, match=f"step {pivot}"):
            network(F=F, B=np.ones((3, 1)))


def test_closed_form_ridge_compiles_as_it_stands_and_says_its_size():
    network = inweave.compile(gallery.ridge_closed_form, n=60, d=12)
    tied = next(module for module in network.modules if module.repeat == 12)
    before = network.modules[: network.modules.index(tied)]
    assert sum(len(module.body) for module in before) == 1, "one layer forms the system"
    units = max(layer.units for layer in network.layers if hasattr(layer, "units"))
    assert (network.depth, network.heads, units) == (74, 14, 63)


def test_its_domain_comes_from_what_the_program_declares():
    def domain(**declared):
        network = inweave.compile(gallery.ridge_closed_form, n=20, d=3, verify=False, **declared)
        return next(x for x in network.layers if hasattr(x, "applied")).applied[0][1].domain

    assert domain() == (1e-4, 1e4 + 60)
    assert domain(lam_range=(1.0, 2.0)) == (1.0, 62.0)
    assert domain(lam_range=(1.0, 2.0), trace=5.0) == (1.0, 7.0)


@pytest.mark.parametrize("lam", [1e-3, 1.0, 300.0])
def test_closed_form_ridge_on_the_diabetes_data(lam):
    from sklearn.linear_model import Ridge

    data = diabetes()
    X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    y = data.y - data.y.mean()
    network = inweave.compile(gallery.ridge_closed_form, n=len(y), d=10)
    weights = network(X=X, y=y, u=np.eye(10), lam=lam)
    expected = np.linalg.solve(X.T @ X + lam * np.eye(10), X.T @ y)
    assert relative(weights, expected) < 1e-11
    fit = Ridge(alpha=lam, fit_intercept=False, solver="cholesky").fit(X, y)
    assert relative(network(X=X, y=y, u=X[:20], lam=lam), fit.predict(X[:20])) < 1e-11


@pytest.mark.parametrize(("d", "condition"), [(5, 1e2), (15, 1e4), (30, 1e6)])
def test_closed_form_ridge_on_ill_conditioned_problems(d, condition, capsys):
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(d)
    n, lam = 2 * d, 1e-3
    U = np.linalg.qr(rng.normal(size=(n, d)))[0]
    V = np.linalg.qr(rng.normal(size=(d, d)))[0]
    X = U * np.sqrt(np.maximum(np.geomspace(lam * condition, lam, d) - lam, 0)) @ V.T
    y = rng.normal(size=n)
    system = X.T @ X + lam * np.eye(d)
    assert np.linalg.cond(system) == pytest.approx(condition, rel=1e-3)
    network = inweave.compile(gallery.ridge_closed_form, n=n, d=d)
    weights = network(X=X, y=y, u=np.eye(d), lam=lam)
    error = relative(weights, np.linalg.solve(system, X.T @ y))
    fit = Ridge(alpha=lam, fit_intercept=False, solver="svd").fit(X, y)
    assert error < 1e-8
    assert relative(weights, fit.coef_) < 1e-8
    with capsys.disabled():
        print(f"\nclosed-form ridge, d = {d}, condition {condition:.0e}: error {error:.1e}; "
              f"{network.depth} layers, {network.heads} heads, 63 units")  # fmt: skip


def test_what_lies_outside_the_declared_bounds_is_refused():
    network = inweave.compile(gallery.ridge_closed_form, n=8, d=2, lam_range=(1.0, 10.0))
    inputs = gallery.get("ridge_closed_form").example(n=8, d=2)
    inputs["X"] = 100 * inputs["X"]
    with pytest.raises(inweave.DomainError, match="reciprocal got"):
        network(**inputs)


def test_recursive_least_squares_gives_the_batch_solution():
    data = diabetes()
    X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    y = (data.y - data.y.mean()) / data.y.std()
    X, y = X[:80], y[:80]
    network = inweave.compile(gallery.recursive_least_squares, n=80, d=10)
    for lam in (0.01, 1.0, 50.0):
        expected = np.linalg.solve(X.T @ X + lam * np.eye(10), X.T @ y)
        assert relative(network(X=X, y=y, lam=lam), expected) < 1e-8
