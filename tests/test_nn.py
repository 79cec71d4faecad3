"""`inweave.nn`: every fast path equals the definition; weights go to and from networks unharmed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from inweave import Fill, Input, Layout, Network, Output, Place
from inweave.errors import InputError, ProgramError, ShapeError
from inweave.model import dense
from inweave.nn import (
    ALL,
    AttentionNetwork,
    ExtendedLinearAttention,
    build,
    cheapest_order,
    from_network,
)
from inweave.paper.ridge import ridge_elsa, ridge_lsa


def by_definition(layer: ExtendedLinearAttention, H: torch.Tensor) -> torch.Tensor:
    """Each head written out as the paper has it."""
    total = torch.zeros_like(H)
    for h in range(layer.heads):
        parts = []
        for i in range(3):
            if layer.merged:
                W = (
                    torch.eye(layer.features, dtype=H.dtype)
                    if i == 1
                    else layer.weight[:, h, i // 2]
                )
            else:
                W = layer.weight[:, h, i]
            parts.append(H @ W + (0 if layer.bias is None else layer.bias[:, h, i]))
        scores = parts[0] @ parts[1].mT
        hidden = torch.zeros(H.shape[-2], dtype=torch.bool)
        hidden[H.shape[-2] - layer.queries :] = True
        if layer.activation == "relu":
            scores = scores.relu()
        elif layer.activation == "normalised":
            scores = scores / scores.masked_fill(hidden, 0.0).abs().sum(-1, keepdim=True)
        elif layer.activation == "softmax":
            scores = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        total = total + scores.masked_fill(hidden, 0.0) @ parts[2]
    return H + total if layer.skip else total


@pytest.mark.parametrize("tokens", [3, 9], ids=["few tokens", "many tokens"])
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("bias", [True, False], ids=["elsa", "lsa"])
@pytest.mark.parametrize("activation", [None, "normalised", "relu", "softmax"])
@pytest.mark.parametrize("merged", [True, False], ids=["merged", "apart"])
@pytest.mark.parametrize("queries", [0, 1, 2])
def test_every_path_equals_the_definition(tokens, heads, bias, activation, merged, queries):
    generator = torch.Generator().manual_seed(tokens + heads)
    layer = ExtendedLinearAttention(
        tokens, 5, heads, bias, activation, merged,
        skip=heads > 1, queries=queries, init="random", generator=generator, dtype=torch.float64,
    )  # fmt: skip
    H = torch.randn(2, 4, tokens, 5, generator=generator, dtype=torch.float64)
    expected = by_definition(layer, H)
    for rows in (ALL, slice(tokens - 1, tokens), slice(0, 2)):
        for columns in (ALL, slice(4, 5), slice(1, 3)):
            got = layer(H, rows, columns)
            torch.testing.assert_close(got, expected[..., rows, columns], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("activation", [None, "relu", "softmax"])
@pytest.mark.parametrize("queries", [0, 1])
@pytest.mark.parametrize("merged", [True, False], ids=["merged", "apart"])
@pytest.mark.parametrize("flag", [None, "use_attn_kv", "use_split_qkv_input"])
def test_a_trainable_network_can_be_looked_into(activation, queries, merged, flag):
    """Blocks with hook points on the same parameters: the same states and gradients, by name."""
    model = build(
        Layout.of({"a": (4, 2), "b": (2, 1)}), depth=2, tied=True, heads=2, mlp_units=3,
        activation=activation, queries=queries, merged=merged, init="random", scale=0.5,
        dtype=torch.float64, generator=torch.Generator().manual_seed(1),
    )  # fmt: skip
    H = torch.randn(5, 4, 3, dtype=torch.float64)
    hooked, (_, *states) = model.hooked(), model.states(H)
    if flag:
        setattr(hooked.cfg, flag, True)
    final, cache = hooked.run_with_cache(H)
    torch.testing.assert_close(final, states[-1], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(cache["blocks.2.hook_resid_pre"], states[0], rtol=1e-12, atol=1e-12)
    assert cache["blocks.0.attn.hook_q"].shape == (5, 4, 2, 3)
    assert cache["blocks.0.attn.hook_k"].shape == (5, 4 - queries, 2, 3)
    assert cache["blocks.1.mlp.hook_post"].shape == (5, 3, 4, 3)
    fast = flag == "use_attn_kv" and activation is None
    assert ("blocks.2.attn.hook_kv" in cache) == fast
    assert ("blocks.2.attn.hook_pattern" in cache) == (not fast)
    if flag == "use_split_qkv_input":
        assert cache["blocks.0.hook_k_input"].shape == (5, 4, 2, 3)
    assert set(hooked.parameters()) == set(model.parameters())
    wanted = list(model.parameters())
    one, other = (torch.autograd.grad(f(H).square().sum(), wanted) for f in (hooked, model.final))
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_the_order_follows_the_shapes():
    assert cheapest_order(500, 500, 8, 8, 1, bias=True) == "memory"
    assert cheapest_order(4, 4, 50, 50, 1, bias=True) == "scores"
    assert cheapest_order(500, 500, 8, 8, 4, bias=False) == "gram"
    assert cheapest_order(1, 11, 11, 1, 1, bias=False) == "scores"
    assert cheapest_order(500, 500, 8, 8, 1, bias=True, linear=False) == "scores"


@pytest.mark.parametrize("net", [ridge_lsa(6, 3, 4), ridge_elsa(6, 3, 4)], ids=["lsa", "elsa"])
def test_a_construction_gives_the_same_answers_after_conversion(net):
    rng = np.random.default_rng(0)
    inputs = {
        "X": torch.as_tensor(rng.normal(size=(7, 6, 3))),
        "y": torch.as_tensor(rng.normal(size=(7, 6))),
        "u": torch.as_tensor(rng.normal(size=(7, 3))),
        "w0": torch.as_tensor(rng.normal(size=(7, 3))),
        "lam": 0.3,
        "eta": 0.05,
    }
    H = net.prompt(**inputs)
    expected = dense.forward(net, H)
    model = from_network(net)
    torch.testing.assert_close(model.final(H), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(model(H), net.readout(expected), rtol=1e-12, atol=1e-12)
    again = model.to_network()
    assert again.depth == net.depth
    assert again.target == net.target
    torch.testing.assert_close(dense.forward(again, H), expected, rtol=1e-12, atol=1e-12)
    assert from_network(again).to_network() == again


def test_a_lsa_construction_can_be_merged_and_an_elsa_skip_head_cannot():
    net = ridge_lsa(4, 2, 1)
    H = torch.randn(5, net.tokens, net.width, dtype=torch.float64)
    merged = from_network(net, merged=True)
    torch.testing.assert_close(merged.final(H), dense.forward(net, H), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        dense.forward(merged.to_network(), H), dense.forward(net, H), rtol=1e-12, atol=1e-12
    )
    with pytest.raises(InputError, match="key bias cannot be merged"):
        from_network(ridge_elsa(4, 2, 1), merged=True)
    with pytest.raises(InputError, match="would drop"):
        from_network(ridge_elsa(4, 2, 1), bias=False)


def test_a_pointwise_layer_survives_the_round_trip():
    layout = Layout.of({"a": (3, 2), "b": (2, 1)})
    model = build(layout, depth=2, blocks=2, heads=2, mlp_units=3, tied=True, dtype=torch.float64)
    H = torch.randn(3, 3, dtype=torch.float64)
    torch.testing.assert_close(dense.forward(model.to_network(), H), model.final(H))
    assert model.to_network().depth == 4
    assert model.to_network().heads == 4


@pytest.mark.parametrize("bias", [True, False], ids=["elsa", "lsa"])
def test_tokens_that_only_ask_become_a_network_without_masks(bias):
    """The same answer, and every state's left half holds the examples, its right the queries."""
    layout = Layout.of({"x": (5, 2), "y": (5, 1)})
    inputs = (Input("X", 4, 2), Input("y", 4, 1, "vector"), Input("u", 2, 1, "vector"))
    fills = (
        Fill(Place("x", 4, 2), source="X"),
        Fill(Place("y", 4, 1), source="y"),
        Fill(Place("x", 2, 1, row=4, transpose=True), source="u"),
    )
    outputs = (Output("", Place("y", 1, 1, row=4), "scalar"),)
    model = build(
        layout, depth=2, blocks=2, heads=2, bias=bias, mlp_units=2, tied=True, queries=1,
        init="random", dtype=torch.float64, inputs=inputs, fills=fills, outputs=outputs,
        generator=torch.Generator().manual_seed(3),
    )  # fmt: skip
    rng = np.random.default_rng(1)
    given = {s.name: torch.as_tensor(rng.normal(size=(7, *s.shape))) for s in inputs}
    H = Network(layout, (), inputs, fills, outputs).prompt(**given)
    net = model.to_network()
    assert (net.heads, net.width, net.tokens, net.depth) == (8, 6, 5, 4)
    torch.testing.assert_close(net(**given), model(H), rtol=1e-12, atol=1e-12)
    final, wide = model.final(H), dense.forward(net, net.prompt(**given))
    torch.testing.assert_close(wide[:, :4, :3], final[:, :4], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(wide[:, 4:, 3:], final[:, 4:], rtol=1e-12, atol=1e-12)
    assert not wide[:, :4, 3:].any()
    assert not wide[:, 4:, :3].any()


def test_tokens_that_only_ask_are_refused_where_they_cannot_be():
    with pytest.raises(InputError, match="queries must be an int from 0 to 3, got 4"):
        ExtendedLinearAttention(4, 2, queries=4)
    with pytest.raises(ProgramError, match="convert the whole model with to_network"):
        ExtendedLinearAttention(4, 2, queries=1).to_layer()
    layout = Layout.of({"x": (4, 2)})
    fills = (Fill(Place("x", 4, 2), source="X"),)
    model = build(layout, queries=1, inputs=(Input("X", 4, 2),), fills=fills)
    with pytest.raises(ProgramError, match=r"block 'x': rows 0 to 4 .* both sides of row 3"):
        model.to_network()
    model.stack.append(build(layout).stack[0])
    with pytest.raises(ProgramError, match=r"different numbers of queries, \[0, 1\]"):
        model.to_network()


def test_tied_depth_shares_weights_and_a_readout_has_its_own():
    layout = Layout.of({"H": (3, 3)})
    one, three = (build(layout, depth=k, tied=True) for k in (1, 3))
    untied = build(layout, depth=3, readout=True)
    count = lambda model: sum(p.numel() for p in model.parameters())  # noqa: E731
    assert count(three) == count(one)
    assert count(untied) == 4 * count(one)
    assert len(untied.states(torch.zeros(3, 3))) == 5
    assert len(three.states(torch.zeros(3, 3))) == 4


def test_reading_equals_slicing_the_final_state():
    layout = Layout.of({"x": (4, 2), "y": (4, 1)})
    out = (Output("", Place("y", 1, 1, row=3), "scalar"),)
    for tied in (True, False):
        model = build(layout, depth=3, heads=2, tied=tied, outputs=out, dtype=torch.float64)
        H = torch.randn(6, 4, 3, dtype=torch.float64)
        torch.testing.assert_close(model(H), model.final(H)[:, 3, 2], rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(model.read(model.states(H)[-1]), model(H))


def test_lsa_takes_any_number_of_tokens_and_elsa_its_own():
    lsa = ExtendedLinearAttention(4, 3, bias=False)
    assert lsa(torch.zeros(9, 3)).shape == (9, 3)
    elsa = ExtendedLinearAttention(4, 3)
    with pytest.raises(ShapeError, match=r"got a prompt of shape \(9, 3\), expected \(..., 4, 3\)"):
        elsa(torch.zeros(9, 3))


def test_a_nonlinear_layer_says_that_it_is_no_network():
    model = build(Layout.of({"H": (2, 2)}), activation="relu")
    with pytest.raises(ProgramError, match="relu scores"):
        model.to_network()


def test_a_seed_gives_the_same_weights_and_presets_differ_as_they_say():
    def drawn(init: str, seed: int = 0) -> AttentionNetwork:
        generator = torch.Generator().manual_seed(seed)
        return build(Layout.of({"H": (3, 4)}), init=init, generator=generator)

    first, again, other = drawn("random"), drawn("random"), drawn("random", 1)
    weights = [dict(m.named_parameters())["stack.0.body.0.weight"] for m in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    H = torch.randn(5, 3, 4)
    torch.testing.assert_close(drawn("zero-value").final(H), H)
    with pytest.raises(InputError, match="init 'wild' is not one of"):
        drawn("wild")


def test_gradients_flow_through_the_restricted_read_out():
    """The read-out of one entry has the gradient of the whole forward pass."""
    layout = Layout.of({"x": (5, 2), "y": (5, 1)})
    out = (Output("", Place("y", 1, 1, row=4), "scalar"),)
    model = build(layout, heads=2, init="random", outputs=out, dtype=torch.float64)
    H = torch.randn(8, 5, 3, dtype=torch.float64)
    restricted = torch.autograd.grad(model(H).square().sum(), list(model.parameters()))
    whole = torch.autograd.grad(model.final(H)[:, 4, 2].square().sum(), list(model.parameters()))
    for a, b in zip(restricted, whole, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("merged", [True, False], ids=["merged", "apart"])
def test_memory_order_does_not_change_an_answer_or_its_gradient(merged):
    layout = Layout.of({"x": (5, 2), "y": (5, 1)})
    out = (Output("", Place("y", 1, 1, row=4), "scalar"),)
    model = build(layout, bias=False, merged=merged, outputs=out, dtype=torch.float64)
    assert model.reads_entries
    H = torch.randn(8, 5, 3, dtype=torch.float64)
    innermost = H.permute(1, 2, 0).contiguous().permute(2, 0, 1)
    assert innermost.stride(0) == 1
    torch.testing.assert_close(model(innermost), model(H), rtol=1e-12, atol=1e-12)
    found = []
    for prompt in (innermost, H):
        prompt.requires_grad_()
        wanted = [*model.parameters(), prompt]
        found.append(torch.autograd.grad(model(prompt).square().sum(), wanted))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)
