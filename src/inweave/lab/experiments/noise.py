"""Do deeper LSA networks adapt to a noise level that changes from prompt to prompt?

d = 10, n = 20, σ uniform on (0, 5) per prompt, and the prompt does not say it. Losses are distances
to an oracle, ridge regression that knows σ. The best that can be done without it is Bayes' answer,
a mean over σ. Beside that: ridge with one λ tuned for all prompts, ridge with λ = σ̂² estimated from
the prompt (adaptive), and λ = a σ̂² + b with a, b tuned, all tuned to what networks are evaluated
by. Networks of one, two and four untied layers, the query attended to by nobody.

Rivals are near, so every seed is evaluated on problems of its own, the same for networks and
rivals: intervals over seeds are then over problems too.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

from inweave.lab import answers, baselines
from inweave.lab.ensemble import Ensemble, tries
from inweave.lab.forms import form
from inweave.lab.inference import Effect, paired
from inweave.lab.posteriors import unknown_noise
from inweave.lab.study import Arm, Results, Study, seeds, start, summary, zero_loss
from inweave.lab.tasks import Batch, Task, draw, stream

TASK = Task(d=10, n=20, noise_max=5.0)
FORM = form("examples", TASK.n, TASK.d)
STEPS = 3000
DEPTHS = (1, 2, 4)
RATES, SCALES = (1e-3, 3e-3, 1e-2), (0.1, 0.2, 0.4)
GRID = (
    *tries(*RATES, scales=SCALES, epsilon=1e-16),
    *tries(*RATES, scales=SCALES),
    *tries(*RATES, scales=SCALES, optimizer="muon"),
)


QUICK = """\
This form can support: two layers have less loss than one. It cannot say whether networks reach
adaptive ridge regression, which takes four layers, nor how sure that is: it has 5 seeds, 2500
steps and one optimizer."""


def arm(depth: int) -> Arm:
    model: dict[str, Any] = {"bias": False, "depth": depth, "queries": 1}
    return Arm(
        f"{depth}-layers", {"depth": depth}, TASK, FORM, model, start(FORM, **model), STEPS,
        against=baselines.bayes(TASK),
    )  # fmt: skip


def study(quick: bool, seed: int) -> Study:
    if quick:
        arms = tuple(replace(arm(depth), steps=2500) for depth in (1, 2))
        grid = tries(3e-3, 1e-2, scales=(0.2, 0.4), epsilon=1e-16)
        few = seeds(seed, quick)
        return Study("noise", arms, 96, 400, few, 1, grid, 4000, measure=measure, apart=True)
    arms = tuple(arm(depth) for depth in DEPTHS)
    return Study("noise", arms, 512, STEPS // 4, seeds(seed), 2, GRID, measure=measure,
                 apart=True)  # fmt: skip


def measure(arm: Arm, ensemble: Ensemble, batch: Batch) -> dict[str, Any]:
    """Losses of rivals on every seed's problems; those with numbers are tuned on problems apart."""
    drawn = draw(arm.task, 1 << 14, stream(0, "ridge", device=batch.X.device), batch.X.dtype)
    tuning = replace(drawn, clean=baselines.bayes(arm.task)(drawn))
    (lam,) = baselines.tune(baselines.ridge, [(0.1, 60.0)], tuning)
    a, b = baselines.tune(baselines.tuned_adaptive_ridge, [(0.1, 3.0), (0.0, 20.0)], tuning)
    rivals = {
        f"ridge, one λ = {lam:.1f}, tuned": baselines.ridge(lam),
        "ridge, λ = σ̂²": baselines.adaptive_ridge,
        f"ridge, λ = {a:.2f} σ̂² + {b:.1f}, tuned": baselines.tuned_adaptive_ridge(a, b),
        "least squares": baselines.least_squares,
        "Bayes": unknown_noise(arm.task),
    }
    unit, many = zero_loss(batch), len(ensemble.seeds)
    return {
        name: summary((rival(batch) - batch.clean).square().reshape(many, -1), unit)["log_loss"]
        for name, rival in rivals.items()
    }


def label(depth: int) -> str:
    return f"{depth} LSA layer{'s' * (depth > 1)}"


def answer(results: Results) -> dict[str, Any]:
    found = {a.factors["depth"]: r for a, r in results.where()}
    rows = [answers.row(label(k), r, group="trained") for k, r in found.items()]
    deepest = found.get(max(found, default=0), {"measures": {}})
    rows += [answers.rival(name, losses) for name, losses in deepest["measures"].items()]
    effects: dict[str, Effect] = {}
    rivals: dict[str, Effect] = {}
    for k, more in zip(list(found), list(found)[1:], strict=False):
        effects[f"{label(more)}: less loss than {label(k)}"] = paired(
            found[more]["log_loss"], found[k]["log_loss"]
        )
    for k, r in found.items():
        for name, losses in deepest["measures"].items():
            rivals[f"{label(k)}: less loss than {name}"] = paired(r["log_loss"], losses)
    claims = answers.family(effects) + answers.family(rivals)
    labels = {a.name: label(a.factors["depth"]) for a, _ in results.where()}
    trained = answers.curves(results, labels)
    return answers.told(results, rows, claims, settings={"task": TASK.__dict__}) | {
        "series": trained,
        "panels": _panels(found, deepest["measures"], trained) if found else [],
        "axes": {"x": "step", "y": "training loss", "log": True},
    }


def _panels(
    found: dict[int, Any], rivals: dict[str, list[float]], trained: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Losses over depth beside those of rivals, and training curves."""
    ends = [min(found), max(found)]
    lines = [answers.points("trained", list(found.items()))]
    lines += [
        {"label": name, "x": ends, "y": [10 ** statistics.fmean(losses)] * 2, "dashed": True}
        for name, losses in rivals.items()
    ]
    return [
        {"title": "after training", "x": "layers", "y": "excess over the oracle, of zero's",
         "log": True, "logx": True, "lines": lines},
        answers.while_training(trained),
    ]  # fmt: skip
