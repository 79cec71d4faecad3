"""A trained run beside its baselines, on problems that neither was tuned on.

Step sizes and ridge parameters are tuned on the stream "tune"; the figures are from the stream
"eval", with bootstrap intervals over problems.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.lab import baselines, checkpoint, measures
from weft.lab.baselines import Predictor
from weft.lab.config import Config
from weft.lab.tasks import Batch, draw, stream
from weft.lab.train import load_run

EVALUATION = "evaluation.json"


def contenders(config: Config, tuning: Batch, steps: int) -> dict[str, Predictor]:
    """The baselines that make sense for a task, tuned where they need it."""
    task, target = config.task, config.train.target
    top = 4.0 / (task.variance if not task.eigenvalues else max(task.eigenvalues))
    found: dict[str, Predictor] = {
        "zero": baselines.zero,
        "averaging": baselines.averaging,
        "least squares": baselines.least_squares,
        "3 nearest": baselines.nearest(3),
    }
    (lam,) = baselines.tune(
        baselines.ridge, [(1e-4, 10.0 * task.n * task.variance)], tuning, target
    )
    found["tuned ridge"] = baselines.ridge(lam)
    for k in range(1, steps + 1):
        (eta,) = baselines.tune(
            lambda eta, k=k: baselines.gradient_descent(k, eta), [(0.0, top)], tuning, target
        )
        found[f"{k} GD step{'s' * (k > 1)}"] = baselines.gradient_descent(k, eta)
    if steps > 1:
        pair = baselines.tune(
            lambda eta, gamma: baselines.gd_plus_plus(steps, eta, gamma),
            [(0.0, 2 * top), (0.0, top)],
            tuning,
            target,
        )
        found[f"{steps} GD++ steps"] = baselines.gd_plus_plus(steps, *pair)
    with contextlib.suppress(InputError):  # no closed form for this task
        found["Bayes"] = baselines.bayes(task)
    return found


def evaluate(folder: str | Path, size: int = 20_000, device: str = "cpu") -> dict[str, Any]:
    """Write and return `evaluation.json`: the loss of the model and of every baseline."""
    config, model = load_run(folder, device)
    dtype, seed, target = config.train.torch_dtype, config.train.seed, config.train.target
    tuning = draw(config.task, 8000, stream(seed, "tune", device=device), dtype)
    batch = draw(config.task, size, stream(seed, "eval", device=device), dtype)
    own = measures.predictor(model, config.make_form())
    rows = {"trained": own} | contenders(config, tuning, max(1, min(4, config.model.depth)))
    table: dict[str, Any] = {}
    for name, predict in rows.items():
        errors = measures.squared_errors(predict, batch, target)
        gap = measures.prediction_difference(own, predict, batch)
        cosine = measures.sensitivity_cosine(own, predict, batch)
        table[name] = {
            "loss": measures.bootstrap(errors.cpu()).asdict(),
            "difference": float(gap.mean()),
            "cosine": float(cosine.mean()),
        }
    result = {"config": config.asdict(), "target": target, "size": size, "table": table}
    checkpoint.write_json(Path(folder) / EVALUATION, result)
    return result
