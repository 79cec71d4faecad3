"""A frontier in words and as a picture: sizes, with a star at each that is proved to be least.

The picture has one row per network, a bar for each of its sizes, the bound as a line. Bars begin at
zero, so that twice as long is twice as much; each size has its own scale. A bar in colour is the
smallest of its column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from inweave.proof.bounds import Bounds

COLUMNS = {"depth": "layers", "heads": "heads", "width": "columns", "flops": "flops"}
INK, FAINT, BAR, BEST, PAPER = "#1f2328", "#59636e", "#9aa7b4", "#d95f02", "#fff"
ROW, BARS, GAP, TOP = 26, 120, 70, 64


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


# -- the picture -----------------------------------------------------------------------------------
def drawn(title: str, rows: Sequence[Mapping[str, Any]], bounds: Bounds) -> str:
    """The picture as the text of an SVG file."""
    left = 24 + 7.2 * max(len(row["network"]) for row in rows)
    width, height = left + len(COLUMNS) * (BARS + GAP) + 10, TOP + ROW * len(rows) + 44
    room = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {room} font-family="sans-serif" font-size="13">',
        f'<rect width="100%" height="100%" fill="{PAPER}"/>',
        _text(12, 24, f"Networks that no other one beats: {title}", INK, weight="bold"),
    ]
    for i, row in enumerate(rows):
        parts.append(_text(12, TOP + ROW * i + 17, row["network"], INK))
    for i, (name, label) in enumerate(COLUMNS.items()):
        x = left + i * (BARS + GAP)
        parts += [_text(x, TOP - 10, label, FAINT), *_bars(rows, name, x)]
        if name == "depth" and bounds.degree is not None:
            at = x + BARS * bounds.depth / max(row[name] for row in rows)
            parts.append(_line(at, TOP - 3, TOP + ROW * len(rows) + 3))
    parts.append(_text(12, height - 14, _legend(bounds), FAINT))
    return "\n".join([*parts, "</svg>", ""])


def _bars(rows: Sequence[Mapping[str, Any]], name: str, x: float) -> list[str]:
    most, least = (of(row[name] for row in rows) for of in (max, min))
    parts = []
    for i, row in enumerate(rows):
        y, long = TOP + ROW * i, BARS * row[name] / (most or 1)
        best = row[name] == least
        said = f"{row[name]:,}".replace(",", "\u2009")
        said += " *" if name in row["proved_least"] else ""
        parts.append(
            f'<rect x="{x:.1f}" y="{y + 5}" width="{max(long, 1):.1f}" height="{ROW - 10}" '
            f'fill="{BEST if best else BAR}"/>'
        )
        parts.append(_text(x + long + 6, y + 17, said, BEST if best else INK))
    return parts


def _legend(bounds: Bounds) -> str:
    said = "In colour: the smallest of all.  *: proved least."
    if bounds.degree is not None:
        said += f"  Dashed: lower bound, {bounds.depth} layers {bounds.degree.holds}."
    return said


def _text(x: float, y: float, said: str, colour: str, weight: str = "normal") -> str:
    how = f'fill="{colour}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {how}>{escape(said)}</text>'


def _line(x: float, top: float, bottom: float) -> str:
    return (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}" stroke="{INK}" '
        'stroke-dasharray="3 3"/>'
    )
