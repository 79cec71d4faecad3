"""ONNX models give in onnxruntime what the network gives in numpy, for any batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

import inweave
from inweave import InputError, Network
from inweave.model.dense import forward
from inweave.paper import ridge_elsa
from tests.cases import CASES
from tests.files_fuzz import every_kind
from tests.random_networks import networks

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

BY_NAME = {c.name: c for c in CASES}
RIDGE = BY_NAME["ridge_gd"]


def session(model) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    data = model if isinstance(model, bytes) else model.SerializeToString()
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def built(network: Network, dtype: str = "float32"):
    from inweave.export.onnx import model

    return model(network, dtype)


def answers(running: ort.InferenceSession, inputs: dict, dtype: str = "float32") -> dict:
    """Named answers; inputs that the network ignores are still given."""
    given = {name: np.asarray(value, dtype=dtype) for name, value in inputs.items()}
    names = [output.name for output in running.get_outputs()]
    return dict(zip(names, running.run(names, given), strict=True))


def assert_equal(network: Network, inputs: dict, tolerance=1e-5, dtype="float32") -> None:
    running = session(built(network, dtype))
    H = network.prompt(**inputs)
    expected = network.readout(forward(network, H))
    expected = expected if isinstance(expected, dict) else {"answer": expected}
    batch = len(next(iter(inputs.values())))  # an answer that no input changes has no batch axis
    got = answers(running, inputs, dtype)
    assert len(got) == len(expected)
    for (name, value), found in zip(expected.items(), got.values(), strict=True):
        kind = next(o.kind for o in network.outputs if name in (o.name, "answer"))
        axes = {"scalar": 0, "vector": 1, "matrix": 2}[kind]
        assert found.shape == (batch, *value.shape[value.ndim - axes :]), name
        assert np.abs(found - value).max() < tolerance * max(1.0, np.abs(value).max()), name


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@pytest.mark.parametrize("target", ["elsa", "lsa"])
@pytest.mark.usefixtures("compiled_once")
def test_compiled_networks_are_equal_to_numpy(case, target):
    network = inweave.compile(case.program, target=target, verify=False, **case.sizes)
    assert_equal(network, case.inputs(batch=(2,)))


def test_every_kind_of_layer_is_equal_to_numpy():
    rng = np.random.default_rng(0)
    inputs = {"A": 0.1 * rng.normal(size=(4, 3, 2)), "s": np.full(4, 0.3)}
    assert_equal(every_kind(), inputs)
    assert_equal(every_kind(), inputs, tolerance=1e-12, dtype="float64")


def test_the_batch_is_dynamic_and_the_file_is_on_disk(tmp_path):
    network = inweave.compile(RIDGE.program, verify=False, **RIDGE.sizes)
    network.to_onnx(tmp_path / "ridge.onnx")
    running = session((tmp_path / "ridge.onnx").read_bytes())
    for batch in (1, 3, 17):
        inputs = RIDGE.inputs(batch=(batch,))
        (got,) = answers(running, inputs).values()
        assert got.shape == (batch,)
        assert np.allclose(got, network(**inputs), rtol=1e-5, atol=1e-6)
    assert [path.name for path in tmp_path.iterdir()] == ["ridge.onnx"]


def test_names_are_those_of_the_network():
    network = inweave.compile(RIDGE.program, verify=False, **RIDGE.sizes)
    made = built(network)
    assert [x.name for x in made.graph.input] == [spec.name for spec in network.inputs]
    assert [x.name for x in made.graph.output] == ["answer"]
    names = {node.name for node in made.graph.node}
    names |= {n.name for node in made.graph.node for a in node.attribute for n in a.g.node}
    assert any(name.endswith("/layer 0/head 0/kv") for name in names)
    assert {p.key: p.value for p in made.metadata_props} == {
        "inweave.fingerprint": network.fingerprint
    }


def test_a_repeated_module_is_one_loop():
    sizes = [len(built(inweave.compile(RIDGE.program, verify=False, n=5, d=3, steps=steps))
                 .SerializeToString()) for steps in (10, 1000)]  # fmt: skip
    assert abs(sizes[0] - sizes[1]) < 200


def test_a_network_without_inputs_maps_prompts_to_states():
    network = replace(every_kind(), inputs=(), fills=(), outputs=())
    H = 0.1 * np.random.default_rng(1).normal(size=(5, network.tokens, network.width))
    (got,) = answers(session(built(network)), {"H": H}).values()
    assert np.abs(got - forward(network, H)).max() < 1e-5


def test_roots_of_scalars_are_taken_in_the_model():
    network = ridge_elsa(n=4, d=3, steps=2)
    assert any(power != 1 for fill in network.fills for _, power in fill.scale)
    rng = np.random.default_rng(0)
    inputs = {s.name: 0.2 * rng.uniform(0.1, 1, size=(3, *s.shape)) for s in network.inputs}
    assert_equal(network, inputs)


@settings(max_examples=25)
@given(network=networks(repeats=2, modules_at_most=2, activation="relu"))
def test_random_networks_are_equal_to_numpy(network):
    rng = np.random.default_rng(0)
    inputs = {s.name: 0.05 * rng.uniform(-1, 1, size=(2, *s.shape)) for s in network.inputs}
    with np.errstate(all="ignore"):
        size = np.abs(forward(network, network.prompt(**inputs))).max()
    if size < 1e6:  # random loops may grow without bound; NaN is not smaller either
        assert_equal(network, inputs, tolerance=1e-9, dtype="float64")


def test_an_unknown_precision_is_refused(tmp_path):
    with pytest.raises(InputError, match="float16"):
        every_kind().to_onnx(tmp_path / "net.onnx", dtype="float16")
