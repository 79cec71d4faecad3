"""Single precision is usable: no network loses more than twice what hand-written code loses.

But for inverses that least depth makes geometric sums of: their bar is said in machine precisions.
"""

import numpy as np
import pytest
import torch

import inweave
from benchmarks import precision
from inweave import Scalar, Vector, gallery

pytestmark = pytest.mark.usefixtures("unchecked_passes", "compiled_once")


@pytest.mark.parametrize("entry", gallery.entries(), ids=lambda entry: entry.name)
def test_a_network_is_not_twice_as_far_off_in_float32_as_the_same_algorithm_by_hand(entry):
    for mode, network in precision.networks(entry).items():
        found = precision.errors(entry, network)
        assert found["network"] <= precision.most(entry.name, mode, found), (mode, found)


@pytest.mark.parametrize("entry", gallery.entries(), ids=lambda entry: entry.name)
def test_float32_in_means_float32_out(entry):
    network = entry.compile(verify=False)  # at its own domains: no entry is for float64 only
    answer = network(**precision.single(entry, 0))
    parts = answer.values() if isinstance(answer, dict) else [answer]
    assert {np.asarray(part).dtype for part in parts} == {np.dtype(np.float32)}


def test_a_table_that_float32_cannot_hold_is_refused_and_not_wrong():
    entry = gallery.get("conjugate_gradient")
    network = entry.compile(verify=False, domain=(1e-20, 1e6))
    with pytest.raises(
        inweave.DTypeError, match=r"reciprocal over \[1e-20.* more than float32 holds"
    ):
        network(**precision.single(entry, 0))


@pytest.mark.parametrize("optimize", ["faithful", "speed", "depth"])
@pytest.mark.parametrize(("rate", "steps"), [(0.11, 28), (0.11, 33), (1e-3, 10), (0.5, 60)])
def test_a_loop_that_is_written_out_and_shrinks_is_as_in_python(rate, steps, optimize):
    """Its network has coefficients around 1e-30, its steps have none."""

    @inweave.program
    def shrinking(q: Vector["n"], y: Vector["n"], g: Scalar):
        M = inweave.ones(3)
        for _ in range(steps):
            M = rate * M + rate * y * (q @ M)
        return g * M

    network = inweave.compile(shrinking, n=3, optimize=optimize, verify=False)
    q, y = np.float32([0.0377, -0.0396, 0.1921]), np.float32([0.0315, -0.1607, 0.1085])
    M = np.ones(3)
    for _ in range(steps):
        M = rate * M + rate * y.astype(float) * (q.astype(float) @ M)
    few = 2e-7 * steps  # three roundings a step
    for g in (1.0, 1e20):
        for convert in (np.asarray, torch.tensor):
            found = network(q=convert(q), y=convert(y), g=g)
            assert str(found.dtype).endswith("float32")
            np.testing.assert_allclose(found, g * M, rtol=few, atol=1e-38)
        several = network(q=np.stack([q, q]), y=y, g=np.float32(g))
        np.testing.assert_allclose(several[1], g * M, rtol=few, atol=1e-38)


def test_what_is_computed_in_float64_is_mapped_and_differentiated_like_anything():
    """Where no value can be looked at, nothing is."""

    @inweave.program
    def shrinking(q: Vector["n"]):
        M = q
        for _ in range(12):
            M = 1e-3 * M + 1e-3 * q * (q @ M)
        return 1e30 * M

    network = inweave.compile(shrinking, n=3, verify=False)
    assert network.plan._is_far
    q = torch.tensor([[0.3, -0.2, 0.1], [0.1, 0.2, 0.3]], requires_grad=True)
    mapped = torch.func.vmap(lambda one: network(q=one))(q.detach())
    assert mapped.dtype == torch.float32
    torch.testing.assert_close(mapped, network(q=q.detach()), rtol=1e-6, atol=0)
    (slope,) = torch.autograd.grad(network(q=q).sum(), q)
    wide = q.detach().double().requires_grad_()
    (expected,) = torch.autograd.grad(network(q=wide).sum(), wide)
    torch.testing.assert_close(slope, expected.float(), rtol=1e-6, atol=0)


def test_an_answer_that_float32_has_no_room_for_is_refused_as_ever():
    @inweave.program
    def large(q: Vector["n"]):
        M = q
        for _ in range(60):
            M = 0.1 * M
        return 1e60 * 1e30 * (M + q)

    network = inweave.compile(large, n=2, verify=False)
    with pytest.raises(inweave.DivergenceError):
        network(q=np.float32([1, 2]))


def test_a_constant_threshold_is_its_two_units_to_the_last_digit():
    """Also in place, in loops, and at the threshold itself."""

    @inweave.program
    def thresholded(x: Vector["n"]):
        return inweave.iterate(lambda w: inweave.soft_threshold(1.5 * w + x, 0.1), x, 5)

    network = inweave.compile(thresholded, n=7, verify=False)
    rng = np.random.default_rng(0)
    for dtype in (np.float64, np.float32):
        x = np.concatenate([[0.0, -0.0, 0.1, -0.1], rng.normal(size=3)]).astype(dtype)
        for given in (x, np.stack([x, -x])):
            w, t = given, dtype(0.1)
            for _ in range(5):
                v = dtype(1.5) * w + given
                w = np.maximum(v - t, 0) - np.maximum(-v - t, 0)
            np.testing.assert_array_equal(network(x=given), w)
            np.testing.assert_array_equal(network(x=torch.tensor(given)).numpy(), w)
