"""Results that are kept: rows, and for every family on what and on which day it was measured.

Families are stored one at a time, some of them on other machines, so each keeps its own record.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.row import Row, from_json

RESULTS = Path(__file__).parent / "results"
LIBRARIES = ("numpy", "scipy", "torch", "jax", "scikit-learn")
Machine = Mapping[str, Any]


@dataclass(frozen=True)
class Stored:
    """The rows of a file, and the machine of each family."""

    rows: list[Row]
    machines: Mapping[str, Machine]

    @classmethod
    def read(cls, path: Path) -> Stored:
        """What a file keeps; nothing if there is none."""
        if not path.is_file():
            return cls([], {})
        found = json.loads(path.read_text(encoding="utf-8"))
        return cls(from_json(found["rows"]), found["machines"])

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        found = {"machines": self.machines, "rows": [row.to_json() for row in self.rows]}
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def replaced(self, rows: list[Row], on: Machine) -> Stored:
        """With the families of these rows in place of the old ones, in the order of the old."""
        fresh = dict.fromkeys(row.family for row in rows)
        order = dict.fromkeys(row.family for row in [*self.rows, *rows])
        told = [
            row
            for family in order
            for row in (rows if family in fresh else self.rows)
            if row.family == family
        ]
        return Stored(told, {f: on if f in fresh else self.machines[f] for f in order})

    def where(self) -> str:
        """Which families were measured when and on what, in a list."""
        kinds: dict[str, list[str]] = {}
        for family, found in self.machines.items():
            kinds.setdefault(_told(found), []).append(family)
        loads = {f: found["load"] for f, found in self.machines.items() if found.get("load")}
        return "\n".join(
            f"- {kind}{_range([loads[f] for f in families if f in loads])}: " + "; ".join(families)
            for kind, families in kinds.items()
        )


def _told(machine: Machine) -> str:
    """A machine without its load, which is never twice the same."""
    day = date.fromisoformat(machine["date"])
    parts = [f"{day.day} {day:%B %Y}"]
    if "device" in machine:
        parts.append(f"one {machine['device']}")
    if "cores" in machine:
        parts.append(f"{machine['cores']} cores ({machine['architecture']})")
    names = ("python", *LIBRARIES)
    return ", ".join([*parts, *(f"{n} {machine[n]}" for n in names if n in machine)])


def _range(loads: list[float]) -> str:
    if not loads:
        return ""
    low, high = round(min(loads)), round(max(loads))
    return f", a load of {low}" if low == high else f", loads of {low} to {high}"


def machine() -> dict[str, Any]:
    """What is measured on, in general terms, and when."""
    versions = {}
    for name in LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "date": date.today().isoformat(),
        "cores": os.cpu_count(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        **versions,
        "load": load,
    }
