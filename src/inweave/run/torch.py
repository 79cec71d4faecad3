"""Calls that torch.compile traces: one node of its graph per call, which the backend looks into.

The tracer would follow every line of Python down to exact fractions. It need not: `answers` stands
in its graph as it is, and is run once more, with placeholders for tensors, by whoever turns the
graph into operations. There no value is known, so what needs one is left out or becomes NaN, as
inside torch.func.vmap; constants belong to that run and are not kept.

A graph holds tensors and numbers, no networks, so a network is named there by its `id`. Asking for
that makes torch trace again when another network is called from the same line.
"""

from __future__ import annotations

from typing import Any

import torch

from inweave.exact.arithmetic import tracing
from inweave.model.inputs import accept
from inweave.model.network import Network
from inweave.model.prompt import of_kind
from inweave.run.plan import Plan

torch.compiler.assume_constant_result(Network.keep)  # type: ignore[no-untyped-call]


@torch.compiler.allow_in_graph  # type: ignore[untyped-decorator]
def answers(network: int, names: tuple[str, ...], check: bool, *values: Any) -> tuple[Any, ...]:
    """The answers of a network, in order, to inputs of these names."""
    plan: Plan = Network.kept[network].plan  # type: ignore[attr-defined]
    specs, outputs = plan.network.inputs, plan.network.outputs
    with tracing():
        arrays, arithmetic = accept(specs, dict(zip(names, values, strict=True)))
        arithmetic.checked = check
        found = plan.in_batch(arrays, arithmetic)
        return tuple(of_kind(found[output.name], output.kind) for output in outputs)
