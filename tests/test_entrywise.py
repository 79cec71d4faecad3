"""Entrywise products, masks and diagonals: exact, as few heads as promised, and one operation."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.compiler.readings import Readings
from inweave.errors import VerificationError
from inweave.exact.arithmetic import Rationals
from inweave.exact.masks import diagonal, separated
from inweave.model.dense import forward
from inweave.model.prompt import fill_prompt
from inweave.proof import words
from inweave.proof.algebra import prove
from inweave.run.lines.code import Line
from inweave.text.plan import describe

TARGETS, MODES = ("elsa", "lsa"), ("faithful", "speed", "depth")


# -- programs, each with what numpy makes of the same arrays ---------------------------------------
def vectors(a: Vector["n"], b: Vector["n"]):
    return a * b


def three_vectors(a: Vector["n"], b: Vector["n"], c: Vector["n"]):
    return a * b * c


def fourth_power(a: Vector["n"]):
    return a**4


def residuals(X: Matrix["n", "m"], w: Vector["m"], a: Vector["n"]):
    return (X @ w - a) ** 2


def matrices(A: Matrix["n", "m"], B: Matrix["n", "m"]):
    return A * B


def three_matrices(A: Matrix["n", "m"], B: Matrix["n", "m"], C: Matrix["n", "m"]):
    return A * B * C


def tall(A: Matrix["n", "m"], B: Matrix["n", "m"]):
    return A.T * (2 * B.T) - A.T


def with_product(A: Matrix["n", "m"], X: Matrix["n", "n"], B: Matrix["n", "m"]):
    return A * (X @ B)


def masked(A: Matrix["n", "m"], B: Matrix["n", "m"]):
    mask = np.arange(A.shape[0] * A.shape[1]).reshape(A.shape) % 3 - 1.0
    return {
        "one": mask * A,
        "two": A * mask * B,
        "either": inweave.where(mask, A, B),
        "number": inweave.where(mask > 0, 2.5, A),
    }


def triangles(S: Matrix["n", "n"], A: Matrix["n", "m"]):
    return {
        "lower": inweave.tril(S),
        "upper": inweave.triu(A),
        "below": inweave.tril(A, -1),
        "above": inweave.triu(S @ A, 1),
    }


def diagonals(a: Vector["n"], A: Matrix["n", "m"], s: Scalar):
    return {
        "matrix": inweave.diag(a),
        "vector": inweave.diag(A),
        "rows": inweave.diag(a) @ A,
        "norms": s * inweave.diag(A @ A.T) + a,
    }


def causal(X: Matrix["n", "m"], Y: Matrix["n", "m"], A: Matrix["n", "m"]):
    return inweave.tril(X @ Y.T) @ A


def looped(a: Vector["n"], b: Vector["n"], s: Scalar):
    return inweave.iterate(lambda v: v - s * (v * v) + b, a, times=5)


def looped_matrix(A: Matrix["n", "m"], B: Matrix["n", "m"]):
    return inweave.iterate(lambda V: V - 0.5 * (V * B), A, times=5)


def inner(A: Matrix["n", "m"], B: Matrix["n", "m"]):
    return (A * B).sum()


def by_column(A: Matrix["n", "m"], B: Matrix["n", "m"], C: Matrix["n", "m"]):
    return ((A - B) * (C + B)).sum(axis=0)


def mahalanobis(A: Matrix["n", "m"], w: Vector["m"], S: Matrix["m", "m"]):
    D = A - w
    return ((D @ S) * D).sum(axis=1)


def distances(A: Matrix["n", "m"], B: Matrix["k", "m"]):
    return (A * A).sum(axis=1)[:, None] + (B * B).sum(axis=1)[None, :] - 2 * A @ B.T


def normalized(A: Matrix["n", "m"]):
    D = A - A.mean(axis=1)[:, None]
    return D * (2 - (D * D).mean(axis=1))[:, None]


def variances(A: Matrix["n", "m"]):
    D = A - A.mean(axis=0)
    return (D * D).sum(axis=0)


def gated(X: Matrix["n", "n"], A: Matrix["n", "m"], B: Matrix["n", "m"], w: Vector["m"]):
    return (X @ A + w) * (X @ B)


def squared_loss(X: Matrix["n", "m"], w: Vector["m"], a: Vector["n"]):
    return ((X @ w - a) * (X @ w - a)).sum()


def raised(A: Matrix["n", "m"]):
    return (A + 1) ** 2


def raised_twice(A: Matrix["n", "m"], B: Matrix["n", "m"]):
    return (A + 1) * (B - 2) * (1 - 3 * A)


def polynomial_kernel(A: Matrix["n", "m"], B: Matrix["k", "m"], w: Vector["k"]):
    return (A @ B.T + 1) ** 2 @ w


def shifted(A: Matrix["n", "m"]):
    rows, cols = A.shape
    return (A + (np.arange(rows * cols).reshape(rows, cols) % 5 + 1) / 4) * A


def shifted_by_column(A: Matrix["n", "m"], B: Matrix["n", "m"]):
    return (A + np.arange(1.0, 1 + A.shape[1])) * (1 - B)


SUMS = {
    raised: lambda A: (A + 1) * (A + 1),
    raised_twice: lambda A, B: (A + 1) * (B - 2) * (1 - 3 * A),
    polynomial_kernel: lambda A, B, w: ((A @ B.T + 1) * (A @ B.T + 1)) @ w,
    shifted: lambda A: A * A + A * (np.arange(A.size).reshape(A.shape) % 5 + 1) / 4,
    shifted_by_column: lambda A, B: (A + np.arange(1, 1 + A.shape[1])) * (1 - B),
    inner: lambda A, B: (A * B).sum(),
    by_column: lambda A, B, C: ((A - B) * (C + B)).sum(axis=0),
    mahalanobis: lambda A, w, S: (((A - w) @ S) * (A - w)).sum(axis=1),
    distances: lambda A, B: ((A[:, None] - B) * (A[:, None] - B)).sum(axis=2),
    normalized: lambda A: _normalized(A - A.sum(axis=1, keepdims=True) / A.shape[1]),
    variances: lambda A: _squares(A - A.sum(axis=0) / A.shape[0]),
    gated: lambda X, A, B, w: (X @ A + w) * (X @ B),
    squared_loss: lambda X, w, a: ((X @ w - a) * (X @ w - a)).sum(),
}


def _squares(D):
    return (D * D).sum(axis=0)


def _normalized(D):
    return D * (2 - (D * D).sum(axis=1, keepdims=True) / D.shape[1])


REFERENCES = {
    **SUMS,
    vectors: lambda a, b: a * b,
    three_vectors: lambda a, b, c: a * b * c,
    fourth_power: lambda a: a * a * a * a,
    residuals: lambda X, w, a: (X @ w - a) * (X @ w - a),
    matrices: lambda A, B: A * B,
    three_matrices: lambda A, B, C: A * B * C,
    tall: lambda A, B: (2 * A * B - A).T,
    with_product: lambda A, X, B: A * (X @ B),
    masked: lambda A, B: _masked(np.arange(A.size).reshape(A.shape) % 3 - 1, A, B),
    triangles: lambda S, A: (np.tril(S), np.triu(A), np.tril(A, -1), np.triu(S @ A, 1)),
    diagonals: lambda a, A, s: (
        np.diag(a), np.diag(A), a[:, None] * A, s * np.diag(A @ A.T) + a,
    ),
    causal: lambda X, Y, A: np.tril(X @ Y.T) @ A,
    looped: lambda a, b, s: _repeated(lambda v: v - s * (v * v) + b, a),
    looped_matrix: lambda A, B: _repeated(lambda V: V - V * B / 2, A),
}  # fmt: skip


def _masked(mask, A, B):
    half = A.dtype.type(2.5) if A.dtype != object else Fraction(5, 2)
    return mask * A, A * mask * B, np.where(mask != 0, A, B), np.where(mask > 0, half, A)


def _repeated(step, v):
    for _ in range(5):
        v = step(v)
    return v


def _inputs(network, rng, dtype=object):
    """Small rationals, as the user's arrays."""
    out = {}
    for spec in network.inputs:
        whole = rng.integers(-4, 5, size=spec.shape)
        exact = np.vectorize(lambda k: Fraction(int(k), 4), otypes=[object])(whole)
        out[spec.name] = exact if dtype is object else exact.astype(dtype)
    return out


def _tuple(answer):
    return answer if isinstance(answer, tuple) else (answer,)


def _expected(function, inputs):
    given = {name: x if np.ndim(x) else x[()] for name, x in inputs.items()}
    return _tuple(REFERENCES[function](**given))


@pytest.mark.parametrize("function", REFERENCES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=4, deadline=None)
@given(st.data())
def test_networks_equal_numpy_in_rationals(function, target, data):
    program = inweave.program(function)
    sizes = {name: data.draw(st.integers(1, 4), name) for name in program.size_names}
    mode = data.draw(st.sampled_from(MODES))
    network = inweave.compile(program, target=target, optimize=mode, **sizes)
    inputs = _inputs(network, np.random.default_rng(data.draw(st.integers(0, 99))))
    arithmetic = Rationals()
    lifted = {s.name: inputs[s.name].reshape(s.rows, s.cols) for s in network.inputs}
    H = fill_prompt(network.layout, network.fills, lifted, arithmetic)
    H = forward(network, H, arithmetic)
    answers = [output.place.read(network.layout, H) for output in network.outputs]
    for answer, expected in zip(answers, _expected(function, inputs), strict=True):
        assert (answer == np.reshape(expected, answer.shape)).all()
    one = network.plan.from_inputs
    for way in (one, one.alone, one.batched, network.plan.in_one_call):
        answers = network.plan.answers(lifted, arithmetic, variant=way).values()
        for answer, expected in zip(answers, _expected(function, inputs), strict=True):
            assert (answer == np.reshape(expected, answer.shape)).all()


# -- how many heads --------------------------------------------------------------------------------
def _heads(function, target="elsa", **sizes):
    network = inweave.compile(inweave.program(function), target=target, **sizes)
    return [len(layer.heads) for layer in network.layers], network


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n", [3, 12])
def test_vectors_are_multiplied_in_one_layer_of_n_heads(target, n):
    assert _heads(vectors, target, n=n)[0] == [n]
    assert _heads(three_vectors, target, n=n)[0] == [n]
    assert _heads(fourth_power, target, n=n)[0] == [n, n]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("n", "m"), [(2, 5), (5, 2), (10, 9)])
def test_matrices_are_laid_out_along_the_short_side_and_multiplied_along_the_long_one(target, n, m):
    assert _heads(matrices, target, n=n, m=m)[0] == [min(n, m), max(n, m)]
    assert len(_heads(three_matrices, target, n=n, m=m)[0]) == 2


def test_rows_or_columns_of_a_mask_that_are_equal_share_a_head():
    def striped(A: Matrix["n", "m"]):
        return np.tile([1.0, 0.0, 2.0], (9, 4)) * A

    def blocks(A: Matrix["n", "m"]):
        return np.kron(np.tri(3), np.ones((3, 4))) * A

    def few_columns(A: Matrix["n", "m"]):
        return np.tile(np.arange(1.0, 10)[:, None] % 4, (1, 12)) * A

    assert _heads(striped, n=9, m=12)[0] == [1]
    assert _heads(blocks, n=9, m=12)[0] == [3]
    assert _heads(few_columns, n=9, m=12)[0] == [1]


def test_a_product_that_several_read_stands_in_one_block():
    """And not each of its heads in one of its own, which would be as wide as all entries."""

    @inweave.program
    def read_twice(a: Vector["n"], b: Vector["n"]):
        s = b + a * b
        return (s + 1) * s * a * b + s

    widths = [inweave.compile(read_twice, n=n).width for n in (5, 6, 7)]
    assert widths[2] - widths[1] == widths[1] - widths[0]


def test_what_is_linear_in_a_product_needs_no_layer_of_its_own():
    def added(a: Vector["n"], b: Vector["n"], s: Scalar):
        return b - s * (a * b) + 3 * (a * a)

    def trace(S: Matrix["n", "n"]):
        return inweave.ones(S.shape[0]).T @ inweave.diag(S)

    def step(a: Vector["n"], b: Vector["n"]):
        return inweave.iterate(lambda v: v - v * b, a, times=7)

    assert inweave.compile(inweave.program(added), n=20).depth == 1
    assert inweave.compile(inweave.program(trace), n=20).depth == 1
    assert inweave.compile(inweave.program(step), n=20).depth == 7


def test_a_factor_that_is_a_product_is_multiplied_in_the_same_layer():
    def weighted(X: Matrix["n", "m"], w: Vector["m"], a: Vector["n"]):
        return (X @ w) * a

    assert _heads(weighted, n=12, m=3)[0] == [12]
    assert _heads(causal, n=12, m=3)[0] == [12, 1]


# -- certificates ----------------------------------------------------------------------------------
@pytest.mark.parametrize("function", [vectors, matrices, triangles, diagonals, causal, looped])
def test_products_are_proved_by_algebra_for_their_own_size_only(function):
    program = inweave.program(function)
    network = inweave.compile(program, **{name: 5 + i for i, name in enumerate(program.size_names)})
    assert "by algebra" in str(network.certificate)
    assert "for all" not in str(network.certificate)


@pytest.mark.parametrize("function", [vectors, matrices, triangles, diagonals])
def test_a_network_without_one_of_the_heads_is_refused(function):
    program = inweave.program(function)
    sizes = {name: 4 + i for i, name in enumerate(program.size_names)}
    network = inweave.compile(program, **sizes)
    *before, last = network.modules
    *others, layer = last.body
    fewer = replace(layer, heads=layer.heads[:-1])
    wrong = replace(network, modules=(*before, replace(last, body=(*others, fewer))))
    with pytest.raises(VerificationError):
        inweave.verify(program, wrong)


def test_a_saved_program_keeps_its_products(tmp_path):
    network = inweave.compile(inweave.program(matrices), n=3, m=4)
    network.save(tmp_path / "product.inweave")
    loaded = inweave.load(tmp_path / "product.inweave")
    A, B = np.random.default_rng(0).normal(size=(2, 3, 4))
    assert np.array_equal(loaded(A=A, B=B), A * B)
    assert "by algebra" in str(loaded.verify())


# -- masks -----------------------------------------------------------------------------------------
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 999))
def test_a_mask_is_the_sum_of_its_separated_diagonals(rows, cols, seed):
    mask = np.random.default_rng(seed).integers(-1, 2, size=(rows, cols)).astype(float)
    total = np.zeros((rows, cols))
    pairs = separated(mask)
    for left, right in pairs:
        total += np.outer(_written(left), _written(right))
    assert np.array_equal(total, mask)
    alike = [len({tuple(row) for row in m.tolist() if any(row)}) for m in (mask, mask.T)]
    assert len(pairs) == min(alike)


def _written(pieces):
    return np.diagonal(sum(float(c) * piece.entries() for piece, c in pieces))


def test_a_run_of_equal_entries_is_one_piece_of_the_identity():
    pieces = diagonal(np.array([2.0, 2.0, 0.0, 3.0, 3.0, 3.0]))
    assert [(piece.row, piece.size, c) for piece, c in pieces] == [(0, 2, 2), (3, 3, 3)]


# -- plans -----------------------------------------------------------------------------------------
def _operations(network):
    """What the plan computes, line by line, without views."""
    variant, _ = network.plan.shown
    found = []
    for line in variant.code.lines:
        lines = [line] if isinstance(line, Line) else line.body
        found += [one.op for one in lines if one.op not in ("flip", "getitem")]
    return found


def column(X: Matrix["n", "m"], w: Vector["m"], a: Vector["n"]):
    return (X @ w) * a


def rank_one(A: Matrix["n", "m"]):
    return np.outer(np.arange(1.0, 1 + A.shape[0]), np.arange(1.0, 1 + A.shape[1])) * A


def one_mask(A: Matrix["n", "m"]):
    return inweave.triu(A, 1)


def any_mask(A: Matrix["n", "m"]):
    return np.random.default_rng(0).normal(size=A.shape) * A


def to_matrix(a: Vector["n"]):
    return inweave.diag(a)


def to_vector(A: Matrix["n", "m"]):
    return inweave.diag(A)


def rows(a: Vector["n"], A: Matrix["n", "m"]):
    return inweave.diag(a) @ A


def squared_rows(A: Matrix["n", "m"]):
    return inweave.diag(A @ A.T)


def sums(A: Matrix["n", "m"], B: Matrix["n", "m"], C: Matrix["n", "m"]):
    return (A - B) * (C + B)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("n", "m"), [(6, 5), (4, 11)])
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (vectors, ["mul"]),
        (three_vectors, ["mul", "mul"]),
        (matrices, ["mul"]),
        (three_matrices, ["mul", "mul"]),
        (column, ["matmul", "mul"]),
        (residuals, ["matmul", "sub", "mul"]),
        (with_product, ["matmul", "mul"]),
        (rank_one, ["mul"]),
        (one_mask, ["mul"]),
        (any_mask, ["mul"]),
        (to_matrix, ["mul"]),
        (to_vector, ["diagonal", "mul"]),  # an answer is a copy of what was handed in
        (rows, ["mul"]),
        (squared_rows, ["mul", "matmul"]),
        (sums, ["sub", "add", "mul"]),
        (causal, ["matmul", "mul", "matmul"]),
        (inner, ["mul", "matmul", "matmul"]),
        (by_column, ["sub", "add", "mul", "matmul"]),
        (mahalanobis, ["sub", "matmul", "mul", "matmul"]),
        (distances, ["mul", "matmul", "mul", "matmul", "matmul", "mul", "add", "sub"]),
        (gated, ["matmul", "add", "matmul", "mul"]),
        (squared_loss, ["matmul", "sub", "mul", "matmul"]),
        (looped_matrix, ["mul", "mul", "sub"]),
        (raised, ["add", "mul"]),
        (shifted, ["add", "mul"]),
        (shifted_by_column, ["add", "sub", "mul"]),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_a_plan_runs_whole_matrices_and_not_their_entries(function, expected, target, n, m):
    program = inweave.program(function)
    sizes = {name: {"n": n, "m": m, "k": 7}[name] for name in program.size_names}
    network = inweave.compile(program, target=target, **sizes)
    assert sorted(_operations(network)) == sorted(expected), network.plan


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", SUMS, ids=lambda f: f.__name__)
def test_a_plan_of_a_sum_of_products_does_not_grow_with_its_rows(function, mode):
    program = inweave.program(function)

    def operations(n, m, k):
        sizes = {"n": n, "m": m, "k": k}
        sizes = {name: sizes[name] for name in program.size_names}
        network = inweave.compile(program, optimize=mode, verify=False, **sizes)
        return sorted(_operations(network))

    assert operations(18, 6, 7) == operations(30, 6, 13)


@settings(max_examples=5, deadline=None)
@given(st.data())
def test_a_product_of_sums_with_numbers_is_as_many_operations_at_every_size(data):
    numbers = [data.draw(st.sampled_from([-2, -0.5, 0.3, 1, 3])) for _ in range(4)]
    a, b, c, d = numbers

    def product(A: Matrix["n", "m"], B: Matrix["n", "m"]):
        return (a * A + b) * (c * B + d)

    program, found = inweave.program(product), []
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    for n, m in ((data.draw(st.integers(3, 6)), 4), (12, data.draw(st.integers(3, 14)))):
        target = data.draw(st.sampled_from(TARGETS))
        network = inweave.compile(program, n=n, m=m, target=target, verify=False)
        A, B = rng.normal(size=(2, n, m))
        assert np.allclose(network(A=A, B=B), (a * A + b) * (c * B + d), rtol=1e-12)
        found.append(len(_operations(network)))
    assert max(found) <= 20  # however many entries there are


@pytest.mark.parametrize("mode", MODES)
def test_a_sum_with_a_number_is_raised_to_a_power_as_one_value_when_it_is_large(mode):
    network = inweave.compile(inweave.program(raised), n=30, m=30, optimize=mode, verify=False)
    assert sorted(_operations(network)) == ["add", "mul"]


@cache
def _fast(function):
    program = inweave.program(function)
    sizes = {name: {"n": 9, "m": 5, "k": 7}[name] for name in program.size_names}
    return inweave.compile(program, optimize="speed", **sizes)


@pytest.mark.parametrize("function", REFERENCES, ids=lambda f: f.__name__)
def test_every_library_computes_what_numpy_does_alone_and_in_batches(function, xp):
    network, rng = _fast(function), np.random.default_rng(1)
    problems = [_inputs(network, rng, float) for _ in range(3)]
    expected = [_expected(function, problem) for problem in problems]
    batch = {name: np.stack([problem[name] for problem in problems]) for name in problems[0]}
    cases = ((problems[0], expected[0]), (batch, list(zip(*expected, strict=True))))
    for dtype, tolerance in ((xp.float32, 1e-4), (xp.float64, 1e-12)):
        for problem, wanted in cases:
            arrays = {name: xp.asarray(x.tolist(), dtype=dtype) for name, x in problem.items()}
            found = network(**arrays)
            found = list(found.values()) if isinstance(found, dict) else [found]
            assert all(got.dtype == dtype for got in found)
            for got, answer in zip(found, map(np.asarray, wanted), strict=True):
                scale = max(1.0, np.abs(answer).max())
                difference = np.asarray(got, dtype=float) - answer
                assert np.abs(difference).max() <= tolerance * scale


def test_a_difference_is_squared_and_not_multiplied_out():
    network = inweave.compile(inweave.program(residuals), n=3, m=2)
    X, w = np.ones((3, 2)), np.array([1e8, 1.0])
    a = np.array([1e8, 1e8 + 1, 1e8 - 1])
    assert np.array_equal(network(X=X, w=w, a=a), [1.0, 0.0, 4.0])


def test_print_says_how_many_heads_a_product_takes():
    assert "20 heads" in str(inweave.compile(inweave.program(vectors), n=20))
    assert "7 heads" in str(inweave.compile(inweave.program(matrices), n=3, m=4))
    assert "A * B" in describe(inweave.compile(inweave.program(matrices), n=3, m=4).plan)


# -- the work per head is shared -------------------------------------------------------------------
SHARED = {
    three_vectors: {"n": 5},
    fourth_power: {"n": 5},
    three_matrices: {"n": 3, "m": 4},
    with_product: {"n": 3, "m": 3},
}


@pytest.mark.usefixtures("unchecked_passes")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("function", SHARED, ids=lambda f: f.__name__)
def test_heads_that_are_cut_alike_are_cut_as_each_would_be_alone(monkeypatch, function, target):
    program, sizes = inweave.program(function), SHARED[function]
    alike = inweave.compile(program, target=target, verify=False, **sizes)
    monkeypatch.setattr(Readings, "pattern", lambda _, chain: chain)
    alone = inweave.compile(program, target=target, verify=False, **sizes)
    assert alike.fingerprint == alone.fingerprint


@pytest.mark.usefixtures("unchecked_passes")
@pytest.mark.parametrize("function", SHARED, ids=lambda f: f.__name__)
def test_words_that_do_not_meet_are_left_out_of_a_proof_and_nothing_else(monkeypatch, function):
    """As a proof in which every word meets every other, and none is known to be zero at once."""
    net = inweave.compile(inweave.program(function), verify=False, **SHARED[function])
    found = prove(net.origin.traced, net)
    everywhere = lambda lines, _: [*lines.anywhere, *chain.from_iterable(lines.at.values())]  # noqa: E731
    monkeypatch.setattr(words.Lines, "near", everywhere)
    expected = prove(net.origin.traced, net)
    assert (found.every_step, found.sizes) == (expected.every_step, expected.sizes)


@pytest.mark.usefixtures("unchecked_passes")
def test_a_proof_of_an_entrywise_product_grows_with_its_entries_and_not_with_their_square():
    def letters(n: int) -> int:
        net = inweave.compile(inweave.program(fourth_power), verify=False, n=n)
        return prove(net.origin.traced, net).letters

    assert letters(64) < 2.5 * letters(32)


@pytest.mark.usefixtures("unchecked_passes")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", [normalized, variances], ids=lambda f: f.__name__)
def test_means_of_a_centred_matrix_are_not_written_into_every_head(function, mode):
    """There, their numbers would grow with the fourth power of the size."""
    program = inweave.program(function)

    def numbers(n: int) -> int:
        return inweave.compile(program, optimize=mode, verify=False, n=n, m=n).stored_numbers

    assert numbers(48) < 2**3 * numbers(24)


def test_a_layer_is_saved_for_least_depth_where_means_are_few_numbers():
    def depths(n: int) -> list[int]:
        return [
            inweave.compile(inweave.program(variances), optimize=mode, n=n, m=4).depth
            for mode in ("faithful", "depth")
        ]

    assert depths(6) == [3, 2]
    assert depths(100) == [3, 3]


def between(mask: np.ndarray, C: np.ndarray):
    """A mask between matrices of numbers."""

    @inweave.program
    def program(X: Matrix["n", "n"]):
        return C.T @ (mask * (C @ X @ C.T)) @ C

    return program


MASKS = {
    "numbers": lambda n: np.random.default_rng(n).normal(size=(n, n)),
    "of ones": lambda n: (np.random.default_rng(n).normal(size=(n, n)) > 0) * 1.0,
    "triangle": lambda n: np.tril(np.ones((n, n))),
    "band": lambda n: np.tri(n, n, 1) - np.tri(n, n, -2),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_a_mask_between_matrices_of_numbers_is_proved_and_right(mask, mode):
    rng, n = np.random.default_rng(3), 5
    C, X = rng.normal(size=(n, n)), rng.normal(size=(n, n))
    network = inweave.compile(between(mask(n), C), optimize=mode, n=n)
    assert network.certificate.method in ("algebra", "direct")
    wanted = C.T @ (mask(n) * (C @ X @ C.T)) @ C
    np.testing.assert_allclose(network(X=X), wanted, rtol=1e-11, atol=1e-11)


@pytest.mark.usefixtures("unchecked_passes")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_matrices_around_a_mask_are_not_written_into_every_head(mask, mode):
    def numbers(n: int) -> int:
        C = np.random.default_rng(n).normal(size=(n, n))
        program = between(mask(n), C)
        return inweave.compile(program, optimize=mode, verify=False, n=n).stored_numbers

    assert numbers(96) < 2.1**2 * numbers(48)


BETWEEN_VALUES = MASKS | {
    "zeros": lambda n: np.zeros((n, n)),
    "one entry": lambda n: np.eye(n)[:, [1]] * np.eye(n)[2],
    "sliding window": lambda n: np.tri(n) - np.tri(n, n, -3),
    "decaying": lambda n: np.tril(0.5 ** abs(np.subtract.outer(np.arange(n), np.arange(n)))),
    "blocks": lambda n: np.kron(np.eye(n // 3), np.ones((3, 3))),
    "few": lambda n: (np.random.default_rng(n).uniform(size=(n, n)) < 0.2) + np.eye(n)[::-1],
}


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("mask", BETWEEN_VALUES.values(), ids=BETWEEN_VALUES)
def test_a_mask_of_any_kind_on_a_product_of_values_is_one_operation(mask, mode, held):
    """Squared scores, masked: four operations by hand, a line for each."""
    n, d = 9, 4
    M = mask(n)

    @inweave.program
    def program(Q: Matrix["n", "d"], K: Matrix["n", "d"], V: Matrix["n", "d"]):
        S = inweave.hold(Q @ K.T) if held else Q @ K.T
        return (M * S * S) @ V

    network = inweave.compile(program, optimize=mode, verify=False, n=n, d=d)
    Q, K, V = np.random.default_rng(1).normal(size=(3, n, d))
    found = network(Q=Q, K=K, V=V)
    np.testing.assert_allclose(found, (M * (Q @ K.T) ** 2) @ V, rtol=1e-11, atol=1e-11)
    if np.count_nonzero(M) > 1:
        assert sorted(_operations(network)) == ["matmul", "matmul", "mul", "mul"]


@pytest.mark.parametrize("mask", BETWEEN_VALUES.values(), ids=BETWEEN_VALUES)
@pytest.mark.parametrize("of", ["cube", "relu"])
def test_a_mask_on_what_is_made_of_scores_is_one_operation(mask, of):
    n, d = 9, 4
    M = mask(n)

    @inweave.program
    def program(Q: Matrix["n", "d"], K: Matrix["n", "d"], V: Matrix["n", "d"]):
        S = Q @ K.T
        return (M * (inweave.relu(S) if of == "relu" else (S + 1) ** 3)) @ V

    network = inweave.compile(program, optimize="speed", verify=False, n=n, d=d)
    Q, K, V = np.random.default_rng(1).normal(size=(3, n, d))
    S = Q @ K.T
    wanted = (M * (np.maximum(S, 0) if of == "relu" else (S + 1) ** 3)) @ V
    np.testing.assert_allclose(network(Q=Q, K=K, V=V), wanted, rtol=1e-11, atol=1e-11)
    if np.count_nonzero(M) > 1:
        inner = ["pointwise"] if of == "relu" else ["add", "mul", "mul"]
        assert sorted(_operations(network)) == sorted(["matmul", *inner, "mul", "matmul"])


@settings(max_examples=20, deadline=None)
@given(st.data(), st.integers(2, 5), st.integers(2, 5))
def test_masks_on_products_of_values_are_exact(data, n, m):
    weights = st.sampled_from([0, 0, 0, 1, 1, -2, 0.5, 0.3])
    M = np.array([[data.draw(weights) for _ in range(m)] for _ in range(n)])
    factors = data.draw(st.integers(2, 4))

    @inweave.program
    def program(A: Matrix["n", "m"], B: Matrix["n", "k"], C: Matrix["k", "m"]):
        out = M * A
        for one in [B @ C, A, 0.1 * A + B @ C][: factors - 1]:
            out = out * one
        return out

    mode, target = data.draw(st.sampled_from(MODES)), data.draw(st.sampled_from(TARGETS))
    network = inweave.compile(program, n=n, m=m, k=2, optimize=mode, target=target, verify=False)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    A, B, C = (rng.integers(-3, 4, size).astype(float) for size in ((n, m), (n, 2), (2, m)))
    wanted = M * A
    for one in [B @ C, A, 0.1 * A + B @ C][: factors - 1]:
        wanted = wanted * one
    np.testing.assert_allclose(network(A=A, B=B, C=C), wanted, rtol=1e-12, atol=1e-12)


def test_a_mask_of_small_numbers_takes_no_small_number_in_front_of_it():
    """Multiplied beforehand, 1e-300 and 1e-20 would have few digits left, or none."""
    M = 1e-300 * np.random.default_rng(0).uniform(1, 2, size=(5, 4))

    @inweave.program
    def program(A: Matrix["n", "m"], B: Matrix["n", "m"]):
        return 1e-20 * (M * A * B)

    A, B = np.random.default_rng(1).uniform(1e150, 2e150, size=(2, 5, 4))
    for mode in MODES:
        network = inweave.compile(program, optimize=mode, verify=False, n=5, m=4)
        np.testing.assert_allclose(network(A=A, B=B), 1e-20 * (M * A * B), rtol=1e-13)


def test_a_layer_is_saved_for_least_depth_where_matrices_around_a_mask_are_few_numbers():
    def depths(n: int) -> list[int]:
        program = between(MASKS["of ones"](n), np.random.default_rng(n).normal(size=(n, n)))
        return [
            inweave.compile(program, optimize=mode, verify=False, n=n).depth
            for mode in ("faithful", "depth")
        ]

    assert depths(5) == [3, 1]
    assert depths(48) == [3, 3]


SPREAD = {
    "rows": "x[:, None] * A",
    "columns": "A * z",
    "both": "x[:, None] * A * z",
    "twice": "(2 * x)[:, None] * A * z * x[:, None] * z",
    "of sums": "(1 + x)[:, None] * (A + 1) * (z - 2)",
    "of two": "x[:, None] * A * B * z",
    "and another": "x[:, None] * A * B",
    "masked": "tril(x[:, None] * A * z)",
    "alone": "x[:, None] * z[None, :]",
    "a number's": "(x @ x) * x[:, None] * A",
}


def spread(name: str):
    @inweave.program
    def program(A: Matrix["n", "m"], B: Matrix["n", "m"], x: Vector["n"], z: Vector["m"]):
        return eval(SPREAD[name], {"tril": inweave.tril, "A": A, "B": B, "x": x, "z": z})

    return program


@pytest.mark.filterwarnings("ignore:program")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sizes", [(3, 4), (4, 3), (3, 3), (1, 3), (3, 1)])
@pytest.mark.parametrize("name", SPREAD)
def test_columns_and_rows_beside_matrices_are_those_of_numpy(name, sizes, mode):
    n, m = sizes
    network = inweave.compile(spread(name), optimize=mode, n=n, m=m)
    rng = np.random.default_rng(n)
    shapes = {"A": (n, m), "B": (n, m), "x": (n,), "z": (m,)}
    given = {key: rng.normal(size=shape) for key, shape in shapes.items()}
    found = network(**given)
    wanted = eval(SPREAD[name], {"tril": np.tril, **given})
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)


@pytest.mark.usefixtures("unchecked_passes")
@pytest.mark.filterwarnings("ignore:program")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["rows", "columns", "both", "twice", "masked"])
def test_a_column_or_a_row_takes_as_many_numbers_as_it_has_entries(name, mode):
    def numbers(n: int) -> int:
        made = inweave.compile(spread(name), optimize=mode, verify=False, n=n, m=n)
        return made.stored_numbers

    assert numbers(48) <= 2.1 * numbers(24)


@pytest.mark.filterwarnings("ignore:program")
@pytest.mark.parametrize(
    ("name", "layers"),
    [("rows", 2), ("both", 2), ("of sums", 2), ("and another", 2), ("of two", 3), ("twice", 3)],
)
def test_columns_and_rows_cost_no_layer_of_the_least(name, layers):
    net = inweave.compile(spread(name), optimize="depth", verify=False, n=4, m=3)
    assert net.depth == layers
