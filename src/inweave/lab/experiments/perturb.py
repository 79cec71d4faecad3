"""How much noise does a construction bear, and does training repair it?

The paper's ELSA construction for k = 2 steps on the enumerated form, and its LSA construction on
the designed form: every weight and bias gets normal noise of growing size, then the network is
trained for a short while. Losses before and after (medians too: a perturbed network overflows on
some problems), beside k tuned steps of gradient descent.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from inweave.errors import needs_extra
from inweave.lab import baselines, measures
from inweave.lab.ensemble import assemble
from inweave.lab.experiments import common
from inweave.lab.forms import Form, form
from inweave.lab.tasks import Task, stream
from inweave.lab.trainer import Settings
from inweave.nn import AttentionNetwork, from_network
from inweave.paper.ridge import ridge_elsa, ridge_lsa

with needs_extra("the lab", "lab"):
    import torch

TASK = Task(d=3, n=6, inputs="uniform", input_scale=2.0)
STEPS = 2


@torch.no_grad()
def perturbed(model: AttentionNetwork, size: float, generator: torch.Generator) -> AttentionNetwork:
    """Normal noise of that standard deviation on every weight and bias, in place."""
    for p in model.parameters():
        p.add_((size * torch.randn(p.shape, generator=generator)).to(p))
    return model


def constructed_start(form: Form, steps: int, size: float) -> Callable[[int], AttentionNetwork]:
    """`make(seed)` for an ensemble that starts from the paper's construction plus noise."""
    net = (ridge_elsa if form.name == "enumerated" else ridge_lsa)(form.n, form.d, steps)

    def make(seed: int) -> AttentionNetwork:
        model = from_network(net, dtype=torch.float32)
        return perturbed(model, size, stream(seed, "perturb"))

    return make


def run(quick: bool, device: str, seed: int) -> dict[str, Any]:
    sizes = (0.0, 0.003, 0.01, 0.03, 0.1) if quick else (0.0, 0.001, 0.003, 0.01, 0.03, 0.1)
    settings = Settings(
        steps=400 if quick else 3000,
        batch=64 if quick else 512,
        lrs=(3e-4,) if quick else (1e-4, 1e-3),
        warmup=20,
        clip=1.0,
        log_every=100,
    )
    seeds = list(range(seed, seed + (3 if quick else 8)))
    tuning = common.held_out(TASK, 10_000, seed, "tune", device)
    batch = common.held_out(TASK, 10_000 if quick else 100_000, seed, "eval", device)
    eta, descent = baselines.tuned_descent(STEPS, 8.0, tuning)
    reference = measures.squared_errors(descent, batch)
    rows, series, claims = [], [], []
    for name in ("enumerated", "designed"):
        made = form(name, TASK.n, TASK.d, eta=eta / TASK.n)
        lines: dict[str, list[float]] = {"before": [], "after": []}
        for size in sizes:
            start = constructed_start(made, STEPS, size)
            untouched = assemble(start, seeds, (0.0,))
            untouched.rows = untouched.rows.to(device)
            before = untouched.errors(made, batch)
            ensemble = common.fit(start, TASK, made, settings, seeds, device)
            members, after = common.chosen_errors(ensemble, made, tuning, batch)
            skipped = statistics.fmean(ensemble.skipped[m] for m in members)
            lines["before"].append(common.median(before))
            lines["after"].append(common.median(after))
            for when, errors, more in (
                ("before", before, {}),
                ("after training", after, {"skipped": skipped}),
            ):
                rows.append(common.row(f"{name}, noise {size:g}, {when}", errors,
                                       wild=common.wild(errors, batch), **more))  # fmt: skip
        for when, y in lines.items():
            series.append({"label": f"{name}, {when}", "group": f"{name}, {when}",
                           "x": list(sizes), "y": y})  # fmt: skip
        exact = abs(lines["before"][0] / float(reference.median()) - 1)
        claims.append(common.claim(f"{name}: the construction is {STEPS} GD steps", exact,
                                   exact < 1e-4))  # fmt: skip
        for size, after_it in zip(sizes[1:], lines["after"][1:], strict=True):
            gap = after_it / float(reference.median()) - 1
            text = f"{name}: training repairs noise {size:g} to within 10 % of {STEPS} GD steps"
            claims.append(common.claim(f"{text} (medians)", gap, gap <= 0.1))
    rows.append(common.row(f"{STEPS} tuned GD steps", reference))
    return {
        "settings": {"task": TASK.__dict__, "training": settings.__dict__, "seeds": seeds,
                     "eta": eta},
        "rows": rows,
        "loss": "MSE",
        "table": common.table(rows, "MSE", ["median", "wild", "skipped"]),
        "series": series,
        "lines": [{"label": f"{STEPS} tuned GD steps", "y": float(reference.median())}],
        "axes": {"x": "standard deviation of the noise", "y": "median squared error",
                 "log": True, "symlogx": 0.001},
        "claims": claims,
    }  # fmt: skip
