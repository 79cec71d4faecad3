"""A model in torch as methods need it: what each way into a node reads can be told apart.

Written out with full matrices, layer by layer, so that a contribution can be changed on one edge
alone and the rest of the network run again from there.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from inweave.circuit.unrolled import Executed, unrolled
from inweave.circuits.load import Model
from inweave.model.layers import AttentionLayer, BlockPointwiseLayer
from inweave.model.network import Network
from inweave.stack.pointwise import Functions


class Heads:
    """The nodes of an executed layer in torch: what each adds to a state."""

    def __init__(self, done: Executed, network: Network) -> None:
        self.names, self.adds, layer, layout = done.nodes, done.adds, done.layer, network.layout
        self.functions: Functions | None = None
        self.letters = "qkv"
        if isinstance(layer, BlockPointwiseLayer):
            self.functions, self.letters = Functions.from_layer(layer, layout), ""
            self.functions.requires_grad_(False)
            return
        assert isinstance(layer, AttentionLayer)
        many, tokens, width = len(layer.heads), layout.tokens, layout.width
        self.W = torch.zeros(many, 3, 1, width, width, dtype=torch.float64)
        self.B = torch.zeros(many, 3, 1, tokens, width, dtype=torch.float64)
        for k, head in enumerate(layer.heads):
            for i, part in enumerate(head.projections):
                self.W[k, i, 0] = torch.tensor(np.asarray(part.weight(layout), float))
                self.B[k, i, 0] = torch.tensor(np.asarray(part.bias(layout), float))

    def only(self, k: int) -> Heads:
        """One node alone."""
        one = copy(self)
        if self.functions is None:
            one.W, one.B = self.W[k : k + 1], self.B[k : k + 1]
        return one

    def __call__(self, read: Tensor) -> Tensor:
        """What each node writes, (nodes, batch, tokens, width), of what it reads.

        That is (nodes, ways in, batch, tokens, width), with ones where all read the same.
        """
        if self.functions is not None:
            change: Tensor = self.functions(read[:, 0]) - read[:, 0]
            return change
        q, k, v = (read @ self.W + self.B).unbind(1)
        return q @ (k.mT @ v)


@dataclass(frozen=True)
class Run:
    """One forward pass: what layers read, what nodes wrote, the last state, and every state."""

    reads: list[Tensor]
    wrote: dict[str, Tensor]
    final: Tensor
    states: list[Tensor]


class Torch:
    """A model as a function of a batch of prompts, (batch, tokens, width), edge by edge."""

    def __init__(self, model: Model) -> None:
        self.model, self.way = model, unrolled(model.network)
        known: dict[int, Heads] = {}
        for done in self.way.layers:
            if done.stored not in known:
                known[done.stored] = Heads(done, model.network)
        self.layers = [known[done.stored] for done in self.way.layers]

    def prompt(self, inputs: dict[str, Any], many: int | None = None) -> Tensor:
        """The prompts of some inputs, or of the first of them."""
        H = self.model.network.prompt(**{name: x[:many] for name, x in inputs.items()})
        return torch.tensor(np.asarray(H))

    def answers(self, H: Tensor) -> Tensor:
        """All answers that stand in states, side by side."""
        found: Tensor = self.model.answers(H)
        return found

    def run(self, H: Tensor, tapped: bool = False) -> Run:
        """A pass from the prompt; `tapped`, every way in reads a copy that has a gradient."""
        return self.onward(0, H, tapped=tapped)

    def onward(
        self, start: int, H: Tensor, opened: tuple[Tensor, ...] = (), tapped: bool = False
    ) -> Run:
        """A pass from a place in the order of layers and skips on."""
        stack = list(opened)
        done = Run([], {}, H, [])
        for step in self.way.order[start:]:
            if step == "open":
                stack.append(H)
            elif step == "close":
                H = H + stack.pop()
            else:
                at, layer = int(step), self.layers[int(step)]
                read = H[None, None]
                if tapped:
                    ways = max(1, len(layer.letters))
                    read = read.expand(len(layer.names), ways, *H.shape).clone()
                    read.retain_grad() if read.requires_grad else read.requires_grad_()
                outputs = layer(read)
                done.reads.append(read)
                done.wrote.update(zip(self.way.layers[at].nodes, outputs, strict=True))
                H = outputs.sum(0) + (H if layer.adds else 0)
                done.states.append(H)
        return Run(done.reads, done.wrote, H, done.states)
