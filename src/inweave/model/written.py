"""Layers and fills written out as float64 arrays, under one set of names for everyone outside."""

from __future__ import annotations

from typing import Any

import numpy as np

from inweave.model.layers import PARTS, AttentionLayer, PointwiseLayer
from inweave.model.layout import Layout
from inweave.model.network import Network
from inweave.model.prompt import Fill
from inweave.model.relunet import Function

Arrays = dict[str, np.ndarray[Any, Any]]


def attention_weights(layer: AttentionLayer, layout: Layout) -> Arrays:
    """`W_Q`, `W_K`, `W_V` as (heads, width, width); `B_Q`, ... as (heads, tokens, width).

    A bias is there only if some head has it, so that a network without biases stays one.
    """
    found: Arrays = {}
    for letter, part in zip("QKV", PARTS, strict=True):
        projections = [getattr(head, part) for head in layer.heads]
        W = [p.weight(layout) for p in projections]
        found[f"W_{letter}"] = np.stack(W) if W else np.zeros((0, layout.width, layout.width))
        if any(p.has_bias for p in projections):
            found[f"B_{letter}"] = np.stack([p.bias(layout) for p in projections])
    return found


def pointwise_weights(layer: PointwiseLayer) -> Arrays:
    """`V`, `W`, `B`, `C` as (units, tokens, width)."""
    return {name: getattr(layer, name).astype(np.float64) for name in "VWBC"}


def function_weights(function: Function) -> Arrays:
    """The hidden units of a function: `V @ relu(W x + B) + C`, with W, B, V as (units,)."""
    net = function.net
    parts = {"V": net.outputs, "W": net.weights, "B": net.biases, "C": net.constant}
    return {name: np.array(part, dtype=np.float64) for name, part in parts.items()}


def fixed_prompt(network: Network) -> np.ndarray[Any, Any]:
    """What the prompt holds whatever the inputs are."""
    H = np.zeros((network.tokens, network.width))
    for fill in network.fills:
        if is_fixed(fill):
            H[fill.place.region(network.layout)] += standing(fill)
    return H


def is_fixed(fill: Fill) -> bool:
    """Whether no input changes what a fill puts into the prompt."""
    return fill.constant is not None and not fill.scale


def standing(fill: Fill) -> np.ndarray[Any, Any]:
    """A constant fill as it stands in the prompt, without the inputs that scale it."""
    assert fill.constant is not None
    entries = fill.constant.entries().astype(np.float64) * float(fill.coefficient)
    if fill.place.diagonal:
        return entries * np.eye(fill.place.diagonal)
    return entries.T if fill.place.transpose else entries
