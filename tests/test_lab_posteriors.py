"""Posterior means: equal to their definition by brute force, and better than every rival."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from inweave.errors import InputError
from inweave.lab import baselines as base
from inweave.lab import posteriors
from inweave.lab.posteriors import posterior
from inweave.lab.tasks import Batch, Task, draw, stream

TASKS = {
    "sparse": Task(d=4, n=6, nonzero=2, noise=0.5),
    "tree": Task(d=3, n=12, function="tree", levels=2, noise=0.3),
    "graded": Task(d=3, n=8, relevance="graded", noise=0.3),
    "binary": Task(d=3, n=8, relevance="binary", noise=0.3),
    "relu-network": Task(d=3, n=12, function="relu-network", hidden=30, noise=0.1),
}


def reference(task):
    return posteriors.best_linear if task.function == "relu-network" else posterior(task)


def loss(predict, batch):
    return float((predict(batch) - batch.clean).square().mean())


def normal_log_density(y, covariance):
    return torch.distributions.MultivariateNormal(torch.zeros_like(y), covariance).log_prob(y)


def by_models(batch, models, noise):
    """The posterior mean from its definition: features of each model, normal weights."""
    answers = []
    for i in range(len(batch)):
        points = torch.cat([batch.X[i], batch.u[i][None]])
        scores, means = [], []
        for features in models:
            F = features(points)
            covariance = F[:-1] @ F[:-1].T + noise**2 * torch.eye(len(F) - 1, dtype=F.dtype)
            scores.append(normal_log_density(batch.y[i], covariance))
            means.append(F[-1] @ F[:-1].T @ torch.linalg.solve(covariance, batch.y[i]))
        answers.append((torch.stack(scores).softmax(0) * torch.stack(means)).sum())
    return torch.stack(answers)


def test_the_posterior_of_a_sparse_task_is_a_mixture_over_supports():
    task = TASKS["sparse"]
    batch = draw(task, 6, stream(0), torch.float64)
    models = [lambda P, s=s: P[:, s] for s in map(list, itertools.combinations(range(4), 2))]
    torch.testing.assert_close(posterior(task)(batch), by_models(batch, models, task.noise))


def test_noise_that_is_not_told_is_averaged_over():
    """Against densities of y that are computed from their covariance, level by level."""
    task = Task(d=2, n=5, noise_max=3.0)
    batch = draw(task, 6, stream(0, "noise"), torch.float64)
    levels = 3.0 * (torch.arange(posteriors.LEVELS, dtype=torch.float64) + 0.5) / posteriors.LEVELS
    found = posteriors.unknown_noise(task, chunk=4)(batch)
    for i in range(len(batch)):
        X, y, u = batch.X[i], batch.y[i], batch.u[i]
        logs = torch.stack([
            normal_log_density(y, X @ X.T + v * v * torch.eye(task.n, dtype=X.dtype))
            for v in levels
        ])  # fmt: skip
        means = torch.stack([
            u @ torch.linalg.solve(X.T @ X + v * v * torch.eye(task.d, dtype=X.dtype), X.T @ y)
            for v in levels
        ])  # fmt: skip
        assert float(found[i]) == pytest.approx(float((logs.softmax(0) * means).sum()), rel=1e-9)
    with pytest.raises(InputError, match="noise_max"):
        posteriors.unknown_noise(Task(d=2, n=5, noise=1.0))


def test_the_posterior_of_trees_is_a_mixture_over_what_their_nodes_ask():
    task = TASKS["tree"]
    batch = draw(task, 6, stream(0), torch.float64)

    def leaves(entries):
        def features(points):
            root = points[:, entries[0]] > 0
            second = torch.where(root, points[:, entries[2]] > 0, points[:, entries[1]] > 0)
            return torch.nn.functional.one_hot(2 * root + second.long(), 4).to(points)

        return features

    models = [leaves(entries) for entries in itertools.product(range(3), repeat=3)]
    torch.testing.assert_close(posterior(task)(batch), by_models(batch, models, task.noise))


@pytest.mark.parametrize("name", TASKS)
def test_no_predictor_is_better_than_the_reference(name):
    task = TASKS[name]
    batch = draw(task, 4000, stream(0), torch.float64)
    best = loss(reference(task), batch)
    rivals = {"zero": base.zero, "averaging": base.averaging, "one": base.nearest(1)}
    rivals |= {f"ridge {lam}": base.ridge(lam) for lam in (0.1, 0.3, 1.0, 3.0, 10.0)}
    rivals |= {"few": lambda batch: base.ridge(1.0)(batch.context(4))}
    if task.nonzero:
        rivals |= {f"lasso {lam}": base.lasso(lam) for lam in (0.03, 0.1, 0.3)}
    for rival, predict in rivals.items():
        assert loss(predict, batch) > best, rival


@pytest.mark.parametrize("relevance", ["graded", "binary"])
def test_examples_are_as_relevant_as_their_keys_say(relevance):
    task = Task(d=3, n=6, relevance=relevance)
    batch = draw(task, 40_000, stream(0), torch.float64)
    match = (batch.keys @ batch.key.unsqueeze(-1)).squeeze(-1)
    rho = (1 + match) / 2
    torch.testing.assert_close(rho, task.relevances().expand(40_000, 6), atol=1e-7, rtol=0)
    assert task.relevances().tolist() == sorted(task.relevances().tolist(), reverse=True)
    assert float(task.relevances().mean()) == pytest.approx(0.5)
    same = (batch.X @ batch.w.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(
        (batch.y * same).mean(0) / 3, task.relevances().sqrt(), atol=0.03, rtol=0
    )
    assert float(batch.y.square().mean()) == pytest.approx(3, rel=0.02)
    torch.testing.assert_close(batch.clean, (batch.u * batch.w).sum(-1))
    around = torch.atan2(batch.key[:, 1], batch.key[:, 0])
    assert float(around.std()) == pytest.approx(math.pi / 3**0.5, rel=0.02)


def test_the_covariance_of_networks_of_units_is_that_of_the_reference():
    """Noiseless labels at the query itself are known: the reference interpolates them."""
    task = Task(d=3, n=5, function="relu-network", hidden=7)
    batch = draw(task, 50, stream(0), torch.float64)
    at_first = Batch(batch.X, batch.y, batch.X[:, 0], batch.y[:, 0], batch.y[:, 0], batch.sigma)
    torch.testing.assert_close(
        posteriors.best_linear(at_first), batch.y[:, 0], atol=1e-4, rtol=1e-4
    )
    many = draw(task, 40_000, stream(1), torch.float64)
    residual = (posteriors.best_linear(many) - many.clean) * many.y[:, 0]
    assert abs(float(residual.mean())) < 4 * float(residual.std()) / 200


def test_what_has_no_posterior_is_refused():
    with pytest.raises(InputError, match="see best_linear"):
        posterior(Task(function="relu-network"))
    with pytest.raises(InputError, match="184756 of them"):
        posterior(Task(d=20, nonzero=10, noise=1.0))(draw(Task(d=20), 2, stream(0)))
    with pytest.raises(InputError, match="needs function = 'linear'"):
        Task(function="tree", relevance="graded")
