"""Files appear whole or not at all: everything inweave writes goes through here.

What is written goes to a draft beside the file, is brought to the disk, and is then given the
file's name: whatever instant a process or the power dies at, the name stands for the old content or
for the new. A link is followed, and a file that is replaced keeps its permissions.

A draft that a killed process leaves behind is removed by the next write to the same file. It is
known to be left behind by its lock, which ends with the process that holds it.

The one exception is the log of a training run, which grows line by line.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

if sys.platform != "win32":
    import fcntl

from inweave.errors import InputError

FOLDERS_END = ("/", "/.", os.sep, f"{os.sep}.")


def check_place(path: str | os.PathLike[str]) -> Path:
    """Where a file of this name is written; a place where none can be is refused before any work.

    Where the name is a link, that is where it leads.
    """
    final = Path(path)
    if final.is_symlink():
        final = Path(os.path.realpath(final))
    if final.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file")
    if os.fspath(path).endswith(FOLDERS_END):  # which `Path` drops, but a reader does not
        raise InputError(f"{path} names a folder by its end; name a file, without a slash there")
    if not final.parent.is_dir():
        raise FileNotFoundError(f"{final.parent} is not a folder; make it first")
    if os.path.lexists(final) and not final.is_file():
        raise InputError(f"{path} is a device, a pipe or a link to nowhere; name a file")
    return final


def check_apart(written: str | os.PathLike[str], read: Iterable[str | os.PathLike[str]]) -> None:
    """Refuse to write over a file that is being read, whatever its names and links."""
    for other in read:
        if _same(written, other):
            raise InputError(f"{other} is read here; write to another file than {written}")


def _same(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    try:
        return Path(one).samefile(other)
    except (OSError, ValueError):  # one of them is not there, or can be no file's name
        return False


@contextmanager
def atomically(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write to, which becomes the one at `path` if that succeeds, and else is gone.

    An interrupt is a failure too: it leaves the old file, or none.
    """
    final = check_place(path)
    draft = None
    try:
        _remove_abandoned(final)
        draft, file = _new_draft(final)
        with file:
            yield file
            file.flush()
            if final.exists():
                _take_after(file, final.stat())
            os.fsync(file.fileno())
            if sys.platform == "win32":
                file.close()  # what is open cannot be renamed there
            draft.replace(final)
        _bring_to_disk(final.parent)
    except OSError as error:
        if _prefix(final) in str(error.filename):  # a name that nobody has ever heard of
            error.filename = str(path)
        raise
    finally:
        if draft is not None:
            draft.unlink(missing_ok=True)


def write(path: str | os.PathLike[str], data: str | bytes) -> None:
    """A file of these bytes, or of this text in UTF-8."""
    with atomically(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)


# -- drafts ----------------------------------------------------------------------------------------
def _prefix(final: Path) -> str:
    """How the names of a file's drafts begin: short, however long its own name is."""
    return f".{hashlib.sha256(os.fsencode(final.name)).hexdigest()[:16]}.draft-"


def _new_draft(final: Path) -> tuple[Path, BinaryIO]:
    """A new file beside another, open and locked; nobody may read it who may not read that one."""
    mode = stat.S_IMODE(final.stat().st_mode) if final.exists() else 0o666
    while True:
        draft = final.with_name(_prefix(final) + secrets.token_hex(4))
        file = open(draft, "xb", opener=lambda path, flags: os.open(path, flags, mode))  # noqa: SIM115
        if _locked(file) and os.fstat(file.fileno()).st_nlink:
            return draft, file
        file.close()  # another process took it for abandoned before it was locked


def _locked(file: BinaryIO, otherwise: bool = True) -> bool:
    """Whether the lock of a file is ours now; where there are no locks, `otherwise`."""
    if sys.platform == "win32":
        return True  # there a file that is open cannot be removed
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return otherwise
    return True


def _remove_abandoned(final: Path) -> None:
    """Remove the drafts of this file whose process is gone."""
    with suppress(OSError):
        for draft in final.parent.iterdir():
            if draft.name.startswith(_prefix(final)):
                with suppress(OSError), draft.open("rb") as file:
                    if _locked(file, otherwise=False):
                        draft.unlink()


def _take_after(file: BinaryIO, old: os.stat_result) -> None:
    """Give a draft the owner, where that is allowed, and the permissions of what it replaces."""
    if sys.platform != "win32":
        with suppress(PermissionError):
            os.fchown(file.fileno(), old.st_uid, old.st_gid)
        os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))


def _bring_to_disk(folder: Path) -> None:
    """The new name, too, survives a power failure, where folders can be asked for that."""
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
