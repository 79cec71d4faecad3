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
