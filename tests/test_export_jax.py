"""The jax function computes what the network computes, and jax can transform it."""

from __future__ import annotations

import numpy as np
import pytest

import inweave
from inweave import InputError, Network
from inweave.model.dense import forward
from tests.cases import CASES
from tests.files_fuzz import every_kind

jax = pytest.importorskip("jax")

BY_NAME = {c.name: c for c in CASES}
RIDGE = BY_NAME["ridge_gd"]
SOME = ("product", "constant_factors", "slices", "scalars", "ridge_dual", "nested", "two_sided")


@pytest.fixture
def _x64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def ridge() -> Network:
    return inweave.compile(RIDGE.program, verify=False, **RIDGE.sizes)


def named(answer) -> dict:
    return answer if isinstance(answer, dict) else {"": answer}


@pytest.mark.usefixtures("_x64")
@pytest.mark.parametrize("case", [BY_NAME[name] for name in SOME], ids=SOME)
@pytest.mark.usefixtures("compiled_once")
def test_compiled_networks_are_equal_to_numpy(case):
    network = inweave.compile(case.program, verify=False, **case.sizes)
    apply, params = network.to_jax()
    inputs = case.inputs(batch=(2,))
    expected = named(network.readout(forward(network, network.prompt(**inputs))))
    for name, value in named(jax.jit(apply)(params, **inputs)).items():
        assert value.dtype == np.float64
        assert value.shape == expected[name].shape
        scale = max(1.0, np.abs(expected[name]).max())
        assert np.abs(value - expected[name]).max() < 1e-12 * scale


@pytest.mark.usefixtures("_x64")
def test_every_kind_of_layer_is_equal_to_numpy():
    network = every_kind()
    apply, params = network.to_jax("float64")
    H = 0.1 * np.random.default_rng(0).normal(size=(4, network.tokens, network.width))
    assert np.abs(jax.jit(apply)(params, H) - forward(network, H)).max() < 1e-12
    answer = apply(params, A=H[:, :, :2], s=np.full(4, 0.3))
    expected = network(A=H[:, :, :2], s=np.full(4, 0.3))
    assert np.abs(answer["y"] - expected["y"]).max() < 1e-12


@pytest.mark.usefixtures("_x64")
def test_it_can_be_compiled_mapped_and_differentiated(ridge):
    apply, params = ridge.to_jax()
    inputs = RIDGE.inputs()
    assert np.allclose(jax.jit(apply)(params, **inputs), ridge(**inputs), rtol=1e-12)
    many = RIDGE.inputs(batch=(3,))
    mapped = jax.jit(jax.vmap(lambda given: apply(params, **given)))(many)
    assert np.allclose(mapped, ridge(**many), rtol=1e-11)
    slopes = jax.jit(jax.grad(apply))(params, **inputs)
    rng = np.random.default_rng(0)
    params = jax.tree.map(np.asarray, params)
    direction = jax.tree.map(lambda x: rng.normal(size=x.shape), params)
    products = jax.tree.map(lambda a, b: (np.asarray(a) * b).sum(), slopes, direction)
    slope = sum(jax.tree.leaves(products))
    ends = [
        jax.jit(apply)(jax.tree.map(lambda x, v, h=h: x + h * v, params, direction), **inputs)
        for h in (1e-6, -1e-6)
    ]
    assert np.isclose(slope, (ends[0] - ends[1]) / 2e-6, rtol=1e-5)


@pytest.mark.usefixtures("_x64")
def test_gradients_are_those_of_the_program(ridge):
    apply, params = ridge.to_jax()
    inputs = {name: jax.numpy.asarray(x) for name, x in RIDGE.inputs().items()}
    got = jax.jit(jax.grad(lambda given: apply(params, **given)))(inputs)
    steps = RIDGE.sizes["steps"]
    expected = jax.jit(jax.grad(lambda given: RIDGE.program(**given, steps=steps)))(inputs)
    for name, value in expected.items():
        assert np.allclose(got[name], value, rtol=1e-10, atol=1e-14), name


def test_a_repeated_module_is_a_loop_with_one_set_of_parameters():
    def traced(steps):
        network = inweave.compile(RIDGE.program, verify=False, n=5, d=3, steps=steps)
        apply, params = network.to_jax()
        return str(jax.make_jaxpr(apply)(params, **RIDGE.inputs())), params

    few, some = traced(10)
    many, same = traced(1000)
    assert "scan" in few or "while" in few
    assert len(few.splitlines()) == len(many.splitlines())
    assert len(jax.tree.leaves(some)) == len(jax.tree.leaves(same))


def test_parameters_are_all_it_depends_on(ridge):
    apply, params = ridge.to_jax()
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(params))
    zeros = jax.tree.map(jax.numpy.zeros_like, params)
    H = ridge.prompt(**RIDGE.inputs()).astype(np.float32)
    assert np.array_equal(apply(zeros, H), H)


def test_precision_is_never_lowered_silently(ridge):
    _, params = ridge.to_jax()
    assert {leaf.dtype.name for leaf in jax.tree.leaves(params)} == {"float32"}
    with pytest.raises(InputError, match="jax_enable_x64"):
        ridge.to_jax("float64")
    with jax.enable_x64(True):
        _, params = ridge.to_jax("float64")
        assert {leaf.dtype.name for leaf in jax.tree.leaves(params)} == {"float64"}
        _, params = ridge.to_jax("float32")
        assert {leaf.dtype.name for leaf in jax.tree.leaves(params)} == {"float32"}
