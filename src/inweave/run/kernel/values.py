"""What is known of a plan's values before they are written down.

Who reads a value, whether it is symmetric, and whether it has to be kept at all. A value that is as
long as the data (`X w`, `sigmoid(X w) - y`) and is only ever summed over that length need not be:
its rows are made one by one where they are summed. Such a value is a *stream*, along its rows
(axis 0) or its columns (axis 1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from inweave.exact.constants import Dense
from inweave.run.lines.code import live_nodes, stacked
from inweave.run.values.node import PRODUCTS, LoopBody, Node

ENTRYWISE = ("scale", "mul", "sum", "apply")


class Values:
    """The live values of a plan. `long` is the least length of a stream."""

    def __init__(self, nodes: Sequence[Node], outputs: Sequence[Node], long: int) -> None:
        self.nodes, self.outputs, self.long = nodes, outputs, long
        self.live = live_nodes(outputs)
        self.stacks = {
            node.data: found
            for node in self.live
            if node.op == "loop" and (found := stacked(node.data, self.live))
        }
        for body, stacks in self.stacks.items():
            for i in stacks:
                self.live -= {body.phis[i], body.nexts[i], *body.nexts[i].args}
        self.stacked = {place for found in self.stacks.values() for place, _ in found.values()}
        self.live |= self.stacked
        self.carried = {
            node: [i for i, phi in enumerate(node.data.phis) if phi in self.live]
            for node in self.live
            if node.op == "loop"
        }

    def every(self, nodes: Iterable[Node] | None = None) -> Iterator[Node]:
        """The live nodes, parts first, those of loops before the loop."""
        for node in self.nodes if nodes is None else nodes:
            if node in self.live:
                if node.op == "loop":
                    yield from self.every(node.data.nodes)
                yield node

    @cached_property
    def readers(self) -> dict[Node, list[tuple[str, Any]]]:
        """How values are read: by a node, as an output, or carried by a loop."""
        found: dict[Node, list[tuple[str, Any]]] = {node: [] for node in self.live}
        for node in self.every():
            if node.op == "loop":
                body: LoopBody = node.data
                for i in self.carried[node]:
                    found[body.inits[i]].append(("carried", body.phis[i]))
                    found[body.nexts[i]].append(("carried", body.phis[i]))
            elif node.op != "result":
                for arg in node.args:
                    found[arg].append(("node", node))
        for node in self.outputs:
            found[node].append(("output", None))
        return found

    def stack_of(self, node: Node) -> tuple[Node, bool] | None:
        """Of a loop's result that only collects rows: the row's place, and whether transposed."""
        if node.op != "result":
            return None
        return self.stacks.get(node.args[0].data, {}).get(node.data)

    @cached_property
    def moves(self) -> dict[Node, Moved]:
        """The values that are others with their rows and columns moved."""
        pairs = ((node, moved(node)) for node in self.live if node.op in ("sum", "matmul"))
        return {node: found for node, found in pairs if found is not None}

    # -- symmetry ---------------------------------------------------------------------------------
    @cached_property
    def symmetric(self) -> set[Node]:
        """The values that equal their transpose: carried ones are, unless a step says otherwise."""
        square = {n for n in self.live if n.op == "phi" and n.rows == n.cols > 1}
        while True:
            found = set(square)
            for node in self.every():
                if node.rows == node.cols > 1 and self._is_symmetric(node, found):
                    found.add(node)
            kept = {
                phi
                for node, carried in self.carried.items()
                for i in carried
                if (phi := node.data.phis[i]) in square
                and {node.data.inits[i], node.data.nexts[i]} <= found
            }
            if kept == square:
                return found
            square = kept

    def _is_symmetric(self, node: Node, found: set[Node]) -> bool:
        if node.symmetric:
            return True
        if node.op == "const":
            entries = node.data.entries()
            return bool((entries == entries.T).all())
        if node.op == "sum":
            where = node.data[2]
            pairs = zip(node.args, where, strict=True)
            return all(row == col and _square(arg, found) for arg, (_, row, col) in pairs)
        if node.op in ("scale", "apply"):
            return node.args[0] in found
        if node.op == "mul":
            return all(arg.is_scalar or arg in found for arg in node.args)
        if node.op == "view":
            return node.data[0] == node.data[1] and node.args[0] in found
        if node.op == "result" and self.stack_of(node) is None:
            return node.args[0].data.phis[node.data] in found
        return False

    # -- streams ----------------------------------------------------------------------------------
    @cached_property
    def streams(self) -> dict[Node, int]:
        """The values that are never kept, by the axis along which their rows are made."""
        found = {
            node: axis
            for node in self.every()
            for axis in (1, 0)
            if node.op in (*ENTRYWISE, "matmul")
            and node.shape[axis] >= self.long
            and self.along(node, axis, None)
        }
        while True:
            kept = {
                node: axis
                for node, axis in found.items()
                if self.along(node, axis, found) and self._only_summed(node, axis, found)
            }
            if kept == found:
                return found
            found = kept

    @cached_property
    def contractions(self) -> set[Node]:
        """The products that are sums over streams."""
        return {n for n in self.live if n.op in PRODUCTS and self.contracts(n, self.streams)}

    def contracts(self, node: Node, streams: dict[Node, int] | None) -> bool:
        """Whether a product is a sum over rows that are made one by one."""
        a, b = node.args
        if a.cols < self.long or not (a.op != "const" or b.op != "const"):
            return False
        return self.operand(a, 1, streams) and self.operand(b, 0, streams)

    def operand(self, node: Node, axis: int, streams: dict[Node, int] | None) -> bool:
        """Whether the rows (or columns) of a value can be had at any index; None: as far as known.

        Those of an input, of a constant and of collected rows stand in memory.
        """
        if node.op == "view":
            return self.operand(node.args[0], axis ^ node.data[4], streams)
        if node.op in ("source", "const") or self.stack_of(node) is not None:
            return True
        return self.along(node, axis, None) if streams is None else streams.get(node) == axis

    def along(self, node: Node, axis: int, streams: dict[Node, int] | None) -> bool:
        """Whether the rows (or columns) of a computed value can be made one by one."""
        size = node.shape[axis]
        if node.op == "matmul":
            part = node.args[axis]
            if self.contracts(node, streams) or node.args[1 - axis].op == "const":
                return False
            return part.shape[axis] == size and self.operand(part, axis, streams)
        if node.op not in ENTRYWISE or size < 2:
            return False
        if node.op == "sum" and any(where[1 + axis] for where in node.data[2]):
            return False
        spans = [arg for arg in node.args if arg.shape[axis] == size]
        alone = [arg for arg in node.args if arg.shape[axis] != size]
        if not spans or (alone and (node.op != "mul" or any(a.shape[axis] > 1 for a in alone))):
            return False
        if all(arg.op == "const" for arg in spans):
            return False
        return all(self.operand(arg, axis, streams) for arg in spans)

    def _only_summed(self, node: Node, axis: int, streams: dict[Node, int]) -> bool:
        """Whether all that reads a stream does so row by row, and not again in every step."""
        works = self._works(node)
        return all(
            self._reads_rows(read, streams) and not (works and read.level > node.level)
            for read in self._reads(node, axis)
        )

    def _works(self, node: Node) -> bool:
        """Whether a row takes more than a few operations to make again."""
        if node.op in ("matmul", "apply"):
            return True
        return node.op in ENTRYWISE and any(self._works(arg) for arg in node.args)

    def _reads(self, node: Node, axis: int) -> Iterator[_Read]:
        """How a value is read, also through views of all its rows."""
        for how, reader in self.readers[node]:
            if how == "node" and reader.op == "view":
                start, size, flip = reader.data[axis], reader.data[2 + axis], reader.data[4]
                if start or size != node.shape[axis]:
                    yield _Read("partly", node, axis, reader)
                else:
                    yield from self._reads(reader, axis ^ flip)
            else:
                yield _Read(how, node, axis, reader)

    def _reads_rows(self, read: _Read, streams: dict[Node, int]) -> bool:
        how, seen, axis, reader = read
        if how != "node":
            return how == "output"
        if reader.op in PRODUCTS:
            if self.contracts(reader, streams):
                return reader.args[1 - axis] is seen
            return streams.get(reader) == axis and reader.args[axis] is seen
        return streams.get(reader) == axis


class _Read(NamedTuple):
    """A value as it is read, along an axis: by a node, carried, as an output, or only in part."""

    how: str
    seen: Node
    axis: int
    reader: Any

    @property
    def level(self) -> int:
        return self.reader.level if self.how == "node" else 0


def _square(node: Node, found: set[Node]) -> bool:
    return node in found or node.is_scalar


class Moved(NamedTuple):
    """A value whose rows and columns are those of another one, in another order."""

    base: Node
    rows: tuple[int, ...]
    cols: tuple[int, ...]

    @property
    def step(self) -> int | None:
        """By how much rows go round; None if they are moved in another way."""
        size, step = len(self.rows), self.rows[0]
        return step if self.rows == tuple((i + step) % size for i in range(size)) else None


def moved(node: Node) -> Moved | None:
    """How a value is another one with its rows and columns moved; None if it is computed."""
    found = _times_order(node) if node.op == "matmul" else _views_of_one(node)
    if found is None:
        return None
    before = moved(found.base)
    if before is None:
        return found
    rows = tuple(before.rows[i] for i in found.rows)
    return Moved(before.base, rows, tuple(before.cols[j] for j in found.cols))


def _times_order(node: Node) -> Moved | None:
    """A product with a matrix that has one 1 in every row and column."""
    a, b = node.args
    left = _order(a)
    if left is not None:
        return Moved(b, left, tuple(range(node.cols)))
    right = _order(b)
    if right is None:
        return None
    return Moved(a, tuple(range(node.rows)), tuple(int(i) for i in np.argsort(right)))


def _order(node: Node) -> tuple[int, ...] | None:
    if node.op != "const" or node.rows != node.cols or not isinstance(node.data, Dense):
        return None
    entries = node.data.entries()
    ones = (entries == 1).astype(int)
    if (entries != ones).any() or (ones.sum(0) != 1).any() or (ones.sum(1) != 1).any():
        return None
    return tuple(int(i) for i in np.argmax(ones, axis=1))


def _views_of_one(node: Node) -> Moved | None:
    """A sum of parts of one matrix that stand in other places, side by side."""
    if node.op != "sum" or len({arg.args for arg in node.args}) != 1:
        return None
    base = node.args[0].args[0] if node.args[0].op == "view" else node
    if base.shape != node.shape or any(arg.op != "view" or arg.flipped for arg in node.args):
        return None
    at = np.full(node.shape, -1)
    for arg, (sign, row, col) in zip(node.args, node.data[2], strict=True):
        top, left, rows, cols, _ = arg.data
        there = at[row : row + rows, col : col + cols]
        if sign < 0 or (there >= 0).any():
            return None
        places = np.arange(base.size).reshape(base.shape)
        there[...] = places[top : top + rows, left : left + cols]
    rows, cols = at[:, 0] // node.cols, at[0] % node.cols
    if (at < 0).any() or (at != rows[:, None] * node.cols + cols).any():
        return None
    if len(set(rows)) < node.rows or len(set(cols)) < node.cols:
        return None
    return Moved(base, tuple(map(int, rows)), tuple(map(int, cols)))
