"""Figures and tables from stored results: nothing is computed, what is shown is what was run.

`report` takes result files of experiments and folders of training runs. matplotlib is needed for
the figures only.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inweave.atomic import atomically, check_apart, write
from inweave.errors import needs_extra
from inweave.lab.results import read_result

# what a row may say beside its loss, in the order of the columns
EXTRA = {
    "median": "the median over seeds and problems, where the loss is the mean",
    "wild": "the share of problems missed by 100 times the zero predictor's loss or more",
    "skipped": "the share of training steps not taken, because the gradient overflowed",
    "best_seed": "the loss of the best seed",
    "cosine": "the mean cosine between its sensitivities and the trained network's",
    "nearest": "for each seed the number of gradient steps, up to 8, whose predictions are nearest",
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
    lines = [
        f"## {result['name']}",
        "",
        result.get("question", ""),
        "",
        f"`{result['command']}`",
        "",
    ]
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
    for claim in result["claims"]:
        verdict = "holds" if claim["holds"] else "does not hold"
        lines.append(f"- {claim['claim']}: **{verdict}** ({claim['value']:.4g})")
    return "\n".join(lines) + "\n"


def _cell(value: float | str | None) -> str:
    return "" if value is None else value if isinstance(value, str) else number(value)


def figure(result: dict[str, Any], path: Path) -> Path:
    """The series of a result, one colour per group, with the reference lines."""
    with needs_extra("a figure", "lab"):
        import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = list(dict.fromkeys(s["panel"] for s in result["series"] if "panel" in s))
    size = (8.0, 0.26 * len(result["rows"]) + 1.5) if result.get("bars") else (7.0, 4.2)
    if panels:
        size = (3.1 * len(panels) + 0.6, 3.6)
    drawing, axes = plt.subplots(1, len(panels) or 1, figsize=size, layout="constrained")
    if panels:
        _panels(drawing, list(axes) if len(panels) > 1 else [axes], result, panels)
    elif result.get("bars"):
        _bars(axes, result)
    else:
        _curves(axes, result)
    with atomically(path) as file:
        drawing.savefig(file, format="png", dpi=110, metadata={"Software": ""})
    plt.close(drawing)
    return path


def _curves(axes: Any, result: dict[str, Any]) -> None:
    groups: dict[str, str] = {}
    for series in result["series"]:
        known = series["group"] in groups
        colour = groups.setdefault(series["group"], f"C{len(groups)}")
        axes.plot(series["x"], series["y"], color=colour, lw=1.3, alpha=0.85,
                  label=None if known else series["group"])  # fmt: skip
    for i, line in enumerate(result["lines"]):
        style = ("--", ":", "-.")[i % 3]
        axes.axhline(line["y"], color="0.25", ls=style, lw=1, label=line["label"])
    axes.set_xlabel(result["axes"]["x"])
    axes.set_ylabel(result["axes"]["y"])
    if result["axes"].get("log"):
        axes.set_yscale("log")
    if "symlogx" in result["axes"]:
        axes.set_xscale("symlog", linthresh=result["axes"]["symlogx"])
        axes.set_xlim(left=0.0)
    if not result["axes"].get("log") and (limits := _range(result)):
        axes.set_ylim(*limits)
    axes.legend(fontsize=8, frameon=False)


def _panels(drawing: Any, axes: list[Any], result: dict[str, Any], panels: list[str]) -> None:
    """A panel for each task: curves with their intervals, and what is known beside them."""
    colours: dict[str, str] = {}
    for at, panel in zip(axes, panels, strict=True):
        for s in (s for s in result["series"] if s["panel"] == panel):
            known = s["group"] in colours
            colour = colours.setdefault(s["group"], f"C{len(colours)}")
            at.plot(s["x"], s["y"], "o-", color=colour, lw=1.3, ms=3.5,
                    label=None if known else s["group"])  # fmt: skip
            at.fill_between(s["x"], s["low"], s["high"], color=colour, alpha=0.2, lw=0)
        for i, line in enumerate(line for line in result["lines"] if line["panel"] == panel):
            at.axhline(line["y"], color="0.4", ls=("--", ":", "-.")[i % 3], lw=0.9)
            at.annotate(line["label"], (0.98, line["y"]), xycoords=("axes fraction", "data"),
                        ha="right", va="bottom", fontsize=6, color="0.3")  # fmt: skip
        at.set_title(panel, fontsize=9)
        at.set_xlabel(result["axes"]["x"], fontsize=8)
        at.set_xticks(sorted({x for s in result["series"] for x in s["x"]}))
        at.tick_params(labelsize=7)
        if result["axes"].get("log"):
            at.set_yscale("log")
    axes[0].set_ylabel(result["axes"]["y"], fontsize=8)
    drawing.legend(loc="outside lower center", ncols=len(colours), fontsize=8, frameon=False)


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


def _bars(axes: Any, result: dict[str, Any]) -> None:
    """One line per row with a group: its mean and interval, and the median where means mislead.

    Rows without a group are references, drawn as vertical lines.
    """
    from matplotlib.ticker import LogLocator, NullFormatter

    rows = [row for row in reversed(result["rows"]) if "group" in row]
    references = [row for row in result["rows"] if "group" not in row]
    top = 3 * max((row["loss"]["mean"] for row in references), default=math.inf)
    colours: dict[str, str] = {}
    for row in reversed(rows):
        if row["group"] not in colours:
            colours[row["group"]] = f"C{len(colours)}"
            axes.plot([], [], "o", color=colours[row["group"]], label=row["group"])
    for i, row in enumerate(rows):
        loss, colour = row["loss"], colours[row["group"]]
        inside = loss["mean"] < top
        axes.plot(loss["mean"] if inside else top, i, "o" if inside else ">", color=colour, ms=5)
        if loss["low"] < top:
            axes.plot([loss["low"], min(loss["high"], top)], [i, i], color=colour, lw=2)
        if "wild" in row and row["median"] < top:
            axes.plot(row["median"], i, "|", color=colour, ms=9, mew=2)
    axes.set_yticks(range(len(rows)), [row["label"] for row in rows], fontsize=7)
    for i, row in enumerate(references):
        at, style = row["loss"]["mean"], ("--", ":", "-.")[i % 3]
        axes.axvline(at, color="0.4", lw=0.8, ls=style)
        axes.text(at, len(rows) - 0.2, row["label"], fontsize=6, rotation=90, ha="center")
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.set_xscale("log")
    if not references:  # little more than a decade: name the steps within it
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.legend(fontsize=8, loc="upper left", framealpha=1.0)
    said = f"{result['loss']}: ● mean with 95 % interval"
    said += f" (▶: above {top:.2g}), | median" if references else ""
    axes.set_xlabel(said, fontsize=8)
