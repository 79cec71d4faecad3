"""The plan computes what the dense executor computes, with less work."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inweave
from inweave import (
    AttentionLayer,
    BlockPointwiseLayer,
    Fill,
    Head,
    Input,
    InputError,
    Layout,
    Matrix,
    Module,
    Network,
    Output,
    Piece,
    Place,
    Projection,
    Scalar,
    Vector,
    gallery,
)
from inweave.exact.arithmetic import Arithmetic, Floats, Rationals
from inweave.exact.constants import identity
from inweave.exact.field_arithmetic import FieldArithmetic
from inweave.model import dense
from inweave.model.projection import read
from inweave.model.prompt import fill_prompt
from inweave.model.relunet import Function, ReluNet
from inweave.run.libraries import numpy as run_numpy
from inweave.run.libraries.execute import Bound
from inweave.run.lines.code import Line, Repeat
from inweave.run.values.graph import Graph
from inweave.text.plan import describe
from tests.cases import CASES
from tests.random_networks import absolute, networks

pytestmark = pytest.mark.usefixtures("stepped")

FIELD = FieldArithmetic(key=3)
LEADS = [(), (), (2,), (3, 1)]
often = settings(max_examples=100)
rarely = settings(often, max_examples=30)


def random_inputs(net: Network, draw: Any, make: Any) -> dict[str, Any]:
    return {
        spec.name: make((*draw(st.sampled_from(LEADS)), spec.rows, spec.cols))
        for spec in net.inputs
    }


def check_every_entrance(net: Network, inputs: dict[str, Any], ar: Arithmetic, same: Any) -> None:
    """Inputs, blocks and prompt in; answers, blocks and prompt out; all as the dense executor."""
    H = fill_prompt(net.layout, net.fills, inputs, ar)
    expected = dense.forward(net, H, ar)
    answers = net.plan.in_batch(inputs, ar)
    assert list(answers) == [output.name for output in net.outputs]
    for output in net.outputs:
        same(answers[output.name], output.place.read(net.layout, expected))
    same(net.plan.forward(H, ar), expected)
    blocks = net.plan.run(net.layout.unpack(H), ar)
    for name, block in net.layout.unpack(expected).items():
        same(blocks[name], block)


# -- equal to the definition ----------------------------------------------------------------------
def equal(found: Any, expected: Any) -> None:
    assert found.shape == expected.shape
    assert (found == expected).all()


@often
@given(networks(), st.integers(0, 99), st.data())
def test_from_inputs_and_blocks_it_equals_the_dense_executor_over_the_field(net, seed, data):
    rng = np.random.default_rng(seed)
    inputs = random_inputs(net, data.draw, lambda shape: FIELD.field.random(shape, rng))
    check_every_entrance(net, inputs, FIELD, equal)


@often
@given(networks(), st.integers(0, 99), st.sampled_from(LEADS))
def test_from_any_prompt_it_equals_the_dense_executor_over_the_field(net, seed, lead):
    H = FIELD.field.random((*lead, net.tokens, net.width), np.random.default_rng(seed))
    equal(net.plan.forward(H, FIELD), dense.forward(net, H, FIELD))


@rarely
@given(networks(repeats=2, modules_at_most=1, activation="relu"), st.integers(0, 99), st.data())
def test_it_equals_the_dense_executor_over_the_rationals(net, seed, data):
    rng = np.random.default_rng(seed)

    def make(shape: tuple[int, ...]) -> Any:
        return Rationals().array(rng.integers(-3, 4, shape) / 2)

    check_every_entrance(net, random_inputs(net, data.draw, make), Rationals(), equal)


@often
@given(networks(repeats=6, modules_at_most=2, activation="relu"), st.integers(0, 99), st.data())
def test_it_equals_the_dense_executor_in_floats_up_to_rounding(net, seed, data):
    rng = np.random.default_rng(seed)
    bound = absolute(net)
    inputs = random_inputs(net, data.draw, lambda shape: rng.uniform(-0.3, 0.3, shape))
    ar = Floats()
    H = fill_prompt(net.layout, net.fills, inputs, ar)
    sizes = {name: np.abs(x) for name, x in inputs.items()}
    with np.errstate(all="ignore"):
        largest = fill_prompt(net.layout, bound.fills, sizes, ar)
        room = 1e-12 * dense.forward(bound, largest) + 1e-100  # for what underflows
        expected = dense.forward(net, H)
        found = net.plan.forward(H)
        answers = net.plan.answers(inputs, ar)
    if not np.isfinite(room).all() or room.max() > 1e200:
        return
    assert found.shape == expected.shape
    assert (np.abs(found - expected) <= room).all()
    for output in net.outputs:
        gap = np.abs(answers[output.name] - output.place.read(net.layout, expected))
        assert (gap <= output.place.read(net.layout, room)).all()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("target", ["elsa", "lsa"])
@pytest.mark.usefixtures("compiled_once")
def test_on_compiled_programs_it_equals_the_dense_executor(case, target):
    for mode in ("faithful", "depth"):
        options = {"target": target, "optimize": mode, "verify": False}
        net = inweave.compile(case.program, **options, **case.sizes)
        inputs = case.inputs()
        if any(spec.sign != "any" for spec in net.inputs):
            inputs = {name: np.abs(x) + 0.1 for name, x in inputs.items()}
        H = net.prompt(**inputs)
        expected = dense.forward(net, H)
        np.testing.assert_allclose(net.forward(H), expected, rtol=1e-12, atol=1e-12)
        found, answer = net(**inputs), net.readout(expected)
        for name in answer if isinstance(answer, dict) else [""]:
            x, y = (found[name], answer[name]) if name else (found, answer)
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


# -- values that a network stores more than once --------------------------------------------------
def square_layout(*names: str, size: int = 2) -> Layout:
    return Layout.of(dict.fromkeys(names, (size, size)))


def moving(
    layout: Layout, source: str, dest: str, coefficient: Any = 1, flip: bool = False
) -> Head:
    """`dest += coefficient * source`, or its transpose: (I, I, A) and (I, A, I)."""
    k, at = layout[dest].cols, layout[dest].start
    eye = Projection((Piece(identity(k), 0),))
    if flip:
        placed = Projection((Piece(identity(k), at),))
        return Head(eye, Projection((read(layout, source, 0, coefficient),)), placed)
    return Head(eye, eye, Projection((read(layout, source, at, coefficient),)))


@often
@given(st.data())
def test_values_that_begin_alike_are_told_apart_when_they_part(data):
    layout = square_layout("A", "P", "Q", "R", "S")
    stored = ["P", "Q", "R", "S"]
    moves = st.tuples(
        st.sampled_from(layout.names),
        st.sampled_from(stored),
        st.sampled_from([1, 1, -1, 2]),
        st.booleans(),
    )
    layers = [
        AttentionLayer(tuple(moving(layout, *m) for m in data.draw(st.lists(moves, max_size=5))))
        for _ in range(data.draw(st.integers(1, 2)))
    ]
    filled = data.draw(st.lists(st.tuples(st.sampled_from(stored), st.booleans()), max_size=3))
    places = [Place("A", 2, 2), *(Place(name, 2, 2, transpose=flip) for name, flip in filled)]
    net = Network(
        layout,
        (Module(tuple(layers), data.draw(st.integers(2, 5))),),
        inputs=(Input("A", 2, 2),),
        fills=tuple(Fill(place, "A") for place in places),
        outputs=tuple(Output(name, Place(name, 2, 2)) for name in stored),
    )
    inputs = {"A": FIELD.field.random((2, 2), np.random.default_rng(0))}
    check_every_entrance(net, inputs, FIELD, equal)


def test_values_that_begin_equal_but_end_transposed_are_told_apart():
    layout = square_layout("A", "C", "P", "Q", "R")
    heads = [moving(layout, "P", "P", -1), moving(layout, "Q", "Q", -1), moving(layout, "Q", "R")]
    heads += [moving(layout, "C", "P"), moving(layout, "C", "Q", flip=True)]
    net = Network(
        layout,
        (Module((AttentionLayer(tuple(heads)),), 4),),
        inputs=(Input("A", 2, 2), Input("C", 2, 2)),
        fills=(*(Fill(Place(b, 2, 2), "A") for b in "APQ"), Fill(Place("C", 2, 2), "C")),
        outputs=(Output("", Place("R", 2, 2)),),
    )
    A, C = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0.0, 1.0], [5.0, 0.0]])
    np.testing.assert_array_equal(net(A=A, C=C), A + 3 * C.T)


def test_three_of_four_values_stay_alike():
    layout = square_layout("A", "P", "Q", "R", "S")
    heads = [moving(layout, "A", dest) for dest in "PPQR"]
    heads += [moving(layout, "A", "S", flip=True)]
    net = Network(layout, (Module((AttentionLayer(tuple(heads)),), 4),))
    A = np.array([[1.0, 2.0], [3.0, 4.0]])
    found = net.plan.run({"A": A})
    for name, expected in {"P": 8 * A, "Q": 4 * A, "R": 4 * A, "S": 4 * A.T}.items():
        np.testing.assert_array_equal(found[name], expected)


def loops(code: Sequence[Line | Repeat]) -> list[Repeat]:
    return [line for line in code if isinstance(line, Repeat)]


def test_a_value_stored_plain_and_transposed_is_carried_once():
    layout = square_layout("A", "P", "Q")
    heads = (moving(layout, "A", "P"), moving(layout, "A", "Q", flip=True))
    net = Network(
        layout,
        (Module((AttentionLayer(heads),), 6),),
        inputs=(Input("A", 2, 2),),
        fills=(Fill(Place("A", 2, 2), "A"),),
        outputs=(Output("P", Place("P", 2, 2)), Output("Q", Place("Q", 2, 2))),
    )
    (loop,) = loops(net.plan.from_inputs.code.lines)
    assert len(loop.phis) == 1
    A = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(net(A=A)["P"], 6 * A)
    np.testing.assert_array_equal(net(A=A)["Q"], 6 * A.T)


# -- least work -----------------------------------------------------------------------------------
def tied(d: int, repeat: int, constants_in_prompt: bool = False) -> Network:
    """`w ← w - G w + b`, `repeat` times, from w = 0; as LSA with its identity in the prompt."""
    shapes = {"G": (d, d), "w": (d, 1), "b": (d, 1)} | (
        {"I": (d, d)} if constants_in_prompt else {}
    )
    layout = Layout.of(shapes)
    at = layout["w"].start
    unit = read(layout, "I") if constants_in_prompt else Piece(identity(d), 0)
    eye = Projection((unit,))
    heads = (
        Head(Projection((read(layout, "G", 0, -1),)), eye, Projection((read(layout, "w", at),))),
        Head(eye, eye, Projection((read(layout, "b", at),))),
    )
    fills = [Fill(Place("G", d, d), "G"), Fill(Place("b", d, 1), "b")]
    if constants_in_prompt:
        fills.append(Fill(Place("I", d, d), constant=identity(d)))
    return Network(
        layout,
        (Module((AttentionLayer(heads),), repeat),),
        inputs=(Input("G", d, d), Input("b", d, 1, "vector")),
        fills=tuple(fills),
        outputs=(Output("", Place("w", d, 1), "vector"),),
    )


def by_hand(G: Any, b: Any, repeat: int) -> Any:
    w = b * 0
    for _ in range(repeat):
        w = w - (G @ w[..., None])[..., 0] + b
    return w


def test_a_tied_step_costs_what_its_formula_costs():
    net = tied(10, 100)
    assert net.plan.flops == 100 * (2 * 10 * 10 + 10) + 10 * 10
    assert describe(net.plan).splitlines()[1:] == [
        "  t1 = I10 - G",
        "  w = 0",
        "  repeat 100:",
        "    w = b + t1 w",
        "  return w",
    ]


def test_constants_are_folded_only_where_that_is_less_work():
    few = describe(tied(300, 2).plan)
    assert "I300" not in few
    assert "w += b - G w" in few or "w = b + (w - G w)" in few


def test_identities_in_the_prompt_cost_nothing():
    assert tied(10, 100, constants_in_prompt=True).plan.flops == tied(10, 100).plan.flops


def test_what_a_loop_does_not_change_is_computed_once_and_products_in_the_cheaper_order():
    @inweave.program
    def descent(X: inweave.Matrix["n", "d"], y: inweave.Vector["n"], *, steps: int):
        step = lambda w: w - X.T @ (X @ w - y)  # noqa: E731
        return inweave.iterate(step, inweave.zeros(X.shape[1]), steps)

    n, d = 400, 50
    few = inweave.compile(descent, n=n, d=d, steps=2, verify=False).plan
    many = inweave.compile(descent, n=n, d=d, steps=500, verify=False).plan
    right_side_once = 2 * n * d
    assert few.flops <= right_side_once + 2 * (4 * n * d + 2 * n + 2 * d)
    gram_once = 2 * n * d * d + right_side_once
    assert many.flops <= gram_once + 500 * (2 * d * d + 3 * d)


def test_work_that_no_answer_needs_is_left_out():
    net = tied(4, 10)
    assert replace(net, outputs=(Output("", Place("G", 4, 4)),)).plan.flops <= 4 * 4


# -- a prompt of the user's own -------------------------------------------------------------------
def test_a_changed_constant_in_a_prompt_is_used_as_it_stands():
    net = tied(3, 5, constants_in_prompt=True)
    rng = np.random.default_rng(0)
    H = net.prompt(G=rng.normal(size=(3, 3)), b=rng.normal(size=3))
    assert net.plan._is_own(H, Floats())
    np.testing.assert_allclose(net.forward(H), dense.forward(net, H), rtol=1e-13)
    H[0, net.layout["I"].start] = 2.0
    assert not net.plan._is_own(H, Floats())
    np.testing.assert_allclose(net.forward(H), dense.forward(net, H), rtol=1e-13)


def test_entries_below_a_block_are_used_as_they_stand():
    layout = Layout.of({"A": (2, 2), "B": (1, 2), "C": (1, 2)}, tokens=3)
    net = Network(layout, (Module((AttentionLayer((moving(layout, "B", "C"),)),)),))
    net = replace(net, modules=(Module((AttentionLayer((Head(
        Projection((read(layout, "A"),)), Projection((read(layout, "A"),)),
        Projection((read(layout, "B", layout["C"].start),))),)),)),))  # fmt: skip
    H = np.arange(18.0).reshape(3, 6)
    np.testing.assert_array_equal(net.forward(H), dense.forward(net, H))


def test_blocks_that_are_not_given_are_zero_and_unknown_ones_are_refused():
    net = tied(2, 3)
    b = np.array([[1.0], [2.0]])
    np.testing.assert_array_equal(net.plan.run({"b": b})["w"], 3 * b)
    with pytest.raises(inweave.BlockError, match="unknown blocks: z"):
        net.plan.run({"z": b})
    with pytest.raises(inweave.ShapeError, match="block 'b'"):
        net.plan.run({"b": b.T})


# -- pointwise functions --------------------------------------------------------------------------
def test_a_function_of_a_place_leaves_the_rest_of_the_block_as_it_was():
    layout = Layout.of({"A": (3, 3)})
    bent = Function("bent", ReluNet((1.0, -1.0), (0.0, 0.25), (2.0, 0.5), 1.0))
    layer = BlockPointwiseLayer(((Place("A", 1, 2, row=1, col=1), bent),))
    net = Network(
        layout,
        (Module((layer,), 3),),
        inputs=(Input("A", 3, 3),),
        fills=(Fill(Place("A", 3, 3), "A"),),
        outputs=(Output("", Place("A", 3, 3)),),
    )
    A = np.random.default_rng(0).normal(size=(4, 3, 3))
    check_every_entrance(net, {"A": A}, Floats(), np.testing.assert_allclose)
    exact = Rationals().array(np.round(A[0] * 8) / 8)
    check_every_entrance(net, {"A": exact}, Rationals(), equal)
    drawn = FIELD.field.random((3, 3), np.random.default_rng(0))
    check_every_entrance(net, {"A": drawn}, FIELD, equal)


# -- array libraries ------------------------------------------------------------------------------
def to(xp: Any, x: Any, dtype: str = "float64") -> Any:
    return xp.asarray(np.asarray(x).tolist(), dtype=getattr(xp, dtype))


def to_numpy(x: Any) -> Any:
    return np.asarray(x.detach() if hasattr(x, "detach") else getattr(x, "_array", x))


@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
@pytest.mark.parametrize("shared", ["nothing", "G", "b"])
def test_every_library_gives_its_own_arrays_and_the_same_numbers(xp, lead, shared):
    net, rng = tied(4, 9), np.random.default_rng(0)
    G = rng.normal(size=(*(() if shared == "G" else lead), 4, 4)) / 4
    b = rng.normal(size=(*(() if shared == "b" else lead), 4))
    given = {"G": to(xp, G), "b": to(xp, b)}
    expected = np.broadcast_to(by_hand(G, b, 9), (*(lead if G.ndim + b.ndim > 3 else ()), 4))
    found = net(**given)
    assert type(found) is type(given["G"])
    assert found.dtype == given["G"].dtype
    np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-12)
    H = net.prompt(**given)
    after = net.forward(H)
    assert type(after) is type(H)
    assert after.dtype == H.dtype
    np.testing.assert_allclose(to_numpy(net.readout(after)), expected, rtol=1e-12)


def test_single_precision_stays_single_precision(xp):
    net = tied(4, 9)
    rng = np.random.default_rng(0)
    G, b = rng.normal(size=(4, 4)) / 4, rng.normal(size=4)
    found = net(G=to(xp, G, "float32"), b=to(xp, b, "float32"))
    assert found.dtype == xp.float32
    np.testing.assert_allclose(to_numpy(found), by_hand(G, b, 9), rtol=1e-5)


def test_a_matrix_of_numbers_counts_the_same_on_every_library(xp):
    """A program with slices, scalars, constants and a loop."""

    @inweave.program
    def mixed(
        A: inweave.Matrix["n", "n"], x: inweave.Vector["n"], s: inweave.Scalar, *, steps: int
    ):
        def step(v, M):
            return s * (A @ v) + x / 3, M @ A[:, ::1] + inweave.eye(4)

        v, M = inweave.iterate(step, (x, inweave.zeros(4, 4)), steps)
        return {"v": v, "M": M, "part": M[1:3, :2], "s": s * s}

    net = inweave.compile(mixed, n=4, steps=5, verify=False)
    rng = np.random.default_rng(0)
    given = {"A": rng.normal(size=(2, 4, 4)) / 2, "x": rng.normal(size=4), "s": np.array(0.5)}
    expected = mixed(**given, steps=5)
    found = net(**{name: to(xp, value) for name, value in given.items()})
    for name, value in expected.items():
        want = np.broadcast_to(value, found[name].shape)
        np.testing.assert_allclose(to_numpy(found[name]), want, rtol=1e-12)


@pytest.mark.parametrize("cols", [1, 3])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_products_in_batches_are_those_of_torch_however_they_lie_in_memory(cols, turned, shared):
    torch = pytest.importorskip("torch")
    from inweave.run.libraries import in_torch

    made = torch.Generator().manual_seed(0)
    a = torch.randn(4, 5, 6, generator=made, dtype=torch.float64)
    a = a.mT.contiguous().mT if turned else a
    b, c = (torch.randn(4, n, cols, generator=made, dtype=torch.float64) for n in (6, 5))
    assert in_torch.stands_turned(a, b) == (turned and cols == 1)
    assert torch.allclose(in_torch.batched(a, b), a @ b, rtol=1e-14)
    found = in_torch.batched_sum(c, a, b, alpha=-1, beta=2)
    assert torch.allclose(found, 2 * c - a @ b, rtol=1e-14)
    b = b[0] if shared else b
    found = in_torch.operations()["matmul"](a, b)
    assert found.shape == c.shape
    assert torch.allclose(found, a @ b, rtol=1e-14)


def test_gradients_flow_through_torch():
    torch = pytest.importorskip("torch")
    net = tied(3, 6)
    G = torch.eye(3, dtype=torch.float64).mul(0.5).requires_grad_()
    b = torch.arange(3, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda G, b: net(G=G, b=b), (G, b))
    assert torch.autograd.gradcheck(net.forward, (net.prompt(G=G, b=b).detach().requires_grad_(),))


@pytest.mark.gpu
def test_answers_stay_on_the_device_of_the_inputs():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    net, rng = tied(4, 9), np.random.default_rng(0)
    G, b = rng.normal(size=(3, 4, 4)) / 4, rng.normal(size=4)
    given = {"G": torch.asarray(G, device="cuda"), "b": torch.asarray(b, device="cuda")}
    found = net(**given)
    assert found.device == given["G"].device
    np.testing.assert_allclose(found.cpu(), by_hand(G, b, 9), rtol=1e-12)
    assert net.forward(net.prompt(**given)).device == given["G"].device


def test_whole_numbers_are_computed_in_floats():
    found = tied(1, 2).plan.run({"b": np.array([[3]]), "G": np.array([[1]])})
    np.testing.assert_array_equal(found["w"], [[3.0]])
    assert found["w"].dtype == np.float64


def test_jax_stages_a_loop_instead_of_unrolling_it():
    jax = pytest.importorskip("jax")
    net, b = tied(3, 1000), jax.numpy.arange(3.0)
    staged = str(jax.make_jaxpr(lambda G: net(G=G, b=b))(jax.numpy.eye(3)))
    assert staged.count("dot_general") == 1
    assert "length=1000" in staged


def test_jax_multiplies_small_matrices_of_a_batch_as_any_others():
    jnp = pytest.importorskip("jax.numpy")
    from inweave.run.libraries import jax

    rng = np.random.default_rng(0)
    for inner in (1, 2, jax.SMALL, jax.SMALL + 1):
        for a, b in (((5, 1), (5, 1)), ((5, 1), (3,)), ((), (4,)), ((), ())):
            A, B = rng.normal(size=(*a, 3, inner)), rng.normal(size=(*b, inner, 2))
            found = jax.matmul(jnp.asarray(A), jnp.asarray(B))
            np.testing.assert_allclose(found, A @ B, rtol=1e-4, atol=1e-5)


def test_jax_transformations_apply():
    jax = pytest.importorskip("jax")
    net, rng = tied(3, 6), np.random.default_rng(0)
    with jax.enable_x64(True):
        Gs, b = jax.numpy.asarray(rng.normal(size=(5, 3, 3)) / 3), jax.numpy.arange(3.0)
        run = jax.jit(lambda G: net(G=G, b=b).sum())
        np.testing.assert_allclose(run(Gs[0]), by_hand(Gs[0], b, 6).sum(), rtol=1e-12)
        mapped = jax.vmap(run)(Gs)
        np.testing.assert_allclose(mapped, by_hand(Gs, b, 6).sum(-1), rtol=1e-12)
        step = 1e-6 * jax.numpy.ones((3, 3))
        slope = (run(Gs[0] + step) - run(Gs[0] - step)) / 2
        np.testing.assert_allclose((jax.grad(run)(Gs[0]) * step).sum(), slope, rtol=1e-6)


def test_jax_without_64_bits_never_touches_numpy_inputs():
    jax = pytest.importorskip("jax")
    with jax.enable_x64(False):
        net = tied(3, 6)
        found = net(G=np.eye(3) / 3, b=np.ones(3))
        assert type(found) is np.ndarray
        assert found.dtype == np.float64
        assert net(G=jax.numpy.eye(3), b=jax.numpy.ones(3)).dtype == np.float32


# -- inputs and outputs ---------------------------------------------------------------------------
def test_answers_are_never_views_of_the_inputs():
    layout = square_layout("A")
    net = Network(
        layout,
        (),
        inputs=(Input("A", 2, 2),),
        fills=(Fill(Place("A", 2, 2), "A"),),
        outputs=(Output("", Place("A", 2, 2, transpose=True)),),
    )
    A = np.eye(2)
    assert not np.shares_memory(net(A=A), A)
    assert not np.shares_memory(net.forward(A), A)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize(
    ("value", "error"),
    [(np.full((3, 3), np.nan), inweave.InputError), (np.ones((3, 2)), inweave.ShapeError),
     (np.ones((2, 3, 3)), inweave.ShapeError)],
)  # fmt: skip
def test_inputs_that_are_wrong_are_still_refused(library, value, error):
    xp = pytest.importorskip(library)
    net = tied(3, 6)
    with pytest.raises(error):
        net(G=xp.asarray(value), b=xp.asarray(np.ones((4, 3))))
    with pytest.raises(inweave.BlockError, match="unknown: c"):
        net(G=xp.asarray(np.eye(3)), b=xp.asarray(np.ones(3)), c=1.0)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["G", "b"])
@pytest.mark.parametrize("check", [True, False])
def test_one_entry_that_is_not_finite_is_refused_by_name(library, bad, name, check):
    xp = pytest.importorskip(library)
    given = {"G": np.zeros((5, 3, 3)), "b": np.zeros((5, 3))}
    given[name][(3, 1, 1)[: given[name].ndim]] = bad
    with pytest.raises(inweave.InputError, match=f"'{name}' holds NaN or infinity"):
        tied(3, 6)(check=check, **{k: xp.asarray(v) for k, v in given.items()})


def test_large_finite_inputs_are_accepted():
    assert np.isfinite(tied(1, 1)(G=np.zeros((1, 1)), b=np.array([1e200]))).all()


# -- the plan belongs to its network --------------------------------------------------------------
def test_a_plan_is_made_once_and_survives_pickling():
    net = tied(3, 6)
    assert net.plan is net.plan
    again = pickle.loads(pickle.dumps(net))
    np.testing.assert_array_equal(again(G=np.eye(3), b=np.ones(3)), net(G=np.eye(3), b=np.ones(3)))
    assert replace(net, modules=()).plan is not net.plan


def test_threads_do_not_disturb_each_other():
    net, rng = tied(20, 200), np.random.default_rng(0)
    Gs, b = rng.normal(size=(6, 20, 20)) / 20, rng.normal(size=20)
    expected = [net(G=G, b=b) for G in Gs]
    found: list[Any] = [None] * len(Gs)

    def work(i: int) -> None:
        for _ in range(20):
            found[i] = net(G=Gs[i], b=b)
            if not np.array_equal(found[i], expected[i]):
                return

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(Gs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y)


def test_exact_coefficients_stay_exact():
    layout = square_layout("A", "P", size=1)
    net = Network(
        layout,
        (Module((AttentionLayer((moving(layout, "A", "P", Fraction(1, 3)),)),), 9),),
        inputs=(Input("A", 1, 1),),
        fills=(Fill(Place("A", 1, 1), "A", coefficient=Fraction(1, 7)),),
        outputs=(Output("", Place("P", 1, 1)),),
    )
    one = Rationals().array(np.ones((1, 1)))
    assert net.plan.answers({"A": one}, Rationals())[""][0, 0] == Fraction(9, 21)


def test_coefficients_of_coefficients_multiply():
    graph = Graph()
    x = graph.source("x", 2, 2, "x")
    twice = graph.scale(Fraction(2), graph.scale(Fraction(3), x))
    assert twice.data == 6
    assert twice.args == (x,)


@pytest.mark.parametrize(
    ("lead", "shared"), [((7,), ()), ((7,), (7,)), ((7,), (1,)), ((7, 2), (2,)), ((2, 7), (2, 1))]
)
def test_a_batch_in_pieces_has_the_answers_of_the_whole(monkeypatch, lead, shared):
    entry = gallery.get("conjugate_gradient")
    net = entry.compile(verify=False)
    one = entry.example()
    rng = np.random.default_rng(0)
    matrix, *vectors = (name for name, x in one.items() if np.ndim(x))
    given = dict(one)
    given[matrix] = one[matrix] * rng.uniform(1, 2, (*shared, 1, 1))
    for name in vectors:
        given[name] = one[name] * rng.uniform(1, 2, (*lead, 1))
    whole = net(**given)
    held, seen = net.plan.from_inputs.code.held, list[Any]()
    monkeypatch.setattr(
        "inweave.run.libraries.numpy.PIECE", 3 * held
    )  # three problems, and one is left
    net.plan._ready.clear()  # where the pieces for such inputs are known
    through = Bound._through_batch
    monkeypatch.setattr(Bound, "_through_batch", lambda *given: seen.append(1) or through(*given))
    np.testing.assert_allclose(net(**given), whole, rtol=1e-12)
    # What all problems share is computed once: of one X and many queries, nothing is cut.
    assert len(seen) == (3 if shared == lead == (7,) else 1)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
@pytest.mark.parametrize("problem", [0, 3, 6])
def test_a_batch_in_pieces_is_refused_in_whichever_piece_it_is_not_finite(
    monkeypatch, problem, wrong
):
    entry = gallery.get("preconditioned_gd")
    net = entry.compile(verify=False)
    given = {name: np.stack([x] * 7) for name, x in entry.example().items()}
    held = net.plan.from_inputs.code.held
    monkeypatch.setattr("inweave.run.libraries.numpy.PIECE", 2 * held)
    whole = net(**given)
    np.testing.assert_array_equal(net(**given), whole)  # the short way
    for name in given:
        bad = {**given, name: given[name].copy()}
        bad[name][problem].flat[-1] = wrong
        with pytest.raises(InputError, match=name):
            net(**bad)


def test_pieces_are_of_few_inputs_where_few_calls_read_them_and_of_many_where_many_do():
    entry = gallery.get("soft_extraction")
    one_pass = entry.compile(n=200, d=40, k=30, verify=False).plan.from_inputs.code
    descent = gallery.get("ridge_gd").compile(n=200, d=40, verify=False).plan.from_inputs.code
    assert run_numpy._piece(one_pass, 14_000) < 64 < run_numpy._piece(one_pass, 1)
    assert descent.calls > 80
    assert run_numpy._piece(descent, 8_000) == run_numpy._piece(descent, 1)


@pytest.mark.parametrize("lead", [(), (3,)])
def test_a_number_that_is_added_everywhere_is_not_written_out(lead, xp):
    @inweave.program
    def program(X: Matrix["n", "d"], u: Vector["d"], s: Scalar):
        level = s * inweave.constant(np.ones(X.shape[0]))
        return {"more": X @ u + level, "less": 2 * level - X @ u, "one": X @ u + 1}

    net = inweave.compile(program, n=5, d=2, verify=False)
    code = net.plan.from_inputs.code
    assert not [line for line in code.lines if line.op == "mul" and line.rows * line.cols > 1]
    rng = np.random.default_rng(0)
    X, u = rng.normal(size=(*lead, 5, 2)), rng.normal(size=(*lead, 2))
    found = net(X=xp.asarray(X), u=xp.asarray(u), s=0.5)
    Xu = (X @ u[..., None])[..., 0]
    for name, value in (("more", Xu + 0.5), ("less", 1 - Xu), ("one", Xu + 1)):
        np.testing.assert_allclose(np.asarray(found[name]), value, rtol=1e-5)


def test_a_number_everywhere_that_is_an_answer_is_written_out():
    @inweave.program
    def program(x: Vector["n"], s: Scalar):
        level = s * inweave.constant(np.ones(x.shape[0]))
        return {"more": x + level, "level": level}

    found = inweave.compile(program, n=4, verify=False)(x=np.arange(4.0), s=2.0)
    np.testing.assert_array_equal(found["level"], np.full(4, 2.0))
    np.testing.assert_array_equal(found["more"], np.arange(4.0) + 2)


@pytest.mark.usefixtures("unchecked_passes")
@pytest.mark.parametrize("steps", [12, 22, 27])
@pytest.mark.parametrize("factors", [(0.1, 0.3, 0.1), (0.9, 0.3, 0.1), (0.5, 0.25, 1e-3)])
def test_a_value_that_is_taken_out_of_its_block_leaves_nothing_behind(factors, steps):
    """What comes after it may be 1e-25 of it: `-x + x` must be nothing, not a rounding error."""
    a, b, c = factors

    def step(w, v, A, u):
        return a * w + b * (A @ v), c * (u * (u @ w))

    @inweave.program
    def decaying(A: inweave.Matrix["n", "n"], y: inweave.Vector["n"], u: inweave.Vector["n"]):
        w, v = y, inweave.zeros(3)
        for _ in range(steps):
            w, v = step(w, v, A, u)
        return v

    rng = np.random.default_rng(0)
    A, y, u = rng.normal(size=(3, 3)) / 2, rng.normal(size=3), rng.normal(size=3) / 2
    w, v = y, np.zeros(3)
    for _ in range(steps):
        w, v = step(w, v, A, u)
    for mode in ("faithful", "depth", "speed"):
        net = inweave.compile(decaying, n=3, optimize=mode, verify=False)
        np.testing.assert_allclose(net(A=A, y=y, u=u), v, rtol=1e-11)


@pytest.mark.usefixtures("unchecked_passes")
def test_terms_that_join_a_family_leave_its_members_there():
    """A sweep over the rows: some terms are alike as they stand, others beneath their names."""

    @inweave.program
    def sweep(A: Matrix["n", "n"], b: Vector["n"], d: Vector["n"]):
        def step(x):
            for i, e in enumerate(np.eye(6)):
                x = x + (d[i] * (b[i] - A[i] @ x)) * e
            return x

        return inweave.iterate(step, inweave.zeros(6), 1)

    net = inweave.compile(sweep, n=6, optimize="depth", verify=False)
    rng = np.random.default_rng(0)
    given = {"A": rng.normal(size=(6, 6)), "b": rng.normal(size=6), "d": rng.normal(size=6)}
    np.testing.assert_allclose(net(**given), sweep(**given), rtol=1e-12)


@pytest.mark.parametrize(
    "shape", [(5, 4, 3), (5, 3, 4), (2, 3, 7, 2), (3, 5, 1), (3, 1, 5), (0, 4, 3), (2, 2, 40)]
)
def test_a_product_with_its_own_transpose_is_the_product_however_it_is_held(shape):
    """Whole numbers, so that every order of sums is exact; views of a larger array, too."""
    whole = np.random.default_rng(0).integers(-9, 9, size=(*shape[:-2], 50, 50)).astype(float)
    for x in (whole[..., : shape[-2], : shape[-1]], whole[..., : shape[-2], : shape[-1]].copy()):
        for a in (x, x.mT):
            expected = np.einsum("...ij,...kj->...ik", a, a)
            assert (run_numpy.matmul(a, a.mT) == expected).all()
        moved = whole[..., 1 : 1 + shape[-2], 1 : 1 + shape[-1]]
        assert (run_numpy.matmul(x.mT, moved) == np.einsum("...ji,...jk->...ik", x, moved)).all()


@pytest.mark.parametrize("mode", ["faithful", "depth", "speed"])
@pytest.mark.parametrize("d", [1, 2])
def test_multiples_of_a_value_that_is_its_own_transpose_are_taken(mode, d):
    """Of one that is known by its transpose, which is itself."""

    @inweave.program
    def program(A: Matrix["n", "d"], x: Vector["n"], w: Vector["d"]):
        def step(c, row):
            v = w
            for _ in range(11):
                v = v + (v @ row) * w
            return x - 0.5 * c, v

        c, out = inweave.scan(step, x, A)
        return inweave.iterate(lambda q: q + c, c, 3), out

    rng = np.random.default_rng(d)
    A, x, w = rng.normal(size=(2, d)) / 3, rng.normal(size=2), rng.normal(size=d)
    c, left = x, []
    for row in A:
        v = w
        for _ in range(11):
            v = v + (v @ row) * w
        c = x - 0.5 * c
        left.append(v)
    found = inweave.compile(program, n=2, d=d, optimize=mode)(A=A, x=x, w=w)
    for answer, wanted in zip(found, (4 * c, left), strict=True):
        np.testing.assert_allclose(answer, wanted, rtol=1e-10)
