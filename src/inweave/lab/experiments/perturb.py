"""How much noise does a construction bear, and does training repair it?

The paper's ELSA construction for two steps on the enumerated form, and its LSA construction on the
designed form: every weight and bias gets normal noise of growing size, the same for every size but
for that, then the network is trained. Losses before and after, in float64, on ridge regression with
a λ and an η in every prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from inweave.lab import answers, baselines
from inweave.lab.ensemble import Ensemble, tries
from inweave.lab.experiments.bias import ridge_task
from inweave.lab.experiments.construction import construction
from inweave.lab.forms import Form, FormName, form
from inweave.lab.inference import paired
from inweave.lab.spectral import Spectrum
from inweave.lab.study import Arm, Results, Study, seeds, summary, zero_loss
from inweave.lab.tasks import Batch, stream
from inweave.lab.tensors import torch
from inweave.nn import AttentionNetwork

TASK = ridge_task(3)
DEPTH = 2
STEPS = 1200
SIZES = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1)
RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
# a start is a construction, which no scale is to change
GRID = (*tries(*RATES, epsilon=1e-16), *tries(*RATES), *tries(*RATES, optimizer="muon"))


QUICK = """\
This form can support: the LSA construction bears noise of 0.01 and not of 0.1, and training
brings it below its own loss. It cannot say anything of ELSA, nor how far training gets: it has 5
seeds, 300 steps and one optimizer."""


def perturbed(made: Form, size: float) -> Callable[[int], AttentionNetwork]:
    """`make(seed)` for the construction with normal noise on every weight and bias."""

    @torch.no_grad()
    def make(seed: int) -> AttentionNetwork:
        model, generator = construction(made, DEPTH), stream(seed, "perturb")
        for p in model.parameters():
            p.add_(size * torch.randn(p.shape, generator=generator, dtype=p.dtype))
        return model

    return make


def arm(name: FormName, size: float) -> Arm:
    made = form(name, TASK.n, TASK.d)
    return Arm(
        f"{name}-{size:g}", {"form": name, "size": size}, TASK, made,
        {"construction": name, "depth": DEPTH, "size": size}, perturbed(made, size), STEPS,
        against=baselines.bayes(TASK),
    )  # fmt: skip


def study(quick: bool, seed: int) -> Study:
    if quick:
        arms = tuple(replace(arm("designed", size), steps=300) for size in (0.0, 0.01, 0.1))
        grid = tries(3e-4, 1e-3, 3e-3, epsilon=1e-16)
        return Study("perturb", arms, 64, 100, seeds(seed, quick), 1, grid, 2000, measure=measure)
    names: tuple[FormName, ...] = ("enumerated", "designed")
    every = tuple(arm(name, size) for name in names for size in SIZES)
    return Study("perturb", every, 128, STEPS // 4, seeds(seed), 2, GRID, measure=measure)


def measure(arm: Arm, _: Ensemble, batch: Batch) -> dict[str, Any]:
    """The loss of the construction without noise: as many steps of descent."""
    descent = Spectrum(batch, arm.task).descent(DEPTH)
    errors = (descent - batch.clean).square().unsqueeze(0)
    return {"construction": summary(errors, zero_loss(batch))["log_loss"][0]}


KINDS = {"enumerated": "ELSA, enumerated", "designed": "LSA, designed"}


def label(factors: Mapping[str, Any]) -> str:
    return f"{KINDS[factors['form']]}, noise {factors['size']:g}"


def answer(results: Results) -> dict[str, Any]:
    rows, effects = [], {}
    for a, r in results.where():
        name = label(a.factors)
        before = r | r["before"] | {"dropped": [0.0] * len(r["log_loss"])}
        rows.append(answers.row(f"{name}, before", before, factors=dict(a.factors)))
        rows.append(answers.row(f"{name}, after training", r, factors=dict(a.factors)))
        level = [r["measures"]["construction"]] * len(r["log_loss"])
        effects[f"{name}: after training less loss than the construction"] = paired(
            r["log_loss"], level
        )
    claims = answers.family(effects)
    return answers.told(results, rows, claims, settings={"task": TASK.__dict__}) | {
        "series": [],
        "panels": [_panel(results, kind) for kind in KINDS if any(results.where(form=kind))],
        "axes": {"x": "standard deviation of the noise", "y": "excess over Bayes, of zero's"},
    }


def _panel(results: Results, kind: str) -> dict[str, Any]:
    """Losses over the size of the noise, before and after training."""
    found = [(a.factors["size"], r) for a, r in results.where(form=kind)]
    before = [(size, r["before"]) for size, r in found]
    level = 10 ** found[0][1]["measures"]["construction"]
    ends = [min(size for size, _ in found), max(size for size, _ in found)]
    lines = [
        answers.points("before training", before),
        answers.points("after training", found),
        {"label": f"{DEPTH} steps of descent", "x": ends, "y": [level] * 2, "dashed": True},
    ]
    return {"title": KINDS[kind], "x": "standard deviation of the noise",
            "y": "excess over Bayes, of zero's", "log": True, "symlogx": 0.001,
            "lines": lines}  # fmt: skip
