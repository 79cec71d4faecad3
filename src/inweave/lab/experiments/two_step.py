"""What do two tied LSA layers learn: two steps of gradient descent, or GD++?

d = n = 10, inputs uniform on (-1/2, 1/2): the setting of J. von Oswald and others, "Transformers
learn in-context by gradient descent" (ICML 2023), whose GD++ also transforms the inputs between the
steps, which a second layer makes use of.

The query is attended to by nobody (`queries=1`): after the first layer it holds a prediction where
the examples hold residuals, and a second layer that saw it would take the one for the other. What
that costs is a row of its own, the same training with `queries=0`.
"""

from __future__ import annotations

from typing import Any

from inweave.lab import baselines, measures
from inweave.lab.ensemble import tries
from inweave.lab.experiments import common
from inweave.lab.forms import form
from inweave.lab.tasks import Task
from inweave.lab.tensors import torch
from inweave.lab.trainer import Settings

TASK = Task(d=10, n=10, inputs="uniform")


def run(quick: bool, device: str, seed: int) -> dict[str, Any]:
    made = form("examples", TASK.n, TASK.d)
    settings = Settings(
        steps=3000 if quick else 12_000,
        batch=256 if quick else 1024,
        tries=tries(1e-2) if quick else tries(3e-3, 1e-2),
        clip=10.0,
        log_every=200,
    )
    seeds = common.seeds(seed, quick)
    tuning = common.held_out(TASK, 20_000, seed, "tune", device)
    batch = common.held_out(TASK, 50_000 if quick else 400_000, seed, "eval", device)
    ensemble, seeing = (
        common.fit(
            common.random_start(
                made, bias=False, merged=True, depth=2, tied=True, scale=0.7, queries=queries
            ),
            TASK, made, settings, seeds, device,
        )
        for queries in (1, 0)
    )  # fmt: skip
    members, errors = common.chosen_errors(ensemble, made, tuning, batch)
    seeing_members, seeing_errors = common.chosen_errors(seeing, made, tuning, batch)
    eta, descent = baselines.tuned_descent(2, 20.0, tuning)
    pair = baselines.tune(
        lambda e, g: baselines.gd_plus_plus(2, e, g), [(0.0, 20.0), (0.0, 20.0)], tuning
    )
    plus = baselines.gd_plus_plus(2, *pair)
    few = batch.rows(slice(0, 5000))
    cosine = {
        name: float(torch.stack([measures.sensitivity_cosine(p, rival, few)
                                 for p in ensemble.predictors(made, members)]).mean())
        for name, rival in (("GD", descent), ("GD++", plus))
    }  # fmt: skip
    gd, gdpp = (measures.squared_errors(p, batch) for p in (descent, plus))
    rows = [
        common.row("two tied LSA layers, trained", errors, 0.5),
        *(common.row(f"  seed {s}", errors[i], 0.5) for i, s in enumerate(ensemble.seeds)),
        common.row("the same, the query attended to as well", seeing_errors, 0.5),
        common.row(f"two GD steps, η = {eta:.2f}", gd, 0.5, cosine=cosine["GD"]),
        common.row("GD++, η = {:.2f}, γ = {:.2f}".format(*pair), gdpp, 0.5, cosine=cosine["GD++"]),
    ]
    median = 0.5 * float(errors.mean(1).median())
    return common.told(TASK, settings, seeds, rows, "half-MSE", ["cosine"]) | {
        "series": common.curves(ensemble, "trained", members, 0.5)
        + common.curves(seeing, "query attended to", seeing_members, 0.5),
        "lines": [
            {"label": "two GD steps", "y": 0.5 * float(gd.mean())},
            {"label": "GD++", "y": 0.5 * float(gdpp.mean())},
        ],
        "axes": {"x": "step", "y": "half-MSE"},
        "claims": [
            common.claim("median seed below two GD steps", median, median < 0.5 * float(gd.mean())),
            common.claim(
                "median seed about 0.114 (within 5 %)", median, abs(median / 0.114 - 1) <= 0.05
            ),
        ],
    }
