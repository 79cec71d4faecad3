"""What people type: operations that mean in a program what they mean in numpy.

Every line is evaluated by numpy on arrays, by the program on the same arrays, and by the compiled
network in both targets. Shapes are drawn, ones among them: there, broadcasting goes wrong first.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.cli import main
from inweave.errors import DTypeError, InweaveError, ProgramError, ShapeError
from inweave.exact.constants import Dense
from inweave.language import expressions as ex
from tests.numpy_lines import assert_same, by_numpy, compare, data, program

HOWTO = Path(__file__).resolve().parent.parent / "docs" / "howto" / "python.md"


def rows_of(*headings: str) -> list[tuple[str, str]]:
    """The rows of the tables of the how-to, under the headings that are given or all others."""
    found = []
    for section in re.split(r"^## ", HOWTO.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        if section.partition("\n")[0] in headings:
            found += re.findall(r"^\| `([^`]+)` \| (.*) \|$", section, re.MULTILINE)
    return found


SECTIONS = re.findall(r"^## (.*)$", HOWTO.read_text("utf-8"), re.MULTILINE)
DIFFERENT, REFUSED = "Where it differs from numpy", "What is refused"
SAME = [section for section in SECTIONS if section not in (DIFFERENT, REFUSED)]


# -- the how-to ------------------------------------------------------------------------------------
@pytest.mark.parametrize("line", [line for line, _ in rows_of(*SAME)])
def test_every_line_of_the_howto_is_what_numpy_makes_of_it(line):
    compare(line, n=3, m=2 if "(3, 2)" in line else 4)


@pytest.mark.parametrize(("line", "numpy_line"), rows_of(DIFFERENT))
def test_where_a_line_differs_the_howto_says_what_it_is_to_numpy(line, numpy_line):
    compare(line, n=3, m=4, reference=numpy_line.strip("`"))


@pytest.mark.parametrize(("line", "instead"), rows_of(REFUSED))
def test_what_the_howto_calls_refused_is_refused_with_what_it_says_instead(line, instead):
    ours = program(line)
    with pytest.raises(InweaveError) as caught:
        ours.trace(**{name: {"n": 3, "m": 4}[name] for name in ours.size_names})
    said = re.findall(r"inweave\.\w+", instead)
    assert all(function in str(caught.value) for function in said), str(caught.value)
    assert "(at <string>:2" in str(caught.value)


def test_the_howto_has_a_row_for_every_function_of_the_language():
    text = HOWTO.read_text("utf-8")
    modules = ("language.functions", "language.matrices", "language.iterate", "language.scan")
    known = [name for name, (module, _) in inweave._LAZY.items() if module in modules]
    assert len(known) > 15
    assert [name for name in known if f"inweave.{name}" not in text] == []


# -- shapes, ones among them -----------------------------------------------------------------------
ANY_SHAPE = [
    "A + 1", "1 - A", "x + s", "s - x", "s + s", "A - s", "A - z", "z - A", "A + A[:1]",
    "A[:, :1] - A", "A[:, :1] + A[:1]", "A - x[:, None]", "x[None] * 2", "x @ y", "x @ B",
    "x @ A", "A @ z", "A[0] @ z", "A[0, :] @ z", "A @ A[0, :]", "A[0, :] @ A[-1, :]", "x.dot(y)",
    "A * z", "z * A", "A * A[:, :1]", "x * y", "A ** 2",
    "z.dot(A.T)", "A.dot(z)", "z + A[0, :]", "A[0, :] - z", "sum([A, A])", "sum(row for row in A)",
    "A.sum()", "A.sum(0)", "A.sum(-1)", "A.sum(axis=(0, 1))", "A.sum(0, keepdims=True)",
    "A.mean(1, keepdims=True)", "x.sum()", "x.sum(0)", "x.mean(keepdims=True)", "s.sum()",
    "A - A.mean(0)", "A[0, :].sum(0)", "A[-1]", "A[::-1]", "A[:, ::-1]", "A[::2]", "A[[0, -1, 0]]",
    "A[:, [-1]]", "A[[0], 0]", "A[..., 0]", "x[...]", "x[[-1, 0]]", "x[::-2]", "A[range(1)]",
    "tuple(x)", "x.reshape(-1, 1)", "x.reshape(1, -1)", "A.ravel()",
    "A.ravel(order='F')", "A.reshape(A.shape[1], A.shape[0])", "A.reshape((-1, A.shape[0]))",
    "A.T.reshape(A.shape, order='F')", "inweave.outer(x, z)", "np.outer(A[0, :], x)",
    "inweave.trace(B)", "np.trace(A.T @ A)", "np.trace(A @ A.T)", "inweave.squared_norm(A)",
    "inweave.squared_norm(s)", "inweave.squared_norm(A[0, :])", "np.linalg.matrix_power(B, 1)",
    "inweave.matrix_power(B, 6)", "np.kron(A, [[1, 2, 0]])", "np.kron(np.array([[1.0], [3]]), A)",
    "np.kron(np.eye(2), A)", "np.kron(A, np.ones((2, 2)))", "np.kron(x, [1.0, 2.0])",
    "np.kron(x, np.ones((2, 2)))", "np.kron(A, [1, 0.5])",
    "np.sum(A, axis=1)", "np.mean(A, 0)", "np.dot(A, z)", "np.reshape(A, -1)", "np.ravel(A)",
    "np.kron(A, B)", "np.kron(x, z)", "np.kron(x, A)", "(x, s, A.T)",
]  # fmt: skip


SIZES_ONLY = [  # what reads of some inputs nothing but how long they are
    "inweave.matrix_power(B, 0)", "np.kron(np.zeros((2, 2)), A)", "s * np.ones(len(x))",
    "np.ones(A.shape) * s", "s * s * np.eye(len(x))", "np.full(A.shape, 3.0) * s",
    "s / np.full(len(x), 2.0)", "x * np.ones(A.T.shape)", "s - np.ones(len(x))",
    "np.ones((1, 1)) * np.full(len(x), 2) * s",
]  # fmt: skip


@pytest.mark.parametrize("line", ANY_SHAPE + SIZES_ONLY)
@settings(max_examples=12)
@given(n=st.integers(1, 4), m=st.integers(1, 4))
def test_a_program_computes_what_numpy_computes_at_every_shape(line, n, m):
    arrays = data(line, n, m)
    assert_same(program(line)(**arrays), by_numpy(line, arrays))


@pytest.mark.parametrize("line", ANY_SHAPE)
@settings(max_examples=1)
@given(n=st.integers(1, 3), m=st.integers(1, 3))
def test_a_network_computes_what_numpy_computes(line, n, m):
    compare(line, n, m)


SHAPES = st.lists(st.integers(1, 3), max_size=2).map(tuple)


def annotated(name: str, shape: tuple[int, ...]) -> str:
    """An argument of the program, by its shape in numpy."""
    return f"{name}: {('Scalar', 'Vector', 'Matrix')[len(shape)]}{list(shape) or ''}"


def by_our_rules(a, symbol, b):
    """What numpy makes of two arrays, or None where it refuses; the exceptions are the how-to's."""
    columns = [x.reshape((*x.shape, 1, 1)[:2]) for x in (a, b)]
    mixed = {a.ndim, b.ndim} == {1, 2} and 1 in (columns[0].shape[1], columns[1].shape[1])
    vector, matrix = sorted((a, b), key=np.ndim)
    if symbol != "@" and mixed and matrix.shape[1] == 1 and len(vector) > 1:
        if matrix.shape != (1, 1):  # all pairs or a column: who knows
            return None
        a, b = (x.reshape(()) if x is matrix else x for x in (a, b))  # it counts as a number
    if symbol == "@" and a.ndim == 1 and a.shape[0] != b.shape[0] == 1:  # a column times a row
        return (columns[0] @ columns[1]).reshape(*a.shape, *b.shape[1:])
    try:
        return eval(f"a {symbol} b", {"a": a, "b": b})
    except ValueError:
        return None


@settings(max_examples=200)
@given(first=SHAPES, second=SHAPES, symbol=st.sampled_from(["+", "-", "*", "@"]))
def test_any_two_shapes_go_together_as_in_numpy_or_are_refused(first, second, symbol):
    assume(symbol != "@" or (first and second))  # numpy has no product with a number
    scope = {"Matrix": Matrix, "Vector": Vector, "Scalar": Scalar}
    exec(
        f"def f({annotated('a', first)}, {annotated('b', second)}):\n    return a {symbol} b", scope
    )
    ours, rng = inweave.program(scope["f"]), np.random.default_rng(0)
    arrays = {"a": rng.normal(size=first), "b": rng.normal(size=second)}
    expected = by_our_rules(np.asarray(arrays["a"]), symbol, np.asarray(arrays["b"]))
    if expected is None:
        with pytest.raises(ShapeError, match=r"\(at <string>:2"):
            ours(**arrays)
    else:
        assert_same(ours(**arrays), expected)


@given(shape=SHAPES)
def test_the_shape_of_a_value_is_that_of_numpy(shape):
    """So a mean that is written as a sum over a size is a mean, of a vector, too."""
    said = list[tuple[int, ...]]()
    scope = {"Matrix": Matrix, "Vector": Vector, "Scalar": Scalar, "said": said}
    lines = "said.extend([a.shape, a.T.shape])\n    return a"
    exec(f"def f({annotated('a', shape)}):\n    {lines}", scope)
    inweave.program(scope["f"])(np.zeros(shape))
    assert said == [shape, shape[::-1]]


@pytest.mark.parametrize("line", [
    "B[0, None]", "B[None, 0]", "B[0, None, :]", "B[0, :, None]", "B[:, 0, None]", "B[:, None, 0]",
    "B[None, :, 0]", "x[None]", "x[..., None]", "x[None, ...]", "x[()]", "B[()]", "s[()] * B",
    "np.full((1, 1), 2.0) * x", "x - np.ones((1, 1))", "B * (np.full((1, 1), 2.0) * x)",
])  # fmt: skip
@pytest.mark.parametrize("n", [1, 3])
def test_an_axis_stands_where_numpy_puts_it(line, n):
    arrays = data(line, n, n)
    assert_same(program(line)(**arrays), by_numpy(line, arrays))


@pytest.mark.parametrize("line", ["x[:, None] * z", "z * x[:, None]"])
def test_all_pairs_are_advised_where_numpy_makes_them(line):
    with pytest.raises(ShapeError, match=r"write [ab]\[None, :\] for all pairs"):
        program(line)(np.ones(4), np.ones(3))


@pytest.mark.parametrize("line", ["B.sum(axis=0, where=[True])", "B.mean(dtype=float)"])
def test_options_that_a_sum_does_not_have_are_refused_by_name(line):
    with pytest.raises(ProgramError, match=r"takes axis and keepdims, got (where|dtype)"):
        program(line)(np.eye(1))


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("line", ["K * B", "B * K", "K @ B", "B + K"])
def test_matrices_of_numpy_are_refused_since_they_multiply_otherwise(line):
    scope = {"Matrix": Matrix, "K": np.asmatrix(np.eye(2))}
    exec(f"def f(B: Matrix['n', 'n']):\n    return {line}", scope)
    with pytest.raises(DTypeError, match=r"numpy\.matrix .* np\.asarray"):
        inweave.program(scope["f"])(np.eye(2))


ENDS = st.none() | st.integers(-6, 6)
STEPS = st.none() | st.sampled_from([-3, -2, -1, 1, 2, 3])
KEYS = (
    st.builds(slice, ENDS, ENDS, STEPS)
    | st.integers(-4, 3)
    | st.lists(st.integers(-4, 3), min_size=1, max_size=5)
    | st.lists(st.booleans(), min_size=4, max_size=4)
)


@settings(max_examples=100)
@given(rows=KEYS, cols=st.builds(slice, ENDS, ENDS, STEPS))
def test_any_index_takes_what_numpy_takes_or_is_empty(rows, cols):
    X, x = np.arange(20.0).reshape(4, 5), np.arange(4.0)

    @inweave.program
    def taken(X: Matrix[4, 5], x: Vector[4]):
        return X[rows], X[:, cols], x[rows]

    expected = X[rows], X[:, cols], x[rows]
    if all(np.size(part) for part in expected):
        assert_same(taken(X=X, x=x), expected)
    else:
        with pytest.raises(ShapeError, match=r"is empty|takes nothing"):
            taken(X=X, x=x)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("x[[0, 7]]", "index 7 is outside axis 0"),
        ("x[[0.5]]", "index 0.5 of x"),
        ("x[[True, False]]", "got 2 truths for axis 0"),
        ("x[::0]", "has step 0"),
        ("x[0:3:s]", "needs ints known at compile time"),
        ("A[None]", "more than two axes"),
        ("A.reshape(5, 5)", "of 12 entries into (5, 5)"),
        ("A.reshape(-1, -1)", "cannot reshape"),
        ("A.reshape(3, 2, 2)", "cannot reshape"),
        ("A.sum(2)", "has the axes [0, 1]"),
        ("inweave.trace(A)", "needs a square matrix"),
        ("inweave.outer(A, x)", "outer takes two vectors"),
        ("inweave.matrix_power(B, -1)", "newton_schulz"),
        ("inweave.matrix_power(B, s)", "known at compile time"),
        ("A @ x", "did you mean a.T @ b?"),
        ("x + z", "differ in size"),
    ],
)
def test_what_cannot_be_is_refused_at_the_users_line(line, said):
    ours = program(line)
    with pytest.raises(InweaveError) as caught:
        ours.trace(**{name: {"n": 3, "m": 4}[name] for name in ours.size_names})
    assert said in str(caught.value)
    assert "(at <string>:2" in str(caught.value)


def test_a_batch_of_prompts_is_broadcast_one_by_one():
    @inweave.program
    def centred(X: Matrix["n", "d"]):
        return X - X.mean(axis=0)

    X = np.random.default_rng(0).normal(size=(5, 4, 3))
    for run in (centred, inweave.compile(centred, n=4, d=3)):
        np.testing.assert_allclose(run(X=X), X - X.mean(axis=1, keepdims=True), atol=1e-12)


def test_what_has_a_description_is_not_written_out():
    def function(X: Matrix["n", "d"], w: Vector["d"], s: Scalar):
        shown = (X - X.mean(0) + s + 1) @ w - X[0] @ w + X[2:-1].sum()
        return shown + inweave.trace(X[:2, :2]) + inweave.squared_norm(w.reshape(2, -1))

    recorded = inweave.program(function).trace(n=2000, d=30)
    constants = [x.constant for x in ex.every(recorded.outputs.values()) if hasattr(x, "constant")]
    assert constants
    assert not [constant for constant in constants if isinstance(constant, Dense)]


@pytest.mark.parametrize("line", ["A - A.mean(0)", "A + A.sum(1, keepdims=True)"])
def test_a_mean_is_computed_once_for_all_rows(line):
    assert inweave.compile(program(line), n=40, m=10).plan.flops <= 6 * 40 * 10


# -- tuples as answers -----------------------------------------------------------------------------
@inweave.program
def two(X: Matrix["n", "d"], y: Vector["n"]) -> tuple[Vector["d"], Scalar]:
    return X.T @ y, y @ y


def test_a_tuple_comes_back_from_the_program_the_network_and_its_file(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {"X": rng.normal(size=(3, 2)), "y": rng.normal(size=3)}
    expected = arrays["X"].T @ arrays["y"], arrays["y"] @ arrays["y"]
    net = inweave.compile(two, n=3, d=2)
    net.save(tmp_path / "two.inweave")
    for run in (two, net, inweave.load(tmp_path / "two.inweave"), net.resize(d=2)):
        assert_same(run(**arrays), expected)
    assert [output.name for output in net.outputs] == ["0", "1"]
    assert "answer1" in str(net)
    assert inweave.verify(two, net).is_proof


def test_a_tuple_of_answers_is_written_by_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = """
import inweave
from inweave import Matrix, Vector

@inweave.program
def sums(X: Matrix["n", "d"], y: Vector["n"]):
    return X.T @ y, X.sum(axis=0)
"""
    (tmp_path / "sums.py").write_text(text, encoding="utf-8")
    (tmp_path / "table.csv").write_text("a,b,y\n1,2,3\n4,5,7\n", encoding="utf-8")
    assert main(["run", "sums.py:sums", "--data", "table.csv", "--response", "y"]) == 0
    shown = capsys.readouterr().out.split()
    assert shown == ["entry,0,1", "a,31.0,5.0", "b,41.0,7.0"]


def test_the_annotation_of_a_tuple_is_checked():
    def wrong(X: Matrix["n", "d"]) -> tuple[Scalar, Vector["n"]]:
        return X[0, 0], X[0]

    with pytest.raises(ShapeError, match=r"annotated to return Vector\['n'\] \(3 x 1\)"):
        inweave.program(wrong).trace(n=3, d=2)


@pytest.mark.parametrize(("result", "said"), [((), "must return a value"), ({"0": 1}, "a tuple")])
def test_answers_that_could_not_be_told_from_a_tuple_are_refused(result, said):
    def function(s: Scalar):
        return dict.fromkeys(result, s) if isinstance(result, dict) else result

    with pytest.raises(ProgramError, match=said):
        inweave.program(function).trace()
