"""Measures: known answers, invariances, and intervals that cover."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from inweave import Output, Place
from inweave.errors import InputError, ShapeError
from inweave.lab import baselines as base
from inweave.lab import measures
from inweave.lab.experiments import common
from inweave.lab.forms import form
from inweave.lab.tasks import Task, draw, stream
from inweave.nn import ExtendedLinearAttention, build, from_network
from inweave.paper.ridge import ridge_elsa, ridge_lsa

TASK = Task(d=4, n=8)


@pytest.fixture
def batch():
    return draw(TASK, 64, stream(0), torch.float64)


def test_intervals_cover_the_mean_about_as_often_as_they_say():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        interval = measures.bootstrap(rng.exponential(size=80), samples=200)
        hits += interval.low <= 1.0 <= interval.high
    assert 0.87 <= hits / 200 <= 0.99


def test_no_value_is_left_out_of_an_interval():
    """1999 values do not divide into 1000 groups of one size."""
    interval = measures.bootstrap(np.r_[np.zeros(1000), np.ones(999)])
    assert interval.mean == pytest.approx(999 / 1999)
    assert interval.low < interval.mean < interval.high
    spread = np.random.default_rng(0).normal(size=1999)
    made = measures.bootstrap(spread)
    assert made.high - made.low == pytest.approx(2 * 1.96 / 1999**0.5, rel=0.1)


def test_seeds_that_differ_widen_an_interval():
    rng = np.random.default_rng(0)
    same = torch.from_numpy(rng.normal(size=(5, 400)))
    apart = same + torch.arange(5)[:, None]
    narrow, wide = common.over_seeds(same), common.over_seeds(apart)
    assert wide.high - wide.low > 5 * (narrow.high - narrow.low)
    assert common.over_seeds(same[:1]).high == np.inf, "one seed says nothing of others"
    assert measures.bootstrap(np.full(3000, 2.0)) == measures.Interval(2.0, 2.0, 2.0)
    assert format(narrow, ".2f").count(",") == 1
    with pytest.raises(InputError, match="one value per problem"):
        measures.bootstrap(same)


def test_a_linear_predictor_is_its_weights(batch):
    eta, steps = 0.3, 3
    w = base.descent_weights(batch, steps, eta)[-1]
    predict = base.gradient_descent(steps, eta)
    torch.testing.assert_close(measures.sensitivity(predict, batch), w)
    cosines = measures.sensitivity_cosine(predict, base.gradient_descent(steps, eta), batch)
    torch.testing.assert_close(cosines, torch.ones_like(cosines))
    flipped = measures.sensitivity_cosine(predict, lambda b: -predict(b), batch)
    torch.testing.assert_close(flipped, -torch.ones_like(flipped))


def test_constructed_networks_match_gradient_descent_layer_by_layer(batch):
    """ridge_lsa with T steps is T steps of descent with η' = n η: an independent implementation."""
    made = form("designed", TASK.n, TASK.d, eta=0.02, lam=0.0)
    model = from_network(ridge_lsa(TASK.n, TASK.d, 3))
    predict = measures.predictor(model, made)
    expected = base.gradient_descent(3, 0.02 * TASK.n)
    torch.testing.assert_close(predict(batch), expected(batch))
    layers = measures.by_layer(model, made, batch)
    assert len(layers) == 5
    torch.testing.assert_close(layers[-1], predict(batch))
    assert float(measures.prediction_difference(predict, expected, batch).max()) < 1e-20


def test_excess_and_context_are_plain_differences_of_losses(batch):
    errors = measures.squared_errors(base.zero, batch)
    torch.testing.assert_close(errors, batch.clean.square())
    exact = measures.excess(base.zero, base.least_squares, batch)
    torch.testing.assert_close(exact, errors, atol=1e-6, rtol=1e-6)
    shorter = measures.by_context(base.least_squares, batch, [2, 4, 8])
    assert shorter[0].mean() > shorter[1].mean() > -1e-9
    assert float(shorter[1].mean()) < 1e-6
    for length in (0, 9):
        with pytest.raises(InputError, match=f"context of {length} examples.* have 8"):
            measures.by_context(base.zero, batch, [length])


@pytest.mark.parametrize("queries", [0, 1])
def test_a_shorter_context_is_read_at_its_own_query(batch, queries):
    """A layer without biases on k examples is the same layer on a prompt that holds only those."""
    long, short = (form("examples", n, TASK.d) for n in (TASK.n, 3))
    made = [
        build(f.layout, depth=2, heads=2, bias=False, queries=queries, outputs=f.outputs,
              dtype=torch.float64, generator=torch.Generator().manual_seed(0), scale=0.3)
        for f in (long, short)
    ]  # fmt: skip
    (errors,) = measures.by_context(measures.predictor(made[0], long), batch, [3])
    few = batch.context(3)
    torch.testing.assert_close(errors, (made[1](short.prompt(few)) - few.clean).square())
    with_mlp = build(long.layout, bias=False, mlp_units=1, outputs=long.outputs)
    with pytest.raises(ShapeError, match="pointwise layer: got a prompt of shape"):
        with_mlp(long.prompt(few.to(torch.float32)))
    elsewhere = build(long.layout, bias=False, outputs=(Output("", Place("x", 1, 1), "scalar"),))
    with pytest.raises(ShapeError, match="got a prompt of 4 tokens, expected 9"):
        elsewhere(long.prompt(few.to(torch.float32)))


@pytest.mark.parametrize("bias", [True, False], ids=["elsa", "lsa"])
def test_the_gauge_distance_ignores_what_no_prompt_can_see(bias):
    generator = torch.Generator().manual_seed(0)
    one, other = (
        ExtendedLinearAttention(
            5, 3, 2, bias, init="random", generator=generator, dtype=torch.float64
        )
        for _ in range(2)
    )
    assert measures.gauge_distance(one, other) > 0.5
    turned = ExtendedLinearAttention(5, 3, 2, bias, dtype=torch.float64)
    M = torch.randn(3, 3, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        for parameter, source in zip(turned.parameters(), one.parameters(), strict=True):
            flipped = source.flip(1)  # the heads in another order
            parameter[:, :, 0] = 2.0 * flipped[:, :, 0] @ M
            parameter[:, :, 1] = flipped[:, :, 1] @ torch.linalg.inv(M).T
            parameter[:, :, 2] = 0.5 * flipped[:, :, 2]
    H = torch.randn(4, 5, 3, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(turned(H), one(H))
    assert measures.gauge_distance(turned, one) < 1e-6


def test_the_gauge_distance_sees_through_the_symmetry_of_the_gram_matrix():
    """(e₀ e₁ᵀ) HᵀH (e₂ e₀ᵀ) = (e₀ e₂ᵀ) HᵀH (e₁ e₀ᵀ): different weights, one function."""
    made = []
    for key, value in ((1, 2), (2, 1)):
        layer = ExtendedLinearAttention(4, 3, 1, bias=False, dtype=torch.float64)
        with torch.no_grad():
            layer.weight.zero_()
            layer.weight[0, 0, 0, 0] = layer.weight[key, 0, 1, 0] = 1.0
            layer.weight[value, 0, 2, 0] = 1.0
        made.append(layer)
    H = torch.randn(4, 3, dtype=torch.float64)
    torch.testing.assert_close(made[0](H), made[1](H))
    assert measures.gauge_distance(*made) < 1e-12


def passing(rows: list[int]) -> ExtendedLinearAttention:
    """H ↦ H on five tokens: queries H, keys and values the identity, from biases in those rows."""
    layer = ExtendedLinearAttention(5, 3, 1, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.zero_()
        layer.weight[:, 0, 0] = torch.eye(3)
        for column, row in enumerate(rows):
            layer.bias[row, 0, 1, column] = layer.bias[row, 0, 2, column] = 1.0
    return layer


def test_the_gauge_distance_counts_constants_by_what_they_do():
    """Where the identity that a head reads stands is invisible; so is which head writes nothing."""
    H = torch.randn(4, 5, 3, dtype=torch.float64)
    one, other = passing([0, 1, 2]), passing([1, 2, 3])
    torch.testing.assert_close(one(H), H)
    torch.testing.assert_close(other(H), H)
    assert measures.gauge_distance(one, other) < 1e-12
    silent, empty = passing([0, 1, 2]), passing([0, 1, 2])
    with torch.no_grad():
        silent.bias[:, 0, 2] = 0.0
        empty.weight.zero_()
        empty.bias.zero_()
    assert measures.gauge_distance(silent, empty) == 0.0
    assert measures.gauge_distance(one, empty) == float("inf")
    assert measures.gauge_distance(empty, one) == pytest.approx(1.0)


def test_the_gauge_distance_is_zero_only_for_equal_functions():
    """The linear part of a row may come from a constant corner or from the row's own bias."""
    by_corner = passing([0, 1, 2])
    by_rows = ExtendedLinearAttention(5, 3, 5, dtype=torch.float64)
    with torch.no_grad():
        by_rows.weight.zero_()
        by_rows.bias.zero_()
        for r in range(5):  # head r: (e_r eᵣᵀ) H, which is row r of H in row r
            by_rows.bias[r, r, 0, 0] = by_rows.bias[r, r, 1, 0] = 1.0
            by_rows.weight[:, r, 2] = torch.eye(3)
    H = torch.randn(4, 5, 3, dtype=torch.float64)
    torch.testing.assert_close(by_rows(H), by_corner(H))
    assert measures.gauge_distance(by_rows, by_corner) < 1e-12
    with torch.no_grad():
        by_rows.bias[0, 0, 0, 0] = 1.1
    assert measures.gauge_distance(by_rows, by_corner) > 0.01


def test_layers_of_different_kinds_are_not_compared():
    one = from_network(ridge_elsa(4, 2, 1)).stack[0].body[0]
    with pytest.raises(InputError, match="same width and kind"):
        measures.gauge_distance(one, ExtendedLinearAttention(2, 15, bias=False))
    relu = build(form("examples", 3, 2).layout, activation="relu").stack[0].body[0]
    with pytest.raises(InputError, match="same width and kind"):
        measures.gauge_distance(
            ExtendedLinearAttention(4, 2, bias=False),
            ExtendedLinearAttention(4, 2, bias=False, queries=1),
        )
    with pytest.raises(InputError, match="linear heads"):
        measures.gauge_distance(relu, relu)


def test_distance_to_a_multiple():
    reference = torch.diag(torch.tensor([1.0, 2.0, 3.0]))
    assert measures.multiple_of(-4 * reference, reference) == pytest.approx(0.0, abs=1e-3)
    off = torch.zeros(3, 3)
    off[0, 1] = 1.0
    assert measures.multiple_of(off, reference) == pytest.approx(1.0)
