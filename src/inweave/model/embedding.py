"""Embeddings: a network whose prompt stands in another basis.

A network may carry an invertible matrix `M` on columns and an orthogonal one `P` on tokens, both
rational. Its prompt is then `G = P H M` of the plain prompt `H`, and its answers are read from
`Pᵀ G M⁻¹`. Nothing else knows of it: whoever runs layers runs them as they are stored.

Attention does not mind the basis. If a head does `Q Kᵀ V` to H, the head of

    Q: M⁻¹ W, P B        K: M⁻¹ W, P B        V: M⁻¹ W M, P B M

does `P (Q Kᵀ V) M` to G, because `Pᵀ P = I`. So every network with an embedding is, exactly, one
without: `Network.plain`, which is what named inputs are run through and what is proved. Entrywise
functions do mind, and an embedding leaves alone what a pointwise layer touches.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from inweave.errors import ShapeError
from inweave.exact.arithmetic import Arithmetic, Rationals
from inweave.exact.constants import (
    Array,
    ByContent,
    exact,
    fractions,
    identity,
    real_array,
    simplest,
)
from inweave.exact.rational import Whole, inverse, is_invertible, is_orthogonal, product, whole
from inweave.exact.schema import Stored
from inweave.model.layers import AttentionLayer, Head, Layer, PointwiseLayer
from inweave.model.layout import Layout
from inweave.model.modules import Module, named_layers
from inweave.model.projection import ONE, AnyProjection, DenseProjection, Piece, Projection

Matrix = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Embedding(ByContent):
    """`H` becomes `tokens @ H @ columns`; None is the identity."""

    columns: Stored | None = None
    tokens: Stored | None = None

    def __post_init__(self) -> None:
        for name in ("columns", "tokens"):
            matrix = getattr(self, name)
            if matrix is None:
                continue
            matrix = real_array(f"embedding: {name}", matrix)
            object.__setattr__(self, name, matrix)
            if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
                raise ShapeError(
                    f"embedding: {name} must be a square matrix, got shape {matrix.shape}"
                )
        if self.tokens is not None and not is_orthogonal(self.tokens):
            raise ShapeError(
                "embedding: tokens must be orthogonal, exactly: P Pᵀ is not the identity, so heads "
                "would not multiply what the plain network multiplies"
            )
        if self.columns is not None and not is_invertible(self.columns):
            raise ShapeError(
                "embedding: columns must be invertible, this matrix is singular: no answer could "
                "be read from its states"
            )

    # -- states -----------------------------------------------------------------------------------
    def apply(self, H: Array, arithmetic: Arithmetic) -> Array:
        """A plain prompt or state in the basis of the network."""
        tokens, columns = (self.tokens, self.columns) if arithmetic.exact else self.floats
        if tokens is not None:
            H = arithmetic.array(tokens) @ H
        return H if columns is None else H @ arithmetic.array(columns)

    @cached_property
    def inverse(self) -> Embedding:
        """The way back: what it does to a state of the network gives the plain one."""
        back = Embedding(
            None if self.columns is None else inverse(self.columns),
            None if self.tokens is None else self.tokens.T.copy(),
        )
        back.__dict__["inverse"] = self
        return back

    @cached_property
    def floats(self) -> tuple[Matrix | None, Matrix | None]:
        """The matrices on tokens and on columns in float64."""
        pair = (self.tokens, self.columns)
        tokens, columns = (None if x is None else x.astype(np.float64) for x in pair)
        return tokens, columns

    @cached_property
    def whole(self) -> tuple[Whole | None, Whole | None]:
        """The matrices on tokens and on columns in whole numbers."""
        tokens, columns = (None if x is None else whole(x) for x in (self.tokens, self.columns))
        return tokens, columns

    # -- layers -----------------------------------------------------------------------------------
    def check(self, layout: Layout, modules: Iterable[Module]) -> None:
        """Refuse an embedding of another size, or one that moves what is computed by entries."""
        for name, size in (("columns", layout.width), ("tokens", layout.tokens)):
            matrix = getattr(self, name)
            if matrix is not None and len(matrix) != size:
                raise ShapeError(
                    f"embedding: {name} is {len(matrix)} x {len(matrix)}, the prompt has "
                    f"{size} {name}"
                )
        moved_rows, moved_cols = _moved(self.tokens), _moved(self.columns)
        for where, layer in named_layers(modules):
            rows, cols = touched(layer, layout)
            for name, moved, entries in (("token", moved_rows, rows), ("column", moved_cols, cols)):
                both = sorted(moved & entries)
                if both:
                    owner = f" (block {layout.at(both[0]).name!r})" if name == "column" else ""
                    raise ShapeError(
                        f"embedding: {name} {both[0]}{owner} is mixed with others, but {where} "
                        "computes a function of its entries, which no change of basis commutes "
                        f"with: leave that {name} as it is"
                    )

    def module(self, module: Module, layout: Layout) -> Module:
        """The module that does to embedded states what `module` does to plain ones."""
        return module.map(lambda layer, _: self.layer(layer, layout))

    def layer(self, layer: Layer, layout: Layout) -> Layer:
        if not isinstance(layer, AttentionLayer):
            return layer
        return replace(layer, heads=tuple(self.head(head, layout) for head in layer.heads))

    def head(self, head: Head, layout: Layout) -> Head:
        return Head(
            self.projection(head.query, layout),
            self.projection(head.key, layout),
            self.projection(head.value, layout, written=True),
        )

    def projection(
        self, projection: AnyProjection, layout: Layout, written: bool = False
    ) -> AnyProjection:
        """The projection that reads embedded states; `written` if what it gives is one too."""
        W, B = weights(projection, layout)
        (P, M), (_, back) = self.whole, self.inverse.whole
        M = M if written else None
        return DenseProjection(_product(back, W, M), None if B is None else _product(P, B, M))


def _product(*matrices: Matrix | Whole | None) -> Matrix:
    return product(*(matrix for matrix in matrices if matrix is not None))


def weights(projection: AnyProjection, layout: Layout) -> tuple[Matrix, Matrix | None]:
    """`W` and `B` exactly; no `B` where there is no bias."""
    if isinstance(projection, DenseProjection):
        return projection.W, projection.B
    B = projection.bias(layout, Rationals()) if projection.has_bias else None
    return simple(projection.weight(layout, Rationals())), None if B is None else simple(B)


def simple(matrix: Matrix) -> Matrix:
    """The same numbers in float64 where that is exact for all of them."""
    some = matrix.astype(bool)  # few entries are not zero
    plain = np.zeros(matrix.shape)
    plain[some] = matrix[some].astype(np.float64)
    return plain if (fractions(plain[some]) == matrix[some]).all() else matrix


def in_pieces(projection: AnyProjection, layout: Layout) -> Projection:
    """A projection as pieces, one for each block that it reads, as simple as they are."""
    W, B = weights(projection, layout)
    parts: list[tuple[str | None, Matrix]] = [(b.name, W[b.columns]) for b in layout]
    pieces = []
    for block, part in [*parts, *([] if B is None else [(None, B)])]:
        rows, cols = np.nonzero(part)
        if not len(cols):
            continue
        left, right = int(cols.min()), int(cols.max()) + 1
        kept = part[: int(rows.max()) + 1 if block is None else None, left:right]
        numbers = set(kept[kept != 0].tolist())
        c = exact(numbers.pop()) if len(numbers) == 1 else ONE
        ones = kept if c == 1 else (kept != 0) * 1.0
        matrix = identity(1) if kept.size == 1 else simplest(ones)  # a number is no row of ones
        pieces.append(Piece(matrix, left, c, block))
    return Projection(tuple(pieces))


def plain_module(module: Module, embedding: Embedding, layout: Layout) -> Module:
    """The module that does to plain states what `module` does to embedded ones, in pieces."""

    def plain(layer: Layer, _: str) -> Layer:
        if not isinstance(layer, AttentionLayer):
            return layer
        heads = (embedding.inverse.head(head, layout) for head in layer.heads)
        pieces = (Head(*(in_pieces(p, layout) for p in head.projections)) for head in heads)
        return replace(layer, heads=tuple(pieces))

    return module.map(plain)


def touched(layer: Layer, layout: Layout) -> tuple[set[int], set[int]]:
    """The tokens and the columns of the entries that a layer computes functions of.

    Not of those that it keeps, and not of those that it makes zero: any basis commutes with that.
    """
    if isinstance(layer, AttentionLayer):
        return set(), set()
    if isinstance(layer, PointwiseLayer):
        here = ((layer.V != 0) | (layer.C != 0)).any(axis=0)
        rows, cols = np.nonzero(here)
        return set(rows.tolist()), set(cols.tolist())
    regions = [place.region(layout) for place, _ in layer.applied]
    return (
        {row for rows, _ in regions for row in range(rows.start, rows.stop)},
        {col for _, cols in regions for col in range(cols.start, cols.stop)},
    )


def _moved(matrix: Matrix | None) -> set[int]:
    """The indices that a matrix does not leave alone."""
    if matrix is None:
        return set()
    different = matrix != np.eye(len(matrix))
    return set(np.flatnonzero(different.any(axis=0) | different.any(axis=1)).tolist())
