"""Disguised models with their truth, and what simple methods find in them."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inweave import circuits, gallery
from inweave.circuits.baselines import (
    attribution,
    auroc,
    explained,
    path_patching,
    precision,
    probes,
)
from inweave.circuits.build import make
from inweave.circuits.forward import Torch
from inweave.circuits.hidden import NOTHING, baited, hidden
from inweave.circuits.load import Model
from inweave.circuits.results import Results, interval, measure, table
from inweave.circuits.suite import Specification, specification
from inweave.cli.app import run
from inweave.errors import InputError
from inweave.model.layers import AttentionLayer
from inweave.model.modules import Module

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.usefixtures("unchecked_passes")


def small(program: str, seed: int) -> Specification:
    sizes = {"n": 3, "d": 2, "steps": 1}
    return Specification(0, "gallery", program, seed, sizes, "elsa", "faithful")


RIDGE = small("ridge_gd", 5)


@pytest.fixture(scope="module")
def plain() -> Model:
    return make(RIDGE)


@pytest.fixture(scope="module")
def disguised() -> Model:
    return make(RIDGE, Fraction(1))


# -- the truth about disguises ---------------------------------------------------------------------
def test_baits_add_up_to_nothing_and_the_proof_stands(plain):
    net, true = baited(plain.network, Fraction(1), seed=3)
    assert net.heads > plain.network.heads == len(true)
    for layer, before in zip(net.layers, plain.network.layers, strict=True):
        assert isinstance(layer, AttentionLayer)
        assert isinstance(before, AttentionLayer)
        assert layer.heads[: len(before.heads)] == before.heads
    assert net.verify().program == "ridge_gd"


def test_without_a_dial_there_are_no_baits(plain):
    net, _ = baited(plain.network, Fraction(0), seed=3)
    assert net == plain.network


def test_a_disguised_model_is_certified(disguised):
    assert disguised.network.embedding is not None
    assert disguised.network.certificate is not None
    assert disguised.network.certificate.network == disguised.network.fingerprint


def test_genuine_edges_are_functional_and_lead_to_true_heads(plain, disguised):
    found = disguised.circuit
    assert set(found.genuine) < set(found.functional) < set(found.edges)
    idle = {node.name for node in found.nodes if node.expression == NOTHING}
    assert idle
    assert not any(idle & {edge.source, edge.target} for edge in found.genuine)
    assert plain.circuit.genuine == plain.circuit.functional


def test_every_true_edge_has_a_genuine_one_that_carries_it(plain, disguised):
    """Heads are split and shuffled; what they say they add tells which they are."""

    def told(model: Model, names: tuple[str, str]) -> tuple[str, ...]:
        return tuple(f"{n.partition('.')[0]} {model.circuit.node(n).expression}" for n in names)

    def every(model: Model) -> set[tuple[object, ...]]:
        edges = model.circuit.genuine
        return {(*told(model, (e.source, e.target)), e.letter) for e in edges}

    assert every(disguised) == every(plain)


def test_variables_stand_in_the_disguise_as_before(plain, disguised):
    """The same values after the same layers, seen in the basis of the blocks."""
    assert disguised.circuit.variables == plain.circuit.variables
    inputs = {name: x[:3] for name, x in plain.prompts.items()}
    states = []
    for model in (plain, disguised):
        net = Torch(model)
        run = net.run(net.prompt(inputs))
        states.append([np.asarray(model.network.in_blocks(H)) for H in run.states])
    for v in (v for v in plain.circuit.variables if v.layer is not None):
        columns = plain.network.layout[v.block].columns
        one, other = (found[v.layer][..., columns] for found in states)
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_without_a_dial_nothing_is_hidden(plain):
    net = replace(plain.network, certificate=None)
    assert hidden(net, Fraction(0), seed=5) == (net, plain.circuit)


# -- methods ---------------------------------------------------------------------------------------
def test_the_network_in_torch_computes_the_answers(disguised):
    net = Torch(disguised)
    found = net.answers(net.run(net.prompt(disguised.prompts)).final)
    expected = disguised.network(**disguised.prompts)
    np.testing.assert_allclose(found.squeeze(-1), expected, rtol=1e-9)


def test_the_network_in_torch_has_functions_too():
    spec = Specification(
        0, "gallery", "lasso_ista", 1, {"n": 3, "d": 2, "steps": 1}, "elsa", "faithful"
    )
    model = make(spec)
    net = Torch(model)
    found = net.answers(net.run(net.prompt(model.prompts)).final)
    np.testing.assert_allclose(found, model.network(**model.prompts), rtol=1e-9)


def test_both_ends_of_every_edge_have_hook_points_in_the_torch_module():
    """With a pointwise layer, whose node is what it changes, and layers of fewer heads."""
    model = make(small("lasso_ista", 1))
    net = model.network.to_torch()
    net.cfg.use_split_qkv_input = net.cfg.use_attn_result = net.cfg.use_hook_mlp_in = True
    H = net.prompt_of(**model.prompts)
    state, cache = net.run_with_cache(H)
    wrote = Torch(model).run(H).wrote | {"input": H}
    for edge in model.circuit.possible():
        np.testing.assert_allclose(edge.wrote.of(cache), wrote[edge.source], rtol=1e-9, atol=1e-12)
        assert edge.read.of(cache).shape == H.shape
    assert {edge.read.hook for edge in model.circuit.possible()} >= {"hook_final"}
    np.testing.assert_allclose(model.answers(state), model.network(**model.prompts), rtol=1e-9)


def test_a_layer_without_heads_adds_nothing(plain):
    first, *rest = plain.network.modules
    idle = AttentionLayer((), skip=True)
    network = replace(plain.network, modules=(Module((idle,)), first, *rest))
    model = replace(plain, network=network, circuit=network.circuit())
    scores = attribution(model)
    assert scores.keys() == path_patching(model).keys()
    shifted = {edge.name for edge in model.circuit.functional}
    assert {name for name, score in scores.items() if score > 1e-12} == shifted
    assert len(shifted) == len(plain.circuit.functional)


@pytest.mark.parametrize("method", [attribution, path_patching])
@pytest.mark.parametrize("which", ["plain", "disguised"])
def test_one_edge_at_a_time_is_functional_or_it_is_not(method, which, request):
    model = request.getfixturevalue(which)
    scores, edges = method(model), model.circuit.possible()
    assert auroc([scores[e.name] for e in edges], [bool(e.functional) for e in edges]) == 1


def test_one_edge_at_a_time_takes_baits_for_parts_of_the_algorithm(disguised):
    scores, edges = path_patching(disguised), disguised.circuit.possible()
    genuine = {e.name for e in disguised.circuit.genuine}
    found = auroc([scores[e.name] for e in edges], [e.name in genuine for e in edges])
    assert found is not None
    assert found < 1


def test_path_patching_in_floats_finds_what_is_found_exactly(plain):
    scores = path_patching(plain)
    for edge in plain.circuit.possible():
        assert (scores[edge.name] > 1e-12) == bool(edge.functional), edge.name


def test_probes_read_a_variable_where_it_stands(plain):
    scores, stands = probes(plain)
    assert min(s for s, here in zip(scores, stands, strict=True) if here) > 0.99


def test_a_probe_does_not_read_what_is_not_there():
    rng = np.random.default_rng(0)
    features, other = rng.normal(size=(200, 2, 3)), rng.normal(size=(200, 2, 1))
    assert explained(features, features[..., :1] - 2 * features[..., 1:2]) > 0.999
    assert explained(features, other) < 0.1


# -- measures --------------------------------------------------------------------------------------
def test_auroc_counts_ties_half():
    assert auroc([1, 1, 1], [True, False, True]) == 0.5
    assert auroc([3, 2, 1], [True, True, False]) == 1
    assert auroc([1, 2, 3], [True, True, False]) == 0
    assert auroc([1, 2], [True, True]) is None


def test_precision_is_that_of_as_many_as_are_true():
    assert precision([4, 3, 2, 1], [True, False, True, False]) == 0.5
    assert precision([1, 2], [False, False]) is None


def test_an_interval_is_that_of_a_mean():
    rng = np.random.default_rng(0)
    values = rng.normal(size=400)
    low, high = interval(values.tolist())
    half = 1.96 * values.std() / 20
    assert abs(high - low - 2 * half) < 0.1 * half
    assert low < values.mean() < high


@pytest.fixture(scope="module")
def suites(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("suites")
    for name, dial in (("easy", 0), ("hard", 1)):
        circuits.build(folder / name, count=2, dial=dial)
    return [folder / "easy", folder / "hard"]


def test_methods_are_compared_on_the_same_models(suites, tmp_path, capsys):
    out = tmp_path / "results.json"
    argv = ["circuits", "baselines", *map(str, suites), "-o", str(out), "--most", "5000"]
    assert run(argv) == 0
    results = Results.read(out)
    assert results.models == tuple(specification(k).name for k in range(2))
    assert {(row.dial, row.model) for row in results.rows} == {
        (Fraction(dial), name) for dial in (0, 1) for name in results.models
    }
    said = capsys.readouterr().out
    assert table(results).splitlines()[2] in said
    few = measure(suites, most=200)
    assert len(few.models) < len(results.models)


def test_suites_of_different_seeds_are_not_compared(suites, tmp_path):
    circuits.build(tmp_path / "other", count=1, seed=1)
    with pytest.raises(InputError, match="one seed"):
        measure([suites[0], tmp_path / "other"])


def test_the_method_of_the_guide_is_attribution_patching(suites, monkeypatch, capsys):
    monkeypatch.chdir(suites[0].parent)
    page = (ROOT / "docs" / "howto" / "benchmark-a-method.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(code, "benchmark-a-method.md", "exec", dont_inherit=True), names)
    assert capsys.readouterr().out.startswith("easy: 2 models, AUROC 1.000\nhard: ")
    model = next(circuits.models("easy"))
    found, edges = names["method"](model), model.circuit.possible()
    scores = attribution(model)
    here = [score > 1e-12 for score in found]
    assert (
        here == [scores[edge.name] > 1e-12 for edge in edges] == [bool(e.functional) for e in edges]
    )


def test_the_table_in_the_documentation_is_that_of_the_stored_results():
    results = Results.read(ROOT / "docs" / "circuits.json")
    page = (ROOT / "docs" / "circuits.md").read_text(encoding="utf-8")
    assert table(results) in page, "run python -m scripts.circuits_page"
    assert f"{len(results.models)} models" in page


def test_every_entry_of_the_gallery_that_is_a_polynomial_can_be_baited():
    for name in ("newton_schulz", "kernel_regression"):
        sizes = {"m": 2} if name == "newton_schulz" else {"n": 3, "d": 2}
        net = gallery.get(name).compile(**sizes, steps=1, verify=False)
        baited(net, Fraction(1), seed=0)[0].verify()
