"""The finite field as numbers that a program or a network is computed in.

Everything polynomial is exact here. A pointwise function acts as its own stand-in on the field (an
inverse, or a keyed random function), the same on both sides of a comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from inweave.errors import VerificationError
from inweave.exact.arithmetic import _batched
from inweave.exact.field import FieldArray, residue


class FieldArithmetic:
    """Residues modulo the prime at work (see `inweave.exact.field`).

    `key` chooses the random stand-ins of pointwise functions; with `opaque`, reciprocals have such
    stand-ins too, instead of the field's inverse.
    """

    def __init__(self, key: int = 0, opaque: bool = False) -> None:
        self.key, self.opaque = key, opaque

    def number(self, value: Fraction) -> int:
        return int(residue(value))

    def zeros(self, shape: Sequence[int]) -> FieldArray:
        return FieldArray.zeros(tuple(shape))

    def array(self, entries: np.ndarray[Any, Any]) -> FieldArray:
        return FieldArray.of(entries)

    def concat(self, arrays: Sequence[FieldArray], axis: int) -> FieldArray:
        values = _batched(np.broadcast_to, [array.values for array in arrays])
        return FieldArray(np.concatenate(values, axis=axis))

    def pointwise(self, function: Any, x: FieldArray) -> FieldArray:
        return FieldArray.of(function.field(x, self.key, self.opaque))

    def root(self, x: FieldArray) -> FieldArray:
        raise VerificationError(
            "a square root modulo a prime need not exist; draw the root and square it instead, "
            "and hand the root over (`roots=`)"
        )
