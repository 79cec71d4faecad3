"""The finite field as numbers that a program or a network is computed in.

Everything polynomial is exact here. A pointwise function acts as its own stand-in on the field (an
inverse, or a keyed random function), the same on both sides of a comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from inweave.errors import VerificationError
from inweave.exact.arithmetic import Arithmetic, batched
from inweave.exact.field import Field, FieldArray, Ints

Meetings: TypeAlias = dict[str, list[int]]
"""By function, for every argument the first that is equal to it."""

_NONE = np.zeros(0, np.int64)


class FieldArithmetic(Arithmetic):
    """Residues modulo the prime of a field.

    `key` chooses the random stand-ins of pointwise functions; with `opaque`, reciprocals have such
    stand-ins too, instead of the field's inverse. `met` are the arguments that stand-ins met. Of
    many, some are equal by accident: where the `meetings` at another point are handed in, a
    stand-in tells arguments apart that were different there.
    """

    def __init__(
        self,
        field: Field | None = None,
        key: int = 0,
        opaque: bool = False,
        meetings: Meetings | None = None,
    ) -> None:
        self.field, self.key, self.opaque = field or Field(), key, opaque
        self.met: dict[str, list[Ints]] = {}
        self._before = {name: np.array(first) for name, first in (meetings or {}).items()}

    def number(self, value: Fraction) -> int:
        return self.field.rational(value)

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
            x = self._meet(function.digest, x)
        return self.field.array(function.field(x, self.key, self.opaque))

    def _meet(self, name: str, x: FieldArray) -> FieldArray:
        """What tells arguments apart: they themselves, or which they were equal to before."""
        met = self.met.setdefault(name, [])
        start = sum(len(values) for values in met)
        met.append(x.values.ravel())
        first = self._before.get(name, _NONE)[start : start + x.values.size]
        if len(first) != x.values.size:
            return x
        return self.field.array(first.reshape(x.shape))

    def meetings(self) -> Meetings:
        """For every argument of a function, in the order they were met, the first equal to it.

        Equal both here and where the meetings were that were handed in.
        """
        found = {}
        for name, parts in self.met.items():
            values, before = np.concatenate(parts), self._before.get(name, _NONE)
            if len(before) == len(values):
                values = values + before.astype(values.dtype) * self.field.prime
            _, first, which = np.unique(values, return_index=True, return_inverse=True)
            found[name] = first[which].tolist()
        return found

    def root(self, x: FieldArray) -> FieldArray:
        raise VerificationError(
            "a square root modulo a prime need not exist; draw the root and square it instead, "
            "and hand the root over (`roots=`)"
        )
