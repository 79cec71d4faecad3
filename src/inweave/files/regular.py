"""Files that are read: regular ones only, and no more of one than it says it holds.

A pipe would wait for ever for what nobody writes, and a device gives without end; `opened` refuses
both, and waits for neither. `read` takes what a file's size promises, so that memory is bounded
before it is asked for.
"""

from __future__ import annotations

import os
import stat
from typing import BinaryIO

from inweave.errors import FileFormatError

LARGEST = 4 * 2**30


def opened(path: str | os.PathLike[str]) -> BinaryIO:
    """A regular file, open for reading."""
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 - the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise FileFormatError(f"{path} is a device or a pipe; copy what it holds into a file")
    return file


def read(path: str | os.PathLike[str], limit: int = LARGEST, advice: str = "") -> bytes:
    """The bytes of a regular file; one of more than `limit` is refused unread."""
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise FileFormatError(f"{path}: {size:,} bytes, the limit is {limit:,}{advice}")
        data = file.read(size + 1)
    if len(data) > size:
        raise FileFormatError(f"{path} holds more than its {size:,} bytes: it grows while read")
    return data


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
