"""What a network takes to run: the cost by which the compiler compares candidates.

It is counted on the plan, which is what runs: two networks that differ in depth, width and heads
may come to the same few products, and a head that looks expensive may be one row of a matrix. For
prompts of the sizes that the network has: for one alone, where calls count, and for each of a large
batch, which shares the calls and has its numbers further away. A plan may go about the two in
different ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from inweave.run.lines.code import live_nodes
from inweave.run.values.node import ALONE, BATCHED, Node, Price, Work, work

LOOP = 20  # calls that it takes to prepare a loop


class Cost(NamedTuple):
    """Estimated seconds of one prompt alone and of each in a large batch; the work of the one."""

    seconds: float
    batched: float
    calls: int
    entries: int
    multiplications: int


class Computed(Protocol):
    """What is counted: nodes in order, and those that are wanted."""

    @property
    def nodes(self) -> Sequence[Node]: ...

    @property
    def outputs(self) -> Sequence[Node]: ...


class Seen(Protocol):
    """A way to compute, and the same where values cannot be looked at on the way."""

    @property
    def unseen(self) -> Computed: ...


class Chosen(Protocol):
    """One way to compute for one prompt, one for many."""

    @property
    def alone(self) -> Seen: ...

    @property
    def batched(self) -> Seen: ...


class Planned(Protocol):
    """What is needed of a plan here."""

    @property
    def from_inputs(self) -> Chosen: ...


def cost(plan: Planned) -> Cost:
    """The cost of one call, where powers that would have to be looked at are not trusted."""
    alone, batched = plan.from_inputs.alone.unseen, plan.from_inputs.batched.unseen
    calls, entries, multiplications, constants = counted(alone)
    seconds = 1e-9 * price(alone, ALONE), 1e-9 * price(batched, BATCHED)
    return Cost(*seconds, calls, entries + constants, multiplications)


def price(made: Computed, each: Price) -> float:
    """Nanoseconds of a way to compute."""
    return each.of(counted(made))


def counted(made: Computed) -> Work:
    """The work of a way to compute, loops multiplied out."""
    return _total(made.nodes, live_nodes(made.outputs))


def _total(nodes: Sequence[Node], live: set[Node]) -> Work:
    total = Work(0, 0, 0)
    for node in nodes:
        if node not in live:
            continue
        times, found = 1, work(node)
        if node.op == "loop":
            times, found = node.data.repeat, _total(node.data.nodes, live)
            total = total._replace(calls=total.calls + LOOP)
        total = Work(*(a + times * b for a, b in zip(total, found, strict=True)))
    return total
