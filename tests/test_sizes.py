"""The sizes that compiled ridge regression must reach, as exact counts."""

from __future__ import annotations

import json
import pickle
import re

import pytest

import inweave
import inweave.paper
from inweave import Matrix, Vector, gallery
from inweave.model.layers import AttentionLayer
from tests import ways
from tests.cases import heavy_ball, ridge_from_w0, ridge_gd
from tests.fuzz import equal_in_rationals

pytestmark = pytest.mark.usefixtures("unchecked_passes")

# Where the number of layers changes, its neighbours, and some steps in between.
STEPS = sorted({a * 3**k + b for k in range(8) for a in (1, 2) for b in (-1, 0, 1)}
               | set(range(1, 13)) | {100, 365, 1000, 2000})  # fmt: skip
STEPS = [T for T in STEPS if 1 <= T <= 2187]


def compiled(T, mode, target="elsa", n=4, d=2, program=ridge_gd):
    return inweave.compile(program, target=target, optimize=mode, verify=False, n=n, d=d, steps=T)


def least(degree):
    """⌈log₃ degree⌉, the depth below which a degree is out of reach."""
    layers = 0
    while 3**layers < degree:
        layers += 1
    return layers


@pytest.mark.parametrize(
    ("program", "beyond"),
    [(ridge_gd, 1), (ridge_from_w0, 1), (gallery.ridge_gd, 2), (heavy_ball, 0)],
)
def test_networks_by_depth_meet_the_lower_bound_at_any_number_of_steps(program, beyond):
    found = {T: compiled(T, "depth", program=program).depth for T in STEPS}
    assert found == {T: least(3 * T + beyond) for T in STEPS}


@pytest.mark.parametrize("program", [ridge_gd, ridge_from_w0, gallery.ridge_gd, heavy_ball])
@pytest.mark.parametrize("T", [*range(1, 12), 17, 19, 26, 27])
def test_networks_by_depth_are_equal_to_their_programs_in_rationals(program, T):
    assert equal_in_rationals(compiled(T, "depth", n=2, d=2, program=program), key=T)


@pytest.mark.parametrize("T", [3, 7, 8, 20])
def test_a_row_recurrence_is_read_out_from_the_right_at_no_further_layer(T):
    @inweave.program
    def column(A: Matrix["d", "d"], x: Vector["d"], u: Vector["d"]):
        return u.T @ inweave.iterate(lambda x: A @ x, x, T)

    @inweave.program
    def row(A: Matrix["d", "d"], x: Vector["d"], u: Vector["d"]):
        return inweave.iterate(lambda x: x @ A, x.T, T) @ u

    for program in (column, row):
        net = inweave.compile(program, optimize="depth", d=2)
        assert net.depth == net.depth_lower_bound == least(T + 2)
        assert equal_in_rationals(net)


@pytest.mark.parametrize("T", [1, 2, 9, 27])
@pytest.mark.parametrize(
    ("program", "beyond"),
    [(ridge_gd, 1), (ridge_from_w0, 1), (gallery.ridge_gd, 2), (heavy_ball, 0)],
)
def test_the_lower_bound_is_the_one_of_the_degree(T, program, beyond):
    net = compiled(T, "depth", program=program)
    assert net.degree == 3 * T + beyond
    assert net.depth_lower_bound == least(3 * T + beyond)


def test_729_steps_take_8_layers_and_are_proved_equal():
    net = inweave.compile(ridge_gd, optimize="depth", n=5, d=3, steps=729)
    assert net.depth == 8
    assert net.certificate is not None
    assert net.certificate.method == "words"


@pytest.mark.parametrize("target", ["elsa", "lsa"])
@pytest.mark.parametrize("T", [2, 3, 10, 100])  # a loop of one step has nothing to gain
def test_hoisted_ridge_takes_one_layer_a_step_and_two_more(T, target):
    net = ways.compiled(ridge_gd, "hoisted", target, verify=False, n=4, d=2, steps=T)
    assert net.depth <= T + 2
    loops = [module for module in net.modules if module.carries]
    assert [(module.repeat, len(module.body)) for module in loops] == [(T, 1)]


@pytest.mark.parametrize("target", ["elsa", "lsa"])
@pytest.mark.parametrize("T", [1, 2, 3, 10, 100])
def test_faithful_ridge_takes_two_layers_a_step_and_at_most_four_heads_a_layer(T, target):
    net = compiled(T, "faithful", target)
    assert net.depth <= 2 * T + 1
    assert all(len(layer.heads) <= 4 for layer in net.layers)


@pytest.mark.parametrize("T", [2, 5, 50])
def test_compiled_lsa_is_no_larger_than_the_papers_own_construction(T):
    paper = inweave.paper.ridge_lsa(4, 2, T)
    net = ways.compiled(ridge_gd, "hoisted", "lsa", verify=False, n=4, d=2, steps=T)
    assert net.target == "lsa"
    (loop,) = (i for i, module in enumerate(net.modules) if module.carries)
    prelude = [
        layer
        for module in net.modules[:loop]
        for layer in module.body
        if isinstance(layer, AttentionLayer)
    ]
    (step,) = net.modules[loop].body
    paper_step = next(module for module in paper.modules if module.repeat == T)
    assert len(net.modules[loop].body) <= len(paper_step.body)
    assert len(step.heads) <= 3
    assert net.heads <= paper.heads + sum(len(layer.heads) for layer in prelude)


# -- nothing grows with n and d -------------------------------------------------------------------
@pytest.mark.parametrize(
    ("way", "small", "large"),
    [
        ("as written", (100, 10), (10_000, 1000)),
        ("collapsed", (100, 10), (10_000, 1000)),
        # Whether the Gram matrix is worth its flops depends on d and T; both choices, each at two
        # sizes a hundredfold apart in entries.
        *(
            (way, *sizes)
            for way in ("factored", "hoisted")
            for sizes in (((100, 10), (1000, 100)), ((2000, 2000), (20_000, 20_000)))
        ),
    ],
)
@pytest.mark.parametrize("target", ["elsa", "lsa"])
def test_the_memory_of_a_network_does_not_grow_with_n_and_d(way, small, large, target):
    nets = [
        ways.compiled(ridge_gd, way, target, verify=False, n=n, d=d, steps=100)
        for n, d in (small, large)
    ]
    assert nets[0].stored_numbers == nets[1].stored_numbers
    assert nets[0].heads == nets[1].heads
    texts = [re.sub(r"\d+", "0", json.dumps(net.describe())) for net in nets]
    assert len(texts[0]) == len(texts[1])
    # A pickled int grows from one byte to three; nothing else may.
    sizes = [len(pickle.dumps((net.layout, net.modules, net.fills))) for net in nets]
    assert sizes[1] <= 1.25 * sizes[0]
