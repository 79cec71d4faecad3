"""Writes what was found into docs/open-questions.md, from docs/lab/*.json.

The page's prose is written by hand. Between the lines `<!-- NAME -->` and `<!-- end of NAME -->`
stands what the stored result of an experiment says: the answer in a sentence, the table, how it was
made. A test compares page and files. With --figures the figures are drawn again too.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from inweave.lab.experiments import EXPERIMENTS
from inweave.lab.experiments.bias import BESIDE, LONGER, MIDDLE, STEPS
from inweave.lab.experiments.construction import KINDS
from inweave.lab.report import figure, number
from inweave.lab.results import stored
from scripts import explained_programs, quick_directions

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "open-questions.md"
LEVEL = 0.05
IDLE = 0.95  # of the zero predictor's loss: next to nothing is predicted
Result = dict[str, Any]


# -- words and tables -----------------------------------------------------------------------------
def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def loss(row: Mapping[str, Any]) -> str:
    """A loss with its interval over seeds."""
    it = row["loss"]
    if it["low"] == it["high"]:
        return number(it["mean"])
    return f"{number(it['mean'])} [{number(it['low'])}, {number(it['high'])}]"


def ratio(claim: Mapping[str, Any]) -> str:
    """By what a loss is multiplied, with the interval; bold where Holm's p is below the level."""
    low, high = sorted((10 ** claim["low"], 10 ** claim["high"]))
    said = f"{10 ** claim['value']:.3g} [{low:.3g}, {high:.3g}]"
    return f"**{said}**" if claim["p"] < LEVEL else said


def listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)


def decided(claims: Iterable[Mapping[str, Any]]) -> tuple[list[str], list[str], list[str]]:
    """The claims that hold, those whose contrary does, and those that stay open, by name."""
    better, worse, still = [], [], []
    for claim in claims:
        to = still if claim["p"] >= LEVEL else better if claim["value"] < 0 else worse
        to.append(str(claim["claim"]))
    return better, worse, still


def verdicts(claims: Mapping[str, Mapping[str, Any]], word: str) -> str:
    """With or on which of them there is less loss, and more."""
    less, more, _ = decided(
        {**claim, "claim": name.replace(", query seen", " (query seen)")}
        for name, claim in claims.items()
    )
    hows = ("less loss", less), ("more" if less else "more loss", more)
    return ", ".join(f"{how} {word} {listed(names)}" for how, names in hows if names)


def by_factors(result: Result, **factors: Any) -> list[dict[str, Any]]:
    return [row for row in result["rows"] if "factors" in row
            and all(row["factors"].get(k) == v for k, v in factors.items())]  # fmt: skip


def levels(result: Result, factor: str) -> list[Any]:
    found = [row["factors"][factor] for row in result["rows"] if factor in row.get("factors", ())]
    return list(dict.fromkeys(found))


def made(result: Result) -> str:
    s = result["settings"]
    steps = " to ".join(f"{k:,}" for k in dict.fromkeys((s["steps"][0], s["steps"][-1])))
    said = (
        f"`{result['command']}`: {s['arms']} arms, {len(s['seeds'])} seeds, {steps} steps of batch "
        f"{s['batch']}, each arm's settings the best of {s['tries']} tries of {s['search_steps']} "
        f"steps; {result['arm_seconds']:,.0f} s of training on {result['device']}. Arms whose "
        f"search chose the smallest start: {s['ends']['scale']}, the largest step size: "
        f"{s['ends']['lr']}; skewed over seeds: {s['skewed']}."
    )
    if result["missing"]:
        said += (
            f" **{len(result['missing'])} of the {s['arms']} arms are missing**: the time on the "
            "GPU was over. Nothing here rests on them; the same command trains them and no others."
        )
    return said


# -- one function for each question ---------------------------------------------------------------
def construction(result: Result) -> str:
    less, more, _ = decided(result["claims"])
    groups: dict[tuple[str, int, str, bool], list[dict[str, Any]]] = {}
    for r in by_factors(result):
        f = r["factors"]
        key = KINDS[f["form"]], f["d"], f["supervision"], f["curriculum"]
        groups.setdefault(key, []).append(r)

    def counts(rows: Sequence[Mapping[str, Any]]) -> list[int]:
        claims = [f"{r['label']}: less loss than the construction" for r in rows]
        near = [r for r in rows if r["to_construction"] < 0.1 * r["references"]["construction"]]
        return [
            len(rows), len(near), sum(_responds(r) for r in near),
            sum(c in less for c in claims), sum(c in more for c in claims),
        ]  # fmt: skip

    asked = {"end": "the answer", "steps": "every step"}
    end, steps = (counts([r for key, rows in groups.items() if key[2] == how for r in rows])
                  for how in asked)  # fmt: skip
    sentence = (
        f"Asked for the answer alone, {end[1]} of {end[0]} arms end near their construction (in "
        "the median over seeds, nearer than a tenth of what it is off by itself), "
        f"{end[3]} end with less loss than it and {end[4]} with more; asked for every step, "
        f"{steps[1]} of {steps[0]} end near it, and {steps[2]} of these respond to λ and η in the "
        "prompt as it does (λ to 0.2 of ridge's response, η to 0.2)."
    )
    head = ["", "arms", "near it", "and respond as it does", "less loss", "more loss"]
    cells = [
        [f"{kind}, d = {d}, asked for {asked[how]}{', curriculum' * curriculum}",
         *map(str, counts(rows))]
        for (kind, d, how, curriculum), rows in groups.items()
    ]  # fmt: skip
    parts = [f"**{sentence}**", table(head, cells)]
    head = ["", "loss", "of the construction", "distance to it", "of the weights", "response to λ",
            "the construction's", "response to η", "nearest number of steps"]  # fmt: skip
    cells = [
        [r["label"], loss(r), number(r["references"]["construction"]),
         number(r["to_construction"]), f"{r['gauge']:.1f}", f"{r['response_lam']:.2f}",
         f"{r['built_in']:.2f}", f"{r['response_eta']:.2f}", f"{r['descent_steps']:g}"]
        for r in by_factors(result, curriculum=False, d=3)
    ]  # fmt: skip
    return "\n\n".join([*parts, table(head, cells)])


def _responds(row: Mapping[str, Any]) -> bool:
    """As the construction does: to λ up to a fifth of ridge's response, to η up to a fifth."""
    off = abs(row["response_lam"] - row["built_in"]), abs(row["response_eta"] - 1)
    return max(off) < 0.2


def bias(result: Result) -> str:
    every = [c for c in result["claims"] if c["claim"].startswith("equal layers")]
    longer = [c for c in every if f", {LONGER} x steps" in c["claim"]]
    first, beside = (
        [c for c in every if c not in longer and (f"answer {BESIDE}" in c["claim"]) == is_beside]
        for is_beside in (False, True)
    )
    budget = max(b for b in levels(result, "budget") if b < LONGER)
    cells, idle = _pairs(result, first, budget)
    less, more, _ = decided(first)
    sentence = (
        f"With the answer in the first row the bias gives less loss in {len(less)} of {len(first)} "
        f"cells and more in {len(more)}, but in {idle} of them LSA predicts next to nothing."
    )
    head = ["", "LSA", "ELSA", "ELSA / LSA"]
    parts = [f"Answer in the first row, {STEPS * budget:,} steps:", table(head, cells)]
    if beside:
        ratios = {c["claim"]: 10 ** c["value"] for c in beside}
        kinds = []
        words = (f"less loss in {{}} of {len(beside)} cells", "more in {}")
        for word, them in zip(words, decided(beside), strict=False):
            found = [ratios[name] for name in them if "tied" not in name]
            tied = [f"{ratios[name]:.2g}" for name in them if "tied" in name]
            if found:
                said = f"ratios {min(found):.3g} to {max(found):.3g}"
                said += f", and {listed(tied)} where LSA hardly trained" * bool(tied)
                kinds.append(f"{word.format(len(them))} ({said})")
        sentence = f"With the answer {BESIDE} the bias gives {listed(kinds)}. {sentence}"
        parts = [f"Answer {BESIDE}, {STEPS * budget:,} steps:",
                 table(head, _pairs(result, beside, budget)[0]), *parts]  # fmt: skip
    if longer:
        parts += [f"Answer in the first row, {STEPS * LONGER:,} steps:",
                  table(head, _pairs(result, longer, budget)[0])]  # fmt: skip
    of_others = [
        c for c in result["claims"] if c["claim"].startswith(("equal param", "equal prod"))
    ]
    if of_others:
        cells = [
            [c["claim"].removesuffix(": less loss with the bias"), ratio(c)] for c in of_others
        ]
        parts += [f"Answer in the first row, skips and constants, {STEPS * MIDDLE:,} steps:",
                  table(["", "ELSA / LSA"], cells)]  # fmt: skip
    between = [c for c in result["claims"] if f"{budget} x steps: " in c["claim"]
               and c not in every]  # fmt: skip
    if between:
        cells = [[*c["claim"].split(f", {budget} x steps: "), ratio(c)] for c in between]
        head = ["layers", "effect, or interaction", "ratio of losses, or of such ratios"]
        parts.append(table(head, cells))
    return "\n\n".join([f"**{sentence}**", *parts])


def _pairs(
    result: Result, claims: Sequence[Mapping[str, Any]], budget: int
) -> tuple[list[list[str]], int]:
    """Losses of LSA and ELSA and their ratio; and how often LSA predicts next to nothing."""
    cells, idle = [], 0
    for claim in claims:
        name = (
            claim["claim"].removeprefix("equal layers, ").removesuffix(": less loss with the bias")
        )
        labels = {kind: (f"{kind}, {name}", f"{kind}, {name}, {budget} x steps")
                  for kind in ("LSA", "ELSA")}  # fmt: skip
        pair = [next((r for r in result["rows"] if r["label"] in either), None)
                for either in labels.values()]  # fmt: skip
        idle += pair[0] is not None and pair[0]["loss"]["mean"] > IDLE
        cells.append([name, *("" if r is None else loss(r) for r in pair), ratio(claim)])
    return cells, idle


def nonlinearity(result: Result) -> str:
    scores, deepest = levels(result, "scores"), max(levels(result, "depth"))
    against = {}
    for claim in result["claims"]:
        found = re.fullmatch(r"(.+), depth (\d+): less loss with (.+) scores", claim["claim"])
        if found and int(found[2]) == deepest:
            against[found[1], found[3]] = claim
    parts = []
    for kind in scores:
        if said := verdicts({task: c for (task, it), c in against.items() if it == kind}, "on"):
            parts.append(f"{kind}: {said}")
    sentence = f"At depth {deepest}, against linear scores: {'; '.join(parts)}."
    cells = []
    for task in levels(result, "task"):
        for depth in sorted(levels(result, "depth")):
            rows = [by_factors(result, task=task, scores=kind, depth=depth) for kind in scores]
            cells.append([f"{task}, depth {depth}", *(loss(r[0]) if r else "" for r in rows)])
        ratios = [ratio(against[task, kind]) if (task, kind) in against else "" for kind in scores]
        cells.append([f"{task}, depth {deepest}, of linear's", *ratios])
    return "\n\n".join([f"**{sentence}**", table(["", *scores], cells)])


def extraction(result: Result) -> str:
    depths, kinds = sorted(levels(result, "depth")), levels(result, "kind")
    against = {}
    for claim in result["claims"]:
        found = re.fullmatch(
            r"(.+), depth (\d+): less loss with (.+) than with a hard mask", claim["claim"]
        )
        if found:
            against[found[1], int(found[2]), found[3]] = claim
    parts, deepest = [], max(depths)
    for truth in levels(result, "truth"):
        own = {kind: c for (it, k, kind), c in against.items() if (it, k) == (truth, deepest)}
        if said := verdicts(own, "with"):
            parts.append(f"where relevance is {truth}, {said}")
    sentence = f"At depth {deepest}, against the best hard mask: {'; '.join(parts)}."
    if not parts:
        sentence = "Whether soft extraction beats the best hard mask is not known: at no depth "
        sentence += "were all masks trained."
    cells = []
    for truth in levels(result, "truth"):
        for kind in kinds:
            line = [f"{truth}: {kind}"]
            for depth in depths:
                rows = by_factors(result, truth=truth, kind=kind, depth=depth)
                line.append(loss(rows[0]) if rows else "")
            cells.append(line)
        cells += [[r["label"], *[loss(r)] * len(depths)] for r in result["rows"]
                  if "factors" not in r and r["label"].startswith(truth)]  # fmt: skip
    head = ["", *(f"depth {k}" for k in depths)]
    ratios = [
        [f"{truth}: {kind}, of the best hard mask's",
         *(ratio(against[truth, k, kind]) if (truth, k, kind) in against else "" for k in depths)]
        for truth, kind in dict.fromkeys((t, k) for t, _, k in against)
    ]  # fmt: skip
    return "\n\n".join([f"**{sentence}**", table(head, cells + ratios)])


def explained(result: Result) -> str:
    gained = [r for r in result["rows"] if r["loss"]["high"] < r["descent"]]
    shares = [f"{100 * r['share']['mean']:.3g} % for {r['label']}" for r in gained]
    sentence = (
        "Of the mean square by which a network's predictions differ from gradient descent's, the "
        "nearest polynomial in the moments, of the network's own degree or of degree 12, has "
        f"{listed(shares)}."
    )
    head = ["", "trained", "nearest polynomial", "best polynomial for the task",
            "gradient descent", "degree", "share", "share at descent's degree"]  # fmt: skip
    cells = [
        [r["label"], loss(r), loss({"loss": r["near"]}), number(r["best"]), number(r["descent"]),
         str(r["degree"]), _percent(r["share"]), f"{100 * r['share_of_descent']:.0f} %"]
        for r in gained
    ]  # fmt: skip
    rest = [r["label"] for r in result["rows"] if r not in gained]
    parts = [f"**{sentence}**", table(head, cells)]
    if rest:
        parts.append(f"No gain over gradient descent, and so nothing to explain: {listed(rest)}.")
    return "\n\n".join(parts)


def _percent(interval: Mapping[str, float]) -> str:
    mean, low, high = (f"{100 * interval[key]:.4g}" for key in ("mean", "low", "high"))
    return f"{mean} % [{low}, {high}]"


def noise(result: Result) -> str:
    deepest = [r["label"] for r in result["rows"] if r.get("group") == "trained"][-1]
    own = [c for c in result["claims"] if c["claim"].startswith(f"{deepest}: less loss than ")]
    names = [
        [it.split(" than ", 1)[1].replace(", tuned", " (tuned)").replace("ridge, ", "ridge with ")
         for it in group]
        for group in decided(own)
    ]  # fmt: skip
    words = ("less loss than", "more than", "no decision against")
    said = [f"{it} {listed(those)}" for it, those in zip(words, names, strict=True) if those]
    cells = [[r["label"], loss(r)] for r in result["rows"]]
    sentence = f"{deepest} have {'; '.join(said)}."
    return "\n\n".join([f"**{sentence}**", table(["", "excess loss"], cells)])


def perturb(result: Result) -> str:
    better, worse, still = decided(result["claims"])
    sentence = (
        f"After training, {len(better)} of {len(result['claims'])} arms, two of them without "
        f"noise, have less loss than the construction, {len(worse)} more, {len(still)} stay open."
    )
    borne = []
    for kind, name in (("enumerated", "ELSA"), ("designed", "LSA")):
        rows = [r for r in by_factors(result, form=kind) if r["label"].endswith("before")]
        alone = rows[0]["loss"]["mean"]
        sizes = [r["factors"]["size"] for r in rows if r["loss"]["mean"] < 1.1 * alone]
        said = f"noise of {max(sizes):g}" if max(sizes) else "no noise that was tried"
        borne.append(f"the construction of {name} bears {said}")
    sentence = f"With at most a tenth more loss {listed(borne)}. {sentence}"
    cells = []
    for size in levels(result, "size"):
        line = [f"{size:g}"]
        for kind in ("enumerated", "designed"):
            rows = by_factors(result, form=kind, size=size)
            line += [loss(r) for r in rows] or ["", ""]
        cells.append(line)
    head = ["noise", "ELSA, before", "after training", "LSA, before", "after training"]
    return "\n\n".join([f"**{sentence}**", table(head, cells)])


SECTIONS: dict[str, Callable[[Result], str]] = {
    "construction": construction,
    "bias": bias,
    "nonlinearity": nonlinearity,
    "extraction": extraction,
    "noise": noise,
    "perturb": perturb,
    "explained": explained,
}


REPRODUCED = ("one-step", "gaussian-one-layer", "two-step", "preconditioner")
FIGURES = {
    "construction": "Loss against the steps built in for each d, and the responses to λ and η",
    "bias": "Loss against layers, what the bias changes, and training curves",
    "nonlinearity": "Loss against depth for each task and each kind of scores",
    "extraction": "Excess over Bayes against depth, for hard masks and soft extraction",
    "noise": "Excess over the oracle against layers beside rivals, and training curves",
    "perturb": "Loss against the size of the noise",
    "explained": "Losses of polynomials against their degree, beside those of networks",
}


def directions(folder: Path) -> str:
    """How often quick forms say the same as the full one, of what that is sure of."""
    if not quick_directions.KEPT.exists():
        return "That quick forms point where the full ones do has not been recorded."
    kept, cells = json.loads(quick_directions.KEPT.read_text("utf-8")), []
    for name, claims in kept.items():
        path = folder / f"{name}.json"
        full = {c["claim"]: c for c in stored(path)["claims"]} if path.exists() else {}
        sure = {it: full[it]["value"] for it in claims if it in full and full[it]["p"] < LEVEL}
        agreed = [it for it in claims if len({v < 0 for v in claims[it].values()}) == 1]
        same = sum(all((v < 0) == (sure[it] < 0) for v in claims[it].values()) for it in sure)
        cells.append([name, str(len(claims)), str(len(agreed)), f"{same} of {len(sure)}"])
    head = ["study", "claims that the quick form supports", "the same at all seeds",
            "the same as the full form, of those that it decides"]  # fmt: skip
    return "Recorded once, at five seeds of the quick forms:\n\n" + table(head, cells)


def reproduced(name: str, folder: Path) -> str:
    """The rows of an experiment with a published answer, and by what they were found."""
    result = stored(folder / f"{name}.json")
    rows = [r for r in result["rows"] if not r["label"].startswith(" ")]
    extra = [key for key in ("cosine",) if any(key in r for r in rows)]
    cells = [[r["label"], number(r["loss"]["mean"]),
              f"{number(r['loss']['low'])} to {number(r['loss']['high'])}",
              *(f"{r[key]:.5f}" if key in r else "" for key in extra)] for r in rows]  # fmt: skip
    head = ["", result["loss"], "95 % interval", *extra]
    said = [table(head, cells), f"`{result['command']}`: {len(result['settings']['seeds'])} seeds."]
    if own := [r["loss"]["mean"] for r in result["rows"] if r["label"].startswith(" ")]:
        said[1] += f" They end between {number(min(own))} and {number(max(own))}."
        seeing = sorted(s["y"][-1] for s in result["series"] if s["group"] == "query attended to")
        if seeing:
            said[1] += (
                " With the query attended to as well, the last training losses are "
                f"{number(seeing[0])} to {number(seeing[-2])}, and {number(seeing[-1])} for one."
            )
    if "distances" in result:
        every = [d for layers in result["distances"] for d in layers]
        said[1] += (
            f" The {len(every)} learned matrices end within {max(every):.3f} of a multiple of Σ⁻¹, "
            "on a scale where a multiple has distance 0, the identity "
            f"{result['lines'][0]['y']:.3f} and an orthogonal matrix 1."
        )
    return "\n\n".join(said)


def programs() -> str:
    """What networks were read as."""
    if not explained_programs.KEPT.exists():
        return "No network has been read as a program."
    kept = json.loads(explained_programs.KEPT.read_text("utf-8"))
    head = ["layers", "network", "its program", "gradient descent", "of the gain",
            "predictions differ, of their mean square, by"]  # fmt: skip
    cells = [
        [str(it["layers"]), *(number(it[k]) for k in ("network", "program", "descent")),
         f"{100 * it['gain']:.1f} %", f"{100 * it['difference']['mean']:.2g} %"]
        for it in kept
    ]  # fmt: skip
    first = (
        f"The program of {kept[0]['layers']} layers:\n\n```text\n{kept[0]['source'].strip()}\n```"
    )
    return "\n\n".join([table(head, cells), first])


# -- the page -------------------------------------------------------------------------------------
def block(name: str, folder: Path = DOCS / "lab") -> str:
    """What stands between the marks of an experiment."""
    path = folder / f"{name}.json"
    result = stored(path) if path.exists() else None
    if result is None or "claims" not in result or "arm_seconds" not in result:
        return f"No result is stored. `inweave lab run {name} --device cuda` makes one."
    picture = f"![{FIGURES[name]}](figures/lab-{name}.png)"
    return "\n\n".join([SECTIONS[name](result), picture, made(result)])


def written(page: str, folder: Path = DOCS / "lab") -> str:
    """The page with every block as the stored results have it."""
    blocks = {name: block(name, folder) for name in SECTIONS} | {"quick": directions(folder)}
    blocks |= {name: reproduced(name, DOCS / "lab") for name in REPRODUCED}
    blocks["programs"] = programs()
    for name, text in blocks.items():
        marks = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        page, count = marks.subn(lambda m, text=text: f"{m[1]}{text}\n{m[2]}", page)
        if count != 1:
            raise SystemExit(f"{PAGE.name} has {count} blocks of {name}, expected one")
    return page


def main() -> int:
    PAGE.write_text(written(PAGE.read_text("utf-8")), encoding="utf-8")
    if "--figures" in sys.argv:
        for name in (*SECTIONS, *REPRODUCED):
            path = DOCS / "lab" / f"{name}.json"
            if name in EXPERIMENTS and path.exists():
                print(figure(stored(path), DOCS / "figures" / f"lab-{name}.png"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
