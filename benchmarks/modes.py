"""`optimize="speed"` beside the other modes: every program of the gallery, at three sizes.

One call of the network on numpy arrays, as a user makes it, divided by the same call of the faster
of the two other networks. The sizes are the entry's own, ten and a hundred times those, where
compiling and calling stay within reason; a number of steps stays what it is. Where all modes run
the same plan there is nothing to compare, and no row.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks import measure
from benchmarks.row import Row
from inweave import Network, gallery
from inweave.errors import CompileError
from inweave.gallery.entry import Inputs
from inweave.run.cost import cost

MODES = ("speed", "faithful", "depth")
TIMES = (1, 10, 100)
MOST = 0.02  # seconds by estimate that a call may take
PATIENCE = 1.0  # seconds of compiling, after which a program is taken no larger
LARGEST = 1 << 23  # numbers in the inputs
BAR = 1.05


def rows(
    threads: int,
    seconds: float = 0.3,
    times: tuple[int, ...] = TIMES,
    names: tuple[str, ...] = (),
) -> Iterator[Row]:
    """One row per program and size at which the modes differ."""
    for entry in gallery.entries():
        if names and entry.name not in names:
            continue
        for sizes in reasonable(entry, times):
            start = time.process_time()
            try:
                found = {m: entry.compile(optimize=m, verify=False, **sizes) for m in MODES}
            except CompileError:  # a computed scalar takes a head for every entry it multiplies
                break
            took = time.process_time() - start
            costs = {mode: cost(network.plan) for mode, network in found.items()}
            if costs["speed"].seconds < MOST and len(set(costs.values())) > 1:
                yield _row(entry, found, sizes, seconds, threads)
            if took > PATIENCE:
                break


def reasonable(entry: gallery.Entry, times: tuple[int, ...]) -> Iterator[dict[str, int]]:
    """The sizes of a program: only its own, if it is recorded longer at larger ones."""
    own = {name: entry.sizes[name] for name in entry.program.size_names}
    short, long = (
        entry.program.trace(**{**entry.sizes, **_larger(own, factor)}) for factor in (1, 2)
    )
    numbers = sum(spec.rows * spec.cols for spec in short.inputs)
    for factor in times:
        alike = factor == 1 or len(short.operations) == len(long.operations)
        if alike and numbers * factor**2 <= LARGEST:
            yield _larger(own, factor)


def _larger(sizes: dict[str, int], factor: int) -> dict[str, int]:
    return {name: factor * size for name, size in sizes.items()}


def _row(
    entry: gallery.Entry,
    found: dict[str, Network],
    sizes: dict[str, int],
    seconds: float,
    threads: int,
) -> Row:
    inputs: Inputs = entry.example(**sizes)
    calls = {mode: lambda net=net: net(**inputs, check=False) for mode, net in found.items()}
    timing = measure.interleaved(calls, seconds, threads=threads)
    best = timing.quickest(["faithful", "depth"])
    ratio = timing.ratio("speed", best)
    origin = found["speed"].origin
    return Row(
        family="modes",
        name=f"{entry.name} {' '.join(f'{k}={v}' for k, v in sizes.items())}".strip(),
        value=ratio.median,
        low=ratio.low,
        high=ratio.high,
        against=best,
        threads=threads,
        bar=BAR,
        seconds=timing.seconds(),
        note="" if origin is None else origin.candidate,
    )
