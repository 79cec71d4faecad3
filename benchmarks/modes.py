"""`optimize="speed"` beside the other modes: every program of the gallery, at several sizes.

One call of the network on numpy arrays, as a user makes it, divided by the same call of the faster
of the two other networks: of one prompt, and of batches. The sizes are the entry's own, three, ten
and a hundred times those, where compiling and calling stay within reason; a number of steps stays
what it is. Where a mode runs the very same plan there is nothing to compare.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from benchmarks import measure
from benchmarks.gallery import data
from benchmarks.row import Row
from inweave import Network, gallery
from inweave.errors import CompileError
from inweave.run.cost import cost

MODES = ("speed", "faithful", "depth")
TIMES = (1, 3, 10, 100)
BATCHES = (1, 64, 4096)
MOST = 0.02  # seconds by estimate that a call may take
LONGEST = 0.2  # and one of a batch
PATIENCE = 1.0  # seconds of compiling, after which a program is taken no larger
LARGEST = 1 << 23  # numbers in the inputs
FAR = 2.0  # times the other one's time, beyond which a mode only empties caches for the next
BAR = 1.05


def rows(
    threads: int,
    seconds: float = 0.3,
    times: tuple[int, ...] = TIMES,
    names: tuple[str, ...] = (),
    batches: tuple[int, ...] = BATCHES,
) -> Iterator[Row]:
    """One row per program, size and batch at which the modes differ."""
    for entry in gallery.entries():
        if names and entry.name not in names:
            continue
        for sizes, numbers in reasonable(entry, times):
            start = time.process_time()
            try:
                found = {m: entry.compile(optimize=m, verify=False, **sizes) for m in MODES}
            except CompileError:  # a computed scalar takes a head for every entry it multiplies
                break
            took = time.process_time() - start
            costs = cost(found["speed"].plan)
            for batch in batches:
                quick = costs.seconds < MOST if batch == 1 else batch * costs.batched < LONGEST
                if quick and batch * numbers <= LARGEST:
                    yield from _row(entry, found, sizes, batch, seconds, threads)
            if took > PATIENCE:
                break


def reasonable(
    entry: gallery.Entry, times: tuple[int, ...]
) -> Iterator[tuple[dict[str, int], int]]:
    """The sizes of a program, and how many numbers its inputs hold there.

    Only its own, if it is recorded longer at larger ones.
    """
    own = {name: entry.sizes[name] for name in entry.program.size_names}
    short, long = (
        entry.program.trace(**{**entry.sizes, **_larger(own, factor)}) for factor in (1, 2)
    )
    numbers = sum(spec.rows * spec.cols for spec in short.inputs)
    for factor in times:
        alike = factor == 1 or len(short.operations) == len(long.operations)
        if alike and numbers * factor**2 <= LARGEST:
            yield _larger(own, factor), numbers * factor**2


def _larger(sizes: dict[str, int], factor: int) -> dict[str, int]:
    return {name: factor * size for name, size in sizes.items()}


def _code(network: Network, batch: int) -> Any:
    """What runs."""
    variant = network.plan.from_inputs
    return (variant.alone if batch == 1 else variant.batched).code


def _row(
    entry: gallery.Entry,
    found: dict[str, Network],
    sizes: dict[str, int],
    batch: int,
    seconds: float,
    threads: int,
) -> Iterator[Row]:
    codes = {mode: _code(network, batch) for mode, network in found.items()}
    others = [mode for mode in MODES[1:] if codes[mode] != codes["speed"]]
    if not others:
        return
    inputs = data(entry, {**entry.sizes, **sizes}, batch)
    calls = {
        mode: lambda net=found[mode]: net(**inputs, check=False) for mode in ("speed", *others)
    }
    first = measure.interleaved(calls, seconds / 5, threads=threads)
    near = FAR * first.seconds()[first.quickest(others)]
    others = [mode for mode in others if first.seconds()[mode] <= near]
    calls = {mode: calls[mode] for mode in ("speed", *others)}
    timing = measure.interleaved(calls, seconds, threads=threads)
    best = timing.quickest(others)
    ratio = timing.ratio("speed", best)
    origin = found["speed"].origin
    label = " ".join(f"{k}={v}" for k, v in sizes.items())
    yield Row.of("modes", f"{entry.name} {label} batch={batch}", ratio, against=best,
                 threads=threads, bar=BAR, seconds=timing.seconds(),
                 note="" if origin is None else origin.candidate)  # fmt: skip
