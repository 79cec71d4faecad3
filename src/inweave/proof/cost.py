"""What verification costs, before it is begun."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from inweave.language import expressions as ex
from inweave.language.program import Traced
from inweave.proof.field_check import matched_loops
from inweave.run.plan import Plan

SECONDS_PER_OPERATION = 3e-5  # of the program, two trials
SECONDS_PER_FLOP = 4e-9  # program and network, two trials, one core


def seconds(traced: Traced, plan: Plan, whole: bool = False) -> float:
    """About how many seconds it takes to verify a network; of a loop, one step is checked.

    But a network without the program's loops is checked against all of their steps, and so is one
    whose step is not the program's, `whole`.
    """
    once = not whole and matched_loops(traced, plan.network) is not None
    operations, products = program_work(traced, once)
    flops = plan.flops_once if once else plan.flops
    return (flops + products) * SECONDS_PER_FLOP + operations * SECONDS_PER_OPERATION


def program_work(traced: Traced, once: bool = False) -> tuple[int, int]:
    """Operations and multiplications that evaluating a program takes.

    With `once`, an outermost loop counts as one step: so it is where the network has that loop too.
    """

    def work(order: Sequence[ex.Expr], once: bool) -> np.ndarray[Any, Any]:
        total, loops = np.zeros(2, dtype=object), set[ex.Loop]()
        for x in order:
            parts = x.parts
            inner = parts[0].cols if len(parts) == 2 and parts[0].cols == parts[1].rows else 1
            total += 1, x.rows * x.cols * inner
            if isinstance(x, ex.LoopResult):
                loops.add(x.loop)
        for loop in loops:
            body = ex.ordered(loop.step, stop=loop.carried)
            total += (1 if once else loop.times) * work(body, once=False)
        return total

    operations, products = work(ex.ordered(traced.outputs.values()), once)
    return int(operations), int(products)
