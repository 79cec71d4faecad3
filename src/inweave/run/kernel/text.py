"""Pieces of C: numbers, and lines with their indentation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from inweave.run.kernel.indices import ZERO, Index


class Refused(Exception):
    """Why a plan does not run as one kernel."""


@dataclass(frozen=True)
class Numbers:
    """Numbers of a dtype, float32 or float64, as they stand in C."""

    dtype: str

    def __call__(self, number: float) -> str:
        (text,) = self.listed(np.array([number]))
        return f"({text})" if text.startswith("-") else text

    def listed(self, numbers: np.ndarray[Any, Any]) -> list[str]:
        """Numbers as they stand in a list of C."""
        with np.errstate(over="ignore"):
            found = numbers.astype(np.float64).astype(self.dtype).ravel().tolist()
        narrow = self.dtype == "float32"
        return [_narrow(x) if narrow else _wide(x) for x in found]

    @property
    def largest(self) -> float:
        return float(np.finfo(self.dtype).max)

    @property
    def bytes(self) -> int:
        return np.dtype(self.dtype).itemsize


def _narrow(number: float) -> str:
    """A float of C; what looks like a whole number gets its point."""
    text = f"{number:.9g}"
    if text.lstrip("-").isdigit():
        text += ".0"
    return f"{text}f" if text[-1] != "f" else _wide(number)


def _wide(number: float) -> str:
    """A double of C."""
    return repr(number) if abs(number) < np.inf else f"{'-' * (number < 0)}INF"


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
