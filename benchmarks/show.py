"""Rows for people: a table on the terminal, tables in Markdown, a plot."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.row import Row

MARKS = {True: "met", False: "missed", None: ""}


def number(x: float) -> str:
    """Three digits, without an exponent where a person would not write one."""
    return f"{x:,.0f}" if x >= 100 else f"{x:.3g}"


def spread(row: Row) -> str:
    return "" if row.low == row.high else f"{number(row.low)} to {number(row.high)}"


def seconds(row: Row) -> str:
    """The medians behind a ratio, in one unit."""
    if not row.seconds:
        return ""
    unit, factor = ("ms", 1e3) if min(row.seconds.values()) >= 1e-3 else ("µs", 1e6)
    parts = (f"{name} {number(value * factor)}" for name, value in row.seconds.items())
    return ", ".join(parts) + f" {unit}"


def cells(row: Row) -> list[str]:
    """A row as the columns of any table."""
    unit = "" if row.unit == "exponent" else f" {row.unit}" if row.unit != "×" else "×"
    bar = "" if row.bar is None else f"≤ {number(row.bar)}"
    note = "; ".join(filter(None, (seconds(row), row.note)))
    return [row.name, str(row.threads), number(row.value) + unit, spread(row), row.against, bar,
            MARKS[row.met], note]  # fmt: skip


HEADINGS = ("row", "threads", "measured", "quartiles", "against", "bar", "", "medians")


def table(rows: list[Row]) -> None:
    """All rows on the terminal."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        console = Console(width=180)
    for family in dict.fromkeys(row.family for row in rows):
        shown = Table(title=family, title_justify="left", header_style="bold")
        for heading in HEADINGS:
            shown.add_column(heading, overflow="fold")
        for row in rows:
            if row.family == family:
                style = {True: "green", False: "red", None: None}[row.met]
                parts = cells(row)
                parts[6] = f"[{style}]{parts[6]}[/]" if style else parts[6]
                shown.add_row(*parts)
        console.print(shown)


def markdown(rows: list[Row], family: str) -> str:
    """One family as a Markdown table."""
    lines = ["| " + " | ".join(HEADINGS) + " |", "| " + " | ".join("---" for _ in HEADINGS) + " |"]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in rows if row.family == family]
    return "\n".join(lines)


def by_entry(rows: list[Row], family: str) -> str:
    """The gallery of one library: a line for every entry and other code, a column for every size.

    A ratio in brackets is beside code that takes less than what the bar counts from.
    """
    lines: dict[tuple[str, str], dict[str, str]] = {}
    if not any(row.family == family for row in rows):
        return "Not stored yet."
    for row in rows:
        entry, _, size = row.name.partition(" ")
        if row.family == family and row.against:
            against = row.against.partition(", ")[2]
            shown = (
                number(row.value) if row.bar or against != "by hand" else f"({number(row.value)})"
            )
            size, _, rest = size.partition(", ")
            key = (f"{entry}, {rest}" if rest else entry, against)
            lines.setdefault(key, {})[size.replace("batch=", "by ")] = shown
    sizes = list(dict.fromkeys(size for line in lines.values() for size in line))
    cells = [["entry", "beside", *sizes], ["---"] * (2 + len(sizes))]
    cells += [[*key, *(line.get(size, "") for size in sizes)] for key, line in lines.items()]
    told = "\n".join("| " + " | ".join(line) + " |" for line in cells)
    return f"{summary(rows, family)}\n\n{told}"


def summary(rows: list[Row], family: str, named: int = 8) -> str:
    """The gallery of one library in a few lines: rows that count, all, and what is left out."""
    mine = [row for row in rows if row.family == family]
    beside = [row for row in mine if row.against.endswith(", by hand")]
    lines = [
        f"- {len(some)} {what}: {_spread_of(some)}; worst "
        + ", ".join(f"{row.name} {number(row.value)}" for row in worst)
        for what, some in (
            (
                "rows count, where the code by hand takes 100 µs or more",
                [r for r in beside if r.bar],
            ),
            ("rows in all", beside),
        )
        if some
        for worst in [sorted(some, key=lambda row: -row.value)[:named]]
    ]
    reasons = Counter(row.note for row in mine if row.note.startswith("left out: "))
    return "\n".join([*lines, *(f"- {count} {why}" for why, count in reasons.items())])


def _spread_of(rows: list[Row]) -> str:
    values = [row.value for row in rows]
    below = sum(value <= 1.5 for value in values) / len(values)
    return f"median {number(median(values))}, {below:.0%} at most 1.5"


def above(rows: list[Row]) -> str:
    """The rows of the gallery that miss their bar, an entry of a library on a line."""
    entries: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        kind, _, library = row.family.partition(", ")
        entry, _, size = row.name.partition(" ")
        if kind == "gallery" and row.met is False and row.against:
            said = f"{number(row.value)} ({size.replace('batch=', 'by ')})"
            entries.setdefault((entry, library), []).append(said)
    if not entries:
        return "No row is."
    lines = ["| entry | library | rows |", "| --- | --- | --- |"]
    lines += [f"| {entry} | {library} | {', '.join(found)} |"
              for (entry, library), found in entries.items()]  # fmt: skip
    return "\n".join(lines)


def plot(rows: list[Row], path: Path) -> None:
    """Ratios with their quartiles beside the bars, and growth on log axes."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    ratios = [r for r in rows if r.family.startswith("ridge, ") and not r.name.startswith("median")]
    curves = [r for r in rows if r.curve]
    figure, axes = plt.subplots(
        1, 2, figsize=(13, 7), width_ratios=(3, 2), layout="constrained", squeeze=True
    )
    _ratios(axes[0], ratios)
    _growth(axes[1], curves)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _ratios(axis: Any, rows: list[Row]) -> None:
    for i, row in enumerate(reversed(rows)):
        color = {1: "#2b6cb0", 2: "#dd6b20"}.get(row.threads, "#555555")
        axis.plot([row.low, row.high], [i, i], color=color, lw=3, alpha=0.4)
        axis.plot([row.value], [i], "o", color=color)
    labels = [f"{r.family.removeprefix('ridge, ')}: {r.name}" for r in reversed(rows)]
    axis.set_yticks(range(len(rows)), labels, fontsize=8)
    axis.axvline(1.0, color="#999999", lw=1)
    for bar, label in ((1.15, "bar for the median"), (1.5, "bar for the worst")):
        axis.axvline(bar, color="#c53030", lw=1, ls="--")
        axis.text(
            bar, 1.005, label, fontsize=7, color="#c53030", ha="center",
            transform=axis.get_xaxis_transform(), in_layout=False,
        )  # fmt: skip
    axis.set_ylim(-1, len(rows))
    axis.set_xlabel("time of the network / time of the better hand-written loop")
    axis.set_title("Ridge gradient descent, 100 steps (blue: 1 thread, orange: 2)\n", fontsize=10)


def _growth(axis: Any, rows: list[Row]) -> None:
    for row, color in zip(rows, ("#2b6cb0", "#dd6b20", "#2f855a", "#805ad5"), strict=False):
        curve = row.curve
        first = curve["values"][0]
        times = [value / first for value in curve["values"]]
        label = f"{curve['variable']}: exponent {row.value:.2f}"
        axis.loglog(times, curve["inweave"], "o-", color=color, label=label)
        axis.loglog(times, curve["by hand"], "x:", color=color)
    axis.set_xlabel("size / smallest size of the sweep")
    axis.set_ylabel("seconds")
    axis.set_title("Growth (solid: network, dotted: by hand)", fontsize=10)
    if rows:
        axis.legend(fontsize=8)
