"""Networks that no other one beats, and what every network has at least."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

import inweave
from inweave import Layout, Matrix, Vector, smallest
from inweave.cli import main
from inweave.compiler.driver import checked_by
from inweave.gallery import get
from inweave.paper import ridge_lsa
from inweave.proof.check import Differ, Unsure
from inweave.smallest import MEASURES, Point
from tests.cases import ridge_gd as ridge

pytestmark = pytest.mark.usefixtures("unchecked_passes")
SIZES = {"n": 5, "d": 3, "steps": 9}


@pytest.fixture(scope="module")
def found():
    with checked_by(None):  # passes are checked where that is what is tested
        return inweave.frontier(ridge, **SIZES)


def size(network):
    return network.depth, network.heads, network.width, network.plan.flops


def test_each_is_verified_and_computes_the_program(found):
    assert len(found) > 2
    assert all(point.network.certificate is not None for point in found)
    assert {point.network.target for point in found} == {"elsa", "lsa"}


@pytest.mark.parametrize("optimize", ["faithful", "speed", "depth"])
@pytest.mark.parametrize("target", ["elsa", "lsa"])
@pytest.mark.parametrize("tokens", [None, "n"])
def test_nothing_that_compile_makes_beats_one_of_them(found, optimize, target, tokens):
    options = {"optimize": optimize, "target": target, "tokens": tokens, "verify": False}
    made = Point("", inweave.compile(ridge, **options, **SIZES))
    assert not any(made.beats(point) for point in found)
    here = [point for point in found if point.network.target == target]
    assert any(all(p.size[m] <= made.size[m] for m in MEASURES) for p in here)


def test_none_of_them_beats_another(found):
    assert not any(a.beats(b) for a in found for b in found)
    assert len({(p.network.target, *size(p.network)) for p in found}) == len(found)


def test_a_network_with_biases_beats_none_without():
    made = [
        Point(target, inweave.compile(ridge, target=target, verify=False, **SIZES))
        for target in ("elsa", "lsa")
    ]
    with_biases, without = made
    assert size(with_biases.network) < size(without.network)
    assert not with_biases.beats(without)


def test_what_is_proved_least_is_marked_and_nothing_else(found):
    """3T + 1 = 28 needs four layers; the inputs have 5·3 + 5 + 3 + 2 = 25 entries."""
    assert found.bounds.depth == 4
    assert found.bounds.entries == 25
    for row in found.rows:
        assert ("depth" in row["proved_least"]) is (row["depth"] == 4)
        assert ("width" in row["proved_least"]) is (row["width"] == -(-25 // row["tokens"]))
        assert "flops" not in row["proved_least"]
    assert {row["depth"] for row in found.rows} >= {4, 19}


def test_the_table_has_every_network_and_says_what_is_proved(found):
    text = str(found)
    for row in found.rows:
        (line,) = (x for x in text.splitlines() if x.startswith(f"{row['network']}  "))
        marked = [f"{row[name]}{'*' * (name in row['proved_least'])}" for name in MEASURES]
        assert line.removeprefix(row["network"]).split() == [*marked, str(row["tokens"])]
    assert "layers: at least 4 on prompts affine in the inputs (degree 28)" in text
    heads = min(row["heads"] for row in found.rows if row["depth"] == 4)
    width = min(row["width"] for row in found.rows if row["depth"] == 4)
    assert f"fewest found at 4 layers (proved least): {heads} heads, {width} columns" in text


def test_the_figure_is_drawn_and_only_as_svg(found, tmp_path):
    path = tmp_path / "sizes.svg"
    found.figure(path)
    words = [x.text for x in ElementTree.fromstring(path.read_text("utf-8")).iter() if x.text]
    assert all(row["network"] in words for row in found.rows)
    assert "4 *" in words
    with pytest.raises(inweave.InputError, match=r"an \.svg file, got .*sizes\.png"):
        found.figure(tmp_path / "sizes.png")


def test_a_program_with_functions_has_no_bound_of_its_depth():
    @inweave.program
    def clipped(X: Matrix["n", "d"], w: Vector["d"]) -> Vector["n"]:
        return inweave.relu(X @ w)

    made = inweave.frontier(clipped, target="elsa", n=2, d=2)
    assert "no lower bound of the layers" in str(made)
    assert not any({"depth", "heads"} & set(row["proved_least"]) for row in made.rows)
    assert made.data["depth_lower_bound"] is None


def test_one_head_is_the_fewest():
    @inweave.program
    def gram(X: Matrix["n", "d"], w: Vector["d"]) -> Vector["d"]:
        return X.T @ (X @ w)

    first = inweave.frontier(gram, n=4, d=2).rows[0]
    assert first["heads"] == first["depth"] == 1
    assert first["proved_least"][:2] == ["depth", "heads"]


def test_bounds_are_those_of_the_prompt():
    gradient = get("ridge_gd").program
    sizes = {"n": 4, "d": 3, "steps": 100}
    assert inweave.bounds(gradient, **sizes).depth == 6
    here = inweave.bounds(gradient, layout=ridge_lsa(4, 3, 1), **sizes)
    assert here.depth == 5
    assert "5 layers on this prompt" in str(here)
    assert inweave.bounds(gradient, **sizes).width(3) == 8  # 12 + 4 + 3 + 3 + 2 = 24 entries


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"n": 5, "d": 3}, "missing: steps"),
        ({**SIZES, "q": 1}, "unknown: q"),
        ({**SIZES, "optimize": "depth"}, "unknown: optimize"),
        ({**SIZES, "target": "elas"}, "target must be one of elsa, lsa, or None, got 'elas'"),
        ({**SIZES, "tokens": "steps"}, "tokens='steps' is not a size"),
        ({**SIZES, "layout": 3}, "layout must be a Layout, a Network"),
    ],
)
def test_what_is_wrong_is_said(asked, said):
    with pytest.raises(inweave.InweaveError, match=said):
        inweave.frontier(ridge, **asked)
    with pytest.raises(inweave.InputError, match="expected a program made by"):
        inweave.frontier(3)


def test_what_cannot_be_proved_is_left_out_and_what_is_wrong_is_not(monkeypatch):
    """As with 10⁸ steps, where no number of trials makes sure of a collapsed network."""
    verified = smallest.verified

    def refused(error):
        def verify(origin):
            if origin.optimize == "depth":
                raise error
            return verified(origin)

        return verify

    monkeypatch.setattr(smallest, "verified", refused(Unsure("that proves nothing. Do this")))
    made = inweave.frontier(ridge, target="elsa", tokens="d", **SIZES)
    assert made.data["left_out"] == {"ELSA, collapsed, tokens='d'": "that proves nothing. Do this"}
    assert str(made).endswith("left out: ELSA, collapsed, tokens='d': that proves nothing")
    monkeypatch.setattr(smallest, "verified", refused(Differ("they differ")))
    with pytest.raises(Differ):
        inweave.frontier(ridge, target="elsa", tokens="d", **SIZES)


def test_a_network_without_biases_is_listed_once_whichever_target_was_asked_for():
    made = inweave.frontier(ridge, n=2, d=2, steps=0)
    assert [(row["network"], row["target"]) for row in made.rows] == [("LSA, as written", "lsa")]
    assert "1 network that no other one beats" in str(made)
    assert "fewest found at 0 layers (proved least): 0 heads, 1 column" in str(made)
    assert made.bounds.entries == 0  # u is read, times zero
    assert made.rows[0]["width"] >= made.bounds.width(made.rows[0]["tokens"])


def test_bounds_on_a_prompt_without_some_input_are_refused():
    layout = Layout.of({"X": (5, 3), "y": (5, 1), "eta": (1, 1)})
    with pytest.raises(inweave.InputError, match="does not give the inputs u, lam, which program"):
        inweave.bounds(ridge, layout=layout, **SIZES)


def test_a_layout_on_which_nothing_compiles_is_refused_by_its_reason():
    with pytest.raises(inweave.CompileError, match="'X': block '√ηXᵀ' holds it only in a product"):
        inweave.frontier(get("ridge_gd").program, layout=ridge_lsa(5, 3, 1), **SIZES)


def test_the_command_says_the_same(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["ridge_gd", "n=4", "d=2", "steps=3", "--target", "lsa", "--tokens", "n"]
    assert main(["frontier", *words, "--json", "-o", "sizes.svg"]) == 0
    data = json.loads(capsys.readouterr().out)
    made = inweave.frontier(get("ridge_gd").program, target="lsa", tokens="n", n=4, d=2, steps=3)
    assert data.pop("file") == "sizes.svg"
    assert data == made.data
    assert main(["frontier", *words]) == 0
    assert capsys.readouterr().out.strip() == str(made)
    assert main(["frontier", *words[:-2], "--tokens", "9"]) == 0
    assert "tokens=9" in capsys.readouterr().out
    assert main(["frontier", *words, "-o", "sizes.png"]) == 2
    assert main(["frontier", "ridge_gd", "n=4"]) == 2
    assert "missing" in capsys.readouterr().err
