"""What a network's answers are compared with: a reference from the user, or its program's value.

A value fits an output if their shapes are the same but for axes of length one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from inweave.errors import BlockError, InputError, InweaveError, ShapeError
from inweave.explore.prompts import real
from inweave.explore.shown import Made, Shown
from inweave.model.inputs import accept
from inweave.model.network import Network
from inweave.model.prompt import Output, by_name, numbered
from inweave.proof.cost import program_work

MOST_WORK = (2_000_000, 10**10)  # operations and products of a program that is run: seconds

Answer = tuple[str, dict[str, np.ndarray[Any, Any]]]


def references(
    shown: Mapping[str, Shown], inputs: Mapping[str, dict[str, Any] | None], given: Any
) -> dict[str, Answer | None]:
    """What each network's answers should be: as given, or the program's own value on the data.

    A program's value also serves the networks without a program whose outputs it fits.
    """
    if given is not None:
        return given_references({name: one.network for name, one in shown.items()}, given)
    own = {name: program_value(one.made, inputs[name]) for name, one in shown.items()}
    shared = next((found for found in own.values() if found is not None), None)
    return {name: _fitting(own[name] or shared, one.network) for name, one in shown.items()}


def given_references(networks: Mapping[str, Network], given: Any) -> dict[str, Answer | None]:
    """A reference that the user gave, by output or for the only one: all of it must fit."""
    one = "the reference"
    known = {output.name for net in networks.values() for output in net.outputs}
    several = any(numbered([output.name for output in net.outputs]) for net in networks.values())
    named = by_name(given) if several else given
    wanted = (
        {str(k): real(f"{one} for {str(k)!r}", v) for k, v in named.items()}
        if isinstance(named, Mapping)
        else {"": real(one, named)}
    )
    if not known:
        raise InputError("a reference needs an answer to compare with; no output is named here")
    names = ", ".join(repr(name) for name in sorted(known))
    out: dict[str, Answer | None] = {}
    used = set()
    for name, net in networks.items():
        kept = {}
        for output in net.outputs:
            key = output.name
            if key not in wanted and len(wanted) == len(net.outputs) == 1:
                [only] = wanted
                if only == "" or (key == "" and only not in known):
                    key = only
            if key not in wanted:
                continue
            used.add(key)
            shape, found = _shape(output), wanted[key]
            if not _alike(found.shape, shape):
                said = f"the answer of {name}" + (f", {output.name!r}," if output.name else "")
                raise ShapeError(
                    f"the reference has shape {found.shape}, but {said} has shape {shape}"
                )
            kept[output.name] = found.astype(float).reshape(shape)
        out[name] = ("given by the user", kept) if kept else None
    unused = [key for key in wanted if key not in used]
    if unused == [""]:
        raise BlockError(f"give the reference by output, as a mapping; the outputs are {names}")
    if unused:
        raise BlockError(
            f"the reference names {', '.join(map(repr, unused))}; the outputs are {names}"
        )
    return out


def program_value(made: Made | None, inputs: dict[str, Any] | None) -> Answer | None:
    """The value of a network's program on the same data, where it does not take long."""
    if made is None or made.traced is None or inputs is None:
        return None
    work = program_work(made.traced)
    if any(found > most for found, most in zip(work, MOST_WORK, strict=True)):
        return None
    try:
        with np.errstate(all="ignore"):
            found = made.traced.evaluate(*accept(made.traced.inputs, inputs))
    except InweaveError:
        return None
    return f"program {made.program}, evaluated directly", {
        name: np.asarray(value, float) for name, value in found.items()
    }


def _shape(output: Output) -> tuple[int, int]:
    return (1, 1) if output.place.diagonal else (output.place.rows, output.place.cols)


def _alike(given: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether two shapes are the same but for axes of length one."""
    return [n for n in given if n != 1] == [n for n in shape if n != 1]


def _fitting(answer: Answer | None, network: Network) -> Answer | None:
    """The part of a program's value that a network's outputs can be compared with."""
    if answer is None:
        return None
    source, named = answer
    kept = {}
    for output in network.outputs:
        found = named.get(output.name)
        if found is None and len(named) == len(network.outputs) == 1:
            found = next(iter(named.values()))
        if found is not None and _alike(found.shape, _shape(output)):
            kept[output.name] = found.reshape(_shape(output))
    return (source, kept) if kept else None
