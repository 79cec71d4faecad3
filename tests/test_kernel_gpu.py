"""Kernels on a CUDA device: every entry of the gallery, and what a call may meet."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import inweave
from inweave import gallery
from tests.cases import CASES
from tests.kernels import batch_of_examples
from tests.test_reverse import WITHOUT

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
pytestmark = [
    pytest.mark.gpu,
    needs_gpu,
    pytest.mark.usefixtures("cupy"),
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),  # by autograd's own thread
]
ROUNDING = {"float32": 2e-3, "float64": 1e-9}


@pytest.fixture(scope="module")
def cupy():
    return pytest.importorskip("cupy")


def on_device(inputs, dtype):
    return {
        n: torch.as_tensor(np.asarray(x), dtype=dtype, device="cuda") for n, x in inputs.items()
    }


def close(found, expected, tolerance):
    if isinstance(expected, dict):
        for name, value in expected.items():
            close(found[name], value, tolerance)
    elif isinstance(expected, tuple):
        for one, value in zip(found, expected, strict=True):
            close(one, value, tolerance)
    else:
        size = float(expected.abs().max()) if expected.numel() else 0.0
        gap = float((found.double() - expected).abs().max()) if expected.numel() else 0.0
        assert found.shape == expected.shape
        assert gap <= tolerance * max(size, 1e-30), (gap, size)


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("name", gallery.names())
def test_an_entry_is_what_its_plan_is_in_double_precision(name, dtype):
    entry = gallery.get(name)
    net = entry.compile(verify=False)
    why = net.kernel(dtype).why_not
    if why:
        pytest.skip(why)
    inputs = batch_of_examples(entry.example, (3, 7))
    expected = net(kernel=False, **on_device(inputs, torch.float64))
    close(net(kernel=True, **on_device(inputs, getattr(torch, dtype))), expected, ROUNDING[dtype])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_is_what_its_plan_is(case):
    net = inweave.compile(case.program, **case.sizes, verify=False)
    inputs = on_device(case.inputs(batch=(33,)), torch.float64)
    close(net(kernel=True, **inputs), net(kernel=False, **inputs), 1e-11)


@pytest.fixture(scope="module")
def ridge():
    return gallery.get("ridge_gd").compile(verify=False)


def ridge_inputs(batch=600):
    given = batch_of_examples(gallery.get("ridge_gd").example, (batch,))
    given["lam"], given["eta"] = 0.1, float(np.min(given["eta"]))
    return {n: x if isinstance(x, float) else on_device({n: x}, torch.float64)[n]
            for n, x in given.items()}  # fmt: skip


def test_numbers_shared_by_a_batch_and_odd_memory_are_read_rightly(ridge):
    given = ridge_inputs()
    expected = ridge(kernel=False, **given)
    close(ridge(**given), expected, 1e-10)
    close(ridge(**given), expected, 1e-10)  # the short way
    odd = {n: x if isinstance(x, float) else torch.stack([x, x], dim=-1)[..., 0]
           for n, x in given.items()}  # fmt: skip
    close(ridge(**odd), expected, 1e-10)
    one = dict(given, X=given["X"][:1])
    close(ridge(kernel=True, **one), ridge(kernel=False, **one), 1e-10)
    alone = dict(given, X=given["X"][0])
    close(ridge(kernel=True, **alone), ridge(kernel=False, **alone), 1e-10)


def test_what_is_wrong_is_said_as_elsewhere(ridge):
    given = ridge_inputs()
    with pytest.raises(inweave.DivergenceError):
        ridge(**{**given, "eta": 10.0})
    ridge(**given)
    with pytest.raises(inweave.DivergenceError):
        ridge(**{**given, "eta": 10.0})
    bad = {**given, "X": given["X"].clone()}
    bad["X"][17, 3, 2] = float("nan")
    with pytest.raises(inweave.InputError):
        ridge(**bad)
    entry = gallery.get("conjugate_gradient")
    net = entry.compile(verify=False)
    inputs = on_device(batch_of_examples(entry.example, (700,)), torch.float64)
    net(**inputs)
    with pytest.raises(inweave.DomainError):
        net(**{**inputs, "A": -inputs["A"]})


# -- gradients -------------------------------------------------------------------------------------
def gradients(net, inputs, **options):
    """Of all inputs that are tensors, of a sum of answers that are not weighed alike."""
    leaves = {n: x.detach().clone().requires_grad_() for n, x in inputs.items()
              if torch.is_tensor(x)}  # fmt: skip
    answer = net(**{**inputs, **leaves}, **options)
    parts = [*answer.values()] if isinstance(answer, dict) else [answer]
    weights = [torch.linspace(0.5, 2, x.numel(), device="cuda").to(x).reshape(x.shape)
               for x in parts]  # fmt: skip
    sum((w * x).sum() for w, x in zip(weights, parts, strict=True)).backward()
    return {n: x.grad for n, x in leaves.items()}


def same(found, expected, tolerance):
    """Relative to the largest gradient."""
    size = max(float(x.abs().max()) for x in expected.values())
    for name, x in expected.items():
        assert found[name].shape == x.shape
        gap = float((found[name].double() - x).abs().max())
        assert gap <= tolerance * max(size, 1e-30), (name, gap, size)


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("name", gallery.names())
def test_gradients_of_an_entry_are_those_of_its_plan_in_double_precision(name, dtype):
    if name in WITHOUT[dtype]:
        pytest.skip(WITHOUT[dtype][name])
    entry = gallery.get(name)
    net = entry.compile(verify=False)
    inputs = batch_of_examples(entry.example, (3, 7))
    expected = gradients(net, on_device(inputs, torch.float64), kernel=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="gradients")  # no falling back
        found = gradients(net, on_device(inputs, getattr(torch, dtype)), kernel=True)
    same(found, expected, ROUNDING[dtype])


def test_gradients_of_what_a_batch_shares_are_summed(ridge):
    given = ridge_inputs()
    given["lam"], given["eta"] = (
        torch.tensor(given[n], dtype=torch.float64, device="cuda") for n in ("lam", "eta")
    )
    for shared in ({}, {"X": given["X"][0]}, {"y": given["y"][:1]}):
        expected = gradients(ridge, {**given, **shared}, kernel=False)
        for _ in range(2):  # the long way, and the short one
            same(gradients(ridge, {**given, **shared}, kernel=True), expected, 1e-9)


def test_gradients_run_in_the_stream_of_the_call(ridge):
    given = ridge_inputs(2048)
    expected = gradients(ridge, given, kernel=False)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        found = gradients(ridge, given, check=False)
    stream.synchronize()
    same(found, expected, 1e-9)


def test_gradients_of_gradients_go_call_by_call_and_that_is_said(ridge):
    given = ridge_inputs(64)

    def twice(**options):
        y = given["y"].clone().requires_grad_()
        (once,) = torch.autograd.grad(ridge(**{**given, "y": y}, **options).square().sum(), y,
                                      create_graph=True)  # fmt: skip
        return {"y": torch.autograd.grad(once.square().sum(), y)[0]}

    with pytest.warns(UserWarning, match="gradients of gradients"):
        found = twice()
    same(found, twice(kernel=False), 1e-9)


def test_a_kernel_runs_in_the_stream_that_is_current(ridge):
    given = ridge_inputs(2048)
    expected = ridge(kernel=False, **given)
    ridge(**given)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        doubled = {n: x if isinstance(x, float) else x * 1.0 for n, x in given.items()}
        found = ridge(check=False, **doubled)
    stream.synchronize()
    close(found, expected, 1e-10)


def test_the_labs_baselines_are_kernels_and_say_what_torch_says(monkeypatch):
    from inweave.lab import baselines, measures
    from inweave.lab.tasks import Task, draw, stream
    from inweave.run.kernel import call, device

    launches, queue = [], device.Launcher.queue
    monkeypatch.setattr(
        device.Launcher, "queue", lambda *given: launches.append(1) or queue(*given)
    )
    batch = draw(Task(n=20, d=5), 5000, stream(0, device="cuda"), torch.float64)
    makers = (
        baselines.gradient_descent(4, 0.3, 0.01),
        baselines.gd_plus_plus(3, 0.3, 0.05),
        baselines.newton(5),
    )
    found = [measures.squared_errors(predict, batch) for predict in makers]
    assert len(launches) == 3
    monkeypatch.setattr(call, "is_cuda", lambda _: False)
    for errors, predict in zip(found, makers, strict=True):
        close(errors, measures.squared_errors(predict, batch), 1e-9)
    assert len(launches) == 3


def test_code_is_kept_and_a_damaged_entry_is_compiled_again(ridge, monkeypatch, tmp_path):
    from inweave.run.kernel import device

    monkeypatch.setenv("INWEAVE_CACHE", str(tmp_path))
    given = ridge_inputs()
    expected = ridge(kernel=False, **given)
    sizes, built = [], []
    compiled = device.compiled
    monkeypatch.setattr(device, "compiled", lambda *of: built.append(of) or compiled(*of))
    for _ in range(3):  # compiled; read; damaged, so compiled again
        monkeypatch.setattr(device, "LOADED", {})
        again = gallery.get("ridge_gd").compile(verify=False)
        close(again(kernel=True, **given), expected, 1e-10)
        (file,) = tmp_path.iterdir()
        sizes.append(file.stat().st_size)
        if len(sizes) == 2:
            file.write_bytes(file.read_bytes()[:-10])
    assert len(built) == 2
    assert len(set(sizes)) == 1


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_a_kernel_runs_on_the_device_of_its_inputs(ridge):
    given = ridge_inputs()
    expected = ridge(kernel=False, **given)
    there = {n: x if isinstance(x, float) else x.to("cuda:1") for n, x in given.items()}
    for _ in range(2):  # the long way, then the short one
        found = ridge(kernel=True, **there)  # while cuda:0 is the current device
        assert found.device == torch.device("cuda:1")
        close(found.to("cuda:0"), expected, 1e-10)
        with pytest.raises(inweave.DivergenceError, match=r"prompts 0, 1, 2 and"):
            ridge(**{**there, "eta": 10.0})
        close(ridge(kernel=True, **given), expected, 1e-10)
    assert torch.cuda.current_device() == 0
