"""Do deeper LSA networks adapt to a noise level that changes from prompt to prompt?

D = 10, n = 20, σ uniform on (0, 5) per prompt. The oracle is ridge regression that knows σ. Beside
it: ridge with one λ tuned for all prompts, ridge with λ = σ̂² estimated from the prompt
(adaptive), and λ = a σ̂² + b with a, b tuned. Reported is the excess MSE over the oracle, on the
clean target, for one, two and four untied layers.
"""

from __future__ import annotations

from typing import Any

from inweave.lab import baselines, measures
from inweave.lab.experiments import common
from inweave.lab.forms import form
from inweave.lab.tasks import Task
from inweave.lab.trainer import Settings

TASK = Task(d=10, n=20, noise_max=5.0)


def run(quick: bool, device: str, seed: int) -> dict[str, Any]:
    made = form("examples", TASK.n, TASK.d)
    settings = Settings(
        steps=1500 if quick else 8000,
        batch=128 if quick else 2048,
        lrs=(3e-3,) if quick else (1e-3, 3e-3),
        warmup=200,
        clip=1.0,
        target="noisy",
        log_every=200,
    )
    seeds = list(range(seed, seed + (2 if quick else 3)))
    tuning = common.held_out(TASK, 20_000, seed, "tune", device)
    batch = common.held_out(TASK, 50_000 if quick else 200_000, seed, "eval", device)
    oracle = measures.squared_errors(baselines.bayes(TASK), batch)
    (lam,) = baselines.tune(baselines.ridge, [(0.1, 60.0)], tuning)
    pair = baselines.tune(baselines.tuned_adaptive_ridge, [(0.1, 3.0), (0.0, 20.0)], tuning)
    rivals = {
        f"ridge, λ = {lam:.1f} tuned": baselines.ridge(lam),
        "adaptive ridge, λ = σ̂²": baselines.adaptive_ridge,
        "tuned adaptive, λ = {:.2f} σ̂² + {:.1f}".format(*pair): baselines.tuned_adaptive_ridge(
            *pair
        ),
        "least squares": baselines.least_squares,
        "zero": baselines.zero,
    }
    rows, series, found = [], [], {}
    for depth in (1, 2, 4):
        start = common.random_start(made, bias=False, depth=depth, scale=0.3 / depth, queries=1)
        ensemble = common.fit(start, TASK, made, settings, seeds, device)
        members, errors = common.chosen_errors(ensemble, made, tuning, batch)
        excess = errors - oracle
        found[depth] = common.best_seed(excess)
        rows.append(common.row(f"{depth} LSA layer{'s' * (depth > 1)}, trained", excess,
                               best_seed=found[depth], group="trained"))  # fmt: skip
        series += common.curves(ensemble, f"{depth} layer{'s' * (depth > 1)}", members)
    excesses = {name: measures.squared_errors(p, batch) - oracle for name, p in rivals.items()}
    rows += [common.row(name, errors, group="baseline") for name, errors in excesses.items()]
    noise = TASK.mean_square_noise()
    names = list(rivals)
    fixed = float(excesses[names[0]].mean())
    return {
        "settings": {"task": TASK.__dict__, "training": settings.__dict__, "seeds": seeds,
                     "oracle_mse": float(oracle.mean())},
        "rows": rows,
        "loss": "excess MSE",
        "table": common.table(rows, "excess MSE", ["best_seed"])
        + f"\n\nthe oracle's own MSE is {float(oracle.mean()):.4f}",
        "series": series,
        "lines": [
            {"label": "oracle", "y": float(oracle.mean()) + noise},
            {"label": "ridge, one λ", "y": float(oracle.mean()) + fixed + noise},
        ],
        "axes": {"x": "step", "y": "training MSE (noisy target)"},
        "bars": True,
        "claims": [
            common.claim("two layers beat one", found[1] - found[2], found[2] < found[1]),
            common.claim("four layers beat two", found[2] - found[4], found[4] < found[2]),
            common.claim("four layers beat ridge with one tuned λ", found[4] - fixed,
                         found[4] < fixed),
        ],
    }  # fmt: skip
