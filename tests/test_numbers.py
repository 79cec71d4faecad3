"""Coefficients are exact while compiling and floats when running: answers stay as good as by hand.

The compiler multiplies products out and into each other, and their coefficients with them. Inputs
that are scaled by powers of ten, and coefficients that undo it, must not take a network out of the
range in which the program as written computes.
"""

# ruff: noqa: ARG001 (all shapes are called alike)

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.compiler.options import MODES
from inweave.exact.arithmetic import Rationals

pytestmark = [
    pytest.mark.filterwarnings("ignore:program 'program' does not use"),
    pytest.mark.usefixtures("unchecked_passes"),
]

DRAWS = 16
SIZE = 2
FIXED = np.array([[1.5, -0.75], [2.25, 1.125]], dtype=np.float32)


def in_python(step, start, times):
    for _ in range(times):
        start = step(start)
    return start


# -- shapes of programs: a, b and c are numbers that undo the scales of A, B and x -----------------
def powers(loop, a, b, c, A, B, x):
    return loop(lambda v: a * (A @ v), c * x, 15)


def affine(loop, a, b, c, A, B, x):
    return loop(lambda w: 0.5 * w - a * (A @ w) + c * x, c * x, 4)


def products(loop, a, b, c, A, B, x):
    return (a * A) @ (a * A) @ (b * B) @ (b * B) @ (a * A).T @ (c * x)


def sums(loop, a, b, c, A, B, x):
    return loop(lambda v: (a * A + b * B) @ ((a * A - b * B) @ v), c * x, 2)


def unlike(loop, a, b, c, A, B, x):
    """Terms of different scales."""
    return loop(lambda v: 1e-5 * (a * (A @ v)) + b * (B @ v), c * x, 3)


def horner(loop, a, b, c, A, B, x):
    y = c * x
    for p in (0.5, -0.25, 2.0, 1.0, -1.5):
        y = p * (c * x) + a * (A @ y)
    return y


def in_turn(loop, a, b, c, A, B, x):
    v = loop(lambda v: a * (A @ v), c * x, 4)
    return loop(lambda v: b * (B.T @ v), v, 4)


def descent(loop, a, b, c, A, B, x):
    return loop(lambda w: w - 0.1 * (a * A.T) @ (a * (A @ w) - c * x), c * x, 3)


def squared(loop, a, b, c, A, B, x):
    return loop(lambda M: M @ M - b * B, a * A, 3) @ (c * x)


def constants(loop, a, b, c, A, B, x):
    """The number stands in a constant matrix."""
    return loop(lambda v: (np.float64(a) * FIXED) @ (A @ v), c * x, 5)


def folded(loop, a, b, c, A, B, x):
    """Constant matrices that are multiplied while compiling."""
    return loop(lambda v: (1e-13 * FIXED) @ v, 1e30 * (c * x), 4)


def afterwards(loop, a, b, c, A, B, x):
    return c * loop(lambda v: a * (A @ v), x, 9)


def twice(loop, a, b, c, A, B, x):
    """The start is scaled twice; together that is no float32."""
    return loop(lambda v: 1e-9 * (a * (A @ v)), 1e20 * (c * x), 5)


def forgetful(loop, a, b, c, A, B, x):
    """Little of the last value is kept, so little may be left of it."""
    return loop(lambda v: 1e-5 * v + 1e-5 * ((a * A).T @ (a * (A @ v))), c * x, 6)


SHAPES = [powers, affine, products, sums, unlike, horner, in_turn, descent, squared, constants,
          folded, afterwards, twice, forgetful]  # fmt: skip
LOOPS = [shape for shape in SHAPES if shape not in (products, horner, in_turn, folded)]
FADING = [folded, twice, forgetful]  # dense layers add to what stood there before, which is larger


def of_numbers(shape, loop, coefficients):
    @inweave.program
    def program(A: Matrix["n", "n"], B: Matrix["n", "n"], x: Vector["n"]):
        return shape(loop, *coefficients, A, B, x)

    return program


def of_inputs(shape, loop):
    @inweave.program
    def program(a: Scalar, b: Scalar, c: Scalar, A: Matrix["n", "n"], B: Matrix["n", "n"],
                x: Vector["n"]):  # fmt: skip
        return shape(loop, a, b, c, A, B, x)

    return program


def exactly(program, inputs):
    """The answer in rational numbers."""
    exact = {name: np.frompyfunc(Fraction, 1, 1)(x.astype(float)) for name, x in inputs.items()}
    exact = {name: np.reshape(x, (-1, SIZE if name in "AB" else 1)) for name, x in exact.items()}
    return program.trace(n=SIZE).evaluate(exact, Rationals())[""].ravel()


def error(found, true):
    """Normwise and relative; infinite where there is no number."""
    if not np.isfinite(found).all():
        return math.inf
    off = max(abs(Fraction(float(y)) - t) for y, t in zip(np.ravel(found), true, strict=True))
    return float(off / max(map(abs, true)))


def drawn(rng, undone):
    """Coefficients and inputs from 1e-30 to 1e30; the first undo the second where `undone`."""
    sizes = rng.uniform(-30, 30, size=3)
    wobble = rng.uniform(-0.5, 0.5, size=3)
    coefficients = 10.0 ** (wobble - sizes if undone else rng.uniform(-30, 30, size=3))
    shapes = {"A": (SIZE, SIZE), "B": (SIZE, SIZE), "x": (SIZE,)}
    inputs = {
        name: rng.uniform(-1, 1, size=shape) * 10.0**size
        for size, (name, shape) in zip(sizes, shapes.items(), strict=True)
    }
    return [float(c) for c in coefficients], inputs


def errors(program, network, inputs, by_hand):
    """Of the program as written, of its network (None where it refuses), and of dense layers."""
    true = exactly(program, inputs)
    with np.errstate(all="ignore"):
        own = error(by_hand, true)
        dense = network.outputs[0].place.read(network.layout, network.trace(**inputs).final)
        try:
            answer = error(network(**inputs), true)
        except inweave.DivergenceError:
            answer = None
        return own, answer, error(dense, true)


def measured(shape, loop, mode, target="elsa", undone=True):
    """By dtype, the three errors at every draw."""
    rng = np.random.default_rng(SHAPES.index(shape))
    out = {np.float32: [], np.float64: []}
    for _ in range(DRAWS):
        coefficients, inputs = drawn(rng, undone)
        program = of_numbers(shape, loop, coefficients)
        network = inweave.compile(program, optimize=mode, target=target, verify=False, n=SIZE)
        for dtype, found in out.items():
            given = {name: x.astype(dtype) for name, x in inputs.items()}
            with np.errstate(all="ignore"):
                by_hand = shape(in_python, *coefficients, *given.values())
            found.append(errors(program, network, given, by_hand))
    return out


@pytest.mark.parametrize(
    ("loop", "mode", "target", "shape"),
    [
        *((in_python, "faithful", "elsa", shape) for shape in SHAPES),
        *((inweave.iterate, "depth", "elsa", shape) for shape in LOOPS),
        *((inweave.iterate, "speed", "elsa", shape) for shape in (sums, descent, forgetful)),
        (inweave.iterate, "faithful", "elsa", powers),
        (in_python, "depth", "elsa", powers),
        (in_python, "faithful", "lsa", products),
        (inweave.iterate, "depth", "lsa", constants),
    ],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_a_network_is_as_good_as_its_program_whatever_the_units(shape, loop, mode, target):
    for dtype, found in measured(shape, loop, mode, target).items():
        own, answers, dense = zip(*found, strict=True)
        assert np.median(own) < 1e-5, dtype
        assert None not in answers, dtype  # the program is fine
        assert np.median(answers) <= 10 * np.median(own), dtype
        if shape not in FADING:
            assert np.median(dense) <= 10 * np.median(own), dtype


@pytest.mark.parametrize(
    ("shape", "mode"), [(products, "faithful"), (sums, "speed"), (squared, "depth")]
)
def test_a_network_is_as_good_as_its_program_or_refuses_whatever_the_numbers(shape, mode):
    for dtype, found in measured(shape, inweave.iterate, mode, undone=False).items():
        kept = [(own, answer) for own, answer, _ in found if answer is not None]
        if kept:
            own, answers = zip(*kept, strict=True)
            assert np.median(answers) <= 10 * np.median(own), dtype


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("dtype", "size", "steps"),
    [(np.float32, 150.0, 15), (np.float64, 200.0, 108), (np.float64, 1e3, 100)],
)
def test_small_steps_of_large_matrices_are_as_in_python(dtype, size, steps, mode):
    @inweave.program
    def program(A: Matrix["n", "n"], v: Vector["n"]):
        return in_python(lambda v: 1e-3 * (A @ v), v, steps)

    rng = np.random.default_rng(0)
    A = (size / 2 * (1 + 0.1 * rng.standard_normal((2, 2)))).astype(dtype)
    v = rng.uniform(1, 2, size=2).astype(dtype)
    network = inweave.compile(program, optimize=mode, n=2)
    by_hand = in_python(lambda v: dtype(1e-3) * (A @ v), v, steps)
    np.testing.assert_allclose(network(A=A, v=v), by_hand, rtol=100 * np.finfo(dtype).eps)


def test_numbers_whose_product_is_beyond_floats_stay_apart():
    @inweave.program
    def program(x: Vector["n"], y: Vector["n"]):
        return (1e200 * x).T @ (1e200 * y)

    network = inweave.compile(program, n=2)
    np.testing.assert_allclose(network(x=[1e-200, 0.0], y=[3e-200, 0.0]), 3.0, rtol=1e-14)


# -- the same with inputs in place of numbers ------------------------------------------------------
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("loop", [in_python, inweave.iterate])
def test_steps_whose_size_is_an_input_are_as_in_python(loop, mode):
    @inweave.program
    def program(A: Matrix["n", "n"], v: Vector["n"], eta: Scalar):
        return loop(lambda v: eta * (A @ v), v, 15)

    rng = np.random.default_rng(0)
    network = inweave.compile(program, optimize=mode, n=2)
    v = rng.uniform(1, 2, size=2).astype(np.float32)
    for size in (1e-5, 1e-3, 1e3, 1e5):
        A = (rng.uniform(0.3, 0.6, size=(2, 2)) / size).astype(np.float32)
        eta = np.float32(size)
        by_hand = in_python(lambda v, A=A, eta=eta: eta * (A @ v), v, 15)
        np.testing.assert_allclose(network(A=A, v=v, eta=eta), by_hand, rtol=1e-5)


@pytest.mark.parametrize(
    ("loop", "mode", "shape"),
    [
        *((in_python, "faithful", shape) for shape in (powers, products, affine)),
        *((inweave.iterate, "depth", shape) for shape in (powers, affine, descent)),
        (inweave.iterate, "speed", descent),
    ],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_a_network_is_as_good_as_its_program_or_refuses_whatever_the_scalars(loop, mode, shape):
    program = of_inputs(shape, loop)
    network = inweave.compile(program, optimize=mode, verify=False, n=SIZE)
    for dtype in (np.float32, np.float64):
        rng = np.random.default_rng(0)
        found = []
        for _ in range(DRAWS):
            numbers, inputs = drawn(rng, undone=True)
            given = dict(zip("abc", map(np.float64, numbers), strict=True)) | inputs
            given = {name: np.asarray(x, dtype=dtype) for name, x in given.items()}
            by_hand = shape(in_python, *given.values())
            found.append(errors(program, network, given, by_hand))
        own, answers = zip(*(f[:2] for f in found if f[1] is not None), strict=True)
        assert len(own) > DRAWS / 3, dtype
        assert np.median(answers) <= 10 * np.median(own), dtype


def test_ordinary_coefficients_stay_where_they_are():
    @inweave.program
    def program(X: Matrix["n", "d"], y: Vector["n"], w: Vector["d"]):
        return w - 1e-4 * (X.T @ (X @ w - y))

    network = inweave.compile(program, n=3, d=2)
    pieces = [
        piece
        for module in network.modules
        for layer in module.body
        for head in layer.heads
        for projection in head.projections
        for piece in projection.pieces
    ]
    assert {abs(piece.coefficient) for piece in pieces} == {1, Fraction(1e-4)}
