"""Division by values of a known range is numpy's, to machine precision, or is refused."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inweave
from inweave import Matrix, Scalar, Vector

ULP = 2.0**-52


def within(net, expected, rtol=4 * ULP, **inputs):
    np.testing.assert_allclose(net(**inputs), expected, rtol=rtol)
    np.testing.assert_allclose(net(**inputs, check=False), expected, rtol=2 * rtol)


@settings(max_examples=15)
@given(st.floats(-20, 20), st.floats(0.1, 12), st.sampled_from([1, -1]), st.integers(0, 99))
def test_a_quotient_is_right_to_a_few_units_in_the_last_place(at, decades, sign, seed):
    """Both as a run divides, and as the network's own layers do."""
    low, high = 10.0**at, 10.0 ** (at + decades)
    ends = (low, high) if sign > 0 else (-high, -low)

    @inweave.program
    def quotient(x: Vector["n"], s: Scalar):
        return x / inweave.assume(s, *ends)

    rng = np.random.default_rng(seed)
    x, s = rng.normal(size=3), sign * np.exp(rng.uniform(np.log(low), np.log(high)))
    within(inweave.compile(quotient, n=3), x / s, x=x, s=s)


@settings(max_examples=10)
@given(st.floats(-20, 20), st.floats(0.1, 6), st.integers(0, 99))
def test_a_divisor_may_have_either_sign(at, decades, seed):
    low, high = 10.0**at, 10.0 ** (at + decades)

    @inweave.program
    def quotient(x: Vector["n"], v: Vector["n"]):
        return x / inweave.assume(v, low, high, either_sign=True)

    rng = np.random.default_rng(seed)
    v = rng.choice([-1, 1], size=4) * np.exp(rng.uniform(np.log(low), np.log(high), size=4))
    x = rng.normal(size=4)
    within(inweave.compile(quotient, n=4), x / v, rtol=8 * ULP, x=x, v=v)


@inweave.program
def pieces(A: Matrix["n", "m"], B: Matrix["n", "m"]):
    known = inweave.assume(B, 0.5, 2)
    return {
        "row": A / known[0],
        "column": A / inweave.assume(B[:, 0], 0.5, 2)[:, None],
        "transposed": A.T / known.T,
        "number": A / known[-1, 0],
        "vector": A.reshape(-1) / known.reshape(-1),
    }


def test_a_part_of_what_is_known_to_be_in_a_range_is_in_it():
    rng = np.random.default_rng(0)
    A, B = rng.uniform(0.5, 2, size=(2, 3, 4))
    answers = inweave.compile(pieces, n=3, m=4)(A=A, B=B)
    expected = {
        "row": A / B[0], "column": A / B[:, :1], "transposed": A.T / B.T, "number": A / B[-1, 0],
        "vector": (A / B).reshape(-1),
    }  # fmt: skip
    for name, value in expected.items():
        np.testing.assert_allclose(answers[name], value, rtol=1e-14)


@inweave.program
def shapes(A: Matrix["n", "m"], z: Vector["m"], B: Matrix["n", "m"], s: Scalar):
    rows = inweave.assume(A[:, :1], 0.5, 2)
    return {
        "along rows": A / inweave.assume(z, 0.5, 2),
        "along columns": A / rows,
        "entries": A / inweave.assume(B, 0.5, 2),
        "of a scalar": s / inweave.assume(z, 0.5, 2),
        "of a number": 3 / inweave.assume(A, 0.5, 2),
        "by constants": A / np.arange(1, A.shape[1] + 1),
    }


@pytest.mark.parametrize("target", ["elsa", "lsa"])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 3), (3, 1)])
def test_quotients_broadcast_as_numpys_do(target, n, m):
    rng = np.random.default_rng(n)
    A, B, z = (rng.uniform(0.5, 2, size=size) for size in ((n, m), (n, m), m))
    expected = {
        "along rows": A / z, "along columns": A / A[:, :1], "entries": A / B, "of a scalar": 5 / z,
        "of a number": 3 / A, "by constants": A / np.arange(1, m + 1),
    }  # fmt: skip
    found = inweave.compile(shapes, target=target, n=n, m=m)(A=A, B=B, z=z, s=5.0)
    for name, value in expected.items():
        assert np.shape(found[name]) == value.shape, name
        np.testing.assert_allclose(found[name], value, rtol=4 * ULP)


@inweave.program
def annotated(x: Vector["n"], s: Annotated[Scalar, inweave.Range(0.5, 2)]) -> Vector["n"]:
    return x / s


def test_an_annotation_says_the_range_of_an_argument():
    net = inweave.compile(annotated, n=2)
    np.testing.assert_array_equal(net(x=[1.0, 3.0], s=2.0), [0.5, 1.5])
    with pytest.raises(inweave.DomainError, match=r"got 2\.5 .* domain is \[0\.5, 2\]"):
        net(x=[1.0, 3.0], s=2.5)


@pytest.mark.parametrize(("value", "is_inside"), [(-2.0, True), (0.4, False), (-2.1, False)])
def test_a_divisor_of_either_sign_is_checked_by_its_size(value, is_inside):
    @inweave.program
    def quotient(s: Scalar):
        return 1 / inweave.assume(s, 0.5, 2, either_sign=True)

    net = inweave.compile(quotient)
    if is_inside:
        assert float(net(s=value)) == 1 / value
    else:
        with pytest.raises(inweave.DomainError):
            net(s=value)


@inweave.program
def power_iteration(B: Matrix["n", "n"], x: Vector["n"], *, steps: int):
    def step(v):
        w = B @ v
        return w / inweave.assume(inweave.sqrt(inweave.assume(w @ w, 1e-4, 1e4)), 1e-2, 1e2)

    return inweave.iterate(step, x, steps)


def test_a_loop_divides_in_every_step():
    """Normalised power iteration, for which a polynomial would need a degree of 3^steps."""
    rng = np.random.default_rng(0)
    B = np.cov(rng.normal(size=(4, 50)))
    found = inweave.compile(power_iteration, n=4, steps=60)(B=B, x=np.ones(4) / 2)
    top = np.linalg.eigh(B)[1][:, -1]
    np.testing.assert_allclose(found, power_iteration(B=B, x=np.ones(4) / 2, steps=60), rtol=1e-12)
    assert abs(found @ top) == pytest.approx(1, abs=1e-4)


# -- functions -------------------------------------------------------------------------------------
FUNCTIONS = {
    "exp": (np.exp, st.floats(-50, 50), "relative"),
    "tanh": (np.tanh, st.floats(-50, 50), "absolute"),
    "log": (np.log, st.floats(1e-6, 1e3), "absolute"),
    "sqrt": (np.sqrt, st.floats(1e-6, 1e3), "relative"),
}


@settings(max_examples=20)
@given(st.sampled_from(sorted(FUNCTIONS)), st.data(), st.sampled_from([0.1, 1e-2, 1e-4]))
def test_a_function_is_numpys_to_the_error_that_was_asked_for(name, data, error):
    true, numbers, kind = FUNCTIONS[name]
    low = data.draw(numbers)
    high = low + data.draw(st.floats(0.01, 10))

    @inweave.program
    def applied(x: Vector["n"]):
        return getattr(inweave, name)(inweave.assume(x, low, high), error=error)

    x = np.linspace(low, high, 50)
    gap = np.abs(inweave.compile(applied, n=50, verify=False)(x=x) - true(x))
    assert np.max(gap / np.abs(true(x)) if kind == "relative" else gap) <= error
    np.testing.assert_allclose(applied(x=x), true(x), rtol=1e-12)


@settings(max_examples=15)
@given(
    st.floats(-5, 0), st.floats(0.1, 8), st.sampled_from([0.5, 1e-2, 1e-3]), st.integers(1, 4),
    st.sampled_from([0, 1]), st.integers(0, 99),
)  # fmt: skip
def test_a_softmax_is_right_to_the_error_that_its_certificate_states(
    low, width, error, n, axis, seed
):
    @inweave.program
    def weights(A: Matrix["n", 3]):
        return inweave.softmax(A, axis, domain=(low, low + width), error=error)

    net = inweave.compile(weights, n=n)
    (note,) = [note for note in net.certificate.functions if "softmax" in note]
    stated = float(note.rpartition("error of softmax at most ")[2])
    A = np.random.default_rng(seed).uniform(low, low + width, size=(n, 3))
    true = np.exp(A) / np.exp(A).sum(axis=axis, keepdims=True)
    assert np.max(np.abs(net(A=A) / true - 1)) <= stated <= error
