"""Does one trained LSA layer do one optimal step of gradient descent?

d = n = 10, inputs uniform on (-1/2, 1/2), batch 2048. The best single step has the closed form η*
= 1/(cσ²) and half-MSE 0.2062. The trained loss is compared on the same problems as that step, and
the closed form is added back: the two predictors' errors are so alike that most of the sampling
noise cancels in their difference.
"""

from __future__ import annotations

from typing import Any

from inweave.lab import baselines, measures
from inweave.lab.ensemble import tries
from inweave.lab.experiments import common
from inweave.lab.forms import form
from inweave.lab.inference import Interval
from inweave.lab.tasks import Task
from inweave.lab.tensors import torch
from inweave.lab.trainer import Settings

TASK = Task(d=10, n=10, inputs="uniform")


def run(
    quick: bool, device: str, seed: int, task: Task = TASK, scale: float = 0.5
) -> dict[str, Any]:
    made = form("examples", task.n, task.d)
    settings = Settings(
        steps=1200 if quick else 6000,
        batch=1024 if quick else 2048,
        tries=tries(3e-3, 1e-2),
        warmup=50,
    )
    seeds = common.seeds(seed, quick)
    start = common.random_start(made, bias=False, scale=0.3)
    ensemble = common.fit(start, task, made, settings, seeds, device)
    tuning = common.held_out(task, 20_000, seed, "tune", device)
    batch = common.held_out(task, 50_000 if quick else 400_000, seed, "eval", device)
    members, errors = common.chosen_errors(ensemble, made, tuning, batch)
    best, eta = baselines.one_step_loss(task), baselines.one_step_eta(task)
    step = baselines.gradient_descent(1, eta)
    step_errors = measures.squared_errors(step, batch)
    excess = common.over_seeds(errors - step_errors)
    trained = Interval(best + excess.mean, best + excess.low, best + excess.high)
    few = batch.rows(slice(0, 5000))
    cosines = torch.stack(
        [measures.sensitivity_cosine(p, step, few) for p in ensemble.predictors(made, members)]
    )
    gap = trained.mean / best - 1
    name = "half-MSE" if scale == 0.5 else "MSE"
    rows = [
        common.row("trained LSA layer", trained, scale, cosine=float(cosines.mean())),
        common.row("one step, η*", step_errors, scale, cosine=1.0),
        common.row("zero", batch.clean.square(), scale),
    ]
    return common.told(task, settings, seeds, rows, name, ["cosine"]) | {
        "series": common.curves(ensemble, "trained", members, scale),
        "lines": [{"label": f"one step, closed form {scale * best:.4f}", "y": scale * best}],
        "axes": {"x": "step", "y": name},
        "claims": [
            common.claim(f"{name} within 1 % of {scale * best:.4f}", gap, abs(gap) <= 0.01),
            common.claim("sensitivity cosine >= 0.999", float(cosines.mean()),
                         float(cosines.mean()) >= 0.999),
        ],
    }  # fmt: skip
