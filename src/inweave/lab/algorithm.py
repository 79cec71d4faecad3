"""Which algorithm is it? A trained network as a program of a few lines.

Trained weights are dense, and no two runs have the same. They are rounded to products `c L Kᵀ R` of
whole blocks (`inweave.lab.rounding`). The coefficients are fitted to the network's predictions,
those that cost nothing are left out, and the rest is written in three digits.

The result is a network of its own and is decompiled as any other, with a proof. What is not proved
is that the trained network is that program: how far their predictions are apart is measured, on
problems that nothing was fitted to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inweave.decompiler import decompile
from inweave.errors import DecompileError
from inweave.lab.measures import Interval, bootstrap
from inweave.lab.rounding import BIAS, DIGITS, Array, Rounding, Term
from inweave.model.layers import Layer
from inweave.model.modules import Executor, Module, stepped
from inweave.model.network import Network as Data
from inweave.network import Network, as_public

Blocks = dict[str, Array]
Problems = Mapping[str, Any]
Group = tuple[Term, ...]

FEW = 3  # products that are tried before one is left out
MANY = 12  # products of which those that are hardly felt are left out together
ROUNDS = 30  # of fitting
TOO_MANY = 300  # products to be fitted, if without that nothing is left of the predictions
MOSTLY = 0.5  # of their mean square: a difference that is called so


@dataclass(frozen=True)
class Algorithm:
    """What a trained network was read as, and how far that is from it."""

    source: str
    network: Network  # that the source computes, exactly
    difference: Interval  # mean squared difference of predictions, relative to their mean square
    problems: int  # it was measured on
    left_out: tuple[str, ...]
    matrices: tuple[str, ...] = ()  # what is known of those in the source

    def __str__(self) -> str:
        far = ", ".join(f"{100 * x:.2g}" for x in (self.difference.low, self.difference.high))
        measured = (
            f"its predictions differ from the network's by {100 * self.difference.mean:.2g} % "
            f"[{far}] of their mean square, on {self.problems} fresh problems"
        )
        left = (f"left out: {x}" for x in self.left_out)
        return "\n".join([self.source, *self.matrices, measured, *left])


def algorithm(
    network: Data,
    problems: Problems,
    fresh: Problems,
    tolerance: float = 0.002,
    known: Mapping[str, Any] | None = None,
) -> Algorithm:
    """A trained network read as a program.

    Coefficients are fitted on `problems`, named arrays with one problem per row, and the difference
    is measured on `fresh` ones. A product is left out if predictions then change by no more than
    `tolerance` of their mean square. Scores are multiples of the identity or, if those are more
    than twice as far from the network, of one matrix; `known` are matrices that it is compared
    with, such as the inverse of the covariance.
    """
    problems, fresh = ({k: np.asarray(x, float) for k, x in p.items()} for p in (problems, fresh))
    target = predictions(network, problems)
    H = network.prompt(**problems)
    inputs = {block.name: H[..., block.columns] for block in network.layout}
    plain = Rounding(network)
    shared = Rounding(network, plain.shared_matrices())
    fits = [Fit(rounding, inputs, target) for rounding in (plain, shared)]
    far = min(fit.before() for fit in fits)
    if len(plain.coefficients) <= TOO_MANY or far <= MOSTLY:
        found = fits[0].pruned(tolerance)
        if found.left > tolerance and shared.matrices:
            more = fits[1].pruned(tolerance)
            found = more if 2 * more.left < found.left else found
        far = found.left
    if far > MOSTLY:
        raise DecompileError(
            "rounded to multiples of one matrix between blocks, this network is no longer itself: "
            f"predictions change by {100 * far:.0f} % of their mean square. Its intermediate "
            "results stand in a basis of their own, which weights do not name; "
            "inweave.lab.by_predictions reads what it predicts instead"
        )
    made = found.rounding.network(dict(zip(found.groups, rounded(found.numbers), strict=True)))
    wanted, got = predictions(network, fresh), predictions(made, fresh)
    named = found.named(known or {})
    apart = difference(wanted, got)
    return Algorithm(decompile(made), made, apart, len(wanted), found.left_out(), named)


def predictions(network: Data, problems: Problems) -> Array:
    """What a network says of problems, domains not looked at."""
    public = network if isinstance(network, Network) else as_public(network)
    return np.asarray(public(check=False, **problems), dtype=np.float64)


def difference(wanted: Array, got: Array) -> Interval:
    """The mean squared difference of predictions, relative to the mean square of those wanted."""
    return bootstrap((wanted - got) ** 2 / (float(np.mean(wanted**2)) or 1.0))


def rounded(numbers: Iterable[float]) -> list[float]:
    """Numbers in few digits."""
    return [float(f"{number:.{DIGITS - 1}e}") for number in numbers]


@dataclass(frozen=True)
class Pruned:
    """Products that are needed, their coefficients, what is left, and what the others would add."""

    rounding: Rounding
    groups: Sequence[Group]
    numbers: Sequence[float]
    left: float
    costs: Sequence[tuple[str, float]]

    def left_out(self) -> tuple[str, ...]:
        unlike = f"{100 * self.rounding.rest:.2g} % of their norm"
        return (
            *(f"{text}, which costs {100 * cost:.2g} %" for text, cost in self.costs),
            f"what of the weights is no multiple of {self._kinds} between blocks, {unlike}",
        )

    @property
    def _kinds(self) -> str:
        return "an identity or of C" if self.rounding.matrices else "an identity"

    def named(self, known: Mapping[str, Any]) -> tuple[str, ...]:
        """What the matrices in use are multiples of, as far as they are."""
        used = {self.rounding.width(t.query) for g in self.groups for t in g if t.by_matrix}
        found = []
        for width in sorted(used):
            P = self.rounding.matrices[width]
            for name, matrix in known.items():
                K = np.asarray(matrix, float)
                if K.shape != P.shape:
                    continue
                c = float(np.sum(P * K) / np.sum(K * K))
                far = float(np.linalg.norm(P - c * K) / np.linalg.norm(P))
                found.append(f"C is {c:.{DIGITS}g} {name}, up to {100 * far:.2g} % of its norm")
        return tuple(found)


# -- fitting --------------------------------------------------------------------------------------
class _Products(Executor[Blocks]):
    """Runs the products of blocks that a network was rounded to."""

    def __init__(self, rounding: Rounding, numbers: Mapping[Term, float]) -> None:
        self.rounding = rounding
        self.of_layer: dict[str, list[tuple[Term, float]]] = {}
        for term, number in numbers.items():
            self.of_layer.setdefault(term.layer, []).append((term, number))

    def repeat(self, module: Module, state: Blocks, name: str) -> Blocks:
        for _ in range(module.repeat):
            state = self.step(module, state, stepped(module, name, "{}"))
        return state

    def plus(self, before: Blocks, after: Blocks, name: str) -> Blocks:
        return {block: before[block] + after[block] for block in before}

    def layer(self, layer: Layer, state: Blocks, name: str) -> Blocks:
        out = dict(state) if layer.skip else {b: np.zeros_like(x) for b, x in state.items()}
        for term, number in self.of_layer.get(name, ()):
            query, key, value = (self._read(state, name) for name in term[1:4])
            if term.by_matrix:
                query = query @ self.rounding.matrices[query.shape[-1]]
            out[term.into] = out[term.into] + number * (query @ (key.mT @ value))
        return out

    def _read(self, state: Blocks, block: str) -> Array:
        is_bias = block == BIAS and self.rounding.is_biased
        return np.eye(self.rounding.layout.tokens) if is_bias else state[block]


class Fit:
    """Coefficients that bring the predictions of products nearest to given ones."""

    def __init__(self, rounding: Rounding, blocks: Blocks, target: Array) -> None:
        self.rounding, self.blocks, self.target = rounding, blocks, target
        self.scale = float(np.sqrt(np.mean(target**2))) or 1.0

    def residuals(self, groups: Sequence[Group], numbers: Array) -> Array:
        """How far predictions are off, relative to their size."""
        each = {t: float(c) for group, c in zip(groups, numbers, strict=True) for t in group}
        dense = self.rounding.dense
        with np.errstate(all="ignore"):
            state = _Products(self.rounding, each).run(dense.modules, self.blocks)
        place = dense.outputs[0].place
        part = state[place.block][..., place.row, place.col]
        return np.nan_to_num((part - self.target) / self.scale, nan=1e6, posinf=1e6, neginf=-1e6)

    def fitted(self, groups: Sequence[Group], start: Array) -> tuple[Array, float]:
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

    def slopes(self, groups: Sequence[Group], numbers: Array, off: Array) -> Array:
        columns = []
        for i, number in enumerate(numbers):
            step = 1e-6 * max(1.0, abs(number))
            moved = numbers.copy()
            moved[i] += step
            columns.append((self.residuals(groups, moved) - off) / step)
        return np.stack(columns, axis=1)

    def pruned(self, tolerance: float) -> Pruned:
        """The products that are needed.

        What leaving one out costs is estimated from the slopes, and known when the rest is fitted.
        """
        groups, start, costs = self._felt(0.1 * tolerance**0.5)
        numbers, left = self.fitted(groups, start)
        while len(groups) > 1:
            tried = [self._without(groups, numbers, i) for i in self._cheapest(groups, numbers)]
            rest, new, then = min(tried, key=lambda one: one[2])
            if then - left > tolerance:
                break
            (gone,) = set(groups) - set(rest)
            costs.append((" and ".join(map(str, gone)), max(then - left, 0.0)))
            groups, numbers, left = rest, new, then
        return Pruned(self.rounding, groups, list(numbers), left, costs)

    def before(self) -> float:
        """What rounded weights leave of the mean square before anything is fitted."""
        groups, numbers = self._rounded()
        return float(np.mean(self.residuals(groups, numbers) ** 2))

    def _rounded(self) -> tuple[list[Group], Array]:
        groups = self.rounding.groups()
        return groups, np.array([self.rounding.coefficients[group[0]] for group in groups])

    def _felt(self, least: float) -> tuple[list[Group], Array, list[tuple[str, float]]]:
        """The products that predictions feel; of many, without those that are hardly felt.

        To first order they change predictions by `least` together.
        """
        groups, start = self._rounded()
        slopes = self.slopes(groups, start, self.residuals(groups, start))
        effects = np.sqrt(np.mean(slopes**2, axis=0)) * np.abs(start)
        order = [int(i) for i in np.argsort(effects, kind="stable")]
        few = np.count_nonzero(effects) <= MANY
        gone = int(np.sum(np.cumsum(effects[order]) <= (0.0 if few else least)))
        felt = sorted(order[min(gone, len(order) - 1) :])
        lost = sum(bool(effects[i]) for i in order[:gone])
        said = [(f"{lost} products that are hardly felt", least**2)] if lost else []
        return [groups[i] for i in felt], start[felt], said

    def _cheapest(self, groups: Sequence[Group], numbers: Array) -> Array:
        """The few products without which the rest comes nearest, to first order."""
        J = self.slopes(groups, numbers, self.residuals(groups, numbers))
        inverse = np.linalg.pinv(J.T @ J, rcond=1e-12)
        found: Array = np.argsort(numbers**2 / np.maximum(np.diagonal(inverse), 1e-300))[:FEW]
        return found

    def _without(
        self, groups: Sequence[Group], numbers: Array, i: int
    ) -> tuple[list[Group], Array, float]:
        rest = [group for k, group in enumerate(groups) if k != i]
        return rest, *self.fitted(rest, np.delete(numbers, i))


__all__ = ["Algorithm", "Term", "algorithm"]
