"""Results of methods on suites: as a record, and as a table with intervals.

A number of the table is a mean over models, and its interval what the mean of as many models is in
95 of 100 draws of them with replacement (the percentile bootstrap). All suites are compared on the
same models: those that are small enough in each.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from inweave.circuit.graph import Circuit
from inweave.circuits.load import CIRCUIT, INDEX, MADE, Dial, Index, Made, load, read_json
from inweave.errors import InputError
from inweave.exact import schema
from inweave.exact.schema import Line, Natural

MOST = 5000  # possible edges of a model
DRAWS = 10_000


@dataclass(frozen=True)
class Row:
    """What one method makes of one model at one dial."""

    dial: Dial
    model: Line
    method: Line
    measures: dict[str, float | None]


@dataclass(frozen=True)
class Built:
    """What a suite is, measured or not: how many models, and how many of them are proved."""

    dial: Dial
    models: Natural
    proved: Natural


@dataclass(frozen=True)
class Results:
    """All that was measured on suites of one seed."""

    seed: Natural
    most: Natural
    suites: tuple[Built, ...]
    models: tuple[Line, ...]
    rows: tuple[Row, ...]

    def to_json(self) -> str:
        return schema.dumps(schema.write(Results, self)) + "\n"

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Results:
        return read_json(Path(path), cls)


def measure(
    suites: Sequence[str | os.PathLike[str]],
    *,
    most: int = MOST,
    progress: Callable[[str], None] = lambda _: None,
) -> Results:
    """Every method on every model that has at most so many possible edges in each suite."""
    from inweave.circuits.baselines import methods

    folders = [Path(suite) for suite in suites]
    indices = [read_json(folder / INDEX, Index) for folder in folders]
    if len({index.seed for index in indices}) != 1:
        raise InputError("suites are compared model by model: build them with one seed")
    every = [name for name in indices[0].models if all(name in i.models for i in indices)]
    names = [name for name in every if all(_edges(folder / name) <= most for folder in folders)]
    rows, ways = list[Row](), methods()
    for index, folder in zip(indices, folders, strict=True):
        for name in names:
            progress(f"{name} at {index.dial}")
            model = load(folder / name)
            rows += [Row(index.dial, name, what, how(model)) for what, how in ways.items()]
    made = tuple(map(built, folders))
    return Results(indices[0].seed, most, made, tuple(names), tuple(rows))


def built(folder: Path) -> Built:
    """What a suite's folder holds."""
    index = read_json(folder / INDEX, Index)
    ways = [read_json(folder / name / MADE, Made).proof for name in index.models]
    return Built(index.dial, len(ways), ways.count("algebra"))


def _edges(folder: Path) -> int:
    return len(read_json(folder / CIRCUIT, Circuit).possible())


def interval(values: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """Where the mean of as many values lies in 95 of 100 draws."""
    rng = np.random.default_rng(seed)
    drawn = np.asarray(values)[rng.integers(len(values), size=(DRAWS, len(values)))]
    low, high = np.quantile(drawn.mean(1), [0.025, 0.975])
    return float(low), float(high)


def table(results: Results) -> str:
    """Every method and measure, one column for each dial, in markdown."""
    dials = sorted({row.dial for row in results.rows})
    found: dict[tuple[str, str], dict[object, list[float]]] = {}
    for row in results.rows:
        for name, value in row.measures.items():
            cell = found.setdefault((row.method, name), {}).setdefault(row.dial, [])
            if value is not None:
                cell.append(value)
    lines = [
        "| method | what is found | " + " | ".join(f"dial {dial}" for dial in dials) + " |",
        "| --- | --- |" + " ---: |" * len(dials),
    ]
    for (method, what), cells in found.items():
        said = " | ".join(_cell(cells.get(dial, [])) for dial in dials)
        lines.append(f"| {method} | {what} | {said} |")
    return "\n".join(lines) + "\n"


def _cell(values: Sequence[float]) -> str:
    if not values:
        return "–"
    low, high = interval(values)
    return f"{np.mean(values):.3f} [{low:.3f}, {high:.3f}]"
