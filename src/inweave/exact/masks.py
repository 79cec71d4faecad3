"""Constant masks: `M * A` entry by entry, as products of A with diagonal matrices.

Rows of M that are equal are one product: `Σ diag(where the row is m) A diag(m)`, or columns where
those are fewer. A diagonal matrix is held as pieces of the identity, one for each run of equal
entries, so that nothing as large as M is written out for every product.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np

from inweave.exact.constants import Array, Shift, exact

Diagonal = list[tuple[Shift, Fraction]]
"""A diagonal matrix: pieces of the identity and what stands on them."""


def separated(mask: Array) -> list[tuple[Diagonal, Diagonal]]:
    """The pairs (L, R) of diagonal matrices for which `mask * A` is the sum of `L A R`."""
    rows, cols = _alike(mask), _alike(mask.T)
    if len(cols) < len(rows):
        return [(diagonal(m), diagonal(where)) for m, where in cols]
    return [(diagonal(where), diagonal(m)) for m, where in rows]


def diagonal(entries: Array) -> Diagonal:
    """The diagonal matrix of some entries."""
    size = len(entries)
    inner = np.flatnonzero(entries[1:] != entries[:-1]) + 1
    starts = [0, *inner.tolist(), size]
    return [
        (Shift(size, size, i, i, stop - i), exact(entries[i]))
        for i, stop in pairwise(starts)
        if entries[i] != 0
    ]


def _alike(mask: Array) -> list[tuple[Array, Array]]:
    """The different rows of a mask that are not zero, each with ones where it stands."""
    found: dict[tuple[object, ...], Array] = {}
    for i, row in enumerate(mask):
        if np.any(row != 0):
            found.setdefault(tuple(row.tolist()), np.zeros(len(mask)))[i] = 1.0
    return [(mask[int(np.argmax(where))], where) for where in found.values()]
