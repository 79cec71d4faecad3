"""What the suite consists of: a list of models that follows from a seed.

Every other model is an entry of the gallery at sizes of its own, the others are generated programs.
A model follows from the seed and its own number alone, so that a longer suite begins as a shorter
one does. Most are small, some are large.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import inweave
from inweave import gallery
from inweave.circuits.generated import generated
from inweave.exact.schema import Name, Natural
from inweave.gallery.entry import Inputs
from inweave.network import Network

COUNT = 150
Span = tuple[int, int]
SMALL: dict[str, Span] = {
    "n": (3, 5), "d": (2, 3), "k": (2, 3), "m": (2, 3), "t": (2, 3), "v": (3, 4), "steps": (1, 3),
}  # fmt: skip
LARGE: dict[str, Span] = {
    "n": (8, 12), "d": (4, 6), "k": (3, 4), "m": (4, 5), "t": (4, 6), "v": (6, 8), "steps": (3, 5),
}  # fmt: skip
FIXED: dict[str, dict[str, int]] = {"ttt_linear": {"n": 4, "batch": 2}}
LONG = (  # with many layers even so
    "causal_linear_attention", "chain_of_thought_gd", "conjugate_gradient", "covariate_shift",
    "delta_net", "gated_delta_net", "gauss_jordan", "gaussian_elimination", "gaussian_mixture",
    "kalman_filter", "mesa_layer", "pca", "power_iteration", "recursive_least_squares",
    "regression_mixture", "ridge_closed_form", "sinkhorn", "two_layer_gd",
)  # fmt: skip
LEAST: dict[str, Span] = {
    "n": (2, 3), "d": (2, 2), "k": (2, 2), "m": (2, 2), "t": (2, 3), "v": (3, 3), "steps": (1, 1),
}  # fmt: skip
SHARE = 0.15  # of large ones


@dataclass(frozen=True)
class Specification:
    """How one model is made."""

    number: Natural
    kind: Literal["gallery", "generated"]
    program: Name
    seed: Natural
    sizes: dict[str, int]
    target: Literal["elsa", "lsa"]
    optimize: Literal["faithful", "depth"]

    @property
    def name(self) -> str:
        """The name of the model, and of its folder."""
        return f"{self.number:03d}-{self.program}"

    def compile(self) -> Network:
        """The network, not verified yet."""
        options: dict[str, Any] = {**self.sizes, "target": self.target, "optimize": self.optimize}
        if self.kind == "generated":
            return inweave.compile(generated(self.seed), **options, verify=False)
        return gallery.get(self.program).compile(**options, verify=False)

    def example(self, network: Network, rng: np.random.Generator) -> Inputs:
        """Inputs of a network that its program is for."""
        if self.kind == "generated":
            return {x.name: rng.normal(size=x.shape) / x.rows**0.5 for x in network.inputs}
        entry = gallery.get(self.program)
        return entry.inputs(rng, **{**entry.sizes, **self.sizes})


def specifications(count: int = COUNT, seed: int = 0) -> Iterator[Specification]:
    """The first models of a seed."""
    return (specification(number, seed) for number in range(count))


def specification(number: int, seed: int = 0) -> Specification:
    """One model."""
    rng = np.random.default_rng([seed, number])
    own = int(rng.integers(1_000_000))
    spans = LARGE if rng.random() < SHARE else SMALL
    optimize: Literal["faithful", "depth"] = "depth" if rng.random() < 0.3 else "faithful"
    target: Literal["elsa", "lsa"] = "lsa" if rng.random() < 0.3 else "elsa"
    if number % 2:
        drawn = _drawn(generated(own).size_names, spans, rng)
        return Specification(number, "generated", f"generated_{own}", own, drawn, target, optimize)
    entries = gallery.entries()
    entry = entries[number // 2 % len(entries)]
    if entry.name in LONG:
        spans = LEAST
    drawn = {**_drawn(entry.sizes, spans, rng), **FIXED.get(entry.name, {})}
    return Specification(number, "gallery", entry.name, own, drawn, target, optimize)


def _drawn(names: Any, spans: dict[str, Span], rng: np.random.Generator) -> dict[str, int]:
    """Sizes for those names that have a span."""
    return {name: int(rng.integers(*spans[name], endpoint=True)) for name in names if name in spans}
