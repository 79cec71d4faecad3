"""`.inweave` files: a network as data that any machine can read and none has to trust.

A file is one safetensors file. Its metadata holds a single JSON text: the format's version, the
network with its fingerprint, where it came from (the program's text, to be read and never run, and
the program itself as `inweave.language.recorded` writes it down), its certificate, and a checksum
of all that, each record as `inweave.exact.schema` writes it. The arrays stand under the
hashes of their contents: float64 as they are, exact rationals as text. So nothing in a file is ever
executed, equal networks make equal files, and a damaged one cannot be mistaken for a good one.

`load` trusts nothing. The schema looks at every field before anything is built, what is allocated
is bounded by the size of the file itself, `LIMITS` bounds what the network would allocate when it
runs, and the fingerprint is computed again from the finished network. A certificate is a claim that
a check was made; `verify` makes it again, from the network and the program that the file holds.
"""

from __future__ import annotations

import hashlib
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from inweave.atomic import check_place, write
from inweave.compiler.origin import Origin
from inweave.errors import FileFormatError, InputError
from inweave.exact.names import check_line, is_line
from inweave.exact.schema import Coefficient, Count, Line, Mismatch, Must, content, dumps, loads
from inweave.exact.schema import read as read_record
from inweave.exact.schema import write as write_record
from inweave.files import regular
from inweave.language.recorded import Recorded
from inweave.model.embedding import Embedding
from inweave.model.layout import Layout
from inweave.model.network import Network
from inweave.model.prompt import Input
from inweave.proof.certificate import Certificate, Claim, about

VERSION = 1
KEY = "inweave"
SUFFIX = ".inweave"
LARGEST_HEADER = 64 * 2**20
LARGEST_PROMPT = 2**30  # numbers in one prompt
LARGEST_EMBEDDING = 512  # tokens or columns: whether they are orthogonal is seen exactly,
MOST_BITS = 1024  # in numbers of no more than that
Version = Annotated[int, Must(f"the version {VERSION}", lambda version: version == VERSION)]
MOST = {"inputs": 1000, "outputs": 1000, "fills": 100_000}


@dataclass(frozen=True)
class Record:
    """What a file says about the program of its network; `graph` is the program itself."""

    program: Line
    source: str
    sizes: dict[str, bool | int | float | str | None]
    target: Line
    optimize: Line
    tokens: int | str | None = None
    graph: Recorded | None = None

    def __post_init__(self) -> None:
        for name, value in {**self.sizes, "tokens": self.tokens}.items():
            check_line("a size", name)
            if isinstance(value, str):
                check_line(f"what {name} is", value)

    @classmethod
    def of(cls, origin: Origin) -> Record:
        """What an origin says, as text."""
        sizes = {name: _plain(value) for name, value in origin.sizes.items()}
        asked = (origin.target, origin.optimize, origin.tokens)
        program, graph = origin.program, Recorded.of(origin.traced)
        return cls(program.name, program.source, sizes, *asked, graph)


@dataclass(frozen=True)
class Contents:
    """All that a file says."""

    version: Version
    network: Network
    fingerprint: str
    record: Record | None
    certificate: Certificate | None


@dataclass(frozen=True)
class Rationals:
    """An array of exact numbers."""

    shape: tuple[Count, ...]
    entries: tuple[Coefficient, ...]


def save(
    path: str | os.PathLike[str],
    network: Network,
    record: Record | None = None,
    certificate: Certificate | None = None,
) -> None:
    """Write a network to a file, whole or not at all."""
    check_name(path)
    data = encode(network, record, certificate)
    try:
        decode(data)
    except FileFormatError as error:
        raise InputError(f"this network cannot be saved: {error}") from error
    write(path, data)


def check_name(path: str | os.PathLike[str]) -> None:
    """Refuse a name that no `.inweave` file can have, before any work is done for it."""
    if Path(path).suffix != SUFFIX:
        raise InputError(f"networks are stored in {SUFFIX} files; got {path}")
    check_place(path)


Read = tuple[Network, Record | None, Claim | None]


def load(path: str | os.PathLike[str], *, limit: int = regular.LARGEST) -> Read:
    """What a file holds; one of more than `limit` bytes is refused unread."""
    data = regular.read(path, limit, "; load(..., limit=)")
    try:
        return decode(data)
    except FileFormatError as error:
        raise FileFormatError(f"{path}: {error}") from error


# -- to bytes --------------------------------------------------------------------------------------
def encode(
    network: Network, record: Record | None = None, certificate: Certificate | None = None
) -> bytes:
    """The bytes of a file; equal networks with equal records make equal bytes."""
    from safetensors.numpy import save as serialize

    certificate = about(network, certificate)
    arrays: dict[str, np.ndarray[Any, Any]] = {}

    def keep(array: np.ndarray[Any, Any]) -> str:
        name = content(array)
        arrays[name] = _stored(array)
        return name

    contents = Contents(VERSION, network, network.fingerprint, record, certificate)
    described = write_record(Contents, contents, keep)
    return serialize(arrays, {KEY: dumps({**described, "sha256": _checksum(described)})})


def _stored(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Floats as they are; Fractions as the bytes of a JSON text."""
    if array.dtype != object:
        return np.ascontiguousarray(array)
    written = dumps(write_record(Rationals, Rationals(array.shape, tuple(array.flat))))
    return np.frombuffer(written.encode(), dtype=np.uint8)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    is_finite = not isinstance(value, float) or math.isfinite(value)
    is_plain = value is None or isinstance(value, (bool, int, float)) or is_line(value)
    return value if is_plain and is_finite else repr(value)


def _checksum(described: Any) -> str:
    return hashlib.sha256(dumps(described).encode()).hexdigest()


# -- from bytes ------------------------------------------------------------------------------------
def decode(data: bytes) -> Read:
    """What a file's bytes hold, or FileFormatError."""
    try:
        described, arrays = _described(data), _Arrays(data)
        found = read_record(Contents, described, arrays.get, LIMITS)
    except RecursionError:
        raise FileFormatError("the description is nested too deeply") from None
    arrays.refuse_unused()
    mark, certificate = found.network.fingerprint, found.certificate
    if mark != found.fingerprint:
        raise FileFormatError("the network does not have the fingerprint that the file states")
    if certificate is not None and about(found.network, certificate) is None:
        raise FileFormatError("the certificate is about another network")
    return found.network, found.record, None if certificate is None else Claim(certificate)


def _described(data: bytes) -> dict[str, Any]:
    """The JSON data of a file, its version and checksum checked, its content not yet."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8:
        raise FileFormatError("this is no .inweave file, or its end is missing")
    if size > LARGEST_HEADER:
        raise FileFormatError(f"the header has {size:,} bytes, the limit is {LARGEST_HEADER:,}")
    header = loads(data[8 : 8 + size])
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    written = metadata.get(KEY) if isinstance(metadata, dict) else None
    if not isinstance(written, str):
        raise FileFormatError("this is a safetensors file, but not one that inweave wrote")
    described = loads(written)
    if not isinstance(described, dict):
        raise FileFormatError("the description is not a JSON object")
    version = described.get("version")
    if isinstance(version, int) and version > VERSION:
        raise FileFormatError(
            f"the file has format {version}, this one reads up to {VERSION}: a newer one wrote it"
        )
    if described.pop("sha256", None) != _checksum(described):
        raise FileFormatError("the description is damaged: its checksum is wrong")
    return described


class _Arrays:
    """The arrays of a file by the hashes of their contents."""

    def __init__(self, data: bytes) -> None:
        from safetensors import SafetensorError, deserialize

        try:
            self.stored = dict(deserialize(data))  # type: ignore[no-untyped-call]
        except SafetensorError as error:
            raise FileFormatError(f"the arrays are damaged: {error}") from None
        self.used: set[str] = set()

    def get(self, name: str) -> np.ndarray[Any, Any]:
        if name not in self.stored:
            raise Mismatch(f"array {name!r} is missing")
        self.used.add(name)
        entry, kind = self.stored[name], self.stored[name]["dtype"]
        shape, data = entry["shape"], bytes(entry["data"])
        if kind == "U8":
            exact = read_record(Rationals, loads(data))
            shape, array = exact.shape, np.array([*exact.entries, None], dtype=object)[:-1]
        elif kind == "F64":
            array = np.frombuffer(data, dtype="<f8")
        else:
            raise Mismatch(f"array {name!r} has dtype {kind}, expected F64")
        if len(shape) > 3 or math.prod(shape) != len(array):
            raise Mismatch(f"array {name!r} has {len(array)} entries and shape {shape}")
        array = array.reshape(shape)
        if content(array) != name:
            raise Mismatch(f"array {name!r} is damaged, its content hash is wrong")
        return array

    def refuse_unused(self) -> None:
        for name in sorted(self.stored.keys() - self.used):
            raise FileFormatError(f"array {name!r} belongs to no part of the network")


# -- what a network may ask for --------------------------------------------------------------------
def _prompt(layout: dict[str, Any]) -> None:
    tokens, width = layout["tokens"], sum(block.cols for block in layout["blocks"])
    if tokens * width > LARGEST_PROMPT:
        raise Mismatch(
            f"a prompt of {tokens:,} x {width:,} numbers is over the limit of {LARGEST_PROMPT:,}"
        )


def _input(spec: dict[str, Any]) -> None:
    rows, cols = spec.get("rows", 1), spec.get("cols", 1)
    if rows * cols > LARGEST_PROMPT:
        raise Mismatch(f"{rows:,} x {cols:,} numbers are over the limit of {LARGEST_PROMPT:,}")


def _counts(network: dict[str, Any]) -> None:
    for name, most in MOST.items():
        if len(network.get(name, ())) > most:
            raise Mismatch(f"{len(network[name]):,} {name}, the limit is {most:,}")


def _embedding(embedding: dict[str, Any]) -> None:
    for name, matrix in embedding.items():
        if matrix is None:
            continue
        if max(matrix.shape) > LARGEST_EMBEDDING:
            raise Mismatch(f"{name}: {max(matrix.shape):,}, the limit is {LARGEST_EMBEDDING:,}")
        bottom = 1
        for entry in matrix.flat if matrix.dtype == object else ():
            bottom = math.lcm(bottom, entry.denominator)
            if max(bottom, abs(entry.numerator)).bit_length() > MOST_BITS:
                raise Mismatch(f"{name}: numbers of more than {MOST_BITS:,} bits, or denominators")


LIMITS = {Layout: _prompt, Input: _input, Network: _counts, Embedding: _embedding}
