"""Which algorithm is it? A trained network as a program of a few lines.

Trained weights are dense, and no two runs have the same. Most of that says nothing: a head depends
on `A = W_q W_kᵀ` and on `W_v` alone, and so does a layer on the sum over heads of `A ⊗ W_v`. What
is left is rounded to what no rotation of the features tells apart: between blocks of one width, a
multiple of the identity, which is the mean of the diagonal. So a layer becomes a sum of products
`c L Kᵀ R` of whole blocks. Their few coefficients are fitted to the network's predictions, those
that cost nothing are left out, and the rest is written in three digits.

The result is a network of its own and is decompiled as any other, with a proof. What is not proved
is that the trained network is that program: how far their predictions are apart is measured, on
problems that nothing was fitted to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from inweave.decompiler import decompile
from inweave.errors import DecompileError
from inweave.exact.constants import exact, identity
from inweave.lab.measures import Interval, bootstrap
from inweave.model.layers import AttentionLayer, Head, Layer
from inweave.model.modules import Executor, Module
from inweave.model.network import Network as Data
from inweave.model.projection import Piece, Projection, read
from inweave.network import Network, as_public

Array = np.ndarray[Any, Any]
Blocks = dict[str, Array]
Problems = Mapping[str, Any]

DIGITS = 3
ALIKE = 1e-9  # relative, of coefficients that are one: of a head asked from two sides
ROUNDS = 30  # of fitting


class Term(NamedTuple):
    """A product `query keyᵀ value` of blocks that a layer adds to a block."""

    layer: str
    query: str
    key: str
    value: str
    into: str

    def __str__(self) -> str:
        product = f"({self.query}) ({self.key})ᵀ ({self.value}) → {self.into}"
        return f"""{self.layer.replace(", step {}", "")}: {product}"""


@dataclass(frozen=True)
class Algorithm:
    """What a trained network was read as, and how far that is from it."""

    source: str
    network: Network  # that the source computes, exactly
    difference: Interval  # mean squared difference of predictions, relative to their mean square
    problems: int  # it was measured on
    left_out: tuple[str, ...]

    def __str__(self) -> str:
        far = ", ".join(f"{100 * x:.2g}" for x in (self.difference.low, self.difference.high))
        measured = (
            f"its predictions differ from the network's by {100 * self.difference.mean:.2g} % "
            f"[{far}] of their mean square, on {self.problems} fresh problems"
        )
        return "\n".join([self.source, measured, *(f"left out: {x}" for x in self.left_out)])


def algorithm(
    network: Data, problems: Problems, fresh: Problems, tolerance: float = 0.002
) -> Algorithm:
    """A trained network read as a program.

    Coefficients are fitted on `problems`, named arrays with one problem per row, and the difference
    is measured on `fresh` ones. A product is left out if predictions then change by no more than
    `tolerance` of their mean square.
    """
    problems, fresh = ({k: np.asarray(x, float) for k, x in p.items()} for p in (problems, fresh))
    rounding = Rounding(network)
    target = _predictions(network, problems)
    inputs = network.layout.unpack(network.prompt(**problems))
    fit = Fit(rounding, inputs, target)
    kept, numbers, costs = fit.pruned(tolerance)
    short = [float(f"{number:.{DIGITS - 1}e}") for number in numbers]
    found = rounding.network(dict(zip(kept, short, strict=True)))
    wanted, got = _predictions(network, fresh), _predictions(found, fresh)
    scale = float(np.mean(wanted**2)) or 1.0
    left = [f"{text}, which costs {100 * cost:.2g} %" for text, cost in costs]
    left.append(
        f"what of the weights is no multiple of an identity between blocks, "
        f"{100 * rounding.rest:.2g} % of their norm"
    )
    difference = bootstrap((wanted - got) ** 2 / scale)
    return Algorithm(decompile(found), found, difference, len(wanted), tuple(left))


def _predictions(network: Data, problems: Problems) -> Array:
    public = network if isinstance(network, Network) else as_public(network)
    return np.asarray(public(check=False, **problems), dtype=np.float64)


# -- rounding -------------------------------------------------------------------------------------
class Rounding:
    """A network of dense heads as products of whole blocks, and the coefficients of those.

    Products that have the same coefficient are one group.
    """

    def __init__(self, network: Data) -> None:
        self.dense = network
        self.layout = network.layout
        self.coefficients: dict[Term, float] = {}
        whole = kept = 0.0
        for name, layer in _layers(network):
            pairs = [self._gauge(head, name) for head in layer.heads]
            for term, sizes in self._terms(name):
                rows, cols, tall, wide = (self.layout[block].columns for block in term[1:])
                c = sum(_mean(A[rows, cols]) * _mean(V[tall, wide]) for A, V in pairs)
                if c:
                    self.coefficients[term] = c
                    kept += c * c * sizes
            whole += sum(np.sum(A * B) * np.sum(V * W) for A, V in pairs for B, W in pairs)
        self.rest = float(np.sqrt(max(0.0, 1.0 - kept / whole))) if whole else 0.0

    def _gauge(self, head: Head, where: str) -> tuple[Array, Array]:
        """`W_q W_kᵀ` and `W_v`."""
        if any(projection.has_bias for projection in head.projections):
            raise DecompileError(
                f"{where} has a head with biases: which algorithm a trained network is, is read "
                "from heads without them (LSA)"
            )
        query, key, value = (projection.weight(self.layout) for projection in head.projections)
        return query @ key.T, value

    def _terms(self, layer: str) -> list[tuple[Term, int]]:
        """The products that a layer may hold, and how many weights one has in each of them."""
        pairs = [(a, b) for a in self.layout for b in self.layout if a.cols == b.cols]
        return [
            (Term(layer, *(block.name for block in (q, k, v, w))), q.cols * v.cols)
            for q, k in pairs
            for v, w in pairs
        ]

    def groups(self) -> list[tuple[Term, ...]]:
        """Products that have one coefficient together, the largest first."""
        found: list[list[Term]] = []
        ordered = sorted(self.coefficients, key=lambda term: -abs(self.coefficients[term]))
        for term in ordered:
            c = self.coefficients[term]
            alike = [g for g in found if abs(self.coefficients[g[0]] - c) <= ALIKE * abs(c)]
            if alike:
                alike[0].append(term)
            else:
                found.append([term])
        return [tuple(group) for group in found]

    def network(self, numbers: Mapping[tuple[Term, ...], float]) -> Network:
        """The network of some products, with these coefficients."""
        of_layer: dict[str, list[Head]] = {}
        for group, number in numbers.items():
            for term in group:
                of_layer.setdefault(term.layer, []).append(self._head(term, number))

        def changed(layer: Layer, name: str) -> Layer:
            return replace(layer, heads=tuple(of_layer.get(name, ())))  # type: ignore[arg-type]

        modules = [m.map(changed, f"module {i}") for i, m in enumerate(self.dense.modules)]
        dense = self.dense
        made = Data(self.layout, tuple(modules), dense.inputs, dense.fills, dense.outputs)
        return as_public(made)

    def _head(self, term: Term, number: float) -> Head:
        value, into = self.layout[term.value], self.layout[term.into]
        piece = Piece(identity(value.cols), into.start, exact(number), value.name)
        query, key = (Projection((read(self.layout, name),)) for name in (term.query, term.key))
        return Head(query, key, Projection((piece,)))


def _mean(part: Array) -> float:
    return float(np.mean(np.diagonal(part)))


def _layers(network: Data) -> list[tuple[str, AttentionLayer]]:
    """The layers of a network by name; others than attention are refused."""
    found: list[tuple[str, AttentionLayer]] = []

    def noted(layer: Layer, name: str) -> Layer:
        if not isinstance(layer, AttentionLayer):
            raise DecompileError(f"{name} is a pointwise layer: only attention is read here")
        found.append((name, layer))
        return layer

    for i, module in enumerate(network.modules):
        module.map(noted, f"module {i}")
    return found


# -- fitting --------------------------------------------------------------------------------------
class _Products(Executor[Blocks]):
    """Runs the products of blocks that a network was rounded to."""

    def __init__(self, numbers: Mapping[Term, float]) -> None:
        self.of_layer: dict[str, list[tuple[Term, float]]] = {}
        for term, number in numbers.items():
            self.of_layer.setdefault(term.layer, []).append((term, number))

    def repeat(self, module: Module, state: Blocks, name: str) -> Blocks:
        steps = name if module.repeat == 1 else f"{name}, step {{}}"
        for _ in range(module.repeat):
            state = self.step(module, state, steps)
        return state

    def plus(self, before: Blocks, after: Blocks, name: str) -> Blocks:
        return {block: before[block] + after[block] for block in before}

    def layer(self, layer: Layer, state: Blocks, name: str) -> Blocks:
        out = dict(state) if layer.skip else {b: np.zeros_like(x) for b, x in state.items()}
        for term, number in self.of_layer.get(name, ()):
            product = state[term.query] @ (state[term.key].mT @ state[term.value])
            out[term.into] = out[term.into] + number * product
        return out


class Fit:
    """Coefficients that bring the predictions of products nearest to given ones."""

    def __init__(self, rounding: Rounding, blocks: Blocks, target: Array) -> None:
        self.rounding, self.blocks, self.target = rounding, blocks, target
        self.scale = float(np.sqrt(np.mean(target**2))) or 1.0

    def residuals(self, groups: Sequence[tuple[Term, ...]], numbers: Array) -> Array:
        """How far predictions are off, relative to their size."""
        each = {t: float(c) for group, c in zip(groups, numbers, strict=True) for t in group}
        dense = self.rounding.dense
        with np.errstate(all="ignore"):
            state = _Products(each).run(dense.modules, self.blocks)
        place = dense.outputs[0].place
        part = state[place.block][..., place.row, place.col]
        return np.nan_to_num((part - self.target) / self.scale, nan=1e6, posinf=1e6, neginf=-1e6)

    def fitted(self, groups: Sequence[tuple[Term, ...]], start: Array) -> tuple[Array, float]:
        """The best coefficients near some, by damped Gauss-Newton, and the mean square left."""
        numbers, damping = np.array(start, dtype=np.float64), 1e-3
        off = self.residuals(groups, numbers)
        for _ in range(ROUNDS):
            J = self.slopes(groups, numbers, off)
            normal = J.T @ J
            ridge = damping * np.diag(np.diagonal(normal) + 1e-12)
            tried = numbers - np.linalg.solve(normal + ridge, J.T @ off)
            then = self.residuals(groups, tried)
            gain = float(np.mean(off**2) - np.mean(then**2))
            if gain > 0:
                numbers, off, damping = tried, then, damping / 10
            else:
                damping *= 10
            if 0 <= gain < 1e-10 or damping > 1e6:
                break
        return numbers, float(np.mean(off**2))

    def slopes(self, groups: Sequence[tuple[Term, ...]], numbers: Array, off: Array) -> Array:
        columns = []
        for i, number in enumerate(numbers):
            step = 1e-6 * max(1.0, abs(number))
            moved = numbers.copy()
            moved[i] += step
            columns.append((self.residuals(groups, moved) - off) / step)
        return np.stack(columns, axis=1)

    def pruned(
        self, tolerance: float
    ) -> tuple[list[tuple[Term, ...]], Array, list[tuple[str, float]]]:
        """The products that are needed, their coefficients, and what the others would add."""
        groups = self.rounding.groups()
        start = np.array([self.rounding.coefficients[group[0]] for group in groups])
        off = self.residuals(groups, start)
        seen = np.any(self.slopes(groups, start, off) != 0, axis=0)
        groups = [group for group, is_seen in zip(groups, seen, strict=True) if is_seen]
        numbers, left = self.fitted(groups, start[seen])
        costs: list[tuple[str, float]] = []
        while len(groups) > 1:
            without = [self._without(groups, numbers, i) for i in range(len(groups))]
            best = min(range(len(groups)), key=lambda i: without[i][1])
            cost = without[best][1] - left
            if cost > tolerance:
                break
            costs.append((" and ".join(map(str, groups[best])), max(cost, 0.0)))
            numbers, left = without[best]
            groups = [group for i, group in enumerate(groups) if i != best]
        return groups, numbers, costs

    def _without(
        self, groups: list[tuple[Term, ...]], numbers: Array, i: int
    ) -> tuple[Array, float]:
        rest = [group for k, group in enumerate(groups) if k != i]
        return self.fitted(rest, np.delete(numbers, i))


__all__ = ["Algorithm", "Term", "algorithm"]
