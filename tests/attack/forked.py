"""A function in a process of its own: what it printed and how it ended, within a time limit.

Forked, so that the libraries are loaded once and not for every try.
"""

from __future__ import annotations

import io
import os
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

CRASHED = 70  # of a child whose function raised


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code, or minus the signal that ended it, and its output."""

    code: int
    out: bytes
    err: bytes


def run(function: Callable[[], int], seconds: int = 60, encoding: str = "utf-8") -> Ended:
    """Run a function that returns an exit code, with so much processor time and no input."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with started(function, seconds, encoding, out.fileno(), err.fileno()) as pid:
            _, status = os.waitpid(pid, 0)
        out.seek(0)
        err.seek(0)
        return Ended(os.waitstatus_to_exitcode(status), out.read(), err.read())


@contextmanager
def started(
    function: Callable[[], int],
    seconds: int = 60,
    encoding: str = "utf-8",
    out: int | None = None,
    err: int | None = None,
) -> Iterator[int]:
    """The process id of a child that runs a function in a process group of its own."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        yield pid
        return
    code = CRASHED
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number, target in enumerate((nowhere, out or nowhere, err or nowhere)):
            os.dup2(target, number)
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), encoding=encoding)
        sys.stderr = io.TextIOWrapper(
            io.FileIO(2, "w", closefd=False), encoding=encoding, errors="backslashreplace"
        )
        code = function()
        sys.stdout.flush()
    except SystemExit as exit:
        code = exit.code if isinstance(exit.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stderr.flush()
        finally:
            os._exit(code)


def wait_until(true: Callable[[], bool], most: float = 60.0) -> None:
    """Wait for something that a child does."""
    end = time.monotonic() + most
    while not true():
        if time.monotonic() > end:
            raise AssertionError(f"nothing happened in {most:.0f} s")
        time.sleep(0.001)
