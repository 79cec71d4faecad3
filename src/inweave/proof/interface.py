"""What a program and a network take and answer: names, kinds and shapes are part of the claim."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inweave.errors import VerificationError
from inweave.language.program import Program, Traced
from inweave.model.network import Network


def sizes_for(program: Program, network: Network, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """The sizes of a program that a network's inputs show, and those given."""
    found = dict(sizes)
    for spec in network.inputs:
        kind = program.arguments.get(spec.name)
        if kind is None:
            continue
        for size, value in zip(kind.sizes, (spec.rows, spec.cols), strict=False):
            if isinstance(size, str):
                found.setdefault(size, value)
    return found


def compatible(name: str, traced: Traced, network: Network) -> None:
    """Refuse a network whose inputs or answers are not the program's, by name, kind and shape."""
    taken = {spec.name: _said(spec.kind, spec.rows, spec.cols) for spec in network.inputs}
    wanted = {spec.name: _said(spec.kind, spec.rows, spec.cols) for spec in traced.inputs}
    given = {o.name: _said(o.kind, *o.place.value_shape) for o in network.outputs}
    owed = {key: _said(traced.kinds[key], *x.shape) for key, x in traced.outputs.items()}
    for verb, theirs, ours in (("takes", wanted, taken), ("answers", owed, given)):
        if theirs != ours or (verb == "answers" and list(theirs) != list(ours)):
            raise VerificationError(
                f"program {name!r} {verb} {_listed(theirs)}; the network {verb} {_listed(ours)}"
            )


def _said(kind: str, rows: int, cols: int) -> str:
    return {"scalar": "a scalar", "vector": f"a vector of {rows}"}.get(
        kind, f"a {rows} x {cols} matrix"
    )


def _listed(values: Mapping[str, str]) -> str:
    named = [f"{name} ({what})" if name else what for name, what in values.items()]
    return ", ".join(named) or "nothing"


def conditions(traced: Traced, network: Network) -> list[str]:
    """Where equality is claimed, if not everywhere: signs that the network asks of its inputs."""
    free = {spec.name for spec in traced.inputs if spec.sign == "any"}
    return [
        f"for {spec.sign} {spec.name}"
        for spec in network.inputs
        if spec.sign != "any" and spec.name in free
    ]
