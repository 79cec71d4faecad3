"""Python loops are found again in the trace; their networks are as shallow as those of iterate."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.compiler.driver import run
from inweave.exact.arithmetic import Rationals
from inweave.language import expressions as ex
from inweave.language.repeats import repeats
from tests.fuzz import equal_in_rationals, work


def both(make, steps):
    """A step as a Python loop and as inweave's own."""

    def python(step, *state):
        for _ in range(steps):
            state = step(*state)
        return state

    def own(step, *state):
        out = inweave.iterate(lambda *s: step(*s), state, steps)
        return out if isinstance(out, tuple) else (out,)

    return inweave.program(make(python)), inweave.program(make(own))


def loops(traced):
    """The loops of what was recorded."""
    return {x.loop for x in traced.operations if isinstance(x, ex.LoopResult)}


def growth(loop):
    def program(A: Matrix["n", "n"], x: Vector["n"]):
        return loop(lambda x: (A @ x + x,), x)[0]

    return program


def descent(loop):
    def program(X: Matrix["m", "n"], y: Vector["m"], u: Vector["n"], eta: Scalar):
        start = inweave.zeros(X.shape[1])
        return u.T @ loop(lambda w: (w - eta * (X.T @ (X @ w - y)),), start)[0]

    return program


def momentum(loop):
    def program(X: Matrix["m", "n"], y: Vector["m"], w: Vector["n"], eta: Scalar, beta: Scalar):
        def step(w, v):
            return w - eta * (X.T @ (X @ w - y)) + beta * (w - v), w

        return loop(step, w, w)[0]

    return program


def rows(loop):
    def program(A: Matrix["n", "n"], B: Matrix["n", "n"], x: Vector["n"]):
        return loop(lambda r: (2 * B - 0.5 * (r @ A),), B)[0] @ x

    return program


def exchanged(loop):
    def program(A: Matrix["n", "n"], x: Vector["n"], z: Vector["n"]):
        p, q = loop(lambda x, z: (z - x, A @ x - 3 * z), x, z)
        return {"p": p, "q": q}

    return program


@pytest.mark.parametrize("target", ["elsa", "lsa"])
@pytest.mark.parametrize("make", [growth, descent, momentum, rows, exchanged])
def test_a_python_loop_is_as_shallow_as_inweaves_own(make, target):
    python, own = both(make, 12)
    sizes = dict.fromkeys(python.size_names, 2)
    (found,) = loops(python.trace(**sizes))
    nets = [inweave.compile(p, target=target, optimize="depth", **sizes) for p in (python, own)]
    assert found.times >= 11
    assert nets[0].depth == nets[1].depth < 8
    assert all(equal_in_rationals(net) for net in nets)


@pytest.mark.parametrize("T", [9, 10, 26, 27, 40, 80])
def test_python_loops_meet_the_lower_bound(T):
    for make, sizes in ((growth, {"n": 2}), (descent, {"n": 2, "m": 3})):
        net = inweave.compile(both(make, T)[0], optimize="depth", **sizes)
        assert net.depth == net.depth_lower_bound
        assert net.certificate is not None


def test_what_is_read_halfway_and_what_follows_are_right_too():
    @inweave.program
    def program(A: Matrix["n", "n"], x: Vector["n"]):
        seen = []
        for _ in range(8):
            x = A @ x + x
            seen.append(x)
        for _ in range(7):
            x = A.T @ x - seen[3]
        return {"halfway": seen[5], "end": A @ x}

    net = inweave.compile(program, optimize="depth", n=2)
    assert len(loops(program.trace(n=2))) == 2
    assert equal_in_rationals(net)
    assert net.depth <= 5


def test_what_becomes_a_loop_is_no_longer_listed_as_it_was_written():
    made = run(both(growth, 12)[0].trace(n=2), candidate="collapsed").made["reroll"]
    assert set(made.operations) == set(ex.ordered(made.outputs.values()))
    assert any(isinstance(x, ex.LoopResult) for x in made.operations)
    assert not made.unused


def test_other_modes_and_other_loops_stay_as_they_are():
    def squared(loop):
        def program(A: Matrix["n", "n"], M: Matrix["n", "n"]):
            return loop(lambda M: (3 * M - M @ A @ M,), M)[0]

        return program

    net = inweave.compile(both(squared, 6)[0], optimize="depth", n=2)
    assert net.depth == 6
    python = both(growth, 12)[0]
    assert inweave.compile(python, optimize="faithful", n=2).depth >= 6


def random_loop(key):
    """A Python loop whose step is affine in up to three values and those before them."""
    rng = random.Random(key)
    count, times = rng.choice([1, 1, 2, 3]), rng.randint(3, 14)
    recipe = [
        [(rng.choice(["A", "B", "AB", "I", "lag"]), rng.randrange(count), rng.choice([1, -1, 2]))
         for _ in range(rng.randint(1, 3))]
        for _ in range(count)
    ]  # fmt: skip
    shift, flat = rng.choice([None, 0, -1]), rng.random() < 0.5

    @inweave.program
    def program(A: Matrix["n", "n"], B: Matrix["n", "n"], x: Vector["n"], u: Vector["n"]):
        state = [x, u, A @ x][:count]
        before = list(state)
        for _ in range(times):
            new = []
            for terms in recipe:
                total = u if shift is None else shift * u
                for what, i, c in terms:
                    v = {"A": lambda v: A @ v, "B": lambda v: B.T @ v, "I": lambda v: v,
                         "AB": lambda v: A @ (B @ v)}.get(what, lambda v: v)  # fmt: skip
                    part = before[i] if what == "lag" else v(state[i])
                    total = total + c * part if flat else c * part - total
                new.append(total)
            before, state = state, new
        return {"end": state[-1], "read": u.T @ state[0], "once": A @ (B @ x)}

    return program


@pytest.mark.parametrize("key", range(60))
@pytest.mark.usefixtures("unchecked_passes")  # the proof is enough
def test_random_python_loops_are_proved_equal(key):
    net = inweave.compile(random_loop(key), optimize="depth", n=2)
    assert net.certificate is not None
    if work(net) <= 400_000:
        assert equal_in_rationals(net, key)


def test_most_random_python_loops_are_found():
    traces = [random_loop(key).trace(n=2) for key in range(60)]
    assert sum(bool(loops(x) or list(repeats(x.operations))) for x in traces) >= 40


# -- starts made of what the step is made of -------------------------------------------------------
NUMBERS = [1, -1, 0.5, 0.25, -0.25, 2, -3, 0]


def total(terms):
    first, *rest = terms
    return sum(rest, first)


def letters_again(key, own=False):
    """A loop over scalars, matrices or vectors; its start is a sum of multiples of its letters.

    Of a start that is a multiple, sums take the factor as their own, and products do not.
    """
    rng = random.Random(key)
    kind, count, steps = rng.choice("smv"), rng.choice([1, 1, 2]), rng.randint(3, 9)
    starts = [[(rng.choice(NUMBERS), rng.randrange(3)) for _ in range(rng.choice([1, 1, 2]))]
              for _ in range(count)]  # fmt: skip
    recipe = [[(rng.choice(NUMBERS), rng.randrange(5), rng.randrange(count))
               for _ in range(rng.randint(1, 3))] for _ in range(count)]  # fmt: skip
    added, first = [rng.choice([None, 0, 1, 2]) for _ in range(count)], rng.random() < 0.5
    grows, looped = rng.random() < 0.3 and not own, rng.random() < 0.3

    def ends(a, b, x=None):
        def times(m, v):
            return m * v if kind == "s" else m @ v

        def step(*state, by=1):
            new = []
            for terms, i in zip(recipe, added, strict=True):
                made = [by * c * (state[j] if m == 4 else times(factors[m], state[j]))
                        for c, m, j in terms]  # fmt: skip
                more = [] if i is None else [letters[i]]
                new.append(total([*more, *made] if first else [*made, *more]))
            return tuple(new)

        t = times(a, b)
        t = inweave.iterate(lambda t: times(t, b) + a, b, 2) if looped else inweave.hold(t)
        factors = [t, b, t - b, a]
        letters = [x, t @ x, b @ x] if kind == "v" else factors[:3]
        state = tuple(total([c * letters[i] for c, i in terms]) for terms in starts)
        if own:
            out = inweave.iterate(lambda *s: step(*s), state, steps)
            return out if isinstance(out, tuple) else (out,)
        for n in range(steps):
            state = step(*state, by=n + 1 if grows else 1)
        return state

    def scalars(a: Scalar, b: Scalar):
        return ends(a, b)

    def matrices(a: Matrix["n", "n"], b: Matrix["n", "n"]):
        return ends(a, b)

    def vectors(a: Matrix["n", "n"], b: Matrix["n", "n"], x: Vector["n"]):
        return ends(a, b, x)

    return inweave.program({"s": scalars, "m": matrices, "v": vectors}[kind])


def sizes_of(program, key):
    return dict.fromkeys(program.size_names, 1 + key % 2)


@pytest.mark.parametrize("varying", [False, True])
def test_loops_that_are_found_end_with_what_was_recorded(monkeypatch, varying):
    monkeypatch.setattr("inweave.language.program.rolled", lambda outputs, *_: outputs)
    loops = 0
    for key in range(300):
        program = letters_again(key)
        traced, rng = program.trace(**sizes_of(program, key)), np.random.default_rng(key)
        inputs = {x.name: rng.integers(-9, 9, (x.rows, x.cols)) * Fraction(1, 4)
                  for x in traced.inputs}  # fmt: skip
        for found in repeats(traced.operations, varying):
            both = [
                replace(traced, outputs=dict(zip("xyzuvw", roots, strict=False)))
                for roots in (found.ends, found.results)
            ]
            ends, results = (each.evaluate(inputs, Rationals()) for each in both)
            assert all((results[name] == x).all() for name, x in ends.items()), key
            loops += 1
    assert loops > 100


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("key", range(40))
@pytest.mark.filterwarnings("ignore:.*does not use its input")
@pytest.mark.usefixtures("unchecked_passes")  # the proof is enough
def test_loops_that_start_from_multiples_of_their_letters_are_proved_equal(key, own):
    program = letters_again(key, own)
    net = inweave.compile(program, optimize="depth", **sizes_of(program, key))
    assert net.certificate is not None
    if work(net) <= 100_000:
        assert equal_in_rationals(net, key)


@pytest.mark.parametrize("steps", [3, 4, 5, 9])
@pytest.mark.parametrize("k", [1, -1, 0.25, -0.25])
def test_a_factor_of_the_start_counts_once(steps, k):
    @inweave.program
    def program(a: Matrix["n", "n"], b: Matrix["n", "n"]):
        t = inweave.hold(a @ b)
        s = k * t
        for _ in range(steps):
            s = 0.5 * s + (t - b) @ s + b
        return s

    assert equal_in_rationals(inweave.compile(program, optimize="depth", n=2))


@pytest.mark.parametrize("mode", ["faithful", "speed", "depth"])
def test_a_product_that_another_one_expands_into_is_expanded_with_it(mode):
    assert inweave.compile(random_loop(13), optimize=mode, n=2).certificate is not None


def test_what_is_known_of_one_loop_is_not_taken_for_another():
    """Several loops are found in these sums; what one of them left by id must not meet the next."""

    def powers(terms):
        @inweave.program
        def summed(s: Scalar) -> Scalar:
            total = s
            for c, k in terms:
                total = total + c * s**k
            for c, k in terms:
                total = total - c * s**k
            return total

        return summed

    for first in range(18, 30):
        for second in range(21, 37, 3):
            terms = [(-2, first), (-1, second), (-2, second)]
            assert inweave.compile(powers(terms), optimize="depth").certificate is not None


# -- loops over rows -------------------------------------------------------------------------------
def lms(X: Matrix["n", "d"], y: Vector["n"]):
    w = inweave.zeros(X.shape[1])
    for i in range(X.shape[0]):
        w = w + 0.25 * (y[i] - X[i] @ w) * X[i]
    return w


def backwards(X: Matrix["n", "d"], y: Vector["n"]):
    w = X[0]
    for i in reversed(range(1, X.shape[0])):
        w = y[i - 1] * w - y[i] * X[i]
    return w


def columns(X: Matrix["n", "d"], y: Vector["n"]):
    for j in range(X.shape[1]):
        y = y - (X[:, j] @ y) * X[:, j]
    return y


def windows(X: Matrix["n", "d"], y: Vector["n"]):
    s = X[0:1, 0:1]
    for i in range(2, X.shape[0]):
        s = 0.5 * s * y[i - 1] + y[i - 2] * y[i] * s
    return s


def gathered(X: Matrix["n", "d"], y: Vector["n"]):
    w, seen = inweave.zeros(X.shape[1]), []
    for i in range(X.shape[0]):
        w = y[i] * w + X[i]
        seen.append(w @ w)
    return {"last": w, "seen": inweave.vstack(seen)}


def uneven(X: Matrix["n", "d"], y: Vector["n"]):
    w = inweave.zeros(X.shape[1])
    for i in range(X.shape[0]):
        w = (2 if i == 4 else 1) * y[i] * w + X[i]
    return w


def strided(X: Matrix["n", "d"], y: Vector["n"]):
    w = X[0]
    for i in range(0, X.shape[0], 2):
        w = y[i] * w + X[i]
    return w


def rows_by_hand(X, y):
    """The same loops in numpy."""
    n, d = X.shape
    w, back, column = np.zeros(d), X[0], y
    for i in range(n):
        w = w + 0.25 * (y[i] - X[i] @ w) * X[i]
    for i in reversed(range(1, n)):
        back = y[i - 1] * back - y[i] * X[i]
    for j in range(d):
        column = column - (X[:, j] @ column) * X[:, j]
    s, last, odd, step, seen = X[0, 0], np.zeros(d), np.zeros(d), X[0], []
    for i in range(0, n, 2):
        step = y[i] * step + X[i]
    for i in range(2, n):
        s = 0.5 * s * y[i - 1] + y[i - 2] * y[i] * s
    for i in range(n):
        last, odd = y[i] * last + X[i], (2 if i == 4 else 1) * y[i] * odd + X[i]
        seen.append(last @ last)
    return {lms: w, backwards: back, columns: column, windows: s, uneven: odd, strided: step,
            gathered: np.concatenate([last, seen])}  # fmt: skip


@pytest.mark.parametrize("mode", ["faithful", "speed", "depth"])
@pytest.mark.parametrize("make", [lms, backwards, columns, windows, gathered, uneven, strided])
def test_python_loops_over_rows_are_right_and_tied(make, mode):
    rng, n, d = np.random.default_rng(0), 9, 6
    X, y = rng.normal(size=(n, d)) / 2, rng.normal(size=n)
    net = inweave.compile(inweave.program(make), n=n, d=d, optimize=mode)
    found = net(X=X, y=y)
    parts = found.values() if isinstance(found, dict) else [found]
    got = np.concatenate([np.ravel(part) for part in parts])
    np.testing.assert_allclose(got, np.ravel(rows_by_hand(X, y)[make]), atol=1e-12)
    if make in (lms, backwards, columns):
        steps = {lms: n, backwards: n - 1, columns: d}[make]
        assert sum(m.repeat for m in net.modules if m.repeat > 1) >= steps - 2


def test_a_sum_of_rows_is_one_layer_and_one_head():
    @inweave.program
    def total(X: Matrix["n", "d"]):
        return sum((X[i : i + 1, :] for i in range(X.shape[0])), start=inweave.zeros(1, 3))

    net = inweave.compile(total, n=60, d=3)
    assert (net.depth, net.heads) == (1, 1)
    X = np.arange(180.0).reshape(60, 3)
    np.testing.assert_array_equal(np.ravel(net(X=X)), X.sum(0))


@pytest.mark.parametrize("first", [-1, -2, 3])
def test_what_only_looks_like_a_first_copy_is_none(first):
    @inweave.program
    def added(s: Scalar) -> Scalar:
        total = s + first * s**4
        for _ in range(3):
            total = total - 2 * s
        return total

    net = inweave.compile(added, optimize="depth")
    assert net(s=2.0) == 2 + 16 * first - 12
