"""Trainable attention layers of exactly the shape that inweave compiles to.

The torch modules here mirror `inweave.network` one to one: `ExtendedLinearAttention` is an
attention layer, `PointwiseNetwork` a pointwise layer, `AttentionModule` a module (layers in
sequence inside one skip, tied by `repeat`), `AttentionNetwork` a network. So a construction can be
the starting point of training (`from_network`), and what was trained can be saved, explored and
compared like what was compiled (`to_network`). They are the layers of `inweave.stack`; what is
added here hands out public networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from inweave.errors import InputError, needs_extra
from inweave.model import network as data
from inweave.model.layout import Layout
from inweave.model.prompt import Fill, Input, Output
from inweave.network import Network, as_public

with needs_extra("inweave.nn", "torch"):
    import torch
    from torch import nn

    from inweave.stack import network as stack
    from inweave.stack import queries as tokens_that_ask
    from inweave.stack.attention import (
        ALL,
        INITS,
        Activation,
        ExtendedLinearAttention,
        Order,
        cheapest_order,
    )
    from inweave.stack.entry import KEY, QUERY, VALUE
    from inweave.stack.network import AttentionModule
    from inweave.stack.pointwise import PointwiseNetwork

__all__ = [
    "ALL",
    "INITS",
    "KEY",
    "QUERY",
    "VALUE",
    "Activation",
    "Architecture",
    "AttentionModule",
    "AttentionNetwork",
    "ExtendedLinearAttention",
    "Order",
    "PointwiseNetwork",
    "build",
    "cheapest_order",
    "from_network",
    "split_queries",
]


class AttentionNetwork(stack.AttentionNetwork):
    """Modules over a layout, with the inputs, fills and outputs of a `inweave.Network`.

    Calling it reads the (first) output from a prompt, computing in the last layer only what is
    read; `final(H)` gives the whole state, `hooked()` the same layers to look into.
    """

    def to_network(self) -> Network:
        """These weights as a network: to be saved, explored, traced and compared.

        Where the last tokens only ask (`queries`), they move into columns of their own.
        """
        return as_public(self.to_data())


from_network = AttentionNetwork.from_network


def split_queries(network: data.Network, queries: int) -> Network:
    """The network without masks that computes what `network` does if its last tokens only ask."""
    return as_public(tokens_that_ask.split_queries(network, queries))


@dataclass(frozen=True)
class Architecture:
    """What `build` makes: `depth` modules, each of `blocks` multi-head layers in one skip.

    `tied` shares one module over the whole depth; `readout` adds one more module with weights of
    its own, as the paper's networks have; `mlp_units` ends each module with a pointwise network;
    the last `queries` tokens are attended to by nobody. The other settings are those of
    `ExtendedLinearAttention`.
    """

    depth: int = 1
    blocks: int = 1
    heads: int = 1
    bias: bool = True
    activation: Activation | None = None
    merged: bool = False
    tied: bool = False
    mlp_units: int = 0
    readout: bool = False
    queries: int = 0
    init: str = "scaled"
    scale: float = 1.0


def build(
    layout: Layout,
    architecture: Architecture | None = None,
    *,
    inputs: Sequence[Input] = (),
    fills: Sequence[Fill] = (),
    outputs: Sequence[Output] = (),
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    **settings: Any,
) -> AttentionNetwork:
    """A network as in the paper, at random weights; `settings` are fields of the architecture."""
    a = replace(architecture or Architecture(), **settings)
    if a.depth < 1 or a.blocks < 1:
        raise InputError(f"depth and blocks must be positive, got {a.depth} and {a.blocks}")
    drawn: dict[str, Any] = {"generator": generator, "dtype": dtype, "device": device}

    def module(repeat: int) -> AttentionModule:
        body: list[nn.Module] = [
            ExtendedLinearAttention(
                layout.tokens, layout.width, a.heads, a.bias, a.activation, a.merged,
                queries=a.queries, init=a.init, scale=a.scale, **drawn,
            )
            for _ in range(a.blocks)
        ]  # fmt: skip
        if a.mlp_units:
            body.append(PointwiseNetwork(layout.tokens, layout.width, a.mlp_units, **drawn))
        return AttentionModule(body, repeat)

    modules = [module(a.depth)] if a.tied else [module(1) for _ in range(a.depth)]
    if a.readout:
        modules.append(module(1))
    return AttentionNetwork(modules, layout, inputs, fills, outputs)
