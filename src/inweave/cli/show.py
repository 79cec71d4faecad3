"""`inweave show`: a network in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import inweave
from inweave.cli import output
from inweave.cli.options import Json, Mode, Sizes, Source, Target
from inweave.cli.sources import chosen, compiled, find, only_for_programs, settings
from inweave.errors import InputError

if TYPE_CHECKING:
    from inweave.network import Network


def show(
    source: Source,
    /,
    *sizes: Sizes,
    target: Target = None,
    optimize: Mode = None,
    json: Json = False,
) -> None:
    """Print a network: its prompt, its layers as matrix products, and its certificate.

    Of a .inweave file, the program that it holds, too: what `inweave verify` checks it against.

    For example:

        inweave show ridge.inweave

        inweave show ridge_gd n=40 d=10 steps=100 --json
    """
    network = network_of(source, sizes, chosen(target=target, optimize=optimize))
    if json:
        output.say_json(report(network))
        return
    tell(network)


def tell(network: Network) -> None:
    """A network and, if it has one, its certificate, or the file's claim of one."""
    from inweave.text.program import spelled

    output.say(network)
    if network.proved is not None:
        output.say(f"\n{network.proved}")
    if network.stored_program is not None:
        output.say(f"\nthe program that the file holds:\n{spelled(network.stored_program)}")
    elif network.origin is None:
        output.say("\nthe file holds no program")


def network_of(source: str, sizes: tuple[str, ...], options: Mapping[str, Any]) -> Network:
    """The network of a file, or of a program compiled at these sizes."""
    found = find(source)
    if not isinstance(found, inweave.Network):
        return compiled(found, settings(sizes), options)
    if sizes:
        raise InputError(f"{source} has its sizes already; leave out {' '.join(sizes)}")
    only_for_programs(source, options)
    return found


def report(network: Network) -> dict[str, Any]:
    """What a program would want to know of a network."""
    from inweave.text.network import facts
    from inweave.text.program import spelled

    stored = network.stored_program
    said = {} if stored is None else {"program": spelled(stored).splitlines()}
    return facts(network, network.proved, network.known_degree()) | said
