"""Where a wrong network goes wrong: the first layer at which it parts from a right one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from inweave.exact.field_arithmetic import FieldArithmetic
from inweave.model.modules import Module, Part
from inweave.model.network import Network
from inweave.proof.field_check import Point, start
from inweave.run.plan import Plan


def first_layer(
    network: Network, reference: Network, arithmetic: FieldArithmetic, rng: np.random.Generator
) -> str:
    """The first layer that does something else than the reference's, in words."""
    if reference.layout != network.layout or len(reference.modules) != len(network.modules):
        return ""
    world = Point(arithmetic, rng)
    _, state = start(network, world)
    for (name, part), (_, other) in zip(
        unrolled(network.modules), unrolled(reference.modules), strict=False
    ):
        found, expected = (
            Plan(Network(network.layout, (Module((p,)),))).between(state, arithmetic)
            for p in (part, other)
        )
        for block in network.layout.names:
            if world.differ(found[block], expected[block]) is not None:
                return f"; first at {name}, which writes block {block!r}"
        state = found
    return ""


def unrolled(parts: Sequence[Part], name: str = "module") -> Iterator[tuple[str, Part]]:
    """(name, layer) for every executed layer; of a repeated module, the first few steps."""
    for i, part in enumerate(parts):
        if not isinstance(part, Module):
            yield f"{name}, layer {i}", part
        elif part.skip:
            yield f"{name} {i}", Module(part.body, 1, True)
        else:
            for t in range(min(part.repeat, 3)):
                here = f"{name} {i}" + (f", step {t}" if part.repeat != 1 else "")
                yield from unrolled(part.body, here)
