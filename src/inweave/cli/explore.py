"""`inweave explore`: a page that shows what happens inside a network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from inweave.atomic import check_place
from inweave.cli import output
from inweave.cli.options import FLAG, OUTPUT, Mode, Source, Target
from inweave.cli.run import names
from inweave.cli.show import network_of
from inweave.cli.sources import chosen, compiled, settings
from inweave.errors import DivergenceError, DomainError, InputError

if TYPE_CHECKING:
    from inweave.cli.fill import Tables
    from inweave.network import Network

OWN = "; --data shows your own"
Shown = tuple["Network", dict[str, Any]]


def explore(
    source: Source,
    /,
    *values: str,
    data: Path | None = None,
    response: str | None = None,
    query: Path | None = None,
    columns: str | None = None,
    program: str | None = None,
    standardize: Annotated[bool, FLAG] = False,
    target: Target = None,
    optimize: Mode = None,
    save_as: Annotated[Path, OUTPUT, Parameter(help="The page; open it in any browser.")] = Path(
        "inweave.html"
    ),
) -> None:
    """Write a web page that shows a network's prompt and heads, layer by layer.

    On your own table with --data, which is read as `inweave run` reads it; an entry of the gallery
    on its example; otherwise on random numbers. Which of them it is, is said.

    For example:

        inweave explore ridge.inweave -o ridge.html

        inweave explore ridge_gd steps=5

        inweave explore ridge_gd steps=9 w0=0 lam=1 eta=0.01 --standardize \\
            --data table.csv --response y --query new.csv

    Parameters
    ----------
    values
        Sizes and static arguments of the program and, with --data, its scalars and other inputs, as
        name=value.
    data
        The rows to learn from: .csv, .tsv, .npz or .parquet.
    response
        The column of the data that is to be predicted; several with commas between.
    query
        The row to predict; of several, the page shows the first.
    columns
        The feature columns, with commas between; all but the response if not given.
    program
        The program of a .inweave file, as FILE.py:NAME, so that the data may have another size.
    standardize
        Centre and scale features and response by the data's own mean and deviation.
    """
    if save_as.suffix not in (".html", ".htm"):
        raise InputError(f"the explorer's page is an .html file; got {save_as}")
    check_place(save_as)
    options = chosen(target=target, optimize=optimize)
    if data is None:
        needless = {"response": response, "query": query, "columns": columns, "program": program,
                    "standardize": standardize}  # fmt: skip
        for option in filter(needless.get, needless):
            raise InputError(f"--{option} is about the table of --data, and there is none")
        network, inputs = _on_example(source, values, options)
    else:
        from inweave.cli.fill import Tables

        said = Tables(data, names(response), query, names(columns), standardize)
        network, inputs = _on_tables(source, values, said, program, options)
    network.explore(save_as, **inputs)
    output.note(f"wrote {save_as}; open it in a browser")


def _on_example(source: str, values: tuple[str, ...], options: Mapping[str, Any]) -> Shown:
    """An entry of the gallery with what it has for that, or a network and no data."""
    from inweave import gallery

    if source not in gallery.names():
        network = network_of(source, values, options)
        output.note(f"data: random numbers, seed 0{OWN}")
        return network, {}
    entry, sizes = gallery.get(source), settings(values)
    network = compiled(entry.program, {**entry.sizes, **sizes}, {**entry.options, **options})
    output.note(f"data: the gallery's example of {source}, seed 0{OWN}")
    return network, entry.example(0, **sizes)


def _on_tables(
    source: str,
    values: tuple[str, ...],
    said: Tables,
    program: str | None,
    options: Mapping[str, Any],
) -> Shown:
    """A network that fits the tables, and one problem of what they hold."""
    from inweave.cli.running import answers_of, prepared, spread

    network, filled = prepared(source, values, said, program, options)
    inputs = spread(network, filled.inputs)
    shapes = {spec.name: len(spec.shape) for spec in network.inputs}
    for name, value in inputs.items():
        if value.ndim > shapes[name]:
            inputs[name] = value[0]
            output.note(f"{name}: the first of {len(value)} rows of {said.query}")
    try:
        answers_of(network, inputs)
    except (DivergenceError, DomainError) as error:
        output.warn(str(error))  # what happens then is what the page shows
    return network, inputs
