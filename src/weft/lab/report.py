"""Figures and tables from stored results: nothing is computed, what is shown is what was run.

`report` takes result files of experiments and folders of training runs. matplotlib is needed for
the figures only.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weft.errors import FileFormatError, InputError


def report(sources: Sequence[Path], out: Path | None = None) -> list[Path]:
    """Write a PNG and a Markdown table for each source; returns the files."""
    made = []
    for source in sources:
        result = _run_result(source) if source.is_dir() else _read(source)
        folder = out or (source if source.is_dir() else source.parent)
        folder.mkdir(parents=True, exist_ok=True)
        stem = f"lab-{result['name']}"
        text = folder / f"{stem}.md"
        text.write_text(markdown(result), encoding="utf-8")
        made += [text, figure(result, folder / f"{stem}.png")]
    return made


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise FileFormatError(f"{path} is not a result file: {error}") from None


def _run_result(folder: Path) -> dict[str, Any]:
    """A training run's curve and, if it was evaluated, its table."""
    metrics = folder / "metrics.jsonl"
    if not metrics.exists():
        raise InputError(f"{folder} holds no training run ({metrics.name} is missing)")
    entries = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    result: dict[str, Any] = {
        "name": folder.name,
        "command": f"weft lab train --out {folder.name}",
        "question": "",
        "series": [{"label": "training", "group": "training",
                    "x": [e["step"] for e in entries], "y": [e["loss"] for e in entries]}],
        "lines": [],
        "rows": [],
        "axes": {"x": "step", "y": "MSE"},
        "claims": [],
    }  # fmt: skip
    evaluation = folder / "evaluation.json"
    if evaluation.exists():
        for name, entry in _read(evaluation)["table"].items():
            result["rows"].append({"label": name, "loss": entry["loss"]})
            if name != "trained":
                result["lines"].append({"label": name, "y": entry["loss"]["mean"]})
    return result


def number(value: float) -> str:
    """Four decimals, or a power of ten where they would say nothing."""
    small = value != 0 and abs(value) < 5e-4
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
        lines += [f"| | {result['axes']['y'] if result.get('bars') else 'loss'} | 95 % interval |",
                  "| --- | --- | --- |"]  # fmt: skip
        for row in result["rows"]:
            loss = row["loss"]
            lines.append(
                f"| {row['label'].strip()} | {loss['mean']:.4f} "
                f"| {loss['low']:.4f} to {loss['high']:.4f} |"
            )
        lines.append("")
    for claim in result["claims"]:
        verdict = "holds" if claim["holds"] else "does not hold"
        lines.append(f"- {claim['claim']}: **{verdict}** ({claim['value']:.4g})")
    return "\n".join(lines) + "\n"


def figure(result: dict[str, Any], path: Path) -> Path:
    """The series of a result, one colour per group, with the reference lines."""
    try:
        import matplotlib
    except ImportError:
        raise InputError("figures need matplotlib: pip install weft[lab]") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    size = (8, 0.28 * len(result["rows"]) + 1.5) if result.get("bars") else (7, 4.2)
    drawing, axes = plt.subplots(figsize=size, layout="constrained")
    if result.get("bars"):
        _bars(axes, result)
    else:
        _curves(axes, result)
    drawing.savefig(path, dpi=110, metadata={"Software": ""})
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
    low, high = _range(result)
    if not result["axes"].get("log"):
        axes.set_ylim(low, high)
    axes.legend(fontsize=8, frameon=False)


def _range(result: dict[str, Any]) -> tuple[float, float]:
    """Where the curves end up, so that a first loss of 1000 does not hide the rest."""
    late = [y for s in result["series"] for y in s["y"][len(s["y"]) // 10 :] if y == y]
    levels = [line["y"] for line in result["lines"]]
    ordered = sorted(late)
    high = max([ordered[int(0.98 * (len(ordered) - 1))], *levels])
    low = min([ordered[0], *levels])
    pad = 0.08 * (high - low or 1.0)
    return low - pad, high + pad


def _bars(axes: Any, result: dict[str, Any]) -> None:
    """One line per row: the median, and the mean with its interval where that is in sight."""
    rows = [row for row in result["rows"] if "variant" in row]
    top = 3 * max(row["loss"]["mean"] for row in result["rows"] if "variant" not in row)
    for i, row in enumerate(reversed(rows)):
        loss, colour = row["loss"], "C1" if row["variant"]["bias"] else "C0"
        if loss["low"] < top:
            axes.plot([loss["low"], min(loss["high"], top)], [i, i], color=colour, lw=2)
        if loss["mean"] < top:
            axes.plot(loss["mean"], i, "o", color=colour, ms=5)
        if row["median"] < top:
            axes.plot(row["median"], i, "|", color=colour, ms=9, mew=2)
    axes.set_yticks(range(len(rows)), [row["label"] for row in reversed(rows)], fontsize=7)
    for i, row in enumerate(r for r in result["rows"] if "variant" not in r):
        style = ("--", ":", "-.")[i % 3]
        axes.axvline(row["loss"]["mean"], color="0.4", lw=0.8, ls=style)
        axes.text(row["loss"]["mean"], len(rows) - 0.3, row["label"], fontsize=6, rotation=45)
    axes.set_xscale("log")
    axes.set_xlabel("squared error: ● mean with 95 % interval, | median; beyond the right edge: > "
                    f"{top:.2g}", fontsize=8)  # fmt: skip
