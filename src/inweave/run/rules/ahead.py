"""What a loop makes of its rows alone, made of all of them before it.

A step that reads row i of X and divides by 0.1 + |xᵢ|² waits for no other step to do so. For all
rows together that is one operation on a matrix, of whose result a step reads a row. So a multiple,
a function, a sum or a product of rows, and of what the loop does not change, is a row of that of
their matrices; and a product of rows and another number is taken rows first.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from inweave.exact.constants import Ones
from inweave.run.values.graph import Graph
from inweave.run.values.kinds import ONE
from inweave.run.values.node import LoopBody, Node, Part


class Row(NamedTuple):
    """A value that is a row of a matrix where a loop is; or that row as a column."""

    matrix: Node
    at: Node
    upright: bool = False

    @classmethod
    def of(cls, graph: Graph, x: Node) -> Row | None:
        base = x.args[0] if x.op == "view" else x
        if base.op != "pick":
            return None
        matrix, at = base.args
        body, _, height = at.data
        if height > 1 or matrix.level >= at.level or matrix.rows != body.repeat:
            return None
        if x.op == "view":
            _, left, _, cols, _ = x.data
            matrix = graph.view(matrix, 0, left, matrix.rows, cols)
        return cls(matrix, at, x.flipped)

    def made(self, graph: Graph, matrix: Node, upright: bool = False) -> Node:
        """The same row of another matrix."""
        row = graph.pick(matrix, self.at)
        return graph.flip(row) if upright else row


def has_rows(body: LoopBody) -> bool:
    """Whether a loop makes something of rows of what it does not change."""
    return any(has_rows(x.data) if x.op == "loop" else _may_be(x) for x in body.nodes)


def _may_be(node: Node) -> bool:
    picked = [x.args[0] if x.op == "view" else x for x in node.args]
    rows = [x.op == "pick" and x.args[0].level < node.level for x in picked]
    ready = sum(row or x.level < node.level for row, x in zip(rows, node.args, strict=True))
    if node.op not in ("scale", "apply", "mul", "matmul", "sum") or not any(rows):
        return False
    number = node.args[0]
    rows_first = node.op == "mul" and rows[1] and number.is_scalar and number.op in ("mul", "scale")
    return rows_first or ready >= min(2, len(rows))


def of_rows(graph: Graph, node: Node, args: Sequence[Node]) -> Node | None:
    """A multiple, function or product of rows as a row of that of their matrices; None if none."""
    rows = [Row.of(graph, x) for x in args]
    if node.op in ("scale", "apply"):
        return _alone(graph, node, rows[0])
    if node.op not in ("mul", "matmul") or not any(rows):
        return None
    first, second = rows
    if first is not None and second is not None and first.at is not second.at:
        return None
    if node.op == "matmul":
        return _product(graph, args, rows)
    found = _entrywise(graph, args, rows)
    if found is None and second is not None and args[0].is_scalar:
        return _rows_first(graph, args[0], second)
    return found


def _alone(graph: Graph, node: Node, row: Row | None) -> Node | None:
    if row is None:
        return None
    x = row.matrix
    whole = graph.scale(node.data, x) if node.op == "scale" else graph.apply(node.data, x)
    return row.made(graph, whole, row.upright)


def _product(graph: Graph, args: Sequence[Node], rows: Sequence[Row | None]) -> Node | None:
    (a, b), (left, right) = args, rows
    if left is not None and right is not None:
        if left.upright or not right.upright:
            return None
        products = graph.entrywise(left.matrix, right.matrix)
        return left.made(graph, graph.matmul(products, graph.const(Ones(products.cols, 1))))
    if left is not None and not left.upright and b.level < left.at.level:
        return left.made(graph, graph.matmul(left.matrix, b))
    if right is not None and right.upright and a.level < right.at.level:
        return right.made(graph, graph.matmul(right.matrix, graph.flip(a)), upright=True)
    return None


def _entrywise(graph: Graph, args: Sequence[Node], rows: Sequence[Row | None]) -> Node | None:
    """A product of rows, of one of them and a number, or of one and what is fixed."""
    row = rows[0] or rows[1]
    assert row is not None
    shapes = {x.shape for x in args if not x.is_scalar}
    if len(shapes) > 1 or any(min(shape) > 1 for shape in shapes):
        return None
    upright = any(shape[1] == 1 for shape in shapes)
    found = list[Node]()
    for x, own in zip(args, rows, strict=True):
        if own is None and x.level >= row.at.level:
            return None
        found.append(own.matrix if own is not None else graph.flip(x) if upright else x)
    return row.made(graph, graph.entrywise(*found), upright)


def rows_together(graph: Graph, rows: int, cols: int, parts: list[Part]) -> list[Part]:
    """The same parts of a sum, with its rows, and what is fixed beside them, as one."""
    of = [Row.of(graph, x) for _, x, _, _ in parts]
    row = next((own for own in of if own is not None), None)
    if row is None or any(x.shape != (rows, cols) for _, x, _, _ in parts):
        return parts
    upright, rest, whole = rows > 1, list[Part](), list[Part]()
    ones = graph.const(Ones(row.matrix.rows, 1))
    for part, own in zip(parts, of, strict=True):
        sign, x, _, _ = part
        if own is not None and own.at is row.at:
            whole.append((sign, own.matrix, 0, 0))
        elif x.level < row.at.level:
            whole.append((sign, graph.matmul(ones, graph.flip(x) if upright else x), 0, 0))
        else:
            rest.append(part)
    if len(whole) < 2:
        return parts
    together = row.made(graph, graph.total(*row.matrix.shape, whole), upright)
    return [*rest, (1, together, 0, 0)]


def _rows_first(graph: Graph, number: Node, row: Row) -> Node | None:
    """`(s t) x` as `s (t x)`, where t and x are of rows, or t is fixed, and s is neither."""
    others, matrix, waiting = list[Node](), row.matrix, [number]
    coefficient: Fraction = ONE
    while waiting:
        x = waiting.pop()
        own = Row.of(graph, x)
        if own is not None and own.at is row.at:
            matrix = graph.entrywise(own.matrix, matrix)
        elif x.level < row.at.level:
            matrix = graph.mul(x, matrix)
        elif x.op == "scale":
            coefficient *= x.data
            waiting.append(x.args[0])
        elif x.op == "mul":
            waiting += x.args
        else:
            others.append(x)
    if len(others) != 1 or others[0] is number:
        return None
    return graph.mul(others[0], row.made(graph, graph.scale(coefficient, matrix), row.upright))
