"""What can be done to a head without changing what its layer adds.

A head adds `Q Kᵀ V`. Its inner columns are nobody's business, so `Q S` and `K S⁻ᵀ` do as well for
any invertible S (the gauge); and it is linear in each of the three, so that `Q = Q A + Q (I − A)`
makes two heads of it. All in exact numbers.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from inweave.circuits.rotations import rotation
from inweave.exact.rational import Whole, product, whole
from inweave.model.embedding import weights
from inweave.model.layers import PARTS, Head
from inweave.model.layout import Layout
from inweave.model.projection import AnyProjection, DenseProjection

Matrix = np.ndarray[Any, Any]
SHARES = (-1 / 4, 1 / 4, 1 / 2, 3 / 4, 5 / 4)


def widened(head: Head, before: Layout, after: Layout) -> Head:
    """A head in full, in a prompt that has more columns to the right."""

    more = after.width - before.width

    def wide(projection: AnyProjection) -> DenseProjection:
        W, B = weights(projection, before)
        B = None if B is None else np.pad(B, ((0, 0), (0, more)))
        return DenseProjection(np.pad(W, ((0, more), (0, more))), B)

    return Head(*map(wide, head.projections))


def times(projection: AnyProjection, *A: Matrix | Whole) -> DenseProjection:
    """`(H W + B) A`, with a product for A."""
    assert isinstance(projection, DenseProjection)
    W, B = projection.W, projection.B
    return DenseProjection(product(W, *A), None if B is None else product(B, *A))


def gauged(head: Head, dial: Fraction, rng: np.random.Generator) -> Head:
    """The same head with other queries and keys: turned, and every column scaled by 2, 1 or 1/2."""
    size = len(head.query.W)  # type: ignore[union-attr]
    turn = rotation(size, range(size), dial, rng)
    scales = np.where(rng.random(size) < float(dial), rng.integers(-1, 2, size), 0)
    turned = whole(np.eye(size) if turn is None else turn)
    return replace(
        head,
        query=times(head.query, turned, np.diag(2.0**scales)),
        key=times(head.key, turned, np.diag(2.0**-scales)),
    )


def split(head: Head, rng: np.random.Generator) -> tuple[Head, Head]:
    """Two heads whose sum it is; both read what it reads and write where it writes."""
    name = PARTS[int(rng.integers(3))]
    parted = getattr(head, name)
    size = len(parted.W)
    if name == "value":
        A = np.diag(rng.choice(SHARES, size))
    else:
        A = np.eye(size) / 2 + rng.choice([-1, 1], size) * np.eye(size)[rng.permutation(size)] / 4
    halves = (times(parted, A), times(parted, np.eye(size) - A))
    first, second = (replace(head, **{name: half}) for half in halves)
    return first, second
