"""1/x, 1/√x and √x in float32: as near to float64 as the program itself, whatever their domains.

Newton's steps are products of a value with its own squares and cubes. Which powers of two the
compiler puts beside them must not take any of them out of the floats in which the program computes.
"""

# ruff: noqa: ARG001 (all shapes are called alike)

from __future__ import annotations

import numpy as np
import pytest

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.compiler.options import MODES

pytestmark = [
    pytest.mark.filterwarnings("ignore:program 'program' does not use"),
    pytest.mark.usefixtures("unchecked_passes"),
]

PRECISIONS = 8  # machine precisions that a few steps may lose
OWN = 4  # times what the program itself loses, called on arrays
MODERATE = 2.0**-20, 2.0**20  # what inputs, numbers and answers here are, so all that lies between
RESOLUTION = float(np.finfo(np.float32).eps)
TIMES = 2

FUNCTIONS = {
    "reciprocal": lambda w, q, ends: w * inweave.reciprocal(q, domain=ends),
    "rsqrt": lambda w, q, ends: w * inweave.rsqrt(q, domain=ends),
    "sqrt": lambda w, q, ends: w * inweave.sqrt(q, domain=ends),
    "division": lambda w, q, ends: w / inweave.assume(q, *ends),
    "either sign": lambda w, q, ends: w / inweave.assume(q, *ends, either_sign=True),
}
DOMAINS = [(1e-6, 50), (1e-3, 10), (1, 1e3)]


# -- shapes of programs: f(w, q) is w times a function of q, whose domain begins at c --------------
def product(f, c, a, x, A):
    return f(a, a * a + c)


def total(f, c, a, x, A):
    return f(x, x @ x + c) + a * x - f(a * x, a * a + c)


def loop(f, c, a, x, A):
    return inweave.iterate(lambda v: f(v + a, (v + a) * (v + a) + c), a, TIMES)


def power(f, c, a, x, A):
    def step(v):
        w = A.T @ (A @ v) + v
        return f(w, inweave.squared_norm(w) + c)

    return inweave.iterate(step, x, TIMES)


def scan(f, c, a, x, A):
    return inweave.scan(lambda w, r: (f(w + r, (w + r) @ (w + r) + c), None), x, A)[0]


def in_python(f, c, a, x, A):
    for row in A:
        x = f(x + a * row, (x + a * row) @ (x + a * row) + c)
    return x


SHAPES = [product, total, loop, power, scan, in_python]


def written(shape, name, ends):
    @inweave.program
    def program(a: Scalar, x: Vector[2], A: Matrix[3, 2]):
        return shape(lambda w, q: FUNCTIONS[name](w, q, ends), ends[0], a, x, A)

    return program


def inputs(dtype):
    rng = np.random.default_rng(0)
    given = {"a": 0.3, "x": np.array([0.5, 0.4]), "A": 0.3 * rng.standard_normal((3, 2))}
    return {k: np.asarray(np.float32(x), dtype=dtype) for k, x in given.items()}


def off(found, true):
    """Relative to the largest answer; infinite where there is no number."""
    found = np.max(np.abs(np.ravel(found) - true)) / np.max(np.abs(true))
    return float(found) if np.isfinite(found) else np.inf


def check(program, network):
    wide, narrow = inputs(np.float64), inputs(np.float32)
    true = np.ravel(network(**wide))
    own = off(program(**narrow), np.ravel(program(**wide)))
    answer = network(**narrow)
    assert answer.dtype == np.float32
    assert off(answer, true) <= PRECISIONS * RESOLUTION + OWN * own

    held = np.abs(np.stack(list(network.trace(**wide).states.values())))
    assert MODERATE[0] < held[held > 0].min()
    assert held.max() < MODERATE[1]
    dense = network.outputs[0].place.read(network.layout, network.trace(**narrow).final)
    size = held.max() / np.max(np.abs(true))  # dense layers add to what stood there before
    assert off(dense, true) <= PRECISIONS * RESOLUTION * size + OWN * own


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_float32_is_as_near_to_float64_as_the_program_on_any_domain(shape, name):
    for ends in DOMAINS:
        program = written(shape, name, ends)
        check(program, inweave.compile(program, verify=False))


@pytest.mark.parametrize("target", ["elsa", "lsa"])
@pytest.mark.parametrize("mode", MODES)
def test_float32_is_as_near_in_every_mode_and_target(mode, target):
    for shape in SHAPES:
        program = written(shape, "rsqrt", (0.003, 50))
        check(program, inweave.compile(program, optimize=mode, target=target, verify=False))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("ends", [(1e-15, 1e-3), (1e-9, 1e3), (1e12, 1e15)])
def test_a_domain_says_how_large_arguments_are(ends, name):
    """Sizes that no coefficient tells of: a guess of about one would be wrong, and cubed."""

    @inweave.program
    def program(v: Vector[2]):
        return FUNCTIONS[name](v, v @ v + ends[0], ends)

    network = inweave.compile(program, verify=False)
    for p in np.geomspace(2 * ends[0], ends[1] / 2, 4):
        v = np.sqrt(p) * np.float32([0.6, 0.8])
        narrow, wide = v.astype(np.float32), v.astype(np.float32).astype(np.float64)
        try:
            answer = network(v=narrow)
        except inweave.DTypeError as error:
            assert "more than float32 holds" in str(error)  # noqa: PT017 (or it is near)
        else:
            assert off(answer, network(v=wide)) <= PRECISIONS * RESOLUTION


# -- elsewhere -------------------------------------------------------------------------------------
@pytest.fixture(scope="module", params=[(product, (1e-6, 50)), (power, (0.01, 50))])
def network(request):
    shape, ends = request.param
    return inweave.compile(written(shape, "rsqrt", ends), verify=False)


def test_gradients_in_float32_are_those_in_float64(network):
    torch = pytest.importorskip("torch")
    slopes = []
    for dtype in (np.float32, np.float64):
        given = {k: torch.tensor(x, requires_grad=True) for k, x in inputs(dtype).items()}
        network(**given).sum().backward()
        slopes.append([x.grad.numpy() for x in given.values() if x.grad is not None])
    for narrow, wide in zip(*slopes, strict=True):
        np.testing.assert_allclose(narrow, wide, rtol=0, atol=100 * RESOLUTION)


def test_a_torch_module_in_float32_answers_the_same(network):
    torch = pytest.importorskip("torch")
    given = {k: torch.tensor(x) for k, x in inputs(np.float32).items()}
    found = network.to_torch().float()(**given).detach().numpy()
    assert off(found, network(**inputs(np.float64))) <= PRECISIONS * RESOLUTION


def test_jax_in_float32_answers_the_same(network):
    jax = pytest.importorskip("jax")
    apply, params = network.to_jax()
    params = jax.tree.map(lambda x: x.astype(np.float32), params)
    found = jax.jit(apply)(params, **inputs(np.float32))
    assert off(found, network(**inputs(np.float64))) <= PRECISIONS * RESOLUTION


def test_an_onnx_model_in_float32_answers_the_same(network, tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    network.to_onnx(tmp_path / "network.onnx")
    session = runtime.InferenceSession(tmp_path / "network.onnx")
    names = {x.name for x in session.get_inputs()}
    given = {k: x[None] for k, x in inputs(np.float32).items() if k in names}
    assert off(session.run(None, given)[0], network(**inputs(np.float64))) <= (
        PRECISIONS * RESOLUTION
    )
