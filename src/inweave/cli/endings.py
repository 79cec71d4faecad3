"""How a command may end: its exit codes, and what stops it.

Every kind of ending has a code of its own, so that a script can tell a network that is wrong from a
file that is not there, and both from a defect of inweave.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

DONE, CHECK_FAILED, REFUSED, CRASHED, INTERRUPTED = 0, 1, 2, 3, 130


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
