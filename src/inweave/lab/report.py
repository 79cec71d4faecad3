"""Figures and tables from stored results: nothing is computed, what is shown is what was run.

`report` takes result files of experiments and folders of training runs. matplotlib is needed for
the figures only.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from inweave.atomic import atomically, check_apart, write
from inweave.errors import needs_extra
from inweave.lab.results import read_result

DASHES = ("--", ":", "-.", (0, (1, 4)), (0, (6, 3, 1, 3, 1, 3)))  # of what was not trained
MARKERS = "osD^"  # with ten colours, no two of twenty lines are alike
# what a row may say beside its loss, in the order of the columns
EXTRA = {
    "median": "the median over problems (and over seeds), where the loss is a mean",
    "failed": "the share of problems missed by 10 times the zero predictor's loss or more",
    "dropped": "the share of training problems left out, because their gradient overflowed",
    "cosine": "the mean cosine between its sensitivities and the trained network's",
    "to_construction": "the mean squared distance to the construction's predictions, as a loss",
    "to_chebyshev": "that to as many steps of Chebyshev's method",
    "to_newton": "that to as many steps of Newton's",
    "to_polynomial": "that to the best polynomial with as many coefficients",
    "descent_steps": "the number of gradient steps, up to a million, whose predictions are nearest",
    "response_lam": "how predictions respond to λ in the prompt: 1 as ridge regression's, 0 not",
    "response_eta": "how they respond to η in the prompt: 1 as the construction's, 0 not",
    "gauge": "the largest relative distance of a layer to the construction's, in a gauge",
    "parameters": "how many numbers are trained",
    "products": "the scalar multiplications of all layers, in the cheapest order",
}


def report(sources: Sequence[Path], out: Path | None = None) -> list[Path]:
    """Write a PNG and a Markdown table for each source; returns the files."""
    made = []
    for source in sources:
        result = read_result(source)
        folder = out or (source if source.is_dir() else source.parent)
        folder.mkdir(parents=True, exist_ok=True)
        stem = f"lab-{result['name']}"
        text, drawing = folder / f"{stem}.md", folder / f"{stem}.png"
        for path in (text, drawing):
            check_apart(path, sources)
        write(text, markdown(result))
        made += [text, figure(result, drawing)]
    return made


def number(value: float) -> str:
    """Four decimals, or a power of ten where they would say nothing."""
    small = 0 < abs(value) < 5e-4
    return f"{value:.4f}" if abs(value) < 1000 and not small else f"{value:.1e}"


def markdown(result: dict[str, Any]) -> str:
    """The rows and claims of a result as Markdown."""
    question, command = result.get("question", ""), f"`{result['command']}`"
    lines = [f"## {result['name']}", "", question, "", command, ""]
    if result["rows"]:
        columns = [name for name in EXTRA if any(name in row for row in result["rows"])]
        loss_name = result.get("loss", "loss")
        lines.append("| " + " | ".join(["", loss_name, "95 % interval", *columns]) + " |")
        lines.append("| " + " | ".join(["---"] * (3 + len(columns))) + " |")
        for row in result["rows"]:
            loss = row["loss"]
            cells = [row["label"].strip(), number(loss["mean"])]
            cells.append(f"{number(loss['low'])} to {number(loss['high'])}")
            cells += [_cell(row.get(name)) for name in columns]
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    lines += [f"- {_said(claim)}" for claim in result["claims"]]
    return "\n".join(lines) + "\n"


def aligned(
    rows: Sequence[Mapping[str, Any]], loss: str, interval: str, columns: Sequence[str], wide: int
) -> str:
    """The rows as aligned text, losses in a column so `wide`."""
    lines = [("", loss, interval, *columns)]
    for row in rows:
        mean, low, high = (number(row["loss"][end]) for end in ("mean", "low", "high"))
        more = (_cell(row.get(name)) for name in columns)
        lines.append((row["label"], mean, f"[{low}, {high}]", *more))
    first, widths = max(len(label) for label, *_ in lines), (wide, 20, *(10 for _ in columns))
    return "\n".join(
        "  ".join([label.ljust(first), *map(str.rjust, cells, widths)]) for label, *cells in lines
    )


def _said(claim: Mapping[str, Any]) -> str:
    """A claim with its number, or with a factor, its interval and Holm's p."""
    verdict = "holds" if claim["holds"] else "does not hold"
    if "p" not in claim:
        return f"{claim['claim']}: **{verdict}** ({claim['value']:.4g})"
    factor, low, high = (f"{10 ** claim[key]:.3g}" for key in ("value", "low", "high"))
    p = f"p = {claim['p']:.2g} in a family of {claim['family']}"
    return f"{claim['claim']}: **{verdict}** (x {factor} [{low}, {high}], {p})"


def _cell(value: float | str | None) -> str:
    return "" if value is None else value if isinstance(value, str) else number(value)


def figure(result: dict[str, Any], path: Path) -> Path:
    """The series of a result, one colour per group, with the reference lines."""
    with needs_extra("a figure", "lab"):
        import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    if panels := list(_in_panels(result)):
        height = 3.6 + 0.15 * max(_legend_rows(panel) for panel in panels)
        rows = 1 if len(panels) <= 5 else 2
        columns = math.ceil(len(panels) / rows)
        drawing, every = plt.subplots(
            rows, columns, figsize=(3.4 * columns + 0.6, rows * height), layout="constrained",
            squeeze=False,
        )  # fmt: skip
        for axes, panel in zip(every.flat, panels, strict=False):
            _panel(axes, panel)
        for axes in every.flat[len(panels) :]:
            axes.remove()
    else:
        drawing, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
        _curves(axes, result)
    with atomically(path) as file:
        drawing.savefig(file, format="png", dpi=110, metadata={"Software": ""})
    plt.close(drawing)
    return path


def _curves(axes: Any, result: dict[str, Any]) -> None:
    groups: dict[str, str] = {}
    for series in result["series"]:
        group = str(series.get("group", ""))
        known = group in groups
        colour = groups.setdefault(group, f"C{len(groups)}")
        axes.plot(series["x"], series["y"], color=colour, lw=1.3, alpha=0.85,
                  label=None if known else group)  # fmt: skip
    for i, line in enumerate(result["lines"]):
        style = ("--", ":", "-.")[i % 3]
        axes.axhline(line["y"], color="0.25", ls=style, lw=1, label=line["label"])
    axes.set_xlabel(result["axes"]["x"])
    axes.set_ylabel(result["axes"]["y"])
    if result["axes"].get("log"):
        axes.set_yscale("log")
    if not result["axes"].get("log") and (limits := _range(result)):
        axes.set_ylim(*limits)
    if groups or result["lines"]:
        axes.legend(fontsize=8, frameon=False)


def _range(result: dict[str, Any]) -> tuple[float, float] | None:
    """Where the curves spend their time, so that no first loss and no spike hides the rest."""
    finite = [[y for y in s["y"] if math.isfinite(y)] for s in result["series"]]
    levels = [line["y"] for line in result["lines"] if math.isfinite(line["y"])]
    if not any(finite) and not levels:
        return None
    high = max([statistics.median(y) for y in finite if y] + levels)
    low = min([min(y) for y in finite if y] + levels)
    room = max(high - low, 0.1 * abs(high))
    return low - 0.1 * room, high + 0.3 * room


def _in_panels(result: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The panels of a result, which it gives whole or by naming one with every curve and line."""
    yield from result.get("panels", ())
    series = [one for one in result["series"] if "panel" in one]
    for title in dict.fromkeys(one["panel"] for one in series):
        lines = [one for one in series if one["panel"] == title]
        ends = [end(x for one in lines for x in one["x"]) for end in (min, max)]
        known = [{"label": one["label"], "x": ends, "y": [one["y"]] * 2, "dashed": True}
                 for one in result["lines"] if one["panel"] == title]  # fmt: skip
        yield {**result["axes"], "title": title, "lines": lines + known}


def _panel(axes: Any, panel: Mapping[str, Any]) -> None:
    """Lines with intervals over seeds; what was not trained is dashed."""
    trained, known = itertools.count(), itertools.count()
    for line in panel["lines"]:
        dashed = line.get("dashed", False)
        i = next(known if dashed else trained)
        colour = "0.4" if dashed else f"C{i % 10}"
        style = DASHES[i % len(DASHES)] if dashed else "-" if i < 10 else (0, (5, 1))
        axes.plot(line["x"], line["y"], color=colour, ls=style, lw=1.3,
                  marker=None if dashed or len(line["x"]) > 12 else MARKERS[i % 4], ms=4,
                  label=line["label"])  # fmt: skip
        if "low" in line:
            axes.fill_between(line["x"], line["low"], line["high"], color=colour, alpha=0.18, lw=0)
    if not panel.get("log"):
        axes.axhline(0.0, color="0.8", lw=0.8)
    elif _is_wide(panel):
        axes.set_yscale("log")
    if panel.get("logx"):
        axes.set_xscale("log", base=2)
    if "symlogx" in panel:
        axes.set_xscale("symlog", linthresh=panel["symlogx"])
        axes.set_xlim(left=0.0)
    ticks = sorted({x for line in panel["lines"] for x in line["x"]})
    if len(ticks) <= 8 and "symlogx" not in panel:
        axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
    axes.set_title(panel["title"], fontsize=9)
    axes.set_xlabel(panel["x"])
    axes.set_ylabel(panel["y"])
    if panel["lines"]:  # below the axes, where it hides no curve
        columns = math.ceil(len(panel["lines"]) / _legend_rows(panel))
        axes.legend(fontsize=6.5, frameon=False, ncols=columns, loc="upper center",
                    bbox_to_anchor=(0.5, -0.16))  # fmt: skip


def _is_wide(panel: Mapping[str, Any]) -> bool:
    """Whether values differ so much that a logarithmic axis has numbers to show them by."""
    values = [y for line in panel["lines"] for y in line["y"] if y > 0]
    return bool(values) and max(values) > 5 * min(values)


def _legend_rows(panel: Mapping[str, Any]) -> int:
    """Two columns, if the labels are short."""
    labels = [line["label"] for line in panel["lines"]]
    return math.ceil(len(labels) / 2) if max(map(len, labels), default=0) <= 24 else len(labels)
