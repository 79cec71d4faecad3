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
from pathlib import Path
from typing import Any

from inweave.errors import InputError, needs_extra

EXPERIMENTS = {
    "one-step": "one_step",
    "two-step": "two_step",
    "gaussian-one-layer": "gaussian_one_layer",
    "preconditioner": "preconditioner",
    "noise": "noise",
    "bias-or-not": "bias_or_not",
    "perturb": "perturb",
}


def run(name: str, out: Path, *, quick: bool = False, device: str = "cpu", seed: int = 0) -> Path:
    """Run one experiment and write `NAME.json`; returns its path."""
    with needs_extra("the lab", "lab"):  # here, so that experiments are listed without it
        import torch

    from inweave.lab.checkpoint import write_json

    if name not in EXPERIMENTS:
        raise InputError(f"no experiment {name!r}; there are {', '.join(EXPERIMENTS)}")
    module = importlib.import_module(f"inweave.lab.experiments.{EXPERIMENTS[name]}")
    began, cpu = time.monotonic(), time.process_time()
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}.json"

    def keep(found: dict[str, Any], complete: bool = False) -> None:
        """Write what is known so far; long experiments call this as they go."""
        header = {
            "name": name,
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
