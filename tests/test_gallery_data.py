"""The gallery on real data against scikit-learn and scipy, and numbers that papers published."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import scipy.optimize

import inweave
from inweave import gallery
from inweave.data import diabetes
from inweave.gallery.higher_order import layers_needed

pytestmark = pytest.mark.usefixtures("unchecked_passes")


@cache
def patients():
    """The diabetes data with standardised columns and a centred, scaled response."""
    data = diabetes()
    X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    return X, (data.y - data.y.mean()) / data.y.std()


@cache
def tumours(columns=10):
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    X = data.data[:, :columns]
    return (X - X.mean(axis=0)) / X.std(axis=0), data.target.astype(float)


def relative(found, expected):
    return np.max(np.abs(found - expected)) / np.max(np.abs(expected))


def ridge(X, y, lam):
    from sklearn.linear_model import Ridge

    return Ridge(alpha=lam, fit_intercept=False).fit(X, y).coef_


# -- real data -------------------------------------------------------------------------------------
def test_every_first_order_method_reaches_scikit_learns_ridge_on_the_diabetes_data():
    X, y = patients()
    lam = 40.0
    values = np.linalg.eigvalsh(X.T @ X) + lam
    low, high = values[0], values[-1]
    a, b = np.sqrt(low), np.sqrt(high)
    expected = ridge(X, y, lam)
    common = {"X": X, "y": y, "lam": lam}
    sizes = {"n": len(y), "d": 10}
    plain = inweave.compile(gallery.ridge_gd, **sizes, steps=729)
    found = plain(**common, u=np.eye(10), w0=np.zeros(10), eta=2 / (low + high))
    assert relative(found, expected) < 1e-10
    heavy = inweave.compile(gallery.heavy_ball, **sizes, steps=200)
    found = heavy(**common, eta=4 / (a + b) ** 2, beta=((b - a) / (b + a)) ** 2)
    assert relative(found, expected) < 1e-10
    fast = inweave.compile(gallery.nesterov, **sizes, steps=300)
    assert relative(fast(**common, eta=1 / high, beta=(b - a) / (b + a)), expected) < 1e-10
    best = inweave.compile(gallery.chebyshev, **sizes, steps=100, low=float(low), high=float(high))
    assert relative(best(**common), expected) < 1e-8


def test_several_responses_and_weights_on_the_diabetes_data():
    X, y = patients()
    Y = np.column_stack([y, X[:, 0] ** 2, np.sign(y)])
    lam, n = 40.0, len(y)
    values = np.linalg.eigvalsh(X.T @ X) + lam
    eta = 2 / (values[0] + values[-1])
    network = inweave.compile(gallery.ridge_multi_output, n=n, d=10, k=3, steps=600)
    assert relative(network(X=X, Y=Y, lam=lam, eta=eta), ridge(X, Y, lam).T) < 1e-8
    from sklearn.linear_model import Ridge

    X, y = X[:60], y[:60]
    weights = np.random.default_rng(0).uniform(0.2, 1, 60)
    values = np.linalg.eigvalsh(X.T * weights @ X) + lam
    network = inweave.compile(gallery.weighted_least_squares, n=60, d=10, steps=300)
    found = network(X=X, y=y, D=np.diag(weights), lam=lam, eta=2 / (values[0] + values[-1]))
    fit = Ridge(alpha=lam, fit_intercept=False).fit(X, y, sample_weight=weights)
    assert relative(found, fit.coef_) < 1e-8


@pytest.mark.parametrize(("name", "steps"), [("lasso_ista", 6000), ("lasso_fista", 600)])
def test_the_lasso_on_the_diabetes_data_is_scikit_learns(name, steps):
    from sklearn.linear_model import Lasso

    X, y = patients()
    alpha = 0.05
    fit = Lasso(alpha=alpha, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(X, y)
    assert 0 < np.sum(fit.coef_ == 0) < 10
    network = inweave.compile(getattr(gallery, name), n=len(y), d=10, steps=steps, optimize="speed")
    found = network(X=X, y=y, lam=alpha * len(y), eta=1 / np.linalg.norm(X, 2) ** 2)
    assert np.max(np.abs(found - fit.coef_)) < 1e-6
    assert np.array_equal(found == 0, fit.coef_ == 0)


def test_logistic_regression_on_the_breast_cancer_data():
    from sklearn.linear_model import LogisticRegression

    X, y = tumours()
    lam = 10.0
    fit = LogisticRegression(C=1 / lam, fit_intercept=False, tol=1e-10, max_iter=5000).fit(X, y)
    network = inweave.compile(
        gallery.logistic_gd, n=len(y), d=10, steps=400, error=1e-5, largest=30.0
    )
    eta = 1 / (np.linalg.norm(X, 2) ** 2 / 4 + lam)
    found = network(X=X, y=y, lam=lam, eta=eta)
    assert relative(found, fit.coef_[0]) < 1e-3
    assert np.mean((X @ found > 0) == (y > 0)) > 0.9


def test_robust_regression_on_the_diabetes_data_minimises_hubers_loss():
    X, y = patients()
    delta = 0.8

    def loss(w):
        far = np.abs(X @ w - y)
        return np.sum(np.where(far <= delta, far**2 / 2, delta * (far - delta / 2)))

    def slope(w):
        return X.T @ np.clip(X @ w - y, -delta, delta)

    best = scipy.optimize.minimize(loss, np.zeros(10), jac=slope, tol=1e-12)
    network = inweave.compile(gallery.huber_gd, n=len(y), d=10, steps=6000, delta=delta)
    found = network(X=X, y=y, eta=1 / np.linalg.norm(X, 2) ** 2)
    assert loss(found) <= best.fun * (1 + 1e-9)
    assert relative(found, best.x) < 1e-3


def test_the_selected_lambda_is_the_one_scikit_learn_selects_on_the_same_rows():
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import GridSearchCV, PredefinedSplit

    X, y = patients()
    lams = (10.0, 50.0, 200.0, 800.0)
    network = inweave.compile(
        gallery.ridge_selection, n=40, v=40, d=10, steps=3000, lams=lams, optimize="speed"
    )
    chosen = set()
    for start in (0, 80, 160, 240, 320):
        rows = slice(start, start + 80)
        X80, y80 = X[rows], y[rows]
        fold = PredefinedSplit(np.repeat([-1, 0], 40))
        search = GridSearchCV(
            Ridge(fit_intercept=False), {"alpha": lams}, cv=fold,
            scoring="neg_mean_squared_error", refit=False,
        ).fit(X80, y80)  # fmt: skip
        best = lams.index(search.best_params_["alpha"])
        found = network(X=X80[:40], y=y80[:40], V=X80[40:], z=y80[40:], u=X[-1],
                        eta=1 / (np.linalg.norm(X80[:40], 2) ** 2 + 800))  # fmt: skip
        np.testing.assert_allclose(found["choice"], np.eye(4)[best], atol=1e-9)
        expected = ridge(X80[:40], y80[:40], lams[best]) @ X[-1]
        assert found["prediction"] == pytest.approx(expected, rel=1e-4, abs=1e-5)
        chosen.add(best)
    assert len(chosen) > 1, "the data must not always want the same"


def test_principal_components_of_the_breast_cancer_data():
    from sklearn.decomposition import PCA

    X, _ = tumours()
    start = np.ones(10) / np.sqrt(10)
    found = inweave.compile(gallery.pca, n=len(X), d=10, steps=120)(X=X, v0=start)
    fit = PCA(2).fit(X)
    np.testing.assert_allclose(found["values"], fit.singular_values_**2 / len(X), rtol=1e-10)
    signs = np.sign(start @ fit.components_.T)
    np.testing.assert_allclose(found["vectors"], fit.components_.T * signs, atol=1e-8)


def test_the_leading_eigenvector_of_a_correlation_matrix():
    X, _ = tumours(30)
    C = np.corrcoef(X.T)
    found = inweave.compile(gallery.power_iteration, m=30, steps=60)(A=C, v0=np.ones(30) / 30**0.5)
    values, vectors = np.linalg.eigh(C)
    assert found["value"] == pytest.approx(values[-1], rel=1e-12)
    assert abs(found["vector"] @ vectors[:, -1]) == pytest.approx(1, abs=1e-12)


def test_kernel_regression_on_the_diabetes_data():
    from sklearn.kernel_ridge import KernelRidge

    X, y = patients()
    rows, new = slice(0, 60), slice(60, 70)
    fit = KernelRidge(alpha=20.0, kernel="linear").fit(X[rows], y[rows])
    values = np.linalg.eigvalsh(X[rows] @ X[rows].T) + 20.0
    network = inweave.compile(gallery.kernel_regression, n=60, d=10, steps=500)
    eta = 2 / (max(values[0], 20.0) + values[-1])
    found = network(X=X[rows], y=y[rows], u=X[new], lam=20.0, eta=eta)
    assert relative(found, fit.predict(X[new])) < 1e-8


def test_conjugate_gradients_on_the_diabetes_data():
    X, y = patients()
    A, b = X.T @ X / len(y) + 0.1 * np.eye(10), X.T @ y / len(y)
    network = inweave.compile(gallery.conjugate_gradient, m=10, steps=10, domain=(1e-30, 1e3))
    assert relative(network(A=A, b=b), np.linalg.solve(A, b)) < 1e-9


# -- published numbers -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("steps", "published", "factor"),
    [(8, 0.045, 1.2), (10, 0.0064, 1.4), (12, 2.5e-4, 1.7), (14, 9.8e-7, 10)],
)
def test_newton_schulz_has_the_published_error_per_iteration(steps, published, factor):
    """Gaussian data, d = 20, n = 40, no noise; the mean over 1000 tasks has a heavy tail."""
    rng = np.random.default_rng(2)
    X, w = rng.normal(size=(1000, 40, 20)), rng.normal(size=(1000, 20, 1))
    S = X.mT @ X
    alpha = 1 / np.linalg.norm(S @ S, axis=(1, 2))
    M = inweave.compile(gallery.newton_schulz, m=20, steps=steps)(A=S, alpha=alpha)
    found = np.mean(np.sum((M @ (X.mT @ (X @ w)) - w) ** 2, axis=(1, 2))) / 20
    assert published / factor < found < published * factor


def test_a_hundred_constructed_steps_equal_gradient_descent_in_float32():
    """Von Oswald et al.: agreement of about 1e-6."""
    rng = np.random.default_rng(0)
    X, u = rng.uniform(-1, 1, (200, 10, 10)), rng.uniform(-1, 1, (200, 10))
    y = np.einsum("tnd,td->tn", X, rng.normal(size=(200, 10)))
    network = inweave.compile(gallery.dual_gd, n=10, d=10, steps=100, tokens="n")
    found = network(X=np.float32(X), y=np.float32(y), u=np.float32(u), eta=np.float32(0.1))
    assert found.dtype == np.float32
    w = np.zeros((200, 10))
    for _ in range(100):
        w = w - 0.1 * np.einsum("tnd,tn->td", X, np.einsum("tnd,td->tn", X, w) - y)
    assert np.max(np.abs(found - np.einsum("td,td->t", u, w))) < 5e-6


def test_td0_agrees_with_the_textbook_loop_to_1e_16_on_boyans_chain():
    """Wang et al. report 1e-16 in float64."""
    rng = np.random.default_rng(0)
    n, d, states = 30, 4, 10
    features = rng.uniform(-1, 1, (states, d)) / np.sqrt(d)
    network = inweave.compile(gallery.td0, n=n, d=d, steps=15)
    for _ in range(30):
        visited = [0]
        for _ in range(n):
            visited.append((visited[-1] + rng.integers(1, 3)) % states)
        Phi, After = features[visited[:-1]], features[visited[1:]]
        r, u = rng.uniform(-1, 1, n) * 0.1, features[rng.integers(states)]
        w = np.zeros(d)
        for _ in range(15):
            w = w + 0.2 / n * Phi.T @ (r + 0.9 * After @ w - Phi @ w)
        found = network(Phi=Phi, After=After, r=r, u=u, gamma=0.9, eta=0.2 / n)
        assert abs(found - u @ w) < 3e-16


def test_the_optimal_step_for_gaussian_examples_is_the_best_of_all_steps():
    """Ahn et al., Mahankali et al.: no other multiple of it does better over many tasks."""
    rng = np.random.default_rng(0)
    n, d, noise, tasks = 20, 5, 0.5, 20_000
    X, u, w = (rng.normal(size=(tasks, *s)) for s in ((n, d), (d,), (d,)))
    y = np.einsum("tnd,td->tn", X, w) + noise * rng.normal(size=(tasks, n))
    true = np.einsum("td,td->t", u, w)
    network = inweave.compile(gallery.preconditioned_gd, n=n, d=d, noise=noise)
    assert network.depth == 1
    found = network(X=X, y=y, u=u)
    best = np.sum(found * true) / np.sum(found**2)
    assert best == pytest.approx(1.0, abs=0.02)


# -- how deep --------------------------------------------------------------------------------------
@pytest.mark.parametrize("condition", [10, 100, 1000])
def test_the_layers_said_to_be_needed_are_enough_and_fewer_are_not(condition):
    """S with eigenvalues at the ends of [1, condition], where every method is at its worst."""
    S = np.diag([1.0, condition])
    for error in (1e-3, 1e-6, 1e-10):
        said = layers_needed(condition, error)
        alpha = 2 / (1 + condition**2)
        for name, program, layers in (
            ("Newton-Schulz", gallery.newton_schulz, 1),
            ("hyperpower", gallery.hyperpower, 2),
        ):
            steps = (said[name] - 1) // layers
            network = inweave.compile(program, m=2, steps=steps, verify=False)
            assert network.depth == said[name]
            assert np.linalg.norm(np.eye(2) - network(A=S, alpha=alpha) @ S, 2) < error * 1.01
            fewer = inweave.compile(program, m=2, steps=steps - 1, verify=False)
            assert np.linalg.norm(np.eye(2) - fewer(A=S, alpha=alpha) @ S, 2) > error
        assert said["gradient descent, collapsed"] < said["Newton-Schulz"]


def test_collapsed_descent_has_the_depth_it_is_said_to_have():
    said = layers_needed(100, 1e-6)
    rate = (100 - 1) / (100 + 1)
    steps = int(np.ceil(np.log(1e-6) / np.log(rate)))

    @inweave.program
    def inverse(S: inweave.Matrix["m", "m"], eta: inweave.Scalar, *, steps: int):
        return inweave.iterate(
            lambda M: M - eta * (S @ M) + eta * inweave.eye(2), inweave.zeros(2, 2), steps
        )

    network = inweave.compile(inverse, m=2, steps=steps, optimize="depth")
    assert network.depth == said["gradient descent, collapsed"]
    S = np.diag([1.0, 100.0])
    assert np.linalg.norm(np.eye(2) - network(S=S, eta=2 / 101) @ S, 2) < 1.01e-6
