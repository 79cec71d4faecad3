"""What values of a plan are called: after the block that they stand in, for people alone.

A block that holds several values in turn has their names in its own (`A›A³›A⁹`), and each layer
that leaves something there leaves the next of them. If there are not as many such layers as names,
nobody can tell which is which, and all are called after the block. A value that stands there times
a number or a scalar is not what the block is called after: its label says so.
"""

from __future__ import annotations

from typing import Any

from inweave.exact.names import FACTOR, in_turn
from inweave.model.layout import Block
from inweave.run.values.node import Node


class Labels:
    """Labels the values of one network, layer by layer."""

    def __init__(self) -> None:
        self.layer: Any = None  # that is followed
        self._turns: dict[Block, dict[int, int]] = {}  # the layers that left a value in a block
        self._told: dict[Block, list[tuple[Node, str, str]]] = {}

    def give(self, node: Node, block: Block, part: str, factor: bool) -> None:
        """Label a value that stands in a part of a block, or is a factor of what does."""
        mark, name = FACTOR * factor, block.name
        if names := in_turn(name):
            turns = self._turns.setdefault(block, {})
            turn = turns.get(id(self.layer), len(turns))
            self._told.setdefault(block, []).append((node, mark, part))
            name = names[turn] if turn < len(names) else name
        node.label = mark + name + part

    def left(self, block: Block) -> None:
        """The layer left a value in a block."""
        turns = self._turns.setdefault(block, {})
        turns.setdefault(id(self.layer), len(turns))

    def settle(self) -> None:
        """After the last layer: call those after the block that cannot be told apart."""
        for block, told in self._told.items():
            if len(self._turns[block]) != len(in_turn(block.name)):
                for node, mark, part in told:
                    node.label = mark + block.name + part
