"""Files appear whole or not at all: networks, models, pages and tables that a user asked for.

The lab's checkpoints have a writer of their own, which also waits for the disk.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary name beside `path` to write to; renamed on success, removed on any failure.

    The name keeps the suffix, so that writers which look at it see the kind of file they expect. An
    interrupt is a failure too: it leaves the old file, or none.
    """
    final = Path(path)
    if final.is_dir():
        raise IsADirectoryError(f"{final} is a folder; name a file")
    if not final.parent.is_dir():
        raise FileNotFoundError(f"{final.parent} is not a folder; make it first")
    draft = final.with_name(f".{final.stem}.{secrets.token_hex(4)}{final.suffix}")
    try:
        yield draft
        draft.replace(final)
    finally:
        draft.unlink(missing_ok=True)
