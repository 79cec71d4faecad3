"""What a program records: equal expressions are one object, and depth costs no recursion."""

from __future__ import annotations

import copy
import gc
import inspect
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import inweave
from inweave import Matrix, ProgramError, Scalar, Vector
from inweave.exact.arithmetic import Rationals
from inweave.language import expressions as ex
from inweave.language.evaluate import evaluate
from inweave.language.values import Value, lift
from tests.calls import calls_of

DEEP = 20_000


def recorded(function, **sizes):
    """The expressions of a program's answers, by name."""
    return inweave.program(function).trace(**sizes).outputs


# -- interning -------------------------------------------------------------------------------------
def test_equal_expressions_are_one_object():
    def program(A: Matrix["n", "n"], x: Vector["n"], s: Scalar):
        def once():
            y = s * (A.T @ x) - 0.5 * x + np.array([1.0, 2.0])
            loop = inweave.relu(inweave.hold(y))
            return inweave.vstack([loop, abs(y)[1:]])

        return {"first": once(), "again": once(), "other": once() + 0 * inweave.ones(3)}

    found = recorded(program, n=2)
    assert found["first"] is found["again"]
    assert found["first"] is not found["other"]
    assert len({*found.values()}) == 2


def test_what_differs_in_anything_is_another_object():
    one, two = lift(1.0), lift(2.0)
    assert one is lift(np.float64(1)) is lift(np.ones(()))
    assert one is not two
    column, matrix = lift(np.array([1.0, 2.0])), lift(np.array([[1.0], [2.0]]))
    assert column is not matrix  # a vector is handed back as one
    assert column is lift([1, 2])
    assert ex.Product(matrix, one) is not ex.Scaled(one, matrix)


def test_functions_with_equal_tables_and_other_meanings_are_told_apart():
    """Both tables of one piece are flat, and err by as much; the true functions do not agree."""
    up = inweave.pointwise(lambda x: x * (1 - x), (0.0, 1.0), 0.3)
    down = inweave.pointwise(lambda x: x * (x - 1), (0.0, 1.0), 0.3)
    assert up.function == down.function

    @inweave.program
    def difference(x: Scalar):
        return up(x) - down(x)

    assert difference(x=0.5) == 0.5
    at = lift(inweave.constant(0.5))
    assert ex.Applied(up.function, at) is ex.Applied(up.function, at)
    notes = [
        inweave.compile(inweave.program(f)).certificate.functions for f in (coarse, fine, coarse)
    ]
    assert notes[0] == notes[2] != notes[1]


def coarse(x: Scalar):
    return inweave.reciprocal(x, domain=(0.5, 2.0), error=1e-6)


def fine(x: Scalar):
    return inweave.reciprocal(x, domain=(0.5, 2.0), error=1e-12)


def test_a_node_does_not_change_and_is_its_own_copy():
    x = lift(inweave.eye(2))
    with pytest.raises(AttributeError, match="does not change"):
        x.units = (True, True)
    assert copy.copy(x) is copy.deepcopy(x) is x


def test_a_value_may_be_copied_in_a_program():
    def program(x: Vector["n"]):
        return {"sum": x + copy.deepcopy(x), "twice": x + copy.copy(x)}

    found = recorded(program, n=2)
    assert found["sum"] is found["twice"]


def test_graphs_die_with_their_traces():
    def program(A: Matrix["n", "n"], x: Vector["n"]):
        return inweave.iterate(lambda w: A @ w + x, x, 3)

    gc.collect()
    before = len(ex.Node._known)
    for _ in range(3):
        recorded(program, n=2)
    gc.collect()
    assert len(ex.Node._known) <= before


def test_threads_share_nodes():
    found, start = [], threading.Barrier(4)

    def work():
        start.wait()
        nodes = [lift(np.full((2, 2), float(i + 2))) for i in range(300)]
        found.append(nodes)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(len(set(nodes)) == 1 for nodes in zip(*found, strict=True))


# -- recordings ------------------------------------------------------------------------------------
def test_a_step_recorded_twice_in_one_recording_gives_the_same_graph():
    def step(w):
        inner = inweave.iterate(lambda v: v + inweave.relu(w), 2 * w, 3)
        return inweave.iterate(lambda v: v.T @ inner * v, inner - w, 2)

    with ex.Recording() as recording:
        w, path, graphs = lift(np.ones(2)), recording.path, []
        carried = ex.Carried("w", w, "", recording)
        for _ in range(2):
            with recording.step(path):
                graphs.append(lift(step(Value(carried))))
    assert graphs[0] is graphs[1]
    assert isinstance(graphs[0], ex.LoopResult)
    assert recording.path == (1,)


def test_a_step_with_a_memory_does_not():
    count = iter(range(9))
    with ex.Recording():
        x = inweave.eye(2)
        assert lift(next(count) * x) is not lift(next(count) * x)


def test_recording_a_step_again_leaves_nothing_behind():
    def product(A: Matrix["n", "n"], x: Vector["n"], loop):
        kept = []

        def inner(v):
            kept[:] = kept or [A.T @ A]  # made the first time, found there later
            return kept[0] @ v

        return loop(lambda w: loop(inner, w, 2) - x, x, 3)

    def written_out(step, start, times):
        for _ in range(times):
            start = step(start)
        return start

    @inweave.program
    def own(A: Matrix["n", "n"], x: Vector["n"]):
        return product(A, x, inweave.iterate)

    @inweave.program
    def python(A: Matrix["n", "n"], x: Vector["n"]):
        return product(A, x, written_out)

    traced = own.trace(n=2)
    assert [x.text() for x in traced.operations] == ["A", "x", "A.T", "A.T @ A", "w[3]"]
    loop = traced.outputs[""].loop
    assert [x.text() for x in loop.given] == ["x"]
    assert not loop.step[0].terms[0][1].loop.given
    inputs = {"A": np.array([[0.5, 1.0], [-1.0, 0.25]]), "x": np.ones(2)}
    assert np.allclose(own(**inputs), python(**inputs))


def test_a_step_is_called_a_few_times_and_not_exponentially_often_in_nested_loops():
    def halved(x):
        return 0.5 * x

    def nested(x, depth):
        if depth == 0:
            return halved(x)
        return inweave.iterate(lambda w: nested(w, depth - 1), x, 2)

    @inweave.program
    def program(x: Vector["n"]):
        return nested(x, 6)

    assert np.array_equal(inweave.compile(program, n=2)(x=np.ones(2)), np.full(2, 0.5**64))
    assert calls_of(halved, lambda: program.trace(n=2)) == 7


def test_loops_outside_of_a_program_may_be_nested_too():
    def step(w):
        return inweave.iterate(lambda v: v + w, w, 2)

    assert isinstance(lift(inweave.iterate(step, np.ones(2), 3)), ex.LoopResult)


def test_inputs_and_carried_values_belong_to_one_recording_and_one_loop():
    def program(x: Vector["n"]):
        kept = []
        for _ in range(2):
            inweave.iterate(lambda w: kept.append(w) or 2 * w, x, 3)
        return {"x": x, "same": x, "first": x + 0 * x}, kept

    seen = []

    def trace(x: Vector["n"]):
        answers, kept = program(x)
        seen.append(kept)
        return answers

    one, two = recorded(trace, n=2), recorded(trace, n=2)
    assert one["x"] is one["same"]
    assert one["x"] is not two["x"]
    assert len({lift(w) for kept in seen for w in kept}) == 4


def test_a_value_kept_from_a_loop_is_not_taken_for_that_of_the_next():
    def program(x: Vector["n"]):
        kept = []
        y = inweave.iterate(lambda w: kept.append(w) or 2 * w, x, 2)
        return inweave.iterate(lambda w: w + kept[0], y, 2)

    with pytest.raises(ProgramError, match=r"uses w .* which a loop carries"):
        recorded(program, n=2)


def test_a_loop_knows_what_its_step_was_given_and_what_it_made():
    def program(A: Matrix["n", "n"], B: Matrix["n", "n"], x: Vector["n"]):
        G = A.T @ A
        return inweave.iterate(lambda w: G @ w + (B.T @ B) @ w + (A.T @ B) @ x, x, 3)

    def again(A: Matrix["n", "n"], x: Vector["n"]):
        G = A.T @ A
        return inweave.iterate(lambda w: (A.T @ A) @ w, x, 3) + G @ x

    loop = recorded(program, n=2)[""].loop
    assert {x.text() for x in loop.outer} == {"A.T @ A", "B.T @ B", "A.T @ B @ x"}
    assert [x.text() for x in loop.given] == ["A.T @ A"]
    (loop,) = {x.loop for x in ex.ordered(recorded(again, n=2).values()) if hasattr(x, "loop")}
    assert [x.text() for x in loop.outer] == ["A.T @ A"]
    assert not loop.given  # written in the step, so made in the step


def test_a_trace_keeps_the_order_of_the_program():
    @inweave.program
    def program(A: Matrix["n", "n"], x: Vector["n"]):
        late = A @ x
        for _ in range(2):
            x = A.T @ x
        return x - late

    texts = [x.text() for x in program.trace(n=2).operations if x.parts]
    assert texts == ["A @ x", "A.T", "A.T @ x", "A.T", "A.T @ A.T @ x", "A.T @ A.T @ x - A @ x"]


# -- handles ---------------------------------------------------------------------------------------
ASKED = {
    "x == y": "cannot compare",
    "x != y": "cannot compare",
    "x in [y]": "cannot compare",
    "0 in x": "cannot ask",
    "hash(x)": "cannot look up",
    "x in {y: 1}": "cannot look up",
    "{x}": "cannot look up",
    "bool(x)": "the truth of",
    "x.nothing": "has no attribute",
    "x.rows": "has no attribute",
}


@pytest.mark.parametrize("place", ["inside", "outside"])
@pytest.mark.parametrize("asked", ASKED)
def test_a_value_is_refused_whoever_asks(asked, place):
    """Also to code in a file of inweave itself: no frame decides."""
    home = Path(inspect.getfile(inweave)).parent if place == "inside" else Path("/elsewhere")
    code = compile(asked, str(home / "language" / "asked.py"), "eval")
    x, y = inweave.eye(2), inweave.ones(2, 2)
    names = {"x": x, "y": y} if "{y" not in asked else {"x": x, "y": 0}
    with pytest.raises(ProgramError, match=ASKED[asked]):
        eval(code, names)


# -- depth -----------------------------------------------------------------------------------------
def nested(x: Vector["n"]):
    for i in range(DEEP):  # in an order that never repeats three times: nothing here is a loop
        x = inweave.relu(x) if i.bit_count() % 2 else inweave.abs(x)
    return x


def test_deep_programs_are_recorded_evaluated_and_put_into_words():
    limit = sys.getrecursionlimit()
    program = inweave.program(nested)
    traced = program.trace(n=2)
    (answer,) = traced.outputs.values()
    assert len(ex.every([answer])) == DEEP + 1
    assert len(repr(answer)) < 80
    assert repr(answer).startswith("relu(abs(abs(relu(")
    assert program(x=np.array([-1.0, 2.0])).tolist() == [1.0, 2.0]  # abs comes first
    values = evaluate([answer], {"x": np.array([[-1], [3]], dtype=object)}, Rationals())
    assert values[0].ravel().tolist() == [1, 3]
    assert sys.getrecursionlimit() == limit


def test_deep_constants_and_steps_too():
    def program(s: Scalar):
        number = inweave.constant(1.0)
        for _ in range(DEEP // 10):
            number = 0.5 * (number + 1)

        def step(w):
            for _ in range(DEEP // 10):
                w = inweave.hold(w + number * s)
            return w

        return inweave.iterate(step, s, 2)

    assert inweave.program(program)(s=1.0) == 1.0 + 2 * (DEEP // 10)


def test_the_text_of_a_wide_sum_is_short():
    def program(x: Vector["n"]):
        return sum((k * inweave.relu(x - inweave.ones(2)) for k in range(1, 500)), start=x)

    (answer,) = recorded(program, n=2).values()
    assert len(answer.text()) == ex.LONGEST
    assert len(ex.summands(answer, ())) == 500
