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
from inweave.exact.arithmetic import Arithmetic, batched
from inweave.exact.field import Field, FieldArray, Ints


class FieldArithmetic(Arithmetic):
    """Residues modulo the prime of a field.

    `key` chooses the random stand-ins of pointwise functions; with `opaque`, reciprocals have such
    stand-ins too, instead of the field's inverse. `met` are the arguments that stand-ins met.
    """

    def __init__(self, field: Field | None = None, key: int = 0, opaque: bool = False) -> None:
        self.field, self.key, self.opaque = field or Field(), key, opaque
        self.met: dict[str, list[Ints]] = {}

    def number(self, value: Fraction) -> int:
        return int(self.field.residue(value))

    def zeros(self, shape: Sequence[int]) -> FieldArray:
        return self.field.zeros(tuple(shape))

    def array(self, entries: np.ndarray[Any, Any]) -> FieldArray:
        return self.field.array(entries)

    def concat(self, arrays: Sequence[FieldArray], axis: int) -> FieldArray:
        values = batched(np.broadcast_to, [self.field.array(array).values for array in arrays])
        return FieldArray(self.field, np.concatenate(values, axis=axis))

    def diagonal(self, x: FieldArray) -> FieldArray:
        return FieldArray(self.field, np.linalg.diagonal(x.values)[..., None])

    def pointwise(self, function: Any, x: FieldArray) -> FieldArray:
        if self.opaque or not function.is_reciprocal:
            self.met.setdefault(function.digest, []).append(x.values.ravel())
        return self.field.array(function.field(x, self.key, self.opaque))

    def meetings(self) -> dict[str, list[int]]:
        """For every argument of a function, in the order they were met, the first equal to it."""
        found = {}
        for name, values in self.met.items():
            _, first, which = np.unique(
                np.concatenate(values), return_index=True, return_inverse=True
            )
            found[name] = first[which].tolist()
        return found

    def root(self, x: FieldArray) -> FieldArray:
        raise VerificationError(
            "a square root modulo a prime need not exist; draw the root and square it instead, "
            "and hand the root over (`roots=`)"
        )
