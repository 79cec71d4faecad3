"""What counts as a number in a table, and what is said of a cell that is none.

A number is what a person writes in ASCII digits: Python's own `float` would also take `1_000` and
the digits of other scripts, which no other reader of tables does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inweave.errors import InputError

Numbers = NDArray[np.float64]
MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}
INFINITE = {"inf", "infinity"}
NUMBER = re.compile(r"[ \t]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t]*")


def number(cell: Any) -> float:
    """The finite number of a cell, or ValueError that says what is wrong with it."""
    if isinstance(cell, str) and not NUMBER.fullmatch(cell):
        bare = cell.strip()
        if bare.lower() in MISSING:
            cell = None
        elif bare.lower().lstrip("+-") in INFINITE:
            cell = bare
        else:  # quoted with whatever invisible characters make it none
            cell = cell.strip(" \t")
            raise ValueError(f"{cell!r} is not a number; choose the columns to use with --columns")
    if cell is None:
        raise ValueError("the value is missing; fill it in or leave the row out")
    try:
        value = float(cell)
    except (TypeError, ValueError):
        raise ValueError(
            f"{cell!r} is not a number; choose the columns to use with --columns"
        ) from None
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise ValueError(f"{cell} is not a finite number")
    return value


def column(path: Path, name: str, cells: Iterable[Any]) -> Numbers:
    """The numbers of a column, or a refusal that names the row."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "fiub":
        found = cells.astype(np.float64)
        if np.isfinite(found).all():
            return found
    return np.array([located(path, name, row, cell) for row, cell in enumerate(cells, 1)])


def located(path: Path, name: str, row: int, cell: Any) -> float:
    """The number of a cell; rows count from 1, and the header is not a row."""
    try:
        return number(cell)
    except ValueError as error:
        raise InputError(f"{path}, column {name!r}, row {row}: {error}") from None
