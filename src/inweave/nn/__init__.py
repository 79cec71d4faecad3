"""Trainable attention layers of exactly the shape that inweave compiles to.

The torch modules here mirror `inweave.network` one to one: `ExtendedLinearAttention` is an
attention layer, `PointwiseNetwork` a pointwise layer, `AttentionModule` a module (layers in
sequence inside one skip, tied by `repeat`), `AttentionNetwork` a network. So a construction can be
the starting point of training (`from_network`), and what was trained can be saved, explored and
compared like what was compiled (`to_network`).
"""

from inweave.nn.attention import (
    ALL,
    INITS,
    KEY,
    QUERY,
    VALUE,
    Activation,
    ExtendedLinearAttention,
    Order,
    cheapest_order,
)
from inweave.nn.network import AttentionModule, AttentionNetwork, build, from_network
from inweave.nn.pointwise import PointwiseNetwork
from inweave.nn.queries import split_queries

__all__ = [
    "ALL",
    "INITS",
    "KEY",
    "QUERY",
    "VALUE",
    "Activation",
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
