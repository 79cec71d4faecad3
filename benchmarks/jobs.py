"""The gallery in many processes: every library, entry and size is a job on a core of its own.

Jobs of all libraries wait in one queue, the largest sizes first, so that the last ones to end are
short and all cores end together. What a job found is kept in a file as soon as it is done, and its
rows one by one before that; so a run that is broken off, or told to stop, goes on where it was.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

from benchmarks.row import Row, from_json

Measure = Callable[[str, Path, int], None]
"""Writes the rows of a job's family into a file, on a core."""


@dataclass(frozen=True)
class Job:
    """One entry of one library at one size."""

    library: str
    entry: str
    factor: int

    @property
    def family(self) -> str:
        """What a worker is told to measure."""
        return f"gallery-{self.library}/{self.entry}/{self.factor}"

    def kept(self, folder: Path) -> Path:
        """Where its rows are kept once it is done."""
        return folder / f"{self.library}-{self.entry}-{self.factor}.json"


@dataclass(frozen=True)
class Found:
    """The rows of all jobs in the order in which they were asked for, and what went wrong."""

    rows: list[Row]
    failed: list[str] = field(default_factory=list)
    waiting: int = 0  # jobs that were not begun in time


def run(
    asked: Sequence[Job], measure: Measure, folder: Path, side_by_side: int, within: float
) -> Found:
    """Measure all jobs that are not in the folder; none is begun after `within` seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    free: SimpleQueue[int] = SimpleQueue()
    for i in range(max(1, side_by_side)):
        free.put(cores()[-1 - i % len(cores())])
    start, failed = time.time(), dict[Job, str]()
    left = [job for job in asked if not job.kept(folder).is_file()]

    def one(job: Job) -> None:
        core, began = free.get(), time.time()
        try:
            if began - start < within:
                measure(job.family, job.kept(folder), core)
                print(f"{job.family}: {time.time() - began:.0f} s", file=sys.stderr, flush=True)
        except (subprocess.SubprocessError, OSError) as problem:
            failed[job] = f"{job.family}: {problem}"
        finally:
            free.put(core)

    with ThreadPoolExecutor(max(1, side_by_side)) as pool:
        list(pool.map(one, sorted(left, key=lambda job: -job.factor)))
    waiting = [job for job in left if job not in failed and not job.kept(folder).is_file()]
    rows = [row for job in asked for row in rows_in(job.kept(folder))]
    return Found(rows, list(failed.values()), len(waiting))


def keep(rows: Iterable[Row], path: Path) -> None:
    """Write rows one by one beside a file, which is there when all of them are."""
    part, found = part_of(path), list[Row]()
    for row in rows:
        found.append(row)
        part.write_text(json.dumps([row.to_json() for row in found]))
    part.write_text(json.dumps([row.to_json() for row in found]))
    part.replace(path)


def rows_in(path: Path) -> list[Row]:
    """The rows that a job has kept, also if it was broken off."""
    for file in (path, part_of(path)):
        if file.is_file():
            try:
                return from_json(json.loads(file.read_text()))
            except json.JSONDecodeError:  # broken off while it wrote
                continue
    return []


def part_of(path: Path) -> Path:
    """Where rows are while more are to come."""
    return path.with_suffix(".part")


def cores() -> list[int]:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
