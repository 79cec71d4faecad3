"""The sizes that compiled ridge regression must reach, as exact counts."""

from __future__ import annotations

import json
import pickle
import re

import pytest

import weft
import weft.paper
from tests.cases import ridge_gd
from weft.network import AttentionLayer

POWERS = [3**k for k in range(8)]
# Where the number of layers changes, its neighbours, and some steps in between.
OTHERS = sorted({a * 3**k + b for k in range(7) for a in (1, 2, 3) for b in (-1, 0, 1)}
                | set(range(1, 31)) | {100, 365, 500, 1000, 1500, 2000, 2100})  # fmt: skip
OTHERS = [T for T in OTHERS if 1 <= T <= 2187 and T not in POWERS]


def compiled(T, mode, target="elsa", n=4, d=2):
    return weft.compile(ridge_gd, target=target, optimize=mode, verify=False, n=n, d=d, steps=T)


def least(T):
    """⌈log₃(3T + 1)⌉, the depth below which degree 3T + 1 is out of reach."""
    layers = 0
    while 3**layers < 3 * T + 1:
        layers += 1
    return layers


@pytest.mark.parametrize("T", POWERS)
def test_ridge_by_depth_meets_the_lower_bound_at_powers_of_three(T):
    assert compiled(T, "depth").depth == least(T)


def test_ridge_by_depth_is_within_one_layer_of_the_bound_at_other_steps():
    found = {T: compiled(T, "depth").depth for T in OTHERS}
    assert {T: depth for T, depth in found.items() if depth > least(T) + 1} == {}
    assert all(depth >= least(T) for T, depth in found.items())


@pytest.mark.parametrize("T", [1, 2, 9, 27])
def test_the_lower_bound_is_the_one_of_the_degree(T):
    net = compiled(T, "depth")
    assert net.degree == 3 * T + 1
    assert net.depth_lower_bound == least(T)


def test_729_steps_take_8_layers_and_are_proved_equal():
    net = weft.compile(ridge_gd, optimize="depth", n=5, d=3, steps=729)
    assert net.depth == 8
    assert net.certificate is not None
    assert net.certificate.method == "direct"


@pytest.mark.parametrize("target", ["elsa", "lsa"])
@pytest.mark.parametrize("T", [1, 2, 3, 10, 100])
def test_ridge_by_speed_takes_one_layer_a_step_and_two_more(T, target):
    net = compiled(T, "speed", target)
    assert net.depth <= T + 2
    loops = [module for module in net.modules if module.carries]
    assert [(module.repeat, len(module.body)) for module in loops] == [(T, 1)]


@pytest.mark.parametrize("target", ["elsa", "lsa"])
@pytest.mark.parametrize("T", [1, 2, 3, 10, 100])
def test_faithful_ridge_takes_two_layers_a_step_and_at_most_four_heads_a_layer(T, target):
    net = compiled(T, "faithful", target)
    assert net.depth <= 2 * T + 1
    assert all(len(layer.heads) <= 4 for layer in net.layers)


@pytest.mark.parametrize("T", [1, 5, 50])
def test_compiled_lsa_is_no_larger_than_the_papers_own_construction(T):
    paper = weft.paper.ridge_lsa(4, 2, T)
    net = compiled(T, "speed", "lsa")
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
    ("mode", "small", "large"),
    [
        ("faithful", (100, 10), (10_000, 1000)),
        ("depth", (100, 10), (10_000, 1000)),
        # Whether the Gram matrix is worth its flops depends on d and T; both choices, each at two
        # sizes a hundredfold apart in entries.
        ("speed", (100, 10), (1000, 100)),
        ("speed", (3000, 300), (30_000, 3000)),
    ],
)
@pytest.mark.parametrize("target", ["elsa", "lsa"])
def test_the_memory_of_a_network_does_not_grow_with_n_and_d(mode, small, large, target):
    nets = [compiled(100, mode, target, n, d) for n, d in (small, large)]
    assert nets[0].stored_numbers == nets[1].stored_numbers
    assert nets[0].heads == nets[1].heads
    texts = [re.sub(r"\d+", "0", json.dumps(net.describe())) for net in nets]
    assert len(texts[0]) == len(texts[1])
    # A pickled int grows from one byte to three; nothing else may.
    sizes = [len(pickle.dumps((net.layout, net.modules, net.fills))) for net in nets]
    assert sizes[1] <= 1.25 * sizes[0]
