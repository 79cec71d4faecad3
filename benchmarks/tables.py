"""Reading a table of numbers as `inweave run` does, beside pyarrow's own reader."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.measure import interleaved
from benchmarks.row import Row
from inweave.cli import tables

NAMES = ["a", "b", "y"]


def rows(threads: int, seconds: float = 5.0, size: int = 10**6) -> Iterator[Row]:
    """One row, of a file of so many rows of three numbers with all their digits."""
    from pyarrow import csv

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.csv")
        numbers = np.random.default_rng(0).normal(size=(size, len(NAMES)))
        np.savetxt(path, numbers, "%.17g", ",", header=",".join(NAMES), comments="")
        timing = interleaved(
            {"inweave": lambda: tables.read(path).numbers(NAMES),
             "pyarrow": lambda: csv.read_csv(path)},
            seconds, threads=threads,
        )  # fmt: skip
        megabytes = path.stat().st_size / 1e6
    ratio = timing.ratio("inweave", "pyarrow")
    yield Row.of("tables", f"{size:,} rows of .csv, {megabytes:.0f} MB", ratio, against="pyarrow",
                 threads=threads, bar=2.0, seconds=timing.seconds())  # fmt: skip
