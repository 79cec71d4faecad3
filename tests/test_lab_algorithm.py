"""Trained networks as programs: coefficients found, what is left out said, the rest refused."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import inweave
from inweave import AttentionLayer, DenseProjection, Head, Layout, Module, nn
from inweave.errors import DecompileError, InputError
from inweave.lab import baselines
from inweave.lab.algorithm import algorithm
from inweave.lab.by_predictions import by_predictions, polynomial
from inweave.lab.experiments import gaussian_one_layer, one_step, preconditioner
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

    def test_a_stored_layer_on_normal_inputs(self):
        task = gaussian_one_layer.TASK
        trained = inweave.load(STORED / "gaussian-one-layer.inweave")
        found = algorithm(trained, problems(task, 500, "tune"), problems(task, 2000, "eval"))
        best = baselines.one_step_eta(task) / task.n
        assert f"return {best:.3g} * (u.T @ X.T @ y)" in found.source
        assert found.difference.high < 0.001

    def test_stored_layers_precondition_with_one_matrix(self):
        task = preconditioner.TASK
        trained = inweave.load(STORED / "preconditioner.inweave")
        inverse = task.covariance().inverse().numpy()
        fitted, fresh = problems(task, 300, "tune"), problems(task, 2000, "eval")
        found = algorithm(trained, fitted, fresh, known={"Σ⁻¹": inverse, "I": np.eye(task.d)})
        assert found.source.count("inweave.constant(C)") >= 3
        assert "C2" not in found.source
        assert found.difference.high < 0.005
        near, far = (float(said.split("up to ")[1].split(" ")[0]) for said in found.matrices)
        assert near < 10 < far

    def test_biases_are_products_with_the_identity(self):
        """w = I Xᵀ y and uᵀ I w, the identities in biases; another gauge, and noise."""
        blocks = {"X": (3, 3), "y": (3, 1), "uᵀ": (1, 3), "w": (3, 1), "answer": (1, 1)}
        layout = Layout.of(blocks)
        rng, width = np.random.default_rng(0), layout.width

        def module(query, key, value, into, number):
            gauge = rng.normal(size=(width, width))
            parts = []
            for name, to, by in (
                (query, slice(3), gauge),
                (key, slice(3), np.linalg.inv(gauge).T),
                (value, layout[into].columns, number * np.eye(width)),
            ):
                W, B = np.zeros((width, width)), np.zeros((3, width))
                size = to.stop - (to.start or 0)
                near = np.eye(size) + 1e-3 * rng.normal(size=(size, size))
                if name == "I":
                    B[:, to] = near
                else:
                    W[layout[name].columns, to] = near
                parts.append(DenseProjection(W @ by, B @ by))
            return Module((AttentionLayer((Head(*parts),)),))

        inputs = form("examples", 3, 3).inputs
        fills = [inweave.Fill(inweave.Place("X", 3, 3), source="X"),
                 inweave.Fill(inweave.Place("y", 3, 1), source="y"),
                 inweave.Fill(inweave.Place("uᵀ", 3, 1, transpose=True), source="u")]  # fmt: skip
        outputs = (inweave.Output("", inweave.Place("answer", 1, 1), "scalar"),)
        modules = (module("I", "X", "y", "w", 0.5), module("uᵀ", "I", "w", "answer", 1.0))
        trained = inweave.Network(layout, modules, inputs, tuple(fills), outputs)
        task = Task(d=3, n=3, inputs="uniform")
        found = algorithm(trained, problems(task, 100, "tune"), problems(task, 300, "eval"))
        assert re.search(r"return \S+ \* \(u\.T @ \(0\.\d+ \* X\.T @ y\)\)", found.source)
        assert found.difference.high < 1e-4


class TestByPredictions:
    def test_a_network_that_beats_its_construction_is_two_products(self):
        """The stored one has biases, and intermediate results in a basis of its own."""
        trained = inweave.load(STORED / "enumerated-elsa.inweave")
        task = Task(d=3, n=6, inputs="uniform", input_scale=2.0)
        fitted, fresh = (problems(task, k, name) for k, name in ((500, "tune"), (2000, "eval")))
        with pytest.raises(DecompileError, match=r"no longer itself.*by_predictions"):
            algorithm(trained, fitted, fresh)
        found = by_predictions(trained, fitted, fresh)
        assert found.source.splitlines()[-1].count("u.T") == 2
        assert 0.001 < found.difference.mean < 0.02
        assert "predictions alone" in str(found)

    def test_a_polynomial_comes_back(self):
        numbers = [1.0, -0.25, 0.02]
        network = inweave.compile(polynomial, n=6, d=3, numbers=numbers, verify=False)
        task = Task(d=3, n=6)
        found = by_predictions(network, problems(task, 200, "tune"), problems(task, 300, "eval"))
        assert found.difference.high < 1e-12
        assert found.network.depth == network.depth

    def test_other_inputs_are_refused(self):
        other = inweave.gallery.get("matrix_polynomial").compile(verify=False)
        with pytest.raises(InputError, match="X, u, y"):
            by_predictions(other, {}, {})
