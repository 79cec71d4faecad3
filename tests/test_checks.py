"""`net(...)` refuses silently wrong answers: domains that were left, iterations that blow up."""

from __future__ import annotations

import re

import numpy as np
import pytest

import inweave
from inweave import Matrix, Scalar, Vector
from tests.cases import ridge_gd


@inweave.program
def inverse(p: Scalar) -> Scalar:
    return inweave.reciprocal(p, domain=(0.5, 4.0))


@inweave.program
def eliminate(F: Matrix["m", "m"], b: Vector["m"]) -> Vector["m"]:
    m = F.shape[0]
    first, turn = np.eye(m)[:, :1], np.roll(np.eye(m), -1, axis=0)
    columns = np.eye(m + 1)
    columns[:m, :m] = turn.T

    def step(P):
        r = inweave.reciprocal(P[0, 0], domain=(1e-2, 1e2))
        P = inweave.hold(P - (P[:, 0:1] - first) * r @ P[0:1, :])
        return turn @ P @ columns

    return inweave.iterate(step, inweave.hstack([F, b]), m)[:, m]


def test_a_value_inside_the_domain_passes_and_its_ends_too():
    net = inweave.compile(inverse)
    assert net(p=0.5) == pytest.approx(2.0, rel=1e-12)
    assert net(p=4.0) == pytest.approx(0.25, rel=1e-12)


@pytest.mark.parametrize("p", [0.4, 4.1, -1.0])
def test_a_value_outside_the_domain_is_refused_with_value_layer_and_domain(p):
    net = inweave.compile(inverse)
    with pytest.raises(inweave.DomainError, match=rf"reciprocal got {p:g}.*layer 1.*\[0.5, 4\]"):
        net(p=p)


def test_one_bad_entry_of_a_batch_is_found():
    net = inweave.compile(inverse)
    with pytest.raises(inweave.DomainError, match="reciprocal got 9"):
        net(p=np.array([1.0, 2.0, 9.0]))


def test_check_false_lets_the_network_saturate():
    net = inweave.compile(inverse)
    at_end, beyond = net(p=4.0), net(p=40.0, check=False)
    assert np.isfinite(beyond)
    assert beyond != pytest.approx(1 / 40.0)
    assert at_end == pytest.approx(0.25)


def test_a_singular_system_says_which_pivot():
    net = inweave.compile(eliminate, m=3)
    F = np.array([[2.0, 1.0, 0.0], [1.0, 0.5, 0.0], [0.0, 0.0, 1.0]])
    with pytest.raises(inweave.DomainError, match=r"module 1, step 1, "):
        net(F=F, b=np.ones(3))


def test_an_indefinite_system_says_which_pivot():
    net = inweave.compile(eliminate, m=2)
    with pytest.raises(inweave.DomainError, match=r"got -3.* step 1, .*not positive definite"):
        net(F=np.array([[1.0, 2.0], [2.0, 1.0]]), b=np.ones(2))


@inweave.program
def nested(a: Vector["n"], s: Scalar, *, outer: int, inner: int) -> Vector["n"]:
    """A function of each entry inside a loop inside a loop, and a reciprocal in the outer one."""

    def step(x, t):
        for _ in range(2):
            x = inweave.hold(inweave.iterate(lambda z: inweave.relu(z) + a, x, inner))
        x = inweave.iterate(lambda z: 2 * half(z) + a, x, inner)
        return x, t + inweave.reciprocal(t, domain=(0.1, 3.0))

    x, t = inweave.iterate(step, (a, s), outer)
    return x + t * a


half = inweave.pointwise(lambda x: 0.5 * x, (-40.0, 40.0), 1e-3, "half")


def by_definition(net, **inputs):
    """The first layer, in the order of the network, that leaves a domain: by the dense executor."""
    for step in net.trace(**inputs):
        for place, function in getattr(step.layer, "applied", ()):
            x = place.read(net.layout, step.before)
            if function.domain and not (
                function.domain[0] <= x.min() and x.max() <= function.domain[1]
            ):
                return f"{step.name}, block {place.block!r}"
    return None


def said(net, **inputs):
    """The layer that the error names; None if there is no error."""
    try:
        net(**inputs)
    except inweave.DomainError as error:
        return re.search(r" at (.*?); its domain", str(error))[1]
    return None


@pytest.mark.parametrize("mode", ["faithful", "speed", "depth"])
def test_the_layer_that_is_named_is_the_one_of_the_definition(mode):
    net = inweave.compile(nested, optimize=mode, n=3, outer=4, inner=3)
    cases = [(0.1, 1.0), (0.1, 3.5), (0.1, 0.5), *((size, 1.0) for size in (2.2, 3, 4.7, 5.3, 9))]
    found = set()
    for size, s in cases:
        inputs = {"a": size * np.array([0.5, 1.0, 0.7]), "s": s}
        expected = by_definition(net, **inputs)
        assert said(net, **inputs) == expected
        found.add(expected)
    assert None in found
    assert len(found) == len(cases)


@pytest.mark.parametrize("bad", range(4))
def test_every_pivot_of_an_elimination_is_named_by_its_step(bad):
    net = inweave.compile(eliminate, m=4)
    F = np.diag([1.0, 1.0, 1.0, 1.0])
    F[bad, bad] = 1e-5
    inputs = {"F": F, "b": np.ones(4)}
    assert f"step {bad}," in said(net, **inputs)
    assert said(net, **inputs) == by_definition(net, **inputs)
    batch = {"F": np.stack([np.eye(4), F]), "b": np.ones(4)}
    assert said(net, **batch) == said(net, **inputs)


def test_two_functions_of_one_layer_are_told_apart_by_their_blocks():
    @inweave.program
    def pair(p: Scalar, q: Scalar) -> Scalar:
        return inweave.reciprocal(p, domain=(1, 2)) + inweave.reciprocal(q, domain=(1, 2))

    net = inweave.compile(pair)
    assert said(net, p=1.0, q=3.0) != said(net, p=3.0, q=1.0)
    for inputs in ({"p": 1.0, "q": 3.0}, {"p": 3.0, "q": 1.0}):
        assert said(net, **inputs) == by_definition(net, **inputs)


@inweave.program
def scaled(X: Matrix["d", "n"], s: Scalar) -> Matrix["d", "n"]:
    return inweave.iterate(lambda Z: inweave.reciprocal(s, domain=(1, 2)) * Z, X, 3)


def test_a_prompt_too_wide_to_be_written_out_densely_is_located_too():
    small = inweave.compile(scaled, d=2, n=3)
    wide = inweave.compile(scaled, d=2, n=20_000, verify=False)
    assert wide.width > 20_000
    expected = by_definition(small, X=np.ones((2, 3)), s=3.0)
    assert expected is not None
    assert said(wide, X=np.ones((2, 20_000)), s=3.0) == expected


@pytest.mark.parametrize("mode", ["faithful", "speed", "depth"])
def test_divergence_names_the_step_the_factor_and_the_largest_stable_eta(mode):
    rng = np.random.default_rng(0)
    X, y, u = rng.standard_normal((20, 4)), rng.standard_normal(20), rng.standard_normal(4)
    net = inweave.compile(ridge_gd, optimize=mode, n=20, d=4, steps=60)
    with pytest.raises(inweave.DivergenceError) as caught:
        net(X=X, y=y, u=u, lam=1.0, eta=0.2)
    top = np.linalg.eigvalsh(X.T @ X + np.eye(4))[-1]
    text = str(caught.value)
    factor = float(re.search(r"factor of ([\d.]+)", text)[1])
    stable = float(re.search(r"largest stable eta here is ([\d.e-]+)", text)[1])
    assert factor == pytest.approx(0.2 * top - 1, rel=1e-2)
    assert stable == pytest.approx(2 / top, rel=1e-3)
    assert "at step" in text
    assert abs(float(net(X=X, y=y, u=u, lam=1.0, eta=0.2, check=False))) > 1e8


def test_a_stable_iteration_is_left_alone_just_below_the_limit():
    rng = np.random.default_rng(0)
    X, y, u = rng.standard_normal((20, 4)), rng.standard_normal(20), rng.standard_normal(4)
    net = inweave.compile(ridge_gd, n=20, d=4, steps=60)
    eta = 1.99 / np.linalg.eigvalsh(X.T @ X + np.eye(4))[-1]
    assert np.isfinite(net(X=X, y=y, u=u, lam=1.0, eta=eta))


def test_a_large_but_honest_answer_is_not_called_divergence():
    @inweave.program
    def cube(s: Scalar) -> Scalar:
        return s * s * s

    assert inweave.compile(cube)(s=1e5) == pytest.approx(1e15)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_value_that_no_answer_reads_must_be_finite_too(bad):
    @inweave.program
    def top(A: Matrix["n", "n"]):
        return A[:1, :]

    A = np.eye(3)
    A[2, 2] = bad
    with pytest.raises(inweave.InputError, match="'A' holds NaN or infinity"):
        inweave.compile(top, n=3)(A=A)


# -- jax ------------------------------------------------------------------------------------------
@inweave.program
def first_inverse(v: Vector["n"]) -> Scalar:
    return inweave.reciprocal(v, domain=(0.5, 4.0), error=1e-3)[0, 0]


@pytest.fixture
def jax():
    module = pytest.importorskip("jax")
    with module.enable_x64(True):
        yield module


def test_outside_transformations_jax_is_refused_in_the_same_words_as_numpy(jax):
    net = inweave.compile(eliminate, m=3)
    F = np.array([[2.0, 1.0, 0.0], [1.0, 0.5, 0.0], [0.0, 0.0, 1.0]])
    for wrong in (F, np.stack([np.eye(3), F])):
        errors = []
        for xp in (np, jax.numpy):
            with pytest.raises(inweave.DomainError) as caught:
                net(F=xp.asarray(wrong), b=xp.ones(3))
            errors.append(str(caught.value))
        assert errors[0] == errors[1]
    good = net(F=jax.numpy.eye(3), b=jax.numpy.ones(3))
    np.testing.assert_allclose(good, np.ones(3), rtol=1e-12)


def test_an_entry_that_no_answer_reads_is_refused_by_numpy_and_by_jax(jax):
    net = inweave.compile(first_inverse, n=2)
    for xp in (np, jax.numpy):
        with pytest.raises(inweave.DomainError, match="reciprocal got 9"):
            net(v=xp.asarray([1.0, 9.0]))


def test_inside_jit_an_answer_is_nan_where_a_domain_was_left_and_only_there(jax):
    net = inweave.compile(eliminate, m=2)
    good, bad = np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([[1.0, 2.0], [2.0, 1.0]])
    F, b = jax.numpy.asarray(np.stack([good, bad, 3 * good])), jax.numpy.ones(2)
    for run in (
        jax.jit(lambda F: net(F=F, b=b)),
        jax.vmap(lambda F: net(F=F, b=b)),
        jax.jit(jax.vmap(lambda F: net(F=F, b=b))),
    ):
        found = np.asarray(run(F))
        assert np.isnan(found).all(axis=1).tolist() == [False, True, False]
        np.testing.assert_allclose(found[0], np.linalg.solve(good, np.ones(2)), rtol=1e-11)
        np.testing.assert_allclose(found[2], np.linalg.solve(3 * good, np.ones(2)), rtol=1e-11)


def test_inside_jit_check_false_lets_the_network_saturate(jax):
    net = inweave.compile(inverse)
    assert np.isnan(jax.jit(lambda p: net(p=p))(40.0))
    found = jax.jit(lambda p: net(p=p, check=False))(40.0)
    np.testing.assert_allclose(found, net(p=40.0, check=False), rtol=1e-12)


def test_gradients_inside_the_domain_are_those_of_a_division_checked_or_not(jax):
    net = inweave.compile(inverse)
    for p in (0.6, 1.7, 3.9):
        assert abs(jax.grad(lambda p: net(p=p))(p) * p * p + 1) < 1e-15
        unchecked = jax.grad(lambda p: net(p=p, check=False))(p)
        assert abs(unchecked * p * p + 1) < 1e-12  # Newton's steps, the last one's derivative


@inweave.program
def tabled(p: Scalar) -> Scalar:
    return inweave.exp(p, domain=(0.5, 4.0), error=1e-3)


@pytest.mark.parametrize("program", [inverse, tabled])
def test_where_an_answer_is_nan_its_gradient_is_too(program, jax):
    net = inweave.compile(program)
    for p in (0.1, 9.0):
        assert np.isnan(jax.grad(lambda p: net(p=p) ** 2)(p))
        assert np.isnan(jax.grad(lambda p: net(p=p))(p))


def test_an_overflow_in_jax_is_divergence_and_not_a_domain(jax):
    rng = np.random.default_rng(0)
    X, y, u = (jax.numpy.asarray(rng.standard_normal(s)) for s in ((20, 4), 20, 4))
    net = inweave.compile(ridge_gd, n=20, d=4, steps=2000)
    with pytest.raises(inweave.DivergenceError):
        net(X=X, y=y, u=u, lam=1.0, eta=5.0)


@pytest.mark.parametrize("optimize", ["faithful", "speed", "depth"])
@pytest.mark.parametrize("steps", [30, 100])
def test_what_grows_at_first_and_settles_is_an_answer_and_what_goes_on_is_not(optimize, steps):
    """A loop along a chain of six large factors ends at 4e11, and stays there."""

    @inweave.program
    def chain(A: inweave.Matrix["n", "n"], b: inweave.Vector["n"], *, steps: int):
        return inweave.iterate(lambda x: A @ x + b, inweave.zeros(A.shape[0]), steps)

    n, b = 6, np.ones(6)
    net = inweave.compile(chain, n=n, steps=steps, optimize=optimize)
    A = 0.5 * np.eye(n) + 90.0 * np.eye(n, k=1)
    np.testing.assert_allclose(net(A=A, b=b), chain(A=A, b=b, steps=steps), rtol=1e-12)
    with pytest.raises(inweave.DivergenceError, match="grows by a factor of"):
        net(A=3.0 * np.eye(n) + np.eye(n, k=1), b=b)
