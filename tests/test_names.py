"""Blocks are called what stands in them, and print, page and plan say which value that is when."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import inweave
from inweave import AttentionLayer, Layout, Matrix, Scalar, Vector
from inweave.compiler import names as naming
from inweave.compiler.driver import run
from inweave.compiler.layers import layers
from inweave.compiler.names import CUT, SYMBOL, transposed
from inweave.exact.names import FACTOR, OTHERS, THEN, in_turn
from inweave.gallery import get
from inweave.text.network import Words
from inweave.text.plan import describe
from tests import ways

pytestmark = pytest.mark.usefixtures("unchecked_passes", "compiled_once")


@inweave.program
def smoothed(X: Matrix["n", "d"], D: Matrix["n", "n"], y: Vector["n"], eta: Scalar, lam: Scalar):
    """Affine steps whose matrix takes two layers, so that blocks hold several values in turn."""

    def step(w: Vector["d"]) -> Vector["d"]:
        return w - eta * (X.T @ (D @ (X @ w - y)) + lam * w)

    return inweave.iterate(step, inweave.zeros(X.shape[1]), 27)


SIZES = {"n": 5, "d": 3}


def drawn(seed=0):
    rng = np.random.default_rng(seed)
    return {
        "X": rng.standard_normal((5, 3)),
        "D": rng.standard_normal((5, 5)),
        "y": rng.standard_normal(5),
        "eta": 0.1,
        "lam": 0.5,
    }


@pytest.mark.parametrize("name", ["ridge_gd", "heavy_ball", "kernel_regression", "td0", "nesterov"])
def test_values_of_a_matrix_algorithm_are_called_what_they_are(name):
    for mode in ("faithful", "hoisted"):
        entry = get(name)
        net = ways.compiled(entry.program, mode, **entry.sizes)
        assert not any("part" in block for block in net.layout.names), net.layout.names


@pytest.mark.parametrize(
    ("compute", "expected"),
    [
        (lambda v: v.eta * (v.X.T @ v.y), "ηXᵀy"),
        (lambda v: v.eta * v.rate, "η·rate"),  # not ηrate, which might be one name
        (lambda v: v.X @ (v.X.T @ v.y) - 2 * v.y, "yᵀXXᵀ−2·yᵀ"),
        (lambda v: v.X @ v.X.T - v.eta * inweave.eye(4), "XXᵀ−ηI"),
        (lambda v: v.X @ (v.rate * v.X.T), "rate·X·Xᵀ"),
        (lambda v: (v.y @ v.y) * v.X, "(yᵀy)X"),
        (lambda v: (1 + v.eta) * v.X, "(1+η)X"),
        (lambda v: inweave.ones((4, 4)) @ v.X, "ones·X"),
        (lambda v: v.X @ (v.X.T @ v.y) + v.X @ v.X[0] + v.y, "yᵀXXᵀ+…"),
    ],
)
def test_a_value_is_spelled_as_one_word(compute, expected):
    @inweave.program
    def powered(X: Matrix[4, 2], y: Vector[4], eta: Scalar, rate: Scalar):
        value = inweave.hold(compute(SimpleNamespace(X=X, y=y, eta=eta, rate=rate)))
        squared = value.T @ value
        return squared @ squared @ squared + rate * eta * (y @ y) + y @ X @ X[0]

    names = [name for block in inweave.compile(powered).layout.names for name in block.split(THEN)]
    assert expected in [*names, *map(transposed, names)]


def test_letters_with_numbers_are_symbols_and_words_are_not():
    assert all(SYMBOL.fullmatch(name) for name in ("X", "Xᵀ", "A³", "w₂₇ᵀ", "ηI", "v′"))
    assert not any(SYMBOL.fullmatch(name) for name in ("rate", "XX", "A³w", ""))


def test_names_of_different_blocks_differ_at_any_time():
    for entry in map(get, ("diagonal_transformer", "lasso_ista", "conjugate_gradient")):
        names = [n for block in entry.compile(verify=False).layout.names for n in block.split(THEN)]
        told = [n for n in names if n not in (CUT, OTHERS)]
        assert len(told) == len(set(told))


def test_each_layer_that_writes_into_a_block_writes_the_next_of_its_values():
    net, inputs = inweave.compile(smoothed, optimize="depth", **SIZES), drawn()
    X, D, y, eta, lam = inputs.values()
    gram = X.T @ D @ X + lam * np.eye(3)
    meant = {
        "XᵀDy": X.T @ D @ y,
        "w₁": eta * (X.T @ D @ y),
        "XᵀDX+λI": gram,
        "A": np.eye(3) - eta * gram,
    }
    states = [step.after for step in net.trace(**inputs).steps]
    found = {
        name: net.layout.unpack(states[at])[block].squeeze()
        for block, turns in Words(net).turns.items()
        for at, name in turns.items()
        if name in meant
    }
    assert found.keys() == meant.keys()
    for name, value in found.items():
        np.testing.assert_allclose(value, meant[name], rtol=1e-10, err_msg=name)


@pytest.mark.parametrize(
    ("name", "candidate"),
    [("sinkhorn", "hoisted"), ("nesterov", "hoisted"), ("conjugate_gradient", "as written")],
)
def test_what_is_told_of_a_block_is_what_the_compiler_put_there(name, candidate):
    """Layers that add nothing, because what they write stands there already, are told as well."""
    entry = get(name)
    made = run(entry.program.trace(**entry.sizes), candidate=candidate).made
    allocation, told = made["allocate"], Words(made["emit"]).turns
    at = [i for i, x in enumerate(made["emit"].layers) if isinstance(x, AttentionLayer)]
    both = zip(layers(allocation.parts), layers(made["merge"].parts), strict=True)
    with_heads = [x for x, merged in both if merged.heads or not merged.pointwise]
    specs = list(zip(at, with_heads, strict=True))
    checked = 0
    for block, names in ((block, in_turn(block)) for block in told):
        for key, value in zip(allocation.blocks[block].keys, names, strict=True):
            wrote = [i for i, x in specs if key in x.written and not clears(x, key)]
            assert dict.fromkeys(wrote, value).items() <= told[block].items()
            checked += 1
    assert checked or not any(map(in_turn, allocation.blocks))


def clears(spec, key):
    """Whether a layer only takes away what stands in a block."""
    heads = any(dest == key for head in spec.heads for dest, _ in head.values)
    linear = [x.read for x in spec.linear if x.dest == key]
    return not heads and all([(i.key, i.coefficient) for i in x] == [(key, -1)] for x in linear)


def test_print_page_and_plan_say_what_stands_in_a_block():
    net = inweave.compile(smoothed, optimize="depth", **SIZES)
    lines = [line.strip() for line in str(net).splitlines()]
    assert "1  XᵀDy η → w₁" in lines  # one block, read and written
    blocks = [block for block in net.layout.names if THEN in block]
    assert blocks
    assert not any(block in line for line in lines[6:] for block in blocks)
    page = inweave.explore.page(net, drawn())
    assert '["XᵀDy η","w₁"]' in page.replace(", ", ",")
    plan = describe(net.plan)
    assert "A = I3 - eta [XᵀDX+λI]" in plan


def test_a_factor_of_what_stands_in_a_block_is_not_called_after_it():
    plan = describe(
        inweave.compile(get("ridge_gd").program, optimize="depth", n=5, d=3, steps=9).plan
    )
    assert " = Xᵀ y" in plan
    assert "z₁ = Xᵀ y" not in plan
    assert FACTOR not in plan


def test_a_name_that_says_more_values_than_are_written_is_taken_as_it_is():
    layout = Layout.of({"X": (4, 2), "w": (2, 1), "p›q›r": (4, 1)})

    @inweave.program
    def product(X: Matrix["n", "d"], w: Vector["d"]):
        return X @ w

    net = inweave.compile(product, layout=layout, n=4, d=2)
    assert "X w → p›q›r" in str(net)
    assert "p›q›r" in describe(net.plan)


def test_values_that_share_their_parts_are_looked_at_once(monkeypatch):
    """By way of every path there would be 6¹² looks."""
    looks = []
    found = naming._found
    monkeypatch.setattr(naming, "_found", lambda *args: looks.append(1) or found(*args))

    @inweave.program
    def shared(A: Matrix["n", "n"]):
        x = A
        for _ in range(12):
            x = inweave.hold(x @ A + A @ x + x @ x)
        return x

    inweave.compile(shared, n=2, verify=False)
    assert 12 < len(looks) < 10_000


def test_a_letter_of_a_loop_is_no_input_even_if_nothing_reads_that_input():
    @inweave.program
    def unread(A: Matrix["d", "d"], z: Vector["d"], X: Matrix["d", "d"], v: Vector["d"]):
        nothing = (z - z) + (A @ v - A @ v)
        return inweave.iterate(lambda w: X @ (X @ w) - w + v, v, 5) + nothing

    names = inweave.compile(unread, optimize="depth", d=2, verify=False).layout.names
    values = [value for name in names for value in name.split(THEN)]
    assert {"B", "B³", "s₃"} <= set(values)
    assert not any(value.startswith(("A", "z")) for value in values if value != "answer")
