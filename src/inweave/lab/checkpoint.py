"""Checkpoints that a killed process cannot damage.

A checkpoint is a safetensors file with all tensors and `checkpoint.json`, which names that file and
its SHA-256. The tensors are written first, under a new name; replacing the JSON is the one atomic
act that makes the new checkpoint the current one. Whatever instant a process dies at, the JSON
names a complete file.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, TypedDict

from inweave.errors import FileFormatError, needs_extra
from inweave.exact.schema import Must, loads, named, read
from inweave.files.atomic import write
from inweave.lab.checks import is_file_name

with needs_extra("the lab", "lab"):
    from torch import Tensor

CURRENT = "checkpoint.json"
FileName = Annotated[str, Must("the name of a file beside it", is_file_name)]


class Current(TypedDict):
    """What `checkpoint.json` must say; the state of the run stands beside it."""

    step: int
    file: FileName
    sha256: str


def write_json(path: Path, content: Any) -> None:
    """A JSON file for people and programs; numbers that are not finite become texts."""
    write(path, json.dumps(named(content), indent=1, allow_nan=False) + "\n")


def save(folder: Path, step: int, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Make this the current checkpoint of a folder; the one before it is removed."""
    from safetensors.torch import save as to_bytes

    data = to_bytes({name: t.detach().cpu().contiguous() for name, t in tensors.items()})
    name = f"step-{step:08d}.safetensors"
    write(folder / name, data)
    current = Current(step=step, file=name, sha256=hashlib.sha256(data).hexdigest())
    write_json(folder / CURRENT, {**current, **state})
    for old in folder.glob("step-*.safetensors"):
        if old.name != name:
            old.unlink(missing_ok=True)


def exists(folder: Path) -> bool:
    return (folder / CURRENT).exists()


def load(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the state of the current checkpoint."""
    from safetensors.torch import load as from_bytes

    try:
        current = read(Current, loads((folder / CURRENT).read_bytes()))
        data = (folder / current["file"]).read_bytes()
    except OSError as error:
        said = f"{error.filename}: {error.strerror}"
        raise FileFormatError(f"{folder} holds no readable checkpoint: {said}") from None
    except FileFormatError as error:
        raise FileFormatError(f"{folder} holds no readable checkpoint: {error}") from None
    if hashlib.sha256(data).hexdigest() != current["sha256"]:
        raise FileFormatError(f"{folder / current['file']} is damaged: its SHA-256 does not match")
    return from_bytes(data), dict(current)
