"""A saved network on data of other sizes, where its weights allow that.

A `.inweave` file holds its program as text that is never run, and the network alone does not say
which of its sizes is n and which is d. So the program must be known: one of the gallery whose text
is word for word the file's, or one that the user names. The other size is then not assumed to work
but compiled, compared with the weights of the file, and verified.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from inweave.cli import output
from inweave.cli.sources import find_program, from_gallery, users_code
from inweave.compiler.origin import Origin
from inweave.compiler.resize import build
from inweave.errors import CompileError, InputError
from inweave.language.program import Program
from inweave.network import Network


def program_of(network: Network, named: str | None) -> Program | None:
    """The program of a saved network: named by the user, or known to be one of the gallery."""
    if named is not None:
        return find_program(named)
    if network.record is None:
        return None
    program = from_gallery(network.record.program)
    return program if program is not None and program.source == network.record.source else None


def fitted(
    source: str, network: Network, program: Program, called: str, inputs: Mapping[str, Any]
) -> Network:
    """The network for the sizes of these inputs, with the weights of the file; says so.

    `called` is what the user would call the program on the command line.
    """
    record = network.record
    if record is None:
        raise InputError(f"{source} was not compiled from a program; leave out --program")
    arrays = {name: x for name, x in inputs.items() if isinstance(x, np.ndarray)}
    sizes = program.sizes_of(arrays).items()
    other = {name: size for name, size in sizes if record.sizes.get(name) != size}
    if not other:
        return network
    asked = _listed(other)
    refused = f"the data has {asked}, {source} is for {_listed(record.sizes, other)}"
    advice = f"run the program itself, compiled for any size: inweave run {called}"
    origin = Origin(program, record.sizes, record.target, record.optimize, record.tokens)
    with users_code(program):
        if build(origin).network != network:
            raise InputError(
                f"{refused}, and {program.name!r} does not compile to this network, so it cannot "
                f"be resized; {advice}"
            )
        try:
            resized = replace(network, origin=origin).resize(**other)
        except CompileError as error:
            raise InputError(f"{refused}, and its weights depend on that; {advice}") from error
    output.note(f"resized {source} from {_listed(record.sizes, other)} to {asked}: same weights")
    return resized


def _listed(sizes: Mapping[str, Any], names: Mapping[str, Any] | None = None) -> str:
    return ", ".join(f"{name}={sizes.get(name)}" for name in names or sizes)
