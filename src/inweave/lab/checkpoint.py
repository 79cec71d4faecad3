"""Checkpoints that a killed process cannot damage.

A checkpoint is a safetensors file with all tensors and `checkpoint.json`, which names that file and
its SHA-256, and has a checksum of its own. The tensors are written first, under a new name;
replacing the JSON is the one atomic act that makes the new checkpoint the current one. Whatever
instant a process dies at, the JSON names a complete file.

A checkpoint is read as a network's file is: whatever is not as it was written is refused by name,
before anything is made of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypedDict

from inweave.atomic import write
from inweave.errors import FileFormatError
from inweave.exact.schema import Count, Must, dumps, loads, named, read
from inweave.files import regular
from inweave.lab.checks import is_file_name
from inweave.lab.tensors import Tensor

CURRENT = "checkpoint.json"
CHECKSUM = "checksum"
FileName = Annotated[str, Must("the name of a file beside it", is_file_name)]
Positive = Annotated[float, Must("a number above 0", lambda x: x > 0)]


class Scheduled(TypedDict):
    """The state of a schedule: the best loss so far, logged losses since, the step size's share."""

    best: float | None
    since: Count
    scale: Positive


class State(TypedDict):
    """The state of a run, but for its tensors."""

    config: dict[str, Any]
    schedule: Scheduled


class Current(State):
    """What `checkpoint.json` says."""

    step: Count
    file: FileName
    sha256: str


def write_json(path: Path, content: Any) -> None:
    """A JSON file for people and programs; numbers that are not finite become texts."""
    write(path, json.dumps(named(content), indent=1, allow_nan=False) + "\n")


def save(folder: Path, step: int, tensors: dict[str, Tensor], state: State) -> None:
    """Make this the current checkpoint of a folder; the one before it is removed."""
    from safetensors.torch import save as to_bytes

    data = to_bytes({name: t.detach().cpu().contiguous() for name, t in tensors.items()})
    name = _file_name(step)
    write(folder / name, data)
    said = Current(step=step, file=name, sha256=hashlib.sha256(data).hexdigest(), **state)
    write_json(folder / CURRENT, said | {CHECKSUM: checksum(said)})
    for old in folder.glob("step-*.safetensors"):
        if old.name != name:
            old.unlink(missing_ok=True)


def exists(folder: Path) -> bool:
    return (folder / CURRENT).exists()


def current(folder: Path) -> Current:
    """What the current checkpoint of a folder says."""
    path = folder / CURRENT
    try:
        described = loads(regular.read(path))
        found = read(Current, described)
    except (OSError, FileFormatError) as error:
        raise _unreadable(folder, error) from None
    if described.get(CHECKSUM, checksum(described)) != checksum(described):  # once there was none
        raise FileFormatError(f"{path} is damaged: it does not have the checksum that it states")
    if found["file"] != _file_name(found["step"]):
        raise FileFormatError(
            f"{path} is damaged: it is of step {found['step']}, its tensors are {found['file']}"
        )
    return found


def checksum(said: Mapping[str, Any]) -> str:
    """The SHA-256 of what a checkpoint says."""
    rest = {name: value for name, value in said.items() if name != CHECKSUM}
    return hashlib.sha256(dumps(named(rest)).encode()).hexdigest()


def _file_name(step: int) -> str:
    return f"step-{step:08d}.safetensors"


def load(folder: Path) -> tuple[dict[str, Tensor], Current]:
    """The tensors and the state of the current checkpoint."""
    from safetensors import SafetensorError
    from safetensors.torch import load as from_bytes

    found = current(folder)
    try:
        data = regular.read(folder / found["file"])
    except (OSError, FileFormatError) as error:
        raise _unreadable(folder, error) from None
    if hashlib.sha256(data).hexdigest() != found["sha256"]:
        raise FileFormatError(f"{folder / found['file']} is damaged: its SHA-256 does not match")
    try:
        return from_bytes(data), found
    except SafetensorError as error:
        raise _unreadable(folder, error) from None


def expect(folder: Path, tensors: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> None:
    """Refuse tensors that are not those of a run with these, by name, shape and dtype."""
    for name, wanted in like.items():
        if name not in tensors:
            raise FileFormatError(f"the checkpoint of {folder} has no tensor {name!r}")
        found = tensors[name]
        if (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
            raise FileFormatError(
                f"the checkpoint of {folder}: tensor {name!r} is {tuple(found.shape)} of "
                f"{found.dtype}, its settings ask for {tuple(wanted.shape)} of {wanted.dtype}"
            )


def _unreadable(folder: Path, error: Exception) -> FileFormatError:
    said = str(error)
    if isinstance(error, OSError):
        said = f"{error.filename}: {error.strerror}"
    return FileFormatError(f"{folder} holds no readable checkpoint: {said}")
