"""scan: a loop over rows is one tied module, and every executor reads one row at a time."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inweave
import inweave.gallery
from inweave import Matrix, Scalar, Vector
from inweave.exact.arithmetic import Rationals
from inweave.model import dense
from inweave.model.prompt import fill_prompt
from inweave.run.lines.code import Repeat

MODES = [
    {"target": target, "optimize": mode or "faithful"}
    for target, mode in itertools.product(("elsa", "lsa"), ("", "speed", "depth"))
]


@inweave.program
def delta_rule(K: Matrix["n", "d"], V: Matrix["n", "p"], Q: Matrix["n", "d"], beta: Vector["n"]):
    def step(S, k, v, q, b):
        S = S + b * ((v - S @ k) @ k.T)
        return S, S @ q

    return inweave.scan(step, inweave.zeros(V.shape[1], K.shape[1]), K, V, Q, beta)[1]


def by_hand(K, V, Q, beta):
    S, out = np.zeros((V.shape[1], K.shape[1]), dtype=K.dtype), []
    for k, v, q, b in zip(K, V, Q, beta, strict=True):
        S = S + b * np.outer(v - S @ k, k)
        out.append(S @ q)
    return np.array(out)


@inweave.program
def backwards(x: Vector["n"], s: Scalar):
    """Horner's rule from the last coefficient, and every value on the way."""
    last, on_the_way = inweave.scan(lambda r, c: (s * r + c, r), 0.0, x, reverse=True)
    return {"last": last, "way": on_the_way}


@inweave.program
def schedule(A: Matrix["d", "d"], w: Vector["d"]):
    """What changes from step to step is known beforehand."""
    return inweave.scan(lambda w, eta: (w - eta * (A @ w), None), w, [0.5, 0.25, 0.125])[0]


@inweave.program
def nested(X: Matrix["n", "d"], Z: Matrix["m", "d"]):
    """A scan, with an iterate and another scan in its step."""

    def step(carried, x):
        total, count = carried
        t, _ = inweave.scan(lambda t, z: (t + (x.T @ z) * z, None), inweave.zeros(X.shape[1]), Z)
        t = inweave.iterate(lambda t: t - 0.5 * x, t, 3)
        return (total + t, count + 1), (x.T @ t, 2 * t)

    (total, count), (values, rows) = inweave.scan(step, (inweave.zeros(X.shape[1]), 0.0), X)
    return {"total": total, "count": count, "values": values, "rows": rows}


def nested_by_hand(X, Z):
    total, values, rows = 0, [], []
    for x in X:
        t = Z.T @ (Z @ x) - 1.5 * x
        total, values, rows = total + t, [*values, x @ t], [*rows, 2 * t]
    return {"total": total, "count": len(X), "values": np.array(values), "rows": np.array(rows)}


def random(rng, *shape):
    return rng.normal(size=shape) / 2


@settings(max_examples=30)
@given(n=st.integers(1, 5), d=st.integers(1, 3), p=st.integers(1, 3), mode=st.sampled_from(MODES))
def test_the_delta_rule_is_its_loop_at_every_size(n, d, p, mode):
    rng = np.random.default_rng(n + 10 * d + 100 * p)
    K, V, Q, beta = random(rng, n, d), random(rng, n, p), random(rng, n, d), random(rng, n)
    expected = by_hand(K, V, Q, beta)
    np.testing.assert_allclose(delta_rule(K=K, V=V, Q=Q, beta=beta), expected, atol=1e-12)
    net = inweave.compile(delta_rule, n=n, d=d, p=p, **mode)
    np.testing.assert_allclose(net(K=K, V=V, Q=Q, beta=beta), expected, atol=1e-12)


def test_network_and_program_are_the_loop_in_exact_numbers():
    rng = np.random.default_rng(0)
    net = inweave.compile(delta_rule, n=3, d=2, p=2)
    whole = {s.name: rng.integers(-3, 4, (s.rows, s.cols)) for s in net.inputs}
    exact = {name: np.vectorize(Fraction, otypes=[object])(x) for name, x in whole.items()}
    K, V, Q, beta = (exact[name] for name in ("K", "V", "Q", "beta"))
    expected = by_hand(K, V, Q, beta[:, 0])
    assert (net.origin.traced.evaluate(exact, Rationals())[""] == expected).all()
    assert (net.plan.answers(exact, Rationals())[""] == expected).all()
    H = fill_prompt(net.layout, net.fills, exact, Rationals())
    rows, cols = net.outputs[0].place.source(net.layout)
    answer = dense.forward(net, H, Rationals())[rows, cols]
    assert ((answer.T if net.outputs[0].place.transpose else answer) == expected).all()


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_reverse_schedules_and_nesting(mode):
    rng = np.random.default_rng(1)
    x, s = random(rng, 6), 0.5
    net = inweave.compile(backwards, n=6, **mode)
    found = net(x=x, s=s)
    np.testing.assert_allclose(found["last"], np.polynomial.polynomial.polyval(s, x))
    way = [np.polynomial.polynomial.polyval(s, [*x[i + 1 :], 0]) for i in range(6)]
    np.testing.assert_allclose(found["way"], way)
    A, w = random(rng, 3, 3), random(rng, 3)
    step = [np.eye(3) - eta * A for eta in (0.5, 0.25, 0.125)]
    net = inweave.compile(schedule, d=3, **mode)
    np.testing.assert_allclose(net(A=A, w=w), step[2] @ step[1] @ step[0] @ w)
    X, Z = random(rng, 4, 2), random(rng, 3, 2)
    net, expected = inweave.compile(nested, n=4, m=3, d=2, **mode), nested_by_hand(X, Z)
    for found in (nested(X=X, Z=Z), net(X=X, Z=Z)):
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, atol=1e-12, err_msg=name)


@inweave.program
def read_inside(X: Matrix["n", "d"], w: Vector["d"]):
    """The row of an outer step, read from what an inner one makes of all rows."""

    def step(w, row):
        return inweave.iterate(lambda v: v + row * (row @ v) * (v @ w), w, 3), None

    return inweave.scan(step, w, X)[0]


@pytest.mark.parametrize("mode", MODES[:3], ids=lambda mode: "-".join(mode.values()))
@pytest.mark.parametrize("lead", [(), (3,), (600,)])
@pytest.mark.parametrize(("n", "d"), [(6, 4), (4, 6), (8, 8)])
def test_an_inner_loop_reads_the_row_of_the_outer_step(n, d, mode, lead):
    rng = np.random.default_rng(2)
    X, w = rng.normal(size=(*lead, n, d)) / 8, rng.normal(size=(*lead, d)) / 8
    expected = w
    for i in range(n):
        row, v = X[..., i, :], expected
        for _ in range(3):
            v = v + row * ((row * v).sum(-1) * (v * expected).sum(-1))[..., None]
        expected = v
    net = inweave.compile(read_inside, n=n, d=d, **mode)
    np.testing.assert_allclose(net(X=X, w=w), expected, rtol=1e-10)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
def test_every_library_runs_it_for_batches(library, dtype):
    xp = pytest.importorskip("jax.numpy" if library == "jax" else library)
    rng = np.random.default_rng(2)
    given = [random(rng, 5, 9, 3), random(rng, 9, 2), random(rng, 5, 9, 3), random(rng, 5, 9)]
    names = ("K", "V", "Q", "beta")
    expected = np.stack([by_hand(given[0][i], given[1], given[2][i], given[3][i])
                         for i in range(5)])  # fmt: skip
    net = inweave.compile(delta_rule, n=9, d=3, p=2)
    arrays = [xp.asarray(x.astype(dtype)) for x in given]
    if library == "jax" and dtype == "float64" and arrays[0].dtype != "float64":
        pytest.skip("jax without 64 bits")
    found = np.asarray(net(**dict(zip(names, arrays, strict=True))))
    assert str(found.dtype) == dtype
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6 if dtype == "float32" else 1e-12)


def test_a_plan_reads_rows_and_multiplies_by_no_selector():
    net = inweave.compile(delta_rule, n=50, d=3, p=2)
    (loop,) = [line for line in net.plan.from_inputs.code.lines if isinstance(line, Repeat)]
    assert loop.counters
    assert len(loop.stacks) == 1
    tall = [line for line in loop.body if 50 in (line.rows, line.cols)]
    assert not tall


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("inweave.scan(lambda w, x: w + x, w, X)", "expected a pair"),
        ("inweave.scan(lambda w: (w, None), w, X)", "calls it with what is carried and a row"),
        ("inweave.scan(lambda w, x: (w, None), w)", "takes (w, x)"),
        ("inweave.scan(lambda w: (w, None), w)", "use\\s+inweave.iterate|to repeat a step"),
        ("inweave.scan(lambda w, x, y: (w, None), w, X, w)", "have 4, 3 rows"),
        ("inweave.scan(lambda w, x: (x @ x.T, None), w, X)", "changes the shape of w"),
        ("inweave.scan(lambda w, x: (w, x @ x.T), w, X)", "values are stacked as rows"),
        ("inweave.scan(lambda w, x: (None, x), w, X)", "carries nothing on"),
        ("inweave.scan(3, w, X)", "must be a function"),
        ("inweave.scan(lambda w, x: (w, None), w, np.zeros((0, 3)))", "have no rows"),
        ("(inweave.scan(lambda w, x: (w, None), w, X), 1)", "a tuple of values"),
        ("[inweave.scan(lambda w, x: (w, None), w, X)[1]]", "returns None as one of its answers"),
        ("inweave.scan(lambda w, x: (w if rows.append(1) else w * len(rows), None), w, X)",
         "when it is called again"),
    ],
)  # fmt: skip
def test_what_is_no_scan_is_refused(call, said):
    rows = []
    namespace = {"inweave": inweave, "Matrix": Matrix, "Vector": Vector, "rows": rows, "np": np}
    end = "[0]" if call.startswith("inweave") else ""
    exec(f"def f(X: Matrix[4, 3], w: Vector[3]):\n    return {call}{end}", namespace)
    with pytest.raises(inweave.InweaveError, match=said.replace("(", r"\(").replace(")", r"\)")):
        inweave.compile(inweave.program(namespace["f"]))


def test_outside_of_a_program_it_computes():
    X = np.arange(6.0).reshape(3, 2)
    last, rows = inweave.scan(lambda s, x: (s + x, s @ x), np.zeros(2), X)
    np.testing.assert_array_equal(last, X.sum(0))
    np.testing.assert_array_equal(rows, [0, 3, 28])
    assert inweave.scan(lambda s, x: (s + x, None), 0.0, [1.0, 2.0]) == (3.0, None)


@pytest.mark.parametrize("target", ["elsa", "lsa"])
def test_weights_follow_the_number_of_rows_and_are_rebuilt(target):
    net = inweave.compile(delta_rule, n=12, d=3, p=2, target=target)
    assert net.following_sizes() == (("n",) if target == "elsa" else net.following_sizes())
    other = net.resize(n=31)
    assert other.certificate is not None
    assert other == inweave.compile(delta_rule, n=31, d=3, p=2, target=target)
    rng = np.random.default_rng(3)
    K, V, Q, beta = random(rng, 31, 3), random(rng, 31, 2), random(rng, 31, 3), random(rng, 31)
    np.testing.assert_allclose(other(K=K, V=V, Q=Q, beta=beta), by_hand(K, V, Q, beta), atol=1e-12)
    if target == "elsa":
        assert "weights follow n in the size of the shift and the number of steps" in str(net)


def test_a_unit_vector_that_goes_round_is_no_selector():
    @inweave.program
    def program(X: Matrix["n", "d"]):
        n = X.shape[0]
        first = inweave.constant([1.0] + [0.0] * (n - 1))

        def step(w, e):
            return 2 * w + X.T @ e, inweave.vstack([e[n - 1 :], e[: n - 1]])

        w, e = inweave.iterate(step, (inweave.zeros(X.shape[1]), first), n)
        return {"w": w, "e": e}

    X = np.arange(10.0).reshape(5, 2)
    found = inweave.compile(program, n=5, d=2)(X=X)
    np.testing.assert_array_equal(found["w"], 2.0 ** np.arange(5)[::-1] @ X)
    np.testing.assert_array_equal(found["e"], [1, 0, 0, 0, 0])


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize(("first", "step"), [(1, 1), (5, -1)])
def test_a_selector_may_begin_and_end_in_the_middle(first, step, mode):
    @inweave.program
    def program(X: Matrix["n", "d"]):
        n, zero = X.shape[0], inweave.zeros(1)

        def moved(e):
            parts = [zero, e[: n - 1]] if step > 0 else [e[1:], zero]
            return inweave.vstack(parts)

        start = inweave.zeros(X.shape[1]), inweave.constant(np.eye(n)[first])
        w, e = inweave.iterate(lambda w, e: (0.5 * w + X.T @ e, moved(e)), start, 3)
        return {"w": w, "e": e, "row": X.T @ e}

    X = np.arange(14.0).reshape(7, 2)
    found = inweave.compile(program, n=7, d=2, **mode)(X=X)
    np.testing.assert_allclose(
        found["w"], [0.25, 0.5, 1] @ X[[first, first + step, first + 2 * step]]
    )
    np.testing.assert_array_equal(found["e"], np.eye(7)[first + 3 * step])
    np.testing.assert_array_equal(found["row"], X[first + 3 * step])


@inweave.program
def in_blocks(K: Matrix["n", "d"], V: Matrix["n", "k"], *, size: int, backward: bool):
    """Rows that are read, and answered, some at a time; what is left over is a block of its own."""
    S, out = inweave.zeros(K.shape[1], V.shape[1]), []
    starts = range(0, K.shape[0], size)
    for i in reversed(starts) if backward else starts:
        k, v = K[i : i + size], V[i : i + size]
        S = inweave.hold(S + k.T @ (v - k @ S))
        out.append(k @ S)
    return inweave.vstack(out[::-1] if backward else out)


@pytest.mark.usefixtures("unchecked_passes")
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("n", [24, 26])
def test_blocks_of_rows_are_read_where_they_stand(n, backward, xp):
    sizes = {"size": 3, "backward": backward}
    net = inweave.compile(in_blocks, n=n, d=4, k=2, **sizes, verify=False)
    code = net.plan.from_inputs.code
    (loop,) = [line for line in code.lines if isinstance(line, Repeat)]
    assert [counter.height for counter in loop.counters] == [3]
    assert max(line.rows for line in loop.body) <= 4, "nothing is as high as all rows"
    rng = np.random.default_rng(n)
    K, V = 0.3 * rng.normal(size=(2, n, 4)), rng.normal(size=(2, n, 2))
    expected = [in_blocks(K=k, V=v, **sizes) for k, v in zip(K, V, strict=True)]
    found = net(K=xp.asarray(K), V=xp.asarray(V))
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-4, atol=1e-5)
    one = net(K=xp.asarray(K[0]), V=xp.asarray(V[0]))
    np.testing.assert_allclose(np.asarray(one), expected[0], rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("unchecked_passes")
def test_a_causal_mask_inside_a_block_is_one_product_times_one_mask():
    net = inweave.gallery.get("ttt_linear").compile(n=38, d=13, k=9, verify=False)
    code = net.plan.from_inputs.code
    (loop,) = [line for line in code.lines if isinstance(line, Repeat)]
    assert not [line for line in loop.body if line.op in ("concat", "getitem")]


@pytest.mark.usefixtures("unchecked_passes")
@pytest.mark.parametrize(
    ("first", "step", "times"),
    [(1, 2, 2), (0, 2, 3), (1, 2, 3), (4, -2, 2), (5, -2, 3), (4, -2, 3)],
)
def test_of_a_block_the_rows_that_a_shift_leaves_are_left(first, step, times):
    @inweave.program
    def program(X: Matrix["n", "d"]):
        n, zero = X.shape[0], inweave.zeros(2, 2)

        def moved(E):
            return inweave.vstack([zero, E[: n - 2]] if step > 0 else [E[2:], zero])

        start = inweave.zeros(2, X.shape[1]), inweave.constant(np.eye(7)[:, first : first + 2])
        W, E = inweave.iterate(lambda W, E: (0.5 * W + E.T @ X, moved(E)), start, times)
        return {"W": W, "E": E, "rows": E.T @ X}

    X = np.random.default_rng(0).normal(size=(7, 3))
    found, expected = inweave.compile(program, n=7, d=3, verify=False)(X=X), program(X=X)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-14, err_msg=name)


def test_a_schedule_as_long_as_a_size_is_not_taken_for_it():
    net = inweave.compile(schedule, d=3)
    assert net.following_sizes() == ()


def test_nothing_need_be_carried():
    @inweave.program
    def squares(X: Matrix["n", "d"]):
        return inweave.scan(lambda _, x: (None, x @ x), None, X)[1]

    X = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(inweave.compile(squares, n=3, d=2)(X=X), (X**2).sum(1))
    np.testing.assert_array_equal(squares(X=X), (X**2).sum(1))
    assert inweave.scan(lambda _, x: (None, x @ x), None, X)[1].tolist() == [1, 13, 41]


def test_what_a_step_stacks_is_written_into_its_row_and_nowhere_else():
    """Also an entrywise product: as a product with a unit vector it would touch every row."""

    @inweave.program
    def filtered(X: Matrix["n", "d"], a: Vector["d"]):
        def step(h, x):
            h = a * h + x
            return h, h

        return inweave.scan(step, inweave.zeros(X.shape[1]), X)[1]

    net = inweave.compile(filtered, n=6, d=3, verify=False)
    (loop,) = (node.data for node in net.plan.from_inputs.nodes if node.op == "loop")
    wide = [node.op for node in loop.nodes if node.shape == (6, 3)]
    assert set(wide) == {"phi", "place", "sum"}
    assert wide.count("place") == 1


@pytest.mark.parametrize("lead", [(0,), (2, 0)])
@pytest.mark.parametrize("library", ["numpy", "torch", "jax.numpy"])
def test_no_prompts_have_no_answers(library, lead):
    """What is stacked, and powers that are looked at, have as many rows as with some prompts."""
    xp = pytest.importorskip(library)

    @inweave.program
    def program(X: Matrix["n", "n"], a: Vector["n"]):
        stacked = inweave.scan(lambda h, x: (a * h + x,) * 2, X[0], X)[1]
        return stacked, inweave.iterate(lambda w: X @ w + a, a, 60)

    net = inweave.compile(program, n=8, verify=False)
    stacked, ranked = net(X=xp.ones((*lead, 8, 8)), a=xp.ones((*lead, 8)))
    assert tuple(stacked.shape) == (*lead, 8, 8)
    assert tuple(ranked.shape) == (*lead, 8)
