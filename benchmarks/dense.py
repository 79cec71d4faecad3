"""The dense executor beside the plan: what it would cost to multiply all the zeros.

The dense executor is the definition of a network: every projection a full matrix. At (4000, 200)
those matrices alone would fill many gigabytes, so that row compares operations, not seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import measure, problem
from benchmarks.row import Row
from inweave import Network
from inweave.exact.arithmetic import Floats
from inweave.model.dense import DenseExecutor
from inweave.model.layers import AttentionLayer
from inweave.model.modules import Module

TIMED = ((40, 10), (400, 50))
COUNTED = ((4000, 200),)


def rows(
    threads: int,
    seconds: float = 1.0,
    timed: tuple[tuple[int, int], ...] = TIMED,
    counted: tuple[tuple[int, int], ...] = COUNTED,
) -> Iterator[Row]:
    """Seconds where the dense executor fits into memory, operations where it does not."""
    for n, d in timed:
        net, given = problem.network(n, d), problem.data(n, d)
        timing = measure.interleaved(calls(net, given), seconds, threads=threads)
        ratio = timing.ratio("dense", "plan")
        yield Row.of("dense executor", f"n={n} d={d}, time", ratio, against="plan",
                     threads=threads, seconds=timing.seconds())  # fmt: skip
    for n, d in counted:
        net = problem.network(n, d)
        ratio = flops(net) / net.plan.flops
        yield Row.of("dense executor", f"n={n} d={d}, operations", ratio, against="plan",
                     threads=threads,
                     note=f"dense weights: {weights(net) * 8 / 1e9:.0f} GB")  # fmt: skip


def calls(net: Network, given: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """The dense executor, with its matrices written out beforehand, and the plan."""
    executor = DenseExecutor(net.layout, Floats.like(net.prompt(**given)))

    def dense() -> Any:
        return net.readout(executor.run(net.modules, net.prompt(**given)))

    return {"dense": dense, "plan": lambda: net(**given)}


def weights(net: Network) -> int:
    """Numbers in the dense matrices of all stored heads: W and B of three projections each."""
    return net.heads * 3 * (net.width**2 + net.tokens * net.width)


def flops(net: Network) -> int:
    """Additions and multiplications of one dense forward pass."""
    t, w = net.tokens, net.width
    head = 3 * (2 * t * w * w + t * w) + 4 * t * t * w

    def of(part: Any) -> int:
        if isinstance(part, Module):
            return part.repeat * sum(map(of, part.body))
        return len(part.heads) * (head + t * w) if isinstance(part, AttentionLayer) else 0

    return sum(map(of, net.modules))
