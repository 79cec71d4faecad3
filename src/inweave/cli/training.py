"""Training as it is watched: a bar with loss, rate and time left; in a file a line now and then."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from inweave.cli import output

if TYPE_CHECKING:
    from rich.console import Console

EVERY = 10.0  # seconds between lines


@contextmanager
def watched(what: str) -> Iterator[None]:
    """Show how far training is meanwhile; of several processes the first one speaks."""
    if os.environ.get("RANK", "0") != "0":
        yield
        return
    from inweave.lab.progress import LOGGER

    out = output.errors()
    level, listener = LOGGER.level, _Bar(out, what) if out.is_terminal else _Lines(out, what)
    LOGGER.addHandler(listener)
    LOGGER.setLevel(logging.INFO)
    try:
        with listener.bar or nullcontext():
            yield
    finally:
        LOGGER.removeHandler(listener)
        LOGGER.setLevel(level)


class _Lines(logging.Handler):
    """A line when a training ends and one every `EVERY` seconds before; other remarks as they are.

    The rate is that of the present training, which begins at its first record.
    """

    bar: Any = None

    def __init__(self, out: Console, what: str) -> None:
        super().__init__()
        self.out, self.what = out, what
        self.number, self.first, self.began, self.said = 0, 0, 0.0, time.monotonic()

    def line(self, text: str) -> None:
        self.out.print(text, markup=False, soft_wrap=True)

    def emit(self, record: logging.LogRecord) -> None:
        if not hasattr(record, "done"):
            self.line(record.getMessage())
            return
        done, steps = record.done, record.steps  # type: ignore[attr-defined]
        now = time.monotonic()
        if math.isnan(record.loss):  # type: ignore[attr-defined]
            self.number, self.first, self.began = self.number + 1, done, now
            self.begin(steps)
            return
        rate = (done - self.first) / max(now - self.began, 1e-9)
        left = (steps - done) / rate
        self.advance(done, steps, f"{record.getMessage()}, {rate:.3g} steps/s, {left:.0f} s left")

    def begin(self, steps: int) -> None:
        if self.number == 1:
            self.line(f"{self.what}, training 1: {steps} steps ...")

    def advance(self, done: int, steps: int, text: str) -> None:
        if done == steps or time.monotonic() - self.said >= EVERY:
            self.said = time.monotonic()
            self.line(f"training {self.number}: {text}")


class _Bar(_Lines):
    """The same as a bar: what is done of the present training, and what is measured between two."""

    def __init__(self, out: Console, what: str) -> None:
        super().__init__(out, what)
        self.bar = output.bar(out)
        self.task = self.bar.add_task(what, total=None)

    def begin(self, steps: int) -> None:
        self.advance(0, steps, f"{steps} steps")

    def advance(self, done: int, steps: int, text: str) -> None:
        said = "measuring" if done == steps else f"training {self.number}: {text}"
        total = None if done == steps else steps
        self.bar.update(self.task, completed=done, total=total, description=f"{self.what}, {said}")
