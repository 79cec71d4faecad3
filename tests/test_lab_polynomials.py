"""Polynomials in the moments: what linear attention computes, and what fits find of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from inweave.lab import baselines as base
from inweave.lab.forms import form
from inweave.lab.polynomials import Basis, degree, fitted
from inweave.lab.tasks import Task, draw, stream
from inweave.nn import Architecture

TASK = Task(d=3, n=9)


def problems(size, name="test"):
    return draw(TASK, size, stream(0, name), torch.float64)


def test_the_features_span_the_polynomials_of_their_degree():
    batch = problems(40)
    S = batch.X.mT @ batch.X / 9
    m = (batch.X.mT @ batch.y.unsqueeze(-1)) / 9
    u = batch.u.unsqueeze(1)
    powers = torch.cat([(u @ torch.linalg.matrix_power(S, j) @ m).flatten(1) for j in range(4)], 1)
    features = Basis.of(batch, 3)(batch)
    both = torch.cat([powers, features], 1)
    assert [torch.linalg.matrix_rank(x, rtol=1e-9) for x in (powers, features, both)] == [4, 4, 4]


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_gradient_descent_and_gd_plus_plus_are_polynomials_of_the_stated_degree(layers):
    fit, fresh = problems(400, "fit"), problems(200)
    for predict, count in (
        (base.gradient_descent(layers, 0.3), layers - 1),
        (base.gd_plus_plus(layers, 0.3, 0.1), degree(layers)),
    ):
        found = fitted(Basis.of(fit, count), fit, predict(fit))
        torch.testing.assert_close(found(fresh), predict(fresh), atol=1e-6, rtol=1e-6)
        if count:
            less = fitted(Basis.of(fit, count - 1), fit, predict(fit))
            assert float((less(fresh) - predict(fresh)).abs().max()) > 1e-9


def test_linear_attention_sees_its_examples_only_through_their_second_moments():
    """Other examples with the same moments, H ↦ R H with R orthogonal: no prediction changes."""
    batch = problems(20)
    R = torch.linalg.qr(torch.randn(9, 9, generator=stream(1), dtype=torch.float64)).Q
    turned = replace(batch, X=R @ batch.X, y=batch.y @ R.T)
    made = form("examples", 9, 3)
    for activation, same in ((None, True), ("normalised", False), ("relu", False)):
        architecture = Architecture(
            depth=3, heads=2, bias=False, queries=1, activation=activation, scale=0.3
        )
        model = made.build(architecture, stream(2), torch.float64)
        one, other = model(made.prompt(batch)), model(made.prompt(turned))
        assert torch.allclose(one, other, rtol=1e-9, atol=1e-12) is same


def test_linear_attention_is_linear_in_a_query_that_nobody_attends_to():
    one, other = problems(20), problems(20, "other").u
    made = form("examples", 9, 3)
    for activation, queries, linear in ((None, 1, True), (None, 0, False), ("relu", 1, False)):
        architecture = Architecture(
            depth=3, heads=2, bias=False, queries=queries, activation=activation, scale=0.3
        )
        model = made.build(architecture, stream(2), torch.float64)
        first, second, both = (
            model(made.prompt(replace(one, u=u))) for u in (one.u, other, one.u + other)
        )
        assert torch.allclose(first + second, both, rtol=1e-9, atol=1e-12) is linear


def test_several_predictors_are_fitted_at_once():
    fit, fresh = problems(300, "fit"), problems(50)
    rivals = [base.averaging, base.gradient_descent(2, 0.4)]
    basis = Basis.of(fit, 1, invariants=True)
    together = fitted(basis, fit, torch.stack([p(fit) for p in rivals], 1))(fresh)
    for i, predict in enumerate(rivals):
        torch.testing.assert_close(together[:, i], fitted(basis, fit, predict(fit))(fresh))
        torch.testing.assert_close(together[:, i], predict(fresh), atol=1e-6, rtol=1e-6)
    assert basis(fresh).shape == (50, 6)
