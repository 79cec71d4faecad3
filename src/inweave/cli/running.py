"""What `inweave run` does: tables in, a network that fits them, answers out.

`inweave explore --data` shows the same network on the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from inweave.cli import output, tables
from inweave.cli.fill import Filled, Tables, fill
from inweave.cli.resize import fitted, program_of
from inweave.cli.show import report
from inweave.cli.sources import compiled, find, only_for_programs, settings
from inweave.errors import DivergenceError, InputError
from inweave.language.program import Program
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
