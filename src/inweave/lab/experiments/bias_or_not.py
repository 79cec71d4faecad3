"""The paper's own question: does the bias help a network that is trained, not constructed?

On the ENUMERATED form: LSA and ELSA, one and two blocks per module, tied depth 1...4 plus a read-
out module, four heads, as in the paper, with the same budget and seeds. Four things are varied
around that:

- `constants`: with √ηI in the prompt an LSA head can read its identity there. Without it (η = λ =
  0) every row but the last looks alike to LSA, which then cannot address the row of the answer.
- `designed`: the same on the DESIGNED form.
- `activation`: ReLU or softmax scores instead of linear ones.
- `start`: from random weights, or from the paper's construction plus noise.

A seed is tried with two step sizes and three scales of its start, the same for every variant, and
its best try on a tuning set counts: what suits one depth overflows at another.

Losses are MSE on the clean target; beside them stand k tuned steps of gradient descent, and the
number of steps whose predictions each network comes nearest to.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

from inweave.lab import baselines, measures
from inweave.lab.experiments import common
from inweave.lab.experiments.perturb import constructed_start
from inweave.lab.forms import Form, form
from inweave.lab.progress import LOGGER
from inweave.lab.tasks import Task
from inweave.lab.trainer import Settings

TASK = Task(d=3, n=6, inputs="uniform", input_scale=2.0)
HEADS = 4
# Two blocks in a module are of degree nine; at the scale that suits one they start at 1e18.
SCALE = {1: 0.5, 2: 0.15}


def variants(quick: bool) -> list[dict[str, Any]]:
    """What is trained, the most telling first; each entry is one ensemble."""
    depths = (1, 2) if quick else (1, 2, 3, 4)
    few = (1,) if quick else (1, 2)
    both = (False, True)
    found: list[dict[str, Any]] = []
    for depth in depths:
        for blocks in (1, 2):
            for bias in both:
                v = {"form": "enumerated", "bias": bias, "blocks": blocks, "depth": depth}
                found.append(v)
                if depth == 1:
                    found.append(v | {"constants": False})
        elsa = {"form": "enumerated", "bias": True, "blocks": 2, "depth": depth}
        found.append(elsa | {"start": "construction"})
        if depth in few:
            found += [elsa | {"activation": activation} for activation in ("relu", "softmax")]
            found += [
                {"form": "designed", "bias": bias, "blocks": 1 + bias, "depth": depth}
                for bias in both
            ]
    return found


def label(v: dict[str, Any]) -> str:
    parts = [
        v["form"],
        "ELSA" if v["bias"] else "LSA",
        f"{v['blocks']} block",
        f"depth {v['depth']}",
    ]
    parts[2] += "s" * (v["blocks"] > 1)
    if not v.get("constants", True):
        parts.insert(1, "no constants")
    if "activation" in v:
        parts.append(v["activation"])
    if "start" in v:
        parts.append("from construction + noise")
    return ", ".join(parts)


def run(quick: bool, device: str, seed: int, keep: common.Keep) -> dict[str, Any]:
    settings = Settings(
        steps=800 if quick else 3000,
        batch=64 if quick else 512,
        lrs=(3e-3, 1e-2),
        scales=(1.0,) if quick else (1.0, 0.5, 0.25),
        warmup=100,
        clip=1.0,
        log_every=100,
    )
    seeds = list(range(seed, seed + (2 if quick else 5)))
    tuning = common.held_out(TASK, 10_000, seed, "tune", device)
    batch = common.held_out(TASK, 20_000 if quick else 100_000, seed, "eval", device)
    descents = [baselines.tuned_descent(k, 8.0, tuning) for k in range(1, 9)]
    etas = [eta for eta, _ in descents]
    references = [
        common.row(f"{k} tuned GD step{'s' * (k > 1)}", measures.squared_errors(p, batch))
        for k, (_, p) in enumerate(descents[:4], start=1)
    ]
    references.append(common.row("zero", batch.clean.square()))
    rows: list[common.Row] = []
    series: list[dict[str, Any]] = []
    for v in variants(quick):
        made = _form(v, etas)
        if v.get("start") == "construction":
            start = constructed_start(made, v["depth"], 0.003)
            scaled = replace(settings, lrs=tuple(lr / 10 for lr in settings.lrs), scales=(1.0,))
        else:
            start = common.random_start(
                made, bias=v["bias"], blocks=v["blocks"], heads=HEADS, depth=v["depth"], tied=True,
                readout=True, activation=v.get("activation"), init="random",
                scale=SCALE[v["blocks"]],
            )  # fmt: skip
            scaled = settings
        ensemble = common.fit(start, TASK, made, scaled, seeds, device)
        members, errors = common.chosen_errors(ensemble, made, tuning, batch)
        few = batch.rows(slice(0, 5000))
        found = [
            measures.best_matching_steps(p, few, etas) for p in ensemble.predictors(made, members)
        ]
        nearest = [steps for steps, _ in found]
        gaps = [[float(gap) for gap in table] for _, table in found]
        rows.append(
            common.row(label(v), errors, variant=v, group="ELSA" if v["bias"] else "LSA",
                       best_seed=common.best_seed(errors),
                       wild=common.wild(errors, batch), nearest="/".join(map(str, nearest)),
                       skipped=statistics.fmean(ensemble.skipped[m] for m in members), gaps=gaps)
        )  # fmt: skip
        series += common.curves(ensemble, label(v), members)
        LOGGER.info("%s: %.4f, nearest to %s GD steps", label(v), float(errors.mean()), nearest)
        keep(_result(rows, references, series, settings, seeds, etas))
    return _result(rows, references, series, settings, seeds, etas)


def _result(
    rows: list[common.Row],
    references: list[common.Row],
    series: list[dict[str, Any]],
    settings: Settings,
    seeds: list[int],
    etas: list[float],
) -> dict[str, Any]:
    """What is written after every ensemble, so that a run cut short leaves what it found."""
    all_rows = rows + references
    return {
        "settings": {"task": TASK.__dict__, "training": settings.__dict__, "seeds": seeds,
                     "heads": HEADS, "etas": etas},
        "rows": all_rows,
        "loss": "MSE",
        "table": common.table(
            all_rows, "MSE", ["median", "best_seed", "wild", "skipped", "nearest"]
        ),
        "series": series,
        "lines": [{"label": r["label"], "y": r["loss"]["mean"]} for r in references],
        "axes": {"x": "step", "y": "MSE", "log": True},
        "bars": True,
        "claims": _claims(rows, references),
    }  # fmt: skip


def _form(v: dict[str, Any], etas: list[float]) -> Form:
    """The prompt form with the η of that many tuned steps, for the gradient of the sum."""
    eta = etas[v["depth"] - 1] / TASK.n if v.get("constants", True) else 0.0
    return form(v["form"], TASK.n, TASK.d, eta=eta)


def _claims(rows: list[common.Row], references: list[common.Row]) -> list[dict[str, Any]]:
    """The paper's questions as numbers, on medians of squared errors over seeds and problems.

    Networks of high degree overflow on rare problems, and one such problem decides a mean.
    """
    loss = {r["label"]: r["median"] for r in rows}
    steps = [r["median"] for r in references]
    found = []
    for v in [r["variant"] for r in rows]:
        name, k = label(v), v["depth"]
        plain = v["bias"] and "activation" not in v and "start" not in v
        if plain and v["form"] == "enumerated":
            gain = loss[label(v | {"bias": False})] - loss[name]  # the LSA of a pair comes first
            found.append(common.claim(f"{name}: less loss than without biases", gain, gain > 0))
        if "start" in v or (plain and v["blocks"] == 2 and v.get("constants", True)):
            gap = loss[name] / steps[k - 1] - 1
            text = f"{name}: at most 5 % above {k} GD step{'s' * (k > 1)}"
            found.append(common.claim(text, gap, gap <= 0.05))
    return found
