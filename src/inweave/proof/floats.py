"""How far rounding takes a network from its program, on one random input: a remark, no proof.

`net(...)` computes what a network stands for. Run as a network, layer by layer, it adds to a stream
of floats, and a block that held a large value keeps the rounding error of it when a small one
follows; so exports are compared with `net(...)` as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from inweave.exact.arithmetic import Floats
from inweave.exact.constants import Array
from inweave.language.program import Traced
from inweave.model.cost import executed, written
from inweave.model.dense import forward
from inweave.model.network import Network
from inweave.model.prompt import by_name
from inweave.proof.cost import program_work
from inweave.run.domains import OutOfDomain, guard
from inweave.run.plan import Plan

# more than this, a few tens of milliseconds, is not run in floating point unasked
MOST_LAYERS, MOST_FLOPS = 5000, 2e8  # of the network
MOST_OPERATIONS, MOST_PRODUCTS = 50_000, 1e7  # of the program
MOST_NUMBERS = 1e7  # that a network which runs as one multiplies each token by
DIGITS = {"float64": 53, "float32": 24, "bfloat16": 8, "float16": 11}  # in base two

Run = Callable[[Mapping[str, Array]], Any]  # inputs as a user gives them -> the answer or answers


def float_difference(traced: Traced, plan: Plan) -> float | None:
    """The largest difference in float64 on one random input, relative to the largest answer.

    None if it overflows, if it takes a function out of its domain, or if running every step would
    cost far more than the exact check of one: a proof takes no longer for large matrices.
    """
    operations, products = program_work(traced)
    if operations > MOST_OPERATIONS or products > MOST_PRODUCTS:
        return None
    if plan.network.depth > MOST_LAYERS or plan.flops > MOST_FLOPS:
        return None
    inputs = _drawn(plan.network)
    with np.errstate(all="ignore"):
        try:
            expected = traced.evaluate(inputs, Watched())
        except OutOfDomain:
            return None
        return _difference(expected, plan.answers(inputs, Floats()))


def stream_difference(plan: Plan, run: Run) -> float | None:
    """The same between `net(...)` and a network that is run as one.

    None if it has no inputs or answers, if running it takes long, or if an answer is no number.
    """
    network = plan.network
    if not (network.inputs and network.outputs):
        return None
    rounds = executed(network) / max(len(network.layers), 1)
    if network.depth > MOST_LAYERS or written(network) * rounds > MOST_NUMBERS:
        return None
    inputs = _drawn(network)
    given = {x.name: inputs[x.name].reshape(x.shape) for x in network.inputs}
    with np.errstate(all="ignore"):
        return _difference(plan.answers(inputs, Floats()), by_name(run(given)))


def densely(network: Network, dtype: str) -> Run:
    """A network run as one, by its definition."""

    def run(inputs: Mapping[str, Array]) -> Any:
        H = network.prompt(**{name: x.astype(dtype) for name, x in inputs.items()})
        return network.readout(forward(network, H))

    return run


def _drawn(network: Network) -> dict[str, Array]:
    """Random inputs (rows, cols) by name; products of them do not grow with their sizes."""
    rng = np.random.default_rng(0)
    inputs = {}
    for spec in network.inputs:
        value = rng.uniform(-1, 1, size=(spec.rows, spec.cols)) / max(spec.rows, spec.cols)
        inputs[spec.name] = np.abs(value) if spec.sign != "any" else value
    return inputs


def _difference(expected: Mapping[str, Array], found: Mapping[str, Array]) -> float | None:
    """The largest difference of answers, relative to the largest entry of each."""
    worst = 0.0
    for name, value in expected.items():
        scale = float(np.max(np.abs(value), initial=0.0))
        gap = float(np.max(np.abs(value - np.reshape(found[name], value.shape)), initial=0.0))
        if not np.isfinite(scale) or not np.isfinite(gap):
            return None
        worst = max(worst, gap / scale if scale else gap)
    return worst


class Watched(Floats):
    """Floats in which a function refuses what lies outside its domain."""

    def pointwise(self, function: Any, x: Array) -> Array:
        guard(function, x, self.xp)
        return super().pointwise(function, x)
