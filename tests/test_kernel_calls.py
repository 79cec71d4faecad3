"""Calls that run as one kernel, where the CPU plays the device: all but CUDA itself."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import inweave
from inweave import gallery
from inweave.run.backward.reverse import NoReverse
from inweave.run.kernel import call, device, gradient
from inweave.run.ready import AsKernel
from tests import kernels
from tests.kernels import batch_of_examples

torch = pytest.importorskip("torch")
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from inweave.lab import baselines, measures  # noqa: E402
from inweave.lab.config import Config  # noqa: E402
from inweave.lab.evaluate import contenders  # noqa: E402
from inweave.lab.tasks import Task, draw, stream  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("unchecked_passes"),
    pytest.mark.skipif(kernels.compiler() is None, reason="needs a C compiler"),
]

LEAD = (4, 5)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    return functools.cache(lambda kernel: kernels.loaded(kernel, folder))


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch, libraries):
    """Every tensor is on the device."""
    launched = []

    def loaded(_order, _index, write):
        ready = libraries(write())
        return replace(
            ready, queue=lambda *given: (launched.append(ready.frame), ready.queue(*given))
        )

    word = torch.zeros(1, dtype=torch.int32)
    number = ctypes.c_int.from_address(word.data_ptr())
    flag = SimpleNamespace(number=number, address=word.data_ptr(), word=word)
    monkeypatch.setattr(device, "_flag", SimpleNamespace(get=lambda: flag))
    monkeypatch.setattr(device, "loaded", loaded)
    monkeypatch.setattr(device, "index_of", lambda _: 0)
    monkeypatch.setattr(call, "is_cuda", lambda _: True)
    monkeypatch.setattr(call, "has_cupy", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "device", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(device, "current_stream", lambda _: 0)
    monkeypatch.setattr(device, "enter", lambda _: None)
    return launched


def problem(name, lead=LEAD, dtype=torch.float64):
    entry = gallery.get(name)
    inputs = batch_of_examples(entry.example, lead)
    return entry.compile(verify=False), {
        n: torch.as_tensor(x, dtype=dtype) for n, x in inputs.items()
    }


def close(found, expected, tolerance=1e-10):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def test_a_large_batch_is_one_launch_and_a_small_one_none(on_cpu):
    net, inputs = problem("ridge_gd")
    expected = net(kernel=False, **inputs)
    assert not on_cpu
    for calls in (1, 2, 3):
        close(net(**inputs), expected)
        assert len(on_cpu) == calls
    close(net(check=False, **inputs), expected)
    assert [kernel.check for kernel in on_cpu] == [True, True, True, False]
    few = {name: x[0, :2] for name, x in inputs.items()}
    net(**few)
    assert len(on_cpu) == 4
    close(net(kernel=True, **few), expected[0, :2])
    assert len(on_cpu) == 5


def test_answers_have_the_dtype_and_the_names_of_the_plan():
    net, inputs = problem("ridge_gd", dtype=torch.float32)
    assert net(**inputs).dtype == torch.float32
    net, inputs = problem("pca")
    found, expected = net(**inputs), net(kernel=False, **inputs)
    assert type(found) is type(expected)
    close(found, expected)


def test_inputs_that_a_batch_shares_or_that_stand_oddly_in_memory():
    net, inputs = problem("ridge_gd", (20,))
    odd = {n: torch.stack([x, x], dim=-1)[..., 0] for n, x in inputs.items()}
    shifted = torch.cat([torch.zeros(1, dtype=torch.float64), inputs["X"].ravel()])
    cases = {
        "strided": odd,
        "not aligned": {**inputs, "X": shifted[1:].view(inputs["X"].shape)},
        "one number": {**inputs, "lam": 0.1, "eta": 0.001},
        "another number": {**inputs, "lam": 0.2, "eta": 0.001},
        "one X": {**inputs, "X": inputs["X"][0]},
        "one X with an axis": {**inputs, "X": inputs["X"][:1]},
        "an outer batch": {**inputs, "y": inputs["y"][:1].expand(3, 1, -1)},
        "an expanded y": {**inputs, "y": inputs["y"][:1].expand(20, -1)},
    }
    for name, given in cases.items():
        expected = net(kernel=False, **given)
        for _ in range(2):  # the long way, then the short one
            found = net(kernel=True, **given)
            assert found.shape == expected.shape, name
            close(found, expected)


def test_what_is_wrong_is_found_by_looking_closely():
    net, inputs = problem("ridge_gd")
    for _ in range(2):
        with pytest.raises(inweave.DivergenceError, match="w grows"):
            net(**{**inputs, "eta": inputs["eta"] * 1e4})
        bad = inputs["X"].clone()
        bad[3, 2, 1, 0] = float("nan")
        with pytest.raises(inweave.InputError, match="'X' holds NaN"):
            net(**{**inputs, "X": bad})
        close(net(**inputs), net(kernel=False, **inputs))
    net, inputs = problem("conjugate_gradient")
    net(**inputs)
    with pytest.raises(inweave.DomainError, match="reciprocal got"):
        net(**{**inputs, "A": -inputs["A"]})
    outside = {**inputs, "A": 1e-4 * inputs["A"]}  # where a table is flat
    unchecked = [net(check=False, kernel=kernel, **outside) for kernel in (True, False)]
    torch.testing.assert_close(*unchecked, rtol=1e-6, atol=0, equal_nan=True)


def test_a_large_prompt_is_not_taken_for_one_that_diverges():
    @inweave.program
    def scaled(s: inweave.Scalar, x: inweave.Vector["n"]):
        return inweave.iterate(lambda w: s * w, x, 40)

    net = inweave.compile(scaled, n=2, verify=False)
    s, x = torch.full((20,), 0.9, dtype=torch.float64), torch.ones(20, 2, dtype=torch.float64)
    x[2] = 1e11  # and far from 1e8 when it is over
    close(net(s=s, x=x), net(s=s, x=x, kernel=False))
    s[5] = 100
    for _ in range(2):
        with pytest.raises(inweave.DivergenceError, match=r"is prompt 5$"):
            net(s=s, x=x)


def test_what_is_wrong_is_said_of_the_prompts_it_is_wrong_with():
    net, inputs = problem("ridge_gd")
    far = inputs["eta"].clone()
    far[1, 3], far[2, 0] = 10.0, 10.0
    bad = inputs["X"].clone()
    bad[3, 2, 1, 0] = float("inf")
    for _ in range(2):  # the long way, then the short one
        with pytest.raises(inweave.DivergenceError, match=r"is prompts \(1, 3\), \(2, 0\)$"):
            net(**{**inputs, "eta": far})
        with pytest.raises(inweave.InputError, match=r"infinity in prompt \(3, 2\);"):
            net(**{**inputs, "X": bad})
        net(**inputs)
    net, inputs = problem("conjugate_gradient", (20,))
    net(**inputs)
    signs = torch.ones(20, 1, 1)
    signs[[4, 7, 9, 15]] = -1.0
    with pytest.raises(inweave.DomainError, match=r"is prompts 4, 7, 9 and 1 more$"):
        net(**{**inputs, "A": signs * inputs["A"]})
    signs[[4, 7, 9]] = 1.0
    with pytest.raises(inweave.DomainError, match=r"is prompt 15$"):
        net(**{**inputs, "A": signs * inputs["A"]})
    with pytest.raises(inweave.DomainError, match=r"network does there$"):  # no kernel marks any
        net(kernel=False, **{**inputs, "A": signs * inputs["A"]})


# -- gradients -------------------------------------------------------------------------------------
def gradients(net, given, names, **options):
    """Of a sum of answers that are not all weighed alike."""
    leaves = {n: torch.as_tensor(given[n]).clone().requires_grad_() for n in names}
    answer = net(**{**given, **leaves}, **options)
    parts = [*answer.values()] if isinstance(answer, dict) else [answer]
    weights = [torch.linspace(0.5, 2, x.numel(), dtype=x.dtype).reshape(x.shape) for x in parts]
    sum((w * x).sum() for w, x in zip(weights, parts, strict=True)).backward()
    return {n: x.grad for n, x in leaves.items()}


def same(found, expected):
    size = max(float(x.abs().max()) for x in expected.values())
    for name, x in expected.items():
        assert found[name].shape == x.shape
        assert float((found[name] - x).abs().max()) <= 1e-10 * size, name


@pytest.mark.parametrize("name", ["ridge_gd", "lasso_ista", "pca", "conjugate_gradient"])
def test_gradients_are_one_launch_there_and_one_back(name, on_cpu):
    net, inputs = problem(name)
    expected = gradients(net, inputs, inputs, kernel=False)
    assert not on_cpu
    for calls in (1, 2, 3):  # the long way, and the short one
        same(gradients(net, inputs, inputs), expected)
        assert len(on_cpu) == 2 * calls
    one = dict(list(inputs.items())[:1])
    same(gradients(net, inputs, one), {n: expected[n] for n in one})
    assert len({kernel.name for kernel in on_cpu}) == 3  # forwards, and two ways back
    unchecked = gradients(net, inputs, inputs, check=False)
    same(unchecked, gradients(net, inputs, inputs, check=False, kernel=False))


def test_where_no_gradients_are_wanted_there_is_nothing_to_keep(on_cpu):
    net, inputs = problem("ridge_gd")
    inputs = {n: x.requires_grad_() for n, x in inputs.items()}
    with torch.no_grad():
        assert not net(**inputs).requires_grad
    assert len(on_cpu) == 1


def test_gradients_of_what_a_batch_shares_are_summed():
    net, inputs = problem("ridge_gd", (4, 5))
    cases = {
        "numbers": {
            **inputs,
            "lam": torch.tensor(0.1).double(),
            "eta": torch.tensor(1e-3).double(),
        },
        "one X": {**inputs, "X": inputs["X"][0, 0]},
        "one X of a row": {**inputs, "X": inputs["X"][:, :1]},
        "one y with axes": {**inputs, "y": inputs["y"][:1, :1]},
        "a batch of u": {**inputs, "u": inputs["u"][0]},
    }
    for given in cases.values():
        expected = gradients(net, given, given, kernel=False)
        for _ in range(2):
            same(gradients(net, given, given, kernel=True), expected)


def test_gradients_of_answers_that_are_not_all_used():
    net, inputs = problem("pca")
    y = {n: x.clone().requires_grad_() for n, x in inputs.items()}
    first = [next(iter(net(**y, kernel=kernel).values())).sum() for kernel in (True, False)]
    found = [torch.autograd.grad(answer, [*y.values()]) for answer in first]
    same(dict(zip(y, found[0], strict=True)), dict(zip(y, found[1], strict=True)))


def test_an_answer_that_no_wanted_input_changes_has_no_gradient():
    @inweave.program
    def apart(x: inweave.Vector["n"], y: inweave.Vector["n"]):
        return 2 * x, 3 * y

    net = inweave.compile(apart, n=2, verify=False)
    x, y = torch.ones(20, 2, requires_grad=True), torch.ones(20, 2)
    for kernel in (True, True, False):
        answers = net(x=x, y=y, kernel=kernel)
        assert [answer.requires_grad for answer in answers] == [True, False]
        (found,) = torch.autograd.grad(answers[0].sum(), x)
        close(found, torch.full((20, 2), 2.0))


def test_gradients_of_gradients_go_call_by_call_which_is_said():
    net, inputs = problem("ridge_gd", (20,))

    def twice(**options):
        y, X = (inputs[n].clone().requires_grad_() for n in ("y", "X"))
        answer = net(**{**inputs, "X": X, "y": y}, **options)
        (once,) = torch.autograd.grad(answer.square().sum(), [X], create_graph=True)
        return dict(zip("Xy", torch.autograd.grad(once.square().sum(), [X, y]), strict=True))

    expected = twice(kernel=False)
    with pytest.warns(UserWarning, match="gradients of gradients"):
        same(twice(), expected)
    with warnings.catch_warnings():  # and once is enough
        warnings.simplefilter("error")
        same(twice(), expected)


def test_a_batch_of_cotangents_goes_call_by_call():
    net, inputs = problem("ridge_gd", (20,))
    y = inputs["y"].clone().requires_grad_()
    cotangents = torch.eye(20, dtype=torch.float64)
    found = [
        torch.autograd.grad(net(**{**inputs, "y": y}, kernel=kernel), y, cotangents,
                            is_grads_batched=True)[0]
        for kernel in (True, False)
    ]  # fmt: skip
    close(*found)


@pytest.mark.parametrize("where", ["reverse", "loaded"])
def test_what_has_no_way_back_goes_call_by_call_which_is_said(where, monkeypatch, on_cpu):
    def none(*_, **__):
        raise NoReverse("it is too long") if where == "reverse" else RuntimeError("it is too long")

    net, inputs = problem("ridge_gd")
    net(**inputs)
    expected = gradients(net, inputs, inputs, kernel=False)
    monkeypatch.setattr(gradient if where == "reverse" else device, where, none)
    launched = len(on_cpu)
    with pytest.warns(UserWarning, match="no kernel: .*it is too long"):
        found = gradients(net, inputs, inputs)
    same(found, expected)
    with warnings.catch_warnings():  # and once is enough
        warnings.simplefilter("error")
        same(gradients(net, inputs, inputs), expected)
    assert len(on_cpu) == launched


def test_a_tensor_without_values_goes_call_by_call():
    net, inputs = problem("ridge_gd", (20,))
    expected = net(**inputs)
    both = torch.stack([inputs["X"], inputs["X"]])
    found = torch.func.vmap(lambda X: net(**{**inputs, "X": X}))(both)
    close(found, torch.stack([expected, expected]))


def warm_and_cold(name="ridge_gd", lead=(20,)):
    """A network that has not been called, and then the same once its short way is known."""
    net, inputs = problem(name, lead)
    yield net, inputs
    net(**inputs)
    net(**inputs)
    yield net, inputs


def alone(name, net, inputs, **options):
    """A network as a function of one input."""
    return lambda x: net(**{**inputs, name: x}, **options)


@pytest.mark.filterwarnings("ignore")  # of torch, about itself
def test_tangents_are_followed(on_cpu):
    ahead = torch.autograd.forward_ad
    for net, inputs in warm_and_cold():
        y, along = inputs["y"], torch.ones_like(inputs["y"])
        with ahead.dual_level():
            dual = {**inputs, "y": ahead.make_dual(y, along)}
            found, expected = (
                ahead.unpack_dual(net(**dual, kernel=kernel)).tangent for kernel in (None, False)
            )
        close(found, expected)
        assert found.abs().max() > 0
    on_cpu.clear()
    net(**inputs)
    assert len(on_cpu) == 1  # what was called first in there is a kernel out here


TRANSFORMS = {
    "grad": lambda f: torch.func.grad(lambda y: f(y).sum()),
    "vjp": lambda f: lambda y: torch.func.vjp(f, y)[1](torch.ones(20, dtype=y.dtype))[0],
    "jacrev": torch.func.jacrev,
    "jacfwd": torch.func.jacfwd,
    "jvp": lambda f: lambda y: torch.func.jvp(f, (y,), (torch.ones_like(y),))[1],
    "hessian": lambda f: torch.func.hessian(lambda y: f(y).square().sum()),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_torch_go_call_by_call(name, on_cpu):
    for net, inputs in warm_and_cold():
        found, expected = (
            TRANSFORMS[name](alone("y", net, inputs, kernel=kernel))(inputs["y"])
            for kernel in (None, False)
        )
        close(found, expected)
    on_cpu.clear()
    net(**inputs)
    assert len(on_cpu) == 1


@pytest.mark.filterwarnings("ignore")
def test_who_writes_down_operations_sees_them():
    for net, inputs in warm_and_cold():
        X, called = inputs["X"], alone("X", net, inputs)
        traced = torch.jit.trace(called, (X,), check_trace=False)
        close(traced(0.9 * X), called(0.9 * X))
        with pytest.raises(RuntimeError, match="tracing tensor"):  # every call looks at values
            make_fx(called)(X)


@pytest.mark.parametrize("kernel", [None, True, False])
def test_what_is_computed_again_saves_what_it_did(kernel):
    net, inputs = problem("ridge_gd", (20,))
    leaves = {n: x.requires_grad_() for n, x in inputs.items()}
    for _ in range(2):
        again = checkpoint(lambda: net(**leaves, kernel=kernel), use_reentrant=False)
        found = torch.autograd.grad(again.sum(), [*leaves.values()])
        expected = torch.autograd.grad(net(**leaves, kernel=False).sum(), [*leaves.values()])
        same(dict(zip(leaves, found, strict=True)), dict(zip(leaves, expected, strict=True)))


def test_a_negation_that_torch_has_put_off_is_not_forgotten():
    for net, inputs in warm_and_cold():
        y = {**inputs, "y": torch._neg_view(inputs["y"])}
        close(net(**y), net(**{**inputs, "y": -inputs["y"]}))


@pytest.mark.parametrize("kernel", [None, False])
def test_what_the_kernel_does_not_read_is_looked_at_too(kernel):
    @inweave.program
    def twice(x: inweave.Vector["n"], y: inweave.Vector["n"]):
        return 2 * x, 0 * y

    net = inweave.compile(twice, n=2, verify=False)
    x, bad = torch.ones(20, 2), torch.ones(20, 2)
    bad[3, 1] = float("nan")
    for _ in range(3):
        with pytest.raises(inweave.InputError, match="'y' holds NaN or infinity in prompt 3;"):
            net(x=x, y=bad, kernel=kernel)
        net(x=x, y=x, kernel=kernel)


def test_what_cannot_be_compiled_is_said_once_and_runs_as_before(monkeypatch):
    def broken(*_):
        raise RuntimeError("no such architecture")

    monkeypatch.setattr(device, "loaded", broken)
    net, inputs = problem("ridge_gd")
    with pytest.warns(UserWarning, match="no such architecture"):
        found = net(**inputs)
    close(found, net(kernel=False, **inputs))
    close(net(**inputs), found)
    with pytest.raises(inweave.InputError, match="no such architecture"):
        net(kernel=True, **inputs)


def test_an_empty_batch_has_no_answers():
    net, inputs = problem("ridge_gd", (20,))
    none = {name: x[:0] for name, x in inputs.items()}
    assert net(kernel=True, **none).shape == (0,)


def test_the_numbers_of_a_call_are_not_mixed_up():
    net, inputs = problem("ridge_gd", (20,))
    rng = np.random.default_rng(0)
    for _ in range(3):
        given = {**inputs, "lam": float(rng.uniform(0, 1)), "eta": float(rng.uniform(0, 1e-3))}
        close(net(**given), net(kernel=False, **given))


def test_a_launch_is_made_on_the_device_of_its_inputs(monkeypatch):
    current, asked, streams, loaded = [0], [], [], device.loaded

    @contextlib.contextmanager
    def on(index):
        before, current[0] = current[0], index
        yield
        current[0] = before

    monkeypatch.setattr(torch.cuda, "current_device", lambda: current[0])
    monkeypatch.setattr(torch.cuda, "device", on)
    monkeypatch.setattr(device, "index_of", lambda _: 1)
    monkeypatch.setattr(
        device, "current_stream", lambda index: streams.append((index, *current)) or 0
    )
    monkeypatch.setattr(device, "loaded", lambda *of: asked.append(of[1]) or loaded(*of))
    net, inputs = problem("ridge_gd")
    for _ in range(2):  # the long way, then the short one
        close(net(**inputs), net(kernel=False, **inputs))
    with pytest.raises(inweave.DivergenceError, match="prompts"):
        net(**{**inputs, "eta": inputs["eta"] * 1e4})
    assert {*asked} == {1}
    assert {*streams} == {(1, 1)}
    assert len(streams) >= 4
    assert current == [0]


def test_a_number_is_on_the_device_once_for_every_stream(monkeypatch):
    net, inputs = problem("ridge_gd", (20,))
    for current in (0, 7, 0, 7):
        monkeypatch.setattr(device, "current_stream", lambda _, current=current: current)
        given = {**inputs, "lam": 0.1 + current}
        close(net(check=False, **given), net(kernel=False, **given))
    (ready,) = (way for way in net.plan._ready.values() if isinstance(way, AsKernel))
    kept = sorted((where, number) for (_, where), (number, _) in ready.known.items())
    assert kept == [(0, 0.1), (7, 7.1)]


def test_every_thread_has_arguments_of_its_own():
    given = device._Given([3, 0], outputs=1, prompts=5)
    given.values[0] = 7
    other = []
    thread = threading.Thread(target=lambda: other.append((given.places, [*given.values])))
    thread.start()
    thread.join()
    ((places, values),) = other
    assert places != given.places
    assert values == [0, 3, 0, 0, 0, 0, 0, 5]


# -- the lab ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "make",
    [
        lambda eta: baselines.gradient_descent(3, eta, lam=0.1),
        lambda eta: baselines.gd_plus_plus(2, eta, 0.05),
        lambda lam: baselines.newton(4, lam),
    ],
    ids=["gradient descent", "GD++", "Newton"],
)
def test_a_baseline_of_the_lab_is_one_kernel(make, on_cpu, monkeypatch):
    batch = draw(Task(n=6, d=3), 20, stream(0), torch.float64)
    errors = measures.squared_errors(make(0.3), batch)
    assert [kernel.check for kernel in on_cpu] == [False]
    sensitive = measures.sensitivity(make(0.3), batch)  # has gradients, so no kernel
    tuned = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    make(tuned)(batch)
    assert len(on_cpu) == 1
    monkeypatch.setattr(call, "is_cuda", lambda _: False)
    close(errors, measures.squared_errors(make(0.3), batch))
    close(sensitive, measures.sensitivity(make(0.3), batch))


def test_an_evaluation_of_the_lab_launches_kernels(on_cpu):
    config = Config(Task(n=6, d=3, noise=0.5))
    tuning = draw(config.task, 40, stream(0, "tune"), torch.float64)
    found = contenders(config, tuning, 1)
    assert on_cpu  # the grids of parameters that are tuned
    on_cpu.clear()
    for predict in found.values():
        measures.squared_errors(predict, tuning)
    assert len(on_cpu) == len({"1 GD step", "1 Newton step"} & {*found}) == 2
