"""How far rounding takes a network from its program, on one random input: a remark, no proof."""

from __future__ import annotations

from typing import Any

import numpy as np

from inweave.exact.arithmetic import Floats
from inweave.exact.constants import Array
from inweave.language.program import Traced
from inweave.proof.cost import program_work
from inweave.run.domains import OutOfDomain, guard
from inweave.run.plan import Plan

# more than this, a few tens of milliseconds, is not run in floating point unasked
MOST_LAYERS, MOST_FLOPS = 5000, 2e8  # of the network
MOST_OPERATIONS, MOST_PRODUCTS = 50_000, 1e7  # of the program


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
    rng = np.random.default_rng(0)
    inputs = {}
    for spec in plan.network.inputs:
        value = rng.uniform(-1, 1, size=(spec.rows, spec.cols)) / max(spec.rows, spec.cols)
        inputs[spec.name] = np.abs(value) if spec.sign != "any" else value
    worst = 0.0
    with np.errstate(all="ignore"):
        try:
            expected = traced.evaluate(inputs, Watched())
        except OutOfDomain:
            return None
        found = plan.answers(inputs, Floats())
        for name, value in expected.items():
            scale = float(np.max(np.abs(value), initial=0.0))
            gap = float(np.max(np.abs(value - found[name]), initial=0.0))
            if not np.isfinite(scale) or not np.isfinite(gap):
                return None
            worst = max(worst, gap / scale if scale else gap)
    return worst


class Watched(Floats):
    """Floats in which a function refuses what lies outside its domain."""

    def pointwise(self, function: Any, x: Array) -> Array:
        guard(function, x, self.xp)
        return super().pointwise(function, x)
