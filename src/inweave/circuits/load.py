"""A model of the suite, and reading it: safetensors and JSON, of which nothing is executed.

A model is a folder: `network.inweave` (the network, its program and certificate), `circuit.json`
(what every head does, and the true edges), `edges.json` (the edges as EAP-IG reads them),
`prompts.safetensors` (named inputs to run it on), `model.json` (how it was made), `README.md`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np

from inweave.circuit.graph import Circuit
from inweave.circuits.suite import Specification
from inweave.errors import FileFormatError, InweaveError
from inweave.exact import schema
from inweave.exact.arithmetic import Floats
from inweave.exact.schema import Line, Must, Natural
from inweave.files import regular
from inweave.model.inputs import accept
from inweave.network import Network
from inweave.network import load as load_network
from inweave.proof.certificate import Method

VERSION = 2
Version = Annotated[int, Must(f"the version {VERSION}", lambda version: version == VERSION)]
Dial = Annotated[Fraction, Must("a number from 0 to 1", lambda dial: 0 <= dial <= 1)]
INDEX = "suite.json"
NETWORK, CIRCUIT, EDGES = "network.inweave", "circuit.json", "edges.json"
PROMPTS, MADE, CARD = "prompts.safetensors", "model.json", "README.md"
KEPT = (NETWORK, CIRCUIT, EDGES, PROMPTS)
LARGEST = 2**28  # bytes of one JSON file

T = TypeVar("T")


@dataclass(frozen=True)
class Index:
    """What a suite's folder holds."""

    version: Version
    seed: Natural
    dial: Dial
    models: tuple[Line, ...]


@dataclass(frozen=True)
class Made:
    """How a model was made."""

    version: Version
    specification: Specification
    dial: Dial
    fingerprint: Line
    proof: Method
    """How it was verified: `algebra`, or at random points."""
    files: dict[Line, Line]
    """What was written beside this: the SHA-256 of each file."""


@dataclass(frozen=True, eq=False)
class Model:
    """A network, its circuit, and prompts to run it on.

    `network.to_torch()` and `network.to_lens()` are the model for other tools; their hook points
    have the names that the circuit uses.
    """

    made: Made
    network: Network
    circuit: Circuit
    prompts: dict[str, np.ndarray[Any, Any]]
    """Named inputs, each with a leading axis: as many prompts."""

    @property
    def name(self) -> str:
        return self.made.specification.name

    def pairs(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The prompts, and as many others to patch from: each half of them with the other half."""
        half = len(next(iter(self.prompts.values()))) // 2
        turned = {name: np.roll(x, half, axis=0) for name, x in self.prompts.items()}
        return self.prompts, turned

    def answers(self, state: Any) -> Any:
        """All answers that stand in states (..., tokens, width), side by side."""
        layout, plain = self.network.layout, self.network.in_blocks(state)
        parts = [out.place.read(layout, plain) for out in self.network.outputs]
        flat = [part.reshape(*part.shape[:-2], -1) for part in parts]
        return Floats.like(state).concat(flat, -1) if len(flat) > 1 else flat[0]


def models(folder: str | os.PathLike[str]) -> Iterator[Model]:
    """Every model of a suite."""
    index = read_json(Path(folder, INDEX), Index)
    many, there = len(index.models), len(finished(Path(folder)))
    if there < many:
        raise FileNotFoundError(
            f"{folder} has {there} of its {many} models; to go on: inweave circuits build {folder} "
            f"--count {many} --seed {index.seed} --dial {float(index.dial)}"
        )
    for name in index.models:
        yield load(Path(folder, name))


def finished(folder: Path) -> list[str]:
    """The models of a suite that are written: their cards are, which are the last of them."""
    names = read_json(folder / INDEX, Index).models
    return [name for name in names if (folder / name / CARD).is_file()]


def load(path: str | os.PathLike[str]) -> Model:
    """The model in a folder.

    Files that were changed are refused. That somebody wrote them to deceive is not: what they say
    is a claim, until `network.verify()` for the certificate and `check` for all of it.
    """
    folder = Path(path)
    made = read_json(folder / MADE, Made)
    network = load_network(_there(folder / NETWORK))
    circuit = read_json(folder / CIRCUIT, Circuit)
    for what, mark in ((MADE, made.fingerprint), (CIRCUIT, circuit.fingerprint)):
        if mark != network.fingerprint:
            raise FileFormatError(f"{folder / what} is about another network than {NETWORK}")
    prompts = _prompts(folder / PROMPTS, network)
    for name in KEPT:
        if made.files.get(name) != digest(folder / name):
            raise FileFormatError(
                f"{folder / name} is not the file that {MADE} tells of: it was changed after it "
                "was written; build the model again, or copy its folder again"
            )
    if regular.read(folder / EDGES, LARGEST) != schema.dumps(circuit.to_eap()).encode():
        raise FileFormatError(f"{folder / EDGES} does not have the genuine edges of {CIRCUIT}")
    return Model(made, network, circuit, prompts)


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(regular.read(_there(path), LARGEST)).hexdigest()


def read_json(path: Path, kind: type[T]) -> T:
    """A record that a file holds."""
    try:
        return schema.read(kind, schema.loads(regular.read(_there(path), LARGEST)))
    except FileFormatError as error:
        raise FileFormatError(f"{path}: {error}") from error


def _there(path: Path) -> Path:
    if path.is_file():
        return path
    what = "suite of models" if path.name == INDEX else "whole model"
    raise FileNotFoundError(
        f"{path.parent} holds no {what}: there is no file {path.name}; inweave circuits build "
        "makes one"
    )


def _prompts(path: Path, network: Network) -> dict[str, np.ndarray[Any, Any]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load as read

    try:
        found = read(regular.read(_there(path), LARGEST))
    except SafetensorError as error:
        raise FileFormatError(f"{path}: {error}") from None
    for spec in network.inputs:
        if spec.name not in found or found[spec.name].shape[1:] != spec.shape:
            raise FileFormatError(f"{path}: it has no prompts for the input {spec.name!r}")
    counts = {name: len(x) for name, x in found.items()}
    if len(set(counts.values())) > 1 or min(counts.values(), default=2) < 2:
        said = ", ".join(f"{many} of {name}" for name, many in counts.items())
        raise FileFormatError(f"{path}: expected prompts, two at least, as many of each: {said}")
    try:
        accept(network.inputs, found)
    except InweaveError as error:
        raise FileFormatError(f"{path}: {error}") from error
    return found
