"""Does a nonlinearity in attention help?

Scores `Q Kᵀ` as they are (linear), divided by the sum of their sizes (normalised), without those
below zero (ReLU), and with both at once (softmax); two heads, so that a pair of ReLU heads can be a
linear one. Tasks that linear attention is made for (linear functions, with noise and without) and
such as it is not (sparse weights, networks of ReLU units, decision trees), depth 1 to 6. Every
token holds a one, which gives heads a bias.

Nobody attends to the query, as in the literature. Linear attention is then linear in the query at
any depth, and cannot be right about a tree; so it is trained a second time with the query attended
to, where it is a polynomial.

Networks of one depth have the same layers, parameters and, but for the nonlinearity itself,
products: the three comparisons are one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from inweave.lab import answers, baselines
from inweave.lab.baselines import Predictor
from inweave.lab.forms import form
from inweave.lab.inference import Effect, effect, paired
from inweave.lab.posteriors import best_linear, posterior
from inweave.lab.study import QUICK_GRID, SMALL_GRID, Arm, Results, Study, seeds, start, zero_loss
from inweave.lab.tasks import Batch, Task
from inweave.lab.tensors import Tensor, torch

D, N = 5, 16
TASKS = {
    "linear": Task(d=D, n=N),
    "noisy": Task(d=D, n=N, noise=1.0),
    "sparse": Task(d=D, n=N, nonzero=1, noise=1.0),
    "ReLU network": Task(d=D, n=N, function="relu-network"),
    "tree": Task(d=D, n=N, function="tree", levels=2, noise=0.1),
}
SCORES: dict[str, dict[str, Any]] = {
    "linear": {"activation": None, "queries": 1},
    "linear, query seen": {"activation": None, "queries": 0},
    "normalised": {"activation": "normalised", "queries": 1},
    "ReLU": {"activation": "relu", "queries": 1},
    "softmax": {"activation": "softmax", "queries": 1},
}
PLAIN = "linear"
DEPTHS = (1, 2, 4, 6, 3, 5)  # in the order of training, should it be cut short
EXACT = 1e-12  # losses below are rounding
RIDGES = (0.01, 0.1, 0.3, 1.0, 3.0)

QUICK = """This form can support: on trees softmax scores have less loss than linear ones. It cannot
say anything of normalised scores, of three of the five tasks, of depth beyond 2 or of what longer
training brings: it has 5 seeds, 600 steps and one optimizer."""


def known(task: Task) -> Predictor | None:
    """The posterior mean where labels or functions leave something open and it is known."""
    has_noise = task.mean_square_noise() > 0
    return posterior(task) if has_noise and task.function != "relu-network" else None


def arm(name: str, scores: str, depth: int, steps: int) -> Arm:
    task = TASKS[name]
    made = form("constant", task.n, task.d)
    model = SCORES[scores] | {"depth": depth, "heads": 2, "bias": False, "merged": True}
    factors = {"task": name, "scores": scores, "depth": depth}
    label = "-".join(part.replace(",", "").replace(" ", "-") for part in (name, scores, str(depth)))
    return Arm(
        label, factors, task, made, model, start(made, **model), steps, against=known(task)
    )  # fmt: skip


def study(quick: bool, seed: int) -> Study:
    if quick:
        arms = [
            arm(name, scores, depth, 600)
            for name in ("linear", "tree")
            for scores in (PLAIN, "ReLU", "softmax")
            for depth in (1, 2)
        ]
        return Study(
            "nonlinearity", tuple(arms), 32, 100, seeds(seed, quick), 1, QUICK_GRID, 2000
        )  # fmt: skip
    arms = [arm(name, scores, k, 2500) for k in DEPTHS for name in TASKS for scores in SCORES]
    return Study("nonlinearity", tuple(arms), 128, 300, seeds(seed), 2, SMALL_GRID)


def answer(results: Results) -> dict[str, Any]:
    return answers.told_by_depth(
        results, TASKS, ("task", "scores"), tuple(SCORES), [_everywhere(results), _each(results)],
        _reached, answers.PLAIN, "loss (excess, where Bayes is known)",
    )  # fmt: skip


def _reached(task: Task, batch: Batch) -> dict[str, float]:
    """Losses of what is no network, of the zero predictor's; Bayes' own is zero where known."""
    one = batch.X.new_ones(len(batch), task.n, 1)
    with_one = replace(batch, X=torch.cat([batch.X, one], 2), u=torch.cat([batch.u, one[:, 0]], 1))
    losses = {
        f"ridge{said}, λ = {lam:g}": _loss(baselines.ridge(lam)(given), batch)
        for lam in RIDGES
        for said, given in (("", batch), (" with a one", with_one))
    }
    best = min(losses, key=lambda name: losses[name])
    found = {best: losses[best]} if losses[best] > EXACT else {}  # which Bayes' own is
    if task.function == "relu-network":
        found["best linear in y"] = _loss(best_linear(batch), batch)
    return found


def _loss(prediction: Tensor, batch: Batch) -> float:
    return float((prediction - batch.clean).square().mean()) / zero_loss(batch)


def _pairs(results: Results) -> dict[tuple[str, str, int], tuple[list[float], list[float]]]:
    """Log-losses of every arm and of the plain one beside it."""
    found = {}
    for a, r in results.where():
        f = a.factors
        plain = results.one(**dict(f) | {"scores": PLAIN})
        if f["scores"] != PLAIN and plain is not None:
            found[f["task"], f["scores"], f["depth"]] = r["log_loss"], plain["log_loss"]
    return found


def _everywhere(results: Results) -> dict[str, Effect]:
    """On average over the depths at which both were trained, which the claim says."""
    pairs = _pairs(results)
    found = {}
    for task, scores in dict.fromkeys((task, scores) for task, scores, _ in pairs):
        both = sorted(depth for *kind, depth in pairs if kind == [task, scores])
        each = [np.subtract(*pairs[task, scores, depth]) for depth in both]
        text = f"{task}, depths {', '.join(map(str, both))}: less loss with {scores} scores"
        found[text] = effect(np.mean(each, axis=0))
    return found


def _each(results: Results) -> dict[str, Effect]:
    return {
        f"{task}, depth {depth}: less loss with {scores} scores": paired(*pair)
        for (task, scores, depth), pair in _pairs(results).items()
    }
