"""`weft explore`: a page that shows what happens inside a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from weft.cli import output
from weft.cli.options import OUTPUT, Mode, Sizes, Source, Target
from weft.cli.show import network_of
from weft.cli.sources import optional
from weft.errors import InputError


def explore(
    source: Source,
    /,
    *sizes: Sizes,
    target: Target = "elsa",
    optimize: Mode = "faithful",
    save_as: Annotated[Path, OUTPUT, Parameter(help="The page; open it in any browser.")] = Path(
        "weft.html"
    ),
) -> None:
    """Write a web page that shows a network's prompt and heads, layer by layer.

    For example:

        weft explore ridge.weft -o ridge.html

        weft explore ridge.py:ridge_gd n=8 d=3 steps=5
    """
    explorer = optional("weft.explore")
    if explorer is None:
        raise InputError("this version of weft has no explorer")
    if save_as.suffix not in (".html", ".htm"):
        raise InputError(f"the explorer's page is an .html file; got {save_as}")
    explorer.write(save_as, network_of(source, sizes, target, optimize))
    output.note(f"wrote {save_as}; open it in a browser")
