"""Tables of numbers from files, refusing what is not one: the message names file, column and row.

CSV and .npz need nothing beyond numpy; Parquet goes through pyarrow (extra `table`). Rows count
from 1 and the header is not a row. Only columns that are used need to hold numbers.
"""

from __future__ import annotations

import csv
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inweave.atomic import atomically, check_place
from inweave.cli.delimited import Delimited
from inweave.cli.numbers import Numbers, column
from inweave.errors import InputError, needs_extra
from inweave.files import regular

SUFFIXES = (".csv", ".tsv", ".npz", ".parquet")


@dataclass(frozen=True)
class Table:
    """Named columns of equal length, as they stand in a file: converted when they are used."""

    path: Path
    columns: Sequence[str]
    read: Callable[[Sequence[str]], Numbers]

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
        return self.read(names)


def read(path: Path) -> Table:
    """The table of a file, by its suffix."""
    regular.opened(path).close()  # whoever cannot read it says so, whatever the suffix
    match path.suffix:
        case ".csv" | ".tsv":
            text = Delimited.of(path, regular.read(path))
            table = Table(path, text.names, text.numbers)
        case ".npz":
            table = _of_columns(path, _read_npz(path))
        case ".parquet":
            table = _of_columns(path, _read_parquet(path))
        case _:
            raise InputError(f"{path}: expected one of {', '.join(SUFFIXES)}")
    names = list(table.columns)
    for name in names:
        if not name or names.count(name) > 1:
            raise InputError(f"{path}: column name {name!r} is {'used twice' if name else 'empty'}")
    return table


Columns = Sequence[tuple[str, Iterable[Any]]]


def _of_columns(path: Path, columns: Columns) -> Table:
    """The table of columns that are at hand."""
    cells = dict(columns)

    def numbers(names: Sequence[str]) -> Numbers:
        found = np.column_stack([column(path, name, cells[name]) for name in names])
        if not len(found):
            raise InputError(f"{path} has columns but no rows")
        return found

    return Table(path, [name for name, _ in columns], numbers)


def _read_npz(path: Path) -> Columns:
    found = arrays(path)
    shapes = [array.shape for array in found.values()]
    if not found or len(shapes[0]) != 1 or len(set(shapes)) > 1:
        said = ", ".join(f"{name} {array.shape}" for name, array in found.items()) or "none"
        raise InputError(f"{path}: a table needs one-dimensional arrays of one length; has {said}")
    return list(found.items())


def arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file; objects, which could run code, are refused."""
    with regular.opened(path) as file:
        if not zipfile.is_zipfile(file):
            raise InputError(f"{path} is not an .npz file; np.savez({path.name!r}, X=X) writes one")
        file.seek(0)
        with np.load(file, allow_pickle=False) as stored:
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
        with regular.opened(path) as file, parquet.ParquetFile(file) as stored:
            found = stored.read()
    except (ArrowException, OSError) as error:
        raise InputError(f"{path} is not a Parquet file that can be read: {error}") from None
    return list(zip(found.column_names, map(_cells, found.columns), strict=True))


def _cells(column: Any) -> Iterable[Any]:
    """The cells of a Parquet column; as an array where all are numbers of its own kinds."""
    from pyarrow import types

    of_numbers = types.is_floating(column.type) or types.is_integer(column.type)
    plain = of_numbers and not column.null_count
    cells: Iterable[Any] = column.to_numpy() if plain else column.to_pylist()
    return cells


def write(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """A table to a file, whole or not at all; numbers keep every digit."""
    check_writable(path)
    made: dict[str, Any]
    with atomically(path) as file:
        if path.suffix == ".npz":
            made = {name: np.asarray(c) for name, c in columns.items()}
            np.savez(file, **made)
        elif path.suffix == ".parquet":
            with needs_extra(f"{path}: Parquet", "table"):
                import pyarrow
                from pyarrow import parquet

            made = {name: list(c) for name, c in columns.items()}
            parquet.write_table(pyarrow.table(made), file)
        else:
            text = TextIOWrapper(file, encoding="utf-8", newline="")
            csv_rows(text, columns, "\t" if path.suffix == ".tsv" else ",")
            text.detach()  # which writes what it still holds


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
