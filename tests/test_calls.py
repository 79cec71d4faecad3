"""A call that was right once takes a shorter way, which answers and refuses as the long one does.

And a call inside another library's tracer is part of what that library makes of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import inweave
from inweave import Scalar, Vector, gallery
from inweave.model.inputs import accept
from inweave.model.prompt import by_name
from inweave.run.libraries.execute import OFTEN, Bound
from tests.calls import calls_of
from tests.test_sizes_and_calls import given, ridge

pytestmark = pytest.mark.usefixtures("unchecked_passes", "compiled_once")


@inweave.program
def several(x: Vector["n"], s: Scalar):
    return {"b": s * x, "a": x.T @ x, "c": x @ x.T}


@inweave.program
def pair(x: Vector["n"], s: Scalar):
    return s * x, x.T @ x


@inweave.program
def wave(x: Vector["d"]) -> Vector["d"]:
    return inweave.sigmoid(x, domain=(-2.0, 2.0), error=1e-3)


def fresh(steps: int = 2) -> inweave.Network:
    """A network that was never called."""
    return inweave.compile(ridge, n=6, d=3, steps=steps, verify=False)


def inputs_of(xp: Any, **changed: Any) -> dict[str, Any]:
    """Arrays of a library, and numbers as they are."""
    return {k: xp.asarray(v) if np.ndim(v) else v for k, v in (given() | changed).items()}


def said(call: Any, inputs: dict[str, Any], **options: Any) -> str:
    """What is said of inputs that are refused."""
    with pytest.raises(inweave.InweaveError) as caught:
        call(**inputs, **options)
    return f"{type(caught.value).__name__}: {caught.value}"


# -- often -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("problems", [0, 3])
@pytest.mark.parametrize("name", ["gaussian_elimination", "kernel_smoother", "pca", "two_layer_gd"])
def test_the_answer_stays_the_same_bit_for_bit_however_often_a_call_is_made(name, problems):
    entry = gallery.get(name)
    net, inputs = entry.compile(verify=False), entry.example()
    if problems:
        inputs = {k: np.stack([v] * problems) if np.ndim(v) else v for k, v in inputs.items()}
    first, *others = (by_name(net(**inputs)) for _ in range(OFTEN + 3))
    assert all(np.array_equal(x[key], first[key]) for x in others for key in first)


# -- the short way ---------------------------------------------------------------------------------
def test_inputs_are_looked_at_closely_once_for_every_signature(xp):
    net, inputs = fresh(), inputs_of(xp)
    many = inputs | {"y": xp.stack([inputs["y"], 2 * inputs["y"]])}
    looks = [calls_of(accept, lambda i=i: net(**i)) for i in (inputs, many, inputs, many)]
    strict = xp.__name__ == "array_api_strict"  # which is nobody's library: it goes the long way
    assert looks == ([1, 1, 1, 1] if strict else [1, 1, 0, 0])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_short_way_gives_the_same_answer_of_the_same_kind(xp, dtype):
    inputs = {k: v if np.ndim(v) == 0 else xp.asarray(v, dtype=getattr(xp, dtype))
              for k, v in given().items()}  # fmt: skip
    arrays = inputs | {k: xp.asarray(inputs[k], dtype=getattr(xp, dtype)) for k in ("lam", "eta")}
    for asked in (inputs, arrays, inputs | {"lam": np.float64(0.5), "eta": 1}):
        net = fresh(1)
        first, *again = (net(**asked, check=check) for check in (True, True, False, False))
        for found in again:
            assert type(found) is type(first)
            assert (found.dtype, found.shape) == (first.dtype, ())
            assert float(found) == pytest.approx(
                float(first), rel=1e-15 if dtype[-2:] == "64" else 1e-6
            )


def test_numbers_that_numpy_has_no_type_for_are_answered_again_and_again():
    torch = pytest.importorskip("torch")
    net, inputs = fresh(1), inputs_of(np)
    short = {k: torch.tensor(v, dtype=torch.bfloat16) for k, v in inputs.items()}
    first, second = net(**short), net(**short)
    assert first.dtype == second.dtype == torch.bfloat16
    assert first == second


@pytest.mark.parametrize("program", [several, pair])
def test_answers_keep_their_names_their_order_and_their_batch(xp, program):
    net = inweave.compile(program, n=3, verify=False)
    x = xp.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    for s in (2.0, xp.asarray([2.0, 3.0])):
        first, second = net(x=x, s=s), net(x=x, s=s)
        assert type(first) is type(second)
        assert list(by_name(first)) == list(by_name(second))
        for name, value in by_name(first).items():
            assert by_name(second)[name].shape == value.shape
            assert np.array_equal(np.asarray(by_name(second)[name]), np.asarray(value))


def test_an_input_that_no_answer_reads_still_gives_its_batch_axes(xp):
    net, inputs = fresh(1), inputs_of(xp, lam=[0.1, 0.2, 0.3])  # one step from zero reads no lam
    first, second = net(**inputs), net(**inputs)
    assert first.shape == second.shape == (3,)
    assert np.array_equal(np.asarray(first), np.asarray(second))


def test_what_is_given_is_neither_changed_nor_handed_back():
    @inweave.program
    def same(x: Vector["n"]):
        return x

    net, x = inweave.compile(same, n=2, verify=False), np.array([1.0, 2.0])
    for _ in range(2):
        found = net(x=x)
        found += 1
    assert x.tolist() == [1.0, 2.0]


WRONG: dict[str, Any] = {
    "NaN": lambda i: i | {"X": i["X"] * float("nan")},
    "infinity": lambda i: i | {"y": i["y"] / (i["y"] * 0)},
    "a number that is NaN": lambda i: i | {"lam": float("nan")},
    "a number that is infinite": lambda i: i | {"eta": np.float64("-inf")},
    "a number beyond all": lambda i: i | {"eta": 10**400},
    "another shape": lambda i: i | {"X": i["X"][:, :2]},
    "a transposed matrix": lambda i: i | {"X": i["X"].T},
    "batches that do not fit": lambda i: i | {"u": i["X"], "y": i["X"].T},
    "a missing name": lambda i: {k: v for k, v in i.items() if k != "u"},
    "another name": lambda i: {"v" if k == "u" else k: v for k, v in i.items()},
    "one name more": lambda i: i | {"v": 1.0},
    "no number": lambda i: i | {"lam": None},
    "text": lambda i: i | {"lam": "0.5"},
    "a complex number": lambda i: i | {"lam": 1j},
    "an array of objects": lambda i: i | {"u": np.array([1, 2, None])},
    "too large a step": lambda i: i | {"eta": 1e30},
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("library", ["numpy", "torch", "jax.numpy"])
def test_what_is_wrong_is_refused_in_the_same_words_as_at_first(library, name):
    xp = pytest.importorskip(library)
    net, right = fresh(9), inputs_of(xp)
    wrong = WRONG[name](right)
    words = said(fresh(9), wrong)
    net(**right), net(**right)
    assert said(net, wrong) == words
    assert said(net, wrong) == words


def test_masked_complex_and_integer_arrays_are_not_taken_for_floats():
    net, inputs = fresh(), given()
    net(**inputs)
    masked = np.ma.masked_array(inputs["X"], mask=np.eye(6, 3))
    assert "masked entries" in said(net, inputs | {"X": masked})
    assert "complex128" in said(net, inputs | {"X": inputs["X"] + 0j})
    whole = inputs | {"X": np.arange(18).reshape(6, 3)}
    swapped = whole | {"X": whole["X"].astype(">f8")}
    assert net(**whole) == net(**swapped) == net(**whole | {"X": whole["X"].astype(float)})


def test_large_and_honest_answers_are_computed_once():
    @inweave.program
    def cube(s: Scalar) -> Scalar:
        return s * s * s

    net = inweave.compile(cube, verify=False)
    assert net(s=1e5) == pytest.approx(1e15)
    assert calls_of(Bound.through, lambda: net(s=2e5)) == 1


def test_with_check_and_without_are_two_ways(xp):
    net = inweave.compile(wave, d=2, verify=False)
    inside, outside = xp.asarray([0.5, 1.0]), xp.asarray([0.5, 3.0])
    saturated = np.asarray(net(x=outside, check=False))
    for _ in range(2):
        net(x=inside), net(x=inside, check=False)
        with pytest.raises(inweave.DomainError, match=r"got 3 at module 0"):
            net(x=outside)
        assert np.array_equal(np.asarray(net(x=outside, check=False)), saturated)


def test_only_so_many_signatures_are_kept():
    from inweave.run.plan import KEPT

    net = inweave.compile(pair, n=2, verify=False)
    for batch in range(KEPT + 2):
        net(x=np.ones((batch, 2)), s=1.0)
    assert len(net.plan._ready) == 2


# -- tracers ---------------------------------------------------------------------------------------
def test_jax_traces_a_call_whose_short_way_is_known():
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        net, inputs = fresh(), inputs_of(jax.numpy)
        expected = net(**inputs)
        net(**inputs)
        rest = {k: v for k, v in inputs.items() if k != "u"}
        assert jax.jit(lambda: net(**inputs))() == pytest.approx(expected)
        assert jax.jit(lambda u: net(u=u, **rest))(inputs["u"]) == pytest.approx(expected)
        many = jax.vmap(lambda u: net(u=u, **rest))(jax.numpy.stack([inputs["u"]] * 2))
        assert many == pytest.approx(np.full(2, expected))
        slope = jax.grad(lambda u: net(u=u, **rest))(inputs["u"])
        assert slope @ inputs["u"] == pytest.approx(expected)  # the answer is linear in u


@pytest.fixture
def torch() -> Any:
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    torch._dynamo.reset()
    yield torch
    torch._dynamo.reset()


def test_torch_transforms_a_call_whose_short_way_is_known(torch):
    net, inputs = fresh(), inputs_of(torch)
    expected = net(**inputs)
    net(**inputs)
    rest = {k: v for k, v in inputs.items() if k != "u"}
    u = inputs["u"].clone().requires_grad_()
    net(u=u, **rest).backward()
    slope = torch.func.grad(lambda u: net(u=u, **rest))(inputs["u"])
    assert torch.equal(slope, u.grad)
    assert slope @ inputs["u"] == pytest.approx(float(expected))
    many = torch.func.vmap(lambda u: net(u=u, **rest))(torch.stack([inputs["u"]] * 2))
    assert torch.allclose(many, expected.expand(2))


SMALL = {
    "ridge_gd": {"n": 4, "d": 2, "steps": 1},
    "gauss_jordan": {"m": 2, "k": 1},
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SMALL)
def test_torch_compiles_a_call_and_the_exported_module_into_one_graph(torch, name):
    entry = gallery.get(name)
    net = entry.compile(verify=False, **SMALL[name])
    inputs = {k: torch.as_tensor(v, dtype=torch.float64)
              for k, v in entry.example(**SMALL[name]).items()}  # fmt: skip
    for call, backend in ((net, "aot_eager"), (net.to_torch(), "eager")):
        fast = torch.compile(
            lambda given, call=call: call(**given), fullgraph=True, backend=backend
        )
        for part, expected in by_name(net(**inputs)).items():
            assert torch.allclose(by_name(fast(inputs))[part], expected, rtol=1e-9)


@pytest.mark.filterwarnings("ignore")
def test_inside_torch_compile_numbers_batches_and_networks_may_change(torch):
    nets = [inweave.compile(program, n=3, verify=False) for program in (several, pair)]
    call = torch.compile(lambda net, x, s: net(x=x, s=s), fullgraph=True, backend="aot_eager")
    for net, x, s in (
        (nets[0], torch.ones(3), 0.5),
        (nets[1], torch.ones(3), 0.25),
        (nets[0], torch.ones(2, 3), 2),
    ):
        for _ in range(2):
            found, expected = by_name(call(net, x, s)), by_name(net(x=x, s=s))
            assert list(found) == list(expected)
            assert all(torch.allclose(found[name], expected[name]) for name in found)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_inside_torch_compile_an_answer_is_nan_where_a_domain_was_left(torch, backend):
    net = inweave.compile(wave, d=2, verify=False)
    inside, outside = torch.tensor([0.5, 1.0]), torch.tensor([0.5, 3.0])
    expected = net(x=inside)
    call = torch.compile(lambda x: net(x=x), fullgraph=True, backend=backend)
    assert torch.allclose(call(inside), expected)
    assert torch.isnan(call(outside)).all()
    free = torch.compile(lambda x: net(x=x, check=False), fullgraph=True, backend=backend)
    assert torch.allclose(free(outside), net(x=outside, check=False))
    mapped = torch.compile(
        lambda xs: torch.func.vmap(lambda x: net(x=x))(xs), fullgraph=True, backend=backend
    )
    assert torch.isnan(mapped(torch.stack([inside, outside]))).tolist() == [[False] * 2, [True] * 2]
    assert torch.equal(net(x=inside), expected)  # nothing of the tracing stays


@pytest.mark.filterwarnings("ignore")
def test_inside_torch_compile_gradients_are_those_outside(torch):
    net, inputs = fresh(), inputs_of(torch)
    rest = {k: v for k, v in inputs.items() if k != "X"}
    slopes = []
    for call in (net, torch.compile(lambda **i: net(**i), fullgraph=True, backend="aot_eager")):
        X = inputs["X"].clone().requires_grad_()
        call(X=X, **rest).backward()
        slopes.append(X.grad)
    assert torch.allclose(*slopes, rtol=1e-12)


@pytest.mark.filterwarnings("ignore")
def test_torch_compile_passes_on_why_inputs_are_refused(torch):
    net = fresh()
    call = torch.compile(lambda **i: net(**i), fullgraph=True, backend="aot_eager")
    with pytest.raises(
        Exception, match=r"input 'X': got shape \(6, 2\), expected \(\.\.\., 6, 3\)"
    ):
        call(**inputs_of(torch) | {"X": torch.ones(6, 2, dtype=torch.float64)})
