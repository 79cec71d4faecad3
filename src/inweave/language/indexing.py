"""Indices, slices and other shapes: products with pieces of an identity.

`x[a:b]` is a product with a described constant, whatever the sizes; a stride or a list of rows is a
constant of ones and zeros. What is taken must be known while a program is recorded, so an index is
never a value of the program.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from inweave.errors import ShapeError
from inweave.exact.constants import Constant, select, simplest
from inweave.exact.whole import is_whole
from inweave.language.expressions import ConstantExpr, Expr, Product, Sum
from inweave.language.refusals import refuse
from inweave.language.shapes import MATRIX, ONE, ROW, VECTOR, labelled, transposed, upright

FEW = 1 << 10  # entries of a matrix, so that constants for each of its rows are not too large


# -- indices and slices ---------------------------------------------------------------------------
def take(x: Expr, key: Any) -> Expr:
    """`x[key]`, as numpy takes it; `X[i, :]` is the row as it lies in X."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if not keys:
        return x
    if any(k is None for k in keys):
        return _with_axis(x, keys)
    if keys[-1] is ... and keys[1:]:
        keys.pop()  # all that follows
    if any(k is ... for k in keys):
        at = next(i for i, k in enumerate(keys) if k is ...)
        keys[at : at + 1] = [slice(None)] * (2 - x.units[1] - len(keys) + 1)
    if len(keys) > 2:
        raise refuse(f"{x!r} has two axes, got the index {key!r}", ShapeError)
    if sum(_is_list(k) for k in keys) > 1:
        raise refuse(
            f"cannot pair the lists of the index {key!r} of {x!r}; write "
            "inweave.diag(x[rows][:, cols]) for the entries that numpy pairs, x[rows][:, cols] for "
            "all of those rows and columns"
        )
    if len(keys) == 1 and is_whole(keys[0]) and not x.units[1]:
        if x.units == ROW:
            raise refuse(f"{x!r}[{keys[0]}] is ambiguous; write x[0, i] for an entry of a row")
        return upright(take(x, (keys[0], slice(None))))
    out, units = x, list(x.units)
    for axis, k in enumerate(keys):
        units[axis] |= is_whole(k)
        piece = _piece(k, axis, x)
        if not piece.is_identity():
            pair = (ConstantExpr(piece.T), out) if axis == 0 else (out, ConstantExpr(piece))
            out = Product(*pair)
    return labelled(out, (units[0], units[1]))


def _with_axis(x: Expr, keys: list[Any]) -> Expr:
    """`x[:, None]` and `x[None, :]`: a vector as a matrix of one column, or of one row."""
    rest = [k for k in keys if k is not None]
    stands = any(not is_whole(k) for k in keys[: next(i for i, k in enumerate(keys) if k is None)])
    x = upright(x)
    out = upright(take(x, tuple(rest))) if rest else x
    if out.units != VECTOR or len(keys) - len(rest) > 1:
        raise refuse(f"the index {tuple(keys)!r} of {x!r} makes more than two axes", ShapeError)
    return labelled(out if stands else transposed(out), MATRIX)


def _is_list(k: Any) -> bool:
    return isinstance(k, (list, range)) or (hasattr(k, "ndim") and k.ndim > 0)


def _piece(k: Any, axis: int, x: Expr) -> Constant:
    """The constant F for which `A @ F` are the columns that a key takes."""
    size = x.shape[axis]
    if is_whole(k):
        if not -size <= k < size:
            raise refuse(f"index {int(k)} is outside axis {axis} of {x!r}", ShapeError)
        return select(size, int(k) % size, int(k) % size + 1)
    if isinstance(k, slice):
        return _slice_piece(k, size, x)
    if _is_list(k):
        return _picked(size, _positions(k, axis, x))
    raise refuse(f"index {k!r} of {x!r} is not an int or a slice known at compile time")


def _slice_piece(k: slice, size: int, x: Expr) -> Constant:
    ends = (k.start, k.stop, k.step)
    for end in ends:
        if end is not None and not is_whole(end):
            shown = ends[: 2 + (k.step is not None)]
            said = ":".join("" if end is None else str(end) for end in shown)
            raise refuse(f"the slice {said} of {x!r} needs ints known at compile time, got {end!r}")
    if k.step == 0:
        raise refuse(f"the slice {k!r} of {x!r} has step 0", ShapeError)
    taken = range(*k.indices(size))
    if not taken:
        raise refuse(f"the slice {k!r} of {x!r} is empty", ShapeError)
    return select(size, taken[0], taken[-1] + 1) if taken.step == 1 else _picked(size, taken)


def _positions(k: Any, axis: int, x: Expr) -> list[int]:
    """The rows or columns that a list of ints, or of truths, names."""
    size, entries = x.shape[axis], k.tolist() if hasattr(k, "tolist") else list(k)
    if entries and all(isinstance(entry, (bool, np.bool_)) for entry in entries):
        if len(entries) != size:
            raise refuse(f"got {len(entries)} truths for axis {axis} of {x!r}", ShapeError)
        entries = [i for i, kept in enumerate(entries) if kept]
    if not entries:
        raise refuse(f"the index {k!r} of {x!r} takes nothing", ShapeError)
    for entry in entries:
        if not is_whole(entry):
            raise refuse(f"index {entry!r} of {x!r} is not an int known at compile time")
        if not -size <= entry < size:
            raise refuse(f"index {int(entry)} is outside axis {axis} of {x!r}", ShapeError)
    return [int(entry) % size for entry in entries]


def _picked(size: int, positions: Any) -> Constant:
    array = np.zeros((size, len(positions)))
    array[list(positions), np.arange(len(positions))] = 1.0
    return simplest(array)


# -- other shapes ---------------------------------------------------------------------------------
def reshaped(x: Expr, sizes: tuple[Any, ...], order: str = "C") -> Expr:
    """The same entries in another shape, counted along rows ("C") or along columns ("F").

    A head per column carries them over, or per row if there are fewer and few entries.
    """
    x = upright(x)
    shape = _new_shape(x, sizes)
    if order not in ("C", "F"):
        raise refuse(f'reshape of {x!r}: order is "C" or "F", got {order!r}')
    if x.units == MATRIX and len(shape) == 2 and x.shape == shape:
        return x
    flat = x if x.units[1] else _flat(transposed(x) if order == "C" else x)
    if len(shape) == 1:
        return labelled(flat, VECTOR)
    return transposed(_columns(flat, *shape[::-1])) if order == "C" else _columns(flat, *shape)


def _new_shape(x: Expr, sizes: tuple[Any, ...]) -> tuple[int, ...]:
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = tuple(sizes[0])
    count, unknown = prod(x.shape), [s for s in sizes if is_whole(s) and s == -1]
    known = prod(int(s) for s in sizes if is_whole(s, 1))
    shape = tuple(count // known if is_whole(s) and s == -1 else s for s in sizes)
    right = len(sizes) in (1, 2) and len(unknown) <= 1 and all(is_whole(s, 1) for s in shape)
    if not right or prod(shape) != count:
        raise refuse(f"cannot reshape {x!r} of {count} entries into {sizes!r}", ShapeError)
    return tuple(map(int, shape))


def _by_rows(rows: int, cols: int) -> bool:
    """Whether a head per row is better: fewer heads, each with a large constant of its own."""
    return rows < cols and rows * cols <= FEW


def _columns(x: Expr, rows: int, cols: int) -> Expr:
    """A vector's entries as the columns of a matrix."""
    if _by_rows(rows, cols):
        lines = [transposed(_product(P.T, x)) for P in _strides(rows, cols)]
        parts = [Product(_unit(rows, i), line) for i, line in enumerate(lines)]
    else:
        columns = [_product(S.T, x) for S in _stretches(rows, cols)]
        parts = [Product(column, transposed(_unit(cols, j))) for j, column in enumerate(columns)]
    return Sum([(ONE, part) for part in parts], MATRIX)


def _flat(x: Expr) -> Expr:
    """A matrix's columns, one below the other."""
    if _by_rows(*x.shape):
        lines = [Product(transposed(x), _unit(x.rows, i)) for i in range(x.rows)]
        parts = [_product(P, line) for P, line in zip(_strides(*x.shape), lines, strict=True)]
    else:
        columns = [Product(x, _unit(x.cols, j)) for j in range(x.cols)]
        parts = [_product(S, c) for S, c in zip(_stretches(*x.shape), columns, strict=True)]
    return Sum([(ONE, part) for part in parts], VECTOR)


def _product(constant: Constant, x: Expr) -> Expr:
    return Product(ConstantExpr(constant), x)


def _unit(size: int, i: int) -> Expr:
    return ConstantExpr(select(size, i, i + 1))


def _stretches(rows: int, cols: int) -> list[Constant]:
    """Where each column stands among all entries, counted along columns."""
    return [select(rows * cols, j * rows, (j + 1) * rows) for j in range(cols)]


def _strides(rows: int, cols: int) -> list[Constant]:
    """Where each row stands among them."""
    return [_picked(rows * cols, range(i, rows * cols, rows)) for i in range(rows)]
