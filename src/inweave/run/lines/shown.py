"""Inputs that need no look of their own: a product shows whether they are finite.

Every entry of a factor takes part in the product, and what is not finite times anything, zero too,
is not finite. So where a product is much smaller than its factor, to look at it instead saves a
pass over the data, which is half of the time where an algorithm reads its data once. A library that
leaves out zeros would not show it; so it is asked, with factors of the same kind.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from inweave.run.lines.code import Code, Line

SMALLER = 4  # times that a product must be, to be looked at instead of a factor
LARGEST = 512  # rows and columns that a library is asked with

Shape = tuple[int, int]


def shown(code: Code, dtype: Any) -> dict[int, set[int]]:
    """Lines whose results show that sources are finite, and the slots of those sources."""
    found: dict[int, set[int]] = {}
    sources = {slot: (slot, False) for slot in code.shapes}  # by slots with a source, or its flip
    waiting = set(code.shapes)
    for i, line in enumerate(code.lines):
        if not isinstance(line, Line):
            for slot in line.fills:
                sources.pop(slot, None)
            continue
        factors = [sources.get(slot) for slot in (line.a, line.b)]
        if line.op == "matmul":
            seen = {
                factor[0]
                for factor in factors
                if factor is not None and factor[0] in waiting
                if SMALLER * line.rows * line.cols <= np.prod(code.shapes[factor[0]])
            }
            if seen and _asked(code, line, factors, dtype):
                found[i] = seen
                waiting -= seen
        sources.pop(line.out, None)
        if line.op == "flip" and factors[0] is not None:
            slot, turned = factors[0]
            sources[line.out] = (slot, not turned)
    return found


def _asked(code: Code, line: Line, factors: list[Any], dtype: Any) -> bool:
    """Whether a product of the library shows what is not finite in factors like these."""
    inner = next(
        code.shapes[slot][turned ^ (side == 0)]
        for side, factor in enumerate(factors)
        if factor is not None
        for slot, turned in [factor]
    )
    sizes = tuple(min(size, LARGEST) for size in (line.rows, inner, line.cols))
    return _carries(*sizes, *(factor is not None and factor[1] for factor in factors), dtype)


@lru_cache(maxsize=256)
def _carries(rows: int, inner: int, cols: int, left: bool, right: bool, dtype: Any) -> bool:
    a, b = (np.empty(shape[::-1] if turned else shape, dtype)
            for shape, turned in (((rows, inner), left), ((inner, cols), right)))  # fmt: skip
    with np.errstate(invalid="ignore"):
        for number, other in ((np.inf, 0.0), (0.0, np.inf), (np.nan, 0.0), (0.0, np.nan)):
            a.fill(number)
            b.fill(other)
            for product in (np.dot, np.matmul):
                if np.isfinite(product(a.T if left else a, b.T if right else b)).any():
                    return False
    return True
