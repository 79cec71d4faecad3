"""How time grows with n, d, T and batch: exponents fitted on log axes.

Each sweep stays where its variable dominates and out of the small caches. 1 is expected for n, T
and batch, and at most 2 for d (the Gram matrix takes n d² operations, and larger ones run at a
better rate). The hand-written loop is swept along with the network.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks import measure, problem
from benchmarks.by_hand import in_numpy
from benchmarks.row import Row

START = {"n": 4000, "d": 50, "T": 100, "batch": 1}
SWEEPS = {
    "n": (START, (4000, 8000, 16000, 32000, 64000)),
    "d": ({**START, "n": 20000}, (32, 64, 128, 256)),
    "T": ({**START, "n": 400}, (2000, 4000, 8000, 16000, 32000)),
    "batch": ({**START, "n": 100}, (256, 512, 1024, 2048, 4096)),
}
EXPECTED = {"n": 1, "d": 2, "T": 1, "batch": 1}
ROOM = 0.1  # an exponent is met if it is not larger than this above what is expected


def rows(
    threads: int,
    seconds: float = 0.6,
    sweeps: dict[str, tuple[dict[str, int], tuple[int, ...]]] = SWEEPS,
) -> Iterator[Row]:
    """One row per variable."""
    for name, (start, values) in sweeps.items():
        found: dict[str, list[measure.Spread]] = {"inweave": [], "by hand": []}
        for value in values:
            for who, spread in _point({**start, name: value}, seconds, threads).items():
                found[who].append(spread)
        slope, error = exponent(values, [s.median for s in found["inweave"]])
        hand, _ = exponent(values, [s.median for s in found["by hand"]])
        fixed = " ".join(f"{k}={v}" for k, v in start.items() if k != name)
        yield Row.of(
            "growth",
            f"in {name}: {values[0]} to {values[-1]}, {fixed}",
            measure.Spread(slope - error, slope, slope + error),
            unit="exponent",
            threads=threads,
            bar=EXPECTED[name] + ROOM,
            curve={"variable": name, "values": list(values)}
            | {who: [s.median for s in points] for who, points in found.items()},
            note=f"by hand: {hand:.2f}",
        )


def _point(at: dict[str, int], seconds: float, threads: int) -> dict[str, measure.Spread]:
    net = problem.network(at["n"], at["d"], at["T"])
    given = problem.data(at["n"], at["d"], at["batch"])
    calls = {
        "inweave": lambda: net(**given),
        "by hand": lambda: in_numpy.gram(**given, steps=at["T"]),
    }
    timing = measure.interleaved(calls, seconds, threads=threads)
    return {name: measure.Spread.of(found) for name, found in timing.samples.items()}


def exponent(values: tuple[int, ...], seconds: list[float]) -> tuple[float, float]:
    """The slope on log axes and its standard error."""
    x, y = np.log(values), np.log(seconds)
    x = x - x.mean()
    slope = float(x @ y / (x @ x))
    rest = y - y.mean() - slope * x
    free = max(len(values) - 2, 1)
    return slope, float(np.sqrt(rest @ rest / free / (x @ x)))
