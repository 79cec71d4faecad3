"""Deliberate defects, and which test notices each: `make mutants`.

A test suite is as good as the mistakes it would notice. Every entry changes one line of the package
the way a tired engineer might; the tests named beside it must fail for it. An entry whose text no
longer stands in the source is an error too, so that the list follows the code.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"


@dataclass(frozen=True)
class Mutant:
    """One defect: in this file, this text becomes that one; these tests have to notice."""

    file: str
    text: str
    instead: str
    tests: str
    what: str


MUTANTS: list[Mutant] = []


def damaged(mutant: Mutant, folder: Path) -> None:
    """A copy of the package with one defect in it."""
    shutil.copytree(SOURCE, folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "src" / "inweave" / mutant.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutant.text) != 1:
        raise SystemExit(
            f"{mutant.file}: {mutant.text!r} stands there {text.count(mutant.text)} times, "
            "expected once; the list of defects in tests/mutants.py must follow the code"
        )
    path.write_text(text.replace(mutant.text, mutant.instead), encoding="utf-8")


def killer(mutant: Mutant) -> str | None:
    """The first test that fails with a defect; None if it survives."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        damaged(mutant, folder)
        options = ["-q", "-x", "--no-header", "-p", "no:cacheprovider", "-m", "not browser"]
        command = [sys.executable, "-m", "pytest", *options, *mutant.tests.split()]
        environment = os.environ | {
            "PYTHONPATH": str(folder / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        found = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
    if found.returncode == 0:
        return None
    if found.returncode not in (1, 2):
        raise SystemExit(f"pytest stopped with {found.returncode}:\n{found.stdout}{found.stderr}")
    failed = [line for line in found.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0].split(" ", 1)[1] if failed else "collection"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="those whose file or description has this text")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    chosen = [m for m in MUTANTS if given.only in m.file or given.only in m.what]
    survived = 0
    with ThreadPoolExecutor(given.processes) as pool:
        for mutant, found in zip(chosen, pool.map(killer, chosen), strict=True):
            survived += found is None
            print(f"{'killed' if found else 'SURVIVED':8}  {mutant.file}: {mutant.what}")
            print(
                f"          {'by ' + found if found else 'no test in ' + mutant.tests}", flush=True
            )
    print(f"{len(chosen) - survived} killed, {survived} survived")
    return 1 if survived or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
