"""Cotangents under construction: what is asked of a value, added up and multiplied out."""

from __future__ import annotations

from fractions import Fraction

from inweave.exact.constants import Ones
from inweave.run.values.graph import Graph
from inweave.run.values.node import Node, Part

HALF = Fraction(1, 2)

Asked = dict[Node, list[Part]]
"""What is asked of the values of a plan: parts, in another graph, that add up to cotangents."""


def ask(asked: Asked, x: Node, c: Node, sign: int = 1, row: int = 0, col: int = 0) -> None:
    """Ask a value for one thing more."""
    asked.setdefault(x, []).append((sign, c, row, col))


def total(graph: Graph, parts: list[Part], shape: tuple[int, int], symmetric: bool) -> Node:
    """What parts add up to; made symmetric if what they are asked of is: the rest meets nothing."""
    if not symmetric:
        return graph.total(*shape, parts)
    both = list[Part]()
    for sign, x, row, col in parts:
        upright = x.args[0] if x.flipped else x
        if x.symmetric and row == col:
            both.append((sign, x, row, col))
        elif upright.op == "matmul" and upright.shape == shape != (1, 1):
            made = graph.make("both", upright.args, None, *shape)
            made.symmetric = True
            both.append((sign, graph.scale(HALF, made), 0, 0))
        else:
            half = graph.scale(HALF, x)
            both += [(sign, half, row, col), (sign, graph.flip(half), col, row)]
    made = graph.total(*shape, both)
    made = made.args[0] if made.flipped and made.args[0].shape == made.shape else made
    made.symmetric = True
    return made


def outer(graph: Graph, x: Node) -> tuple[Node, Node] | None:
    """The column and the row that a matrix is the product of; also of a transposed one."""
    base = x.args[0] if x.flipped and x.args[0].shape == x.shape[::-1] else x
    if base.op != "mul" or min(base.shape) == 1:
        return None
    a, b = base.args
    if not a.cols == b.rows == 1:
        return None
    return (a, b) if base is x else (graph.flip(b), graph.flip(a))


def product(graph: Graph, a: Node, b: Node) -> Node:
    """`a b`; of a column times a row, the row or the column meets the other factor first."""
    left, right = outer(graph, a), outer(graph, b)
    if left is not None:
        return _times(graph, left[0], product(graph, left[1], b))
    if right is not None:
        return _times(graph, product(graph, a, right[0]), right[1])
    return _times(graph, a, b)


def _times(graph: Graph, a: Node, b: Node) -> Node:
    return graph.entrywise(a, b) if a.is_scalar or b.is_scalar else graph.matmul(a, b)


def summed(graph: Graph, c: Node, other: Node, shape: tuple[int, int]) -> Node:
    """`c ⊙ other`, summed over the rows and columns for which one row or column stood."""
    if shape == c.shape:
        return graph.entrywise(c, other)
    if other.rows == 1 < c.rows and shape == (c.rows, 1):
        return product(graph, c, graph.flip(other))
    if other.cols == 1 < c.cols and shape == (1, c.cols):
        return product(graph, graph.flip(other), c)
    if other.op == "const" and other.data.is_identity() and shape[1] == 1:
        along = graph.diagonal(c)
        return along if shape[0] > 1 else graph.matmul(graph.const(Ones(1, c.rows)), along)
    parts = outer(graph, c)
    if parts is not None and other.shape == c.shape and shape[1] == 1:
        column, across = parts[0], product(graph, other, graph.flip(parts[1]))
        if shape[0] > 1:
            return graph.entrywise(column, across)
        return product(graph, graph.flip(column), across)
    found = graph.entrywise(c, other)
    if shape[0] == 1 < found.rows:
        found = graph.matmul(graph.const(Ones(1, found.rows)), found)
    if shape[1] == 1 < found.cols:
        found = graph.matmul(found, graph.const(Ones(found.cols, 1)))
    return found
