"""One line of the benchmark, and how a family hands lines over."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.measure import Spread


@dataclass(frozen=True)
class Row:
    """A measured number with its quartiles, the bar it has to stay under, and what is behind it.

    `unit` is '×' for a ratio to `against`, 'µs' for a difference to it, 's', 'ms', 'MB', or
    'exponent'. `seconds` are medians of everything timed for this row. `curve` holds the points of
    a growth row. A row that was left out says why in its note; its value is what was too much.
    """

    family: str
    name: str
    value: float
    low: float
    high: float
    unit: str = "×"
    against: str = ""
    threads: int = 1
    bar: float | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    curve: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.family}, {self.name}: {self.value} is not between quartiles")

    @classmethod
    def of(cls, family: str, name: str, measured: Spread | float, **more: Any) -> Row:
        """The row of a median with its quartiles, or of one number."""
        it = measured if isinstance(measured, Spread) else Spread(measured, measured, measured)
        return cls(family, name, it.median, it.low, it.high, **more)

    @classmethod
    def slowest(cls, family: str, name: str, found: Mapping[str, float], **more: Any) -> Row:
        """The row of the one that takes longest; its note says which that is."""
        which = max(found, key=lambda one: found[one])
        spread = Spread(min(found.values()), found[which], found[which])
        return cls.of(family, name, spread, note=f"{which}, of {len(found)}", **more)

    @classmethod
    def median_of(cls, family: str, rows: Sequence[Row], **more: Any) -> Row:
        """The row of the median over some, between the least and the worst."""
        values = [row.value for row in rows]
        spread = Spread(min(values), statistics.median(values), max(values))
        return cls.of(family, "median of these (least, worst)", spread, **more)

    @property
    def met(self) -> bool | None:
        """Whether the bar is met; None where there is none."""
        return None if self.bar is None else self.value <= self.bar

    def to_json(self) -> dict[str, Any]:
        """A plain dict, without what is empty."""
        return {name: value for name, value in asdict(self).items() if value not in ("", {}, None)}


def from_json(found: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Rows as `to_json` wrote them."""
    return [Row(**row) for row in found]
