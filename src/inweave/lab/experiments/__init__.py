"""The experiments that come with the lab: one file per question.

Each has a `--quick` form (minutes on two cores) and a full form (minutes on one GPU), and writes
one JSON file: settings, rows of a table, series of a figure, and the claims it was made to test,
each with the number found and whether it holds. Figures are made from the JSON by
`inweave.lab.report`, so the machine that computes needs torch and numpy only.
"""

from __future__ import annotations

import importlib
import inspect
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inweave.errors import InputError, needs_extra


@dataclass(frozen=True)
class Experiment:
    """What it asks, and how many seconds it takes, about: on one CPU core, and in full on a GPU."""

    question: str
    quick: float
    full: float


EXPERIMENTS = {
    "one-step": Experiment(
        "Does one trained LSA layer do one optimal step of gradient descent?", 10, 3
    ),
    "two-step": Experiment(
        "What do two tied LSA layers learn: two gradient steps, or GD++?", 40, 152
    ),
    "gaussian-one-layer": Experiment(
        "Does one trained LSA layer reach d(d+1)/(n+d+1) on normal inputs?", 15, 17
    ),
    "preconditioner": Experiment("Do the layers learn to precondition with Σ⁻¹?", 40, 127),
    "noise": Experiment(
        "Do deeper LSA networks adapt to a noise level that changes per prompt?", 45, 181
    ),
    "bias-or-not": Experiment("Does the bias help when networks are trained?", 200, 460),
    "perturb": Experiment(
        "How much noise does a construction bear, and does training repair it?", 60, 184
    ),
}


def run(name: str, out: Path, *, quick: bool = False, device: str = "cpu", seed: int = 0) -> Path:
    """Run one experiment and write `NAME.json`; returns its path."""
    with needs_extra("the lab", "lab"):  # here, so that experiments are listed without it
        import torch

    from inweave.lab.checkpoint import write_json

    if name not in EXPERIMENTS:
        raise InputError(f"no experiment {name!r}; there are {', '.join(EXPERIMENTS)}")
    module = importlib.import_module(f"inweave.lab.experiments.{name.replace('-', '_')}")
    began, cpu = time.monotonic(), time.process_time()
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}.json"

    def keep(found: dict[str, Any], complete: bool = False) -> None:
        """Write what is known so far; long experiments call this as they go."""
        header = {
            "name": name,
            "question": EXPERIMENTS[name].question,
            "command": f"inweave lab run {name}{' --quick' * quick} "
            f"--device {device} --seed {seed}",
            "quick": quick,
            "complete": complete,
            "device": torch.cuda.get_device_name() if device.startswith("cuda") else "CPU",
            "torch": torch.__version__,
            "python": platform.python_version(),
            "seconds": round(time.monotonic() - began, 1),
            "cpu_seconds": round(time.process_time() - cpu, 1),
        }
        write_json(path, header | found)

    more = {"keep": keep} if "keep" in inspect.signature(module.run).parameters else {}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # products this small only wait for each other on more
    try:
        keep(module.run(quick=quick, device=device, seed=seed, **more), complete=True)
    finally:
        torch.set_num_threads(threads)
    return path
