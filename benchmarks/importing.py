"""What `import inweave` costs, with numpy's own import aside, and what `inweave --help` does.

The number is processor time, measured inside a fresh process: of the import alone, which does not
load numpy, of loading the main names when numpy is there already, and of printing the list of
commands. Which modules take it is read from Python's own profile, `-X importtime`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.measure import Spread
from benchmarks.row import Row

NAMES = "inweave.compile, inweave.program, inweave.Network, inweave.Matrix"
HELP = (
    "import io, sys, inweave.cli; told, sys.stdout = sys.stdout, io.StringIO(); "
    "inweave.cli.main(['--help']); sys.stdout = told"
)
STATEMENTS = {
    "import inweave": ("pass", "import inweave", 40.0),
    "import inweave, numpy aside, and use compile": (
        "import numpy",
        f"import inweave; {NAMES}",
        100.0,
    ),
    "inweave --help": ("pass", HELP, 200.0),
}
"""What is there before, what is timed, and how many milliseconds it may take."""

TIMED = "import time; {}; t = time.process_time(); {}; print(time.process_time() - t)"
LINE = re.compile(r"import time:\s*(\d+) \|\s*(\d+) \|(\s+)(\S+)")


def rows(threads: int, times: int = 15) -> Iterator[Row]:
    """Milliseconds, each in fresh processes."""
    for name, (before, statement, bar) in STATEMENTS.items():
        seconds = [float(_python("-c", TIMED.format(before, statement))[0]) for _ in range(times)]
        spread = Spread.of([s * 1e3 for s in seconds])
        heaviest = sorted(profile(statement).items(), key=lambda item: -item[1])[:4]
        yield Row(
            family="import",
            name=name,
            value=spread.median,
            low=spread.low,
            high=spread.high,
            unit="ms",
            threads=threads,
            bar=bar,
            note="most: " + ", ".join(f"{name} {us / 1e3:.1f}" for name, us in heaviest),
        )


def profile(statement: str) -> dict[str, int]:
    """Microseconds of each module's own, without those that Python or numpy load themselves."""
    lines = _lines(statement)
    for i, (name, _, depth) in enumerate(lines):
        if name == "numpy":  # a module is listed after what it imports
            first = i
            while first and lines[first - 1][2] > depth:
                first -= 1
            del lines[first : i + 1]
            break
    python = {name for name, _, _ in _lines("pass")}
    return {name: us for name, us, _ in lines if name not in python}


def _lines(statement: str) -> list[tuple[str, int, int]]:
    told = _python("-X", "importtime", "-c", statement)[1]
    found = [LINE.match(line) for line in told.splitlines()]
    return [(m[4], int(m[1]), len(m[3])) for m in found if m]


def _python(*words: str) -> tuple[str, str]:
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)
    return done.stdout, done.stderr
