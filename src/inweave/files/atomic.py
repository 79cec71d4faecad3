"""Files appear whole or not at all: everything inweave writes goes through here.

The one exception is the log of a training run, which grows line by line.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def check_place(path: str | os.PathLike[str]) -> None:
    """Refuse a place where no file can be, before any work is done for it."""
    final = Path(path)
    if final.is_dir():
        raise IsADirectoryError(f"{final} is a folder; name a file")
    if not final.parent.is_dir():
        raise FileNotFoundError(f"{final.parent} is not a folder; make it first")


@contextmanager
def atomically(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary name beside `path` to write to; renamed on success, removed on any failure.

    The name keeps the suffix, so that writers which look at it see the kind of file they expect. An
    interrupt is a failure too: it leaves the old file, or none. What is renamed is on the disk
    already, so that not even a power failure leaves half a file.
    """
    final = Path(path)
    check_place(final)
    draft = final.with_name(f".{final.stem}.{secrets.token_hex(4)}{final.suffix}")
    try:
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        draft.replace(final)
    except OSError as error:
        if str(error.filename) == str(draft):  # a name that nobody has ever heard of
            error.filename = str(final)
        raise
    finally:
        draft.unlink(missing_ok=True)


def write(path: str | os.PathLike[str], data: str | bytes) -> None:
    """A file of these bytes, or of this text in UTF-8."""
    with atomically(path) as draft:
        draft.write_bytes(data.encode() if isinstance(data, str) else data)
