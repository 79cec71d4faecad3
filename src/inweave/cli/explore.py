"""`inweave explore`: a page that shows what happens inside a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from inweave.atomic import check_place
from inweave.cli import output
from inweave.cli.options import OUTPUT, Mode, Sizes, Source, Target
from inweave.cli.show import network_of
from inweave.cli.sources import chosen
from inweave.errors import InputError


def explore(
    source: Source,
    /,
    *sizes: Sizes,
    target: Target = None,
    optimize: Mode = None,
    save_as: Annotated[Path, OUTPUT, Parameter(help="The page; open it in any browser.")] = Path(
        "inweave.html"
    ),
) -> None:
    """Write a web page that shows a network's prompt and heads, layer by layer.

    For example:

        inweave explore ridge.inweave -o ridge.html

        inweave explore ridge_gd n=8 d=3 steps=5
    """
    if save_as.suffix not in (".html", ".htm"):
        raise InputError(f"the explorer's page is an .html file; got {save_as}")
    check_place(save_as)
    network_of(source, sizes, chosen(target=target, optimize=optimize)).explore(save_as)
    output.note(f"wrote {save_as}; open it in a browser")
