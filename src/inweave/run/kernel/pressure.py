"""What a kernel takes: registers at its widest point, roughly, and arithmetic in all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from inweave.run.kernel.values import ENTRYWISE, Values
from inweave.run.lines.code import needs
from inweave.run.values.node import Node, flops

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

EXTRA = 12  # addresses, counters and what is under way


class _Written(Protocol):
    values: Values
    sources: list[Node]

    def is_held(self, source: Node) -> bool: ...
    def is_written(self, node: Node) -> bool: ...
    def size(self, node: Node) -> int: ...


LOOKED_UP = 10  # operations of a function of one number, which is looked up or divided


def work(values: Values, nodes: Sequence[Node]) -> int:
    """Additions and multiplications for one prompt; of what is symmetric, half."""
    found = 0
    for node in nodes:
        if node not in values.live:
            continue
        if node.op == "loop":
            found += node.data.repeat * work(values, node.data.nodes)
        elif node.op == "apply":
            found += LOOKED_UP * node.size
        elif node in values.symmetric:
            found += flops(node) * (node.rows + 1) // (2 * node.rows)
        else:
            found += flops(node)
    return found


def registers(writer: _Written) -> int:
    """The registers of a thread."""
    return EXTRA + _peak(writer, writer.values.nodes, set(), set(writer.values.outputs))


def _peak(
    writer: _Written, nodes: Sequence[Node], before: AbstractSet[Node], after: AbstractSet[Node]
) -> int:
    """The most that is in use at once, given what is before and what is read after."""
    nodes = [node for node in nodes if node in writer.values.live]
    last: dict[Node, int] = {}
    for i, node in enumerate(nodes):
        for read in _read(writer, node):
            last[read] = i
    kept = {base for node in after for base in _bases(writer, node)}
    used, most = {node for node in before if node in last or node in kept}, 0
    for i, node in enumerate(nodes):
        lasting = {x for x in used if last.get(x, -1) > i or x in kept}
        used |= {x for x in _read(writer, node) if x.op == "source" and writer.is_held(x)}
        if node.op == "loop":
            carried = writer.values.carried[node]
            phis, nexts = ({ends[k] for k in carried} for ends in (node.data.phis, node.data.nexts))
            inside = _peak(writer, node.data.nodes, phis, nexts)
            around = lasting | (used & _inner(writer, node))
            most = max(most, sum(map(writer.size, around)) + inside)
            used |= {phi for phi in phis if last.get(phi, -1) > i or phi in kept}
        elif writer.is_written(node):
            if node.op in ENTRYWISE:  # which may take the place of what it is made of
                used &= lasting
            used.add(node)
            most = max(most, sum(map(writer.size, used)))
        used = {x for x in used if last.get(x, -1) > i or x in kept}
    return most


def _read(writer: _Written, node: Node) -> set[Node]:
    read = needs(node, writer.values.live) if node.op == "loop" else node.args
    return {base for arg in read for base in _bases(writer, arg)}


def _inner(writer: _Written, loop: Node) -> set[Node]:
    """What the steps of a loop read, apart from what it begins with."""
    nodes = [node for node in loop.data.nodes if node in writer.values.live]
    nexts = [loop.data.nexts[k] for k in writer.values.carried[loop]]
    found = {base for node in nexts for base in _bases(writer, node)}
    for node in nodes:
        found |= _inner(writer, node) if node.op == "loop" else _read(writer, node)
    return found


def _bases(writer: _Written, node: Node) -> set[Node]:
    """The held values that a value is read from."""
    if node.op == "result":
        body = node.args[0].data
        return set() if writer.values.stack_of(node) else {body.phis[node.data]}
    if node.op in ("phi", "source") or writer.is_written(node):
        return {node}
    return {base for arg in node.args for base in _bases(writer, arg)}
