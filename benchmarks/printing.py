"""print(net): processor milliseconds of the slowest networks, the first time each is printed.

All entries of the gallery in every mode, loops of a million steps, and loops over many rows.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator

import inweave
from benchmarks.row import Row
from inweave import gallery

BAR = 30.0
STEPS = 10**6
MODES = ("faithful", "speed", "depth")
Named = dict[str, Callable[[], inweave.Network]]


def rows(
    threads: int, entries: tuple[gallery.Entry, ...] | None = None, steps: int = STEPS
) -> Iterator[Row]:
    """One row for each mode, one for many steps and one for many rows."""
    for mode in MODES:
        nets: Named = {
            entry.name: lambda entry=entry, mode=mode: entry.compile(optimize=mode)  # type: ignore[misc]
            for entry in entries or gallery.entries()
        }
        yield _row(f"gallery, {mode}", nets, threads)

    def long(mode: str) -> inweave.Network:
        sizes = {"n": 40, "d": 8, "steps": steps}
        return inweave.compile(gallery.ridge_gd, optimize=mode, verify=False, **sizes)

    def wide(n: int) -> inweave.Network:
        return inweave.compile(gallery.delta_net, n=n, d=8, k=4)

    yield _row(f"{steps:,} steps", {mode: lambda m=mode: long(m) for mode in MODES}, threads)  # type: ignore[misc]
    yield _row("DeltaNet", {f"n={n}": lambda n=n: wide(n) for n in (32, 1000)}, threads)  # type: ignore[misc]


def _row(name: str, nets: Named, threads: int) -> Row:
    """The slowest of some networks."""
    found = {}
    for one, compile in nets.items():
        net = compile()
        gc.collect()  # of what compiling left behind
        start = time.process_time()
        str(net)
        found[one] = 1e3 * (time.process_time() - start)
    return Row.slowest("printing", name, found, unit="ms", threads=threads, bar=BAR)
