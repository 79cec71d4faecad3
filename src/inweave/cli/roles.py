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
    wide = [a for a in known if a.kind == "vector" and a.sizes == (cols,) and a is not response]
    asking = [a for a in wide if a.name in QUERY_NAMES] or wide
    query = next((a for a in asking if a in free), None)
    return Roles(features, response, query)


def expect_all(known: Sequence[Argument], given: Sequence[str], query: Argument | None) -> None:
    """Refuse inputs that neither a table nor name=value fills; `query` is what --query would."""
    left = [a for a in known if a.name not in given]
    if not left:
        return
    said = ", ".join(f"{a.name} ({a.kind})" for a in left)
    asked = "" if query is None else f"; --query TABLE fills {query.name} from its rows"
    raise InputError(
        f"no value for {said}; add it as name=value, such as {left[0].name}=0.1{asked}"
    )
