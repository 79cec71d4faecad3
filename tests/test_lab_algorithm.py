"""Trained networks as programs: coefficients found, what is left out said, the rest refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import inweave
from inweave import AttentionLayer, DenseProjection, Head, Module, nn
from inweave.errors import DecompileError
from inweave.lab import baselines
from inweave.lab.algorithm import algorithm
from inweave.lab.experiments import one_step
from inweave.lab.forms import form
from inweave.lab.tasks import Task, draw, stream

STORED = Path(__file__).resolve().parent.parent / "docs" / "lab"
FORM = form("examples", 6, 3)


def problems(task: Task, size: int, name: str) -> dict[str, np.ndarray]:
    batch = draw(task, size, stream(0, name))
    return {"X": batch.X.numpy(), "y": batch.y.numpy(), "u": batch.u.numpy()}


def network(*modules: Module, form=FORM) -> inweave.Network:
    return inweave.Network(form.layout, modules, form.inputs, form.fills, form.outputs)


def gd_plus_plus(eta: float, gamma: float, noise: float) -> inweave.Network:
    """Two steps as weights that say nothing: in another gauge, over two heads, and noisy."""
    rng = np.random.default_rng(0)
    heads = []
    for share in (0.3, 0.7):
        gauge = rng.normal(size=(4, 4))
        scores, values = np.diag([1.0, 1.0, 1.0, 0.0]), -np.diag([gamma] * 3 + [eta])
        noisy = share * values + noise * rng.normal(size=(4, 4))
        weights = (scores @ gauge, np.linalg.inv(gauge).T, noisy)
        heads.append(Head(*(DenseProjection(W) for W in weights)))
    layer = AttentionLayer(tuple(heads))
    return nn.split_queries(network(Module((layer,), repeat=2)), 1)


class TestAlgorithm:
    def test_the_coefficients_come_back(self):
        task = Task(d=3, n=6, inputs="uniform")
        trained = gd_plus_plus(1.5, 0.25, 0.003)
        found = algorithm(trained, problems(task, 200, "tune"), problems(task, 500, "eval"))
        assert found.source.count("inweave.iterate(") == 1
        numbers = {piece.coefficient for layer in found.network.layers for head in layer.heads
                   for piece in head.value.pieces}  # fmt: skip
        assert sorted(map(float, numbers)) == pytest.approx([-1.5, -0.25], rel=0.02)
        assert found.difference.high < 0.005
        assert "500 fresh problems" in str(found)

    def test_noise_counts_as_a_difference(self):
        task = Task(d=3, n=6, inputs="uniform")
        fitted, fresh = problems(task, 200, "tune"), problems(task, 500, "eval")
        little, much = (algorithm(gd_plus_plus(1.5, 0.25, x), fitted, fresh) for x in (0.003, 0.05))
        assert much.difference.low > 10 * little.difference.high

    def test_a_stored_layer_is_one_step_of_gradient_descent(self):
        task = one_step.TASK
        trained = inweave.load(STORED / "one-step.inweave")
        found = algorithm(trained, problems(task, 500, "tune"), problems(task, 2000, "eval"))
        number, times, rest = (
            found.source.splitlines()[-1].removeprefix("    return ").split(" ", 2)
        )
        assert (times, rest) == ("*", "(u.T @ X.T @ y)")
        assert float(number) == pytest.approx(baselines.one_step_eta(task) / task.n, rel=0.05)
        assert found.difference.high < 0.01

    def test_two_stored_layers_are_gd_plus_plus(self):
        task = one_step.TASK
        trained = inweave.load(STORED / "two-step.inweave")
        found = algorithm(trained, problems(task, 500, "tune"), problems(task, 2000, "eval"))
        assert "x @ x.T @ x" in found.source
        assert found.difference.high < 0.02
        assert len(found.left_out) == 3


class TestRefusals:
    def test_heads_with_biases(self):
        eye = np.eye(4)
        head = Head(DenseProjection(eye, np.ones((7, 4))), *[DenseProjection(eye)] * 2)
        with pytest.raises(DecompileError, match="module 0, layer 0 has a head with biases"):
            algorithm(network(Module((AttentionLayer((head,)),))), {}, {})
