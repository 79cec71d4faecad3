"""Merging heads keeps their sum, summand by summand."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

import inweave
from inweave import Matrix, Vector
from inweave.compiler.layers import HeadSpec, Item
from inweave.compiler.merge import merged
from inweave.run.lines.code import Repeat


def written_out(heads) -> Counter:
    """Σ over heads of query x key x value, as the coefficient of each product of three items."""
    total: Counter = Counter()
    for query, key, values in heads:
        for q in query:
            for k in key:
                for dest, v in values:
                    name = (q.key, k.key, dest, v.key)
                    total[name] += q.coefficient * k.coefficient * v.coefficient
    return Counter({name: c for name, c in total.items() if c})


@pytest.mark.parametrize("seed", range(300))
def test_merged_heads_have_the_same_sum(seed):
    """Few names and small coefficients, so that parts coincide, cancel and repeat often."""
    rng = random.Random(seed)

    def read():
        chosen = [rng.choice("xyz") for _ in range(rng.randint(1, 3))]
        return tuple(Item(Fraction(rng.choice((-1, 1, 1, 2))), name) for name in chosen)

    pool = [read() for _ in range(3)]

    def head():
        query, key, value, dest = *(rng.choice(pool) for _ in range(3)), rng.choice("ab")
        return HeadSpec(query, key, tuple((dest, item) for item in value))

    heads = [head() for _ in range(rng.randint(2, 8))]
    before = written_out((h.query, h.key, h.values) for h in heads)
    after = written_out((h.query, h.key, h.values) for h in merged(heads))
    assert after == before


@pytest.mark.parametrize("target", ["elsa", "lsa"])
@pytest.mark.parametrize("optimize", ["faithful", "speed", "depth"])
def test_a_sum_that_meets_itself_again_is_compiled(target, optimize):
    @inweave.program
    def p(A: Matrix["n", "n"], x: Vector["n"], y: Vector["n"]):
        r = x + y
        return A @ r + A @ (A @ r) + A @ x

    net = inweave.compile(p, n=3, target=target, optimize=optimize)
    rng = np.random.default_rng(0)
    A, x, y = rng.normal(size=(3, 3)), rng.normal(size=3), rng.normal(size=3)
    expected = A @ (x + y) + A @ (A @ (x + y)) + A @ x
    np.testing.assert_allclose(net(A=A, x=x, y=y), expected, rtol=1e-12)


@pytest.mark.parametrize("by", [Fraction(1), Fraction(3), Fraction(0.3), Fraction(-1, 7)])
@pytest.mark.parametrize("order", [1, -1])
def test_a_sum_keeps_the_binary_numbers_of_the_program(by, order):
    """`0.72 e + x` is not `e + x / 0.72`, which no float is."""
    read = tuple(Item(by * Fraction(c), name) for c, name in ((0.72, "e"), (1, "x")))[::order]
    (head,) = merged([HeadSpec(read, (Item(Fraction(1), "I"),), (("a", Item(by, "v")),))])
    assert {item.key: item.coefficient for item in head.query} == {"e": Fraction(0.72), "x": 1}
    assert written_out([(head.query, head.key, head.values)])[
        "e", "I", "a", "v"
    ] == by * by * Fraction(0.72)


def test_a_trace_of_a_loop_is_one_value_where_it_is_carried_and_where_it_is_used():
    """TD(lambda): a step multiplies the trace by 0.72 once, however often it is read."""

    @inweave.program
    def program(X: Matrix["n", "d"], r: Vector["n"]):
        def step(carried, x, reward):
            w, e = carried
            e = 0.72 * e + x
            return (w + (reward - x @ w) * e, e), None

        start = (inweave.zeros(X.shape[1]), inweave.zeros(X.shape[1]))
        return inweave.scan(step, start, X, r)[0][0]

    net = inweave.compile(program, n=12, d=5, optimize="speed", verify=False)
    (loop,) = (line for line in net.plan.from_inputs.code.lines if isinstance(line, Repeat))
    long = [line for line in loop.body if line.op in ("mul", "add") and line.rows * line.cols == 5]
    assert len(long) == 4  # 0.72 e, + x, times a number, + w
    rng = np.random.default_rng(0)
    X, r, w, e = rng.normal(size=(12, 5)), rng.normal(size=12), np.zeros(5), np.zeros(5)
    for x, reward in zip(X, r, strict=True):
        e = 0.72 * e + x
        w = w + (reward - x @ w) * e
    np.testing.assert_allclose(net(X=X, r=r), w, rtol=1e-11)
