"""Trains the networks that docs/explanation/which-algorithm.md reads: docs/lab/*.inweave.

    python -m scripts.lab_weights

The lab's one-step and two-step questions with one seed and few steps: seconds on a CPU.
"""

from __future__ import annotations

from pathlib import Path

from inweave.lab.ensemble import tries
from inweave.lab.experiments import common, one_step
from inweave.lab.forms import form
from inweave.lab.trainer import Settings

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "lab"
TASK = one_step.TASK
RUNS = {
    "one-step": (
        {"scale": 0.3},
        Settings(steps=2000, batch=512, tries=tries(1e-2), warmup=50),
    ),
    "two-step": (
        {"merged": True, "depth": 2, "tied": True, "scale": 0.7, "queries": 1},
        Settings(steps=5000, batch=256, tries=tries(1e-2), clip=10.0, log_every=200),
    ),
}


def main() -> None:
    made = form("examples", TASK.n, TASK.d)
    for name, (settings, training) in RUNS.items():
        start = common.random_start(made, bias=False, **settings)
        ensemble = common.fit(start, TASK, made, training, [0], "cpu")
        path = FOLDER / f"{name}.inweave"
        ensemble.member(0).to_network().save(path)
        print(f"wrote {path.name}, loss {ensemble.curve[-1][1][0]:.4f}")


if __name__ == "__main__":
    main()
