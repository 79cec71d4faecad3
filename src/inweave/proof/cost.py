"""What verification costs, before it is begun."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from inweave.exact.field import SHORT, Primes
from inweave.language import expressions as ex
from inweave.language.program import Traced
from inweave.proof.affine import FEW, LARGEST, column_size
from inweave.proof.field_check import matched_loops
from inweave.run.plan import Plan

SECONDS_PER_OPERATION = 3e-5  # of the program, or a layer of the network, two trials
SECONDS_PER_FLOP = 4e-9  # program and network, two trials, one core
SQUARED = 4000.0  # bits of a long prime, squared, for as much again as numbers of 31 bits take


def seconds(traced: Traced, plan: Plan, whole: bool = False, primes: Primes = SHORT) -> float:
    """About how many seconds it takes to verify a network; of a loop, one step is checked.

    But a network without the program's loops is checked against all of their steps, and so is one
    whose step is not the program's, `whole`. Longer `primes` take Python's integers.
    """
    once = not whole and matched_loops(traced, plan.network) is not None
    operations, products = program_work(traced, once, powered=True)
    flops = plan.flops_once if once else plan.flops
    if not once:
        operations += plan.network.depth
    slower = 1.0 if primes is SHORT else 16 + primes.end.bit_length() ** 2 / SQUARED
    return (flops + products) * SECONDS_PER_FLOP * slower + operations * SECONDS_PER_OPERATION


def program_work(traced: Traced, once: bool = False, powered: bool = False) -> tuple[int, int]:
    """Operations and multiplications that evaluating a program takes.

    With `once`, an outermost loop counts as one step: so it is where the network has that loop too.
    With `powered`, one of affine steps counts as the powers of a matrix.
    """

    def work(order: Sequence[ex.Expr], outermost: bool) -> np.ndarray[Any, Any]:
        total, loops = np.zeros(2, dtype=object), set[ex.Loop]()
        for x in order:
            parts = x.parts
            inner = parts[0].cols if len(parts) == 2 and parts[0].cols == parts[1].rows else 1
            total += 1, x.rows * x.cols * inner
            if isinstance(x, ex.LoopResult):
                loops.add(x.loop)
        for loop in loops:
            step = work(ex.ordered(loop.step, stop=loop.carried), outermost=False)
            if outermost and once:
                total += step
                continue
            size = column_size(loop) if outermost and powered and loop.times > FEW else None
            if size is None or size > LARGEST:
                total += loop.times * step
            else:
                total += 3 * step[0] + loop.times.bit_length(), step[1] * size // 2
                total += 0, min(loop.times, loop.times.bit_length() * size) * size**2
        return total

    operations, products = work(ex.ordered(traced.outputs.values()), outermost=True)
    return int(operations), int(products)
