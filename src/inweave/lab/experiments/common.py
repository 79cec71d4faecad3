"""What experiments that reproduce published numbers share: problems, rows and claims.

Intervals of what was trained are over seeds, few as they are; those of baselines over problems.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from inweave.lab.ensemble import Ensemble, assemble
from inweave.lab.forms import Form
from inweave.lab.inference import Interval, t_interval
from inweave.lab.measures import bootstrap
from inweave.lab.report import aligned
from inweave.lab.study import SEEDS
from inweave.lab.tasks import Batch, Task, draw, stream
from inweave.lab.tensors import Tensor, torch
from inweave.lab.trainer import Settings, train_ensemble
from inweave.nn import Architecture, AttentionNetwork

Row = dict[str, Any]


def held_out(task: Task, size: int, seed: int, name: str, device: str) -> Batch:
    """Problems of a named stream: "tune" to choose by, "eval" to report."""
    return draw(task, size, stream(seed, name, device=device))


def random_start(
    form: Form, dtype: torch.dtype | None = None, **settings: Any
) -> Callable[[int], AttentionNetwork]:
    """`make(seed)` for an ensemble of randomly started networks on a form."""
    return lambda seed: form.build(Architecture(**settings), stream(seed, "init"), dtype)


def fit(
    make: Callable[[int], torch.nn.Module],
    task: Task,
    form: Form,
    settings: Settings,
    seeds: Sequence[int],
    device: str,
    watch: Callable[[Ensemble], Any] | None = None,
) -> Ensemble:
    """Train an ensemble of all seeds, step sizes and starting scales of the settings."""
    ensemble = assemble(make, seeds, settings.tries)
    return train_ensemble(ensemble, task, form, settings, device, watch)


def chosen_errors(
    ensemble: Ensemble, form: Form, tuning: Batch, batch: Batch
) -> tuple[list[int], Tensor]:
    """Each seed's best member by the tuning set, and its squared errors on the evaluation set."""
    members = ensemble.best(form, tuning)
    return members, ensemble.errors(form, batch)[members]


def row(label: str, errors: Tensor | Interval, scale: float = 1.0, **more: Any) -> Row:
    """A line of the table: a loss with its interval, and whatever else is known."""
    if isinstance(errors, Interval):
        interval = errors
    else:
        interval = over_seeds(errors) if errors.dim() == 2 else bootstrap(errors.detach().cpu())
    loss = {k: scale * v for k, v in interval.asdict().items()}
    if isinstance(errors, Tensor):
        more["median"] = scale * median(errors)
    return {"label": label, "loss": loss, **more}


def seeds(first: int, quick: bool) -> list[int]:
    """Those that a question is asked with: as many as in a study, or two."""
    return list(range(first, first + (2 if quick else SEEDS)))


def over_seeds(errors: Tensor) -> Interval:
    """The mean of (seeds, problems) values; one seed says nothing of others."""
    losses = errors.detach().mean(1).tolist()
    finite = len(losses) > 1 and all(map(math.isfinite, losses))
    mean = statistics.fmean(losses)
    return t_interval(losses) if finite else Interval(mean, -math.inf, math.inf)


def median(errors: Tensor) -> float:
    """The median, with a problem on which a network overflows counted as infinitely wrong."""
    return float(torch.nan_to_num(errors, nan=torch.inf).median())


def claim(text: str, value: float, holds: bool) -> dict[str, Any]:
    return {"claim": text, "value": value, "holds": bool(holds)}


def told(
    task: Task, settings: Settings, seeds: Sequence[int], rows: Sequence[Row], loss: str,
    columns: Sequence[str] = (),
) -> dict[str, Any]:  # fmt: skip
    """What the answers of all these experiments have."""
    return {
        "settings": {"task": task.__dict__, "training": settings.__dict__, "seeds": seeds},
        "rows": rows,
        "loss": loss,
        "table": aligned(rows, loss, "95 % interval", columns, 10),
    }


def curves(
    ensemble: Ensemble, label: str, members: Sequence[int], scale: float = 1.0
) -> list[dict[str, Any]]:
    """Training curves of the chosen members, one per seed."""
    steps = [step for step, _ in ensemble.curve]
    return [
        {"label": f"{label}, seed {ensemble.seeds[m // len(ensemble.tries)]}", "group": label,
         "x": steps, "y": [scale * losses[m] for _, losses in ensemble.curve]}
        for m in members
    ]  # fmt: skip
