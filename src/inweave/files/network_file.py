"""`.inweave` files: a network as data that any machine can read and none has to trust.

A file is one safetensors file. Its metadata holds a single JSON text: the format's version, the
network as `Network.describe` gives it, where it came from (text to read, never to run), its
certificate, and a checksum of all that. The description names every array by its content hash, and
the arrays stand under those names: float64 as they are, exact rationals as text. So nothing in a
file is ever executed, equal networks make equal files, and a damaged one cannot be mistaken for a
good one.

`load` trusts nothing. What it allocates is bounded by the size of the file itself, `files_check`
looks at every field before anything is built, and the fingerprint is computed again from the
finished network. A certificate is a record of a check that was made;
`inweave.verify(program, network)` makes it again.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from inweave.compiler.origin import Origin
from inweave.errors import FileFormatError, InputError, InweaveError
from inweave.exact.constants import Constant, Dense, rational_text
from inweave.files.atomic import whole
from inweave.files.check import Reader, integer, mapping, read_certificate, text
from inweave.model.layers import AttentionLayer, PointwiseLayer
from inweave.model.network import Network
from inweave.model.projection import DenseProjection
from inweave.proof.certificate import Certificate, about

VERSION = 1
KEY = "inweave"
LARGEST_FILE = 4 * 2**30
LARGEST_HEADER = 64 * 2**20


@dataclass(frozen=True)
class Record:
    """What a file says about the program of its network, for people to read."""

    program: str
    source: str
    sizes: dict[str, Any]
    target: str
    optimize: str
    tokens: int | str | None = None

    @classmethod
    def of(cls, origin: Origin) -> Record:
        """What an origin says, as text."""
        sizes = {name: _plain(value) for name, value in origin.sizes.items()}
        program = origin.program
        return cls(
            program.name, program.source, sizes, origin.target, origin.optimize, origin.tokens
        )


def save(
    path: str | os.PathLike[str],
    network: Network,
    record: Record | None = None,
    certificate: Certificate | None = None,
) -> None:
    """Write a network to a file, whole or not at all."""
    data = encode(network, record, certificate)
    try:
        decode(data)
    except FileFormatError as error:
        raise InputError(f"this network cannot be saved: {error}") from error
    with whole(path) as draft:
        draft.write_bytes(data)


Read = tuple[Network, Record | None, Certificate | None]


def load(path: str | os.PathLike[str], *, limit: int = LARGEST_FILE) -> Read:
    """What a file holds; one of more than `limit` bytes is refused unread."""
    size = Path(path).stat().st_size
    if size > limit:
        raise FileFormatError(f"{path}: {size:,} bytes, the limit is {limit:,}; load(..., limit=)")
    try:
        return decode(Path(path).read_bytes())
    except FileFormatError as error:
        raise FileFormatError(f"{path}: {error}") from error


# -- to bytes --------------------------------------------------------------------------------------
def encode(
    network: Network, record: Record | None = None, certificate: Certificate | None = None
) -> bytes:
    """The bytes of a file; equal networks with equal records make equal bytes."""
    from safetensors.numpy import save as serialize

    certificate = about(network, certificate)
    description = {
        "version": VERSION,
        "network": network.describe(),
        "fingerprint": network.fingerprint,
        "record": None if record is None else asdict(record),
        "certificate": None if certificate is None else asdict(certificate),
    }
    description = json.loads(_canonical(description))
    metadata = {KEY: _canonical({**description, "sha256": _checksum(description)})}
    return serialize(arrays_of(network), metadata)


def arrays_of(network: Network) -> dict[str, np.ndarray[Any, Any]]:
    """Every array of a network by the name that its description implies."""
    found: dict[str, np.ndarray[Any, Any]] = {}

    def constant(c: Constant | None) -> None:
        if isinstance(c, Dense):
            found[f"constant.{c.digest}"] = _stored(c.array)

    for fill in network.fills:
        constant(fill.constant)
    for layer in network.layers:
        if isinstance(layer, PointwiseLayer):
            for name in "VWBC":
                found[f"pointwise.{layer.digest}.{name}"] = _stored(getattr(layer, name))
        elif isinstance(layer, AttentionLayer):
            for p in (p for head in layer.heads for p in head.projections):
                if not isinstance(p, DenseProjection):
                    for piece in p.pieces:
                        constant(piece.matrix)
                    continue
                found[f"projection.{p.digest}.W"] = _stored(p.W)
                if p.B is not None:
                    found[f"projection.{p.digest}.B"] = _stored(p.B)
    return found


def _stored(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Floats as they are; Fractions as the bytes of a JSON text."""
    if array.dtype != object:
        return np.ascontiguousarray(array)
    entries = [rational_text(Fraction(entry)) for entry in array.ravel()]
    written = json.dumps({"shape": array.shape, "entries": entries}, separators=(",", ":"))
    return np.frombuffer(written.encode(), dtype=np.uint8)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)


def _canonical(data: Any) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def _checksum(data: Any) -> str:
    return hashlib.sha256(_canonical(data).encode()).hexdigest()


# -- from bytes ------------------------------------------------------------------------------------
def decode(data: bytes) -> Read:
    """What a file's bytes hold, or FileFormatError."""
    description = description_of(data)
    stored = _tensors(data)
    reader = Reader(stored)
    try:
        network = reader.network(description["network"], "network")
    except FileFormatError:
        raise
    except InweaveError as error:
        raise FileFormatError(f"the file describes no valid network: {error}") from error
    unused = sorted(stored.keys() - reader.used)
    if unused:
        raise FileFormatError(f"array {unused[0]!r} belongs to no part of the network")
    if network.fingerprint != description["fingerprint"]:
        raise FileFormatError("the network does not have the fingerprint that the file states")
    certificate = None
    if description["certificate"] is not None:
        certificate = read_certificate(description["certificate"], "certificate")
        if about(network, certificate) is None:
            raise FileFormatError("the certificate is about another network")
    record = None if description["record"] is None else _record(description["record"], "record")
    return network, record, certificate


def description_of(data: bytes) -> dict[str, Any]:
    """The JSON text of a file, its version and checksum checked, its content not yet."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8:
        raise FileFormatError("this is no .inweave file, or its end is missing")
    if size > LARGEST_HEADER:
        raise FileFormatError(f"the header has {size:,} bytes, the limit is {LARGEST_HEADER:,}")
    header = _json(data[8 : 8 + size], "header")
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    written = metadata.get(KEY) if isinstance(metadata, dict) else None
    if not isinstance(written, str):
        raise FileFormatError("this is a safetensors file, but not one that inweave wrote")
    description = _json(written, "description")
    if not isinstance(description, dict):
        raise FileFormatError("the description is not a JSON object")
    version = integer(description.get("version"), "version", 1, 2**31)
    if version > VERSION:
        raise FileFormatError(
            f"the file has format {version}, this one reads up to {VERSION}: a newer one wrote it"
        )
    parts = ("version", "network", "fingerprint", "record", "certificate", "sha256")
    mapping(description, "description", parts)
    stated = description.pop("sha256")
    if stated != _checksum(description):
        raise FileFormatError("the description is damaged: its checksum is wrong")
    return description


def _json(written: str | bytes, what: str) -> Any:
    try:
        return json.loads(written, object_pairs_hook=_unique)
    except FileFormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"the {what} is damaged: {error}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise FileFormatError("a name stands twice in one JSON object")
    return found


def _tensors(data: bytes) -> dict[str, Any]:
    from safetensors import SafetensorError, deserialize

    try:
        return dict(deserialize(data))  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise FileFormatError(f"the arrays are damaged: {error}") from None


def _record(value: Any, where: str) -> Record:
    found = mapping(value, where, ("program", "source", "sizes", "target", "optimize", "tokens"))
    for name in ("program", "source", "target", "optimize"):
        text(found[name], f"{where}.{name}")
    if isinstance(found["tokens"], str):
        text(found["tokens"], f"{where}.tokens")
    elif found["tokens"] is not None:
        integer(found["tokens"], f"{where}.tokens", 1)
    if not isinstance(found["sizes"], dict):
        raise FileFormatError(f"{where}.sizes is not a JSON object")
    for name, size in found["sizes"].items():
        text(name, f"{where}.sizes")
        if isinstance(size, str):
            text(size, f"{where}.sizes")
        elif not (size is None or isinstance(size, (bool, int, float))):
            raise FileFormatError(f"{where}.sizes: {name!r} is not a number or a text")
    return Record(**found)
