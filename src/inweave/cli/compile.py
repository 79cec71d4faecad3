"""`inweave compile`: a program in, a `.inweave` file out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from inweave.cli import output
from inweave.cli.options import OUTPUT, Json, Mode, Sizes, Target
from inweave.cli.show import report
from inweave.cli.sources import chosen, compiled, find_program, settings


def compile(
    program: Annotated[str, Parameter(help="FILE.py:NAME, or a name from `inweave gallery`.")],
    /,
    *sizes: Sizes,
    target: Target = None,
    optimize: Mode = None,
    save_as: Annotated[
        Path | None, OUTPUT, Parameter(help="Write the network to this .inweave file.")
    ] = None,
    json: Json = False,
) -> None:
    """Compile a program into a network and verify it.

    For example:

        inweave compile ridge_gd n=40 d=10 steps=729 --optimize depth

        inweave compile examples/ridge.py:ridge n=40 d=10 steps=100 -o ridge.inweave
    """
    from inweave.files.network_file import check_name

    if save_as is not None:
        check_name(save_as)
    found = find_program(program)
    network = compiled(found, settings(sizes), chosen(target=target, optimize=optimize))
    if save_as is not None:
        network.save(save_as)
    if json:
        output.say_json(report(network) | ({"file": str(save_as)} if save_as else {}))
        return
    output.say(network)
    if save_as is not None:
        output.note(f"wrote {save_as}")
