"""`inweave bench`: inweave beside hand-written code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from inweave.cli.options import FLAG
from inweave.errors import InputError

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def bench(
    *,
    only: Annotated[
        tuple[str, ...],
        Parameter(
            consume_multiple=True,
            negative="",
            help="Families to run; all if not given. A name that is none is answered with theirs.",
        ),
    ] = (),
    store: Annotated[
        bool,
        FLAG,
        Parameter(help="Keep what was measured, in benchmarks/results/cpu.json and a plot."),
    ] = False,
) -> int:
    """Measure inweave beside hand-written code, as ratios in one run.

    The benchmark is a part of inweave's source tree, not of the installed package: run this there.
    It uses one thread unless the environment says otherwise.

    For example:

        inweave bench

        inweave bench --only direct growth
    """
    if not Path("benchmarks", "__main__.py").is_file():
        raise InputError(
            "no benchmark in this folder: it is a part of the source tree; run it there, with "
            "`inweave bench` or `make bench`"
        )
    words = [*(["--store"] if store else []), *(["--only", *only] if only else [])]
    environment = dict.fromkeys(ONE_THREAD, "1") | os.environ
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *words], env=environment, check=False
    ).returncode
