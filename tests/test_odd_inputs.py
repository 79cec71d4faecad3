"""What nobody should hand over is refused in words, and the words are true."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import inweave
from inweave import (
    DivergenceError,
    DomainError,
    DTypeError,
    InputError,
    Matrix,
    ProgramError,
    Scalar,
    ShapeError,
    Vector,
    VerificationError,
)


@inweave.program
def scaled(x: Vector["n"], s: Scalar):
    return x * s - s * s * x


@inweave.program
def gram(X: Matrix["n", "d"]):
    return X.T @ X


@pytest.fixture(scope="module")
def network():
    return inweave.compile(scaled, n=2)


def of_constant(constant):
    @inweave.program
    def program(x: Vector["n"]):
        return x + inweave.constant(constant) * inweave.ones(2)

    return program


SINGLE = np.ones(2, dtype=np.float32)
REFUSED = {
    "a number beyond float32": (lambda net: net(x=SINGLE, s=1e39), InputError, "beyond float32"),
    "an array beyond float32": (
        lambda net: net(x=SINGLE, s=np.array(1e39)), InputError, "beyond float32"),
    "infinity": (lambda net: net(x=SINGLE, s=np.inf), InputError, "NaN or infinity"),
    "a huge int": (lambda net: net(x=SINGLE, s=10**400), InputError, "beyond float32"),
    "a list of huge ints": (lambda _: gram(X=[[10**400]]), InputError, "beyond float64"),
    "rows of different lengths": (lambda _: gram(X=[[1, 2], [3]]), ShapeError, "lengths"),
    "a function for a program": (
        lambda net: inweave.verify(len, net), InputError, "needs a program .* builtin_function"),
    "nothing for a network": (
        lambda _: inweave.verify(scaled, None), InputError, "needs a network, got a NoneType"),
    "NaN in a program": (
        lambda _: of_constant(np.nan).trace(n=2), InputError, "finite number, got nan .at test"),
    "infinity in an array": (
        lambda _: of_constant([np.inf]).trace(n=2), InputError, "NaN or infinity; .*at test_odd"),
    "a complex array": (
        lambda _: of_constant(np.array([1j])).trace(n=2), DTypeError, "real numbers.*at test_odd"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_odd_inputs_are_refused_in_words(network, name):
    call, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        call(network)


def test_a_tensor_without_values_is_refused(network):
    torch = pytest.importorskip("torch")
    for called in (scaled, network):
        with pytest.raises(InputError, match="holds no values"):
            called(x=torch.ones(2, device="meta"), s=1.0)


def test_a_static_argument_cannot_have_the_name_of_a_size():
    with pytest.raises(ProgramError, match="names a size and a static argument"):

        @inweave.program
        def program(x: Vector["n"], *, n: int):
            return n * x


@given(st.floats(1e155, 1.7e308))
def test_an_overflow_is_not_silent_however_large_the_inputs_are(s):
    with np.errstate(all="ignore"), pytest.raises(DivergenceError, match="overflowed"):
        inweave.compile(scaled, n=2, verify=False)(x=np.ones(2), s=s)


@inweave.program
def inverse(x: Scalar, *, low: float, high: float):
    return inweave.reciprocal(x, domain=(low, high))


@given(st.floats(0.1, 10), st.integers(1, 8))
def test_a_value_outside_a_domain_is_told_from_its_ends(low, digits):
    high = low * (1 + 10.0**-digits)
    x = high * (1 + 10.0 ** -(digits - 1) if digits > 1 else 2)
    with pytest.raises(DomainError) as error:
        inweave.compile(inverse, low=low, high=high, verify=False)(x=x)
    got, ends = re.search(r"got (\S+) at .*\[(.*)\]", str(error.value)).groups()
    assert float(got) == x
    assert [float(end) for end in ends.split(", ")] == [low, high]


def test_equal_functions_that_are_written_differently_are_not_said_to_differ():
    @inweave.program
    def one(x: Vector["n"]):
        return inweave.abs(x)

    @inweave.program
    def other(x: Vector["n"]):
        return inweave.relu(x) + inweave.relu(-x)

    with pytest.raises(VerificationError, match="were not found equal") as error:
        inweave.verify(one, inweave.compile(other, n=2))
    assert "differ" not in str(error.value)
    with pytest.raises(VerificationError, match="differ"):
        inweave.verify(scaled, inweave.compile(negated, n=2))


@inweave.program
def negated(x: Vector["n"], s: Scalar):
    return s * s * x - x * s


@inweave.program
def by_entry(x: Vector["n"], *, at: int):
    return x[at] * x


@pytest.mark.parametrize("target", ["elsa", "lsa"])
def test_a_head_that_reads_some_rows_of_a_block_is_told_from_one_that_reads_all(target):
    told = {
        (n, at): str(inweave.compile(by_entry, n=n, at=at, target=target)).split("\n\n")[1]
        for n, at in [(1, 0), (3, 0), (3, 1), (3, 2)]
    }
    assert told[1, 0].endswith("  x x → answer")
    assert told[3, 0].endswith("  x x[0:1, :] → answer")
    assert len(set(told.values())) == 4


def test_a_table_without_a_domain_is_named_in_the_certificate():
    from inweave.language.recorded import STATED
    from inweave.model.relunet import ABS, RELU, Function, ReluNet

    table = Function("tanh", ReluNet((1.0,), (0.0,), (0.5,)), evidence=STATED)
    assert table.note() == "tanh: a table of 1 units without a domain, as stated in the file"
    assert RELU.note() == ABS.note() == ""


# -- what hunters found ----------------------------------------------------------------------------
def test_an_answer_that_no_input_changes_has_their_batch_axes():
    @inweave.program
    def ones(x: Vector["n"], y: Vector["n"]):
        return x**0, y @ y

    with pytest.warns(UserWarning, match="does not use its input"):
        net = inweave.compile(ones, n=3)
    for _ in range(2):  # the long way and the short one
        first, second = net(x=np.ones((5, 3)), y=np.ones(3))
        assert first.shape == (5, 3)
        assert second.shape == (5,)
        assert net(x=np.ones((0, 3)), y=np.ones(3))[1].shape == (0,)


@pytest.mark.parametrize("steps", [0, 1])
@pytest.mark.filterwarnings("ignore:program 'halved' does not use")
def test_prompts_and_exports_have_the_batch_axes_of_inputs_that_are_not_read(steps):
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")

    @inweave.program
    def halved(x: Vector["n"], z: Vector["n"], *, steps: int):  # noqa: ARG001
        return inweave.iterate(lambda w: w + x, inweave.zeros(3), steps)

    net = inweave.compile(halved, n=3, steps=steps)
    apply, params = net.to_jax()
    module = net.to_torch()
    for batch in ([], [5], [2, 1]):
        for name in ("x", "z"):
            inputs = {"x": np.ones(3), "z": np.ones(3), name: np.ones((*batch, 3))}
            expected = net(**inputs)
            assert expected.shape == (*batch, 3)
            assert net.readout(net.trace(**inputs).final).shape == expected.shape
            np.testing.assert_array_equal(module(**inputs), expected)
            np.testing.assert_array_equal(apply(params, **inputs), expected)
            in_jax = {key: jax.numpy.asarray(value) for key, value in inputs.items()}
            assert net.prompt(**in_jax).shape[:-2] == tuple(batch)
            in_torch = {key: torch.tensor(value) for key, value in inputs.items()}
            assert net.prompt(**in_torch).shape[:-2] == tuple(batch)


def test_what_numpy_says_instead_of_a_refusal_is_the_refusal():
    @inweave.program
    def norms(X: Matrix["n", "d"]):
        out = np.zeros(X.shape[0])
        for i in range(X.shape[0]):
            out[i] = X[i] @ X[i]
        return out

    with pytest.raises(inweave.ProgramError, match="has no value while a program is traced"):
        inweave.compile(norms, n=4, d=3)


def test_a_loaded_network_that_diverges_says_so(tmp_path):
    net = inweave.compile(inweave.gallery.ridge_gd, n=4, d=2, steps=3)
    net.save(tmp_path / "net.inweave")
    data = inweave.gallery.get("ridge_gd").example(0, n=4, d=2) | {"eta": 1e6}
    for one in (net, inweave.load(tmp_path / "net.inweave")):
        with pytest.raises(inweave.DivergenceError, match=r"grows by a factor|overflowed"):
            one(**data)


@inweave.program
def powers(A: Matrix["n", "n"], x: Vector["n"], *, steps: int):
    return inweave.iterate(lambda v: A @ v + x, x, steps)


def test_growth_that_the_data_cancel_step_by_step_is_reported():
    """Powers grow along (1, 2), where these data have exactly nothing, and steps stay there."""

    @inweave.program
    def descent(X: Matrix["n", "d"], y: Vector["n"], eta: Scalar, *, steps: int):
        def step(w):
            return w - eta * (X.T @ (X @ w - y))

        return inweave.iterate(step, inweave.zeros(X.shape[1]), steps)

    X, y = np.array([[1.0, 2.0], [2.0, 4.0], [0.5, -0.25]]), np.array([0.0, 0.0, 3.0])
    for mode in ("faithful", "depth", "speed"):
        net = inweave.compile(descent, n=3, d=2, steps=100, optimize=mode, verify=False)
        with pytest.raises(inweave.DivergenceError, match=r"itself, step by step, reaches 4\.79"):
            net(X=X, y=y, eta=0.2)


def test_a_power_that_overflows_is_not_said_to_be_a_loop_that_diverges():
    """The loop stays finite, its collapsed network does not; and numpy has nothing to add."""
    A, x = np.diag([1e20, 0.5, 0.25]), np.array([0.0, 1.0, 1.0])
    net = inweave.compile(powers, optimize="depth", n=3, steps=100)
    with pytest.raises(
        inweave.DivergenceError, match=r"itself, step by step, stays finite.*faithful"
    ):
        net(A=A, x=x)
    faithful = inweave.compile(powers, n=3, steps=100)
    np.testing.assert_allclose(faithful(A=A, x=x), powers(A=A, x=x, steps=100))


def test_integers_are_computed_in_floats_that_hold_them():
    torch = pytest.importorskip("torch")

    @inweave.program
    def doubled(x: Vector["n"]):
        return x + x

    net, odd = inweave.compile(doubled, n=2), [2**24 + 1, 3]
    for x in (np.array(odd), torch.tensor(odd), odd):
        assert net(x=x).tolist() == [2 * i for i in odd]


def test_what_leaves_float32_in_the_program_too_is_said_to_and_float64_holds_it():
    @inweave.program
    def cubes(s: Vector["n"]):
        for _ in range(5):
            s = s + s * s * s
        return s

    net, s = inweave.compile(cubes, n=1), np.array([1.5])
    with pytest.raises(inweave.DivergenceError, match=r"leaves the range of float32.*1\.62e\+56"):
        net(s=s.astype(np.float32))
    np.testing.assert_allclose(net(s=s), cubes(s=s), rtol=1e-13)


def test_slow_growth_over_very_many_steps_is_seen_in_what_the_first_ones_change():
    net = inweave.compile(powers, optimize="depth", n=2, steps=10**6)
    with pytest.raises(inweave.DivergenceError, match=r"grows by a factor of 1\.0002 per step"):
        net(A=np.diag([1.0002, 0.5]), x=np.array([1e-6, 1.0]))
