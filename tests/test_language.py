"""The language: what a program may say, the shapes it answers in, and how it refuses the rest."""

from __future__ import annotations

import re
from typing import Any, Literal, TypeVar

import numpy as np
import pytest

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.errors import (
    BlockError,
    DTypeError,
    InputError,
    InweaveError,
    ProgramError,
    ShapeError,
)


def traced(function, **sizes):
    return inweave.program(function).trace(**sizes)


# -- refusals: the user's line, the operands with their shapes, and what to do instead -------------
def elementwise(A: Matrix["n", "m"], B: Matrix["m", "n"]):
    return A * B


def rows_scaled(A: Matrix["n", "m"], v: Vector["n"]):
    return A * v


def mask_by_value(A: Matrix["n", "m"]):
    return inweave.where(A, A, 0)


def mask_of_another_size(A: Matrix["n", "m"]):
    return inweave.where(np.ones((3, 2)), A, 0)


def data_dependent(A: Matrix["n", "m"], s: Scalar):
    return A if s > 0 else -A


def truth(A: Matrix["n", "m"], s: Scalar):
    return A if s else -A


def sum_of_sizes(A: Matrix["n", "m"], B: Matrix["m", "n"]):
    return A + B


def columns_of_sizes(A: Matrix["n", "m"]):
    return A - A[:, 0]


def product_of_sizes(A: Matrix["n", "m"], B: Matrix["n", "m"]):
    return A @ B


def product_of_sizes_right(A: Matrix["n", "m"], B: Matrix["m", "m"]):
    return B @ A


def division(A: Matrix["n", "m"], s: Scalar):
    return A / s


def division_of_number(s: Scalar):
    return 1 / s


def division_by_zero(A: Matrix["n", "m"]):
    return A / 0


def power(A: Matrix["n", "n"]):
    return A**0.5


def matmul_number(A: Matrix["n", "n"]):
    return A @ 2


def looped_over(s: Scalar):
    return sum(entry for entry in s)


def index_beyond(A: Matrix["n", "m"]):
    return A[:, 7]


def empty_slice(A: Matrix["n", "m"]):
    return A[2:1, :]


def paired(A: Matrix["n", "m"]):
    return A[[0, 1], [0, 1]]


def entry_of_a_row(x: Vector["m"]):
    return x.T[0]


def three_axes(A: Matrix["n", "m"]):
    return A[0, 0, 0]


def uneven_stack(A: Matrix["n", "m"], B: Matrix["m", "n"]):
    return inweave.vstack([A, B])


def text(A: Matrix["n", "m"]):
    return A + "one"


def cube(A: Matrix["n", "m"]):
    return A + np.zeros((2, 3, 1))


def to_float(A: Matrix["n", "m"], s: Scalar):
    return float(s) * A


REFUSED = [
    (elementwise, ShapeError, "entry by entry", ["A [2 x 3]", "B [3 x 2]"], "a * b.T"),
    (rows_scaled, ShapeError, "differ in size", ["v [2 x 1]"], "inweave.diag(b) @ a"),
    (mask_by_value, ProgramError, "not known at compile time", ["A [2 x 3]"], "inweave.relu"),
    (mask_of_another_size, ShapeError, "3 x 2", ["A [2 x 3]"], "or a scalar"),
    (data_dependent, ProgramError, "cannot compare", ["s [1 x 1]"], "inweave.relu"),
    (truth, ProgramError, "data-dependent `if`", ["s [1 x 1]"], "inweave.relu"),
    (sum_of_sizes, ShapeError, "differ in size", ["A [2 x 3]", "B [3 x 2]"], ""),
    (columns_of_sizes, ShapeError, "differ in size", ["A [2 x 3]"], "write b[:, None]"),
    (product_of_sizes, ShapeError, "3 columns", ["A [2 x 3]", "B [2 x 3]"], "a.T @ b"),
    (product_of_sizes_right, ShapeError, "2 rows", ["B [3 x 3]", "A [2 x 3]"], "a @ b.T"),
    (division, ProgramError, "by the variable", ["A [2 x 3]", "s [1 x 1]"], "inweave.assume"),
    (division_of_number, ProgramError, "by the variable", ["s [1 x 1]"], "inweave.assume"),
    (division_by_zero, InweaveError, "by zero", ["A [2 x 3]"], ""),
    (power, ProgramError, "to the power 0.5", ["A [2 x 2]"], "products with @"),
    (matmul_number, ProgramError, "by the number 2", ["A [2 x 2]"], "use *"),
    (looped_over, ProgramError, "cannot loop over", ["s [1 x 1]"], "the rows of a matrix"),
    (index_beyond, ShapeError, "index 7 is outside axis 1", ["A [2 x 3]"], ""),
    (empty_slice, ShapeError, "is empty", ["A [2 x 3]"], ""),
    (paired, ProgramError, "cannot pair the lists", ["A [2 x 3]"], "x[rows][:, cols]"),
    (entry_of_a_row, ProgramError, "is ambiguous", ["x.T [1 x 3]"], "x[0, i]"),
    (three_axes, ShapeError, "two axes", ["A [2 x 3]"], ""),
    (uneven_stack, ShapeError, "does not fit", ["B [3 x 2]"], "expected 3 x 3"),
    (text, DTypeError, "cannot use a str", [], "a number, an array or a matrix value"),
    (cube, ShapeError, "at most two axes", [], ""),
    (to_float, ProgramError, "has no value", ["s [1 x 1]"], "keep it symbolic"),
]


@pytest.mark.parametrize(
    ("function", "error", "what", "operands", "hint"),
    REFUSED,
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_what_attention_cannot_say_is_refused_at_the_users_line(
    function, error, what, operands, hint
):
    sizes = {"n": 2, "m": 3}
    program = inweave.program(function)
    with pytest.raises(error) as caught:
        program.trace(**{name: sizes[name] for name in program.size_names})
    message = str(caught.value)
    assert what in message
    for operand in operands:
        assert operand in message, message
    assert hint in message
    line = function.__code__.co_firstlineno + 1
    assert f"test_language.py:{line}: `return " in message, message
    assert "object at 0x" not in message


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_constants_must_be_finite(bad):
    def number(A: Matrix["n", "n"]):
        return bad * A

    def array(A: Matrix["n", "n"]):
        return A + np.array([[1.0, bad], [0.0, 1.0]])

    for function in (number, array):
        with pytest.raises(InputError, match="finite"):
            traced(function, n=2)


def test_constants_must_be_real():
    def program(A: Matrix["n", "n"]):
        return A + np.array([[1j, 0], [0, 1]])

    with pytest.raises(DTypeError, match="real"):
        traced(program, n=2)


# -- what a program returns ------------------------------------------------------------------------
def test_a_program_that_returns_nothing_is_refused():
    def nothing(A: Matrix["n", "n"]):
        A @ A

    with pytest.raises(ProgramError, match="'nothing' returns nothing; return a value, or a tuple"):
        traced(nothing, n=2)


@pytest.mark.parametrize("result", [{}, {1: None}, {"": None}])
def test_a_dict_of_answers_needs_names(result):
    def program(A: Matrix["n", "n"]):
        return dict.fromkeys(result, A)

    with pytest.raises(ProgramError, match="dict with names"):
        traced(program, n=2)


def test_the_annotation_of_the_answer_is_checked():
    def program(A: Matrix["n", "m"]) -> Matrix["m", "n"]:
        return A

    with pytest.raises(
        ShapeError, match=r"annotated to return .* \(3 x 2\), but returns A \[2 x 3\]"
    ):
        traced(program, n=2, m=3)


def test_answers_have_the_shape_of_their_kind_with_batch_axes_in_front():
    @inweave.program
    def program(A: Matrix["n", "m"], x: Vector["m"], s: Scalar):
        return {
            "scalar": x.T @ x,
            "input": s,
            "vector": A @ x,
            "matrix": A.T @ A,
            "outer": x @ x.T,
            "row": x.T,
            "entry": A[0, 1],
            "column": A[:, 1],
            "part": x[1:],
        }

    shapes = {"scalar": (), "input": (), "vector": (2,), "matrix": (3, 3), "outer": (3, 3),
              "row": (1, 3), "entry": (), "column": (2,), "part": (2,)}  # fmt: skip
    rng = np.random.default_rng(0)
    net = inweave.compile(program, n=2, m=3)
    for lead in ((), (5,), (2, 4)):
        inputs = {
            "A": rng.normal(size=(*lead, 2, 3)),
            "x": rng.normal(size=(*lead, 3)),
            "s": rng.normal(size=lead),
        }
        for answers in (program(**inputs), net(**inputs)):
            assert {name: x.shape[len(lead) :] for name, x in answers.items()} == shapes
            assert all(x.shape[: len(lead)] == lead for x in answers.values())


def test_a_vector_is_a_column_eagerly_too():
    @inweave.program
    def program(u: Vector["n"], v: Vector["n"]):
        return {"inner": u.T @ v, "outer": u @ v.T}

    u, v = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    lifted = program(u=u, v=v)
    assert lifted["inner"] == u @ v
    assert np.array_equal(lifted["outer"], np.outer(u, v))
    columns = program(u=u[:, None], v=v[:, None])
    assert columns["inner"] == lifted["inner"]


def test_annotated_kinds_decide_the_shape_of_the_answer():
    @inweave.program
    def number(x: Matrix[1, 1]) -> Scalar:
        return x @ x

    @inweave.program
    def column(x: Matrix["n", 1]) -> Vector["n"]:
        return x + x

    assert number(x=np.array([[3.0]])).shape == ()
    assert column(x=np.ones((4, 1))).shape == (4,)


# -- arguments -------------------------------------------------------------------------------------
def test_literal_sizes_are_honoured():
    @inweave.program
    def program(A: Matrix["n", 3], x: Vector[3]):
        return A @ x

    assert program(np.ones((2, 3)), np.ones(3)).tolist() == [3.0, 3.0]
    with pytest.raises(ShapeError, match="'x'"):
        program(np.ones((2, 3)), np.ones(4))


@pytest.mark.parametrize("sizes", [(), ("n",), ("n", "m", "k"), ("n", 0), ("n", -1), ("n", 1.5),
                                   ("n", True), ("n", "not a name")])  # fmt: skip
def test_annotations_with_wrong_sizes_are_refused(sizes):
    with pytest.raises(ProgramError, match="Matrix takes 2 sizes"):
        Matrix[sizes]


N = TypeVar("N")
D = TypeVar("D")


def test_sizes_are_named_by_strings_or_by_type_variables():
    def by_variables(X: Matrix[N, D], y: Vector[N], C: Matrix[Literal[3], D]) -> Vector[D]:
        return X.T @ y + C.T @ C[:, 0]

    def by_strings(X: Matrix["N", "D"], y: Vector["N"], C: Matrix[3, "D"]) -> Vector["D"]:
        return X.T @ y + C.T @ C[:, 0]

    first, second = inweave.program(by_variables), inweave.program(by_strings)
    assert first.arguments == second.arguments
    assert first.returns == second.returns
    assert first.size_names == ("N", "D")
    assert inweave.compile(first, N=2, D=3).inputs == inweave.compile(second, N=2, D=3).inputs


def test_sizes_may_be_declared_by_the_function_itself():
    """What `def f[n, d](...)` leaves behind from Python 3.12 on: its own type variables."""

    def function(X: Matrix[own_n, own_d], y: Vector[own_n]):
        return X.T @ y

    function.__type_params__ = (TypeVar("own_n"), TypeVar("own_d"))
    assert inweave.program(function).size_names == ("own_n", "own_d")


def test_a_size_that_is_not_said_is_for_answers_only():
    def answer(X: Matrix["n", "d"]) -> Vector[Any]:
        return X[0]

    def argument(X: Matrix[Any, "d"]):
        return X

    assert inweave.program(answer).trace(n=2, d=3).kinds == {"": "vector"}
    with pytest.raises(ProgramError, match=r"name the sizes of 'X': Matrix\[Any, 'd'\]"):
        inweave.program(argument)


def test_an_argument_without_an_annotation_is_refused():
    with pytest.raises(ProgramError, match=r"argument 'A' needs an annotation .* after a \*"):
        inweave.program(lambda A: A)


def test_sizes_that_disagree_are_refused_by_name():
    @inweave.program
    def program(A: Matrix["n", "m"], x: Vector["m"]):
        return A @ x

    with pytest.raises(ShapeError, match=r"input 'x': size m is 4, an earlier input has m = 3"):
        program(A=np.ones((2, 3)), x=np.ones(4))


def test_missing_unknown_and_repeated_arguments_are_named():
    @inweave.program
    def program(A: Matrix["n", "n"], s: Scalar):
        return s * A

    with pytest.raises(BlockError, match="missing: s"):
        program(A=np.eye(2))
    with pytest.raises(BlockError, match="unknown: B"):
        program(A=np.eye(2), s=1.0, B=np.eye(2))
    with pytest.raises(BlockError, match="'A' twice"):
        program(np.eye(2), A=np.eye(2), s=1.0)
    with pytest.raises(BlockError, match="takes 2 arrays, got 3"):
        program(np.eye(2), 1.0, 2.0)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (np.ones((2, 3)), ShapeError),
        (np.ones(2), ShapeError),
        (np.array([[1.0, np.nan], [0.0, 1.0]]), InputError),
        (np.array([[1j, 0], [0, 1]]), DTypeError),
        (np.array([["a", "b"], ["c", "d"]]), DTypeError),
        (None, InweaveError),
    ],
)
def test_arrays_of_the_wrong_shape_or_kind_are_refused_by_name(value, error):
    @inweave.program
    def program(A: Matrix["n", "n"]):
        return A @ A

    with pytest.raises(error, match="input 'A'"):
        program(A=value)


# -- loops -----------------------------------------------------------------------------------------
@inweave.program
def power_of(A: Matrix["n", "n"], x: Vector["n"], *, steps: int):
    return inweave.iterate(lambda v: A @ v, x, steps)


def test_no_step_leaves_the_start_as_it_is():
    x = np.array([1.0, 2.0])
    assert np.array_equal(power_of(A=np.eye(2) * 3, x=x, steps=0), x)
    with pytest.warns(UserWarning, match="does not use its input"):
        net = inweave.compile(power_of, n=2, steps=0)
    assert net.depth == 0
    assert np.array_equal(net(A=np.eye(2) * 3, x=x), x)


@pytest.mark.parametrize("steps", [-1, -7])
def test_a_negative_number_of_steps_is_refused(steps):
    with pytest.raises(InputError, match=rf"cannot run {steps} times.*test_language\.py"):
        inweave.compile(power_of, n=2, steps=steps)


@pytest.mark.parametrize("times", [2.0, "3", None, True])
def test_the_number_of_steps_must_be_an_int(times):
    def program(x: Vector["n"]):
        return inweave.iterate(lambda v: v, x, times)

    with pytest.raises(InputError, match="number of times known at compile time"):
        traced(program, n=2)


def test_several_carried_values_move_together():
    @inweave.program
    def fibonacci(a: Scalar, b: Scalar, *, steps: int):
        a, b = inweave.iterate(lambda a, b: (b, a + b), (a, b), steps)
        return {"a": a, "b": b}

    found = fibonacci(a=0.0, b=1.0, steps=10)
    assert (found["a"], found["b"]) == (55.0, 89.0)
    net = inweave.compile(fibonacci, steps=10)
    found = net(a=0.0, b=1.0)
    assert (found["a"], found["b"]) == (55.0, 89.0)


def loop_program(step, start=lambda x: x):
    def program(x: Vector["n"]):
        return inweave.iterate(step, start(x), 3)

    return program


@pytest.mark.parametrize(
    ("step", "start", "error", "message"),
    [
        (
            lambda v: v @ v.T,
            lambda x: x,
            ShapeError,
            r"changes the shape of v: 2 x 1 before, .*2 x 2",
        ),
        (lambda v: None, lambda x: x, ProgramError, "the step of iterate returns nothing"),  # noqa: ARG005
        (lambda v: (v, v), lambda x: x, ProgramError, "returns 2 values, it carries 1"),
        (lambda v, w: v, lambda x: (x, x), ProgramError, "returns 1 values, it carries 2"),  # noqa: ARG005
        (lambda: 0, lambda x: (), InputError, "at least one carried value"),  # noqa: ARG005
    ],
)
def test_a_step_that_does_not_fit_what_it_carries_is_refused(step, start, error, message):
    with pytest.raises(error, match=message) as caught:
        traced(loop_program(step, start), n=2)
    assert re.search(r"test_language\.py:\d+", str(caught.value))


def test_nested_loops_and_plain_loops_agree():
    @inweave.program
    def nested(A: Matrix["n", "n"], x: Vector["n"]):
        return inweave.iterate(lambda w: inweave.iterate(lambda v: A @ v + w, w, 2) - x, x, 3)

    @inweave.program
    def plain(A: Matrix["n", "n"], x: Vector["n"]):
        w = x
        for _ in range(3):
            v = w
            for _ in range(2):
                v = A @ v + w
            w = v - x
        return w

    rng = np.random.default_rng(0)
    inputs = {"A": rng.normal(size=(3, 3)), "x": rng.normal(size=3)}
    assert np.allclose(nested(**inputs), plain(**inputs), rtol=1e-13, atol=0)


# -- other array libraries -------------------------------------------------------------------------
@inweave.program
def every_operation(A: Matrix["n", "m"], x: Vector["m"], s: Scalar):
    F = np.array([[1.0, 2.0], [0.5, -1.0]])
    y = inweave.iterate(lambda v: v - s * (A.T @ (A @ v)), x, 3)
    tall = inweave.vstack([A @ y, F @ (A @ x)]) / 3
    return {
        "tall": tall,
        "block": inweave.hstack([A[:, :1], A])[:, 1:] - inweave.ones(2, 3),
        "s": -s,
    }


def numbers():
    rng = np.random.default_rng(0)
    return {"A": rng.normal(size=(2, 3)), "x": rng.normal(size=3), "s": np.array(0.25)}


@pytest.mark.parametrize("library", ["numpy", "torch", "jax.numpy", "array_api_strict"])
def test_programs_compute_with_arrays_of_any_library(library):
    xp = pytest.importorskip(library)
    expected = every_operation(**numbers())
    if library == "torch":
        given = {name: xp.tensor(x, dtype=xp.float64) for name, x in numbers().items()}
        kind, rtol = xp.Tensor, 1e-12
    elif library == "array_api_strict":
        given = {name: xp.asarray(x.tolist(), dtype=xp.float64) for name, x in numbers().items()}
        kind, rtol = type(xp.asarray(0.0)), 1e-12
    else:
        given = {name: xp.asarray(x) for name, x in numbers().items()}
        kind, rtol = type(xp.asarray(0.0)), 1e-12 if library == "numpy" else 1e-5
    for answers in (every_operation(**given), inweave.compile(every_operation, n=2, m=3)(**given)):
        for name, value in answers.items():
            assert isinstance(value, (kind, np.generic)) or library == "numpy"
            assert tuple(value.shape) == expected[name].shape
            plain = np.from_dlpack(value) if library == "array_api_strict" else np.asarray(value)
            assert np.allclose(plain, expected[name], rtol=rtol, atol=rtol)
