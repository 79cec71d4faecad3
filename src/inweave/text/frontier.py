"""A frontier in words: a table of sizes, with a star at each that is proved to be least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inweave.proof.bounds import Bounds

COLUMNS = {"depth": "layers", "heads": "heads", "width": "columns", "flops": "flops"}


def describe(
    title: str,
    rows: Sequence[Mapping[str, Any]],
    bounds: Bounds,
    beaten: int,
    left_out: Mapping[str, str],
) -> str:
    """The table that `print(frontier)` shows."""
    found, each = many(len(rows), "network"), "each " * (len(rows) > 1)
    lines = [f"{title}: {found} that no other one beats ({beaten} beaten), {each}verified", ""]
    lines += _table(rows)
    lines += ["", *_proved(rows, bounds), *_fewest(rows, bounds)]
    reasons: dict[str, list[str]] = {}
    for name, why in left_out.items():
        reasons.setdefault(why.partition(". ")[0], []).append(name)
    lines += [f"left out: {'; '.join(names)}: {why}" for why, names in reasons.items()]
    return "\n".join(lines)


def many(number: int, thing: str) -> str:
    """A number of things.

    >>> many(1, "head"), many(2, "head")
    ('1 head', '2 heads')
    """
    return f"{number} {thing}{'s' * (number != 1)}"


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    cells = [["network", *COLUMNS.values(), "tokens"]]
    for row in rows:
        numbers = [f"{row[name]}{star(row, name)}" for name in COLUMNS]
        cells.append([row["network"], *numbers, f"{row['tokens']} "])
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    left, *right = widths
    lines = [[first.ljust(left), *map(str.rjust, numbers, right)] for first, *numbers in cells]
    return ["  ".join(line).rstrip() for line in lines]


def star(row: Mapping[str, Any], name: str) -> str:
    """A star, or a space that keeps digits below one another."""
    return "*" if name in row["proved_least"] else " "


def _proved(rows: Sequence[Mapping[str, Any]], bounds: Bounds) -> list[str]:
    """What a star stands for, and what would earn one."""
    degree = bounds.degree
    lines = []
    if degree is None:
        lines.append("no lower bound of the layers: the program has pointwise functions")
    else:
        lines.append(f"layers: at least {bounds.depth} {degree.holds} ({degree})")
    alone = "if each entry of an input has one of the prompt to itself"
    lines.append(f"columns: at least {bounds.entries} / tokens, {alone}")
    starred = any(row["proved_least"] for row in rows)
    return [*lines, "* proved least"] if starred else lines


def _fewest(rows: Sequence[Mapping[str, Any]], bounds: Bounds) -> list[str]:
    """Fewest heads and columns that were found at the least depth that was found."""
    least = min(row["depth"] for row in rows)
    there = [row for row in rows if row["depth"] == least]
    heads, width = (min(row[name] for row in there) for name in ("heads", "width"))
    proved = " (proved least)" if bounds.degree is not None and least == bounds.depth else ""
    found = f"{many(heads, 'head')}, {many(width, 'column')}"
    return [f"fewest found at {many(least, 'layer')}{proved}: {found}"]
