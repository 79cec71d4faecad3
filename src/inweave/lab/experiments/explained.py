"""What do networks compute that beat their construction?

A construction takes so many steps of gradient descent; a network of its shape that is trained does
better. Whatever linear attention computes is a polynomial in the moments of the examples
(`inweave.lab.polynomials`), so the polynomial uᵀ p(S) m nearest to a network's predictions is
looked for, at every degree of p, and it is said how much of the network's gain over gradient
descent that polynomial has. Beside it stands the best polynomial of the degree for the task itself,
which no network was needed for.

Two kinds of networks: LSA of 1 to 4 layers on example tokens from random weights, where L steps of
gradient descent have degree L - 1 and the network (3ᴸ - 1)/2 - 1; and the paper's ELSA module for 1
and 2 steps on the enumerated form, trained from the construction with a little noise on it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from inweave.lab import answers
from inweave.lab.baselines import descent_weights
from inweave.lab.ensemble import Ensemble, tries
from inweave.lab.forms import Form, form
from inweave.lab.inference import Effect, effect, t_interval
from inweave.lab.polynomials import Basis, degree, fitted
from inweave.lab.study import CAP, QUICK_GRID, Arm, Results, Study, seeds, start, zero_loss
from inweave.lab.tasks import Batch, Task, draw, stream
from inweave.lab.tensors import Tensor, torch
from inweave.nn import AttentionNetwork, from_network
from inweave.paper.ridge import ridge_elsa

TASKS = {"LSA": Task(d=5, n=16), "ELSA": Task(d=3, n=9)}
LAYERS, STEPS = (1, 2, 3, 4), (1, 2)
DEGREES = tuple(range(13))  # of polynomials; fits of a higher one do not hold on fresh problems
SHAKEN = 0.003  # noise on a construction
RATES = (1e-3, 3e-3, 1e-2, 3e-2)
SCALES = (0.1, 1.0)
GRID = (
    *tries(*RATES, scales=SCALES, epsilon=1e-16),
    *tries(*RATES, scales=SCALES, optimizer="muon"),
)
FINE = (3e-6, 1e-5, 3e-5, 1e-4, 3e-4, *RATES[:3])
UNSCALED = (*tries(*FINE, epsilon=1e-16), *tries(*FINE, optimizer="muon"))  # for constructions
FIT = 4  # times as many problems are fitted to as are evaluated on
ETAS = 200  # step sizes that are tried

QUICK = """This form can support: two layers of LSA beat two gradient steps, and a polynomial of
their own degree has nearly all of the gain. It cannot say anything of more layers or of ELSA: it
has 5 seeds, 600 steps and one optimizer."""


def lsa(layers: int, steps: int) -> Arm:
    """Layers of example tokens, from random weights."""
    task = TASKS["LSA"]
    made = form("examples", task.n, task.d)
    model: dict[str, Any] = {
        "depth": layers, "heads": 2, "bias": False, "merged": True, "queries": 1,
    }  # fmt: skip
    factors = {"kind": "LSA", "steps": layers, "degree": degree(layers), "fit": FIT}
    return Arm(f"lsa-{layers}", factors, task, made, model, start(made, **model), steps)


def elsa(count: int, steps: int) -> Arm:
    """The paper's module for so many steps, near its construction."""
    task = TASKS["ELSA"]
    tuned = draw(task, 1000, stream(0, "eta"), torch.float64)
    eta, _ = descent(tuned, tuned, count)
    made = form("enumerated", task.n, task.d, eta=eta / task.n)
    model = {"construction": "ridge_elsa", "steps": count, "noise": SHAKEN}
    factors = {"kind": "ELSA", "steps": count, "degree": (9 ** (count + 1) - 3) // 2, "fit": FIT}
    return Arm(
        f"elsa-{count}", factors, task, made, model, shaken(task, count), steps, grid=UNSCALED
    )  # fmt: skip


def shaken(task: Task, count: int, noise: float = SHAKEN) -> Callable[[int], AttentionNetwork]:
    """`make(seed)`: the construction, every weight with noise on it."""

    def make(seed: int) -> AttentionNetwork:
        model = from_network(ridge_elsa(task.n, task.d, count))
        with torch.no_grad():
            for name, p in model.named_parameters():
                drawn = torch.randn(p.shape, generator=stream(seed, "start", name), dtype=p.dtype)
                p.add_(noise * drawn)
        return model

    return make


def study(quick: bool, seed: int) -> Study:
    if quick:
        arms = [lsa(1, 600), lsa(2, 600)]
        few = seeds(seed, quick)
        return Study("explained", tuple(arms), 64, 150, few, 1, QUICK_GRID, 4000, measure)
    arms = [*(lsa(k, 6000) for k in LAYERS), *(elsa(k, 6000) for k in STEPS)]
    return Study("explained", tuple(arms), 256, 400, seeds(seed), 2, GRID, measure=measure,
                 keep_weights=True)  # fmt: skip


# -- measuring ------------------------------------------------------------------------------------
def descent(tuning: Batch, batch: Batch, steps: int) -> tuple[float, Tensor]:
    """The best constant step size, and what so many steps with it predict."""
    largest = float(torch.linalg.eigvalsh(tuning.X.mT @ tuning.X / tuning.X.shape[1]).mean(0)[-1])
    best = (float("inf"), 0.0)
    for k in range(1, ETAS + 1):
        eta = 3 / largest * k / ETAS
        off = _descended(tuning, steps, eta) - tuning.clean
        best = min(best, (float(off.square().mean()), eta))
    return best[1], _descended(batch, steps, best[1])


def _descended(batch: Batch, steps: int, eta: float) -> Tensor:
    return (descent_weights(batch, steps, eta)[-1] * batch.u).sum(-1)


def measure(arm: Arm, ensemble: Ensemble, batch: Batch) -> dict[str, Any]:
    """For every seed and degree, how much of the gain a polynomial has that is like the network."""
    generator = stream(0, "fit", device=batch.X.device)
    fit = draw(arm.task, FIT * len(batch), generator, torch.float64)
    unit, count = zero_loss(batch), arm.factors["steps"]
    _, descended = descent(fit.rows(slice(0, 4000)), batch, count)
    wanted, own = (_predictions(ensemble, arm.form, it) for it in (fit, batch))

    def loss(off: Tensor) -> Tensor:
        """The capped mean square by columns, in units of the zero predictor's."""
        return off.square().nan_to_num(nan=CAP * unit).clamp(max=CAP * unit).mean(0) / unit

    usable = ((wanted - fit.clean[:, None]).square() < CAP * unit).all(1)
    kept = fit.rows(usable.nonzero()[:, 0])
    clean = batch.clean[:, None]
    before = loss(descended[:, None] - clean)
    apart = loss(descended[:, None] - own)
    found: dict[str, Any] = {
        "descent": float(before), "degrees": list(DEGREES), "share": [], "near": [], "best": [],
    }  # fmt: skip
    largest = Basis.of(fit, DEGREES[-1])
    for each in DEGREES:
        basis = replace(largest, degree=each)
        near = fitted(basis, kept, wanted[usable])(batch)
        found["share"].append((1 - loss(near - own) / apart).tolist())
        found["near"].append(loss(near - clean).log10().tolist())
        best = fitted(basis, fit, fit.clean)(batch)
        found["best"].append(float(loss(best[:, None] - clean)))
    return found


def _predictions(ensemble: Ensemble, made: Form, batch: Batch) -> Tensor:
    """(B, members)."""
    return ensemble.predictions(made, batch).T


# -- saying ---------------------------------------------------------------------------------------
def label(factors: Mapping[str, Any]) -> str:
    kind, steps = factors["kind"], factors["steps"]
    what = "layer" if kind == "LSA" else "step"
    return f"{kind}, {steps} {what}{'s' * (steps > 1)}"


def answer(results: Results) -> dict[str, Any]:
    rows, series, lines = [], [], []
    for a, r in results.where():
        f, m = dict(a.factors), r["measures"]
        own = min(f["degree"], DEGREES[-1])
        shares = [t_interval(shares) for shares in m["share"]]
        rows.append(answers.row(
            label(f), r, factors=f, descent=m["descent"], degree=own,
            best=min(m["best"][: own + 1]), share=shares[own].asdict(),
            share_of_descent=shares[f["steps"] - 1].mean,
            near=answers.over_seeds(m["near"][own]),
        ))  # fmt: skip
        if rows[-1]["loss"]["high"] < m["descent"]:
            every = {
                "nearest to the network": [10 ** statistics.fmean(x) for x in m["near"]],
                "best for the task": m["best"],
            }
            series += [{"panel": label(f), "label": name, "x": m["degrees"], "y": y}
                       for name, y in every.items()]  # fmt: skip
            known = {"network": answers.loss(r), "gradient descent": m["descent"]}
            lines += [{"panel": label(f), "label": name, "y": y} for name, y in known.items()]
    claims = answers.family(_claims(results))
    columns = ("descent", "best", "degree", "failed")
    tasks = {"tasks": {k: asdict(t) for k, t in TASKS.items()}}
    return answers.told(results, rows, claims, columns, answers.PLAIN, tasks) | {
        "series": series,
        "lines": lines,
        "axes": {"x": "degree of the polynomial", "y": "loss, of the zero predictor's",
                 "log": True},
    }  # fmt: skip


def _claims(results: Results) -> dict[str, Effect]:
    """That training beats the construction, in log₁₀ of the loss."""
    found = {}
    for a, r in results.where():
        before = torch.tensor(r["measures"]["descent"]).log10()
        off = [x - float(before) for x in r["log_loss"]]
        steps = a.factors["steps"]
        text = f"{label(a.factors)}: less loss than {steps} gradient step{'s' * (steps > 1)}"
        found[text] = effect(off)
    return found
