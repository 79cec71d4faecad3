"""Results of a study in the form of an experiment's answer: rows, claims, curves.

Losses are in units of the zero predictor's. A row has the mean over seeds of log₁₀ loss, taken back
to a loss, with Student's interval over seeds; a claim has a paired difference of log₁₀ losses or a
contrast of them with its interval, and the p-value that Holm gives it within its family.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from inweave.lab.inference import LEVEL, Effect, Interval, holm, t_interval
from inweave.lab.report import aligned
from inweave.lab.study import Results, problems
from inweave.lab.tasks import Batch, Task

PLAIN = "loss, of the zero predictor's"
EXCESS = "excess over Bayes, of the zero predictor's"
CURVE = ("x", "y", "low", "high")
SKEWED = 2.0  # beyond this, Student's interval over 20 seeds is too short


def over_seeds(log_losses: Sequence[float]) -> dict[str, float]:
    """The mean of log₁₀ losses with Student's interval, taken back to losses."""
    return {name: 10**value for name, value in t_interval(log_losses).asdict().items()}


def row(label: str, result: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A line of the table for an arm."""
    logs = result["log_loss"]
    return {
        "label": label, "loss": over_seeds(logs), "seeds": len(logs),
        "median": statistics.median(result["median"]),
        "failed": statistics.fmean(result["failed"]),
        "dropped": statistics.fmean(result["dropped"]),
        "parameters": result["parameters"],
        "log_loss": list(logs), **more,
    }  # fmt: skip


def loss(result: Mapping[str, Any]) -> float:
    """The mean over seeds of log₁₀ loss, taken back to a loss."""
    return float(10 ** statistics.fmean(result["log_loss"]))


def reference(label: str, loss: float) -> dict[str, Any]:
    """A line for what was not trained, evaluated on the same problems."""
    return {"label": label, "loss": {"mean": loss, "low": loss, "high": loss}}


def rival(label: str, log_losses: Sequence[float]) -> dict[str, Any]:
    """A line for what was not trained, evaluated on problems of every seed's own."""
    return {"label": label, "loss": over_seeds(log_losses)}


def family(effects: Mapping[str, Effect]) -> list[dict[str, Any]]:
    """Claims that are made together: each holds if Holm's p is below the level.

    The text says what is claimed to be less than 0 (a difference of log₁₀ losses).
    """
    corrected = holm({name: found.p for name, found in effects.items()})
    return [
        {"claim": name, "value": found.mean, "low": found.low, "high": found.high,
         "p": corrected[name], "family": len(effects),
         "holds": bool(found.mean < 0 and corrected[name] < 1 - LEVEL)}
        for name, found in effects.items()
    ]  # fmt: skip


def curves(results: Results, labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """The median over seeds of the capped training loss, for the arms that have a label."""
    found = []
    for name, label in labels.items():
        if name in results.by_arm:
            curve = results.by_arm[name]["curve"]
            middle = [statistics.median(losses) for losses in curve["loss"]]
            found.append({"label": name, "group": label, "x": curve["step"], "y": middle})
    return found


def panels(
    rows: Sequence[Mapping[str, Any]], panel: str, group: str, x: str, groups: Sequence[str]
) -> list[dict[str, Any]]:
    """Losses with their intervals against one factor, a curve for every level of two others.

    Every panel has all groups, in one order, so that each has one colour.
    """
    titles = dict.fromkeys(r["factors"][panel] for r in rows)
    curves = {
        (title, name): {"panel": title, "group": name, "label": name} | {key: [] for key in CURVE}
        for title in titles
        for name in groups
    }
    for r in sorted(rows, key=lambda r: r["factors"][x]):
        curve = curves[r["factors"][panel], r["factors"][group]]
        values = (r["factors"][x], *(r["loss"][key] for key in ("mean", "low", "high")))
        for key, value in zip(CURVE, values, strict=True):
            curve[key].append(value)
    return list(curves.values())


def points(label: str, found: Sequence[tuple[float, Mapping[str, Any]]]) -> dict[str, Any]:
    """A line of a panel: the losses of arms over some number, with intervals over seeds."""
    return effects(label, [(x, Interval(**over_seeds(r["log_loss"]))) for x, r in found])


def effects(label: str, found: Sequence[tuple[float, Interval]]) -> dict[str, Any]:
    """A line of a panel: numbers with their intervals, such as effects on log₁₀ loss."""
    return {"label": label, "x": [x for x, _ in found], "y": [e.mean for _, e in found],
            "low": [e.low for _, e in found], "high": [e.high for _, e in found]}  # fmt: skip


def claims_text(claims: Sequence[Mapping[str, Any]]) -> str:
    """Claims as lines: by what factor, with the interval, and Holm's p."""
    lines = []
    for c in claims:
        low, high = sorted((10 ** c["low"], 10 ** c["high"]))
        said = "yes" if c["holds"] else "no"
        ratio = f"x {10 ** c['value']:.3g} [{low:.3g}, {high:.3g}]"
        lines.append(f"{said:3}  {c['claim']}: {ratio}, p = {c['p']:.2g} of {c['family']}")
    return "\n".join(lines)


def while_training(curves: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The panel of training curves."""
    lines = [{"label": c["group"], "x": c["x"], "y": c["y"]} for c in curves]
    return {"title": "while training", "x": "step", "y": "loss against y, of zero's excess",
            "log": True, "lines": lines}  # fmt: skip


def _settings(results: Results) -> dict[str, Any]:
    """What all arms have in common, and how often a search chose where its grid ends."""
    study = results.study
    found = [(study.tries(arm), r["chosen"], r["log_loss"]) for arm, r in results.where()]
    ends = {
        "scale": sum(min(t.scale for t in tried) == chosen["scale"] < max(t.scale for t in tried)
                     for tried, chosen, _ in found),
        "lr": sum(chosen["lr"] == max(t.lr for t in tried) for tried, chosen, _ in found),
    }  # fmt: skip
    return {
        "ends": ends, "skewed": sum(_skewness(logs) > SKEWED for *_, logs in found),
        "seeds": list(study.seeds), "batch": study.batch, "problems": study.problems,
        "search_steps": study.search_steps, "search_seeds": study.search_seeds,
        "tries": len(study.grid), "arms": len(study.arms),
        "steps": sorted({arm.steps for arm in study.arms}),
    }  # fmt: skip


def _skewness(values: Sequence[float]) -> float:
    """Without its sign; 0 for numbers that are all one."""
    off = np.asarray(values) - np.mean(values)
    spread = float(np.sqrt(np.mean(off**2)))
    return abs(float(np.mean(off**3))) / spread**3 if spread > 0 else 0.0


def told_by_depth(
    results: Results, tasks: Mapping[str, Task], factors: tuple[str, str], kinds: Sequence[str],
    families: Sequence[Mapping[str, Effect]], reached: Callable[[Task, Batch], Mapping[str, float]],
    loss: str, y: str,
) -> dict[str, Any]:  # fmt: skip
    """The answer of a study whose arms have a task, a kind and a depth: one panel for every task.

    `factors` are the names of the first two. `reached` are losses of what is no network, on the
    problems that arms are evaluated on.
    """
    task, kind = factors
    rows = [
        row(f"{a.factors[task]}: {a.factors[kind]}, depth {a.factors['depth']}", r,
            group=a.factors[kind], factors=dict(a.factors))
        for a, r in results.where()
    ]  # fmt: skip
    lines: list[dict[str, Any]] = []
    for name in tasks:
        arm = next((a for a, _ in results.where(**{task: name})), None)
        if arm is not None:
            known = reached(arm.task, problems(results.study, arm, "eval", "cpu"))
            lines += [{"panel": name, "label": label, "y": x} for label, x in known.items()]
    claims = [claim for found in families for claim in family(found)]
    settings = {"tasks": {name: asdict(one) for name, one in tasks.items()}}
    return told(results, rows, claims, loss=loss, settings=settings) | {
        "rows": rows + [reference(f"{x['panel']}: {x['label']}", x["y"]) for x in lines],
        "series": panels(rows, task, kind, "depth", kinds),
        "lines": lines,
        "axes": {"x": "depth", "y": y, "log": True},
    }


def told(
    results: Results,
    rows: Sequence[Mapping[str, Any]],
    claims: Sequence[Mapping[str, Any]],
    columns: Sequence[str] = ("median", "failed", "dropped"),
    loss: str = EXCESS,
    settings: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What the answers of all studies have; each adds its curves, and lines beside them."""
    return {
        "settings": _settings(results) | dict(settings or {}), "rows": list(rows), "loss": loss,
        "table": f"{aligned(rows, 'loss', '95 % over seeds', columns, 9)}\n\n{claims_text(claims)}",
        "lines": [],
        "claims": list(claims),
    }  # fmt: skip
