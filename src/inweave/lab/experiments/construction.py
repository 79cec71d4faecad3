"""Can training find the paper's constructions?

Networks of exactly the constructions' shape, for 1 to 4 steps: two ELSA layers of four heads on the
enumerated form, tied over the steps, and a read-out; one LSA layer of three heads on the designed
form. Every prompt has its own λ, log-uniform from 0.01 to 10, and its own η; the noise has variance
λ, so ridge regression with the prompt's λ is Bayes' answer. What varies:

- `supervision`: `end` asks for the answer only; `steps` also asks that the block w hold after every
  module what gradient descent with the prompt's η and λ has after that step.
- `curriculum`: one module first, then two, and so on, each for an equal share of the steps.

What is asked of a trained network is whether it does what its construction does: how far its
predictions are from that many steps of descent, whether they respond to λ as ridge regression does
and to η as descent does, how far its layers are from the construction's (in a gauge). And if not
that, what else: it is held beside Chebyshev's and Newton's methods of as many steps, the best
polynomial of as many coefficients, and any number of descent steps.
"""

from __future__ import annotations

import copy
import itertools
import statistics
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from inweave.lab import answers, baselines, measures
from inweave.lab.ensemble import Ensemble
from inweave.lab.experiments.bias import ridge_task
from inweave.lab.forms import Form, FormName, form
from inweave.lab.inference import paired
from inweave.lab.spectral import Spectrum, nearest
from inweave.lab.study import GRID, Arm, Results, Study, seeds, start, summary, zero_loss
from inweave.lab.tasks import Batch, Task
from inweave.lab.tensors import Tensor, nn, torch
from inweave.lab.trainer import Stage
from inweave.nn import AttentionNetwork, ExtendedLinearAttention, from_network
from inweave.paper.ridge import ridge_elsa, ridge_lsa

STEPS = 1200
SHAPES: dict[FormName, dict[str, Any]] = {
    "enumerated": {"bias": True, "blocks": 2, "heads": 4, "tied": True, "readout": True},
    "designed": {"bias": False, "blocks": 1, "heads": 3, "tied": True, "readout": True},
}
NUDGE = 0.05  # of log λ and log η, when a response is measured
PROBLEMS = 4096  # on which it is
METHODS = ("construction", "chebyshev", "newton", "polynomial")


QUICK = """\
This form can support: asked for every step, an LSA network comes nearer to its construction than
if asked for the answer. It cannot say anything of ELSA, of depth 3 and 4, of d above 3 or of a
curriculum: it has 5 seeds, 600 steps and one optimizer."""


def construction(made: Form, steps: int) -> AttentionNetwork:
    """The paper's network, in float64."""
    net = (ridge_elsa if made.name == "enumerated" else ridge_lsa)(made.n, made.d, steps)
    return from_network(net)


class Stepwise(AttentionNetwork):
    """The same network, giving the block w after every step, and the answer: (B, steps d + 1)."""

    def forward(self, H: Tensor) -> Tensor:
        column, d = self.layout["w"].start, self.layout["u"].rows
        seen = []
        steps, reader = self.parts
        for state in steps.steps(H):
            seen.append(state[..., :d, column])
            H = state
        return torch.cat([*seen, self.read(reader(H)).unsqueeze(-1)], -1)


def iterates(steps: int) -> Callable[[Batch], Tensor]:
    """What gradient descent has: w after every step, and the answer."""

    def goal(batch: Batch) -> Tensor:
        assert batch.lam is not None
        assert batch.eta is not None
        n = batch.X.shape[1]
        eta, lam = n * batch.eta[:, None], batch.lam[:, None] / n  # for the gradient of the mean
        found = baselines.descent_weights(batch, steps, eta, lam)
        return torch.cat([*found, (found[-1] * batch.u).sum(-1, keepdim=True)], -1)

    return goal


def descent(task: Task, steps: int) -> baselines.Predictor:
    """What the construction predicts."""
    return lambda batch: Spectrum(batch, task).descent(steps)


def stages(steps: int, supervision: str, curriculum: bool) -> Callable[[nn.Module], list[Stage]]:
    def of(model: nn.Module) -> list[Stage]:
        assert isinstance(model, AttentionNetwork)
        found = []
        for k in range(1 if curriculum else steps, steps + 1):
            template = copy.deepcopy(model)
            template.parts[0].repeat = k
            if supervision == "steps":
                m = template
                template = Stepwise(m.parts, m.layout, m.inputs, m.fills, m.outputs)
                found.append(Stage(template, iterates(k)))
            else:
                found.append(Stage(template, lambda batch: batch.clean))
        return found

    return of


def arm(name: FormName, d: int, steps: int, supervision: str, curriculum: bool) -> Arm:
    task = ridge_task(d)
    made = form(name, task.n, task.d)
    model = SHAPES[name] | {"depth": steps}
    factors = {"form": name, "d": d, "depth": steps, "supervision": supervision,
               "curriculum": curriculum}  # fmt: skip
    title = f"{name}-d{d}-{steps}-{supervision}" + "-curriculum" * curriculum
    return Arm(
        title, factors, task, made, model, start(made, **model), STEPS,
        against=baselines.bayes(task), stages=stages(steps, supervision, curriculum),
        scored=descent(task, steps) if supervision == "steps" else None,
    )  # fmt: skip


WITHOUT = (("designed", 5), ("designed", 10))  # a curriculum


def study(quick: bool, seed: int) -> Study:
    if quick:
        arms = [arm("designed", 3, k, how, False) for k in (1, 2) for how in ("end", "steps")]
        grid = tuple(one for one in GRID if one.epsilon == 1e-16 and one.lr < 0.02)
        quickly = tuple(replace(each, steps=600) for each in arms)
        few = seeds(seed, quick)
        return Study("construction", quickly, 64, 150, few, 1, grid, 2000, measure=measure)
    names: tuple[FormName, ...] = ("enumerated", "designed")
    arms = [
        arm(name, d, k, how, curriculum)
        for name in names
        for d in (3, 5, 10)
        for k in (1, 2, 3, 4)
        for how in ("end", "steps")
        for curriculum in ((False, True) if k > 1 and (name, d) not in WITHOUT else (False,))
    ]
    return Study("construction", tuple(arms), 96, STEPS // 4, seeds(seed), 2, measure=measure,
                 keep_weights=True)  # fmt: skip


# -- what a trained network does ------------------------------------------------------------------
def _methods(spectrum: Spectrum, steps: int) -> dict[str, Tensor]:
    """Predictions of the construction, and of methods with as many steps or coefficients."""
    return {
        "construction": spectrum.descent(steps),
        "chebyshev": spectrum.chebyshev(steps),
        "newton": spectrum.newton(steps),
        "polynomial": spectrum.best_polynomial(steps),
    }


def references(arm: Arm, batch: Batch) -> dict[str, Any]:
    """Losses of the methods, on all problems that networks are evaluated on."""
    spectrum, steps = Spectrum(batch, arm.task), arm.factors["depth"]
    errors = [(p - batch.clean).square() for p in _methods(spectrum, steps).values()]
    losses = summary(torch.stack(errors), zero_loss(batch))["log_loss"]
    ridge = _changes(batch, "lam", lambda b: Spectrum(b, arm.task).ridge())
    changes = _changes(batch, "lam", descent(arm.task, steps)).unsqueeze(0)
    built_in = {"response_lam": _slopes(changes, ridge)[0]}
    return {"references": dict(zip(METHODS, losses, strict=True)) | built_in}


@torch.no_grad()
def measure(arm: Arm, ensemble: Ensemble, batch: Batch) -> dict[str, Any]:
    """Numbers per seed, beside the references."""
    found = references(arm, batch)
    few = batch.rows(slice(0, PROBLEMS))
    unit, steps = zero_loss(few), arm.factors["depth"]
    spectrum = Spectrum(few, arm.task)
    own = ensemble.predict(arm.form.prompt(few))
    for name, rival in _methods(spectrum, steps).items():
        found[f"to_{name}"] = summary((own - rival).square(), unit)["log_loss"]
    found["descent_steps"] = nearest(own, spectrum.descent)
    found["coefficients"] = nearest(own, spectrum.best_polynomial, tuple(range(1, 13)))
    predict, descends = (lambda b: ensemble.predict(arm.form.prompt(b))), descent(arm.task, steps)
    ridge = _changes(few, "lam", lambda b: Spectrum(b, arm.task).ridge())
    found["response_lam"] = _slopes(_changes(few, "lam", predict), ridge)
    found["response_eta"] = _slopes(_changes(few, "eta", predict), _changes(few, "eta", descends))
    found["gauge"] = gauge(arm, ensemble)
    return found


def _changes(batch: Batch, name: str, predict: Callable[[Batch], Tensor]) -> Tensor:
    """How predictions change with λ or η in the prompt alone."""
    value = getattr(batch, name)
    up, down = (replace(batch, **{name: value * (1 + sign * NUDGE)}) for sign in (1, -1))
    return predict(up) - predict(down)


def _slopes(own: Tensor, rival: Tensor) -> list[float]:
    """The slope of each row of changes on a method's: 1 if they are the same, 0 if there is none.

    Changes of more than 10 times the usual, where a network explodes, count as those.
    """
    most = 10 * rival.square().mean().sqrt()
    bounded = torch.nan_to_num(own).clamp(-most, most)
    slopes: list[float] = ((bounded * rival).sum(1) / rival.square().sum()).tolist()
    return slopes


def gauge(arm: Arm, ensemble: Ensemble) -> list[list[float]]:
    """For each seed, how far every layer is from the construction's, relative to that."""
    built = construction(arm.form, arm.factors["depth"]).to(ensemble.rows.device)
    wanted = _layers(built)
    found = []
    for m in range(len(ensemble.seeds)):
        layers = _layers(ensemble.member(m).to(ensemble.rows.device))
        pairs = zip(layers, wanted, strict=True)
        found.append([measures.gauge_distance(one, other) for one, other in pairs])
    return found


def _layers(model: AttentionNetwork) -> list[ExtendedLinearAttention]:
    every = [layer for module in model.parts for layer in module.body]
    return [layer for layer in every if isinstance(layer, ExtendedLinearAttention)]


# -- the answer -----------------------------------------------------------------------------------
KINDS = {"enumerated": "ELSA", "designed": "LSA, designed"}


def label(factors: Mapping[str, Any]) -> str:
    depth, d = factors["depth"], factors["d"]
    kind = KINDS[factors["form"]]
    how = "every step" if factors["supervision"] == "steps" else "the answer"
    said = f"{kind}, d = {d}, {depth} step{'s' * (depth > 1)}, asked for {how}"
    return f"{said}, curriculum" if factors["curriculum"] else said


def answer(results: Results) -> dict[str, Any]:
    rows, effects = [], {}
    for a, r in results.where():
        m, name = r["measures"], label(a.factors)
        middle = {key: statistics.median(m[key]) for key in MEASURES}
        rows.append(
            answers.row(name, r, group=a.factors["supervision"], factors=dict(a.factors),
                        gauge=statistics.median(max(layers) for layers in m["gauge"]),
                        references={key: 10 ** m["references"][key] for key in METHODS},
                        built_in=m["references"]["response_lam"],
                        **{key: 10**value if key.startswith("to_") else value
                           for key, value in middle.items()})
        )  # fmt: skip
        reference = m["references"]["construction"]
        effects[f"{name}: less loss than the construction"] = paired(
            r["log_loss"], [reference] * len(r["log_loss"])
        )
    claims = answers.family(effects) + answers.family(_pairs(results))
    labels = {a.name: label(a.factors) for a, _ in results.where(d=3, depth=2)}
    columns = ("to_construction", "response_lam", "response_eta", "gauge", "descent_steps",
               "failed")  # fmt: skip
    return answers.told(results, rows, claims, columns) | {
        "series": answers.curves(results, labels),
        "panels": _panels(results) if rows else [],
        "axes": {"x": "step", "y": "training loss, of the zero predictor's", "log": True},
    }  # fmt: skip


def _panels(results: Results) -> list[dict[str, Any]]:
    """Losses over steps for every d beside those of methods, and the responses to λ and η."""
    found = []
    names = {"end": "asked for the answer", "steps": "asked for every step"}
    ways = [(how, curriculum) for how in names for curriculum in (False, True)]
    kinds = dict.fromkeys((a.factors["form"], a.factors["d"]) for a, _ in results.where())
    for kind, d in kinds:
        lines: list[dict[str, Any]] = []
        for how, curriculum in ways:
            where = {"form": kind, "d": d, "supervision": how, "curriculum": curriculum}
            if arms := [(a.factors["depth"], r) for a, r in results.where(**where)]:
                name = names[how] + ", curriculum" * curriculum
                lines.append(answers.points(name, arms))
        some = {a.factors["depth"]: r for a, r in results.where(form=kind, d=d)}
        for method in METHODS:
            y = [10 ** r["measures"]["references"][method] for r in some.values()]
            lines.append({"label": method, "x": list(some), "y": y, "dashed": True})
        found.append({"title": f"{KINDS[kind]}, d = {d}", "x": "steps built in", "log": True,
                      "y": "excess over Bayes, of zero's", "lines": lines})  # fmt: skip
    for symbol, key, one in (("λ", "response_lam", "ridge"), ("η", "response_eta", "descent")):
        lines = []
        for (kind, d), how in itertools.product(kinds, names):
            where = {"form": kind, "d": d, "supervision": how, "curriculum": False}
            if arms := [(a.factors["depth"], r) for a, r in results.where(**where)]:
                lines.append({"label": f"{KINDS[kind]}, d = {d}, {names[how]}",
                              "x": [k for k, _ in arms],
                              "y": [statistics.median(r["measures"][key])
                                    for _, r in arms]})  # fmt: skip
        found.append({"title": f"response to {symbol}", "x": "steps built in",
                      "y": f"1: as {one}", "lines": lines})  # fmt: skip
    return found


MEASURES = ("to_construction", "to_chebyshev", "to_newton", "to_polynomial", "descent_steps",
            "coefficients", "response_lam", "response_eta")  # fmt: skip


def _pairs(results: Results) -> dict[str, Any]:
    """Does asking for every step, or a curriculum, bring networks nearer to the construction?"""
    found = {}
    for a, r in results.where():
        f = dict(a.factors)
        for change, text in (
            ({"supervision": "end"}, "nearer to the construction than if asked for the answer"),
            ({"curriculum": False}, "nearer to the construction than without a curriculum"),
        ):
            other = None if f.items() >= change.items() else results.one(**f | change)
            if other is not None:
                found[f"{label(f)}: {text}"] = paired(
                    r["measures"]["to_construction"], other["measures"]["to_construction"]
                )
    return found
