"""What a network asks of those who follow it layer by layer, or write its weights out in full.

A few kilobytes can say `repeat` two thousand million times, or a prompt of a thousand million
numbers. Running such a network may take as long as it takes; whoever keeps every state, or full
matrices, asks here first, before any work.
"""

from __future__ import annotations

from inweave.errors import InputError
from inweave.model.layers import AttentionLayer, BlockPointwiseLayer, Layer
from inweave.model.modules import Module, Part
from inweave.model.network import Network

LONGEST = 100_000  # layers that are followed one by one
LARGEST = 2**29  # numbers that are kept or written out: 4 GiB of them
ADVICE = "take fewer steps or smaller sizes"


def executed(network: Network) -> int:
    """How many layers of any kind run."""
    return sum(module.executed(Layer) for module in network.modules)


def written(network: Network) -> int:
    """How many numbers the weights have in full: `W` and `B` of every projection, and functions."""
    area, square = network.tokens * network.width, network.width**2
    units = sum(x.units for x in network.layers if isinstance(x, BlockPointwiseLayer))
    return 3 * network.heads * (square + area) + 4 * units * area


def traced(part: Part) -> int:
    """How many states and projections are kept where everything is."""
    if isinstance(part, Module):
        return part.repeat * sum(map(traced, part.body))
    return 2 + 4 * len(part.heads) if isinstance(part, AttentionLayer) else 2


def check_layers(network: Network, door: str) -> None:
    """Refuse a network that runs too long to be followed layer by layer."""
    found = executed(network)
    if found > LONGEST:
        raise InputError(
            f"{door} follows a network layer by layer, at most {LONGEST:,}; this one executes "
            f"{found:,}, too many: {ADVICE}"
        )


def check_numbers(door: str, found: int) -> None:
    """Refuse what would not fit into the memory of a usual machine."""
    if found > LARGEST:
        raise InputError(
            f"{door} would write out {found:,} numbers, at most {LARGEST:,} are allowed: {ADVICE}"
        )
