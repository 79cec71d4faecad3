"""`inweave frontier`: the networks of a program that no other one beats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from inweave.cli import output
from inweave.cli.options import OUTPUT, Json, Sizes
from inweave.cli.sources import chosen, find_program, settings, users_code


def frontier(
    program: Annotated[str, Parameter(help="FILE.py:NAME, or a name from `inweave gallery`.")],
    /,
    *sizes: Sizes,
    target: Annotated[
        str | None, Parameter(help="Only networks of this kind, elsa or lsa; both if not given.")
    ] = None,
    tokens: Annotated[
        int | str | None,
        Parameter(help="Only prompts with this size along the tokens, or of so many tokens."),
    ] = None,
    draw: Annotated[
        Path | None, OUTPUT, Parameter(help="Draw the table to this .svg file.")
    ] = None,
    json: Json = False,
) -> None:
    """Compare every way to compile a program: layers, heads, columns and flops.

    Each network is verified. Those that another one beats in all four are left out, and a star
    marks what is proved to be least.

    For example:

        inweave frontier examples/ridge.py:ridge n=40 d=10 steps=100

        inweave frontier ridge_gd n=40 d=10 steps=100 --target lsa -o sizes.svg
    """
    import inweave
    from inweave.smallest import check_figure

    if draw is not None:
        check_figure(draw)
    found = find_program(program)
    with output.stages(1) as begin, users_code(found):
        begin(f"compiling and verifying {found.name} in every way")
        made = inweave.frontier(found, **chosen(target=target, tokens=tokens), **settings(sizes))
    if draw is not None:
        made.figure(draw)
    if json:
        output.say_json(made.data | ({"file": str(draw)} if draw else {}))
        return
    output.say(made)
    if draw is not None:
        output.note(f"wrote {draw}")
