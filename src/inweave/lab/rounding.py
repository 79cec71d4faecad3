"""Trained weights rounded to products of whole blocks.

A head depends on `A = W_q W_kᵀ` and on `W_v` alone, and a layer on the sum over its heads of
`A ⊗ W_v`: how that is shared out among matrices and heads drops out. Between blocks of one width
the part that no rotation of the features changes is a multiple of the identity, the mean of the
diagonal, and weights are rounded to that. Where a direction of the features is special to the task,
the scores may need one more matrix `C`: the one that those between blocks of its width are nearest
to multiples of. A bias is a block like any other that holds the identity, since `H W + B` is
`[H, I] [W; B]`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from inweave.errors import DecompileError
from inweave.exact.constants import exact, identity, simplest
from inweave.model.layers import AttentionLayer, Head, Layer
from inweave.model.network import Network as Data
from inweave.model.projection import Piece, Projection
from inweave.network import Network, as_public

Array = np.ndarray[Any, Any]
Matrices = Mapping[int, Array]  # by width

BIAS = "I"  # the block that biases read
ALIKE = 1e-9  # relative, of coefficients that are one: of a head asked from two sides
NOTHING = 1e-12  # of the largest coefficient: what rounding errors leave of zero
DIGITS = 3


class Term(NamedTuple):
    """A product `query keyᵀ value` of blocks, or `query C keyᵀ value`, that is added to a block."""

    layer: str
    query: str
    key: str
    value: str
    into: str
    by_matrix: bool = False

    def __str__(self) -> str:
        inside = " C" if self.by_matrix else ""
        product = f"({self.query}){inside} ({self.key})ᵀ ({self.value}) → {self.into}"
        return f"""{self.layer.replace(", step {}", "")}: {product}"""


class Rounding:
    """A network of dense heads as products of whole blocks, and the coefficients of those.

    Products that have the same coefficient are one group.
    """

    def __init__(self, network: Data, matrices: Matrices | None = None) -> None:
        self.dense, self.layout = network, network.layout
        self.matrices = dict(matrices or {})
        biased = any(p.has_bias for _, layer in _layers(network) for head in layer.heads
                     for p in head.projections)  # fmt: skip
        self.columns = {block.name: block.columns for block in self.layout}
        if biased:
            size = self.layout.width + self.layout.tokens
            self.columns[BIAS] = slice(self.layout.width, size)
        self.heads = {
            name: [self._gauge(head) for head in layer.heads] for name, layer in _layers(network)
        }
        self.coefficients: dict[Term, float] = {}
        whole = kept = 0.0
        for name, heads in self.heads.items():
            whole += sum(np.sum(A * B) * np.sum(V * W) for A, V in heads for B, W in heads)
            kept += self._round(name, heads)
        largest = max(map(abs, self.coefficients.values()), default=0.0)
        self.coefficients = {
            term: c for term, c in self.coefficients.items() if abs(c) > NOTHING * largest
        }
        self.rest = float(np.sqrt(max(0.0, 1.0 - kept / whole))) if whole else 0.0

    def _gauge(self, head: Head) -> tuple[Array, Array]:
        """`W_q W_kᵀ` and `W_v`, biases below weights."""
        parts = []
        for projection in head.projections:
            W = projection.weight(self.layout)
            parts.append(np.vstack([W, projection.bias(self.layout)]) if self.is_biased else W)
        query, key, value = (np.asarray(part, dtype=np.float64) for part in parts)
        return query @ key.T, value

    @property
    def is_biased(self) -> bool:
        return BIAS in self.columns

    def width(self, block: str) -> int:
        columns = self.columns[block]
        return int(columns.stop - columns.start)

    def _pairs(self) -> list[tuple[str, str]]:
        return [(a, b) for a in self.columns for b in self.columns
                if self.width(a) == self.width(b)]  # fmt: skip

    def _round(self, layer: str, heads: list[tuple[Array, Array]]) -> float:
        """Note the coefficients of a layer's products; gives the square of their norm."""
        kept = 0.0
        for q, k in self._pairs():
            basis = self._basis(self.width(q))
            inside = np.array([_coordinates(A[self.columns[q], self.columns[k]], basis)
                               for A, _ in heads])  # fmt: skip
            if not inside.any():
                continue
            gram = np.array([[np.sum(a * b) for a in basis] for b in basis])
            for v, w in self._pairs():
                if w == BIAS:
                    continue
                moved = [np.mean(np.diagonal(V[self.columns[v], self.columns[w]]))
                         for _, V in heads]  # fmt: skip
                numbers = np.asarray(moved) @ inside
                for by_matrix, number in zip((False, True), numbers, strict=False):
                    if number:
                        self.coefficients[Term(layer, q, k, v, w, by_matrix)] = float(number)
                kept += float(numbers @ gram @ numbers) * self.width(v)
        return kept

    def _basis(self, width: int) -> list[Array]:
        more = [self.matrices[width]] if width in self.matrices else []
        return [np.eye(width), *more]

    def shared_matrices(self) -> dict[int, Array]:
        """Of each width, what scores between blocks of it are nearest to multiples of.

        Its mean diagonal is 1, so that the identity is a special case of it.
        """
        parts: dict[int, list[Array]] = {}
        for heads in self.heads.values():
            for A, V in heads:
                for q, k in self._pairs():
                    part = A[self.columns[q], self.columns[k]] * np.linalg.norm(V)
                    if self.width(q) > 1 and part.any():
                        parts.setdefault(self.width(q), []).append(part.ravel())
        found = {}
        for width, rows in parts.items():
            P = np.linalg.svd(np.stack(rows), full_matrices=False)[2][0].reshape(width, width)
            mean = float(np.mean(np.diagonal(P)))
            P = P / (mean if abs(mean) > 0.01 else np.linalg.norm(P) / np.sqrt(width))
            found[width] = np.array([[float(f"{x:.{DIGITS - 1}e}") for x in row] for row in P])
        return found

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

    # -- the network of some products -------------------------------------------------------------
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
        query = self._piece(term.query)
        if term.by_matrix:
            query = replace(query, matrix=simplest(self.matrices[self.width(term.query)]))
        value = self._piece(term.value, self.layout[term.into].start, number)
        return Head(*(Projection((piece,)) for piece in (query, self._piece(term.key), value)))

    def _piece(self, block: str, at: int = 0, number: float = 1.0) -> Piece:
        source = None if block == BIAS and self.is_biased else block
        return Piece(identity(self.width(block)), at, exact(number), source)


def _coordinates(part: Array, basis: list[Array]) -> Array:
    """The combination of a basis that is nearest to a matrix."""
    columns = np.stack([b.ravel() for b in basis], axis=1)
    found: Array = np.linalg.lstsq(columns, part.ravel(), rcond=None)[0]
    return found


def _layers(network: Data) -> Iterator[tuple[str, AttentionLayer]]:
    """The layers of a network by name; others than attention are refused."""
    found: list[tuple[str, AttentionLayer]] = []

    def noted(layer: Layer, name: str) -> Layer:
        if not isinstance(layer, AttentionLayer):
            raise DecompileError(f"{name} is a pointwise layer: only attention is read here")
        found.append((name, layer))
        return layer

    for i, module in enumerate(network.modules):
        module.map(noted, f"module {i}")
    yield from found
