"""Only what is read is computed: of a value of the straight line, the box that anything needs.

A layer of a network writes whole blocks, of which later ones may read a part: forward elimination
clears columns that back substitution never looks at. What is needed is found backwards, from the
answers to the sources, for operations whose entries depend on single rows, columns or entries of
their operands. Functions are left whole: outside of a domain they refuse, read or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from inweave.run.lines.code import needs
from inweave.run.values.node import Node
from inweave.run.values.term import Box

PARTLY = ("sum", "mul", "scale", "matmul")


def needed(nodes: Sequence[Node], outputs: Sequence[Node], live: set[Node]) -> dict[Node, Box]:
    """The boxes of those nodes of which not all is needed."""
    found = {node: _whole(node) for node in outputs}
    for node in reversed(nodes):
        if node not in live:
            continue
        if node.symmetric:  # what is not read may stand for what is
            found[node] = _whole(node)
        reads: Iterable[tuple[Node, Box]] = ((x, _whole(x)) for x in needs(node, live))
        if node.op in (*PARTLY, "view"):
            reads = _read(node, found.get(node, _whole(node)))
        for x, box in reads:
            found[x] = found[x].join(box) if x in found else box
    return {
        node: found[node]
        for node in nodes
        if node in live and node.op in PARTLY
        if found.get(node, _whole(node)) != _whole(node)
    }


def _whole(node: Node) -> Box:
    return Box(0, 0, node.rows, node.cols)


def _read(node: Node, box: Box) -> Iterator[tuple[Node, Box]]:
    """What a node reads of others for what is needed of it."""
    if node.op == "view":
        top, left, _, _, flip = node.data
        if flip:
            box = Box(box.left, box.top, box.right, box.bottom)
        yield node.args[0], Box(box.top + top, box.left + left, box.bottom + top, box.right + left)
    elif node.op == "sum":
        for x, (_, row, col) in zip(node.args, node.data[2], strict=True):
            part = clipped(x, row, col, box)
            if part is not None:
                yield x, part
    elif node.op == "matmul":
        a, b = node.args
        yield a, Box(box.top, 0, box.bottom, a.cols)
        yield b, Box(0, box.left, b.rows, box.right)
    else:
        for x in node.args:
            yield x, operand(x, node, box)


def clipped(x: Node, row: int, col: int, box: Box) -> Box | None:
    """What a box meets of a part of a sum that stands at (row, col)."""
    top, left = max(0, box.top - row), max(0, box.left - col)
    bottom, right = min(x.rows, box.bottom - row), min(x.cols, box.right - col)
    return Box(top, left, bottom, right) if top < bottom and left < right else None


def operand(x: Node, node: Node, box: Box) -> Box:
    """What an entry by entry operation reads of an operand, which may be one row or column."""
    top, bottom = (box.top, box.bottom) if x.rows == node.rows else (0, 1)
    left, right = (box.left, box.right) if x.cols == node.cols else (0, 1)
    return Box(top, left, bottom, right)
