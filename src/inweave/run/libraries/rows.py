"""Arrays of numpy by rows, columns and entries, and back: loops go through them one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from inweave.exact.constants import Array

TURNED = 64  # problems that are turned at a time


def moved(x: Array, start: int, to: int) -> Array:
    """An axis in another place, as `np.moveaxis` has it but in a sixth of its time."""
    axes = [*range(x.ndim)]
    axes.insert(to % x.ndim, axes.pop(start))
    return x.transpose(axes)


def rows(x: Array, height: int = 1) -> Array:
    """The rows of a matrix, so many at a time, the first axis counting them; a view."""
    *lead, rows, cols = x.shape
    blocks = x.reshape(*lead, rows // height, height, cols)
    return moved(blocks, -3, 0) if lead else blocks


def joined(blocks: Array) -> Array:
    """The matrix of which these are the rows, the first axis counting blocks of them."""
    count, *lead, height, cols = blocks.shape
    return (moved(blocks, 0, -3) if lead else blocks).reshape(*lead, count * height, cols)


def entry(x: Array, row: int, col: int) -> Array:
    """An entry of every problem, in a row."""
    return x[..., row : row + 1, col : col + 1].copy("C")


def column(x: Array, col: int) -> Array:
    """A column of every problem, each entry of which is in a row with that of all others."""
    return by_rows(x[..., col : col + 1])


def by_rows(x: Array) -> Array:
    """The same array with each row of a problem beside that of the next one in memory.

    Some problems are moved at a time: what one brings near, its next rows need.
    """
    if len(x) == 0 or rows(x)[0].flags.c_contiguous:
        return x
    found = moved(np.empty((x.shape[-2], *x.shape[:-2], x.shape[-1]), x.dtype), 0, -2)
    for start in range(0, len(x), TURNED):
        found[start : start + TURNED] = x[start : start + TURNED]
    return found


def numbers_together(entries: Sequence[Any], _: int, cols: int, dtype: Any) -> Array:
    """The matrices, one above the other, of which these are the entries in each, row by row.

    An entry is a number, or a list of them.
    """
    return np.array(entries, dtype).T.reshape(-1, cols)


def together(entries: Sequence[Any], height: int, cols: int, dtype: Any) -> Array:
    """The same of entries some of which are arrays of columns."""
    if not any(isinstance(x, np.ndarray) for x in entries):
        return numbers_together(entries, height, cols, dtype)
    if len(entries) == 1:
        return entries[0]
    columns = [x if isinstance(x, np.ndarray) else np.reshape(x, (-1, 1)) for x in entries]
    lead = max((x.shape[:-2] for x in columns), key=len)
    out = np.empty((columns[0].shape[-2], *lead, len(entries)), dtype)
    for k, x in enumerate(columns):
        out[..., k] = moved(x[..., 0], -1, 0) if x.ndim > 2 else x.reshape(-1, *(1 for _ in lead))
    return joined(out.reshape(len(out), *lead, height, cols))
