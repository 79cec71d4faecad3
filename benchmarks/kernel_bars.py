"""What kernels reach beside what they must: the end of `python -m benchmarks.kernel`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

FIRST_S, KEPT_S = 1.5, 0.05  # seconds of a first call: with compilation, and from the disk


class Bar(NamedTuple):
    """A figure and what it must be."""

    case: str
    what: str
    value: float
    bar: float
    most: bool  # it is to be at most the bar; otherwise at least

    @property
    def is_met(self) -> bool:
        return self.value <= self.bar if self.most else self.value >= self.bar

    def __str__(self) -> str:
        sign, met = "<=" if self.most else ">=", "met   " if self.is_met else "MISSED"
        return f"{met} {self.case}: {self.what} {self.value:.3g}, {sign} {self.bar:g}"


def bars(found: Mapping[str, Any]) -> Iterator[Bar]:
    """Every bar of the cases and of the gallery's entries that were measured."""
    for row in found.get("cases", ()):
        if "failed" not in row:
            name = row["case"]
            yield Bar(
                name, "times faster than the best rival", row["times faster"], row["bar"], False
            )
            if row["most_ms"] is not None:
                yield Bar(name, "ms of net(...)", row["milliseconds"]["net"], row["most_ms"], True)
            yield from _first_calls(row)
    for row in found.get("entries", ()):
        if "failed" not in row:
            yield Bar(
                row["case"], "times faster than call by call", row["times faster"], 1.0, False
            )
            yield from _first_calls(row)


def _first_calls(row: Mapping[str, Any]) -> Iterator[Bar]:
    if "first call, s" in row:
        yield Bar(row["case"], "s of the first call", row["first call, s"], FIRST_S, True)
        yield Bar(row["case"], "s from the disk", row["from the cache, s"], KEPT_S, True)


def summary(found: Mapping[str, Any]) -> str:
    """All bars of the cases, those of entries that are missed, and what failed."""
    every = [*bars(found)]
    named = {row["case"] for row in found.get("cases", ())}
    lines = [str(bar) for bar in every if bar.case in named or not bar.is_met]
    rows = [row for part in ("cases", "entries") for row in found.get(part, ())]
    lines += [f"FAILED {row.get('case')}: {row['failed']}" for row in rows if "failed" in row]
    met = sum(bar.is_met for bar in every)
    return "\n".join([*lines, f"{met} of {len(every)} bars are met"])
