"""`weft explore`: a page that shows what happens inside a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from weft.atomic import whole
from weft.cli import output
from weft.cli.options import OUTPUT, Mode, Sizes, Source, Target
from weft.cli.show import network_of
from weft.cli.sources import optional
from weft.errors import InputError
from weft.network import Network


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

    Examples:

        weft explore ridge.weft -o ridge.html

        weft explore ridge.py:ridge_gd n=8 d=3 steps=5
    """
    if not available():
        raise InputError("this version of weft has no explorer")
    page(network_of(source, sizes, target, optimize), save_as)
    output.note(f"wrote {save_as}; open it in a browser")


def available() -> bool:
    """Whether this installation can write the page."""
    return optional("weft.explore") is not None and hasattr(Network, "explore")


def page(network: Network, path: Path, **inputs: Any) -> None:
    """The page of a network, whole or not at all."""
    with whole(path) as draft:
        network.explore(draft, **inputs)  # type: ignore[attr-defined]
