"""The explorer without a browser: recordings lose nothing, and pages are one inert file."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import weft
import weft.explore
from tests.cases import CASES, Case, ridge_gd
from tests.random_networks import networks
from weft import (
    AttentionLayer,
    BlockPointwiseLayer,
    DenseProjection,
    Head,
    Layout,
    Module,
    Network,
    Place,
    PointwiseLayer,
)
from weft.errors import BlockError, InputError, ShapeError
from weft.explore.document import asset, digest, inert
from weft.explore.payload import payload
from weft.explore.record import PieceExecutor, Recording, record
from weft.relunet import Function, ReluNet
from weft.run import dense

NET = weft.compile(ridge_gd, n=4, d=2, steps=3)
RNG = np.random.default_rng(0)
INPUTS = {
    "X": RNG.normal(size=(4, 2)),
    "y": RNG.normal(size=4),
    "u": RNG.normal(size=2),
    "lam": 0.1,
    "eta": 0.05,
}


def unpacked(packed: dict[str, Any]) -> np.ndarray:
    kinds = {"float64": "<f8", "float32": "<f4", "int32": "<i4"}
    flat = np.frombuffer(base64.b64decode(packed["data"]), kinds[packed["dtype"]])
    return flat.reshape(packed["shape"])


def replayed(data: dict[str, Any]) -> list[np.ndarray]:
    """Every state of a packed network, as the page puts it together."""
    states, H = [], unpacked(data["first"]).copy()
    changes, values, at = unpacked(data["changes"]), unpacked(data["values"]), 0
    for k in range(data["positions"]):
        for _, row, col, rows, cols in changes[changes[:, 0] == k]:
            part = values[at : at + rows * cols].reshape(rows, cols)
            H[row : row + rows, col : col + cols] = part
            at += rows * cols
        states.append(H.copy())
    assert at == values.size
    return states


def read_back(page: str) -> dict[str, Any]:
    found = re.search(
        r'<script type="application/json" id="weft-data">(.*?)</script>', page, re.DOTALL
    )
    assert found is not None
    return json.loads(found[1])


# -- recordings ------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_stored_states_are_those_of_the_trace_bit_for_bit(case: Case) -> None:
    net = weft.compile(case.program, verify=False, **case.sizes)
    inputs = case.inputs()
    trace = net.trace(**inputs)
    states = replayed(payload({"net": net}, inputs)["networks"][0])
    wanted = [net.prompt(**inputs), *(step.after for step in trace.steps)]
    assert len(states) == len(wanted)
    for found, state in zip(states, wanted, strict=True):
        assert found.tobytes() == np.ascontiguousarray(state).tobytes()


@settings(max_examples=60, deadline=None)
@given(networks())
def test_any_network_is_recorded_position_by_position(network: Network) -> None:
    H = np.random.default_rng(0).normal(size=(network.tokens, network.width))
    with np.errstate(all="ignore"):
        states: list[np.ndarray] = [H]
        for state in dense.trace(network, H).states.values():
            if state is not states[-1]:
                states.append(state)
    kept = record(network, H)
    assert kept.positions == len(states)
    for k, state in enumerate(states):
        assert np.array_equal(kept.state(k), state, equal_nan=True)


@settings(max_examples=60, deadline=None)
@given(networks())
def test_the_executor_for_large_prompts_computes_the_same(network: Network) -> None:
    from weft.arithmetic import Floats

    H = 0.3 * np.random.default_rng(1).normal(size=(network.tokens, network.width))
    with np.errstate(all="ignore"):
        expected = found = H
        executor = PieceExecutor(network.layout, Floats())
        for i, module in enumerate(network.modules):
            found = executor.run(module, found, f"module {i}", lambda *_: None)
        expected = dense.forward(network, H)
    if np.isfinite(expected).all() and np.abs(expected).max() < 1e6:
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_only_what_changes_is_stored() -> None:
    data = payload({"net": NET}, INPUTS)["networks"][0]
    names = {block["name"]: block for block in data["layout"]["blocks"]}
    touched = {int(col) for col in unpacked(data["changes"])[:, 2]}
    assert all(not (names["Xᵀ"]["start"] <= col < names["Xᵀ"]["start"] + 4) for col in touched)


def test_nan_infinity_and_minus_zero_are_recorded_as_they_are() -> None:
    layout = Layout.of({"A": (1, 3)})
    kept = Recording(layout, np.array([[np.nan, 0.0, 1.0]]))
    kept.add(kept.first, np.array([[np.nan, -0.0, np.inf]]))
    kept.add(kept.state(1), kept.state(1))
    assert kept.rectangles == [(1, 0, 1, 1, 2)]
    assert kept.positions == 3
    assert np.signbit(kept.state(2)[0, 1])


def test_single_precision_stays_single_and_is_not_called_rounded() -> None:
    inputs = {name: np.asarray(value, np.float32) for name, value in INPUTS.items()}
    data = payload({"net": NET}, inputs)["networks"][0]
    assert data["first"]["dtype"] == "float32"
    assert not data["rounded"]
    assert replayed(data)[-1].tobytes() == NET.trace(**inputs).final.tobytes()


def test_too_many_numbers_are_rounded_and_the_page_says_so(monkeypatch: Any) -> None:
    monkeypatch.setattr("weft.explore.payload.EXACT_BYTES", 100)
    data = payload({"net": NET}, INPUTS)["networks"][0]
    assert data["rounded"]
    np.testing.assert_allclose(replayed(data)[-1], NET.trace(**INPUTS).final, rtol=1e-6)
    monkeypatch.setattr("weft.explore.payload.MOST_BYTES", 100)
    with pytest.raises(InputError, match="fewer steps or a smaller prompt"):
        payload({"net": NET}, INPUTS)


def test_dense_weights_beyond_the_budget_are_left_out(monkeypatch: Any) -> None:
    W = DenseProjection(np.eye(4))
    net = Network(Layout.of({"A": (2, 4)}), (Module((AttentionLayer((Head(W, W, W),)),)),))
    head = payload({"net": net}, {"H": np.ones((2, 4))})["networks"][0]["layers"][0]["heads"][0]
    assert head["parts"]["query"]["pieces"][0]["dense"] == 0
    monkeypatch.setattr("weft.explore.payload.WEIGHT_BYTES", 100)
    head = payload({"net": net}, {"H": np.ones((2, 4))})["networks"][0]["layers"][0]["heads"][0]
    assert head["parts"] is None


# -- inputs and references -------------------------------------------------------------------------
def test_without_inputs_an_example_is_drawn_and_stays_finite() -> None:
    net = weft.compile(ridge_gd, n=30, d=8, steps=200)
    data = payload({"net": net}, {})
    assert data["inputs"].startswith("example data")
    assert np.isfinite(replayed(data["networks"][0])[-1]).all()


def test_inputs_are_checked_by_name_and_shape() -> None:
    with pytest.raises(BlockError, match=r"unknown input.*Z"):
        payload({"net": NET}, INPUTS | {"Z": 1})
    with pytest.raises(BlockError, match="missing: y"):
        payload({"net": NET}, {k: v for k, v in INPUTS.items() if k != "y"})
    with pytest.raises(ShapeError, match="one prompt at a time"):
        payload({"net": NET}, INPUTS | {"lam": np.ones(3)})
    with pytest.raises(BlockError, match="not both"):
        payload({"net": NET}, INPUTS | {"H": NET.prompt(**INPUTS)})
    with pytest.raises(InputError, match="not a Network"):
        weft.explore.page({"a": 3})  # type: ignore[dict-item]
    with pytest.raises(InputError, match="no network"):
        weft.explore.page([])


def test_the_prompt_itself_can_be_given() -> None:
    H = NET.prompt(**INPUTS)
    assert np.array_equal(replayed(payload({"net": NET}, {"H": H})["networks"][0])[0], H)


def test_the_reference_is_the_program_and_is_shared_by_a_network_without_one() -> None:
    bare = Network(NET.layout, NET.modules, NET.inputs, NET.fills, NET.outputs)
    for found in payload({"bare": bare, "net": NET}, INPUTS)["networks"]:
        assert found["reference"].startswith("program ridge_gd")
        value = unpacked(found["outputs"][0]["reference"])
        assert value.item() == ridge_gd(**INPUTS, steps=3)
    assert payload({"bare": bare}, INPUTS)["networks"][0]["reference"] is None
    given = payload({"bare": bare}, INPUTS, reference=2.5)["networks"][0]
    assert unpacked(given["outputs"][0]["reference"]).item() == 2.5


# -- what is said about a network ------------------------------------------------------------------
def test_heads_are_written_in_matrix_terms_and_the_report_has_the_bound() -> None:
    data = payload({"net": NET}, INPUTS)["networks"][0]
    lines = [line for layer in data["layers"] for head in layer["heads"] for line in head["lines"]]
    assert ["Xᵀ X w", "scratch1"] in lines
    assert data["report"]["depth"] == NET.depth
    assert data["report"]["bound"] == NET.depth_lower_bound
    assert data["certificate"]["probability"] < 1e-9
    assert data["modules"][0]["repeat"] == 3 or data["modules"][0]["body"]


def test_pointwise_layers_come_with_their_curves() -> None:
    relu = Function(
        "relu", ReluNet((1.0,), (0.0,), (1.0,)), reference=lambda xp, x: xp.maximum(x, 0)
    )
    inverse = Function("1/x", ReluNet((1.0,), (0.0,), (1.0,)), domain=(0.01, 10.0), error=0.1)
    layout = Layout.of({"A": (2, 2), "B": (2, 1)})
    V, W, B, C = (np.zeros((1, 2, 3)) for _ in range(4))
    V[...], W[...], C[0, :, 2] = 2.0, 1.0, 1.0
    net = Network(
        layout,
        (
            Module((BlockPointwiseLayer(((Place("A", 2, 2), relu), (Place("B", 2, 1), inverse))),)),
            Module((PointwiseLayer(V, W, B, C),)),
        ),
    )
    first, second = payload({"net": net}, {"H": RNG.normal(size=(2, 3))})["networks"][0]["layers"]
    a, b = first["functions"]
    assert (a["name"], a["where"], b["log"]) == ("relu", "A", True)
    x, y = np.array(a["x"]), np.array(a["net"])
    np.testing.assert_allclose(y, np.maximum(x, 0), atol=1e-5)
    assert a["true"] == a["net"]
    assert [f["where"] for f in second["functions"]] == ["A[0, 0] and 3 more", "B[0, 0] and 1 more"]


# -- the page --------------------------------------------------------------------------------------
def test_a_page_is_one_file_and_allows_only_what_is_inside(tmp_path: Path) -> None:
    NET.explore(tmp_path / "page.html", **INPUTS)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text.count("<script") == 2
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    script = re.search(r'<script type="module">(.*)</script>', text, re.DOTALL)
    style = re.search(r"<style>(.*)</style>", text, re.DOTALL)
    assert script is not None
    assert style is not None
    assert digest(script[1]) in policy[1]
    assert digest(style[1]) in policy[1]
    assert not re.search(r"""(src|href)\s*=\s*["'](?!data:,)""", text.split("weft-data")[0])
    assert len(text) < 1_500_000


def test_the_same_network_and_data_make_the_same_page() -> None:
    assert weft.explore.page(NET, INPUTS) == weft.explore.page(NET, INPUTS)


def test_hostile_names_cannot_leave_the_data() -> None:
    bad = "</script><script>alert(1)</script><!--\u2028&{{ script }}"
    net = Network(Layout.of({bad: (1, 1)}), ())
    text = weft.explore.page({bad: net}, {"H": np.ones((1, 1))})
    assert text.count("<script") == 2
    assert text.count("</script>") == 2
    assert read_back(text)["networks"][0]["layout"]["blocks"][0]["name"] == bad
    assert "<" not in inert({"a": bad})


def test_two_networks_share_a_page_and_keep_their_names(tmp_path: Path) -> None:
    other = weft.compile(ridge_gd, n=4, d=2, steps=3, optimize="depth")
    NET.explore(tmp_path / "a.html", compare=other, **INPUTS)
    weft.explore.compare(tmp_path / "b.html", {"one": NET, "two": NET}, INPUTS)
    names = [
        [net["name"] for net in read_back((tmp_path / f"{x}.html").read_text("utf-8"))["networks"]]
        for x in "ab"
    ]
    assert names == [["ridge_gd, ELSA, faithful", "ridge_gd, ELSA, depth"], ["one", "two"]]
    assert len(read_back(weft.explore.page([NET, NET], INPUTS))["networks"]) == 2


def test_a_page_that_cannot_be_made_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(BlockError):
        NET.explore(tmp_path / "page.html", X=1)
    assert list(tmp_path.iterdir()) == []


# -- the widget ------------------------------------------------------------------------------------
def test_the_widget_shares_the_pages_module() -> None:
    pytest.importorskip("anywidget")
    widget = weft.explore.Widget(NET, **INPUTS)
    assert widget.payload == payload({"ridge_gd, ELSA, faithful": NET}, INPUTS)
    assert "export default { render }" in asset("explorer.js")
    widget.layer = 2
    assert widget.layer == 2


def test_the_explorer_loads_nothing_until_it_is_asked() -> None:
    code = "import sys, weft; assert 'weft.explore' not in sys.modules; import weft.explore; \
        assert 'anywidget' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
