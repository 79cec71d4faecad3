"""Baselines against closed forms, LAPACK and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from inweave.errors import InputError
from inweave.lab import baselines as base
from inweave.lab.tasks import TASKS, Task, draw, mse, stream

UNIFORM = Task(d=10, n=10, inputs="uniform")


def loss(predict, batch):
    return float(mse(predict(batch), batch))


def test_the_one_step_closed_form_is_the_papers_number_and_the_drawn_loss():
    assert base.one_step_loss(UNIFORM) / 2 == pytest.approx(0.2062, abs=5e-5)
    batch = draw(UNIFORM, 50_000, stream(0), torch.float64)
    eta = base.one_step_eta(UNIFORM)
    # E over the query and the weights of (uᵀ(I - ηS)w)² is σ²‖I - ηS‖²: only X is sampled
    S = batch.X.mT @ batch.X / UNIFORM.n
    step = torch.eye(10, dtype=torch.float64) - eta * S
    exact = UNIFORM.variance * float(step.square().sum((1, 2)).mean())
    assert exact == pytest.approx(base.one_step_loss(UNIFORM), rel=0.003)
    found = loss(base.gradient_descent(1, eta), batch)
    assert found == pytest.approx(exact, rel=0.04)
    for other in (0.9 * eta, 1.1 * eta):
        assert loss(base.gradient_descent(1, other), batch) > found
    (tuned,) = base.tune(
        lambda eta: base.gradient_descent(1, eta), [(0.0, 20.0)], batch.rows(slice(0, 20_000))
    )
    assert tuned == pytest.approx(eta, rel=0.02)


@pytest.mark.parametrize(("n", "d"), [(20, 5), (10, 10)])
def test_for_normal_inputs_it_is_d_times_d_plus_1_over_n_plus_d_plus_1(n, d):
    assert base.one_step_loss(Task(n=n, d=d)) == pytest.approx(d * (d + 1) / (n + d + 1))


def test_there_is_no_closed_form_where_it_would_be_wrong():
    shifted = [Task(query_scale=3.0), Task(query_shift=2.0), Task(pool=2)]
    for task in (TASKS["anisotropic"], TASKS["noisy"], TASKS["decision-tree"], *shifted):
        with pytest.raises(InputError, match="tune"):
            base.one_step_eta(task)


@pytest.mark.parametrize("n", [4, 12])
def test_least_squares_is_lapacks(n):
    batch = draw(Task(d=6, n=n, noise=0.3), 20, stream(0), torch.float64)
    for i, got in enumerate(base.least_squares(batch)):
        w = np.linalg.lstsq(batch.X[i].numpy(), batch.y[i].numpy(), rcond=None)[0]
        assert float(got) == pytest.approx(float(w @ batch.u[i].numpy()), abs=1e-6)


def test_without_noise_least_squares_and_bayes_lose_no_digits_where_n_is_d():
    batch = draw(Task(d=10, n=10), 2000, stream(0))
    wide = batch.to(torch.float64)
    exact = (torch.linalg.lstsq(wide.X, wide.y.unsqueeze(-1)).solution.squeeze(-1) * wide.u).sum(-1)
    for predict in (base.least_squares, base.bayes(Task(d=10, n=10))):
        assert float((predict(wide) - exact).abs().max()) < 1e-6 * float(exact.abs().max())


@pytest.mark.parametrize(("n", "d", "lam"), [(10, 10, 0.01), (10, 20, 0.01), (30, 5, 0.3)])
def test_lasso_has_converged(n, d, lam):
    linear = pytest.importorskip("sklearn.linear_model")
    batch = draw(Task(d=d, n=n, nonzero=2), 8, stream(0), torch.float64)
    got = base.lasso(lam)(batch)
    reference = linear.Lasso(alpha=lam, fit_intercept=False, tol=1e-12, max_iter=1_000_000)
    for i in range(len(batch)):
        reference.fit(batch.X[i].numpy(), batch.y[i].numpy())
        expected = float(reference.predict(batch.u[i : i + 1].numpy())[0])
        assert float(got[i]) == pytest.approx(expected, abs=1e-3)


def test_ridge_lasso_and_neighbours_are_scikit_learns():
    linear = pytest.importorskip("sklearn.linear_model")
    neighbors = pytest.importorskip("sklearn.neighbors")
    batch = draw(Task(d=4, n=12, noise=0.5), 10, stream(0), torch.float64)
    ours = {
        "ridge": (base.ridge(0.7), linear.Ridge(alpha=0.7, fit_intercept=False)),
        "lasso": (base.lasso(0.1), linear.Lasso(alpha=0.1, fit_intercept=False, tol=1e-10)),
        "nearest": (base.nearest(3), neighbors.KNeighborsRegressor(3)),
    }
    for predict, reference in ours.values():
        for i, got in enumerate(predict(batch)):
            reference.fit(batch.X[i].numpy(), batch.y[i].numpy())
            expected = reference.predict(batch.u[i : i + 1].numpy())[0]
            assert float(got) == pytest.approx(float(expected), abs=1e-5)


def test_descent_newton_and_preconditioning_reach_ridge_regression():
    batch = draw(Task(d=3, n=12, noise=0.5), 10, stream(0), torch.float64)
    target = base.ridge(12 * 0.2)(batch)
    torch.testing.assert_close(base.gradient_descent(600, 0.2, lam=0.2)(batch), target)
    torch.testing.assert_close(base.newton(25, lam=12 * 0.2)(batch), target)
    turned = 0.5 * torch.eye(3, dtype=torch.float64)
    torch.testing.assert_close(
        base.gradient_descent(5, 0.2, preconditioner=turned)(batch),
        base.gradient_descent(5, 0.1)(batch),
    )


def test_gd_plus_plus_without_its_plus_is_gradient_descent():
    batch = draw(UNIFORM, 50, stream(0), torch.float64)
    for steps in (1, 3):
        torch.testing.assert_close(
            base.gd_plus_plus(steps, 4.0, 0.0)(batch), base.gradient_descent(steps, 4.0)(batch)
        )


def test_two_steps_of_gd_and_gd_plus_plus_reach_known_losses():
    """About 0.159 and 0.112 as half-MSE; d = n = 10, uniform inputs, tuned on a separate set."""
    tuning, held_out = draw(UNIFORM, 10_000, stream(0, "tune")), draw(UNIFORM, 80_000, stream(0))
    (eta,) = base.tune(lambda eta: base.gradient_descent(2, eta), [(0.0, 20.0)], tuning)
    assert loss(base.gradient_descent(2, eta), held_out) / 2 == pytest.approx(0.159, abs=0.005)
    pair = base.tune(
        lambda eta, gamma: base.gd_plus_plus(2, eta, gamma), [(0.0, 20.0), (0.0, 20.0)], tuning
    )
    assert loss(base.gd_plus_plus(2, *pair), held_out) / 2 == pytest.approx(0.112, abs=0.005)


def test_the_bayes_predictor_is_best():
    task = TASKS["noisy-per-prompt"]
    batch = draw(task, 4000, stream(0))
    oracle = loss(base.bayes(task), batch)
    rivals = {
        "zero": base.zero,
        "averaging": base.averaging,
        "least squares": base.least_squares,
        "fixed ridge": base.ridge(task.mean_square_noise()),
        "adaptive ridge": base.adaptive_ridge,
        "tuned": base.tuned_adaptive_ridge(1.0, 0.5),
    }
    for name, predict in rivals.items():
        assert loss(predict, batch) > oracle, name
    with pytest.raises(InputError, match="normal prior"):
        base.bayes(TASKS["sparse"])


def test_the_bayes_predictor_knows_a_whitened_prior():
    task = Task(d=3, n=4, eigenvalues=(1.0, 0.25, 0.04), weights="whitened", noise=1.0)
    batch = draw(task, 20_000, stream(0))
    assert loss(base.bayes(task), batch) < loss(base.ridge(1.0), batch)
    exact = draw(Task(d=3, n=6), 50, stream(0))
    torch.testing.assert_close(base.bayes(Task(d=3, n=6))(exact), exact.clean, atol=1e-4, rtol=1e-4)
