"""The explorer without a browser: recordings lose nothing, and pages are one inert file."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import inweave
import inweave.explore
from inweave import (
    AttentionLayer,
    BlockPointwiseLayer,
    DenseProjection,
    Head,
    Layout,
    Module,
    Network,
    Output,
    Place,
    PointwiseLayer,
)
from inweave.errors import BlockError, DTypeError, FileFormatError, InputError, ShapeError
from inweave.explore import story
from inweave.explore.document import STATIC, asset, digest, inert, module
from inweave.explore.payload import payload as contents
from inweave.explore.record import PieceExecutor, Recording, record
from inweave.explore.shown import named
from inweave.model import dense
from inweave.model.relunet import Function, ReluNet
from tests.cases import CASES, Case, ridge_gd
from tests.random_networks import networks

NET = inweave.compile(ridge_gd, n=4, d=2, steps=3)
RNG = np.random.default_rng(0)
INPUTS = {
    "X": RNG.normal(size=(4, 2)),
    "y": RNG.normal(size=4),
    "u": RNG.normal(size=2),
    "lam": 0.1,
    "eta": 0.05,
}


def payload(networks: Any, inputs: dict[str, Any], reference: Any = None) -> dict[str, Any]:
    """What the page of some public networks holds."""
    return contents(named(networks), inputs, reference)


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
        r'<script type="application/json" id="inweave-data">(.*?)</script>', page, re.DOTALL
    )
    assert found is not None
    return json.loads(found[1])


# -- recordings ------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.usefixtures("compiled_once")
def test_the_stored_states_are_those_of_the_trace_bit_for_bit(case: Case) -> None:
    net = inweave.compile(case.program, verify=False, **case.sizes)
    inputs = case.inputs()
    trace = net.trace(**inputs)
    states = replayed(payload({"net": net}, inputs)["networks"][0])
    wanted = [net.prompt(**inputs), *(step.after for step in trace.steps)]
    assert len(states) == len(wanted)
    for found, state in zip(states, wanted, strict=True):
        assert found.tobytes() == np.ascontiguousarray(state).tobytes()


def state(kept: Recording, position: int) -> np.ndarray:
    """The prompt at a position, put together again as the page does it."""
    H = kept.first.copy()
    for (at, row, col, rows, cols), part in zip(kept.rectangles, kept.values, strict=True):
        if at <= position:
            H[row : row + rows, col : col + cols] = part
    return H


@settings(max_examples=60)
@given(networks())
def test_any_network_is_recorded_position_by_position(network: Network) -> None:
    H = np.random.default_rng(0).normal(size=(network.tokens, network.width))
    with np.errstate(all="ignore"):
        states: list[np.ndarray] = [H]
        for after in dense.trace(network, H).states.values():
            if after is not states[-1]:
                states.append(after)
    kept = record(network, H)
    assert kept.positions == len(states)
    for k, expected in enumerate(states):
        assert np.array_equal(state(kept, k), expected, equal_nan=True)


@settings(max_examples=60)
@given(networks())
def test_the_executor_for_large_prompts_computes_the_same(network: Network) -> None:
    from inweave.exact.arithmetic import Floats

    H = 0.3 * np.random.default_rng(1).normal(size=(network.tokens, network.width))
    with np.errstate(all="ignore"):
        found = PieceExecutor(network.layout, Floats()).run(network.modules, H)
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
    kept.add(state(kept, 1), state(kept, 1))
    assert kept.rectangles == [(1, 0, 1, 1, 2)]
    assert kept.positions == 3
    assert np.signbit(state(kept, 2)[0, 1])


def test_single_precision_stays_single_and_is_not_called_rounded() -> None:
    inputs = {name: np.asarray(value, np.float32) for name, value in INPUTS.items()}
    data = payload({"net": NET}, inputs)["networks"][0]
    assert data["first"]["dtype"] == "float32"
    assert not data["rounded"]
    assert replayed(data)[-1].tobytes() == NET.trace(**inputs).final.tobytes()


def test_too_many_numbers_are_rounded_and_the_page_says_so(monkeypatch: Any) -> None:
    monkeypatch.setattr("inweave.explore.payload.EXACT_BYTES", 100)
    data = payload({"net": NET}, INPUTS)["networks"][0]
    assert data["rounded"]
    np.testing.assert_allclose(replayed(data)[-1], NET.trace(**INPUTS).final, rtol=1e-6)
    monkeypatch.setattr("inweave.explore.payload.MOST_BYTES", 100)
    with pytest.raises(InputError, match="fewer steps or a smaller prompt"):
        payload({"net": NET}, INPUTS)


def test_dense_weights_beyond_the_budget_are_left_out(monkeypatch: Any) -> None:
    W = DenseProjection(np.eye(4))
    net = Network(Layout.of({"A": (2, 4)}), (Module((AttentionLayer((Head(W, W, W),)),)),))
    head = payload({"net": net}, {"H": np.ones((2, 4))})["networks"][0]["layers"][0]["heads"][0]
    assert head["parts"]["query"]["pieces"][0]["dense"] == 0
    monkeypatch.setattr("inweave.explore.payload.WEIGHT_BYTES", 100)
    head = payload({"net": net}, {"H": np.ones((2, 4))})["networks"][0]["layers"][0]["heads"][0]
    assert head["parts"] is None


# -- inputs and references -------------------------------------------------------------------------
def test_without_inputs_an_example_is_drawn_and_stays_finite() -> None:
    net = inweave.compile(ridge_gd, n=30, d=8, steps=200)
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
        inweave.explore.page({"a": 3})  # type: ignore[dict-item]
    with pytest.raises(InputError, match="no network"):
        inweave.explore.page([])


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


BARE = Network(
    Layout.of({"A": (3, 2), "B": (2, 2)}),
    (Module((AttentionLayer((Head(*(DenseProjection(0.5 * np.eye(4)) for _ in range(3))),)),)),),
)


def test_a_network_without_named_inputs_runs_on_a_random_prompt_and_the_page_says_so() -> None:
    data = payload({"bare": BARE, "same": BARE}, {})
    assert data["inputs"] == "example data: a random prompt, seed 0"
    first, second = (replayed(net)[0] for net in data["networks"])
    assert first[:2].all()
    assert not first[2, 2:].any()  # below a block's own rows the prompt holds zeros
    assert np.array_equal(first, second)
    wild = Network(
        BARE.layout,
        (
            Module(
                (AttentionLayer((Head(*(DenseProjection(9 * np.eye(4)) for _ in range(3))),)),), 3
            ),
        ),
    )
    assert np.isfinite(replayed(payload({"wild": wild}, {})["networks"][0])[-1]).all()
    with pytest.raises(BlockError, match="no inputs are named here: give the prompt itself, as H"):
        payload({"bare": BARE}, {"X": 1})


def test_a_trained_network_can_be_explored_as_it_is(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    trained = inweave.nn.build(BARE.layout, depth=2).to_network()
    trained.explore(tmp_path / "p.html")
    data = read_back((tmp_path / "p.html").read_text("utf-8"))
    assert data["inputs"] == "example data: a random prompt, seed 0"
    assert unpacked(data["networks"][0]["first"])[:2].all()


def test_a_network_without_named_inputs_beside_one_with_them() -> None:
    same = Network(NET.layout, NET.modules, outputs=NET.outputs)
    data = payload({"net": NET, "trained": same}, INPUTS)
    assert data["inputs"] == (
        "the data that were given; trained, without named inputs, on the prompt of net"
    )
    assert data["networks"][0]["first"] == data["networks"][1]["first"]
    assert data["networks"][1]["reference"].startswith("program ridge_gd")
    data = payload({"bare": BARE, "net": NET, "also": BARE}, {})
    assert data["inputs"] == (
        "example data: random entries, seed 0; "
        "bare and also, without named inputs, on a random prompt, seed 0"
    )
    assert replayed(data["networks"][0])[0].any()


def test_a_prompt_of_constants_is_not_called_the_users() -> None:
    @inweave.program
    def constant():
        return inweave.constant(np.eye(2)) @ inweave.constant(np.eye(2)) + inweave.eye(2)

    data = payload({"net": inweave.compile(constant)}, {})
    assert data["inputs"] == "no inputs: the prompt holds constants only"


def two_answers() -> Network:
    outputs = (Output("p", Place("A", 3, 2), "matrix"), Output("q", Place("B", 2, 1), "vector"))
    return Network(BARE.layout, BARE.modules, outputs=outputs)


def test_a_reference_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(ShapeError, match=r"reference has shape \(2,\), but the answer of net has"):
        payload({"net": NET}, INPUTS, reference=[1.0, 2.0])
    with pytest.raises(DTypeError, match="the reference must hold real numbers"):
        payload({"net": NET}, INPUTS, reference="one")
    with pytest.raises(DTypeError, match="the reference must hold real numbers"):
        payload({"net": NET}, INPUTS, reference=[[1.0], [1.0, 2.0]])
    with pytest.raises(InputError, match="no output is named here"):
        payload({"bare": BARE}, {}, reference=1.0)
    net, p, q = two_answers(), np.ones((3, 2)), np.arange(2.0)
    with pytest.raises(BlockError, match=r"give the reference by output.*'p', 'q'"):
        payload({"net": net}, {}, reference=p)
    with pytest.raises(BlockError, match="names 'r'; the outputs are 'p', 'q'"):
        payload({"net": net}, {}, reference={"p": p, "r": q})
    with pytest.raises(
        ShapeError, match=r"\(2, 3\), but the answer of net, 'p', has shape \(3, 2\)"
    ):
        payload({"net": net}, {}, reference={"p": p.T})
    found = payload({"net": net}, {}, reference={"q": q})["networks"][0]
    assert found["outputs"][0]["reference"] is None
    assert np.array_equal(unpacked(found["outputs"][1]["reference"]), q[:, None])


def test_a_reference_by_name_is_for_the_networks_with_that_output() -> None:
    given = {"p": np.ones((3, 2)), "": 2.0}
    first, second = payload({"two": two_answers(), "net": NET}, INPUTS, given)["networks"]
    assert unpacked(first["outputs"][0]["reference"]).shape == (3, 2)
    assert unpacked(second["outputs"][0]["reference"]).item() == 2.0


def test_half_precision_is_converted_and_what_is_not_real_refused() -> None:
    torch = pytest.importorskip("torch")
    H = RNG.normal(size=(3, 4))
    for dtype in (torch.bfloat16, torch.float16, torch.float8_e4m3fn):
        half = torch.tensor(H).to(dtype)
        data = payload({"bare": BARE}, {"H": half})["networks"][0]
        assert data["first"]["dtype"] == "float32"
        assert np.array_equal(unpacked(data["first"]), half.float().numpy())
    inputs = {name: torch.as_tensor(v, dtype=torch.bfloat16) for name, v in INPUTS.items()}
    assert payload({"net": NET}, inputs)["networks"][0]["first"]["dtype"] == "float32"
    wide = payload({"bare": BARE}, {"H": H.astype(np.longdouble)})["networks"][0]
    assert np.array_equal(unpacked(wide["first"]), H)
    for bad in (H + 1j, np.full((3, 4), "x"), [[1.0], [1.0, 2.0]]):
        with pytest.raises(DTypeError, match="the prompt H must hold real numbers"):
            payload({"bare": BARE}, {"H": bad})


def test_brain_floats_of_other_libraries_are_converted() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    H = np.ones((3, 4), ml_dtypes.bfloat16)
    data = payload({"bare": BARE}, {"H": H})["networks"][0]
    assert np.array_equal(unpacked(data["first"]), np.ones((3, 4)))


# -- what is said about a network ------------------------------------------------------------------
def test_heads_are_written_in_matrix_terms_and_the_report_has_the_bound() -> None:
    data = payload({"net": NET}, INPUTS)["networks"][0]
    lines = [line for layer in data["layers"] for head in layer["heads"] for line in head["lines"]]
    assert ["Xᵀ X w", "XᵀXw−Xᵀy+λw"] in lines
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


@pytest.mark.parametrize("scale", [1e-300, 1e160, 1.7e308])
def test_curves_over_extreme_values_are_drawn_without_a_warning(scale: float) -> None:
    steep = Function("steep", ReluNet((4.0,), (0.0,), (4.0,)))
    layer = BlockPointwiseLayer(((Place("A", 2, 2), steep),))
    net = Network(Layout.of({"A": (2, 2)}), (Module((layer,)),))
    H = scale * np.array([[1.0, -1.0], [-1.0, 1.0]])
    with warnings.catch_warnings(), np.errstate(over="ignore"):  # of the network itself
        warnings.simplefilter("error")
        (drawn,) = payload({"net": net}, {"H": H})["networks"][0]["layers"][0]["functions"]
    assert len(drawn["x"]) == len(drawn["net"])
    assert drawn["x"][0] <= -scale
    assert drawn["x"][-1] >= scale


# -- the page --------------------------------------------------------------------------------------
def test_the_module_holds_every_file_once_and_imports_nothing() -> None:
    text = module()
    names = [path.name for path in STATIC.iterdir() if path.name.endswith(".js")]
    assert "main.js" in names
    for name in names:
        body = re.split(r"^import .*;\n", asset(name), flags=re.MULTILINE)[-1]
        assert text.count(body.strip()) == 1, name
    assert not re.search(r"^import\b", text, re.MULTILINE)


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
    assert not re.search(r"""(src|href)\s*=\s*["'](?!data:,)""", text.split("inweave-data")[0])
    assert len(text) < 1_500_000


def test_the_same_network_and_data_make_the_same_page() -> None:
    assert inweave.explore.page(NET, INPUTS) == inweave.explore.page(NET, INPUTS)


def test_hostile_names_cannot_leave_the_data() -> None:
    bad = "</script><script>alert(1)</script><!--\u2028&{{ script }}"
    block = bad.replace("\u2028", "")  # which no block may be called
    net = Network(Layout.of({block: (1, 1)}), ())
    text = inweave.explore.page({bad: net}, {"H": np.ones((1, 1))})
    assert text.count("<script") == 2
    assert text.count("</script>") == 2
    assert read_back(text)["networks"][0]["name"] == bad
    assert read_back(text)["networks"][0]["layout"]["blocks"][0]["name"] == block
    assert "<" not in inert({"a": bad})


def test_two_networks_share_a_page_and_keep_their_names(tmp_path: Path) -> None:
    other = inweave.compile(ridge_gd, n=4, d=2, steps=3, optimize="depth")
    NET.explore(tmp_path / "a.html", compare=other, **INPUTS)
    inweave.explore.compare(tmp_path / "b.html", {"one": NET, "two": NET}, INPUTS)
    names = [
        [net["name"] for net in read_back((tmp_path / f"{x}.html").read_text("utf-8"))["networks"]]
        for x in "ab"
    ]
    assert names == [["ridge_gd, ELSA, faithful", "ridge_gd, ELSA, depth"], ["one", "two"]]
    assert len(read_back(inweave.explore.page([NET, NET], INPUTS))["networks"]) == 2


def test_names_may_be_numbers(tmp_path: Path) -> None:
    inweave.explore.compare(tmp_path / "a.html", {3: NET, 0.5: NET, np.int64(7): NET}, INPUTS)
    data = read_back((tmp_path / "a.html").read_text("utf-8"))
    assert [net["name"] for net in data["networks"]] == ["3", "0.5", "7"]
    with pytest.raises(InputError, match="two networks are called '3'"):
        inweave.explore.page({3: NET, "3": NET}, INPUTS)
    with pytest.raises(InputError, match="text or a number, got "):
        inweave.explore.page({("a",): NET}, INPUTS)
    with pytest.raises(InputError, match="expected a Network, or several, got int"):
        inweave.explore.page(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="this is not a Network, got str"):
        inweave.explore.page("net")  # type: ignore[arg-type]
    with pytest.raises(BlockError, match=r"unknown input\(s\) 1"):
        inweave.explore.page(NET, INPUTS | {1: 2})  # type: ignore[dict-item]
    with pytest.raises(InputError, match=r"inputs by name.*got ndarray"):
        inweave.explore.page(NET, np.ones((2, 2)))  # type: ignore[arg-type]


def test_names_that_no_encoding_can_write_are_shown_with_replacements(tmp_path: Path) -> None:
    odd = "a\ud800b"
    with pytest.raises(BlockError, match="one line of printable text"):
        Layout.of({odd: (1, 1)})
    net = Network(Layout.of({"a": (1, 1), "b": (1, 1)}), (), outputs=(
        Output("a", Place("a", 1, 1), "scalar"),
    ))  # fmt: skip
    inweave.explore.write(tmp_path / "a.html", {odd: net, "b": net}, {"H": np.ones((1, 2))})
    text = (tmp_path / "a.html").read_text("utf-8")
    assert "<title>a\ufffdb and b" in text
    found = read_back(text)["networks"][0]
    assert found["name"] == "a\ufffdb"


def test_a_page_that_cannot_be_made_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(BlockError):
        NET.explore(tmp_path / "page.html", X=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"network": 1}, "there is no network 1; there is only 0"),
        ({"show": "prompt-1"}, "there is no panel 'prompt-1'; there are 'head', 'data'"),
        ({"layer": "99"}, "there is no layer '99'; there are '0', '1'"),
        ({"steps": 1, "layer": "4"}, "there is no layer '4'; there are '0', '1', '2', '3', 'end'"),
        ({"steps": 40, "layer": "79", "head": 7}, "there is no head 7 of layer 79; there"),
        ({"steps": 0}, "there is no loop that takes 0 steps; there is none"),
        ({"layer": "end", "head": 7}, "there is no head 7 of layer end; there is only 0"),
        ({"layer": "1s"}, "there is no layer '1s'"),
        ({"layer": "1", "head": 7}, "there is no head 7 of layer 1; there"),
        ({"off": ((9, 0),)}, "there is no stored layer 9"),
        ({"inputs": {"eps": 1.0}}, "there is no scalar input 'eps'; there are"),
    ],
)
def test_a_chapter_about_what_is_not_there_is_refused(wrong: dict[str, Any], said: str) -> None:
    chapter = story.Chapter("One", "Two", **wrong)
    with pytest.raises(InputError, match=re.escape(f"chapter 1, 'One': {said}")):
        inweave.explore.page(NET, INPUTS, story=[chapter])


def test_the_panels_that_chapters_can_name_are_those_of_the_page() -> None:
    static = Path(story.__file__).parent / "static"
    texts = [path.read_text(encoding="utf-8") for path in static.glob("*.js")]
    found = {name for text in texts for name in re.findall(r'title: .*?name: ["`]([a-z]+)', text)}
    assert found == {*story.PANELS, *story.PANELS_OF_EACH}


def test_a_story_is_data_and_what_it_does_not_know_is_refused() -> None:
    said = {"title": "One", "text": "Two", "layer": "3", "off": [[0, 1]], "inputs": {"eta": 0.5}}
    [chapter] = story.read(json.dumps([said]))
    assert (chapter.title, chapter.layer, chapter.off) == ("One", "3", ((0, 1),))
    page = inweave.explore.page(NET, INPUTS, story=[chapter])
    [found] = read_back(page)["story"]
    assert found["inputs"] == {"eta": 0.5}
    assert found["steps"] is None
    assert payload({"net": NET}, INPUTS)["story"] == []
    with pytest.raises(FileFormatError, match="lair"):
        story.read('[{"title": "One", "text": "Two", "lair": "3"}]')


# -- what the page runs networks with --------------------------------------------------------------
def test_the_inputs_and_their_places_come_along() -> None:
    data = payload({"net": NET}, INPUTS)["networks"][0]
    values = {one["name"]: unpacked(one["value"]) for one in data["inputs"]}
    assert all(np.array_equal(values[name].ravel(), np.ravel(INPUTS[name])) for name in INPUTS)
    assert {fill["source"] for fill in data["fills"] if fill["source"]} == set(INPUTS)
    assert data["report"]["statics"] == {"steps": 3}
    trained = Network(NET.layout, NET.modules, outputs=NET.outputs)
    _, follows = payload({"net": NET, "trained": trained}, INPUTS)["networks"]
    assert follows["fills"] == data["fills"]  # so that it follows the other's data
    [only] = payload({"bare": BARE}, {})["networks"][0]["inputs"]
    assert (only["name"], only["rows"], only["cols"]) == ("H", 3, 4)


# -- the widget ------------------------------------------------------------------------------------
def test_the_widget_shares_the_pages_module() -> None:
    pytest.importorskip("anywidget")
    widget = inweave.explore.Widget(NET, **INPUTS)
    assert widget.payload == payload({"ridge_gd, ELSA, faithful": NET}, INPUTS)
    assert "export default { render }" in module()
    widget.layer = 2
    assert widget.layer == 2


def test_the_explorer_loads_nothing_until_it_is_asked() -> None:
    code = (
        "import sys, inweave; assert 'inweave.explore' not in sys.modules; import inweave.explore; \
        assert 'anywidget' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_saved_network_is_shown_with_all_that_is_known_of_its_program(tmp_path: Path) -> None:
    NET.save(tmp_path / "net.inweave")
    back = inweave.load(tmp_path / "net.inweave")
    there, here = (payload(net, INPUTS)["networks"][0] for net in (back, NET))
    for same in ("name", "report", "reference", "outputs"):
        assert there[same] == here[same], same
    assert there["report"]["bound"] == NET.depth_lower_bound
    assert there["certificate"] is None
    back.verify()
    assert payload(back, INPUTS)["networks"][0]["certificate"]["program"].startswith("ridge_gd")


def test_a_changed_network_is_not_called_what_it_was_compiled_from() -> None:
    other = replace(NET, modules=(*NET.modules, *NET.modules))
    data = payload(other, INPUTS)["networks"][0]
    assert data["name"] == "ridge_gd, ELSA, changed"
    assert data["report"]["bound"] is None


def test_a_notebook_shows_size_bound_prompt_and_proof(tmp_path: Path) -> None:
    html = NET._repr_html_()
    for said in (
        "<b>ridge_gd, ELSA, faithful</b>",
        f"{NET.depth} attention layers",
        f"degree {NET.degree}; on prompts affine in the inputs",
        "proved: ridge_gd = network",
        'Xᵀ <span style="opacity: 0.65">2×4</span>',
    ):
        assert said in html
    assert "<script" not in html
    NET.save(tmp_path / "net.inweave")
    claimed = inweave.load(tmp_path / "net.inweave")._repr_html_()
    assert "recorded in the file, not checked here: proved: ridge_gd = network" in claimed


def test_names_cannot_leave_the_text_of_a_notebook() -> None:
    name = "<img src=x onerror=alert(1)>"
    html = Network(Layout.of({name: (2, 1)}), ())._repr_html_()
    assert "&lt;img src=x onerror=alert(1)&gt;" in html
    assert "<img" not in html
    many = Network(Layout.of({f"b{i}": (1, 1) for i in range(1000)}), ())._repr_html_()
    assert "and 940 more" in many
