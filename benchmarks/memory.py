"""Peak memory of a call beside its inputs.

`tracemalloc` counts every array that numpy allocates. The bar is 2 x the inputs plus O(d²) per
problem; the inputs themselves count, and the constant of d² is taken as 4 matrices of d x d.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np

from benchmarks import problem
from benchmarks.row import Row

SIZES = ((40, 10, 256), (400, 50, 1), (400, 50, 256), (4000, 200, 1), (4000, 200, 16))
MATRICES = 4


def rows(
    threads: int, sizes: tuple[tuple[int, int, int], ...] = SIZES, steps: int = problem.STEPS
) -> Iterator[Row]:
    """One row per size: inputs and everything allocated in the call, over the inputs."""
    for mode in ("speed", "depth"):
        for n, d, batch in sizes:
            net = problem.network(n, d, steps, mode)
            given = problem.data(n, d, batch)
            inputs = sum(np.asarray(value).nbytes for value in given.values())
            net(**given)
            tracemalloc.start()
            net(**given)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            ratio = (inputs + peak) / inputs
            yield Row.of(
                "peak memory",
                f"n={n} d={d} batch={batch} {mode}",
                ratio,
                against="inputs",
                threads=threads,
                bar=2 + MATRICES * 8 * d * d * batch / inputs,
                note=f"{inputs / 1e6:.2f} MB of inputs, {peak / 1e6:.2f} MB beside them, "
                f"{peak / (8 * d * d * batch):.1f} d² per problem",
            )
