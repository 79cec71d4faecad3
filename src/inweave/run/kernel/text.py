"""Pieces of C: numbers, and lines with their indentation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from inweave.run.kernel.indices import ZERO, Index


class Refused(Exception):
    """Why a plan does not run as one kernel."""


@dataclass(frozen=True)
class Numbers:
    """Numbers of a dtype, float32 or float64, as they stand in C."""

    dtype: str

    def __call__(self, number: float) -> str:
        with np.errstate(over="ignore"):
            number = float(np.dtype(self.dtype).type(number))
        if np.isinf(number):
            return "INF" if number > 0 else "(-INF)"
        text = f"{number:.9g}" if self.dtype == "float32" else repr(number)
        if not any(c in text for c in ".en"):
            text += ".0"
        text += "f" if self.dtype == "float32" else ""
        return f"({text})" if number < 0 else text

    @property
    def largest(self) -> float:
        return float(np.finfo(self.dtype).max)

    @property
    def bytes(self) -> int:
        return np.dtype(self.dtype).itemsize

    def inside(self, end: float, side: int) -> str:
        """The end of an interval, rounded to the side of its inside."""
        kind = np.dtype(self.dtype).type
        with np.errstate(over="ignore"):
            found = kind(end)
        if (float(found) - end) * side < 0:
            found = np.nextafter(found, kind(side * np.inf))
        return self(float(found))


class Lines:
    """Lines of C under construction."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.depth = 1

    def __call__(self, line: str) -> None:
        self.found.append("  " * self.depth + line if line else "")

    def __str__(self) -> str:
        return "\n".join(self.found) + "\n"

    @contextmanager
    def block(self, head: str, pragma: str = "") -> Iterator[None]:
        """A head and braces around what is written inside."""
        if pragma:
            self(pragma)
        self(f"{head} {{".lstrip())
        self.depth += 1
        yield
        self.depth -= 1
        self("}")

    @contextmanager
    def loop(self, name: str, stop: int | str, unroll: str = "UNROLL") -> Iterator[Index]:
        """A loop over an index; one step is no loop."""
        if stop == 1:
            with self.block(""):
                yield ZERO
            return
        with self.block(f"for (int {name} = 0; {name} < {stop}; {name}++)", unroll):
            yield Index(name)
