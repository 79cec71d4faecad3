"""Executing networks: the dense executor is the definition, the plan is the fast path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inweave.constants import Array
from inweave.network import Network
from inweave.run.plan import Plan, plan

__all__ = ["Plan", "call", "forward", "plan"]


def forward(network: Network, H: Array) -> Array:
    """The state after the last module, from a full prompt."""
    return plan(network).forward(H)


def call(network: Network, inputs: Mapping[str, Any], check: bool = True) -> Any:
    """Named inputs in, named answers out."""
    return plan(network).call(inputs, check)
