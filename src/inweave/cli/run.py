"""`inweave run`: a network on a user's own table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from inweave.cli import output, tables
from inweave.cli.options import FLAG, OUTPUT, Json, Mode, Source, Target
from inweave.cli.resize import fitted, program_of
from inweave.cli.roles import Argument, Roles, arguments, expect_all, roles
from inweave.cli.show import report
from inweave.cli.sources import compiled, find, settings
from inweave.errors import DivergenceError, InputError
from inweave.language.program import Program
from inweave.network import Network


def run(
    source: Source,
    /,
    *values: str,
    data: Path,
    response: str | None = None,
    query: Path | None = None,
    columns: str | None = None,
    program: str | None = None,
    standardize: Annotated[bool, FLAG] = False,
    target: Target = "elsa",
    optimize: Mode = "faithful",
    save_as: Annotated[Path | None, OUTPUT] = None,
    json: Json = False,
) -> None:
    """Run a network on your own table: rows to learn from, and rows to predict.

    The features are the first matrix of the program, the response is its vector with one entry per
    row, and each row of the query table is one query; all queries go through in one batch.

    For example:

        inweave run ridge.inweave lam=1 eta=0.01 --data table.csv --response y --query new.csv

        inweave run ridge.inweave lam=1 eta=0.01 --data wider.csv --response y --query new.csv \\
            --program ridge.py:ridge

        inweave run ridge.py steps=99 lam=1 eta=0.01 --data table.csv --response y \\
            --query new.csv --standardize -o predictions.csv

    Parameters
    ----------
    values
        Scalars, static arguments and other inputs, as name=value. A vector or matrix is filled with
        the number given, or is the column of the data that the value names.
    data
        The rows to learn from: .csv, .tsv, .npz or .parquet. An .npz whose arrays carry
        the names of the inputs fills them directly.
    response
        The column of the data that is to be predicted; several with commas between.
    query
        The rows to predict; needs the same feature columns.
    columns
        The feature columns, with commas between; all but the response if not given.
    program
        The program of a .inweave file, as FILE.py:NAME. With it, a table of another size resizes
        the network where its weights allow that. A file from the gallery does not need it.
    standardize
        Centre and scale features and response by the data's own mean and deviation, and predictions
        back.
    save_as
        Where predictions go: .csv, .tsv, .npz or .parquet; to the screen if not given.
    """
    if save_as is not None:
        tables.check_writable(save_as)
    found = find(source)
    given = settings(values)
    statics = {k: given.pop(k) for k in list(given) if _is_static(found, k)}
    known = program_of(found, program) if isinstance(found, Network) else found
    if known is found and program is not None:
        raise InputError("--program goes with a .inweave file; here the source is a program")
    filled = _fill(known or found, given, data, response, query, columns, standardize)
    network = found
    if isinstance(network, Network):
        if known is not None:
            network = fitted(source, network, known, program or known.name, filled.inputs)
    else:
        arrays = {k: v for k, v in filled.inputs.items() if isinstance(v, np.ndarray)}
        sizes = network.sizes_of(arrays)
        for name, value in statics.items():
            if sizes.setdefault(name, value) != value:
                raise InputError(f"{name}={value}, but the data has {name} = {sizes[name]}")
        network = compiled(network, target=target, optimize=optimize, sizes=sizes)
    answers = filled.finish(_answers(network, _spread(network, filled.inputs)))
    if save_as is not None:
        tables.write(save_as, answers)
        output.note(f"wrote {save_as}")
    if json:
        output.say_json({"network": report(network), "answers": answers})
    elif save_as is None:
        tables.csv_rows(sys.stdout, answers)


def _is_static(source: Program | Network, name: str) -> bool:
    return isinstance(source, Program) and (name in source.statics or name in source.size_names)


def _answers(network: Network, inputs: dict[str, Any]) -> Any:
    """What the network answers; infinities are not handed out as predictions."""
    advice = "take a smaller step size, or scale the data with --standardize"
    try:
        with np.errstate(all="ignore"):
            answers = network(**inputs)
    except DivergenceError as error:
        said = str(error).removesuffix("; check=False returns it as it is")
        raise DivergenceError(f"the iteration diverged: {said}; {advice}") from error
    for value in answers.values() if isinstance(answers, dict) else [answers]:
        if not np.isfinite(value).all():
            raise DivergenceError(f"the answers are not finite; {advice}")
    return answers


@dataclass
class Filled:
    """Inputs made of tables, and the way back from answers to a table."""

    inputs: dict[str, Any]
    features: tuple[str, ...] = ()
    queries: int | None = None
    shift: float = 0.0
    scale: float = 1.0

    def finish(self, answers: Any) -> dict[str, Sequence[Any]]:
        """Answers as columns: one row per query, or the entries of the answer."""
        named = answers if isinstance(answers, dict) else {"": answers}
        columns: dict[str, Sequence[Any]] = {}
        for name, value in named.items():
            array = np.asarray(value)
            title = name or ("prediction" if self.queries is not None else "answer")
            if self.queries is not None:
                if array.ndim == 1:
                    columns[title] = (array * self.scale + self.shift).tolist()
                else:
                    flat = array.reshape(self.queries, -1)
                    columns |= {f"{title}_{j}": flat[:, j].tolist() for j in range(flat.shape[1])}
                continue
            array = np.atleast_1d(array)
            if len(array) == len(self.features):
                columns.setdefault("entry", list(self.features))
            if array.ndim == 1:
                columns[title] = array.tolist()
            else:
                columns |= {f"{title}_{j}": array[:, j].tolist() for j in range(array.shape[1])}
        if len({len(c) for c in columns.values()}) > 1:
            raise InputError(
                "the answers have different lengths, which is no table; call the network in Python"
            )
        return columns


def _fill(
    source: Program | Network,
    given: dict[str, Any],
    data: Path,
    response: str | None,
    query: Path | None,
    columns: str | None,
    standardize: bool,
) -> Filled:
    known = arguments(source)
    names = [a.name for a in known]
    for name in given:
        if name not in names:
            raise InputError(f"{name}: no such input; there are {', '.join(names)}")
    if data.suffix == ".npz" and data.is_file():
        arrays = tables.arrays(data)
        if arrays and set(arrays) <= set(names):
            if response or query or columns or standardize:
                raise InputError(f"{data} holds the inputs by name; leave out the other options")
            expect_all(known, [*arrays, *given])
            return Filled(arrays | given)
    return _fill_from_table(known, given, tables.read(data), response, query, columns, standardize)


def _fill_from_table(
    known: Sequence[Argument],
    given: dict[str, Any],
    table: tables.Table,
    response: str | None,
    query: Path | None,
    columns: str | None,
    standardize: bool,
) -> Filled:
    part = roles(known, list(given))
    if part.features is None:
        raise InputError("this program takes no matrix, so a table cannot fill it")
    responses = _names(response)
    table.expect(responses)
    borrowed = {k: v for k, v in given.items() if isinstance(v, str)}
    unused = [c for c in table.columns if c not in responses and c not in borrowed.values()]
    features = _names(columns) or unused
    if not features:
        raise InputError(f"{table.path} has no feature columns beside {', '.join(responses)}")
    if set(features) & set(responses):
        raise InputError(
            f"{', '.join(set(features) & set(responses))} is both feature and response"
        )
    _check_size(part.features, table, features)
    X = table.numbers(features)
    filled = Filled(dict(given), tuple(features))
    scalars = [a.name for a in known if a.kind == "scalar"]
    for name, column in borrowed.items():
        if name in scalars:
            raise InputError(f"{name} is a scalar: give a number, as in {name}=0.1, not {column!r}")
        if column not in table.columns:
            raise InputError(f"{name}={column}: neither a number nor a column of {table.path}")
        filled.inputs[name] = table.numbers([column])[:, 0]
    centre, spread = np.zeros(len(features)), np.ones(len(features))
    if standardize:
        centre, spread = X.mean(axis=0), X.std(axis=0)
        constant = [c for c, s in zip(features, spread, strict=True) if s == 0]
        if constant:
            raise InputError(f"{table.path}: column {constant[0]!r} is constant: cannot be scaled")
    filled.inputs[part.features.name] = (X - centre) / spread
    _fill_response(filled, part, table, responses, standardize)
    if query is not None:
        if part.query is None:
            raise InputError("this program takes no query vector; leave out --query")
        asked = tables.read(query).numbers(features)
        filled.queries = len(asked)
        filled.inputs[part.query.name] = (asked - centre) / spread
    expect_all(known, list(filled.inputs))
    return filled


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in text.split(",")] if text else []


def _check_size(features: Argument, table: tables.Table, names: Sequence[str]) -> None:
    """A network has its sizes; a program takes any."""
    rows, cols = features.sizes
    resize = "to resize it where its weights allow that, add --program FILE.py:NAME"
    if isinstance(rows, int) and table.rows > rows:
        raise InputError(f"{table.path} has {table.rows} rows, this network is for {rows}: "
                         f"row {rows + 1} is the first too many; {resize}")  # fmt: skip
    if isinstance(rows, int) and table.rows < rows:
        raise InputError(
            f"{table.path} has {table.rows} rows, this network is for {rows}; {resize}"
        )
    if isinstance(cols, int) and len(names) != cols:
        raise InputError(
            f"{table.path} gives {len(names)} feature columns ({', '.join(names)}), this network "
            f"is for {cols}; choose with --columns, and name the response with --response; {resize}"
        )


def _fill_response(
    filled: Filled, part: Roles, table: tables.Table, responses: Sequence[str], standardize: bool
) -> None:
    if not responses:
        if part.response is not None:
            raise InputError(f"name the column that fills {part.response.name!r} with --response")
        return
    if part.response is None:
        raise InputError("this program takes no response; leave out --response")
    y = table.numbers(responses)
    if part.response.kind == "vector":
        if len(responses) != 1:
            raise InputError(f"{part.response.name!r} is a vector: name one response column")
        y = y[:, 0]
        if standardize:
            filled.shift, filled.scale = float(y.mean()), float(y.std()) or 1.0
            y = (y - filled.shift) / filled.scale
    elif standardize:
        raise InputError("--standardize knows one response column only")
    filled.inputs[part.response.name] = y


def _spread(network: Network, inputs: dict[str, Any]) -> dict[str, Any]:
    """A number given for a vector or matrix fills all of it."""
    shapes = {spec.name: spec.shape for spec in network.inputs}
    return {
        name: np.full(shapes[name], float(value)) if isinstance(value, (int, float)) else value
        for name, value in inputs.items()
    }
