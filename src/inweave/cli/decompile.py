"""`inweave decompile`: a network as the source of a program."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from inweave.cli import output
from inweave.cli.options import Mode, Sizes, Source, Target, check_seconds
from inweave.cli.show import network_of
from inweave.cli.sources import chosen


def decompile(
    source: Source,
    /,
    *sizes: Sizes,
    target: Target = None,
    optimize: Mode = None,
    seconds: Annotated[
        float, Parameter(help="That reading may take, and comparing at random points again, about.")
    ] = 60.0,
) -> None:
    """Read a network back as a program: Python source, proved equal to the network.

    It is read from the weights alone: of a .inweave file, the program that it may hold is not
    looked at. A network that cannot be read, or whose source is not proved, is refused.

    For example:

        inweave decompile ridge.inweave

        inweave decompile ridge_gd n=40 d=10 steps=100 --optimize speed
    """
    import inweave

    check_seconds(seconds)
    network = network_of(source, sizes, chosen(target=target, optimize=optimize))
    output.say(inweave.decompile(network, seconds=seconds).rstrip("\n"))
