"""The paper's own question: does the bias help a network that is trained, not constructed?

A bias can do two things that LSA cannot: name a row of the prompt, and pass a state on exactly
(Property 3 of the paper), which a module of two layers needs inside. Both can be had otherwise: the
prompt can hold constants (λI and √ηI of the enumerated form), and every layer can have a skip of
its own. So the question is asked in all combinations: {LSA, ELSA} x {a skip around every layer, one
around every two} x {constants in the prompt, none} x layers {1, 2, 4, 8} x {1, 4, 16} times the
steps, on ridge regression with noise whose variance λ the prompt may hold. As in the paper's
networks, one more layer reads out. With skips and constants training goes on to 64 times the steps:
does LSA only take longer?

The paper's form reads the answer in the first row, and y stands in the last one. That alone keeps
LSA without constants from predicting anything: its output in a row is that row of H times a
function of HᵀH, which changes its sign with the row, and the answer does not change with the signs
of the first row's entries. So there is a second placement, the answer `beside y`, in the row of y.

ELSA has more numbers than LSA of the same shape and costs more multiplications, so three
comparisons are made, each by its name: equal layers (and heads), equal parameters, and equal
products (scalar multiplications of one prediction, in the cheapest order).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from inweave.lab import answers, baselines
from inweave.lab.forms import Form, form
from inweave.lab.inference import Effect, contrasts, paired
from inweave.lab.study import GRID, Arm, Results, Study, seeds, start
from inweave.lab.tasks import Task
from inweave.stack.attention import multiplications

LAYERS = (1, 2, 4, 8)
BUDGETS = (1, 4, 16)
LONGER = 64  # for some cells with constants
BESIDE = "beside y"  # where the answer is read; else in the first row
STEPS = 200  # of the shortest budget
HEADS = 4
MIDDLE = 4  # the budget at which parameters and products are made equal

# at d = 3, n = 6: 7 heads of ELSA have exactly as many numbers as 8 of LSA, and need as many
# multiplications as 10, to 1 %
ELSA_HEADS = 7
LSA_HEADS = {"equal parameters": 8, "equal products": 10}


QUICK = """\
This form can support: without constants in the prompt LSA stays near the zero predictor and ELSA
does not. It cannot say anything of more than two layers, of what longer training brings, or of
equal parameters and products: it has 5 seeds, one budget and one optimizer."""


def ridge_task(d: int) -> Task:
    """n = 2d examples with entries in (-1, 1); λ, the variance of the noise, is 0.01 to 10.

    Both in units of 0.3, so that y is of the size of x: what else stands in a prompt of size 1
    would be small beside noise of size 3, in products of nine.
    """
    n = 2 * d
    return Task(
        d=d, n=n, inputs="uniform", input_scale=2.0, lam_range=(0.01, 10.0),
        eta_range=(0.2, 0.6), output_scale=0.3,
    )  # fmt: skip


TASK = ridge_task(3)


def _form(answer: str | None, constants: bool = True) -> Form:
    made = form("enumerated", TASK.n, TASK.d, constants=constants)
    if answer is None:
        return made
    (read,) = made.outputs
    return replace(made, outputs=(replace(read, place=replace(read.place, row=TASK.d - 1)),))


def arm(
    bias: bool, skip: bool | None, constants: bool, layers: int, budget: int, heads: int = HEADS,
    answer: str | None = None,
) -> Arm:  # fmt: skip
    """One cell; one layer has no inside, and `skip` is None."""
    blocks = 1 if skip or layers == 1 else 2
    made = _form(answer, constants)
    model = {"bias": bias, "blocks": blocks, "depth": layers // blocks, "heads": heads}
    inside = {True: "skip", False: "no-skip", None: "one"}[skip]
    held = "constants" if constants else "none"
    name = f"{'elsa' if bias else 'lsa'}-{inside}-{held}-{layers}x{heads}{'-beside' * bool(answer)}"
    factors = {
        "bias": bias, "skip": skip, "constants": constants, "layers": layers, "budget": budget,
        "heads": heads, **_placed(answer),
    }  # fmt: skip
    return Arm(
        f"{name}-{budget}", factors, TASK, made, model | _counts(made.layout, model),
        start(made, reader=True, **model), STEPS * budget, against=baselines.bayes(TASK),
        search=name,
    )  # fmt: skip


def _placed(answer: str | None) -> dict[str, str]:
    return {"answer": answer} if answer else {}


def tied(bias: bool, depth: int, answer: str | None = None) -> Arm:
    """The paper's own shape, two layers in a tied module, at the depths that never trained before.

    In float32, with tries chosen by a mean, LSA of three and four modules stayed where it began.
    """
    made = _form(answer)
    model: dict[str, Any] = {"bias": bias, "blocks": 2, "depth": depth, "heads": HEADS,
                             "tied": True, "readout": True}  # fmt: skip
    name = f"{'elsa' if bias else 'lsa'}-tied-{depth}{'-beside' if answer else ''}"
    factors = {"bias": bias, "tied": depth, **_placed(answer)}
    return Arm(
        name, factors, TASK, made, model, start(made, **model), STEPS * max(BUDGETS),
        against=baselines.bayes(TASK),
    )  # fmt: skip


def _counts(layout: Any, model: dict[str, Any]) -> dict[str, int]:
    t, f, heads = layout.tokens, layout.width, model["heads"]
    layers, bias = model["blocks"] * model["depth"] + 1, model["bias"]
    products = min(multiplications(t, t, f, f, heads, bias).values())
    numbers = 3 * heads * f * (f + t * bias)
    return {"parameters": layers * numbers, "products": layers * products}


def study(quick: bool, seed: int) -> Study:
    both = (False, True)
    if quick:
        few = [arm(bias, None, constants, 1, MIDDLE) for constants in both for bias in both]
        grid = tuple(one for one in GRID if one.epsilon != 1e-8 or one.optimizer == "muon")
        grid = tuple(one for one in grid if one.lr < 0.02 and one.scale > 0.2)
        return Study("bias", tuple(few), 64, STEPS, seeds(seed, quick), 1, grid, 2000)
    arms = [
        arm(bias, skip, constants, depth, budget)
        for depth in LAYERS
        for skip in (both if depth > 1 else (None,))
        for constants in both
        for bias in both
        for budget in BUDGETS
    ]
    arms += [
        arm(bias, True if depth > 1 else None, True, depth, MIDDLE, heads)
        for depth in LAYERS
        for bias, heads in ((True, ELSA_HEADS), *((False, n) for n in LSA_HEADS.values()))
    ]
    arms += [
        tied(bias, depth, answer) for answer in (None, BESIDE) for depth in (3, 4) for bias in both
    ]
    arms += [
        arm(bias, skip, True, depth, LONGER)
        for depth, skip in ((1, None), (2, False), (2, True), (4, True))
        for bias in both
    ]
    arms += [
        arm(bias, skip, constants, depth, BUDGETS[-1], answer=BESIDE)
        for depth, skip in ((1, None), (2, False), (2, True), (4, False), (4, True))
        for constants in both
        for bias in both
    ]
    return Study("bias", tuple(arms), 128, MIDDLE * STEPS // 2, seeds(seed), 2)


def label(factors: Mapping[str, Any]) -> str:
    """`ELSA, 2 layers, skip, constants, 4 x steps`."""
    kind = "ELSA" if factors["bias"] else "LSA"
    beside = [f"answer {BESIDE}"] * ("answer" in factors)
    if "tied" in factors:
        return ", ".join([kind, f"{factors['tied']} tied modules of two layers", *beside])
    layers = factors["layers"]
    parts = [kind, f"{layers} layer{'s' * (layers > 1)}"]
    if factors["skip"] is not None:
        parts.append("skip" if factors["skip"] else "no skip")
    parts.append("constants" if factors["constants"] else "no constants")
    if factors["heads"] != HEADS:
        parts.append(f"{factors['heads']} heads")
    return ", ".join([*parts, *beside, f"{factors['budget']} x steps"])


def answer(results: Results) -> dict[str, Any]:
    rows = [
        answers.row(label(a.factors), r, group="ELSA" if a.factors["bias"] else "LSA",
                    products=a.model.get("products"), factors=dict(a.factors))
        for a, r in results.where()
    ]  # fmt: skip
    longest = max(
        a.factors["budget"] for a in results.study.arms if a.factors.get("budget", LONGER) < LONGER
    )
    equal = [_bias(results, longest, answer) | _tied(results, answer) for answer in (None, BESIDE)]
    between = [_interactions(results, answer) for answer in (None, BESIDE)]
    families = (*equal, *between, _sizes(results), _bias(results, LONGER))
    claims = [c for found in families for c in answers.family(found)]
    return answers.told(results, rows, claims, settings={"task": TASK.__dict__}) | {
        "series": answers.curves(results, _curves(results, longest)),
        "panels": _panels(results, longest),
        "axes": {"x": "step", "y": "training loss, of the zero predictor's", "log": True},
    }  # fmt: skip


def _panels(results: Results, budget: int) -> list[dict[str, Any]]:
    """Losses over layers with constants and without, contrasts over layers, training curves."""
    panels = []
    for answer, constants in itertools.product((None, BESIDE), (True, False)):
        lines, cell = [], {"constants": constants, "budget": budget, "heads": HEADS}
        for bias, skip in itertools.product((False, True), (True, False)):
            arms = results.where(bias=bias, answer=answer, **cell)
            found = [(a.factors["layers"], r) for a, r in arms if a.factors["skip"] in (skip, None)]
            if found:
                name = f"{'ELSA' if bias else 'LSA'}, {'skip' if skip else 'no skip'} inside"
                lines.append(answers.points(name, found))
        held = f"{'' if constants else 'no '}constants, answer {answer or 'in the first row'}"
        if lines:
            panels.append({"title": held, "x": "layers", "y": "excess over Bayes, of zero's",
                           "log": True, "logx": True, "lines": lines})  # fmt: skip
    for answer in (None, BESIDE):
        by_name: dict[str, list[tuple[float, Effect]]] = {}
        for text, effect in _interactions(results, answer).items():
            where, _, name = text.partition(": ")
            if "bias" in name and where.endswith(f", {budget} x steps"):
                by_name.setdefault(name, []).append((float(where.split()[0]), effect))
        if by_name:
            lines = [answers.effects(name, found) for name, found in by_name.items()]
            panels.append({"title": f"the bias, answer {answer or 'in the first row'}",
                           "x": "layers", "y": "log₁₀ of the ratio (of ratios)", "logx": True,
                           "lines": lines})  # fmt: skip
    trained = answers.curves(results, _curves(results, budget))
    return [*panels, answers.while_training(trained)] if trained else panels


def _curves(results: Results, budget: int) -> dict[str, str]:
    """The arms whose training is shown: with constants, of as many layers as there are up to 4."""
    layers = max(a.factors["layers"] for a in results.study.arms if a.factors.get("layers", 9) < 5)
    found = results.where(budget=budget, constants=True, heads=HEADS, layers=layers, answer=None)
    arms = sorted((a for a, _ in found), key=lambda a: (a.factors["bias"], not a.factors["skip"]))
    return {a.name: label(a.factors).rpartition(", constants")[0] for a in arms}


def _bias(results: Results, budget: int, answer: str | None = None) -> dict[str, Effect]:
    """Equal layers: ELSA against LSA in every cell that was trained for so long."""
    arms = results.where(bias=True, budget=budget, heads=HEADS, answer=answer)
    return _compared(results, arms, "" if budget == LONGER else f", {budget} x steps")


def _tied(results: Results, answer: str | None) -> dict[str, Effect]:
    arms = results.where(bias=True, answer=answer)
    return _compared(results, ((a, r) for a, r in arms if "tied" in a.factors))


def _compared(
    results: Results, arms: Iterable[tuple[Arm, dict[str, Any]]], unsaid: str = ""
) -> dict[str, Effect]:
    """Arms with the bias against the same without it."""
    found = {}
    for a, elsa in arms:
        lsa = results.one(**{"answer": None, **a.factors, "bias": False})
        if lsa is not None:
            name = label(a.factors).removeprefix("ELSA, ").removesuffix(unsaid)
            text = f"equal layers, {name}: less loss with the bias"
            found[text] = paired(elsa["log_loss"], lsa["log_loss"])
    return found


def _interactions(results: Results, answer: str | None = None) -> dict[str, Effect]:
    """Of bias, skip and constants, at every number of layers and every budget."""
    found = {}
    where = f", answer {answer}" if answer else ""
    for layers in LAYERS[1:]:
        for budget in BUDGETS:
            cells: dict[tuple[bool, ...], list[float]] = {}
            for a, r in results.where(layers=layers, budget=budget, heads=HEADS, answer=answer):
                f = a.factors
                cells[f["bias"], f["skip"], f["constants"]] = r["log_loss"]
            if len(cells) == 8:
                for name, effect in contrasts(("bias", "skip", "constants"), cells).items():
                    found[f"{layers} layers{where}, {budget} x steps: {name}"] = effect
    return found


def _sizes(results: Results) -> dict[str, Effect]:
    """Equal parameters and equal products: 7 heads of ELSA against 8 and 10 of LSA."""
    found = {}
    for a, elsa in results.where(bias=True, heads=ELSA_HEADS):
        for kind, heads in LSA_HEADS.items():
            lsa = results.one(**dict(a.factors) | {"bias": False, "heads": heads})
            if lsa is not None:
                layers = a.factors["layers"]
                text = f"{kind}, {layers} layer{'s' * (layers > 1)}: less loss with the bias"
                found[text] = paired(elsa["log_loss"], lsa["log_loss"])
    return found
