"""Inputs of a network made of a user's tables, and its answers made a table again.

Which input takes what is read off the sizes: the features are the first matrix, n x d, the response
has its n rows, a query its d columns, and each row of the query table is one query. Sizes are names
for a program and numbers for a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from inweave.cli import output, tables
from inweave.cli.numbers import Numbers
from inweave.errors import InputError
from inweave.language.program import Program
from inweave.model.prompt import Kind, by_name
from inweave.network import Network

QUERY_NAMES = ("u", "x", "query")


@dataclass(frozen=True)
class Tables:
    """What the user says about tables; without `features`, all columns that nothing else takes."""

    data: Path
    response: Sequence[str] = ()
    query: Path | None = None
    features: Sequence[str] = ()
    standardize: bool = False


@dataclass(frozen=True)
class Scale:
    """Numbers moved and stretched, column by column, and the way back."""

    centre: Numbers | float = 0.0
    spread: Numbers | float = 1.0

    def there(self, values: Numbers) -> Numbers:
        return (values - self.centre) / self.spread

    def back(self, values: Numbers) -> Numbers:
        return values * self.spread + self.centre


@dataclass(frozen=True)
class Filled:
    """Inputs made of tables, and the way back from answers to a table."""

    inputs: dict[str, Any]
    features: Sequence[str] = ()
    queries: int | None = None
    scale: Scale = Scale()
    standardized: bool = False
    response: Sequence[str] = ()

    def finish(self, answers: Any) -> dict[str, Sequence[Any]]:
        """Answers as columns: one row per query, or the entries of the answer."""
        columns: dict[str, Sequence[Any]] = {}
        if self.standardized and (self.queries is None or self.scale == Scale()):
            output.note("in units of the standardized data: only predictions are scaled back")
        for name, value in by_name(answers).items():
            array = np.atleast_1d(value)
            if self.queries is None and len(array) == len(self.features):
                columns.setdefault("entry", list(self.features))
            if array.ndim == 1 and self.queries is not None:
                array = self.scale.back(array)
            flat = array.reshape(len(array), -1)
            titles = self._titles(name, flat.shape[1] if array.ndim > 1 else None)
            columns |= {title: flat[:, j].tolist() for j, title in enumerate(titles)}
        if len({len(c) for c in columns.values()}) > 1:
            raise InputError(
                "the answers have different lengths, which is no table; call the network in Python"
            )
        return columns

    def _titles(self, name: str, width: int | None) -> Sequence[str]:
        """Names for the columns of an answer: those of the response, if it predicts that."""
        if self.queries is not None and not name and len(self.response) == (width or 1):
            return self.response
        title = name or ("prediction" if self.queries is not None else "answer")
        return [title] if width is None else [f"{title}_{j}" for j in range(width)]


# -- which input takes what -----------------------------------------------------------------------
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


# -- tables ----------------------------------------------------------------------------------------
def fill(source: Program | Network, given: dict[str, Any], said: Tables) -> Filled:
    """The inputs that name=value and the tables give."""
    known = arguments(source)
    names = [a.name for a in known]
    for name in given:
        if name not in names:
            raise InputError(f"{name}: no such input; there are {', '.join(names)}")
    if said.data.suffix == ".npz" and said.data.is_file():
        arrays = tables.arrays(said.data)
        if arrays and set(arrays) <= set(names):
            if said != Tables(said.data):
                raise InputError(
                    f"{said.data} holds the inputs by name; leave out the other options"
                )
            expect_all(known, [*arrays, *given], None)
            return Filled(arrays | given)
    return _from_table(known, given, said)


def _from_table(known: Sequence[Argument], given: dict[str, Any], said: Tables) -> Filled:
    table = tables.read(said.data)
    part = roles(known, list(given))
    usual = roles(known, ())
    if part.features is None:
        raise _not_taken("matrix for the columns of --data", usual.features, given)
    table.expect(said.response)
    borrowed = {name: value for name, value in given.items() if isinstance(value, str)}
    taken = {*said.response, *borrowed.values()}
    features = said.features or [name for name in table.columns if name not in taken]
    _check_features(table, features, said.response)
    X = table.numbers(features)
    _check_sizes(part.features, table, features, len(X))
    inputs = given | {name: _borrow(table, known, name, at) for name, at in borrowed.items()}
    scale, back, queries = Scale(), Scale(), None
    if said.standardize:
        scale = Scale(X.mean(axis=0), X.std(axis=0))
        constant = [name for name, s in zip(features, X.std(axis=0), strict=True) if s == 0]
        if constant:
            raise InputError(f"{table.path}: column {constant[0]!r} is constant: cannot be scaled")
    inputs[part.features.name] = scale.there(X)
    if part.response is not None:
        y, back = _response(part.response, table, said)
        inputs[part.response.name] = y
    elif said.response:
        raise _not_taken("vector or matrix for --response", usual.response, given)
    if said.query is not None:
        if part.query is None:
            raise _not_taken("vector for --query", usual.query, given)
        asked = tables.read(said.query).numbers(features)
        queries = len(asked)
        inputs[part.query.name] = scale.there(asked)
    expect_all(known, list(inputs), part.query if said.query is None else None)
    return Filled(inputs, features, queries, back, said.standardize, said.response)


def _not_taken(what: str, usual: Argument | None, given: dict[str, Any]) -> InputError:
    """There is nothing for a table to fill, or nothing any more."""
    if usual is None:
        return InputError(f"this program takes no {what}")
    name, value = usual.name, given[usual.name]
    return InputError(f"no {what}: {name} is given as {name}={value}; leave out one of the two")


def _check_features(table: tables.Table, features: Sequence[str], response: Sequence[str]) -> None:
    """Refuse columns that are no features."""
    if twice := [name for name in features if features.count(name) > 1]:
        raise InputError(f"--columns names {twice[0]!r} twice")
    if not features:
        raise InputError(f"{table.path} has no feature columns beside {', '.join(response)}")
    if both := [name for name in features if name in response]:
        raise InputError(f"{', '.join(both)} is both feature and response")


def _check_sizes(
    wanted: Argument, table: tables.Table, features: Sequence[str], found: int
) -> None:
    """Refuse a table of other sizes than a network has; a program takes any."""
    rows, cols = wanted.sizes
    resize = "to resize it where its weights allow that, add --program FILE.py:NAME"
    if isinstance(rows, int) and found != rows:
        more = f": row {rows + 1} is the first too many" if found > rows else ""
        raise InputError(
            f"{table.path} has {found} rows, this network is for {rows}{more}; {resize}"
        )
    if isinstance(cols, int) and len(features) != cols:
        raise InputError(
            f"{table.path} gives {len(features)} feature columns ({', '.join(features)}), this "
            f"network is for {cols}; choose with --columns, and name the response with --response; "
            f"{resize}"
        )


def _borrow(table: tables.Table, known: Sequence[Argument], name: str, column: str) -> Numbers:
    """The column that name=column names."""
    if any(a.name == name and a.kind == "scalar" for a in known):
        raise InputError(f"{name} is a scalar: give a number, as in {name}=0.1, not {column!r}")
    if column not in table.columns:
        raise InputError(f"{name}={column}: neither a number nor a column of {table.path}")
    return table.numbers([column])[:, 0]


def _response(wanted: Argument, table: tables.Table, said: Tables) -> tuple[Numbers, Scale]:
    """What the response's columns hold, and the scale of predictions."""
    if not said.response:
        raise InputError(f"name the column that fills {wanted.name!r} with --response")
    y = table.numbers(said.response)
    if wanted.kind != "vector":
        if said.standardize:
            raise InputError("--standardize knows one response column only")
        return y, Scale()
    if len(said.response) != 1:
        raise InputError(f"{wanted.name!r} is a vector: name one response column")
    y = y[:, 0]
    if not said.standardize:
        return y, Scale()
    scale = Scale(float(y.mean()), float(y.std()) or 1.0)
    return scale.there(y), scale
