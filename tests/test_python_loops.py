"""Python loops are recorded as loops: those over rows that collect, nested ones, and second ones.

What a program computes is compared with what it computes written out, in exact numbers, and with
numpy. How many loops it has is counted: written out, it would be right too, but for its digits.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.exact.arithmetic import Rationals
from inweave.exact.rational import fractions
from inweave.language import expressions as ex
from inweave.language import program as recording

pytestmark = pytest.mark.usefixtures("unchecked_passes")


def loops(traced):
    """How often each loop of a program repeats, the inner ones too."""
    found = {x.loop for x in ex.every(traced.outputs.values()) if isinstance(x, ex.LoopResult)}
    return sorted(loop.times for loop in found)


def written_out(program, **sizes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording, "rolled", lambda outputs, *_: list(outputs))
        return program.trace(**sizes)


def as_written_out(program, seed=0, **sizes):
    """Refuse a recording that is not the program; its loops."""
    rng, traced = np.random.default_rng(seed), program.trace(**sizes)
    exact = np.vectorize(lambda k: Fraction(int(k), 2), otypes=[object])
    inputs = {s.name: exact(rng.integers(-3, 4, (s.rows, s.cols))) for s in traced.inputs}
    plain = written_out(program, **sizes)
    assert not loops(plain)
    expected = plain.evaluate(inputs, Rationals())
    for name, x in traced.evaluate(inputs, Rationals()).items():
        assert (x == expected[name]).all()
    assert traced.kinds == plain.kinds
    return loops(traced)


# -- lists -----------------------------------------------------------------------------------------
def delta_rule(K: Matrix["n", "d"], V: Matrix["n", "p"], Q: Matrix["n", "d"], beta: Vector["n"]):
    S, out = np.zeros((V.shape[1], K.shape[1])), []
    for k, v, q, b in zip(K, V, Q, beta, strict=True):
        S = S + b * inweave.outer(v - S @ k, k)
        out.append(S @ q)
    return inweave.hstack(out).T


def least_squares(X: Matrix["n", "d"], y: Vector["n"]):
    d = X.shape[1]
    w, P, out = np.zeros(d), 10 * np.eye(d), []
    for i in range(X.shape[0]):
        k = P @ X[i]
        g = k * inweave.reciprocal(1 + X[i] @ k, domain=(1, 1e3))
        out.append(w)
        w, P = w + g * (y[i] - X[i] @ w), P - inweave.outer(g, k)
    return inweave.hstack(out).T


def kalman(y: Vector["n"], A: Matrix["d", "d"], c: Vector["d"], Q: Matrix["d", "d"]):
    x, P, out = np.zeros(A.shape[0]), np.eye(A.shape[0]), []
    for t in y:
        x, P = A @ x, A @ P @ A.T + Q
        out.append(x.T)
        k = (P @ c) * inweave.reciprocal(c @ P @ c + 0.1, domain=(0.05, 1e2))
        x, P = x + k * (t - c @ x), P - inweave.outer(k, c @ P)
    return inweave.vstack(out)


def by_hand(name, K=None, V=None, Q=None, beta=None, X=None, y=None, A=None, c=None):
    out = []
    if name == "delta_rule":
        S = np.zeros((V.shape[1], K.shape[1]))
        for k, v, q, b in zip(K, V, Q, beta, strict=True):
            S = S + b * np.outer(v - S @ k, k)
            out.append(S @ q)
    elif name == "least_squares":
        for i in range(len(y)):
            gram = X[:i].T @ X[:i] + np.eye(X.shape[1]) / 10
            out.append(np.linalg.solve(gram, X[:i].T @ y[:i]))
    else:
        x, P = np.zeros(len(c)), np.eye(len(c))
        for t in y:
            x, P = A @ x, A @ P @ A.T + Q
            out.append(x)
            k = P @ c / (c @ P @ c + 0.1)
            x, P = x + k * (t - c @ x), P - np.outer(k, c @ P)
    return np.array(out)


@pytest.mark.parametrize("function", [delta_rule, least_squares, kalman])
def test_what_a_loop_collects_in_a_list_is_a_stack(function):
    program, n = inweave.program(function), 30
    net = inweave.compile(program, **{s: {"n": n, "d": 3, "p": 2}[s] for s in program.size_names})
    rng = np.random.default_rng(0)
    inputs = {s.name: rng.normal(size=s.shape) / 2 for s in net.inputs}
    if "A" in inputs:
        inputs["Q"] = 0.1 * np.eye(3)
    np.testing.assert_allclose(net(**inputs), by_hand(function.__name__, **inputs), atol=1e-9)
    traced = program.trace(**net.origin.sizes)
    assert loops(traced)[-1] >= n - 1
    assert len(loops(traced)) == 1
    assert len(traced.operations) < 40
    assert net.certificate.method == "algebra"


# -- which loops are found -------------------------------------------------------------------------
def predicted(w, x, t):
    return w + 0.25 * (t - x @ w) * x


def in_blocks(X: Matrix["n", "d"], y: Vector["n"]):
    w = inweave.zeros(X.shape[1])
    for i in range(0, X.shape[0], 3):
        w = w - 0.25 * X[i : i + 3].T @ (X[i : i + 3] @ w - y[i : i + 3])
    return w


def in_pairs(X: Matrix["n", "d"], y: Vector["n"]):
    w = X[0]
    for i in range(0, X.shape[0], 2):
        w = predicted(w, X[i] - X[i + 1], y[i])
    return w


def from_the_second_row(X: Matrix["n", "d"], y: Vector["n"]):
    w, out = X[0], []
    for i in range(1, X.shape[0] - 1):
        w = predicted(w, X[i], y[i - 1])
        out.append(w @ w)
    return inweave.vstack(out), w


def one_below_the_other(X: Matrix["n", "d"], y: Vector["n"]):
    w, out = inweave.zeros(X.shape[1]), []
    for i, x in enumerate(X):
        w = predicted(w, x, y[i])
        out.append(w)
    return inweave.vstack(out)


def with_a_schedule(X: Matrix["n", "d"], y: Vector["n"]):
    w, rates = inweave.zeros(X.shape[1]), inweave.constant(np.linspace(1, 2, X.shape[0]))
    for i, x in enumerate(X):
        w = predicted(w, x, rates[i] * y[i])
    return w


def epochs(X: Matrix["n", "d"], y: Vector["n"]):
    w, losses = inweave.zeros(X.shape[1]), []
    for _ in range(5):
        for x, t in zip(X, y, strict=True):
            w = predicted(w, x, t)
        losses.append(inweave.squared_norm(X @ w - y))
    return inweave.vstack(losses)


def rows_by_rows(X: Matrix["n", "d"], y: Vector["n"]):
    w = X[0]
    for x in X:
        for t in y:
            w = w + t * (w @ x) * x
    return w


def through_time(X: Matrix["n", "d"], y: Vector["n"]):
    """Forwards, then backwards through what was collected."""
    h, kept = inweave.zeros(X.shape[1]), []
    for x in X:
        kept.append(h)
        h = inweave.relu(h - x)
    g = X[0]
    for i in reversed(range(X.shape[0])):
        g = (y[i] - kept[i] @ kept[i]) * g - kept[i]
    return g


def for_each_row(X: Matrix["n", "d"], y: Vector["n"]):
    return inweave.vstack([inweave.relu(x * t).T for x, t in zip(X, y, strict=True)])


def lists_in_a_loop(X: Matrix["n", "d"], y: Vector["n"]):
    w = X[0]
    for x in X:
        w = w + X.T @ inweave.vstack([t * (w @ x) for t in y])
    return w


def uneven(X: Matrix["n", "d"], y: Vector["n"]):
    w, out = inweave.zeros(X.shape[1]), []
    for i, x in enumerate(X):
        w = predicted(w, x, (i * i + 1) * y[i])
        out.append(w)
    return inweave.hstack(out)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (in_blocks, [4]), (in_pairs, [5]), (from_the_second_row, [9]), (one_below_the_other, [12]),
        (with_a_schedule, [12]), (epochs, [5, 12]), (rows_by_rows, [11, 11, 12]),
        (through_time, [10, 11]), (for_each_row, [12]), (lists_in_a_loop, [11]), (uneven, [12]),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)  # fmt: skip
def test_loops_that_are_found(function, expected):
    """The first step of those that start from a row, X[0], reads one more row and stands alone."""
    program = inweave.program(function)
    assert as_written_out(program, n=12, d=2) == expected


def test_a_loop_carries_what_it_ends_with_and_not_half_a_step_of_it():
    @inweave.program
    def average(X: Matrix["n", "d"], a: Scalar):
        s = X[0]
        for i in range(1, len(X)):
            s = (1 - a) * s + a * X[i]
        return s

    (found,) = {x.loop for x in ex.every(average.trace(n=9, d=3).outputs.values())
                if isinstance(x, ex.LoopResult)}  # fmt: skip
    assert [x.shape for x in found.carried] == [(3, 1), (9, 1)]  # and the row that it takes
    assert as_written_out(average, n=9, d=3) == [found.times]


def test_a_step_that_is_not_needed_to_the_end_is_carried_out_unless_it_might_fail():
    def last(of):
        def program(X: Matrix["n", "d"], y: Vector["n"]):
            w, v, seen = inweave.zeros(2), inweave.ones(2), None
            for x, t in zip(X, y, strict=True):
                seen, w, v = w, predicted(w, x, t) + v, of(t * v) - w
            return seen

        return program

    assert as_written_out(inweave.program(last(lambda x: x)), n=9, d=2) == [8]
    (times,) = as_written_out(inweave.program(last(inweave.relu)), n=9, d=2)
    assert times < 8


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_random_loops_are_what_they_are_written_out(data):
    """Collected before or after the step, read in any way; any range; epochs; inner loops."""
    draw = data.draw
    n, d = draw(st.integers(4, 9)), draw(st.integers(1, 3))
    rows = draw(st.sampled_from([range(n), range(1, n - 1), range(n - 1, 0, -1), range(1, n, 2)]))
    start = draw(st.sampled_from(["zeros", "row", "multiple"]))
    kind = draw(st.sampled_from(["scalar", "vector", "row", "matrix", "slice"]))
    before, lag = draw(st.booleans()), draw(st.booleans())
    epochs, inner = draw(st.sampled_from([1, 1, 2, 4])), draw(st.sampled_from([0, 0, 2, 5]))
    reading = draw(st.sampled_from(["stack", "backwards", "answers", "some", "again", "last"]))

    def said(w, x, t):
        return {"scalar": x @ w - t, "vector": w + t * x, "row": w.T, "matrix": w @ x.T,
                "slice": w[:1]}[kind]  # fmt: skip

    @inweave.program
    def program(X: Matrix["n", "d"], y: Vector["n"], A: Matrix["d", "d"]):
        w = {"zeros": inweave.zeros(d), "row": X[0], "multiple": -2 * A[:, 0]}[start]
        out = []
        for _ in range(epochs):
            for i in rows:
                x, t = X[i], y[i - 1] if lag else y[i]
                if before:
                    out.append(said(w, x, t))
                for _ in range(inner):
                    w = 0.5 * (A @ w) - x
                w = w + 0.25 * (t - x @ w) * x
                if not before:
                    out.append(said(w, x, t))
        if reading == "answers":
            return (*out, w)
        if reading == "some":
            return {"first": out[1], "last": out[-1], "sum": 2 * out[-2] - out[0]}
        if reading == "last":
            return out[-1]
        if reading == "again":
            total = out[-1]
            for x in reversed(out):
                total = 0.5 * total - y[0] * x
            return total
        stack = inweave.vstack if kind in ("row", "scalar", "matrix") else inweave.hstack
        return stack(out if reading == "stack" else out[::-1])

    found = as_written_out(program, n=n, d=d)
    regular = reading != "some" and kind != "slice" and inner < 3  # no values are left out
    if regular and len(rows) >= 6 and d > 1:
        assert found


# -- digits ----------------------------------------------------------------------------------------
def of_vectors(step):
    """Twenty steps as a Python loop."""

    @inweave.program
    def program(A: Matrix["n", "n"], x: Vector["n"]):
        value = x
        for _ in range(20):
            value = step(A, value, x)
        return value

    return program


def of_matrices(step):
    @inweave.program
    def program(A: Matrix["n", "n"], x: Vector["n"]):
        value = inweave.constant(np.eye(3)[::-1] + 1)
        for _ in range(20):
            value = step(A, value, x)
        return value @ x

    return program


def with_numbers(step):
    """Twenty steps, each with a number of its own."""

    @inweave.program
    def program(A: Matrix["n", "n"], x: Vector["n"]):
        value = 0 * x
        for t in range(20):
            value = step(A, value, x, t)
        return value

    return program


def inside(step):
    """A Python loop in the step of another."""

    @inweave.program
    def program(A: Matrix["n", "n"], x: Vector["n"]):
        def steps(value):
            for _ in range(6):
                value = step(A, value)
            return value + x

        return inweave.iterate(steps, x, 4)

    return program


STEPPED = {
    "rates": with_numbers(lambda A, v, c, t: v + (c - A @ v) / (8 * t + 16)),
    "alternating": with_numbers(lambda A, v, c, t: c + v + (-1) ** t * 0.125 * (A @ v)),
    "horner": with_numbers(lambda A, v, c, t: A @ v + (t + 1) / 8 * c),
    "inside": inside(lambda A, v: A @ v),
    "rates inside": inside(lambda A, v: v + A @ v / 8),
    "product": of_vectors(lambda A, x, _: A @ x),
    "affine": of_vectors(lambda A, x, c: A @ x + c),
    "euler": of_vectors(lambda A, x, _: x + 0.125 * (A @ x)),
    "matrix": of_matrices(lambda A, M, _: M @ A),
    "covariance": of_matrices(lambda A, P, x: A @ P @ A.T + x @ x.T),
}


@pytest.mark.parametrize("mode", ["faithful", "speed"])
@pytest.mark.parametrize("name", STEPPED)
def test_a_python_loop_keeps_the_digits_that_its_steps_keep(name, mode):
    """Of a Jordan block in other coordinates, powers are far larger than what they do to x."""
    S = np.array([[1, 3, -2], [14, 43, -25], [-6, -20, 7]])  # its determinant is 1
    inverse = np.round(np.linalg.inv(S))
    A = S @ (0.75 * np.eye(3) + np.diag([32.0, 32.0], 1)) @ inverse
    program, given = STEPPED[name], {"A": A, "x": np.ones(3)}
    exact = {"A": fractions(A), "x": fractions(np.ones((3, 1)))}
    (right,) = program.trace(n=3).evaluate(exact, Rationals()).values()
    net = inweave.compile(program, n=3, optimize=mode)

    def lost(answer):
        pairs = zip(np.ravel(answer), right.flat, strict=True)
        return float(max(abs(Fraction(float(a)) - b) for a, b in pairs))

    largest = float(max(abs(b) for b in right.flat))
    assert lost(net(**given)) <= 100 * lost(program(**given)) + 1e-15 * largest


@pytest.mark.parametrize("mode", ["faithful", "speed"])
def test_a_python_loop_stays_in_the_range_of_its_steps(mode):
    @inweave.program
    def kept(v: Vector["n"], c: Scalar, A: Matrix["n", "n"]):
        for _ in range(12):
            v = c * (v @ v) * v
        for _ in range(12):
            A = c * (A @ A)
        return v, A

    net = inweave.compile(kept, n=4, optimize=mode)
    v, A = np.full(4, 2.0**-11, np.float32), np.eye(4, dtype=np.float32) * np.float32(2.0**-20)
    answer = net(v=v, c=np.float32(2.0**20), A=A)
    np.testing.assert_allclose(answer[0], v, rtol=1e-2)
    np.testing.assert_allclose(answer[1], A, rtol=1e-2)


@inweave.program
def squares_recursively(X: Matrix["n", "d"], y: Vector["n"]):
    P, w = inweave.eye(X.shape[1]) * 10, inweave.zeros(X.shape[1])
    for x, t in zip(X, y, strict=True):
        Px = P @ x
        g = Px / inweave.assume(0.95 + x @ Px, 0.9, 1e6)
        w = w + g * (t - x @ w)
        P = (P - inweave.outer(g, Px)) / 0.95
    return w


@inweave.program
def descended(X: Matrix["n", "d"], y: Vector["n"]):
    w, A = inweave.zeros(X.shape[1]), inweave.eye(X.shape[1])
    for x, t in zip(X, y, strict=True):
        w = inweave.relu(A @ w + 0.1 * (t - x @ w) * x)
    return w


@pytest.mark.parametrize("program", [squares_recursively, descended], ids=lambda p: p.name)
@pytest.mark.parametrize("n", [6, 20])
def test_a_loop_is_found_at_every_width_and_at_one_too(program, n):
    """There, the identity and the number one are the same constant in different shapes."""
    found = {d: loops(program.trace(n=n, d=d)) for d in (1, 2, 3)}
    assert found[1] == found[2] == found[3] != []
    assert inweave.compile(program, n=n, d=1).certificate is not None


@pytest.mark.parametrize("mode", ["faithful", "speed"])
@pytest.mark.parametrize("rate", [lambda _: 0.1, lambda t: 0.1 / t, lambda t: 0.1 * 0.9**t])
def test_a_rate_of_its_own_may_multiply_a_value_before_anything_is_added(rate, mode):
    """`w - rate * g * root`: the first product has one term, and that is the rate's."""

    @inweave.program
    def rms(X: Matrix["n", "d"], y: Vector["n"]):
        w = v = inweave.zeros(X.shape[1])
        for t in range(1, 10):
            g = X.T @ (X @ w - y)
            v = 0.9 * v + 0.1 * g * g
            w = w - rate(t) * g * inweave.rsqrt(v + 1e-2, domain=(1e-3, 1e6))
        return w

    rng = np.random.default_rng(0)
    X, y, w, v = rng.normal(size=(5, 2)), rng.normal(size=5), np.zeros(2), np.zeros(2)
    for t in range(1, 10):
        g = X.T @ (X @ w - y)
        v = 0.9 * v + 0.1 * g * g
        w = w - rate(t) * g / np.sqrt(v + 1e-2)
    network = inweave.compile(rms, n=5, d=2, optimize=mode)
    assert network.certificate is not None
    np.testing.assert_allclose(network(X=X, y=y), w, rtol=1e-9)
    assert loops(rms.trace(n=5, d=2))[-1] == 9


def adam(steps, debiased):
    @inweave.program
    def program(X: Matrix["n", "d"], y: Vector["n"]):
        w = m = v = inweave.zeros(X.shape[1])
        for t in range(1, steps + 1):
            g = X.T @ (X @ w - y) / 4
            m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
            first, second = (m / (1 - 0.9**t), v / (1 - 0.99**t)) if debiased else (m, v)
            w = w - 0.05 * first * inweave.rsqrt(second + 1e-4, domain=(1e-5, 1e6))
        return w

    return program


@pytest.mark.parametrize("mode", ["faithful", "speed", "depth"])
@pytest.mark.parametrize("debiased", [False, True])
def test_adam_is_verified_in_every_mode(mode, debiased):
    rng = np.random.default_rng(0)
    X, y, w, m, v = rng.normal(size=(4, 2)), rng.normal(size=4), *np.zeros((3, 2))
    for t in range(1, 7):
        g = X.T @ (X @ w - y) / 4
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        first, second = (m / (1 - 0.9**t), v / (1 - 0.99**t)) if debiased else (m, v)
        w = w - 0.05 * first / np.sqrt(second + 1e-4)
    network = inweave.compile(adam(6, debiased), n=4, d=2, optimize=mode)
    assert network.certificate is not None
    np.testing.assert_allclose(network(X=X, y=y), w, rtol=1e-9)


@pytest.mark.parametrize("of", ["square", "held", "product", "bias"])
def test_numbers_of_their_own_make_a_loop_where_one_number_does(of):
    def with_numbers(number):
        @inweave.program
        def program(s: Scalar, A: Matrix["n", "n"], w: Vector["n"]):
            for i in range(9):
                if of == "square":
                    s = number(i) * (s * s)
                if of == "held":
                    s = inweave.hold(number(i) * (s * s))
                if of == "product":
                    w = number(i) * (A @ w)
                if of == "bias":
                    w = A @ w + number(i) * w
            return w + s * w + A[0]

        return program

    one, own = with_numbers(lambda _: 0.5), with_numbers(lambda i: (i + 1) / 4)
    assert as_written_out(own, n=2) == as_written_out(one, n=2) == [9]


def test_thousands_of_steps_with_fractions_of_their_own_are_proved_by_algebra():
    """What takes the next number of a list moves it: no numbers are multiplied for that."""

    @inweave.program
    def averaged(X: Matrix["n", "d"], y: Vector["n"]):
        w = m = inweave.zeros(X.shape[1])
        for t in range(2500):
            g = X.T @ (X @ w - y)
            m = (1 - Fraction(1, t + 2)) * m + g / (t + 2)
            w = w - m * m / (t + 1)
        return w

    assert inweave.compile(averaged, n=4, d=2).certificate.method == "algebra"


@pytest.mark.parametrize("steps", [6, 40])
def test_what_steps_with_numbers_of_their_own_leave_is_stacked_in_one_loop(steps):
    @inweave.program
    def kept(A: Matrix["d", "d"], w: Vector["d"], c: Vector["d"]):
        out = []
        for t in range(1, steps + 1):
            w = 1 / (t + 1) * (A.T @ (A @ w - c))
            out.append(w)
        return inweave.hstack(out).T

    net = inweave.compile(kept, d=3)
    assert max(module.repeat for module in net.modules) == steps
    assert net.depth <= 4 * steps
    rng = np.random.default_rng(0)
    given = {"A": rng.normal(size=(3, 3)), "w": rng.normal(size=3), "c": rng.normal(size=3)}
    np.testing.assert_allclose(net(**given), kept(**given), rtol=1e-9)
