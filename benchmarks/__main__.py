"""`make bench`, `inweave bench`, `python -m benchmarks`: every row, in one run.

Each family runs in a process of its own, once per number of threads, because BLAS, OpenMP and XLA
read how many threads they may use when they start. Of the gallery, every entry has a process of its
own: `--jobs` of them run side by side, each bound to a core, and `--resume` keeps what each found
in a folder, so that a run which was broken off goes on where it was.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from queue import SimpleQueue
from statistics import median
from typing import Any

from benchmarks import gallery, ridge
from benchmarks.row import Row, from_json
from benchmarks.show import plot, table
from inweave.gallery import entries, get

RESULTS = Path(__file__).parent / "results"
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
LIBRARIES = ("numpy", "scipy", "torch", "jax", "scikit-learn")
THREADS = (1, 2)

FAMILIES: dict[str, tuple[str, tuple[int, ...]]] = {
    **{f"ridge-{library}": ("ridge", THREADS) for library in ridge.LIBRARIES},
    **{f"gallery-{library}": ("gallery", (1,)) for library in gallery.LIBRARIES},
    "dense": ("dense", (1,)),
    "direct": ("direct", THREADS),
    "modes": ("modes", (1,)),
    "compiling": ("compiling", (1,)),
    "proving": ("proving", (1,)),
    "printing": ("printing", (1,)),
    "growth": ("growth", (1,)),
    "memory": ("memory", (1,)),
    "estimators": ("estimators", (1,)),
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
    parser.add_argument("--worker", nargs=4, metavar=("FAMILY", "THREADS", "FILE", "CORE"),
                        help=argparse.SUPPRESS)  # fmt: skip
    options = parser.parse_args()
    if options.worker:
        family, threads, out, core = options.worker
        work(family, int(threads), Path(out), int(core))
        return 0
    start, rows = time.time(), list[Row]()
    asked = options.only or [*FAMILIES, "lab"]
    for family in [family for name in asked for family in GROUPS.get(name, [name])]:
        if family in GROUPS["gallery"]:
            rows += run_entries(family, options.jobs, options.resume)
        else:
            rows += run(family)
        if options.store:  # family by family: an interrupt loses the one that is running
            store(options.store, rows, bool(options.only))
    told = rows + summaries(rows)
    table(told)
    print(f"{time.time() - start:.0f} s")
    if options.store:
        if any(row.family.startswith("ridge, ") for row in stored(options.store)):
            plot(stored(options.store), options.store.with_suffix(".png"))
        print(f"written to {options.store}")
    return 0


def stored(path: Path) -> list[Row]:
    """The rows that a file keeps."""
    return from_json(json.loads(path.read_text())["rows"]) if path.is_file() else []


def store(path: Path, rows: list[Row], keep: bool) -> None:
    """Write the rows of a run to a file; `keep` leaves its other families as they are."""
    told = merged(stored(path) if keep else [], rows + summaries(rows))
    found = {"machine": machine(), "rows": [row.to_json() for row in told]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


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


def run_entries(family: str, jobs: int, resume: Path | None = None) -> list[Row]:
    """The rows of a library's gallery, in the gallery's order: some entries at a time."""
    free: SimpleQueue[int] = SimpleQueue()
    for i in range(max(1, jobs)):
        free.put(cores()[-1 - i % len(cores())])

    def one(entry: str) -> list[Row]:
        out = Path(kept, f"{family}-{entry}.json")
        if not out.is_file():
            core, start = free.get(), time.time()
            try:
                _measured(f"{family}/{entry}", 1, out, core)
            finally:
                free.put(core)
            print(f"{family}, {entry}: {time.time() - start:.0f} s", file=sys.stderr, flush=True)
        return from_json(json.loads(out.read_text()))

    if resume is not None:
        resume.mkdir(parents=True, exist_ok=True)
    folder = nullcontext(resume) if resume else tempfile.TemporaryDirectory()
    with folder as kept, ThreadPoolExecutor(max(1, jobs)) as pool:
        found = list(pool.map(one, [entry.name for entry in entries()]))
    return [row for rows in found for row in rows]


def cores() -> list[int]:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _measured(family: str, threads: int, out: Path, core: int) -> list[Row]:
    """The rows of a family, or of one entry, from a process of its own; kept in a file."""
    words = ["--worker", family, str(threads), str(out), str(core)]
    subprocess.run(
        [sys.executable, "-m", "benchmarks", *words],
        env=os.environ | dict.fromkeys(VARIABLES, str(threads)),
        check=True,
    )
    return from_json(json.loads(out.read_text()))


def work(family: str, threads: int, out: Path, core: int) -> None:
    """Measure one family, or one entry of the gallery, in this process."""
    if threads == 1 and hasattr(os, "sched_setaffinity"):
        # XLA takes as many threads as there are cores to run on.
        os.sched_setaffinity(0, {core})
    family, _, entry = family.partition("/")
    name = "lab" if family == "lab" else FAMILIES[family][0]
    module = importlib.import_module(f"benchmarks.{name}")
    if entry:
        rows: Iterable[Any] = module.rows(family.partition("-")[2], threads, entries=[get(entry)])
    elif name in GROUPS:
        rows = module.rows(family.partition("-")[2], threads)
    elif name == "lab":
        rows = module.rows()
    else:
        rows = module.rows(threads)
    found = json.dumps([row.to_json() for row in rows])
    part = out.with_suffix(".part")  # a file is there whole or not at all
    part.write_text(found)
    part.replace(out)


def summaries(rows: list[Row]) -> list[Row]:
    """The median over all rows of each library that have a bar; it has a stricter one."""
    found = []
    grouped = [row for row in rows if row.family.partition(", ")[0] in GROUPS and row.bar]
    for family in dict.fromkeys(row.family for row in grouped):
        for threads in THREADS:
            mine = [r for r in grouped if r.family == family and r.threads == threads]
            if mine:
                middle = median(row.value for row in mine)
                low, high = min(r.value for r in mine), max(r.value for r in mine)
                found.append(Row(family, "median of these (least, worst)", middle, low, high,
                                 threads=threads, bar=ridge.MEDIAN))  # fmt: skip
    return found


def merged(old: list[Row], new: list[Row]) -> list[Row]:
    """The old rows with the families of the new ones replaced, in the order of the old."""
    fresh = {row.family for row in new}
    order = list(dict.fromkeys(row.family for row in [*old, *new]))
    return [
        row for family in order for row in (new if family in fresh else old) if row.family == family
    ]


def machine() -> dict[str, Any]:
    """What was measured on, in general terms."""
    versions = {}
    for name in LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "cores": os.cpu_count(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        **versions,
        "load": load,
    }


if __name__ == "__main__":
    sys.exit(main())
