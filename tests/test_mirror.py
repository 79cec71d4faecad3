"""Matrices that are known to be symmetric, because they read the same backwards."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.exact.constants import identity
from inweave.exact.field_arithmetic import FieldArithmetic
from inweave.run.libraries.execute import Bound
from inweave.run.lines.code import encode
from inweave.run.values.graph import Graph
from inweave.run.values.node import Node

FIELD = FieldArithmetic(key=4)
SHAPES = {"A": (3, 3), "B": (3, 3), "X": (4, 3), "Y": (4, 3), "v": (3, 1), "d": (4, 1), "s": (1, 1)}


def sources(graph: Graph) -> dict[str, Node]:
    return {name: graph.source(name, *shape, name) for name, shape in SHAPES.items()}


def values(nodes: list[Node], graph: Graph) -> list[np.ndarray]:
    """Exactly, of random matrices over a field."""
    rng = np.random.default_rng(7)
    given = {name: FIELD.field.random(shape, rng) for name, shape in SHAPES.items()}
    code = encode(graph.scopes[0].nodes, nodes)
    return Bound(code, FIELD).run({name: given[name] for name in code.sources})


FORMS = {
    "XᵀX": lambda g, X, **_: g.matmul(g.flip(X), X),
    "Xᵀ(dX)": lambda g, X, d, **_: g.matmul(g.flip(X), g.entrywise(d, X)),
    "(dX)ᵀX": lambda g, X, d, **_: g.matmul(g.flip(g.entrywise(d, X)), X),
    "(Xᵀ diag d) X": lambda g, X, d, **_: g.matmul(
        g.matmul(g.flip(X), g.entrywise(d, g.const(identity(4)))), X
    ),
    "(Aᵀ(XᵀX))A": lambda g, A, X, **_: g.matmul(
        g.matmul(g.flip(A), g.matmul(g.flip(X), X)), A
    ),
    "(sX)ᵀ(2X)": lambda g, X, s, **_: g.matmul(
        g.flip(g.mul(s, X)), g.scale(Fraction(2), X)
    ),
    "((AB)Bᵀ)Aᵀ": lambda g, A, B, **_: g.matmul(
        g.matmul(g.matmul(A, B), g.flip(B)), g.flip(A)
    ),
    "Xᵀ(dY) + Yᵀ(dX)": lambda g, X, Y, d, **_: g.total(3, 3, [
        (1, g.matmul(g.flip(X), g.entrywise(d, Y)), 0, 0),
        (1, g.matmul(g.flip(Y), g.entrywise(d, X)), 0, 0),
    ]),
    "I - s Xᵀ(dX)": lambda g, X, d, s, **_: g.total(3, 3, [
        (1, g.const(identity(3)), 0, 0),
        (-1, g.mul(s, g.matmul(g.flip(X), g.entrywise(d, X))), 0, 0),
    ]),
    "part of X, turned, times d and it": lambda g, X, d, **_: g.matmul(
        g.view(X, 1, 0, 2, 3, flip=True),
        g.entrywise(g.view(d, 1, 0, 2, 1), g.view(X, 1, 0, 2, 3)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_what_reads_the_same_backwards_is_known_to_be_symmetric(name):
    graph = Graph()
    made = FORMS[name](graph, **sources(graph))
    assert made.symmetric
    (value,) = values([made], graph)
    assert (value == value.mT).all()


OPERATIONS = {
    "flip": lambda g, a, _: g.flip(a),
    "matmul": lambda g, a, b: g.matmul(a, b) if a.cols == b.rows else None,
    "product": lambda g, a, b: g.matmul(g.flip(a), b) if a.rows == b.rows else None,
    "scale": lambda g, a, _: g.scale(Fraction(2), a),
    "times": lambda g, a, b: g.mul(a, b) if a.is_scalar else None,
    "entrywise": lambda g, a, b: g.entrywise(a, b)
    if a.rows == b.rows and (1 in (a.cols, b.cols) or a.shape == b.shape) else None,
    "plus": lambda g, a, b: g.total(*a.shape, [(1, a, 0, 0), (1, b, 0, 0)])
    if a.shape == b.shape else None,
    "minus": lambda g, a, b: g.total(*a.shape, [(1, a, 0, 0), (-1, b, 0, 0)])
    if a.shape == b.shape else None,
    "beside": lambda g, a, b: g.total(7, 7, [(1, a, 0, 0), (1, b, 3, 3), (1, a, 3, 0)])
    if max(*a.shape, *b.shape) < 5 else None,
    "part": lambda g, a, _: g.view(a, 0, 0, a.rows - 1, a.cols) if a.rows > 1 else None,
}  # fmt: skip


@settings(max_examples=60)
@given(st.lists(
    st.tuples(st.sampled_from([*OPERATIONS]), st.integers(0, 40), st.integers(0, 40)),
    min_size=5, max_size=25,
))  # fmt: skip
def test_whatever_is_taken_for_symmetric_is(chosen):
    graph = Graph()
    pool = [*sources(graph).values()]
    for name, i, j in chosen:
        made = OPERATIONS[name](graph, pool[-1 - i % len(pool)], pool[-1 - j % len(pool)])
        pool += [] if made is None else [made]
    found = [x for x in graph.scopes[0].nodes if x.symmetric and x.op not in ("const", "source")]
    for node, value in zip(found, values(found, graph), strict=True):
        assert (value == value.mT).all(), node


WEIGHTS = {
    "a vector": lambda _, s, r: s * r,
    "a symmetric product": lambda Z, _, r: Z.T @ (Z @ r),
    "both": lambda Z, s, r: s * (Z.T @ (Z @ (s * r))),
}


@pytest.mark.usefixtures("unchecked_passes")
@pytest.mark.filterwarnings("ignore:program 'descent' does not use")
@pytest.mark.parametrize("weights", WEIGHTS)
def test_descent_with_weights_is_computed_by_powers(weights):
    """Its matrix is I - η Xᵀ S X."""

    @inweave.program
    def descent(
        X: Matrix["n", "d"], Z: Matrix["n", "n"], s: Vector["n"], y: Vector["n"], eta: Scalar
    ):
        def step(w):
            return w - eta * (X.T @ WEIGHTS[weights](Z, s, X @ w - y))

        return inweave.iterate(step, X.T @ y, 60)

    network = inweave.compile(descent, n=6, d=3, verify=False)
    assert not any(node.op == "loop" for node in network.plan.from_inputs.alone.nodes)
    rng = np.random.default_rng(2)
    X, Z, s, y = (rng.uniform(0, 1, shape) for shape in ((6, 3), (6, 6), 6, 6))
    given = {"X": X, "Z": Z, "s": s, "y": y, "eta": 0.01}
    np.testing.assert_allclose(network(**given), descent(**given), rtol=1e-12)
