"""Hard or soft extraction: is it enough to take examples or leave them?

The paper picks what a step needs with mask-and-move: entries are taken as they are or not at all.
It asks whether weighted extraction can do more. Here examples are relevant to the query to some
degree, 0 or 1 in one task and graded evenly in another, and stand in the prompt in that order.

- hard mask: the first 4, 8 or 12 of 16 examples are taken, by mask-and-move in the form whose
  columns are examples, and linear attention is trained on them; and once more, of tokens;
- free W: the same network with free weights for all 16 columns, which may be graded;
- linear, ReLU and softmax scores by key: tokens are examples, in whose order nothing is known of
  them; what says how relevant one is, is its key's cosine with the query's key. Where nobody
  attends to the query, linear attention is linear in the query's token, and the query's key never
  multiplies u; so linear scores are trained once more with the query attended to;
- no extraction: linear attention of tokens without keys.

All arms see the same problems. Losses are distances to the posterior mean, which knows how relevant
every example is.
"""

from __future__ import annotations

from typing import Any

from inweave.lab import answers, baselines
from inweave.lab.forms import FormName, form
from inweave.lab.inference import Effect, paired
from inweave.lab.posteriors import posterior
from inweave.lab.study import QUICK_GRID, SMALL_GRID, Arm, Results, Study, seeds, start, zero_loss
from inweave.lab.tasks import Batch, Task

D, N = 4, 16
TASKS = {
    "0 or 1": Task(d=D, n=N, relevance="binary", noise=0.3),
    "graded": Task(d=D, n=N, relevance="graded", noise=0.3),
}
COLUMNS: dict[str, Any] = {"heads": 2, "bias": False, "merged": True}
TOKENS = COLUMNS | {"queries": 1}
KINDS: dict[str, tuple[FormName, int, dict[str, Any]]] = {
    "no extraction": ("constant", 0, TOKENS),
    "hard mask, 4": ("features", 4, COLUMNS),
    "hard mask, 8": ("features", 8, COLUMNS),
    "hard mask, 12": ("features", 12, COLUMNS),
    "free W": ("features", 0, COLUMNS),
    "hard mask of tokens, 4": ("constant", 4, TOKENS),
    "hard mask of tokens, 8": ("constant", 8, TOKENS),
    "hard mask of tokens, 12": ("constant", 12, TOKENS),
    "linear by key, query seen": ("keyed", 0, COLUMNS),
    "linear by key": ("keyed", 0, TOKENS),
    "ReLU by key": ("keyed", 0, TOKENS | {"activation": "relu"}),
    "softmax by key": ("keyed", 0, TOKENS | {"activation": "softmax"}),
}
SOFT = ("free W", "linear by key", "linear by key, query seen", "ReLU by key", "softmax by key")
DEPTHS = (1, 2, 4)

QUICK = """This form can support: where relevance is 0 or 1, a hard mask has less loss than no
extraction. It cannot say which soft extraction is best, nor anything of depth beyond 1: it has 5
seeds, 1500 steps and one optimizer."""


def arm(truth: str, kind: str, depth: int, steps: int) -> Arm:
    task, (name, kept, model) = TASKS[truth], KINDS[kind]
    made = form(name, kept or task.n, task.d, first_of=task.n if kept else 0)
    model = model | {"depth": depth}
    factors = {"truth": truth, "kind": kind, "depth": depth}
    label = "-".join(it.replace(",", "").replace(" ", "-") for it in (truth, kind, str(depth)))
    return Arm(
        label, factors, task, made, model, start(made, **model), steps, against=posterior(task)
    )  # fmt: skip


def study(quick: bool, seed: int) -> Study:
    if quick:
        arms = [
            arm(truth, kind, 1, 1500)
            for truth in TASKS
            for kind in ("no extraction", "hard mask, 8", "free W", "softmax by key")
        ]
        return Study(
            "extraction", tuple(arms), 32, 100, seeds(seed, quick), 1, QUICK_GRID, 2000
        )  # fmt: skip
    arms = [arm(truth, kind, depth, 2500) for depth in DEPTHS for truth in TASKS for kind in KINDS]
    return Study("extraction", tuple(arms), 128, 300, seeds(seed), 2, SMALL_GRID)


def answer(results: Results) -> dict[str, Any]:
    return answers.told_by_depth(
        results, TASKS, ("truth", "kind"), tuple(KINDS), [_claims(results)], _reached,
        answers.EXCESS, "excess over Bayes",
    )  # fmt: skip


def _reached(task: Task, batch: Batch) -> dict[str, float]:
    """Ridge regression on the examples that a hard mask keeps: the best of any λ and any mask."""
    losses = {}
    for kept in range(2, task.n + 1, 2):
        for lam in (0.1, 0.3, 1.0, 3.0, 10.0, 30.0):
            off = baselines.ridge(lam)(batch.context(kept)) - batch.clean
            found = float(off.square().mean()) / zero_loss(batch)
            losses[f"ridge on the first {kept}, λ = {lam:g}"] = found
    best = min(losses, key=lambda name: losses[name])
    return {best: losses[best]}


def _claims(results: Results) -> dict[str, Effect]:
    """The best hard mask against none, soft extraction against it; and by key, against linear.

    Which hard mask is best is known where all of them were trained.
    """
    found = {}
    for truth in TASKS:
        for depth in DEPTHS:
            cell, where = {"truth": truth, "depth": depth}, f"{truth}, depth {depth}"
            own = {a.factors["kind"]: r["log_loss"] for a, r in results.where(**cell)}
            here = [a.factors for a in results.study.arms if a.factors.items() >= cell.items()]
            wanted = {factors["kind"] for factors in here if "hard" in factors["kind"]}
            if wanted and wanted <= own.keys():
                best = min((own[kind] for kind in wanted), key=sum)
                if "no extraction" in own:
                    name = f"{where}: less loss with a hard mask than without extraction"
                    found[name] = paired(best, own["no extraction"])
                for kind in (kind for kind in SOFT if kind in own):
                    name = f"{where}: less loss with {kind} than with a hard mask"
                    found[name] = paired(own[kind], best)
            for kind in ("ReLU by key", "softmax by key"):
                if kind in own and "linear by key" in own:
                    name = f"{where}: less loss with {kind} than with linear by key"
                    found[name] = paired(own[kind], own["linear by key"])
    return found
