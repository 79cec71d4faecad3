"""Checkpoints that a killed process cannot damage.

A checkpoint is a safetensors file with all tensors and `checkpoint.json`, which names that file and
its SHA-256. The tensors are written first, under a new name; replacing the JSON is the one atomic
act that makes the new checkpoint the current one. Whatever instant a process dies at, the JSON
names a complete file.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from torch import Tensor

from inweave.errors import FileFormatError
from inweave.lab import strict_json

CURRENT = "checkpoint.json"


def write_atomically(path: Path, data: bytes) -> None:
    """All of the data under that name, or nothing new."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def write_json(path: Path, content: Any) -> None:
    """Numbers that are not finite become texts: see `strict_json`."""
    write_atomically(path, (strict_json.dumps(content, indent=1) + "\n").encode())


def save(folder: Path, step: int, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Make this the current checkpoint of a folder; the one before it is removed."""
    from safetensors.torch import save as to_bytes

    data = to_bytes({name: t.detach().cpu().contiguous() for name, t in tensors.items()})
    name = f"step-{step:08d}.safetensors"
    write_atomically(folder / name, data)
    content = {"step": step, "file": name, "sha256": hashlib.sha256(data).hexdigest(), **state}
    write_json(folder / CURRENT, content)
    for old in folder.glob("step-*.safetensors"):
        if old.name != name:
            old.unlink(missing_ok=True)


def exists(folder: Path) -> bool:
    return (folder / CURRENT).exists()


def load(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the state of the current checkpoint."""
    from safetensors.torch import load as from_bytes

    try:
        state = json.loads((folder / CURRENT).read_text(encoding="utf-8"))
        name, expected = state["file"], state["sha256"]
        data = (folder / name).read_bytes()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileFormatError(f"{folder} holds no readable checkpoint: {error}") from None
    if hashlib.sha256(data).hexdigest() != expected:
        raise FileFormatError(f"{folder / name} is damaged: its SHA-256 does not match")
    return from_bytes(data), state
