"""What a network takes to run: the cost by which the compiler compares candidates.

It is counted on the plan, which is what runs: two networks that differ in depth, width and heads
may come to the same few products, and a head that looks expensive may be one row of a matrix. For
prompts of the sizes that the network has: for one alone, where calls count, and for each of a large
batch, which shares the calls and has its numbers further away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from inweave.run.code import live_nodes
from inweave.run.node import CALL, ENTRY, MULTIPLY, Node, work
from inweave.run.plan import Plan

LOOP = 20  # calls that it takes to prepare a loop

# Nanoseconds for each prompt of a batch of a thousand, measured as those of one prompt in `node`.
SHARED = 10.0  # of a call: 35 of a product of small matrices, 1 of anything else
FARTHER = 0.3  # to read or write an entry
MULTIPLY_SMALL = 0.06  # to multiply and add inside a product, one of many


class Cost(NamedTuple):
    """Estimated seconds of one prompt alone, and the work behind them."""

    seconds: float
    calls: int
    entries: int
    multiplications: int

    @property
    def batched(self) -> float:
        """Estimated seconds of each prompt in a large batch."""
        work = self.entries * FARTHER + self.multiplications * MULTIPLY_SMALL
        return 1e-9 * (SHARED * self.calls + work)


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
