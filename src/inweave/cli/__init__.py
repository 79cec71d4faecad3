"""The `inweave` command. One file per command; `app` turns errors into messages and exit codes.

Exit codes: 0 done, 1 a check failed, 2 refused (bad usage or bad input), 3 crashed (a defect of
inweave), 130 interrupted. A user's mistake is answered with one message; `--debug` shows the
traceback behind it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

DONE, CHECK_FAILED, REFUSED, CRASHED, INTERRUPTED = 0, 1, 2, 3, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    with when_stopped(leave):
        from inweave.cli.app import run

        return run(list(sys.argv[1:] if argv is None else argv))


@contextmanager
def when_stopped(act: Callable[..., Any]) -> Iterator[None]:
    """What Ctrl-C and a request to terminate do meanwhile, where they are not ignored."""
    before: dict[int, Any] = {}
    with suppress(ValueError):  # not in the main thread: leave signals alone
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, act)
    try:
        yield
    finally:
        for ours, old in before.items():
            signal.signal(ours, old)


def leave(*_: Any) -> None:
    """End at once: half-loaded libraries are in no state to hear of it, and nothing is written."""
    with suppress(OSError):
        os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)
