"""Which input of a network takes the features, which the response, which the queries.

Read off the sizes: the features are the first matrix, n x d; the response has its n rows, a query
its d columns. Sizes are names for a program and numbers for a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inweave.errors import InputError
from inweave.language.program import Program
from inweave.model.prompt import Kind
from inweave.network import Network

QUERY_NAMES = ("u", "x", "query")


@dataclass(frozen=True)
class Argument:
    name: str
    kind: Kind
    sizes: tuple[str | int, ...]


@dataclass(frozen=True)
class Roles:
    """The names of the inputs that tables fill."""

    features: Argument | None
    response: Argument | None
    query: Argument | None


def arguments(source: Program | Network) -> list[Argument]:
    if isinstance(source, Program):
        return [Argument(n, kind.kind, kind.sizes) for n, kind in source.arguments.items()]
    return [Argument(spec.name, spec.kind, spec.shape) for spec in source.inputs]


def roles(known: Sequence[Argument], settled: Sequence[str]) -> Roles:
    """Roles of those inputs that are not given by name=value."""
    free = [a for a in known if a.name not in settled]
    matrices = [a for a in free if a.kind == "matrix"]
    if not matrices:
        return Roles(None, None, None)
    features = matrices[0]
    rows, cols = features.sizes
    high = [a for a in free if a is not features and a.sizes[:1] == (rows,)]
    response = high[0] if high else None
    wide = [a for a in free if a.kind == "vector" and a.sizes == (cols,) and a is not response]
    wide.sort(key=lambda a: a.name not in QUERY_NAMES)
    return Roles(features, response, wide[0] if wide else None)


def expect_all(known: Sequence[Argument], given: Sequence[str]) -> None:
    """Refuse inputs that neither a table nor name=value fills."""
    left = [a for a in known if a.name not in given]
    if left:
        said = ", ".join(f"{a.name} ({a.kind})" for a in left)
        raise InputError(f"no value for {said}; add it as name=value, such as {left[0].name}=0.1")
