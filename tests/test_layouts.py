"""A user's own input form, resizing, and what a network says of itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import inweave
from inweave import Layout, paper
from inweave.compiler.forms import Forms
from inweave.compiler.given import given_form
from inweave.exact.constants import exact
from inweave.gallery import ridge_gd as ridge
from inweave.model.prompt import Fill
from tests import ways
from tests.cases import ridge_dual, ridge_gd


def data(n: int, d: int, seed: int = 0) -> dict[str, np.ndarray | float]:
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((n, d)), rng.standard_normal(n)
    u, w0 = rng.standard_normal(d), rng.standard_normal(d)
    return {"X": X, "y": y, "u": u, "w0": w0, "lam": 0.3, "eta": 0.02}


def descended(X, y, u, w0, lam, eta, steps):
    w = w0
    for _ in range(steps):
        w = w - eta * (X.T @ (X @ w - y) + lam * w)
    return u @ w


PLAIN = {"Xᵀ": (3, 5), "yᵀ": (1, 5), "u": (3, 1), "w0": (3, 1), "lam": (1, 1), "eta": (1, 1)}


def test_the_enumerated_form_of_the_paper_is_honoured_block_by_block():
    printed = paper.ridge_elsa(5, 3, 4)
    net = inweave.compile(ridge, layout=printed, n=5, d=3, steps=4)
    assert net.layout == printed.layout
    assert net.fills == printed.fills
    inputs = data(5, 3)
    assert np.array_equal(net.prompt(**inputs), printed.prompt(**inputs))
    assert net(**inputs) == pytest.approx(descended(**inputs, steps=4), rel=1e-12)
    assert net.certificate is not None


def test_the_compiler_needs_no_more_heads_than_the_paper_in_the_paper_own_form():
    printed = paper.ridge_elsa(5, 3, 4)
    net = inweave.compile(ridge, layout=printed, n=5, d=3, steps=4)
    assert net.heads <= printed.heads
    assert net.depth <= printed.depth


def test_a_layout_named_after_the_inputs_is_filled_by_name():
    layout = Layout.of({**PLAIN, "free": (3, 1), "out": (3, 1)})
    net = inweave.compile(ridge, layout=layout, n=5, d=3, steps=4)
    assert net.layout == layout
    inputs = data(5, 3)
    assert net(**inputs) == pytest.approx(descended(**inputs, steps=4), rel=1e-12)


def fills(layout: Layout, **times: float) -> tuple[Layout, list[Fill]]:
    """A layout filled by name, some of its inputs times a number."""
    named = given_form(layout, ridge.trace(n=5, d=3, steps=4), Forms()).fills
    return layout, [replace(f, coefficient=exact(times.get(f.source or "", 1))) for f in named]


@pytest.mark.parametrize("eta", ["eta", "eta·I"])
def test_inputs_that_stand_times_a_number_are_read_as_what_they_are(eta):
    shapes = {name: shape for name, shape in PLAIN.items() if name != "eta"}
    shapes |= {eta: (3, 3) if "I" in eta else (1, 1), "free": (3, 1), "out": (3, 1)}
    form = fills(Layout.of(shapes), X=2, y=-1, u=0.5, lam=4, eta=-3)
    net = inweave.compile(ridge, layout=form, n=5, d=3, steps=4)
    inputs = data(5, 3)
    assert net(**inputs) == pytest.approx(descended(**inputs, steps=4), rel=1e-12)
    assert net.prompt(**inputs)[0, 5:10] == pytest.approx(-inputs["y"])


def test_two_blocks_that_hold_an_input_times_different_numbers_are_not_one_turned():
    layout = Layout.of({**PLAIN, "X": (5, 3), "free": (5, 1), "out": (5, 1)})
    layout, named = fills(layout)
    form = layout, [replace(f, coefficient=exact(7)) if f.place.block == "X" else f for f in named]
    traced = ridge.trace(n=5, d=3, steps=4)
    assert given_form((layout, named), traced, Forms()).turned.keys() == {"X", "Xᵀ"}
    assert not given_form(form, traced, Forms()).turned


def test_an_input_that_stands_times_zero_is_not_there():
    form = fills(Layout.of({**PLAIN, "free": (3, 1), "out": (3, 1)}), y=0)
    with pytest.raises(inweave.CompileError, match=r"input 'y'.*holds it times zero"):
        inweave.compile(ridge, layout=form, n=5, d=3, steps=4)


def test_a_missing_input_block_is_named():
    without = {name: shape for name, shape in PLAIN.items() if name != "u"}
    with pytest.raises(inweave.CompileError, match=r"input 'u'.*add a block 'u'"):
        inweave.compile(ridge, layout=Layout.of(without), n=5, d=3, steps=4)


def test_a_missing_free_block_is_named_with_its_size():
    with pytest.raises(inweave.CompileError, match=r"no free block for .*add a block of 1 column"):
        inweave.compile(ridge, layout=Layout.of(PLAIN), n=5, d=3, steps=4)


def test_a_block_of_the_wrong_shape_is_named():
    wrong = Layout.of({**PLAIN, "Xᵀ": (3, 4), "free": (3, 1)})
    with pytest.raises(inweave.BlockError, match=r"'Xᵀ' is 3 x 4.*'X' stands there as 3 x 5"):
        inweave.compile(ridge, layout=wrong, n=5, d=3, steps=4)


def test_a_form_that_holds_inputs_only_in_products_is_refused():
    designed = paper.ridge_lsa(5, 3, 4)
    with pytest.raises(inweave.CompileError, match="only in a product"):
        inweave.compile(ridge, layout=designed, n=5, d=3, steps=4)


def test_lsa_over_a_layout_without_an_identity_is_refused_by_name():
    printed = paper.ridge_elsa(5, 3, 4)
    with pytest.raises(inweave.CompileError, match="the constant I"):
        inweave.compile(ridge, layout=printed, target="lsa", n=5, d=3, steps=4)


def test_something_else_than_a_layout_is_refused():
    with pytest.raises(inweave.InputError, match="layout must be"):
        inweave.compile(ridge, layout="enumerated", n=5, d=3, steps=4)


def test_tokens_make_the_prompt_taller_and_too_few_are_refused():
    net = inweave.compile(ridge_gd, tokens=9, n=5, d=3, steps=2)
    assert net.tokens == 9
    with pytest.raises(inweave.CompileError, match=r"tokens=2.*3 rows"):
        inweave.compile(ridge_gd, tokens=2, n=5, d=3, steps=2)


def test_examples_as_tokens_need_no_new_weights_for_more_examples():
    net = inweave.compile(ridge_dual, n=8, d=3, steps=5)
    assert "do not depend on n" in str(net)
    larger = net.resize(n=30)
    assert larger.tokens == 30
    assert larger.certificate is not None
    assert [head for layer in larger.layers for head in layer.heads] == [
        head for layer in net.layers for head in layer.heads
    ]
    rng = np.random.default_rng(1)
    inputs = {"X": rng.standard_normal((30, 3)), "y": rng.standard_normal(30)}
    inputs |= {"u": rng.standard_normal(3), "lam": 0.5, "eta": 0.01}
    expected = ridge_dual(**inputs, steps=5)
    assert larger(**inputs) == pytest.approx(float(expected), rel=1e-12)


def test_weights_that_depend_on_a_size_refuse_to_be_resized():
    net = inweave.compile(ridge_dual, n=8, d=3, steps=5)
    with pytest.raises(inweave.CompileError, match="d=4 needs a new compilation"):
        net.resize(d=4)
    with pytest.raises(inweave.InputError, match="unknown sizes q"):
        net.resize(q=4)


def test_printing_shows_layers_in_matrix_terms_and_the_bound():
    text = str(ways.compiled(ridge_gd, "hoisted", n=40, d=10, steps=100))
    assert "(−ηXᵀX−ληI) w → w" in text
    assert "repeat 100 times" in text
    assert (
        "102 attention layers (degree 301: lower bound 6 on prompts affine in the inputs)" in text
    )
    assert "10 tokens" in text


def test_printing_an_lsa_network_says_which_blocks_were_added_and_why():
    text = str(inweave.compile(ridge_gd, target="lsa", n=5, d=3, steps=2))
    assert "added to the prompt: I" in text
    assert "an identity" in text


def test_explain_prints_every_stage():
    text = inweave.explain(ridge_gd, optimize="depth", n=4, d=2, steps=3)
    for stage in ("trace", "normalize", "expand", "schedule", "allocate", "emit"):
        assert stage in text
    assert "A := " in text


def test_explain_ends_with_what_a_call_computes():
    lines = inweave.explain(ridge_gd, n=4, d=2, steps=3).splitlines()
    assert [line.strip() for line in lines[-3:]] == [
        "repeat 3:",
        "w = t1 + t2 w",
        "return uᵀ w",
    ]
