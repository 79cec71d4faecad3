"""Compiled kernels on disk, in the user's cache folder.

An entry is written whole or not at all, and begins with a digest of what follows: whatever else
stands there is no entry. Nothing depends on the cache, so a folder that cannot be written is none.
What is kept was made by this very `generator`: entries of another one have other keys.
"""

from __future__ import annotations

import hashlib
import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

from inweave import atomic

ROOMS = ("exact", "model", "run")  # where what a kernel says is decided
FOLDER = "INWEAVE_CACHE"  # the environment variable that names another folder
DIGEST = 32


def folder() -> Path:
    """Where compiled kernels are kept."""
    asked = os.environ.get(FOLDER)
    if asked:
        return Path(asked)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "inweave" / "kernels"


def read(key: str) -> bytes | None:
    """What was kept under a key; None if there is nothing, or not what was written."""
    try:
        found = (folder() / key).read_bytes()
    except (OSError, RuntimeError):  # a home that cannot be found is a RuntimeError
        return None
    content = found[DIGEST:]
    return content if hashlib.sha256(content).digest() == found[:DIGEST] else None


def write(key: str, content: bytes) -> None:
    """Keep something under a key."""
    with suppress(OSError, RuntimeError):
        place = folder()
        place.mkdir(parents=True, exist_ok=True)
        atomic.write(place / key, hashlib.sha256(content).digest() + content)


@cache
def generator() -> str:
    """A digest of all that makes a kernel of a network, so that no change of it goes unseen."""
    package, digest = Path(__file__).parents[2], hashlib.sha256()
    for room in ROOMS:
        for file in sorted((package / room).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()
