"""`inweave.circuits`: models with ground truth, made from a seed."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import inweave
from inweave import circuits
from inweave.circuit.graph import Circuit
from inweave.circuits.build import build, make
from inweave.circuits.generated import generated, source
from inweave.circuits.load import CARD, CIRCUIT, EDGES, INDEX, KEPT, MADE, NETWORK, PROMPTS
from inweave.circuits.suite import COUNT, specification, specifications
from inweave.cli.app import run
from inweave.errors import FileFormatError, InputError
from inweave.exact import schema

pytestmark = pytest.mark.usefixtures("unchecked_passes")
FEW = 4


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("circuits") / "suite"
    circuits.build(folder, count=FEW)
    return folder


@pytest.fixture
def copied(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "suite"))


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


# -- building --------------------------------------------------------------------------------------
def test_the_same_seed_gives_the_same_bytes(built, tmp_path):
    circuits.build(tmp_path / "again", count=FEW)
    assert contents(tmp_path / "again") == contents(built)


def test_there_is_nothing_to_execute_in_it(built):
    assert {Path(name).suffix for name in contents(built)} == {
        ".inweave", ".safetensors", ".json", ".md",
    }  # fmt: skip


def test_an_interrupted_build_goes_on_where_it_stopped(copied, built):
    names = [spec.name for spec in specifications(FEW)]
    (copied / names[2] / CARD).unlink()
    (copied / names[2] / CIRCUIT).write_text("half a fi")
    made: list[str] = []
    circuits.build(copied, count=FEW, progress=made.append)
    assert made == [names[2]]
    assert contents(copied) == contents(built)


def test_a_longer_suite_begins_as_a_shorter_one(copied):
    before = contents(copied)
    made: list[str] = []
    assert circuits.build(copied, count=FEW + 1, progress=made.append) == FEW + 1
    assert made == [specification(FEW).name]
    after = contents(copied)
    assert all(after[name] == data for name, data in before.items() if "/" in name)
    assert len(list(circuits.models(copied))) == FEW + 1
    assert circuits.build(copied, count=1) == FEW + 1


def test_a_folder_of_other_things_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="holds other files"):
        circuits.build(tmp_path, count=1)
    assert contents(tmp_path) == {"thesis.txt": b"mine"}


def test_a_suite_of_another_seed_is_left_alone(copied):
    before = contents(copied)
    with pytest.raises(InputError, match="seed 0 at dial 0, not of seed 1"):
        circuits.build(copied, count=1, seed=1)
    assert contents(copied) == before


@pytest.mark.parametrize("dial", [-0.1, 1.5])
def test_the_dial_ends_at_one(tmp_path, dial):
    with pytest.raises(InputError, match="from 0 to 1"):
        circuits.build(tmp_path / "new", count=1, dial=dial)
    assert not (tmp_path / "new").exists()


def test_the_command_builds_and_says_where(tmp_path, capsys):
    assert run(["circuits", "build", str(tmp_path / "suite"), "--count", "1", "--seed", "3"]) == 0
    assert "1 models in" in capsys.readouterr().out
    (model,) = circuits.models(tmp_path / "suite")
    assert model.made.specification == specification(0, seed=3)


# -- reading ---------------------------------------------------------------------------------------
def test_every_model_is_verified_and_its_circuit_is_that_of_its_network(built):
    for model in circuits.models(built):
        network, spec = model.network, model.made.specification
        assert network.claim is not None
        assert network.claim.certificate.program == spec.program
        assert network.claim.certificate.method == model.made.proof
        network.verify()
        assert network.circuit(seed=spec.seed) == model.circuit
        assert model.circuit.functional


def test_a_circuit_of_another_network_is_refused(copied):
    one, other = (copied / spec.name for spec in specifications(2))
    shutil.copy(other / CIRCUIT, one / CIRCUIT)
    with pytest.raises(FileFormatError, match="about another network"):
        circuits.load(one)


def test_a_damaged_circuit_is_refused_with_the_way_to_it(copied):
    folder = copied / specification(0).name
    data = json.loads((folder / CIRCUIT).read_text())
    data["edges"][0]["functional"] = "yes"
    (folder / CIRCUIT).write_text(json.dumps(data))
    with pytest.raises(FileFormatError, match=r"circuit.json: edges\[0\].functional"):
        circuits.load(folder)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(KEPT), st.floats(0, 1, exclude_max=True), st.integers(0, 255))
def test_no_file_with_a_wrong_byte_or_without_its_end_is_believed(built, tmp_path, name, at, byte):
    folder = tmp_path / "damaged"
    shutil.copytree(built / specification(0).name, folder, dirs_exist_ok=True)
    good = bytearray((folder / name).read_bytes())
    where = int(at * len(good))
    wrong = good[:where] + bytes([byte]) + good[where + 1 :]
    for data in (wrong, good[:where]):
        (folder / name).write_bytes(data)
        if data != good:
            with pytest.raises(FileFormatError, match=re.escape(str(folder / name))):
                circuits.load(folder)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda x: {**x, "X": np.where(x["X"] > 1, np.nan, x["X"])}, "'X' holds NaN"),
        (lambda x: {**x, "X": x["X"][:3]}, "as many of each: .*3 of X"),
        (lambda x: {name: value[:1] for name, value in x.items()}, "two at least"),
        (lambda x: {**x, "Z": x["X"]}, "unknown: Z"),
    ],
)
def test_prompts_that_no_network_could_be_run_on_are_refused(copied, change, says):
    from safetensors.numpy import load, save

    path = copied / specification(0).name / PROMPTS
    path.write_bytes(save(change(load(path.read_bytes()))))
    with pytest.raises(FileFormatError, match=says):
        circuits.load(path.parent)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda c: c["nodes"].clear(), "first node of a circuit is 'input'"),
        (lambda c: c["nodes"][1].update(name="head"), "called as 'a2.h0'"),
        (lambda c: c["nodes"].insert(1, c["nodes"][2]), "once each, layer by layer"),
        (lambda c: c.update(layers=1), "there are 1 layers"),
        (lambda c: c["variables"][-1].update(layer=99), "stands behind layer 99"),
        (lambda c: c["edges"][0].update(source="a9.h9"), "from a node to a later one"),
        (lambda c: c["edges"][0].update(source="logits"), "from a node to a later one"),
        (lambda c: c["edges"][0].update(letter=""), "'a0.h0' reads through"),
        (lambda c: c["edges"][0].update(functional=None), "known of all edges or of none"),
        (lambda c: c["edges"][0].update(functional=False, genuine=True), "but not functional"),
        (lambda c: c["edges"].append(c["edges"][0]), "once each"),
    ],
)
def test_data_that_is_no_circuit_is_refused_in_words(built, change, says):
    circuit = circuits.load(built / specification(0).name).circuit
    data = json.loads(json.dumps(circuit.to_data()))
    assert Circuit.from_data(data) == circuit
    change(data)
    with pytest.raises(FileFormatError, match=says):
        Circuit.from_data(data)


def test_what_is_not_there_is_said(copied, tmp_path):
    one, other = (copied / spec.name for spec in specifications(2))
    (one / NETWORK).unlink()
    with pytest.raises(FileNotFoundError, match="no whole model: there is no file network"):
        circuits.load(one)
    (other / CARD).unlink()
    with pytest.raises(FileNotFoundError, match=rf"3 of its {FEW} models.*--count {FEW} --seed 0"):
        list(circuits.models(copied))
    with pytest.raises(FileNotFoundError, match=r"no suite of models.*build"):
        list(circuits.models(tmp_path / "none"))
    with pytest.raises(FileNotFoundError, match="is not a folder; make it first"):
        circuits.build(tmp_path / "none" / "suite", count=1)
    with pytest.raises(NotADirectoryError, match="is a file; name a new folder"):
        circuits.build(one / CARD, count=1)


def test_a_model_without_its_prompts_is_refused(copied):
    folder = copied / specification(0).name
    shutil.copy(copied / specification(1).name / PROMPTS, folder / PROMPTS)
    with pytest.raises(FileFormatError, match="no prompts for the input"):
        circuits.load(folder)


def test_prompts_vary_in_every_input_and_lead_to_finite_answers(built):
    for model in circuits.models(built):
        clean, other = model.pairs()
        assert set(clean) == {spec.name for spec in model.network.inputs}
        for name, values in clean.items():
            assert (values != other[name]).reshape(len(values), -1).any(1).all(), name
        answer: Any = model.network(**clean)
        every = answer if isinstance(answer, tuple) else (answer,)
        assert all(np.isfinite(x).all() for x in every)


def test_a_card_says_what_the_model_is(built):
    spec = specification(1)
    text = (built / spec.name / CARD).read_text(encoding="utf-8")
    assert source(spec.seed).strip() in text
    model = circuits.load(built / spec.name)
    assert f"{len(model.circuit.functional)} functional" in " ".join(text.split())
    assert model.network.fingerprint in text
    for name in (NETWORK, CIRCUIT, PROMPTS):
        assert name in text
    index = (built / CARD).read_text(encoding="utf-8")
    assert f"{FEW} are proved by algebra, 0 are compared" in index
    assert all(
        f"]({name}/{CARD})" in index for name in json.loads((built / INDEX).read_text())["models"]
    )


# -- what it consists of ---------------------------------------------------------------------------
def test_the_suite_has_many_models_of_both_kinds():
    specs = list(specifications())
    assert len(specs) == COUNT >= 150
    assert len({spec.name for spec in specs}) == len(specs)
    kinds = [spec.kind for spec in specs]
    assert kinds.count("gallery") == kinds.count("generated")
    assert len({spec.program for spec in specs if spec.kind == "gallery"}) == len(
        inweave.gallery.names()
    )


def test_a_model_follows_from_its_number_alone():
    assert list(specifications(9))[8] == specification(8)


@pytest.mark.parametrize("seed", range(12))
def test_a_generated_program_is_its_text_and_needs_all_its_inputs(seed):
    program = generated(seed)
    assert program.source == source(seed)
    sizes = dict.fromkeys(program.size_names, 2)
    traced = program.trace(**sizes)
    assert not traced.unused
    network = inweave.compile(program, **sizes)
    assert network.certificate is not None
    assert network.depth >= 2


def test_a_model_of_functions_is_made_too():
    model = make(next(s for s in specifications() if s.program == "softmax_regression"))
    assert any(node.name.startswith("m") for node in model.circuit.nodes)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"count": 0}, "1 to 10,000"),
        ({"count": 10**9}, "1 to"),
        ({"count": "3"}, "1 to"),
        ({"seed": -1}, "seed"),
        ({"dial": "all"}, "from 0 to 1"),
    ],
)
def test_no_suite_is_begun_that_cannot_be(tmp_path, asked, says):
    with pytest.raises(InputError, match=says):
        build(tmp_path / "suite", **asked)
    assert not (tmp_path / "suite").exists()


def lied(folder: Path, name: str, data: Any) -> None:
    """Another file, and a record of it that agrees."""
    (folder / name).write_text(schema.dumps(data))
    made = json.loads((folder / MADE).read_text())
    if name in made["files"]:
        made["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        (folder / MADE).write_text(json.dumps(made))


def test_what_was_written_to_deceive_is_not_what_its_specification_makes(copied):
    folder = copied / specification(0).name
    assert circuits.check(folder).name == folder.name
    truth = {name: (folder / name).read_bytes() for name in (CIRCUIT, EDGES, MADE)}
    edges, circuit, made = (json.loads(truth[name]) for name in (EDGES, CIRCUIT, MADE))
    lied(folder, EDGES, edges | {"edges": {}})
    with pytest.raises(FileFormatError, match="does not have the genuine edges"):
        circuits.load(folder)
    for edge in circuit["edges"]:
        edge["functional"] = edge["genuine"] = False
    lied(folder, CIRCUIT, circuit)
    lied(folder, EDGES, Circuit.from_data(circuit).to_eap())
    assert not circuits.load(folder).circuit.functional
    with pytest.raises(FileFormatError, match="the circuit is not what its specification makes"):
        circuits.check(folder)
    for name, data in truth.items():
        (folder / name).write_bytes(data)
    lied(folder, MADE, made | {"dial": "1/2"})
    with pytest.raises(FileFormatError, match="the network is not what its specification makes"):
        circuits.check(folder)


def test_a_folder_in_the_place_of_a_file_is_told(copied):
    folder = copied / specification(0).name
    (folder / PROMPTS).unlink()
    (folder / PROMPTS).mkdir()
    with pytest.raises(FileNotFoundError, match=f"there is no file {PROMPTS}"):
        circuits.load(folder)
