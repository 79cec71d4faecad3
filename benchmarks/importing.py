"""What `import inweave` costs, with numpy's own import aside, and what `inweave --help` does.

The number is processor time, measured inside a fresh process: of the import alone, which does not
load numpy, of loading the main names when numpy is there already, and of printing the list of
commands. Which modules take it is read from Python's own profile, `-X importtime`.

Processes share a folder for bytecode of their own, which a first one fills: where none may be
written, Python compiles every module anew, and that is not what is measured here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
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
    with tempfile.TemporaryDirectory() as folder:
        yield from _rows(folder, threads, times)


def _rows(bytecode: str, threads: int, times: int) -> Iterator[Row]:
    for name, (before, statement, bar) in STATEMENTS.items():
        timed = TIMED.format(before, statement)
        _python(bytecode, "-c", timed)
        seconds = [float(_python(bytecode, "-c", timed)[0]) for _ in range(times)]
        spread = Spread.of([s * 1e3 for s in seconds])
        heaviest = sorted(profile(statement, bytecode).items(), key=lambda item: -item[1])[:4]
        most = ", ".join(f"{name} {us / 1e3:.1f}" for name, us in heaviest)
        yield Row.of("import", name, spread, unit="ms", threads=threads, bar=bar,
                     note=f"most: {most}")  # fmt: skip


def profile(statement: str, bytecode: str = "") -> dict[str, int]:
    """Microseconds of each module's own, without those that Python or numpy load themselves."""
    lines = _lines(statement, bytecode)
    for i, (name, _, depth) in enumerate(lines):
        if name == "numpy":  # a module is listed after what it imports
            first = i
            while first and lines[first - 1][2] > depth:
                first -= 1
            del lines[first : i + 1]
            break
    python = {name for name, _, _ in _lines("pass", bytecode)}
    return {name: us for name, us, _ in lines if name not in python}


def _lines(statement: str, bytecode: str) -> list[tuple[str, int, int]]:
    told = _python(bytecode, "-X", "importtime", "-c", statement)[1]
    found = [LINE.match(line) for line in told.splitlines()]
    return [(m[4], int(m[1]), len(m[3])) for m in found if m]


def _python(bytecode: str, *words: str) -> tuple[str, str]:
    """What a process tells; its bytecode is kept in a folder, if there is one."""
    known = dict(os.environ)
    if bytecode:
        known.pop("PYTHONDONTWRITEBYTECODE", None)
        known["PYTHONPYCACHEPREFIX"] = bytecode
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=True, env=known
    )
    return done.stdout, done.stderr
