"""Tables of text, .csv and .tsv: read quickly where all is well, carefully where it is not.

pyarrow, where it is installed, reads a file whose cells are plain; whatever it does not take is
read again cell by cell, which either finds the first thing that is wrong, by row and column, or
finds that all is well. So the careful reader alone says what a table is, and the other one only
makes it fast.
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from pathlib import Path

import numpy as np

from inweave.cli.numbers import Numbers, located, number
from inweave.errors import InputError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Delimited:
    """The text of a table; its rows begin at byte `start`."""

    path: Path
    data: bytes
    names: tuple[str, ...]
    delimiter: str
    start: int

    @classmethod
    def of(cls, path: Path, data: bytes) -> Delimited:
        """The table of a file's bytes, its first line understood."""
        try:
            if not data.isascii():
                data.decode()
        except UnicodeDecodeError as error:
            raise InputError(f"{path} is not UTF-8 text (byte {error.start})") from None
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = BytesIO(data)
        lines.seek(len(BYTE_ORDER_MARK) if data.startswith(BYTE_ORDER_MARK) else 0)
        first = next((line for line in lines if line != b"\n"), b"").decode()
        delimiter = max(",;\t", key=first.count)
        rest = (line.decode() for line in lines)
        header = next(_records(path, chain([first], rest), delimiter), None)
        if not header:
            raise InputError(f"{path} is empty")
        if all(map(_is_number, header)):
            said = first.rstrip("\n")
            raise InputError(f"{path}: the first line must name the columns, got {said!r}")
        return cls(path, data, tuple(name.strip() for name in header), delimiter, lines.tell())

    def numbers(self, names: Sequence[str]) -> Numbers:
        """These columns as a rows x columns matrix."""
        found = self._quickly(names)
        return self._carefully(names) if found is None else found

    def _quickly(self, names: Sequence[str]) -> Numbers | None:
        """The same numbers by pyarrow; None where it cannot be had, or takes something amiss."""
        if self.data.find(b'"', self.start) >= 0:  # what a stray quote means, readers disagree on
            return None
        try:
            import pyarrow
            from pyarrow import csv as arrow
        except ImportError:
            return None
        try:
            read = arrow.read_csv(
                pyarrow.BufferReader(pyarrow.py_buffer(self.data).slice(self.start)),
                arrow.ReadOptions(column_names=self.names),
                arrow.ParseOptions(delimiter=self.delimiter, quote_char=False),
                arrow.ConvertOptions(
                    include_columns=list(dict.fromkeys(names)),
                    column_types=dict.fromkeys(names, pyarrow.float64()),
                    null_values=[],
                ),
            )
        except pyarrow.ArrowException:
            return None
        found = np.column_stack([read[name].to_numpy() for name in names])
        return found if len(found) and np.isfinite(found).all() else None

    def _carefully(self, names: Sequence[str]) -> Numbers:
        """Cell by cell, with a message that says what is wrong where."""
        lines = BytesIO(self.data)
        lines.seek(self.start)
        used = [(self.names.index(name), name) for name in names]
        found, width, i = array("d"), len(self.names), 0
        rows = _records(self.path, (line.decode() for line in lines), self.delimiter)
        for i, row in enumerate(rows, 1):
            if len(row) != width:
                raise InputError(
                    f"{self.path}, row {i}: {len(row)} values, but the header names {width} columns"
                )
            found.extend([located(self.path, name, i, row[j]) for j, name in used])
        if not i:
            raise InputError(f"{self.path} has a header but no rows")
        return np.frombuffer(found).reshape(i, len(used))


def _records(path: Path, lines: Iterator[str], delimiter: str) -> Iterator[list[str]]:
    try:
        yield from filter(None, csv.reader(lines, delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise InputError(f"{path}: {error}") from None


def _is_number(cell: str) -> bool:
    try:
        number(cell)
    except ValueError:
        return False
    return True
