"""A network that runs as one adds to a stream of floats; exports say where digits are lost so."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest
import torch

import inweave
from inweave import Matrix, Vector
from inweave.proof.floats import densely, stream_difference

pytestmark = pytest.mark.usefixtures("unchecked_passes")
STEPS = 27


def _step(w, v, A, u, kept=Fraction(1, 10)):
    return kept * w + Fraction(3, 10) * (A @ v), Fraction(1, 10) * (u * (u @ w))


def _other_step(w, v, A, u, kept):
    """The same, put together otherwise."""
    return Fraction(3, 10) * (A @ v) + kept * w, Fraction(1, 10) * (u * (u @ w))


def _steps():
    """What each step keeps of w, and how it is put together: nothing comes three times in a row.

    That is the sequence of Thue and Morse, in which no loop is found.
    """
    ways = (_step, _other_step)
    return [(Fraction(100 - i, 1000), ways[i.bit_count() % 2]) for i in range(STEPS)]


@inweave.program
def written_out(A: Matrix["n", "n"], y: Vector["n"], u: Vector["n"]):
    w, v = y, inweave.zeros(3)
    for kept, step in _steps():
        w, v = step(w, v, A, u, kept)
    return v


@inweave.program
def step_by_step(A: Matrix["n", "n"], y: Vector["n"], u: Vector["n"]):
    start = (y, inweave.zeros(3))
    return inweave.iterate(lambda w, v: _step(w, v, A, u), start, STEPS)[1]


@pytest.fixture(scope="module")
def decaying():
    return inweave.compile(written_out, n=3, verify=False)


@pytest.fixture
def data():
    rng = np.random.default_rng(5)
    return {"A": rng.normal(size=(3, 3)) / 2, "y": rng.normal(size=3), "u": rng.normal(size=3) / 2}


def _exact(data, steps):
    """The loop in rationals: what the floats that went in stand for."""
    A, y, u = (np.vectorize(Fraction)(data[name]) for name in "Ayu")
    w, v = y, np.array([Fraction(0)] * 3)
    for kept, step in steps:
        w, v = step(w, v, A, u, kept)
    return v.astype(float)


def _off(found, expected):
    return np.abs(np.asarray(found) - expected).max() / np.abs(expected).max()


def test_what_runs_as_a_network_says_that_its_digits_are_lost(decaying, data, tmp_path):
    """And is right to: the answers of the module are off, those of the network are not."""
    with pytest.warns(UserWarning, match=r"net\.to_torch in float64.*off by 1 of"):
        module = decaying.to_torch()
    with pytest.warns(UserWarning, match=r"net\.to_onnx in float32.*inweave\.iterate"):
        decaying.to_onnx(tmp_path / "model.onnx")
    with pytest.warns(UserWarning, match=r"net\.to_jax in float32"):
        decaying.to_jax("float32")
    expected = _exact(data, _steps())
    assert _off(module(**data), expected) > 0.1
    assert _off(decaying(**data), expected) < 1e-13


def test_what_goes_step_by_step_says_nothing(data):
    """As it loses nothing; other networks of the suite are exported with warnings as errors."""
    network = inweave.compile(step_by_step, n=3, verify=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module = network.to_torch()
    expected = _exact(data, STEPS * [(Fraction(1, 10), _step)])
    assert _off(module(**data), expected) < 1e-12


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_difference_is_that_of_the_numbers(decaying, dtype):
    """By definition and by torch it is the same, and a wrong answer of a known size is seen."""
    kept = inweave.compile(step_by_step, n=3, verify=False)
    by_definition = densely(kept, dtype)
    assert stream_difference(kept.plan, by_definition) < {"float64": 1e-13, "float32": 1e-4}[dtype]
    wrong = stream_difference(kept.plan, lambda inputs: by_definition(inputs) * 1.25)
    assert wrong == pytest.approx(0.25, rel=1e-3)
    assert stream_difference(decaying.plan, densely(decaying, dtype)) > 0.1


def test_what_takes_long_is_not_compared_and_what_is_no_number_is_far_off(decaying):
    called = []
    large = inweave.compile(step_by_step, n=3, verify=False)
    many = inweave.Network(
        large.layout,
        tuple(inweave.Module(m.body, m.repeat * 10**6, m.skip) for m in large.modules),
        large.inputs, large.fills, large.outputs,
    )  # fmt: skip
    assert stream_difference(many.plan, called.append) is None
    assert not called
    overflowing = stream_difference(decaying.plan, lambda _: np.full(3, np.nan))
    assert overflowing == np.inf


def test_an_export_that_overflows_where_the_network_does_not_says_so():
    @inweave.program
    def grown_back(q: Vector["n"], y: Vector["n"]):
        M = inweave.ones(3)
        for i in range(28):
            M = 0.11 * (M + (1 + i / 1024) * y * (q @ M))
            M = M[::-1] if i.bit_count() % 2 else M  # no loop: steps never repeat thrice
        return 2.0**88 * M

    network = inweave.compile(grown_back, n=3, verify=False)
    with pytest.warns(UserWarning, match=r"net\.to_torch in float32.*off by inf"):
        network.to_torch(dtype=torch.float32)


def test_shorter_floats_are_exported_and_not_compared(decaying):
    """They have no digits to lose, and numpy has no bfloat16 to compare with."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert decaying.to_torch(dtype=torch.bfloat16).dtype == torch.bfloat16
        assert decaying.to_jax("bfloat16")
