"""`net.circuit()`: what heads do, and which edges the answer depends on."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import inweave
from inweave import gallery
from inweave.circuit.exact import fewest
from inweave.circuit.found import structural
from inweave.circuit.graph import Circuit, Edge, layer_of
from inweave.circuit.patching import Patching, random_prompt
from inweave.circuit.unrolled import unrolled
from inweave.errors import FileFormatError, InputError
from inweave.exact.field import Field
from inweave.exact.field_arithmetic import FieldArithmetic
from inweave.model.dense import DenseExecutor, forward
from inweave.model.embedding import Embedding
from inweave.model.layers import AttentionLayer
from inweave.model.modules import Executor
from inweave.model.network import Network
from tests.programs import recipes
from tests.random_networks import networks

pytestmark = pytest.mark.usefixtures("unchecked_passes")

SMALL = {  # entries of the gallery, small: loops, several heads, functions, roots, LSA
    "ridge_gd": {"n": 3, "d": 2, "steps": 2},
    "heavy_ball": {"n": 3, "d": 2, "steps": 2},
    "newton_schulz": {"m": 2, "steps": 2},
    "diagonal_transformer": {"n": 3, "d": 2},
    "lasso_ista": {"n": 3, "d": 2, "steps": 2},
    "softmax_regression": {"n": 3, "d": 2},
    "retention": {"n": 3, "d": 2, "k": 2},
}


@pytest.fixture(params=SMALL)
def entry(request: pytest.FixtureRequest) -> gallery.Entry:
    return gallery.get(request.param)


def compiled(entry: gallery.Entry, **options: Any) -> Network:
    return entry.compile(verify=False, **SMALL[entry.name], **options)


def one_step() -> inweave.Network:
    """One step of ridge descent from w0, and its prediction for u: the circuit below by hand."""
    entry = gallery.get("ridge_gd")
    return entry.compile(n=4, d=2, steps=1, verify=False)


# -- a circuit by hand -----------------------------------------------------------------------------
def test_one_step_of_descent_is_the_circuit_that_one_writes_down():
    """g = XᵀXw − Xᵀy + λw (three heads), w ← w − ηg, answer uᵀw; g is then cleared, for nobody."""
    circuit = one_step().circuit()
    assert {e.name for e in circuit.functional} == {
        *(f"input->a0.h0<{x}>" for x in "qkv"),  # Xᵀ, X and w
        *(f"input->a0.h1<{x}>" for x in "qk"),  # Xᵀ and y
        *(f"input->a0.h2<{x}>" for x in "qv"),  # w and λ
        *(f"a0.h{k}->a1.h0<q>" for k in range(3)),  # g
        "input->a1.h0<v>",  # η
        "input->a2.h0<k>",  # u
        "input->a2.h0<v>",  # w0
        "a1.h0->a2.h0<v>",  # −ηg
        "a2.h0->logits",
    }
    idle = {e.name for e in circuit.edges} - {e.name for e in circuit.functional}
    assert idle == {f"a0.h{k}->a1.h1<q>" for k in range(3)}


def test_heads_and_variables_say_what_they_hold():
    circuit = one_step().circuit(functional=False)
    assert circuit.node("a0.h0").expression == "Xᵀ X w → XᵀXw−Xᵀy+λw"
    assert circuit.node("a0.h0").reads == {"q": ("Xᵀ",), "k": ("Xᵀ",), "v": ("w",)}
    assert circuit.node("a1.h0").writes == ("w",)
    later = [(v.name, v.hook, v.expression) for v in circuit.variables if v.layer is not None]
    assert later == [
        ("XᵀXw−Xᵀy+λw", "blocks.0.hook_resid_post", "Xᵀ X w − Xᵀ y + w λ"),
        ("w", "blocks.1.hook_resid_post", "w − (XᵀXw−Xᵀy+λw) η"),
        ("answer", "blocks.2.hook_resid_post", "uᵀ w"),
    ]


def test_a_cleared_block_is_no_variable():
    circuit = one_step().circuit(functional=False)
    gradient = "XᵀXw−Xᵀy+λw"
    assert gradient in circuit.node("a1.h1").writes
    assert [v.layer for v in circuit.variables if v.block == gradient] == [0]


def test_layers_of_a_tied_loop_are_counted_as_they_run():
    entry = gallery.get("ridge_gd")
    circuit = entry.compile(verify=False, n=3, d=2, steps=3, optimize="faithful").circuit()
    one, two, three = (circuit.node(f"a{i}.h0") for i in (0, 2, 4))
    assert one.expression == two.expression == three.expression
    assert circuit.edge("a1.h0->a4.h0<v>").functional


# -- the network that is patched is the network ----------------------------------------------------
@settings(max_examples=30)
@given(networks(activation=None))
def test_what_is_patched_computes_what_the_network_computes(net):
    way = unrolled(net)
    patching = Patching(net, way)
    field = patching.field
    H = random_prompt(net, field, np.random.default_rng(0))
    expected = forward(net, H, FieldArithmetic(field))
    assert (patching.run(H).final == expected).all()


def test_with_functions_too(entry):
    net = compiled(entry)
    patching = Patching(net, unrolled(net))
    H = patching.prompts[0]
    expected = forward(net, H, FieldArithmetic(patching.field, opaque=True))
    assert (patching.run(H).final == expected).all()


class BruteForce(Executor[dict[str, Any]]):
    """Carries a network's state as what each node contributes to it, with full matrices.

    With an `edge`, its target reads another contribution of its source: that which stands there in
    `others`, the states of a run on another prompt.
    """

    def __init__(self, net: Network, arithmetic: Any, edge: Edge, others: Any = None) -> None:
        self.net, self.edge, self.others = net, edge, others
        self.dense, self.states = DenseExecutor(net.layout, arithmetic), list[Any]()

    def plus(self, before: Any, after: Any, name: str) -> Any:
        return {n: sum(x[n] for x in (before, after) if n in x) for n in before | after}

    def layer(self, layer: Any, state: Any, name: str) -> Any:
        i, wrote = len(self.states), {}
        self.states.append(state)
        for k, head in enumerate(layer.heads):
            q, kk, v = (
                self.dense.project(p, sum(self.seen(i, f"a{i}.h{k}", x).values()))
                for x, p in zip("qkv", head.projections, strict=True)
            )
            wrote[f"a{i}.h{k}"] = q @ kk.mT @ v
        return state | wrote if layer.skip else wrote or {"input": sum(state.values()) * 0}

    def seen(self, i: int, target: str, letter: str) -> dict[str, Any]:
        state, edge = self.states[i], self.edge
        if (edge.target, edge.letter) != (target, letter) or edge.source not in state:
            return state
        return state | {edge.source: self.others[i][edge.source]}

    def answers(self, H: Any) -> list[Any]:
        self.states.append(self.run(self.net.modules, {"input": H}))
        final = sum(self.seen(len(self.states) - 1, "logits", "").values())
        return [o.place.read(self.net.layout, final).values for o in self.net.outputs]


@settings(max_examples=25)
@given(networks(repeats=2, modules_at_most=2, activation=None))
def test_functional_edges_are_those_that_full_matrices_find(net):
    """Layers without skips, skips around modules, loops inside loops."""
    way = unrolled(net)
    patching = Patching(net, way)
    arithmetic = FieldArithmetic(patching.field)
    other = BruteForce(net, arithmetic, Edge("", ""))
    other.answers(patching.prompts[1])
    clean = BruteForce(net, arithmetic, Edge("", "")).answers(patching.prompts[0])
    edges = structural(way, patching)[:60]
    for edge in edges:
        changed = BruteForce(net, arithmetic, edge, other.states).answers(patching.prompts[0])
        differs = any((x != y).any() for x, y in zip(clean, changed, strict=True))
        assert differs == (edge in patching.functional([edge])), edge.name


def test_columns_between_a_query_and_a_key_are_as_few_as_they_need():
    field, rng = Field(), np.random.default_rng(0)
    left = field.random((6, 2), rng) @ field.random((2, 5), rng)
    right = field.random((4, 5), rng)
    one, other = fewest(left, right)
    assert one.shape == (6, 2)
    assert other.shape == (4, 2)
    assert (one @ other.mT == left @ right.mT).all()
    nothing, _ = fewest(left * 0, right)
    assert nothing.shape == (6, 0)


# -- structural and functional ---------------------------------------------------------------------
def every_edge(net: Network) -> list[Edge]:
    return [Edge(e.source, e.target, e.letter) for e in net.circuit(functional=False).possible()]


def no_others(net: Network) -> None:
    """An edge without common columns never changes an answer, however it is patched."""
    way = unrolled(net)
    patching = Patching(net, way)
    assert patching.functional(every_edge(net)) <= set(structural(way, patching))


@pytest.mark.parametrize("target", ["elsa", "lsa"])
def test_functional_edges_are_structural(entry, target):
    no_others(compiled(entry, target=target))


@settings(max_examples=10)
@given(recipes())
def test_functional_edges_of_random_programs_are_structural(recipe):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of inputs that are not used
        try:
            net = inweave.compile(recipe.program(), verify=False)
        except inweave.InweaveError:
            return
    no_others(net)


def test_other_prompts_find_the_same_edges(entry):
    net = compiled(entry)
    first, second = net.circuit(seed=0), net.circuit(seed=1)
    assert first.points != second.points
    assert first.functional == second.functional


def patched(net: Network, edge: Edge, H: Any, other: Any) -> Any:
    """The answer in float64 if one edge carries another prompt's value: nothing is shared with
    `inweave.circuit` but the names, and every matrix is full."""
    layout = net.layout

    def run(H: Any, change: Any = None) -> tuple[dict[str, Any], Any]:
        wrote, layers = {"input": H}, unrolled(net).layers
        for i, done in enumerate(layers):
            outputs = {}
            assert isinstance(done.layer, AttentionLayer)
            assert done.layer.skip
            for k, head in enumerate(done.layer.heads):
                parts = {}
                for x, p in zip("qkv", head.projections, strict=True):
                    here = change is not None and (edge.target, edge.letter) == (f"a{i}.h{k}", x)
                    state = H + change if here else H
                    parts[x] = state @ p.weight(layout) + p.bias(layout)
                outputs[f"a{i}.h{k}"] = parts["q"] @ parts["k"].T @ parts["v"]
            H = H + sum(outputs.values())
            wrote |= outputs
        return wrote, H + change if change is not None and edge.target == "logits" else H

    clean, there = run(H)[0], run(other)[0]
    final = run(H, there[edge.source] - clean[edge.source])[1]
    return np.concatenate([o.place.read(layout, final).ravel() for o in net.outputs])


@pytest.mark.parametrize("name", ["ridge_gd", "diagonal_transformer", "retention"])
def test_an_edge_changes_the_answer_in_floats_if_and_only_if_it_is_functional(name):
    net, rng = compiled(gallery.get(name)), np.random.default_rng(0)
    H, other = (
        net.prompt(**{spec.name: rng.normal(size=spec.shape) for spec in net.inputs})
        for _ in range(2)
    )
    clean = patched(net, Edge("input", "nobody"), H, other)
    circuit = net.circuit()
    for edge in circuit.edges[:: max(1, len(circuit.edges) // 60)]:
        gap = np.abs(patched(net, edge, H, other) - clean).max() / np.abs(clean).max()
        assert gap > 1e-9 if edge.functional else gap < 1e-12, (edge.name, gap)


def test_variables_stand_where_their_hooks_say():
    torch = pytest.importorskip("torch")
    entry = gallery.get("ridge_gd")
    net = entry.compile(n=4, d=2, steps=1, verify=False)
    example = entry.example(0, n=4, d=2)
    _, cache = net.to_torch().run_with_cache(**example)
    w0, X, y = (np.asarray(example[name]) for name in ("w0", "X", "y"))
    step = w0 - example["eta"] * (X.T @ (X @ w0 - y) + example["lam"] * w0)
    (variable,) = (
        v for v in net.circuit(functional=False).variables if (v.name, v.layer) == ("w", 1)
    )
    block = net.layout[variable.block]
    found = cache[variable.hook][..., : block.rows, block.columns]
    assert torch.allclose(found.squeeze(), torch.as_tensor(step))


def test_another_basis_has_the_same_circuit():
    """Columns and tokens turned by rational matrices: not one number of the weights is the same."""
    net = one_step()
    half = np.array([[Fraction(3, 5), Fraction(4, 5)], [Fraction(-4, 5), Fraction(3, 5)]])
    columns = np.kron(np.eye(net.width // 2, dtype=int), half) + Fraction(0)
    embedding = Embedding(columns, half)
    modules = tuple(embedding.module(m, net.layout) for m in net.modules)
    turned = replace(net, modules=modules, embedding=embedding)
    plain, found = net.circuit(), turned.circuit()
    assert found.fingerprint == turned.fingerprint != plain.fingerprint
    assert replace(found, fingerprint=plain.fingerprint) == plain


# -- as data ---------------------------------------------------------------------------------------
def test_a_circuit_is_json_and_comes_back():
    circuit = one_step().circuit()
    text = json.dumps(circuit.to_data())
    assert Circuit.from_data(json.loads(text)) == circuit


def test_json_that_is_no_circuit_is_refused_with_the_way_to_it():
    data = one_step().circuit().to_data()
    data["edges"][3]["letter"] = "w"
    with pytest.raises(FileFormatError, match=r"edges\[3\].letter"):
        Circuit.from_data(data)


def test_eap_finds_every_name_in_its_own_graph():
    """The names that `Graph.from_model` of EAP-IG gives, written down from its source."""
    circuit = compiled(gallery.get("lasso_ista")).circuit()
    data = circuit.to_eap()
    cfg, before, edges = data["cfg"], ["input"], set()
    assert set(cfg) == {"n_layers", "n_heads", "parallel_attn_mlp", "d_model"}
    nodes = {"input", "logits"}
    for i in range(cfg["n_layers"]):
        heads = [f"a{i}.h{k}" for k in range(cfg["n_heads"])]
        edges |= {f"{s}->{h}<{x}>" for s in before for h in heads for x in "qkv"}
        before += heads
        edges |= {f"{s}->m{i}" for s in before}
        before.append(f"m{i}")
    edges |= {f"{s}->logits" for s in before}
    nodes |= set(before)
    assert set(data["nodes"]) == nodes
    assert set(data["edges"]) <= edges
    kept = {name for name, said in data["edges"].items() if said["in_graph"]}
    assert kept == {e.name for e in circuit.functional}
    assert any("m" in name for name in kept)


def test_possible_edges_go_from_earlier_layers_to_later_ones():
    circuit = one_step().circuit()
    possible = circuit.possible()
    assert {e.name for e in circuit.edges} <= {e.name for e in possible}
    assert all(layer_of(e.source) < layer_of(e.target) for e in possible)
    assert len({e.name for e in possible}) == len(possible) == 3 * 3 + 2 * 3 * 4 + 3 * 6 + 7


# -- refusals --------------------------------------------------------------------------------------
def test_what_would_take_hours_is_refused_before_it_starts(monkeypatch):
    monkeypatch.setattr("inweave.circuit.found.MOST", 10)
    with pytest.raises(InputError, match="functional=False"):
        one_step().circuit()
    assert one_step().circuit(functional=False).edges[0].functional is None


def test_an_unknown_edge_is_named():
    with pytest.raises(InputError, match=r"no edge 'a9\.h9->logits'"):
        one_step().circuit(functional=False).edge("a9.h9->logits")
