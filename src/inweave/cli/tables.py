"""Tables of numbers from files, refusing what is not one: the message names file, column and row.

CSV and .npz need nothing beyond numpy; Parquet goes through pyarrow (extra `table`). Rows count
from 1 and the header is not a row. Only columns that are used need to hold numbers.
"""

from __future__ import annotations

import csv
import math
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inweave.errors import InputError, needs_extra
from inweave.files.atomic import atomically, check_place

Numbers = NDArray[np.float64]
MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}
SUFFIXES = (".csv", ".tsv", ".npz", ".parquet")


@dataclass(frozen=True)
class Table:
    """Named columns of equal length, as they stand in a file: converted when they are used."""

    path: Path
    columns: Mapping[str, Sequence[Any]]

    @property
    def rows(self) -> int:
        return len(next(iter(self.columns.values())))

    def expect(self, names: Sequence[str]) -> None:
        """Refuse names that are no columns."""
        missing = [name for name in names if name not in self.columns]
        if missing:
            raise InputError(
                f"{self.path} has no column {', '.join(map(repr, missing))}; "
                f"its columns are {', '.join(self.columns)}"
            )

    def numbers(self, names: Sequence[str]) -> Numbers:
        """These columns as a rows x columns matrix."""
        self.expect(names)
        return np.column_stack([
            [
                _number(cell, f"{self.path}, column {name!r}, row {i}")
                for i, cell in enumerate(self.columns[name], 1)
            ]
            for name in names
        ])  # fmt: skip


def _number(cell: Any, at: str) -> float:
    if cell is None or (isinstance(cell, str) and cell.strip().lower() in MISSING):
        raise InputError(f"{at}: the value is missing; fill it in or leave the row out")
    try:
        value = float(cell)
    except (TypeError, ValueError):
        raise InputError(
            f"{at}: {cell!r} is not a number; choose the columns to use with --columns"
        ) from None
    if not math.isfinite(value):
        raise InputError(f"{at}: {cell} is not a finite number")
    return value


def read(path: Path) -> Table:
    """The table of a file, by its suffix."""
    path.open("rb").close()  # whoever cannot read it says so, whatever the suffix
    match path.suffix:
        case ".csv" | ".tsv":
            names, columns = _read_csv(path)
        case ".npz":
            names, columns = _read_npz(path)
        case ".parquet":
            names, columns = _read_parquet(path)
        case _:
            raise InputError(f"{path}: expected one of {', '.join(SUFFIXES)}")
    for name in names:
        if not name or names.count(name) > 1:
            raise InputError(f"{path}: column name {name!r} is {'used twice' if name else 'empty'}")
    if not columns or not len(columns[0]):
        raise InputError(f"{path} has a header but no rows")
    return Table(path, dict(zip(names, columns, strict=True)))


Columns = tuple[list[str], list[Sequence[Any]]]


def _read_csv(path: Path) -> Columns:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start})") from None
    first = text.lstrip("\n").partition("\n")[0]
    try:
        lines = csv.reader(StringIO(text), delimiter=max(",;\t", key=first.count), strict=True)
        header, *rows = [line for line in lines if line] or [[]]
    except csv.Error as error:
        raise InputError(f"{path}: {error}") from None
    if not header:
        raise InputError(f"{path} is empty")
    if all(map(_is_number, header)):
        raise InputError(f"{path}: the first line must name the columns, got {first!r}")
    for i, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise InputError(
                f"{path}, row {i}: {len(row)} values, but the header names {len(header)} columns"
            )
    return [name.strip() for name in header], list(zip(*rows, strict=True))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_npz(path: Path) -> Columns:
    found = arrays(path)
    shapes = [array.shape for array in found.values()]
    if not found or len(shapes[0]) != 1 or len(set(shapes)) > 1:
        said = ", ".join(f"{name} {array.shape}" for name, array in found.items()) or "none"
        raise InputError(f"{path}: a table needs one-dimensional arrays of one length; has {said}")
    return list(found), [array.tolist() for array in found.values()]


def arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file; objects, which could run code, are refused."""
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path} is not an .npz file; np.savez({path.name!r}, X=X) writes one")
    with np.load(path, allow_pickle=False) as stored:
        return {name: _array(path, stored, name) for name in stored.files}


def _array(path: Path, stored: Any, name: str) -> NDArray[Any]:
    try:
        found = stored[name]
    except (ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error):
        found = None
    if not isinstance(found, np.ndarray):
        raise InputError(f"{path}: {name!r} is no plain array: damaged, or made of objects")
    return found


def _read_parquet(path: Path) -> Columns:
    with needs_extra(f"{path}: Parquet", "table"):
        from pyarrow import ArrowException, parquet

    try:
        with parquet.ParquetFile(path) as stored:
            found = stored.read()
    except (ArrowException, OSError) as error:
        raise InputError(f"{path} is not a Parquet file that can be read: {error}") from None
    return found.column_names, [column.to_pylist() for column in found.columns]


def write(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """A table to a file, whole or not at all; numbers keep every digit."""
    check_writable(path)
    made: dict[str, Any]
    with atomically(path) as draft:
        if path.suffix == ".npz":
            with draft.open("wb") as binary:
                made = {name: np.asarray(c) for name, c in columns.items()}
                np.savez(binary, **made)
        elif path.suffix == ".parquet":
            with needs_extra(f"{path}: Parquet", "table"):
                import pyarrow
                from pyarrow import parquet

            with draft.open("wb") as binary:
                made = {name: list(c) for name, c in columns.items()}
                parquet.write_table(pyarrow.table(made), binary)
        else:
            with draft.open("w", encoding="utf-8", newline="") as stream:
                csv_rows(stream, columns, "\t" if path.suffix == ".tsv" else ",")


def check_writable(path: Path) -> None:
    """Refuse a file name before any work is done for it."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"{path}: can write {', '.join(SUFFIXES)}")
    check_place(path)


def csv_rows(stream: Any, columns: Mapping[str, Sequence[Any]], comma: str = ",") -> None:
    writer = csv.writer(stream, delimiter=comma, lineterminator="\n")
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow([repr(float(x)) if isinstance(x, (float, np.floating)) else x for x in row])
