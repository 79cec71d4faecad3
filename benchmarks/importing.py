"""What `import inweave` costs, with numpy's own import aside.

The number is processor time, measured inside a fresh process: of the import alone, which does not
load numpy, and of loading the main names when numpy is there already. Which modules take it is read
from Python's own profile, `-X importtime`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.measure import Spread
from benchmarks.row import Row

BAR = 100.0  # milliseconds
NAMES = "inweave.compile, inweave.program, inweave.Network, inweave.Matrix"
STATEMENTS = {
    "import inweave": ("pass", "import inweave"),
    "import inweave, numpy aside, and use compile": ("import numpy", f"import inweave; {NAMES}"),
}
TIMED = "import time; {}; t = time.process_time(); {}; print(time.process_time() - t)"
LINE = re.compile(r"import time:\s*(\d+) \|\s*(\d+) \|(\s+)(\S+)")


def rows(threads: int, times: int = 15) -> Iterator[Row]:
    """Milliseconds, each in fresh processes."""
    for name, (before, statement) in STATEMENTS.items():
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
            bar=BAR,
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
