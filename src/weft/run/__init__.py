"""Executing networks: the dense executor is the definition, the plan is the fast path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.constants import Array
from weft.network import Network
from weft.prompt import fill_prompt, lift
from weft.run import dense


def forward(network: Network, H: Array) -> Array:
    """The state after the last module, from a full prompt."""
    return dense.forward(network, H)


def call(network: Network, inputs: Mapping[str, Any]) -> Any:
    """Named inputs in, named answers out."""
    lifted, arithmetic = lift(network.inputs, inputs)
    H = fill_prompt(network.layout, network.fills, lifted, arithmetic)
    return network.readout(forward(network, H))
