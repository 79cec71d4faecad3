"""`inweave run`: a network on a user's own table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from inweave.cli.options import FLAG, OUTPUT, Json, Mode, Source, Target
from inweave.cli.sources import chosen


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
    target: Target = None,
    optimize: Mode = None,
    save_as: Annotated[Path | None, OUTPUT] = None,
    json: Json = False,
) -> None:
    """Run a network on your own table: rows to learn from, and rows to predict.

    The features are the first matrix of the program, the response is its vector with one entry per
    row, and each row of the query table is one query; all queries go through in one batch.

    For example:

        inweave run ridge_gd steps=99 w0=0 lam=1 eta=0.01 --standardize \\
            --data table.csv --response y --query new.csv -o predictions.csv

        inweave run ridge.inweave lam=1 eta=0.01 \\
            --data table.csv --response y --query new.csv

        inweave run ridge.inweave lam=1 eta=0.01 --program examples/ridge.py:ridge \\
            --data wider.csv --response y --query new.csv

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
        Centre and scale features and response by the data's own mean and deviation. Predictions are
        scaled back; other answers, such as coefficients, are about the standardized data.
    save_as
        Where predictions go: .csv, .tsv, .npz or .parquet; to the screen if not given. Their column
        is named after the response.
    """
    from inweave.cli.fill import Tables
    from inweave.cli.running import answer

    said = Tables(data, names(response), query, names(columns), standardize)
    answer(source, values, said, program, chosen(target=target, optimize=optimize), save_as, json)


def names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",")) if text else ()
