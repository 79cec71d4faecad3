"""Files: what is read is bit for bit what was written, and nothing else is ever read."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

import inweave
from inweave import FileFormatError, InputError, Network, gallery, load
from inweave.exact.arithmetic import Rationals
from inweave.exact.constants import Dense, fractions
from inweave.exact.field import Field
from inweave.exact.field_arithmetic import FieldArithmetic
from inweave.exact.schema import content
from inweave.files.network_file import KEY, VERSION
from inweave.model.relunet import Function, ReluNet
from inweave.proof.field_check import Point
from inweave.text.program import spelled
from tests import files_fuzz
from tests.cases import CASES
from tests.files_fuzz import decode, encode
from tests.random_networks import networks

RIDGE = next(c for c in CASES if c.name == "ridge_gd")


@pytest.fixture(scope="module")
def ridge() -> Network:
    return inweave.compile(RIDGE.program, **RIDGE.sizes)


def changed(network: Network, change, seal: bool = True) -> bytes:
    """The file of a network with its description changed, by default with a new checksum."""
    header, rest = files_fuzz.unpack(encode(network))
    description = json.loads(header["__metadata__"][KEY])
    change(description)
    if seal:
        description = files_fuzz.sealed(description)
    header["__metadata__"][KEY] = json.dumps(description)
    return files_fuzz.pack(header, rest)


def test_a_name_that_the_commands_would_not_take_is_refused(ridge, tmp_path):
    with pytest.raises(InputError, match=r"networks are stored in \.inweave files; got .*x\.txt"):
        ridge.save(tmp_path / "x.txt")
    assert not list(tmp_path.iterdir())


# -- round trips -----------------------------------------------------------------------------------
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@pytest.mark.parametrize("target", ["elsa", "lsa"])
@pytest.mark.usefixtures("compiled_once")
def test_every_compiled_network_comes_back_equal(case, target, tmp_path):
    network = inweave.compile(case.program, target=target, verify=False, **case.sizes)
    network.save(tmp_path / "net.inweave")
    back = inweave.load(tmp_path / "net.inweave")
    assert back == network
    assert back.fingerprint == network.fingerprint
    inputs = case.inputs()
    assert repr(back(**inputs)) == repr(network(**inputs))


@settings(max_examples=50)
@given(network=networks(activation="relu"))
def test_random_networks_come_back_equal(network):
    back = decode(encode(network))
    assert back == network
    assert encode(back) == encode(network)


def test_every_kind_of_part_comes_back_equal():
    network = files_fuzz.every_kind()
    back = decode(encode(network))
    assert back == network
    assert encode(back) == encode(network)
    before, after = (n.modules[0].body[0].heads[0] for n in (network, back))
    assert before.key.W.tobytes() == after.key.W.tobytes()
    assert after.value.W.dtype == object
    assert isinstance(after.value.W[0, 1], Fraction)


def test_exact_constants_stay_exact():
    F = np.array([[Fraction(1, 3), Fraction(10**40, 7)]])
    network = files_fuzz.every_kind()
    fill = inweave.Fill(inweave.Place("out", 1, 2), constant=Dense(F))
    back = decode(encode(replace(network, fills=(fill,))))
    assert (back.fills[0].constant.array == F).all()


def test_equal_networks_have_equal_fingerprints_and_files():
    """Numbers that are equal are written alike: 0 and -0.0, 1 and 1.0."""
    network = files_fuzz.every_kind()
    same = []
    for zero, one in ((0.0, 1.0), (-0.0, 1)):
        function = Function("f", ReluNet((one,), (zero,), (one,), zero), (zero, one), zero)
        layer = inweave.BlockPointwiseLayer(((inweave.Place("A", 2, 2), function),))
        matrix = Dense(np.array([[zero, 0.5], [one, zero]]))
        fill = inweave.Fill(inweave.Place("s", 2, 2), constant=matrix)
        same.append(replace(network, modules=(inweave.Module((layer,)),), fills=(fill,)))
    assert same[0] == same[1]
    assert same[0].fingerprint == same[1].fingerprint
    assert encode(same[0]) == encode(same[1])


def test_record_and_claim_come_along(ridge, tmp_path):
    ridge.save(tmp_path / "ridge.inweave")
    back = inweave.load(tmp_path / "ridge.inweave")
    assert back.certificate is None
    assert back.claim.certificate == ridge.certificate
    assert back.record.program == "ridge_gd"
    assert "def ridge_gd(" in back.record.source
    assert back.record.sizes == RIDGE.sizes
    assert encode(back) == encode(ridge)


def test_a_network_without_a_program_says_how_to_verify_it(ridge):
    back = replace(decode(encode(ridge)), record=None)
    with pytest.raises(InputError, match=r"without a program.*inweave\.verify\(program, network\)"):
        back.verify()
    certificate = inweave.verify(RIDGE.program, back, steps=RIDGE.sizes["steps"])
    assert certificate.network == ridge.fingerprint


def test_a_network_from_a_file_says_that_resizing_needs_its_program(ridge):
    with pytest.raises(inweave.InputError, match=r"never run; compile 'ridge_gd' at d=9"):
        decode(encode(ridge)).resize(d=9)


def test_files_are_the_same_in_every_process(ridge):
    code = (
        "import sys, inweave; from tests.cases import CASES; from tests.files_fuzz import encode\n"
        "c = next(c for c in CASES if c.name == 'ridge_gd')\n"
        "sys.stdout.buffer.write(encode(inweave.compile(c.program, verify=False, **c.sizes)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert run.stdout == encode(replace(ridge, certificate=None))


def test_other_tools_can_read_the_arrays(tmp_path):
    from safetensors import safe_open

    network = files_fuzz.every_kind()
    network.save(tmp_path / "net.inweave")
    with safe_open(tmp_path / "net.inweave", framework="numpy") as file:
        key = network.modules[0].body[0].heads[0].key
        assert (file.get_tensor(content(key.W)) == key.W).all()
        assert json.loads(file.metadata()[KEY])["version"] == VERSION


# -- what a file says was proved -------------------------------------------------------------------
def forged(network: Network) -> bytes:
    """The file of a network with one coefficient changed from -1 to -2, all hashes made anew."""

    def change(description):
        body = description["network"]["modules"][0]["body"]
        pieces = [
            piece
            for layer in body
            for head in layer["heads"]
            for projection in head.values()
            for piece in projection["pieces"]
            if piece["coefficient"] == "-1"
        ]
        pieces[0]["coefficient"] = "-2"

    return changed(network, change)


def test_a_forged_certificate_is_called_a_claim_at_every_door(ridge, tmp_path, capsys):
    from inweave.cli import main
    from inweave.explore.payload import payload

    path = tmp_path / "forged.inweave"
    path.write_bytes(forged(ridge))
    back, inputs = load(path), RIDGE.inputs()
    assert not np.allclose(back(**inputs), ridge(**inputs))
    assert back.certificate is None
    assert "recorded in the file, not checked here" in str(back)
    page = payload({"net": back.shown()}, inputs)["networks"][0]
    assert page["certificate"] is None
    assert page["claim"]["status"] == "recorded in the file, not checked here"
    assert main(["verify", str(path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["verified"] is False
    assert main(["show", str(path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["verified"] is False
    assert shown["certificate"] is None
    assert shown["claim"]["status"] == "recorded in the file, not checked here"
    assert main(["show", str(path)]) == 0
    assert "recorded in the file, not checked here" in capsys.readouterr().out


@inweave.program
def with_names(x: inweave.Vector["n"], t: inweave.Scalar, *, mode: str = "plain"):
    bent = inweave.pointwise(np.tanh, (-4, 4), 0.1, name="bent")
    inverse = inweave.reciprocal(t, domain=(1, 2))
    factor = 0.5 if mode == "plain" else 0.25
    carried = inweave.iterate(lambda state: factor * state + x, x, 3)
    return {"first": inverse * inweave.relu(x), "second": bent(carried)}


MORE_LINES = "\n\x1b[2Kproved: all of it"


def renamed(value, old, new):
    """JSON data with one text for another, also where it is a name."""
    if isinstance(value, dict):
        return {renamed(k, old, new): renamed(v, old, new) for k, v in value.items()}
    if isinstance(value, list):
        return [renamed(v, old, new) for v in value]
    return new if value == old else value


def test_no_text_of_a_file_adds_lines_to_what_is_shown():
    network = inweave.compile(with_names, n=2, mode="other")

    def texts(value):
        inside = value.values() if isinstance(value, dict) else value
        if isinstance(value, (dict, list)):
            return set().union(*map(texts, inside), value if isinstance(value, dict) else ())
        return {value} if isinstance(value, str) else set()

    found = set()
    changed(network, lambda description: found.update(texts(description)))
    assert {"reciprocal", "bent", "x", "first", "state", "elsa", "with_names", "other"} <= found
    for text in sorted(found - {network.origin.program.source}):

        def change(description, text=text):
            new = renamed(description, text, text + MORE_LINES)
            description.clear()
            description.update(new)

        try:
            back = decode(changed(network, change))
            said = [str(back), repr(back), str(back.claim), spelled(back.stored_program)]
            said.append(str(back.verify()))
        except FileFormatError as error:
            said = [str(error)]
        assert not any("\x1b" in line or "\nproved: all" in line for line in said), text


@pytest.mark.parametrize("name", ["a\nproved", "a\x1b[2K", "a\u202eb", "a\tb"])
def test_names_are_one_line_wherever_they_come_from(name):
    def answers(x: inweave.Vector["n"]):
        return {name: x}

    def named(x: inweave.Vector["n"]):
        return x

    named.__name__ = name
    for make in (
        lambda: inweave.compile(inweave.program(answers), n=2),
        lambda: inweave.program(named),
        lambda: inweave.pointwise(np.tanh, (-1, 1), 0.1, name),
        lambda: inweave.Layout.of({name: (2, 2)}),
        lambda: inweave.Input(name),
        lambda: inweave.Output(name, inweave.Place("A", 1, 1)),
    ):
        with pytest.raises(inweave.InweaveError, match="one line of printable text"):
            make()


def test_what_a_file_claims_is_kept_and_does_not_become_a_certificate(ridge, tmp_path):
    back = decode(encode(ridge))
    back.save(tmp_path / "again.inweave")
    again = load(tmp_path / "again.inweave")
    assert again.certificate is None
    assert again.claim == back.claim
    assert replace(back, modules=()).claim is None


# -- the program in the file -----------------------------------------------------------------------
ENTRIES = ("gauss_jordan", "lasso_ista", "logistic_gd", "chebyshev", "recursive_least_squares")


def same_program(network: Network, inputs) -> None:
    """The program that a file holds is the one that was compiled, and the network's."""
    back, traced = decode(encode(network)), network.origin.traced
    stored = back.stored_program
    assert (stored.inputs, stored.kinds, stored.sizes) == (
        traced.inputs,
        traced.kinds,
        traced.sizes,
    )
    assert list(stored.outputs) == list(traced.outputs)
    exactly = {
        spec.name: fractions(np.asarray(inputs[spec.name]).reshape(spec.rows, spec.cols))
        for spec in traced.inputs
    }
    expected, found = (one.evaluate(exactly, Rationals()) for one in (traced, stored))
    for name, value in expected.items():
        assert (value == found[name]).all()
    assert back.verify().network == network.fingerprint
    assert back.certificate is not None
    assert encode(decode(encode(network))) == encode(network)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_program_of_every_case_comes_back_and_proves_its_network(case):
    network = inweave.compile(case.program, verify=False, **case.sizes)
    inputs = {name: np.round(4 * x) / 4 for name, x in case.inputs().items()}
    same_program(network, inputs)


@pytest.mark.parametrize("name", ENTRIES)
def test_programs_of_the_gallery_come_back_and_prove_their_networks(name):
    network = gallery.get(name).compile(verify=False)
    back = decode(encode(network))
    point = Point(FieldArithmetic(Field(2**31 - 1), 7), np.random.default_rng(0))
    inputs = {spec.name: point.variable((spec.rows, spec.cols)) for spec in network.inputs}
    expected, found = (
        one.evaluate(inputs, point.arithmetic)
        for one in (network.origin.traced, back.stored_program)
    )
    assert all(point.differ(value, found[key]) is None for key, value in expected.items())
    assert back.verify().network == network.fingerprint


def test_a_forged_network_fails_against_the_program_in_its_file(ridge):
    back = decode(forged(ridge))
    with pytest.raises(inweave.VerificationError, match="as the file holds it"):
        back.verify()
    assert back.certificate is None


def test_a_forged_program_is_shown_as_it_is_and_is_not_that_of_the_user(ridge):
    """Who changes the network and the program alike proves another program, and it is shown."""

    def other(description):
        graph = description["record"]["graph"]
        end = next(o for o in graph["operations"] if "times" in o)
        end["times"] = description["network"]["modules"][0]["repeat"] = 9

    back = decode(changed(ridge, other))
    assert "as the file holds it" in str(back.verify())
    assert "repeat 9 times:" in spelled(back.stored_program)
    with pytest.raises(inweave.VerificationError):
        inweave.verify(RIDGE.program, back, steps=RIDGE.sizes["steps"])


def test_errors_of_functions_are_not_proved_by_a_file():
    network = gallery.get("gauss_jordan").compile(verify=False)
    assert "as stated in the file" in decode(encode(network)).verify().functions[0]


def test_the_stored_program_is_spelled_whole_and_exactly():
    @inweave.program
    def odd(x: inweave.Vector["n"], s: inweave.Scalar):
        a, b = inweave.iterate(lambda a, b: (b, a - 0.1 * b), (x, inweave.zeros(2)), 4)
        return {"one": inweave.relu(a), "two": s * b + Fraction(1, 3) * a}

    lines = spelled(decode(encode(inweave.compile(odd, n=2))).stored_program).splitlines()
    assert lines == [
        "  x: vector 2",
        "  s: scalar",
        "  a, b = x, zeros(2x1)",
        "  repeat 4 times:",
        "    a, b = b, a - 0.1 * b",
        "  return one: relu(a)",
        "  return two: (s * b) + 1/3 * a",
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda g: g["operations"].append({"left": 0, "right": 99}), "reads value 99"),
        (lambda g: g["operations"].append({"left": 0, "right": 0}), "multiplies 5 x 3 by 5 x 3"),
        (lambda g: g["operations"].append({"scalar": 0, "matrix": 0}), "scales by 5 x 3"),
        (lambda g: g["operations"].append({"terms": [], "units": [False, False]}), "adds nothing"),
        (
            lambda g: g["operations"].append(
                {"terms": [["1", 0], ["1", 1]], "units": [False, False]}
            ),
            "adds 5 x 1 to 5 x 3",
        ),
        (lambda g: g["operations"].append({"function": 0, "argument": 0}), "there are 0"),
        (lambda g: g["operations"].append({"names": ["z"], "start": [0]}), "does not end"),
        (lambda g: g["operations"].append({"step": [0], "times": 1}), "did not begin"),
        (
            lambda g: g["operations"].extend([{"names": ["z"], "start": [0]}] * 101),
            "nested deeper than 100",
        ),
        (
            lambda g: g["operations"].extend(
                [{"names": ["z"], "start": [0]}, {"step": [1], "times": 1}]
            ),
            "changes the shapes",
        ),
        (lambda g: g["operations"].append({"names": ["z z"], "start": [0]}), "a name as Python"),
        (lambda g: g["answers"].clear(), "no answer"),
        (lambda g: g["answers"][0].update(value=10**6), "reads value"),
        (
            lambda g: g["answers"].append({"name": "z", "value": 0, "kind": "scalar"}),
            "called a scalar",
        ),
        (lambda g: g["sizes"].append(["m", 77]), "no input has the size m = 77"),
        (lambda g: g["inputs"].append(g["inputs"][0]), "two inputs"),
        (lambda g: g["operations"].append({"code": "print(1)"}), "lacks|unknown"),
    ],
)
def test_a_damaged_program_is_refused_by_name(ridge, change, said):
    data = changed(ridge, lambda d: change(d["record"]["graph"]))
    with pytest.raises(FileFormatError, match=rf"record\.graph.*({said})"):
        decode(data)


def test_a_short_program_cannot_ask_for_much(ridge):
    """Numbers that double in length, and loops that carry and read everything around them."""

    def long_numbers(graph):
        first = {"constant": {"rows": 1, "cols": 1}, "units": [True, True]}
        at, big = len(graph["inputs"]), "0x1/0x3" + "0" * 2000
        sums = [
            {"terms": [[big, at + i], [big, at + i]], "units": [True, True]} for i in range(500)
        ]
        graph["operations"] = [first, *sums, *graph["operations"]]

    def wide_loops(graph):
        names = [f"a{i}" for i in range(4000)]
        start = [0] * len(names)
        graph["operations"] = [{"names": names, "start": start}, {"step": start, "times": 1}]

    for change, said in ((long_numbers, "more than .* bits"), (wide_loops, "too large")):
        data = changed(ridge, lambda d, change=change: change(d["record"]["graph"]))
        tracemalloc.start()
        try:
            with pytest.raises(FileFormatError, match=said):
                decode(data)
            assert tracemalloc.get_traced_memory()[1] < 32 * len(data) + files_fuzz.MEMORY
        finally:
            tracemalloc.stop()


# -- writing ---------------------------------------------------------------------------------------
def test_a_failed_save_leaves_the_old_file(ridge, tmp_path, monkeypatch):
    path = tmp_path / "net.inweave"
    path.write_bytes(b"old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        ridge.save(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_certificate_of_another_network_is_not_saved(ridge, tmp_path):
    other = replace(files_fuzz.every_kind(), certificate=ridge.certificate)
    other.save(tmp_path / "net.inweave")
    assert inweave.load(tmp_path / "net.inweave").claim is None


# -- refusals --------------------------------------------------------------------------------------
def test_a_newer_format_is_named(ridge):
    data = changed(ridge, lambda d: d.update(version=VERSION + 1, more="of it"))
    with pytest.raises(FileFormatError, match=f"format {VERSION + 1}.*up to {VERSION}.*newer"):
        decode(data)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 100])
def test_a_truncated_file_is_refused(ridge, length):
    with pytest.raises(FileFormatError):
        decode(encode(ridge)[:length])


def test_every_truncation_of_the_arrays_is_refused():
    data = encode(files_fuzz.every_kind())
    for length in range(len(data) - 200, len(data)):
        with pytest.raises(FileFormatError):
            decode(data[:length])


def test_errors_name_the_file_and_the_field(ridge, tmp_path):
    path = tmp_path / "bad.inweave"

    def change(description):
        description["network"]["modules"][0]["repeat"] = -1

    path.write_bytes(changed(ridge, change))
    with pytest.raises(FileFormatError, match=r"bad\.inweave: network\.modules\[0\]\.repeat: .*-1"):
        load(path)


def test_a_changed_array_is_noticed():
    data = bytearray(encode(files_fuzz.every_kind()))
    data[-1] ^= 1
    with pytest.raises(FileFormatError, match="damaged"):
        decode(bytes(data))


def test_a_changed_description_is_noticed(ridge):
    def change(description):
        description["certificate"]["trials"] = 999

    with pytest.raises(FileFormatError, match="checksum"):
        decode(changed(ridge, change, seal=False))


def test_a_certificate_of_another_network_is_refused(ridge):
    data = changed(ridge, lambda d: d["network"]["modules"][0].update(repeat=3))
    header, rest = files_fuzz.unpack(data)
    description = json.loads(header["__metadata__"][KEY])
    description["certificate"]["network"] = ridge.fingerprint
    del description["sha256"]
    seal = hashlib.sha256(files_fuzz.canonical(description)).hexdigest()
    header["__metadata__"][KEY] = json.dumps({**description, "sha256": seal})
    with pytest.raises(FileFormatError, match="the certificate is about another network"):
        decode(files_fuzz.pack(header, rest))


def test_other_files_are_refused_by_name(tmp_path):
    from safetensors.numpy import save as other

    (tmp_path / "a.inweave").write_bytes(other({"w": np.ones(3)}))
    (tmp_path / "b.inweave").write_text("X,y\n1,2\n")
    with pytest.raises(FileFormatError, match="not one that inweave wrote"):
        load(tmp_path / "a.inweave")
    with pytest.raises(FileFormatError, match=r"no \.inweave file"):
        load(tmp_path / "b.inweave")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing.inweave")


def test_an_oversized_file_is_refused_unread(ridge, tmp_path):
    ridge.save(tmp_path / "net.inweave")
    with pytest.raises(FileFormatError, match="the limit is 100"):
        load(tmp_path / "net.inweave", limit=100)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda n: n["layout"].update(tokens=2**31 - 1), "over the limit"),
        (lambda n: n["layout"]["blocks"][0].update(cols=2**31 - 1), "over the limit"),
        (lambda n: n["modules"][0].update(repeat=10**30), "expected an integer"),
        (lambda n: n.update(inputs=n["inputs"] * 500), "the limit is"),
        (lambda n: n["fills"][0].update(coefficient="1e999999999"), "fraction"),
        (lambda n: n["fills"][0].update(coefficient="9" * 10_000), "fraction"),
        (lambda n: n["fills"][0].update(coefficient="1" + "0" * 309), "that float64 can hold"),
        (lambda n: n["modules"][0].update(repeat=True), "expected an integer"),
        (lambda n: n["modules"][0].update(skip=0), "expected bool"),
        (lambda n: n["modules"][0].pop("body"), r"modules\[0\]: lacks 'body'"),
        (lambda n: n["modules"][0].update(steps=1), "unknown entry 'steps'"),
        (lambda n: n["outputs"][0]["place"].update(rows=-5), "expected an integer"),
        (lambda n: n["outputs"][0]["place"].update(block="nowhere"), "nowhere"),
    ],
)
def test_what_asks_for_too_much_or_makes_no_sense_is_refused(ridge, change, said):
    data = changed(ridge, lambda d: change(d["network"]))
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match=said):
            decode(data)
        assert tracemalloc.get_traced_memory()[1] < files_fuzz.MEMORY
    finally:
        tracemalloc.stop()


def test_deep_nesting_is_refused(ridge):
    def nest(description):
        part = {"body": [], "repeat": 1, "skip": False, "carries": []}
        for _ in range(50):
            part = {**part, "body": [part]}
        description["network"]["modules"] = [part]

    with pytest.raises(FileFormatError, match="nested deeper"):
        decode(changed(ridge, nest))
    text = b'{"__metadata__":{"inweave":' + b"[" * 100_000
    with pytest.raises(FileFormatError):
        decode(len(text).to_bytes(8, "little") + text)


def test_one_array_named_often_is_held_once():
    W = np.random.default_rng(0).normal(size=(6, 6))
    heads = tuple(inweave.Head(*[inweave.DenseProjection(W)] * 3) for _ in range(10))
    network = replace(
        files_fuzz.every_kind(), modules=(inweave.Module((inweave.AttentionLayer(heads),)),)
    )
    back = decode(encode(network))
    layer = back.layers[0]
    assert len({id(p) for head in layer.heads for p in head.projections}) == 1


def test_500_corruptions_are_refused_or_harmless():
    found = files_fuzz.fuzz(500)
    assert found["refused"] + found["loaded"] == 500
    assert found["refused"] > 400
    assert found["memory"] < files_fuzz.MEMORY


def test_an_array_that_belongs_to_nothing_is_refused():
    from safetensors.numpy import load as tensors
    from safetensors.numpy import save as serialize

    data = encode(files_fuzz.every_kind())
    header, _ = files_fuzz.unpack(data)
    arrays = tensors(data) | {"0" * 64: np.zeros(2)}
    with pytest.raises(FileFormatError, match="belongs to no part"):
        decode(serialize(arrays, {KEY: header["__metadata__"][KEY]}))


def test_a_pickled_network_is_what_its_file_would_be(ridge):
    again = pickle.loads(pickle.dumps(ridge))
    assert again == ridge
    assert again.certificate is None
    assert again.claim.certificate == ridge.certificate
    assert again.verify().is_proof
