"""Tables of numbers from files, refusing what is not one: the message names file, column and row.

CSV and .npz need nothing beyond numpy; Parquet goes through pyarrow (extra `table`). Rows count
from 1 and the header is not a row. Only columns that are used need to hold numbers.
"""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inweave.errors import InputError, needs_extra
from inweave.files.atomic import whole

Numbers = NDArray[np.float64]
MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}
READERS = (".csv", ".tsv", ".npz", ".parquet")


@dataclass(frozen=True)
class Table:
    """Named columns of equal length, as they stand in a file: converted when they are used."""

    path: str
    columns: dict[str, Sequence[Any]]
    rows: int

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
        made = np.empty((self.rows, len(names)))
        for j, name in enumerate(names):
            made[:, j] = self._column(name)
        return made

    def _column(self, name: str) -> Numbers:
        out = np.empty(self.rows)
        for i, cell in enumerate(self.columns[name]):
            out[i] = self._number(cell, name, i + 1)
        return out

    def _number(self, cell: Any, name: str, row: int) -> float:
        at = f"{self.path}, column {name!r}, row {row}"
        if cell is None or (isinstance(cell, str) and cell.strip().lower() in MISSING):
            raise InputError(f"{at}: the value is missing; fill it in or leave the row out")
        try:
            value = float(cell)
        except (TypeError, ValueError):
            raise InputError(
                f"{at}: {cell!r} is not a number; choose the columns to use with --columns"
            ) from None
        if not np.isfinite(value):
            raise InputError(f"{at}: {cell} is not a finite number")
        return value


def read(path: Path) -> Table:
    """The table of a file, by its suffix."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if path.suffix == ".npz":
        return _columns(path, arrays(path))
    if path.suffix == ".parquet":
        return _read_parquet(path)
    if path.suffix in (".csv", ".tsv"):
        return _read_csv(path)
    raise InputError(f"{path}: expected one of {', '.join(READERS)}")


def arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file; objects, which could run code, are refused."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (ValueError, zipfile.BadZipFile, EOFError) as error:
        raise InputError(f"{path} is not an .npz file of plain arrays: {error}") from None


def _columns(path: Path, found: Mapping[str, NDArray[Any]]) -> Table:
    lengths = {name: array.shape for name, array in found.items()}
    if not found or any(len(s) != 1 for s in lengths.values()) or len(set(lengths.values())) > 1:
        said = ", ".join(f"{name} {shape}" for name, shape in lengths.items()) or "none"
        raise InputError(f"{path}: a table needs one-dimensional arrays of one length; has {said}")
    return Table(str(path), {name: a.tolist() for name, a in found.items()},
                 next(iter(lengths.values()))[0])  # fmt: skip


def _read_csv(path: Path) -> Table:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start})") from None
    lines = text.splitlines()
    if not lines:
        raise InputError(f"{path} is empty")
    comma = max(",;\t", key=lines[0].count)
    try:
        header, *rows = csv.reader(lines, delimiter=comma, strict=True)
    except csv.Error as error:
        raise InputError(f"{path}: {error}") from None
    names = [name.strip() for name in header]
    if all(_is_number(name) for name in names):
        raise InputError(f"{path}: the first line must name the columns, got {lines[0]!r}")
    for name in names:
        if not name or names.count(name) > 1:
            raise InputError(f"{path}: column name {name!r} is {'used twice' if name else 'empty'}")
    rows = [row for row in rows if row]
    for i, row in enumerate(rows):
        if len(row) != len(names):
            raise InputError(
                f"{path}, row {i + 1}: {len(row)} values, but the header names {len(names)} columns"
            )
    if not rows:
        raise InputError(f"{path} has a header but no rows")
    return Table(str(path), dict(zip(names, zip(*rows, strict=True), strict=True)), len(rows))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_parquet(path: Path) -> Table:
    parquet = _pyarrow(path)
    from pyarrow import ArrowException

    try:
        found = parquet.read_table(path)
    except (ArrowException, OSError) as error:
        raise InputError(f"{path} is not a Parquet file that can be read: {error}") from None
    if found.num_rows == 0:
        raise InputError(f"{path} has no rows")
    names = found.column_names
    return Table(str(path), {n: found.column(n).to_pylist() for n in names}, found.num_rows)


def _pyarrow(path: Path) -> Any:
    with needs_extra(f"{path}: Parquet", "table"):
        import pyarrow.parquet as parquet
    return parquet


def write(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """A table to a file, whole or not at all; numbers keep every digit."""
    check_writable(path)
    with whole(path) as draft:
        if path.suffix == ".npz":
            with draft.open("wb") as binary:
                made: dict[str, Any] = {name: np.asarray(c) for name, c in columns.items()}
                np.savez(binary, **made)
        elif path.suffix == ".parquet":
            parquet = _pyarrow(path)
            import pyarrow

            parquet.write_table(pyarrow.table({n: list(c) for n, c in columns.items()}), draft)
        else:
            with draft.open("w", encoding="utf-8", newline="") as stream:
                csv_rows(stream, columns, "\t" if path.suffix == ".tsv" else ",")


def check_writable(path: Path) -> None:
    """Refuse a file name before any work is done for it."""
    if path.suffix not in READERS:
        raise InputError(f"{path}: can write {', '.join(READERS)}")


def csv_rows(stream: Any, columns: Mapping[str, Sequence[Any]], comma: str = ",") -> None:
    writer = csv.writer(stream, delimiter=comma, lineterminator="\n")
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow([repr(float(x)) if isinstance(x, (float, np.floating)) else x for x in row])
