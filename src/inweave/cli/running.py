"""What `inweave run` does: tables in, a network that fits them, answers out.

`inweave explore --data` shows the same network on the same numbers.

A saved network runs on data of other sizes where its weights allow that. A `.inweave` file holds
its program at the file's own sizes, as data, and its text, which is never run: neither can be
recorded at other sizes. So the program itself must be at hand: one of the gallery whose text is
word for word the file's, or one that the user names and that is recorded as the file has it. The
other size is then not assumed to work but compiled, compared with the file's weights, and verified.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from inweave.cli import output, tables
from inweave.cli.fill import Filled, Tables, fill
from inweave.cli.show import report
from inweave.cli.sources import (
    compiled,
    find,
    find_program,
    from_gallery,
    only_for_programs,
    settings,
    users_code,
)
from inweave.compiler.origin import Origin
from inweave.compiler.resize import build
from inweave.errors import CompileError, DivergenceError, InputError
from inweave.files.network_file import Record
from inweave.language.program import Program
from inweave.language.recorded import Recorded
from inweave.model.cost import executed
from inweave.model.prompt import by_name
from inweave.network import Network

LONGEST = 1.0  # hours that a command may take unasked,
LAYER, FLOP = 5e-6, 1e-9  # with so many seconds for a layer and for an operation, about


def answer(
    source: str,
    values: Sequence[str],
    said: Tables,
    program: str | None,
    options: Mapping[str, Any],
    save_as: Path | None,
    json: bool,
) -> None:
    """Answer the queries of tables with the network of a source, and write or print that."""
    if save_as is not None:
        tables.check_writable(save_as)
    network, filled = prepared(source, values, said, program, options)
    _check_cost(network, filled.queries or 1)
    answers = filled.finish(answers_of(network, spread(network, filled.inputs)))
    if save_as is not None:
        tables.write(save_as, answers)
        output.note(f"wrote {save_as}")
    if json:
        output.say_json({"network": report(network), "answers": answers})
    elif save_as is None:
        with output.spoken() as stream:
            tables.csv_rows(stream, answers)


def prepared(
    source: str,
    values: Sequence[str],
    said: Tables,
    program: str | None,
    options: Mapping[str, Any],
) -> tuple[Network, Filled]:
    """The network of a source that fits the tables, and what they fill in."""
    found = find(source)
    given = settings(values)
    statics = {k: given.pop(k) for k in list(given) if _is_static(found, k)}
    if isinstance(found, Network):
        only_for_programs(source, options)
        known = program_of(source, found, program)
    else:
        known = found
        if program is not None:
            raise InputError("--program goes with a .inweave file; here the source is a program")
    filled = fill(known or found, given, said)
    network = found
    if isinstance(network, Network):
        if known is not None:
            network = fitted(source, network, known, program or known.name, filled.inputs)
    else:
        arrays = {k: v for k, v in filled.inputs.items() if isinstance(v, np.ndarray)}
        sizes = network.sizes_of(arrays)
        for name, value in statics.items():
            if sizes.setdefault(name, value) != value:
                raise InputError(f"{name}={value}, but the data has {name} = {sizes[name]}")
        network = compiled(network, sizes, options)
    return network, filled


def _is_static(source: Program | Network, name: str) -> bool:
    return isinstance(source, Program) and (name in source.statics or name in source.size_names)


def _check_cost(network: Network, queries: int) -> None:
    """Refuse what would not end while anybody waits, before it begins."""
    layers = executed(network)
    hours = (layers * LAYER + network.plan.flops * queries * FLOP) / 3600
    if hours > LONGEST:
        raise InputError(
            f"running this network would take {hours:,.0f} hours or so: it executes {layers:,} "
            "layers; take fewer steps, compile for --optimize depth, or call it in Python, where "
            "it may take as long as it takes"
        )


def answers_of(network: Network, inputs: dict[str, Any]) -> Any:
    """What the network answers; infinities are not handed out as predictions."""
    advice = "take a smaller step size, or scale the data with --standardize"
    try:
        with np.errstate(all="ignore"):
            answers = network(**inputs)
    except DivergenceError as error:
        said = str(error).removesuffix("; check=False returns it as it is")
        raise DivergenceError(f"the iteration diverged: {said}; {advice}") from error
    for value in by_name(answers).values():
        if not np.isfinite(value).all():
            raise DivergenceError(f"the answers are not finite; {advice}")
    return answers


def spread(network: Network, inputs: dict[str, Any]) -> dict[str, Any]:
    """A number given for a vector or matrix fills all of it."""
    shapes = {spec.name: spec.shape for spec in network.inputs}
    return {
        name: np.full(shapes[name], float(value)) if isinstance(value, (int, float)) else value
        for name, value in inputs.items()
    }


# -- other sizes -----------------------------------------------------------------------------------
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
