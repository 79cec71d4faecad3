"""A model of the suite, and reading it: safetensors and JSON, of which nothing is executed.

A model is a folder: `network.inweave` (the network, its program and certificate), `circuit.json`
(what every head does, and the true edges), `edges.json` (the edges as EAP-IG reads them),
`prompts.safetensors` (named inputs to run it on), `model.json` (how it was made), `README.md`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np

from inweave.circuit.graph import Circuit
from inweave.circuits.suite import Specification
from inweave.errors import FileFormatError
from inweave.exact import schema
from inweave.exact.arithmetic import Floats
from inweave.exact.schema import Line, Must, Natural
from inweave.files import regular
from inweave.network import Network
from inweave.network import load as load_network

VERSION = 1
Version = Annotated[int, Must(f"the version {VERSION}", lambda version: version == VERSION)]
Dial = Annotated[Fraction, Must("a number from 0 to 1", lambda dial: 0 <= dial <= 1)]
INDEX = "suite.json"
NETWORK, CIRCUIT, EDGES = "network.inweave", "circuit.json", "edges.json"
PROMPTS, MADE, CARD = "prompts.safetensors", "model.json", "README.md"
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
    for name in read_json(Path(folder, INDEX), Index).models:
        yield load(Path(folder, name))


def load(path: str | os.PathLike[str]) -> Model:
    """The model in a folder. What its certificate says is a claim, until `network.verify()`."""
    folder = Path(path)
    made = read_json(folder / MADE, Made)
    network = load_network(folder / NETWORK)
    circuit = read_json(folder / CIRCUIT, Circuit)
    for what, mark in ((MADE, made.fingerprint), (CIRCUIT, circuit.fingerprint)):
        if mark != network.fingerprint:
            raise FileFormatError(f"{folder / what} is about another network than {NETWORK}")
    return Model(made, network, circuit, _prompts(folder / PROMPTS, network))


def read_json(path: Path, kind: type[T]) -> T:
    """A record that a file holds."""
    try:
        return schema.read(kind, schema.loads(regular.read(path, LARGEST)))
    except FileFormatError as error:
        raise FileFormatError(f"{path}: {error}") from error


def _prompts(path: Path, network: Network) -> dict[str, np.ndarray[Any, Any]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load as read

    try:
        found = read(regular.read(path, LARGEST))
    except SafetensorError as error:
        raise FileFormatError(f"{path}: {error}") from None
    for spec in network.inputs:
        if spec.name not in found or found[spec.name].shape[1:] != spec.shape:
            raise FileFormatError(f"{path}: it has no prompts for the input {spec.name!r}")
    return found
