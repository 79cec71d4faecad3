"""What `inweave demo` does: the main job, from data to proof to predictions, in a few seconds.

Ridge regression by gradient descent on the data set that ships with inweave, as seven networks: the
paper's two as printed, and one program compiled step by step, for speed and at least depth.
Beside them the same descent in numpy and the closed form, which share no code with inweave.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

import inweave
from inweave import Matrix, Scalar, Vector, explore
from inweave.cli import output
from inweave.cli.fill import Scale
from inweave.cli.numbers import Numbers
from inweave.cli.show import report
from inweave.data import diabetes
from inweave.explore.story import read
from inweave.gallery.least_squares import ridge_gd as ridge_from
from inweave.gallery.sizes import d, n
from inweave.network import Network
from inweave.paper import ridge_elsa, ridge_lsa

LEARN_FROM = 400  # rows in the prompt; the other 42 are predicted
LAM = 40.0  # with this, 729 steps reach the closed form to the last digits
PAGE = (12, 9)  # rows and steps on the explorer's page
STORY = files("inweave.cli").joinpath("demo_story.json")  # of that page
SHOWN = 3  # predicted rows in the table
GRADIENT, CLOSED = "descent in numpy", "closed form"
PAPER = {"LSA, paper": ridge_lsa, "ELSA, paper": ridge_elsa}
COMPILED = {
    "LSA, compiled": ("lsa", "faithful"),
    "ELSA, compiled": ("elsa", "faithful"),
    "ELSA, speed": ("elsa", "speed"),
    "LSA, depth": ("lsa", "depth"),
    "ELSA, depth": ("elsa", "depth"),
}


# the program of the demo, as a user would write it
@inweave.program
def ridge(
    X: Matrix[n, d], y: Vector[n], u: Vector[d], lam: Scalar, eta: Scalar, *, steps: int
) -> Scalar:
    """Ridge regression by gradient descent, and its prediction for u."""

    def step(w: Vector[d]) -> Vector[d]:
        return w - eta * (X.T @ (X @ w - y) + lam * w)

    return u.T @ inweave.iterate(step, inweave.zeros(X.shape[1]), steps)


@dataclass(frozen=True)
class Problem:
    """Standardised rows to learn from and to predict, and the way back to the data's own units."""

    X: Numbers
    y: Numbers
    queries: Numbers
    measured: Numbers
    scale: Scale
    eta: float

    @classmethod
    def shipped(cls) -> Problem:
        data, known = diabetes(), slice(LEARN_FROM)
        X = (data.X - data.X[known].mean(axis=0)) / data.X[known].std(axis=0)
        scale = Scale(float(data.y[known].mean()), float(data.y[known].std()))
        curvature = np.linalg.eigvalsh(X[known].T @ X[known]) + LAM
        eta = float(2 / (curvature[0] + curvature[-1]))  # the best constant step
        y = scale.there(data.y[known])
        return cls(X[known], y, X[LEARN_FROM:], data.y[LEARN_FROM:], scale, eta)

    def by_network(self, network: Network) -> Numbers:
        """Predictions of one batched forward pass."""
        inputs: dict[str, Any] = {"X": self.X, "y": self.y, "u": self.queries}
        inputs |= {"lam": LAM, "eta": self.eta}
        if any(spec.name == "w0" for spec in network.inputs):
            inputs["w0"] = np.zeros(self.X.shape[1])
        return self.scale.back(np.asarray(network(**inputs)))

    def by_descent(self, steps: int) -> Numbers:
        w = np.zeros(self.X.shape[1])
        for _ in range(steps):
            w = w - self.eta * (self.X.T @ (self.X @ w - self.y) + LAM * w)
        return self.scale.back(self.queries @ w)

    def by_closed_form(self) -> Numbers:
        curvature = self.X.T @ self.X + LAM * np.eye(self.X.shape[1])
        return self.scale.back(self.queries @ np.linalg.solve(curvature, self.X.T @ self.y))


def make(name: str, n: int, d: int, steps: int) -> Network:
    """A network of the demo, with its certificate."""
    if name in PAPER:
        network = PAPER[name](n, d, steps)
        return replace(network, certificate=inweave.verify(ridge_from, network, steps=steps))
    target, optimize = COMPILED[name]
    return inweave.compile(ridge, target=target, optimize=optimize, n=n, d=d, steps=steps)


def tell(steps: int, page: Path, json: bool) -> None:
    """Build, verify and run all networks, write the page, and print what came of them."""
    start = time.perf_counter()
    problem = Problem.shipped()
    n, d = problem.X.shape
    made: dict[str, Network] = {}
    predicted: dict[str, Numbers] = {}
    with output.stages(len(PAPER) + len(COMPILED) + 1) as begin:
        for name in (*PAPER, *COMPILED):
            begin(f"building and verifying {name}")
            made[name] = make(name, n, d, steps)
            predicted[name] = problem.by_network(made[name])
        begin("comparing with numpy")
        predicted[GRADIENT] = problem.by_descent(steps)
        predicted[CLOSED] = problem.by_closed_form()
    write_page(problem, page)
    seconds = time.perf_counter() - start
    if json:
        output.say_json(_as_json(steps, made, predicted, problem, page))
        return
    _print_networks(steps, made)
    _print_predictions(predicted, problem)
    _print_end(made["ELSA, depth"], page, seconds)


def write_page(problem: Problem, path: Path) -> None:
    """A page on two networks side by side, at sizes that a person can take in."""
    n, steps = PAGE
    inputs = {"X": problem.X[:n], "y": problem.y[:n], "u": problem.queries[0], "lam": LAM}
    inputs["eta"] = float(1 / (np.linalg.norm(problem.X[:n], 2) ** 2 + LAM))
    sizes = {"n": n, "d": problem.X.shape[1], "steps": steps}
    modes = {f"{steps} steps on {n} of the patients": "faithful", "the same, least depth": "depth"}
    shown = {said: inweave.compile(ridge, optimize=mode, **sizes) for said, mode in modes.items()}
    explore.write(path, shown, inputs, story=read(STORY.read_text(encoding="utf-8")))


def _print_networks(steps: int, made: dict[str, Network]) -> None:
    least = made["ELSA, depth"]
    d = least.inputs[0].cols
    title = (
        f"{steps} steps of ridge regression on {LEARN_FROM} patients, {d} variables, as attention"
    )
    shown = output.table(title, "network", "layers", "heads", "prompt H", "proof", "wrong with p ≤")
    for name, net in made.items():
        certificate = net.certificate
        proof = ("-", "-") if certificate is None else (
            certificate.method,
            "proved" if certificate.is_proof else f"{certificate.probability:.0e}",
        )  # fmt: skip
        shown.add_row(name, str(net.depth), str(net.heads), f"{net.tokens} x {net.width}", *proof)
    output.console().print(shown)
    output.say(
        f"The answer is a polynomial of degree {least.degree} in the data, so no exact network of\n"
        f"linear attention whose prompt is affine in the data has fewer than "
        f"{least.depth_lower_bound} layers.\n"
    )


def _print_predictions(predicted: dict[str, Numbers], problem: Problem) -> None:
    title = f"Predictions for {len(problem.measured)} patients not in the prompt"
    columns = [f"no. {LEARN_FROM + i + 1}" for i in range(SHOWN)]
    shown = output.table(title, "by", *columns, "vs descent", "vs closed")
    for name, values in predicted.items():
        gaps = [_gap(values, predicted[other]) for other in (GRADIENT, CLOSED)]
        said = [f"{gap:.0e}" if gap else "0" for gap in gaps]
        shown.add_row(name, *(f"{v:.3f}" for v in values[:SHOWN]), *said)
    shown.add_section()
    shown.add_row("measured", *(f"{v:.0f}" for v in problem.measured[:SHOWN]), "", "")
    output.console().print(shown)
    output.say(f"vs: largest difference over all {len(problem.measured)} patients\n")


def _gap(a: Numbers, b: Numbers) -> float:
    return float(np.max(np.abs(a - b)))


def _print_end(network: Network, page: Path, seconds: float) -> None:
    output.say(network.certificate)
    output.say(
        "\nData: Efron, Hastie, Johnstone, Tibshirani, Least Angle Regression (2004), as\n"
        "distributed with scikit-learn (BSD 3-Clause)."
    )
    rows, steps = PAGE
    output.say(f"Look inside: open {page} in a browser ({rows} of the rows, {steps} steps).")
    output.note(f"{seconds:.1f} s")


def _as_json(
    steps: int,
    made: dict[str, Network],
    predicted: dict[str, Numbers],
    problem: Problem,
    page: Path,
) -> dict[str, Any]:
    least = made["ELSA, depth"]
    return {
        "steps": steps,
        "lam": LAM,
        "eta": problem.eta,
        "degree": least.degree,
        "depth_lower_bound": least.depth_lower_bound,
        "networks": {name: report(network) for name, network in made.items()},
        "predictions": predicted,
        "measured": problem.measured,
        "largest_difference": {
            name: {
                "gradient_descent": _gap(values, predicted[GRADIENT]),
                "closed_form": _gap(values, predicted[CLOSED]),
            }
            for name, values in predicted.items()
        },
        "page": str(page),
    }
