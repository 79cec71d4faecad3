"""Tensors lent to numpy: the same answers, and nothing that torch does beside is missed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import inweave
from inweave import Matrix, gallery
from tests.cases import ridge_gd

torch = pytest.importorskip("torch")


@pytest.fixture
def net() -> inweave.Network:
    return gallery.get("lasso_ista").compile(verify=False, n=6, d=3, steps=4)


@pytest.fixture
def inputs() -> dict[str, Any]:
    given = gallery.get("lasso_ista").example(n=6, d=3, steps=4)
    return {name: torch.as_tensor(value) for name, value in given.items()}


@pytest.fixture
def in_torch(monkeypatch):
    """A function that says whether a call was computed in torch."""
    from inweave.run.libraries import in_torch

    seen = []
    plain = in_torch.OutOfPlace.function

    def function(writer):
        written = plain(writer)
        return lambda *given: seen.append(True) or written(*given)

    monkeypatch.setattr(in_torch.OutOfPlace, "function", function)

    def was(call) -> bool:
        seen.clear()
        call()
        return bool(seen)

    return was


@pytest.mark.parametrize("name", ["gauss_jordan", "gaussian_elimination"])  # a loop; lines
@pytest.mark.parametrize("problems", [80, 600])  # columns of all problems together; problems last
def test_elimination_of_many_is_numpys_own_bit_for_bit_and_solves(problems, name):
    net = gallery.get(name).compile(verify=False, m=6, k=2)
    rng = np.random.default_rng(0)
    F = np.eye(6) + 0.1 * rng.normal(size=(problems, 6, 6))
    B = rng.normal(size=(problems, 6, 2))
    for _ in range(2):
        found = net(F=F, B=B)
        lent = net(F=torch.from_numpy(F), B=torch.from_numpy(B))
        assert torch.equal(lent, torch.from_numpy(found))
        assert np.allclose(found, np.linalg.solve(F, B), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_answers_are_numpys_own_bit_for_bit(net, inputs, dtype):
    tensors = {name: x.to(getattr(torch, dtype)) for name, x in inputs.items()}
    arrays = {name: x.numpy() for name, x in tensors.items()}
    for _ in range(2):  # looked at closely, then the short way
        found = net(**tensors)
        assert torch.equal(found, torch.from_numpy(np.asarray(net(**arrays))))
        assert found.dtype == tensors["X"].dtype
        assert not found.requires_grad


def test_what_is_lent_is_neither_changed_nor_answered_with():
    net = gallery.get("gauss_jordan").compile(verify=False, m=2, k=1)
    given = {
        k: torch.as_tensor(v) for k, v in gallery.get("gauss_jordan").example(m=2, k=1).items()
    }
    before = {name: x.clone() for name, x in given.items()}
    for _ in range(2):
        net(**given)[...] = 0
    assert all(torch.equal(given[name], before[name]) for name in given)


def test_gradients_keep_a_call_in_torch_and_their_absence_does_not(net, inputs, in_torch):
    inputs["X"].requires_grad_()
    for _ in range(2):
        assert in_torch(lambda: net(**inputs))
        with torch.no_grad():
            assert not in_torch(lambda: net(**inputs))
    assert not in_torch(lambda: net(**{name: x.detach() for name, x in inputs.items()}))


def test_many_threads_and_heavy_work_keep_a_call_in_torch(net, inputs, in_torch, monkeypatch):
    monkeypatch.setattr("inweave.run.libraries.lent.HEAVY", 1000)
    many = {name: x.expand(100, *x.shape) for name, x in inputs.items()}
    for threads, batch, expected in ((8, inputs, False), (8, many, True), (2, many, False)):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        for _ in range(2):
            assert in_torch(lambda batch=batch: net(**batch)) == expected


def test_bfloat16_which_numpy_has_not_stays_in_torch(net, inputs):
    found = net(**{name: x.to(torch.bfloat16) for name, x in inputs.items()})
    assert found.dtype == torch.bfloat16


@pytest.mark.filterwarnings("ignore")  # of torch, about itself
def test_tangents_are_followed(net, inputs):
    ahead = torch.autograd.forward_ad
    X, along = inputs.pop("X"), torch.ones(6, 3, dtype=torch.float64)
    net(X=X, **inputs)
    with ahead.dual_level():
        found = ahead.unpack_dual(net(X=ahead.make_dual(X, along), **inputs)).tangent
    _, expected = torch.func.jvp(lambda X: net(X=X, **inputs), (X,), (along,))
    assert torch.allclose(found, expected)
    assert found.abs().max() > 1e-3


@pytest.mark.filterwarnings("ignore")
def test_who_writes_down_operations_sees_them(net, inputs):
    from torch.utils.flop_counter import FlopCounterMode

    X = inputs.pop("X")
    net(X=X, **inputs)
    with FlopCounterMode(display=False) as counter:
        net(X=X, **inputs)
    assert counter.get_total_flops() > 0
    traced = torch.jit.trace(lambda X: net(X=X, **inputs), (X,), check_trace=False)
    assert torch.allclose(traced(2 * X), net(X=2 * X, **inputs))


@pytest.mark.parametrize("optimize", ["faithful", "speed", "depth"])
def test_a_call_in_inference_mode_leaves_gradients_to_later_ones(optimize):
    net = inweave.compile(ridge_gd, n=4, d=3, steps=40, optimize=optimize)
    drawn = torch.manual_seed(0)
    X, y, u = (torch.randn(s, generator=drawn, dtype=torch.float64) for s in ((4, 3), (4,), (3,)))
    lam, eta = 0.1, torch.tensor(0.01, dtype=torch.float64)
    with torch.inference_mode():
        before = net(X=X, y=y, u=u, lam=lam, eta=eta)
    eta = eta.clone().requires_grad_()
    after = net(X=X, y=y, u=u, lam=lam, eta=eta)
    after.sum().backward()
    assert eta.grad is not None
    assert torch.allclose(after, before.clone())


@inweave.program
def spread(X: Matrix["n", "d"]):
    s = (X * X).sum(axis=1)
    return s[:, None] + s[None, :]


@inweave.program
def mirrored(X: Matrix["n", "d"], A: Matrix["d", "n"]):
    return X @ A - (X @ A).T


@inweave.program
def beside(X: Matrix["n", "d"], A: Matrix["d", "n"]):
    P = inweave.hold(X @ A)
    return (P + P.T) * P - P.T


@inweave.program
def overlapping(X: Matrix["n", "d"], A: Matrix["d", "n"]):
    P = inweave.hold(X @ A)
    return P[1:] - P[:-1]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("prompts", [3, 64])
@pytest.mark.parametrize("program", [spread, mirrored, beside, overlapping], ids=lambda x: x.name)
def test_a_value_beside_its_own_transpose_is_not_written_over(program, prompts, dtype):
    rng = np.random.default_rng(0)
    net = inweave.compile(program, optimize="speed", n=40, d=5)
    given = {
        spec.name: rng.normal(size=(prompts, *spec.shape)).astype(dtype) for spec in net.inputs
    }
    each = np.stack([program(**{k: x[i] for k, x in given.items()}) for i in range(prompts)])
    tensors = {name: torch.as_tensor(x) for name, x in given.items()}
    for found in (net(**given), *(net(**tensors).numpy() for _ in range(2))):
        np.testing.assert_allclose(found, each, atol=64 * np.finfo(dtype).eps * abs(each).max())
