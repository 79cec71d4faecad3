"""`make bench`, `inweave bench`, `python -m benchmarks`: every row, in one run.

Each family runs in a process of its own, once per number of threads, because BLAS, OpenMP and XLA
read how many threads they may use when they start. Of the gallery, every entry and size has a
process of its own (`benchmarks.jobs`): `--jobs` of them run side by side, each bound to a core,
`--resume` keeps what each found in a folder, so that a run which was broken off goes on where it
was, and `--within` begins none after so many seconds, stores what is there and leaves the rest.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benchmarks import gallery, jobs, ridge
from benchmarks.jobs import Job, cores
from benchmarks.row import Row, from_json
from benchmarks.show import plot, summary, table
from benchmarks.stored import RESULTS, Stored, machine
from inweave.gallery import entries, get

VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
THREADS = (1, 2)
LONGEST = 300  # seconds of one job of the gallery, after which it is given up

FAMILIES: dict[str, tuple[str, tuple[int, ...]]] = {
    **{f"ridge-{library}": ("ridge", THREADS) for library in ridge.LIBRARIES},
    **{f"gallery-{library}": ("gallery", (1,)) for library in gallery.LIBRARIES},
    "dense": ("dense", (1,)),
    "direct": ("direct", THREADS),
    "others": ("others", (1,)),
    "modes": ("modes", (1,)),
    "digits": ("digits", (1,)),
    "compiling": ("compiling", (1,)),
    "proving": ("proving", (1,)),
    "printing": ("printing", (1,)),
    "growth": ("growth", (1,)),
    "memory": ("memory", (1,)),
    "estimators": ("estimators", (1,)),
    "page": ("page", (1,)),
    "importing": ("importing", (1,)),
    "calls": ("calls", (1,)),
    "beyond-memory": ("beyond_memory", (1,)),
    "tables": ("tables", (1,)),
    "precision": ("precision", (1,)),
    "kernel": ("kernel", (1,)),
}
"""Families by name: the module that has their `rows`, and the numbers of threads they run with."""

GROUPS = {
    group: [name for name in FAMILIES if name.startswith(f"{group}-")]
    for group in ("ridge", "gallery")
}
"""Families of several libraries, by one name."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only", nargs="*", choices=[*FAMILIES, *GROUPS, "lab"], help="families to run"
    )
    parser.add_argument("--store", nargs="?", type=Path, const=RESULTS / "cpu.json", metavar="FILE",
                        help="keep the rows in a file, benchmarks/results/cpu.json if none is "
                             "named, with a plot beside it; families that do not run stay as they "
                             "are there")  # fmt: skip
    parser.add_argument("--jobs", type=int, default=1, metavar="N",
                        help="entries of the gallery that are measured at a time, each on a core "
                             "of its own")  # fmt: skip
    parser.add_argument("--resume", type=Path, metavar="FOLDER",
                        help="keep the rows of every entry of the gallery here, and do not measure "
                             "those that are here already")  # fmt: skip
    parser.add_argument("--within", type=float, default=float("inf"), metavar="SECONDS",
                        help="begin no entry of the gallery after so many seconds")  # fmt: skip
    parser.add_argument("--worker", nargs=4, metavar=("FAMILY", "THREADS", "FILE", "CORE"),
                        help=argparse.SUPPRESS)  # fmt: skip
    options = parser.parse_args()
    if options.worker:
        family, threads, out, core = options.worker
        work(family, int(threads), Path(out), int(core))
        return 0
    start, rows, failed = time.time(), list[Row](), list[str]()
    asked = options.only or [*FAMILIES, "lab"]
    families = [family for name in asked for family in GROUPS.get(name, [name])]
    for family in families:
        if family not in GROUPS["gallery"]:
            rows += run(family)
            if options.store:  # family by family: an interrupt loses the one that is running
                store(options.store, rows, bool(options.only))
    if libraries := [f.partition("-")[2] for f in families if f in GROUPS["gallery"]]:
        found = run_gallery(libraries, options.jobs, options.resume, options.within)
        rows, failed = rows + found.rows, found.failed
        if options.store:
            store(options.store, rows, bool(options.only))
        if found.waiting:
            print(f"{found.waiting} entries and sizes were not begun; --resume goes on with them")
    table(rows + summaries(rows))
    for family in dict.fromkeys(row.family for row in rows if row.family.startswith("gallery, ")):
        print(f"\n{family}\n{summary(rows, family)}")
    print("\n".join([f"{time.time() - start:.0f} s", *(f"failed: {why}" for why in failed)]))
    if options.store:
        kept = Stored.read(options.store).rows
        if any(row.family.startswith("ridge, ") for row in kept):
            plot(kept, options.store.with_suffix(".png"))
        print(f"written to {options.store}")
    return 1 if failed else 0


def store(path: Path, rows: list[Row], keep: bool) -> None:
    """Write the rows of a run to a file; `keep` leaves its other families as they are."""
    old = Stored.read(path) if keep else Stored([], {})
    old.replaced(rows + summaries(rows), machine()).write(path)


def run(family: str) -> list[Row]:
    """The rows of a family, from one process per number of threads."""
    if family == "lab":
        counts: tuple[int, ...] = (1,)
        if importlib.util.find_spec("benchmarks.lab") is None:
            return []
    else:
        counts = FAMILIES[family][1]
    rows: list[Row] = []
    for threads in counts:
        print(
            f"{family}, {threads} thread{'s' * (threads > 1)} ...",
            end="",
            file=sys.stderr,
            flush=True,
        )
        start = time.time()
        with tempfile.TemporaryDirectory() as folder:
            rows += _measured(family, threads, Path(folder, "rows.json"), cores()[-1])
        print(f" {time.time() - start:.0f} s", file=sys.stderr)
    return rows


def run_gallery(
    libraries: Sequence[str],
    side_by_side: int,
    resume: Path | None = None,
    within: float = float("inf"),
) -> jobs.Found:
    """The rows of some libraries' galleries, in the gallery's order: some jobs at a time."""
    asked = [
        Job(library, entry.name, factor)
        for library in libraries
        for entry in entries()
        for factor in gallery.FACTORS
    ]
    with nullcontext(resume) if resume else tempfile.TemporaryDirectory() as folder:
        return jobs.run(asked, _measure, Path(folder), side_by_side, within)


def _measure(family: str, out: Path, core: int) -> None:
    """What a job of the gallery does."""
    _measured(family, 1, out, core, LONGEST)


def _measured(
    family: str, threads: int, out: Path, core: int, longest: float | None = None
) -> list[Row]:
    """The rows of a family, or of one entry, from a process of its own; kept in a file."""
    words = ["--worker", family, str(threads), str(out), str(core)]
    subprocess.run(
        [sys.executable, "-m", "benchmarks", *words],
        env={"JAX_PLATFORMS": "cpu"} | os.environ | dict.fromkeys(VARIABLES, str(threads)),
        check=True,
        timeout=longest,
    )
    return from_json(json.loads(out.read_text()))


def work(family: str, threads: int, out: Path, core: int) -> None:
    """Measure one family, or one entry of the gallery at one size, in this process."""
    if threads == 1 and hasattr(os, "sched_setaffinity"):
        # XLA takes as many threads as there are cores to run on.
        os.sched_setaffinity(0, {core})
    family, *job = family.split("/")
    name = "lab" if family == "lab" else FAMILIES[family][0]
    module = importlib.import_module(f"benchmarks.{name}")
    if job:
        entry, factor = job
        rows: Iterable[Any] = module.rows(
            family.partition("-")[2], threads, entries=[get(entry)], factors=[int(factor)]
        )
    elif name in GROUPS:
        rows = module.rows(family.partition("-")[2], threads)
    elif name == "lab":
        rows = module.rows()
    else:
        rows = module.rows(threads)
    jobs.keep(rows, out)


def summaries(rows: list[Row]) -> list[Row]:
    """The median over all rows of each library that have a bar; it has a stricter one."""
    found = []
    grouped = [row for row in rows if row.family.partition(", ")[0] in GROUPS and row.bar]
    for family in dict.fromkeys(row.family for row in grouped):
        for threads in THREADS:
            mine = [r for r in grouped if r.family == family and r.threads == threads]
            if mine:
                found.append(Row.median_of(family, mine, threads=threads, bar=ridge.MEDIAN))
    return found


if __name__ == "__main__":
    sys.exit(main())
