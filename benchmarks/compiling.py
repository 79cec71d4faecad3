"""Compile and verify: seconds from a program to a network with its certificate."""

from __future__ import annotations

from collections.abc import Iterator

import inweave
from benchmarks import measure, problem
from benchmarks.row import Row

SIZES = ((40, 10), (400, 50), (4000, 200))
MODES = ("faithful", "speed", "depth")
BAR = 0.5


def rows(
    threads: int,
    seconds: float = 1.0,
    sizes: tuple[tuple[int, int], ...] = SIZES,
    modes: tuple[str, ...] = MODES,
) -> Iterator[Row]:
    """One row per size and mode; the note says how much of it is verification."""
    for n, d in sizes:
        for mode in modes:
            calls = {
                "compile and verify": lambda n=n, d=d, mode=mode: inweave.compile(
                    problem.ridge_gd, n=n, d=d, steps=problem.STEPS, optimize=mode
                ),
                "compile": lambda n=n, d=d, mode=mode: problem.network(n, d, optimize=mode),
            }
            timing = measure.interleaved(calls, seconds, threads=threads)
            spread = measure.Spread.of(timing.samples["compile and verify"])
            alone = timing.seconds()["compile"]
            yield Row(
                family="compile and verify",
                name=f"n={n} d={d} {mode}",
                value=spread.median,
                low=spread.low,
                high=spread.high,
                unit="s",
                threads=threads,
                bar=BAR,
                seconds=timing.seconds(),
                note=f"{alone:.3f} s of it to compile",
            )
