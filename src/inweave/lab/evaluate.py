"""A trained run beside its baselines, on problems that neither was tuned on.

Step sizes and ridge parameters are tuned on the stream "tune"; the figures are from the stream
"eval", with bootstrap intervals over problems.
"""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path
from typing import Any

from inweave.errors import InputError
from inweave.lab import baselines, checkpoint, measures
from inweave.lab.baselines import Predictor
from inweave.lab.config import Config
from inweave.lab.devices import within_memory
from inweave.lab.progress import LOGGER
from inweave.lab.tasks import Batch
from inweave.lab.tensors import torch
from inweave.lab.train import load_run

EVALUATION = "evaluation.json"


def contenders(config: Config, tuning: Batch, steps: int) -> dict[str, Predictor]:
    """The baselines that make sense for a task, tuned where they need it."""
    task, target = config.task, config.train.target
    covariance = task.covariance()
    top = 4.0 / float(torch.linalg.eigvalsh(covariance).max())
    variance = float(covariance.diagonal().mean())
    found: dict[str, Predictor] = {
        "zero": baselines.zero,
        "averaging": baselines.averaging,
        "least squares": baselines.least_squares,
        "3 nearest": baselines.nearest(3),
    }
    (lam,) = baselines.tune(
        baselines.ridge, [(1e-4 * variance, 10.0 * task.n * variance)], tuning, target
    )
    found["tuned ridge"] = baselines.ridge(lam)
    for k in range(1, steps + 1):
        found[f"{k} GD step{'s' * (k > 1)}"] = _descent(config, k, top, tuning)
    if steps > 1:
        make = functools.partial(baselines.gd_plus_plus, steps)
        pair = baselines.tune(make, [(0.0, 2 * top), (0.0, top)], tuning, target)
        found[f"{steps} GD++ steps"] = baselines.gd_plus_plus(steps, *pair)
    if task.eigenvalues:
        inverse = torch.linalg.inv(covariance)
        name = f"{steps} preconditioned GD step{'s' * (steps > 1)}"
        _, found[name] = baselines.tuned_descent(steps, 4.0, tuning, target, inverse)
    if task.nonzero:
        few = tuning.rows(slice(0, 1000))
        losses = {
            lam: float(measures.squared_errors(baselines.lasso(lam), few, target).mean())
            for lam in (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
        }
        found["tuned Lasso"] = baselines.lasso(min(losses, key=lambda lam: losses[lam]))
    found[f"{steps} Newton step{'s' * (steps > 1)}"] = baselines.newton(steps)
    with contextlib.suppress(InputError):  # no closed form for this task
        found["Bayes"] = baselines.bayes(task)
    return found


def _descent(config: Config, steps: int, top: float, tuning: Batch) -> Predictor:
    """Gradient descent with the η of the closed form where there is one, else tuned."""
    if steps == 1:
        with contextlib.suppress(InputError):
            return baselines.gradient_descent(1, baselines.one_step_eta(config.task))
    return baselines.tuned_descent(steps, top, tuning, config.train.target)[1]


@within_memory()
def evaluate(folder: str | Path, size: int = 20_000, device: str = "cpu") -> dict[str, Any]:
    """Write and return `evaluation.json`: the loss of the model and of every baseline."""
    config, model = load_run(folder, device)
    tuning, batch = config.problems("tune", 8000, device), config.problems("eval", size, device)
    own, target = measures.predictor(model, config.make_form()), config.train.target
    LOGGER.info("tuning the baselines of %s ...", folder)
    rows = {"trained": own} | contenders(config, tuning, max(1, min(4, config.model.depth)))
    table: dict[str, Any] = {}
    LOGGER.info("comparing with %d of them, on %d problems ...", len(rows) - 1, size)
    for name, predict in rows.items():
        errors = measures.squared_errors(predict, batch, target)
        gap = measures.prediction_difference(own, predict, batch)
        cosine = measures.sensitivity_cosine(own, predict, batch)
        table[name] = {
            "loss": measures.bootstrap(errors.cpu()).asdict(),
            "difference": float(gap.mean()),
            "cosine": float(cosine.mean()),
        }
    read = measures.by_layer(model, config.make_form(), batch)
    by_layer = [float((each - batch.target(target)).square().mean()) for each in read]
    result: dict[str, Any] = {"config": config.asdict(), "target": target, "size": size,
                              "table": table, "by_layer": by_layer}  # fmt: skip
    if config.form.name == "examples" and not config.model.bias and not config.model.mlp_units:
        lengths = sorted({max(1, config.task.n * k // 8) for k in range(1, 9)})
        losses = [float(e.mean()) for e in measures.by_context(own, batch, lengths, target)]
        result["by_context"] = dict(zip(map(str, lengths), losses, strict=True))
    checkpoint.write_json(Path(folder) / EVALUATION, result)
    return result
