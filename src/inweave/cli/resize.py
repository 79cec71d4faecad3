"""A saved network on data of other sizes, where its weights allow that.

A `.inweave` file holds its program at the file's own sizes, as data, and its text, which is never
run: neither can be recorded at other sizes. So the program itself must be at hand: one of the
gallery whose text is word for word the file's, or one that the user names and that is recorded as
the file has it. The other size is then not assumed to work but compiled, compared with the weights
of the file, and verified.
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
from inweave.files.network_file import Record
from inweave.language.program import Program
from inweave.language.recorded import Recorded
from inweave.network import Network


def program_of(source: str, network: Network, named: str | None) -> Program | None:
    """The program of a saved network: named by the user, or known to be one of the gallery."""
    record = network.record
    if named is None:
        program = None if record is None else from_gallery(record.program)
        return program if record and program and program.source == record.source else None
    if record is None:
        raise InputError(f"{source} was not compiled from a program; leave out --program")
    program = find_program(named)
    if not _is_recorded(program, record):
        raise InputError(
            f"{named} is not the program of {source}, which is {record.program!r} as `inweave show "
            f"{source}` prints it; name that one, or leave out --program"
        )
    return program


def _is_recorded(program: Program, record: Record) -> bool:
    """Whether a program, recorded at the sizes of a file, is what the file holds."""
    if {*record.sizes} != {*program.size_names, *program.statics}:
        return False
    with users_code(program):
        return Recorded.of(program.trace(**record.sizes)) == record.graph


def fitted(
    source: str, network: Network, program: Program, called: str, inputs: Mapping[str, Any]
) -> Network:
    """The network for the sizes of these inputs, with the weights of the file; says so.

    `called` is what the user would call the program on the command line.
    """
    record = network.record
    assert record is not None
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
