"""The `inweave` command. One file per command; `app` turns errors into messages and exit codes.

Exit codes: 0 done, 1 a check failed, 2 refused (bad usage or bad input), 3 crashed (a defect of
inweave), 130 interrupted. A user's mistake is answered with one message; `--debug` shows the
traceback behind it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from inweave.cli.endings import leave, when_stopped


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    with when_stopped(leave):
        from inweave.cli.app import run

        return run(list(sys.argv[1:] if argv is None else argv))
