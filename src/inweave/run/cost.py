"""What a network takes to run: the cost by which the compiler compares candidates.

It is counted on the plan, which is what runs: two networks that differ in depth, width and heads
may come to the same few products, and a head that looks expensive may be one row of a matrix. For
one prompt of the sizes that the network has; a batch makes calls cheaper and leaves the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from inweave.run.code import live_nodes
from inweave.run.node import CALL, ENTRY, MULTIPLY, Node, work
from inweave.run.plan import Plan

LOOP = 20  # calls that it takes to prepare a loop


class Cost(NamedTuple):
    """Estimated seconds, and the work behind them; costs are compared by seconds."""

    seconds: float
    calls: int
    entries: int
    multiplications: int


def cost(plan: Plan) -> Cost:
    """The cost of one call."""
    variant = plan.from_inputs
    total = _total(variant.nodes, live_nodes(variant.outputs))
    calls, entries, multiplications = total
    return Cost(1e-9 * (CALL * calls + ENTRY * entries + MULTIPLY * multiplications), *total)


def _total(nodes: Sequence[Node], live: set[Node]) -> tuple[int, int, int]:
    calls = entries = multiplications = 0
    for node in nodes:
        if node not in live:
            continue
        times, found = 1, work(node)
        if node.op == "loop":
            times, found = node.data.repeat, _total(node.data.nodes, live)
            calls += LOOP
        calls += times * found[0]
        entries += times * found[1]
        multiplications += times * found[2]
    return calls, entries, multiplications
