"""Trains the networks that docs/explanation/which-algorithm.md reads: docs/lab/*.inweave.

    python -m scripts.lab_weights [NAME ...]

Questions of the lab with one seed and few steps each: minutes on a CPU.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from inweave import AttentionLayer, DenseProjection, Head, Module, Network
from inweave.lab.ensemble import tries
from inweave.lab.experiments import common, gaussian_one_layer, one_step, preconditioner
from inweave.lab.forms import form
from inweave.lab.tasks import Task, stream
from inweave.lab.trainer import Settings
from inweave.nn import split_queries

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "lab"


def attention(task: Task, settings: Settings, shape: str = "examples", **given: Any) -> Network:
    """A stack of attention layers, trained on a form of prompt."""
    made = form(shape, task.n, task.d)  # type: ignore[arg-type]
    start = common.random_start(made, **given)
    ensemble = common.fit(start, task, made, settings, [0], "cpu")
    print(f"loss {ensemble.curve[-1][1][0]:.4f}")
    return _asked(ensemble.member(0).to_network())


def _asked(network: Network) -> Network:
    """The network of problems alone: nothing is filled in but X, y and u, as in training."""
    asked = {"X", "y", "u", None}
    fills = tuple(f for f in network.fills if {f.source, *dict(f.scale)} <= asked)
    inputs = tuple(spec for spec in network.inputs if spec.name in asked)
    return replace(network, inputs=inputs, fills=fills)


def preconditioned(settings: Settings) -> Network:
    """The layers r ← r - X A Xᵀ r / n of the lab's question, as attention."""
    task, layers = preconditioner.TASK, preconditioner.LAYERS
    made = form("examples", task.n, task.d)

    def start(seed: int) -> preconditioner.Preconditioned:
        return preconditioner.Preconditioned(layers, task.d, 0.1, stream(seed, "init"))

    ensemble = common.fit(start, task, made, settings, [0], "cpu")
    print(f"loss {ensemble.curve[-1][1][0]:.4f}, distances {preconditioner.distances(ensemble)}")
    x, y = (made.layout[name].columns for name in ("x", "-y"))
    modules = []
    for A in ensemble.weights["A"][0].detach().double().numpy():
        query, key, value = (np.zeros((made.layout.width,) * 2) for _ in range(3))
        query[x, x], key[x, x], value[y, y] = A, np.eye(task.d), -1 / task.n
        head = Head(*(DenseProjection(W) for W in (query, key, value)))
        modules.append(Module((AttentionLayer((head,)),)))
    whole = Network(made.layout, tuple(modules), made.inputs, made.fills, made.outputs)
    return split_queries(whole, 1)


RUNS = {
    "one-step": partial(
        attention, one_step.TASK,
        Settings(steps=2000, batch=512, tries=tries(1e-2), warmup=50), bias=False, scale=0.3,
    ),
    "two-step": partial(
        attention, one_step.TASK,
        Settings(steps=5000, batch=256, tries=tries(1e-2), clip=10.0, log_every=200),
        bias=False, merged=True, depth=2, tied=True, scale=0.7, queries=1,
    ),
    "gaussian-one-layer": partial(
        attention, gaussian_one_layer.TASK,
        Settings(steps=2000, batch=512, tries=tries(1e-2), warmup=50), bias=False, scale=0.3,
    ),
    "preconditioner": partial(
        preconditioned, Settings(steps=20_000, batch=512, tries=tries(1e-2), log_every=1000)
    ),
    "enumerated-elsa": partial(
        attention, Task(d=3, n=6, inputs="uniform", input_scale=2.0),
        Settings(steps=4000, batch=256, tries=tries(1e-2, scales=(0.5,))), shape="enumerated",
        bias=True, heads=4, depth=1, tied=True, readout=True, init="random", scale=0.5,
    ),
}  # fmt: skip


def main(names: list[str]) -> None:
    for name in names or RUNS:
        RUNS[name]().save(FOLDER / f"{name}.inweave")
        print(f"wrote {name}.inweave")


if __name__ == "__main__":
    main(sys.argv[1:])
