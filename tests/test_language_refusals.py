"""What a program cannot mean is refused, where Python by itself would carry on with something else.

Comparisons that would compare objects, traces of a function whose surroundings have changed, numpy
functions that know nothing of expressions, names that inweave needs itself, and commands that would
show something else than what was asked for.
"""

from __future__ import annotations

import functools
import inspect
import re

import numpy as np
import pytest

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.cli import main
from inweave.errors import InputError, ProgramError, VerificationError
from inweave.language.program import OF_CALLS, OF_SIZES


def refused(function, error=ProgramError, **sizes):
    """The message with which a program is refused, which names the user's own line."""
    with pytest.raises(error) as caught:
        inweave.compile(inweave.program(function), **sizes)
    message = str(caught.value)
    assert "test_language_refusals.py:" in message, message
    assert "object at 0x" not in message
    return message


def named(text):
    """A program from its text: what it says is the point."""
    scope = {"np": np, "inweave": inweave, "Matrix": Matrix, "Scalar": Scalar, "Vector": Vector}
    exec(text, scope)
    return inweave.program(scope["f"])


# -- comparisons of values that are not known ------------------------------------------------------
def equal(x: Scalar):
    return 5 + x if x == 0 else 2 * x


def equal_reflected(x: Scalar):
    return 5 + x if 0 == x else 2 * x  # noqa: SIM300


def equal_to_numpy(x: Scalar):
    return 5 + x if np.float64(0) == x else 2 * x


def equal_to_an_array(x: Vector["n"]):
    return 3 * x if (np.zeros(2) == x) else 2 * x


def unequal(x: Scalar):
    return 5 + x if x != 0 else 2 * x


def equal_to_another(x: Scalar, y: Scalar):
    return x if x == y else y


def among(x: Scalar):
    return 5 + x if x in (0, 1) else 2 * x


def among_a_set(x: Scalar):
    return 5 + x if x in {0, 1} else 2 * x


def chosen(x: Scalar):
    return {0: 5 + x}.get(x, 2 * x)


def place_in_a_list(x: Scalar, y: Scalar):
    return [1, 2][[y, x].index(x)] * x


def contains(x: Vector["n"]):
    return 3 * x if 0 in x else 2 * x


def matched(x: Scalar):
    match x:
        case 0:
            return 5 + x
        case _:
            return 2 * x


@pytest.mark.parametrize(
    "function",
    [
        equal,
        equal_reflected,
        equal_to_numpy,
        equal_to_an_array,
        unequal,
        equal_to_another,
        among,
        among_a_set,
        chosen,
        place_in_a_list,
        contains,
        matched,
    ],
    ids=lambda f: f.__name__,
)
def test_a_comparison_by_value_is_refused_instead_of_comparing_objects(function):
    sizes = dict.fromkeys(inweave.program(function).size_names, 2)
    message = refused(function, **sizes)
    assert re.search(r"cannot (compare|look up|ask)", message)
    assert "known while a program is traced" in message


def test_the_same_object_may_be_asked_for():
    def program(x: Scalar, y: Scalar):
        assert x is not y
        assert x in [x, y]  # the same object has the same value
        return {id(x): x + y}[id(x)]

    assert inweave.compile(inweave.program(program))(x=1.0, y=2.0) == 3.0


def test_constants_outside_a_program_are_compared_as_little():
    with pytest.raises(ProgramError, match="cannot compare"):
        _ = inweave.eye(2) == inweave.eye(2)


# -- what stands around a program may change -------------------------------------------------------
FACTOR = 1.0


def helper(x):
    return FACTOR * x


@pytest.fixture
def factor(monkeypatch):
    return lambda value: monkeypatch.setitem(globals(), "FACTOR", value)


def test_a_global_that_changes_changes_program_and_network(factor):
    @inweave.program
    def program(x: Vector["n"]):
        return helper(x)

    x = np.array([1.0, 2.0])
    first = inweave.compile(program, n=2)
    assert (first(x=x) == x).all()
    assert (program(x=x) == x).all()
    factor(7.0)
    assert (program(x=x) == 7 * x).all()
    assert (inweave.compile(program, n=2)(x=x) == 7 * x).all()
    with pytest.raises(VerificationError, match="differ"):
        first.verify()
    with pytest.raises(VerificationError, match="differ"):
        inweave.verify(program, first)
    factor(1.0)
    assert first.verify().program == "program"


def test_a_closure_or_an_array_that_changes_is_seen():
    A, k = np.eye(2), 2.0

    @inweave.program
    def program(x: Vector["n"]):
        return A @ (k * x)

    x = np.array([1.0, 2.0])
    assert (inweave.compile(program, n=2)(x=x) == 2 * x).all()
    A[0, 0], k = 5.0, 3.0
    expected = np.array([15.0, 6.0])
    assert (program(x=x) == expected).all()
    assert (inweave.compile(program, n=2)(x=x) == expected).all()


def test_a_program_that_is_another_one_each_time_is_not_certified():
    rng = np.random.default_rng(0)

    @inweave.program
    def program(x: Scalar):
        return float(rng.normal()) * x

    with pytest.raises(ProgramError, match="another one each time it is recorded"):
        inweave.compile(program)


# -- what Python and numpy offer and attention has not ---------------------------------------------
REFUSED = {
    "np.einsum('ij,j', X, w)": ("numpy's einsum", '"ij,jk->ik" is a @ b'),
    "np.tensordot(X, w, 1)": ("numpy's tensordot", "use a @ b"),
    "np.prod(w) * w": ("numpy's prod", "inweave.scan(lambda p, x: (p * x, None), 1.0, x)[0]"),
    "np.stack([w, w])": ("numpy's stack", "vectors as rows inweave.hstack([x, y]).T"),
    "np.hstack([w, w])": ("numpy's hstack", "one below the other is inweave.vstack([a, b])"),
    "X[[0, 1], [1, 0]]": ("cannot pair the lists", "inweave.diag(x[rows][:, cols])"),
    "X[s, 0] * w": ("s [1 x 1]", "not an int"),
    "X.astype(float)": ("no attribute 'astype'", "leave it out"),
    "w ** 0.5": ("the power 0.5", "inweave.sqrt"),
    "w ** -1": ("the power -1", "inweave.reciprocal"),
    "np.ones(2).__iadd__(w)": ("to hold w [2 x 1]", "write a = a + x"),
    "inweave.scan(lambda a, r: (a, None), s, [w, w])[0]": ("list of", "scan(step, start, x, y)"),
    "inweave.scan(lambda a, r: (a, None), s, w, length=2)[0]": ("'length'", "inweave.iterate"),
    "inweave.reciprocal(inweave.assume(w, 1, 2, either_sign=True))": ("needs domain", "1 / x"),
    "2 * inweave.assume(w, 1, 2)": ("nothing reads the range [1, 2]", "say it there"),
    "w / inweave.assume(2 * inweave.assume(s, 1, 2), 2, 4)": ("[1, 2] that is assumed of s", ""),
    "np.linalg.inv(X) @ w": ("numpy's inv", "inweave.iterate"),
    "np.maximum(w, 0)": ("numpy's maximum", "inweave.relu"),
    "np.cumsum(w)": ("numpy's cumsum", "inweave.scan(step, start, x)"),
    "np.sum(w, axis=1)": ("w [2 x 1] has the axes [0]", "got axis=1"),
    "np.sum(w, where=[True, False])": ("numpy's sum of w", "'where'"),
    "np.linalg.norm(w)": ("numpy's norm", "inweave.squared_norm(x)"),
    "np.exp(w)": ("numpy's exp", "inweave.exp"),
    "np.vstack([w, w])": ("numpy's vstack", "inweave.vstack"),
    "np.add.reduce(w)": ("numpy's add.reduce", "use +"),
    "np.array(w)": ("cannot become an array", "use +"),
    "np.array([w, w])": ("cannot become an array", "use +"),
    "X @ [s, s]": ("a list of expressions", "inweave.vstack"),
    "X.trace() * w": ("no attribute 'trace'", "inweave.trace(x)"),
    "w.cumsum()": ("no attribute 'cumsum'", "inweave.scan(step, start, x)"),
    "X / s": ("the variable s [1 x 1]", "write X / inweave.assume(s, lo, hi)"),
    "w / (2 * s + 1)": ("range is not known", "w / inweave.assume(2 s + I1, lo, hi)"),
    "1 / s": (
        "cannot divide 1 by the variable s [1 x 1]",
        "write 1 / inweave.assume(s, lo, hi), with either_sign",
    ),
    "w / w": ("the variable w [2 x 1]", "write w / inweave.assume(w, lo, hi)"),
    "w / [1, 0]": ("division of w [2 x 1] by zero", ""),
    "w / inweave.assume(s, -1, 1)": ("range [-1, 1] holds zero", "either_sign=True"),
    "w / inweave.assume(s, 2, 1)": ("a range needs", "low < high"),
    "w / inweave.assume(s, -2, 1, either_sign=True)": ("of either sign", "positive"),
    "X / inweave.assume(inweave.ones(3) * s, 1, 2)": ("a / b", "differ in size"),
    "inweave.log(inweave.assume(s, -1, 1))": ("log needs", "positive"),
    "inweave.exp(inweave.assume(s, 1, 2, either_sign=True))": ("[-2, -1] or [1, 2]", "domain="),
    "inweave.exp(w, domain=(0, 400))": ("exp works on domains within [-300, 300]", ""),
    "inweave.softmax(w, axis=1)": ("has the axes [0]", "axis=1"),
    "w // 2": ("cannot compute // of w [2 x 1]", "inweave.pointwise"),
    "w % 2": ("cannot compute % of w [2 x 1]", "inweave.pointwise"),
    "np.ones(2) % w": ("cannot compute % of w [2 x 1]", ""),
    "round(s) * w": ("cannot compute a rounding of s", ""),
    "2**s * w": ("cannot compute a power of s", ""),
    "[w for _ in range(s)][0]": ("s [1 x 1] has no value", ""),
    "w if np.float64(0) < s else X @ w": ("cannot compare s", ""),
    "w[0:1.5]": ("the slice 0:1.5 of w", "got 1.5"),
    "w[0:s]": ("of w [2 x 1] needs ints", "got s [1 x 1]"),
    "inweave.iterate(lambda a, b: a, w, 3)": ("(a, b)", "carries 1 value"),
    "inweave.iterate(3, w, 3)": ("must be a function", "got 3"),
    "10**400 * w": ("about 10^400", "float64"),
    "1e200 * (1e200 * w)": ("multiplies w [2 x 1]", "float64"),
    "w / 5e-324": ("about 10^323", "float64"),
    "w / [5e-324, 1]": ("about 10^323, which multiplies w [2 x 1]", "float64"),
    "w + [10**400, 1]": ("about 10^400", "float64"),
    "w + [[1, 2], [3]]": ("rows of equal length", ""),
    "inweave.eye((3, 4)) @ w": ("one positive size", "(3, 4)"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_operation_of_the_language_is_refused_with_what_to_do(text):
    what, instead = REFUSED[text]
    program = named(f"def f(X: Matrix['n', 'n'], w: Vector['n'], s: Scalar):\n    return {text}")
    with pytest.raises(inweave.InweaveError) as caught:
        inweave.compile(program, n=2)
    message = str(caught.value)
    assert what in message, message
    assert instead in message, message
    assert "(at <string>:2" in message, message


def test_a_line_of_pythons_library_is_not_the_users():
    """singledispatch calls inweave from functools.py, which says nothing to the user."""

    def function(s: Scalar):
        return functools.singledispatch(inweave.log)(inweave.assume(s, -1, 1))

    message = refused(function, InputError)
    assert "functools.singledispatch(inweave.log)" in message
    assert "functools.py" not in message


def test_a_range_that_is_read_in_a_step_is_read():
    """A step is recorded twice, and both times it says the range anew."""

    @inweave.program
    def program(w: Vector["n"], s: Scalar):
        return inweave.iterate(lambda w: w / inweave.assume(s, 1, 2), w, 3)

    assert program(w=[8.0], s=2.0) == [1.0]


@pytest.mark.parametrize("power", [0, np.int64(0)])
def test_the_power_zero_is_one_in_every_entry(power):
    @inweave.program
    def program(X: Matrix["n", "m"], w: Vector["n"], s: Scalar):
        return {"X": X + X**power, "w": w + w**power, "s": s + s**power}

    given = {"X": np.zeros((2, 3)), "w": np.array([1.0, 2.0]), "s": 0.0}
    for run in (program, inweave.compile(program, n=2, m=3)):
        for name, value in run(**given).items():
            np.testing.assert_array_equal(value, np.asarray(given[name]) + 1)


def test_entries_are_not_assigned():
    def function(w: Vector["n"]):
        w[0] = 1
        return w

    assert "inweave.vstack" in refused(function, n=2)


def test_arrays_and_ufuncs_that_are_operators_stay_operators():
    A, b = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([5.0, 6.0])

    @inweave.program
    def program(X: Matrix["n", "n"], w: Vector["n"], s: Scalar):
        y = np.matmul(A, w) + np.add(b, w) - np.float64(2) * w + np.int64(3) * (A @ X @ w)
        return {"y": b - np.negative(y) + np.multiply(s, w), "z": abs(w), "power": s ** np.int64(2)}

    X, w = np.array([[1.0, 0.0], [2.0, 1.0]]), np.array([1.0, -2.0])
    y = b + (A @ w + b + w - 2 * w + 3 * (A @ X @ w)) + 0.5 * w
    found = inweave.compile(program, n=2)(X=X, w=w, s=0.5)
    np.testing.assert_allclose(found["y"], y, rtol=1e-12)
    np.testing.assert_array_equal(found["z"], abs(w))
    assert found["power"] == 0.25


def test_hasattr_says_what_an_expression_has():
    seen = []

    def function(w: Vector["n"]):
        seen.append((hasattr(w, "shape"), hasattr(w, "cumsum"), hasattr(w, "_repr_html_")))
        return 2 * w

    inweave.program(function).trace(n=2)
    assert seen == [(True, False, False)]


def test_numpy_integers_are_indices():
    @inweave.program
    def program(x: Vector["n"]):
        return x[np.int64(1)] * x[np.int32(0) : np.int64(2)]

    assert (inweave.compile(program, n=3)(x=np.array([2.0, 3.0, 4.0])) == [6.0, 9.0]).all()


@pytest.mark.parametrize("d", [1, 2])
def test_a_column_is_a_vector_whatever_is_done_to_it(d):
    @inweave.program
    def program(X: Matrix["n", "d"], y: Vector["n"]):
        c = X[:, 0]
        return {"c": c, "scaled": 2 * c, "sum": c + y, "minus": -c, "all": X, "entry": X[0, 0]}

    X, y = np.arange(3.0 * d).reshape(3, d) + 1, np.ones(3)
    c = X[:, 0]
    for run in (program, inweave.compile(program, n=3, d=d)):
        found = run(X=X, y=y)
        for name, value in {"c": c, "scaled": 2 * c, "sum": c + y, "minus": -c}.items():
            assert found[name].shape == (3,), name
            np.testing.assert_array_equal(found[name], value)
        assert found["all"].shape == (3, d)
        assert found["entry"].shape == ()


def test_the_entry_of_a_vector_of_one_is_a_number():
    @inweave.program
    def program(x: Vector["n"]):
        return x[0]

    assert program(x=np.array([2.0])).shape == ()
    assert inweave.compile(program, n=1)(x=np.array([2.0])).shape == ()


# -- programs --------------------------------------------------------------------------------------
@pytest.mark.parametrize("given", [3, None, "ridge", np.eye(2)], ids=str)
def test_only_functions_become_programs(given):
    with pytest.raises(ProgramError, match=r"inweave\.program takes a function"):
        inweave.program(given)


def test_annotations_that_cannot_be_read_are_refused():
    with pytest.raises(ProgramError, match="cannot read its annotations"):
        named("def f(x: Vector.n):\n    return x")


def test_a_program_inside_a_program_is_refused_and_its_function_is_not():
    @inweave.program
    def inner(x: Vector["n"]):
        return 2 * x

    def outer(x: Vector["n"]):
        return inner(x)

    assert "inner.function(...)" in refused(outer, n=2)

    @inweave.program
    def through(x: Vector["n"]):
        return inner.function(x) + inner(np.ones(2))  # the second one is a constant

    assert (inweave.compile(through, n=2)(x=np.ones(2)) == 4).all()


@pytest.mark.parametrize("times", [0, 3])
def test_a_carried_value_kept_after_its_loop_is_refused(times):
    def program(x: Vector["n"]):
        kept = []

        def step(w):
            kept.append(w)
            return 2 * w

        return inweave.iterate(step, x, times) + kept[0]

    message = refused(program, n=2)
    assert "uses w [2 x 1], which a loop carries" in message
    assert "use what iterate or scan returns" in message


def counted():
    calls = [0]

    def step(A, b, w):
        calls[0] += 1
        return w - (0.5 / calls[0]) * (A @ w - b)

    return step


def drawn():
    rng = np.random.default_rng(0)
    return lambda A, b, w: A @ w - b + rng.standard_normal(2)


def used_up():
    rates = iter([0.5])
    return lambda A, b, w: w - next(rates) * (A @ w - b)


def grown():
    seen = []
    return lambda A, b, w: seen.append(b) or w + sum(seen[1:], A @ w)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (counted, "computes "),
        (drawn, "computes "),
        (used_up, "raises StopIteration"),
        (grown, "computes A @ w + b where A @ w stood"),
    ],
)
def test_a_step_with_a_memory_is_refused(make, said, nested):
    step = make()

    def program(A: Matrix["n", "n"], b: Vector["n"]):
        if nested:
            return inweave.iterate(lambda w: inweave.iterate(lambda w: step(A, b, w), w, 2), b, 3)
        return inweave.iterate(lambda w: step(A, b, w), inweave.zeros(2), 3)

    message = refused(program, n=2)
    assert f"the step of iterate {said}" in message
    assert "when it is called again" in message
    assert "inweave.scan(step, w, [0.5, 0.25, 0.125])" in message
    assert "lambda w: step(A, b, w)" in message  # the user's own line


def test_what_is_advised_for_a_counter_works():
    @inweave.program
    def program(A: Matrix["n", "n"], b: Vector["n"]):
        def step(w, t):
            return w - 0.5 * t * (A @ w - b), 0.5 * t

        return inweave.iterate(step, (inweave.zeros(2), inweave.constant(1.0)), 3)[0]

    w, t, A, b = np.zeros(2), 1.0, np.array([[1.0, 0.5], [0.0, 2.0]]), np.array([1.0, -1.0])
    for _ in range(3):
        w, t = w - 0.5 * t * (A @ w - b), 0.5 * t
    assert np.allclose(inweave.compile(program, n=2)(A=A, b=b), w)


def test_a_value_carried_by_an_inner_loop_is_refused_in_the_outer_one():
    def program(x: Vector["n"]):
        def outer(w):
            kept = []
            v = inweave.iterate(lambda u: kept.append(u) or 2 * u, w, 2)
            return v + kept[0]

        return inweave.iterate(outer, x, 2)

    assert "uses u [2 x 1]" in refused(program, n=2)


def test_an_input_kept_from_another_program_is_refused():
    kept = []

    @inweave.program
    def first(x: Vector["n"]):
        kept.append(x)
        return 2 * x

    @inweave.program
    def second(x: Vector["n"]):
        return x + kept[0]

    first.trace(n=2)
    with pytest.raises(ProgramError, match="an input of another program"):
        inweave.compile(second, n=2)


# -- names that inweave needs itself ---------------------------------------------------------------
@pytest.mark.parametrize("name", ["check", "self", "path", "compare"])
def test_inputs_cannot_have_the_names_of_arguments_of_a_network(name):
    with pytest.raises(ProgramError, match=rf"the input '{name}' .*net.*rename it"):
        named(f"def f({name}: Scalar):\n    return 2 * {name}")


@pytest.mark.parametrize(
    "name",
    ["program", "target", "optimize", "tokens", "layout", "verify", "network", "trials", "seed"],
)
def test_sizes_and_statics_cannot_have_the_names_of_arguments_of_compile(name):
    with pytest.raises(ProgramError, match=rf"the size '{name}' .*inweave\.\w+\(...\).*rename it"):
        named(f"def f(x: Vector['{name}']):\n    return 2 * x")
    with pytest.raises(ProgramError, match=rf"the static argument '{name}' .*rename it"):
        named(f"def f(x: Vector['n'], *, {name}: int):\n    return 2 * x")


def test_inputs_may_have_the_names_of_arguments_of_compile():
    program = named("def f(target: Scalar, tokens: Vector['n']):\n    return target * tokens")
    assert (inweave.compile(program, n=2)(target=2.0, tokens=np.ones(2)) == 2).all()


def test_a_size_cannot_be_a_word_of_python():
    with pytest.raises(ProgramError, match="'if' has the name of a word of Python"):
        named("def f(x: Vector['if']):\n    return x")


# -- the command line ------------------------------------------------------------------------------
PROGRAM = """
import inweave
from inweave import Matrix, Scalar, Vector


@inweave.program
def ridge(X: Matrix["n", "d"], y: Vector["n"], lam: Scalar, *, steps: int) -> Vector["d"]:
    step = lambda w: w - lam * (X.T @ (X @ w - y))
    return inweave.iterate(step, inweave.zeros(X.shape[1]), steps)
"""


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Run a command in a folder with a program, its network and tables; what it complains of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "ridge.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "table.csv").write_text("f0,f1,y\n1,2,3\n4,5,7\n0,1,1\n", encoding="utf-8")
    (tmp_path / "fake.parquet").write_bytes(b"no table at all, " * 20)
    (tmp_path / "empty.parquet").write_bytes(b"")
    assert main(["compile", "ridge.py:ridge", "n=3", "d=2", "steps=2", "-o", "ridge.inweave"]) == 0
    capsys.readouterr()

    def run(*argv):
        code = main(argv)
        said = capsys.readouterr()
        assert said.out == ""
        assert "Traceback" not in said.err
        return code, said.err

    return run


@pytest.mark.parametrize(
    ("option", "value"), [("--trials", "0"), ("--trials", "-3"), ("--seed", "-1")]
)
@pytest.mark.parametrize(
    "source", [("ridge.inweave",), ("ridge.py:ridge", "n=3", "d=2", "steps=2")]
)
def test_a_check_that_cannot_be_made_is_refused(command, source, option, value):
    code, said = command("verify", *source, option, value)
    assert code == 2
    assert option in said
    assert f"got {value}" in said


@pytest.mark.parametrize("name", ["fake.parquet", "empty.parquet"])
def test_a_parquet_file_that_is_none_is_refused(command, name):
    pytest.importorskip("pyarrow")
    code, said = command("run", "ridge.py:ridge", "steps=5", "lam=1", "--data", name)
    assert code == 2
    assert f"{name} is not a Parquet file" in said


@pytest.mark.parametrize("value", ["f0", "gone"])
@pytest.mark.parametrize("source", [("ridge.inweave",), ("ridge.py:ridge", "steps=2")])
def test_a_column_does_not_fill_a_scalar(command, source, value):
    code, said = command(
        "run",
        *source,
        f"lam={value}",
        "--data",
        "table.csv",
        "--response",
        "y",
        "--columns",
        "f0,f1",
    )
    assert code == 2
    assert f"lam is a scalar: give a number, as in lam=0.1, not '{value}'" in said


def test_the_reserved_names_are_those_of_the_functions_that_take_inputs_and_sizes():
    def taken(**owners):
        return {
            name: owner.replace("_", ".") + "(...)"
            for owner, function in owners.items()
            for name, parameter in inspect.signature(function).parameters.items()
            if parameter.kind is not parameter.VAR_KEYWORD
        }

    network = inweave.Network
    assert taken(net_explore=network.explore, net=network.__call__) == OF_CALLS
    assert (
        taken(
            net_resize=network.resize,
            inweave_verify=inweave.verify,
            inweave_compile=inweave.compile,
        )
        == OF_SIZES
    )


def test_a_step_may_make_its_function_itself():
    @inweave.program
    def squares(x: Vector["n"]):
        square = lambda t: t**2  # noqa: E731
        step = lambda v: inweave.pointwise(lambda t: square(t), (-1, 1), 1e-2)(v)  # noqa: E731
        return inweave.iterate(step, x, 3)

    assert inweave.compile(squares, n=2).certificate.is_proof


def test_a_step_whose_function_closes_over_what_changes_is_refused():
    power = [1]

    @inweave.program
    def powers(x: Vector["n"]):
        def step(v):
            power[0] += 1
            exponent = power[0]
            return inweave.pointwise(lambda t: t**exponent, (0.1, 1), 1e-2)(v)

        return inweave.iterate(step, x, 3)

    with pytest.raises(ProgramError, match="called again"):
        inweave.compile(powers, n=2)


def test_a_constant_whose_digits_double_with_every_step_is_refused_before_it_takes_for_ever():
    """Squares of exact numbers; the same in floats is a number, and as a loop it is carried."""

    def refined(c):
        return 0.2 * c - 0.05 * c * c

    @inweave.program
    def exactly(x: Vector["n"]):
        c = inweave.constant(1e-3)
        for _ in range(24):
            c = refined(c)
        return c * x

    with pytest.raises(ProgramError, match=r"denominator of [\d,]+ bits.*inweave\.iterate"):
        exactly.trace(n=3)

    @inweave.program
    def carried(x: Vector["n"]):
        return inweave.iterate(refined, inweave.constant(1e-3), 24) * x

    assert inweave.compile(carried, n=3, verify=False).depth
