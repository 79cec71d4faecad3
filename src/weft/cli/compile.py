"""`weft compile`: a program in, a `.weft` file out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from weft.cli import output
from weft.cli.options import OUTPUT, Json, Mode, Sizes, Target
from weft.cli.show import report
from weft.cli.sources import compiled, find_program, settings
from weft.errors import InputError


def compile_command(
    program: Annotated[str, Parameter(help="FILE.py:NAME, or a name from `weft gallery`.")],
    /,
    *sizes: Sizes,
    target: Target = "elsa",
    optimize: Mode = "faithful",
    save_as: Annotated[
        Path | None, OUTPUT, Parameter(help="Write the network to this .weft file.")
    ] = None,
    json: Json = False,
) -> None:
    """Compile a program into a network and verify it.

    For example:

        weft compile ridge.py:ridge_gd n=40 d=10 steps=100 -o ridge.weft

        weft compile ridge.py:ridge_gd n=40 d=10 steps=729 --optimize depth
    """
    if save_as is not None and save_as.suffix != ".weft":
        raise InputError(f"networks are stored in .weft files; got {save_as}")
    found = find_program(program)
    network = compiled(found, target=target, optimize=optimize, sizes=settings(sizes))
    if save_as is not None:
        network.save(save_as)
    if json:
        output.say_json(report(network) | ({"file": str(save_as)} if save_as else {}))
        return
    output.say(network)
    if save_as is not None:
        output.note(f"wrote {save_as}")
