"""The lower bound on depth counts degrees in the entries of the prompt: which may hold products."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import inweave
from inweave import (
    AttentionLayer,
    Fill,
    Head,
    Matrix,
    Module,
    Output,
    Place,
    Projection,
    Scalar,
    Vector,
)
from inweave.cli.show import report
from inweave.exact.constants import identity
from inweave.explore.report import report as explored
from inweave.gallery import ridge_gd as ridge
from inweave.model.projection import read
from inweave.model.prompt import HALF
from inweave.paper import ridge_elsa, ridge_lsa
from inweave.proof.degree import degree, least_degree, lower_bound
from inweave.proof.entries import AFFINE, OWN, in_entries, is_affine, weighings

N, D = 5, 3


@inweave.program
def product(
    X: Matrix["n", "d"],
    y: Vector["n"],
    u: Vector["d"],
    w0: Vector["d"],  # noqa: ARG001
    lam: Scalar,  # noqa: ARG001
    eta: Scalar,
) -> Scalar:
    return eta * (y @ (X @ u))


def bound(program, fills, **sizes):
    return in_entries(program.trace(n=N, d=D, **sizes), fills, degree)


def one_head():
    """√ηyᵀ (√ηXᵀ)ᵀ u = η yᵀXu on the designed prompt, in one head without biases."""
    form = ridge_lsa(N, D, steps=1)
    layout, width = form.layout, form.layout.width
    query = Projection((read(layout, "√ηyᵀ", 0),))
    key = Projection((read(layout, "√ηXᵀ", 0),))
    value = Projection((read(layout, "u", width - 1),))
    layer = AttentionLayer((Head(query, key, value),), skip=False)
    answer = Output("", Place("w", 1, 1, row=D), "scalar")
    return replace(form, modules=(Module((layer,)),), outputs=(answer,))


def test_one_head_computes_a_product_of_four_inputs_where_two_stand_in_one_entry():
    net = one_head()
    assert inweave.verify(product, net).is_proof
    rng = np.random.default_rng(0)
    X, y, u = rng.standard_normal((N, D)), rng.standard_normal(N), rng.standard_normal(D)
    found = net(X=X, y=y, u=u, w0=np.zeros(D), lam=1.0, eta=0.3)
    assert found == pytest.approx(0.3 * y @ X @ u, rel=1e-12)
    # The degree in the inputs is 4, from which two layers would follow; there is one.
    assert lower_bound(degree(product.trace(n=N, d=D))[0]) == 2
    assert net.depth == 1
    here = bound(product, net.fills)
    assert (here.number, here.layers, here.holds) == (3, 1, OWN)


@pytest.mark.parametrize(
    ("steps", "inputs", "designed", "enumerated"),
    [(1, 2, 2, 2), (61, 5, 5, 6), (100, 6, 5, 6), (729, 8, 7, 8)],
)
def test_the_bound_is_that_of_the_prompt(steps, inputs, designed, enumerated):
    """2T + 2 on √ηX and √ηy, 4T + 2 beside √ηI, 3T + 2 where η stands by itself."""
    found = [bound(ridge, form(N, D, 1).fills, steps=steps) for form in (ridge_lsa, ridge_elsa)]
    assert [x.number for x in found] == [2 * steps + 2, 4 * steps + 2]
    assert [x.layers for x in found] == [designed, enumerated]
    compiled = inweave.compile(ridge, n=N, d=D, steps=1, verify=False)
    plain = bound(ridge, compiled.fills, steps=steps)
    assert (plain.number, plain.layers, plain.holds) == (3 * steps + 2, inputs, AFFINE)


def test_a_network_on_a_prompt_with_roots_says_what_its_bound_is_about():
    net = inweave.compile(ridge, layout=ridge_elsa(N, D, 1), n=N, d=D, steps=61)
    assert (net.degree, net.depth_lower_bound) == (185, 6)
    said = f"(degree 246 or more in its entries: lower bound 6 {OWN})"
    assert said in str(net)
    for data in (report(net), explored(net.shown())):
        assert OWN in (data.get("depth_lower_bound_holds"), data.get("holds"))
    assert report(net)["depth_lower_bound"] == explored(net.shown())["bound"] == 6
    usual = inweave.compile(ridge, n=N, d=D, steps=61)
    assert f"(degree 185: lower bound 5 {AFFINE})" in str(usual)
    assert report(usual)["depth_lower_bound_holds"] == explored(usual.shown())["holds"] == AFFINE


@inweave.program
def scaled(X: Matrix["n", "d"], u: Vector["d"], eta: Scalar) -> Vector["n"]:
    return eta * eta * (X @ (X.T @ (X @ u)))


def test_a_product_in_a_users_own_layout_lowers_the_bound():
    fills = (
        Fill(Place("X", N, D), source="X"),
        Fill(Place("ηX", N, D), source="X", scale=(("eta", Fraction(1)),)),
        Fill(Place("u", D, 1), source="u"),
        Fill(Place("eta", 1, 1), source="eta"),
    )
    found = bound(scaled, fills)
    assert (found.number, found.layers, found.holds) == (4, 2, OWN)  # (ηX)(ηX)ᵀXu
    without = [fill for fill in fills if not fill.scale]
    assert (bound(scaled, without).number, bound(scaled, without).holds) == (6, AFFINE)


def test_weights_are_the_corners_that_no_other_tops():
    scale = [(("a", Fraction(1)), ("b", Fraction(1))), (("b", Fraction(1)), ("c", Fraction(1)))]
    scale += [(("c", Fraction(1)), ("a", Fraction(1)))]
    fills = [Fill(Place("b", 1, 1), constant=identity(1), scale=s) for s in scale]
    found = {tuple(w[name] for name in "abc") for w in weighings(fills)}
    half = Fraction(1, 2)
    assert found == {(1, 0, 0), (0, 1, 0), (0, 0, 1), (half, half, half)}


def test_an_entry_of_zeros_ties_nothing():
    fill = Fill(Place("ηX", N, D), source="X", scale=(("eta", Fraction(1)),))
    assert not is_affine([fill])
    assert is_affine([replace(fill, coefficient=Fraction(0))])
    root = Fill(Place("b", 1, 1), source="s", scale=(("eta", HALF),))
    assert not is_affine([root])


@inweave.program
def cancels(s: Scalar, t: Scalar) -> Scalar:
    return (s + t) * (s - t) - s * s + t * t + s * t * t


def test_a_degree_is_weighed_where_signs_do_not_tell():
    """Leading forms cancel, so it is read off values along a weighted ray."""
    for weights, expected in (({"s": 1, "t": 1}, 3), ({"s": 5, "t": 1}, 7), ({"s": 1, "t": 4}, 9)):
        assert degree(cancels.trace(), weights) == (expected, True)
        assert least_degree(cancels.trace(), weights) == expected
