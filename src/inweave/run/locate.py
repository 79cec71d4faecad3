"""Where a domain was left: the plan is run once more, its functions named after their layers.

The plan that answers has no layers: equal values are one, and what a loop does not change is
computed before it. So the network is planned again with every pointwise function marked by its
layer and block, which keeps the work the same and tells equal functions apart, and its lines are
followed one by one, counting the steps of loops. This costs what a call costs, not what the dense
prompt would. It happens only after a domain was left, and the marked plan is kept for the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from inweave.errors import DomainError
from inweave.exact.arithmetic import Floats
from inweave.exact.constants import Array
from inweave.model.layers import BlockPointwiseLayer, Layer
from inweave.model.network import Network
from inweave.model.prompt import Place
from inweave.model.relunet import Function
from inweave.run.checks import OutOfDomain
from inweave.run.execute import Bound, operations
from inweave.run.lower import Code, Line


@dataclass(frozen=True)
class Marked(Function):
    """A function that knows the layer and the place where it is applied."""

    path: str = ""  # such as 'module 0, step {}, layer 1'
    place: Place | None = None

    def at(self, steps: list[int]) -> str:
        """Its layer in words, given the steps of the loops it is computed in.

        Those are the outermost ones; what an inner loop does not change belongs to its step 0.
        """
        block = f", block {self.place.block!r}" if self.place else ""
        return self.path.format(*steps, *[0] * self.path.count("{}")) + block


def marked(network: Network) -> Network:
    """The same network with its functions marked."""
    modules = tuple(m.map(_marked, f"module {i}") for i, m in enumerate(network.modules))
    return Network(network.layout, modules, network.inputs, network.fills, network.outputs)


def _marked(layer: Layer, name: str) -> Layer:
    if not isinstance(layer, BlockPointwiseLayer):
        return layer
    applied = [
        (place, Marked(**{f.name: getattr(function, f.name) for f in fields(function)},
                       path=name, place=place))
        for place, function in layer.applied
    ]  # fmt: skip
    return replace(layer, applied=tuple(applied))


def located(
    bound: Bound,
    given: Mapping[Any, Array],
    arithmetic: Floats,
    met: OutOfDomain | None = None,
) -> DomainError | None:
    """The error for the user: which value, which layer, which domain, from marked code.

    None if no domain was left; what a call has `met` is reported in any case.
    """
    found, where = _first(bound, given, arithmetic)
    found = found or met
    if found is None or found.function.domain is None:
        return None
    function, (low, high) = found.function, found.function.domain
    hint = "widen the domain in the program" if function.relative is False or found.value > 0 else (
        "the system is singular or not positive definite, or the domain does not fit the data"
    )  # fmt: skip
    return DomainError(
        f"{function.name} got {found.value:.6g}{where}; its domain is [{low:g}, {high:g}]: {hint}, "
        "or call with check=False to see what the network does there"
    )


def _first(
    bound: Bound, given: Mapping[Any, Array], arithmetic: Floats
) -> tuple[OutOfDomain | None, str]:
    """The first function of marked code that meets a value outside its domain, and where."""
    slots, steps = bound.slots.copy(), list[int]()
    for name, slot in bound.lowered.sources.items():
        slots[slot] = given[name]
    try:
        with np.errstate(all="ignore"):
            _follow(bound.lowered.code, slots, operations(arithmetic), steps)
    except OutOfDomain as found:
        function = found.function
        return found, f" at {function.at(steps)}" if isinstance(function, Marked) else ""
    return None, ""


def _follow(code: Code, slots: list[Any], calls: Mapping[str, Any], steps: list[int]) -> None:
    """Run lines one by one; `steps` are those of the loops around the line that is running."""
    for line in code:
        if isinstance(line, Line):
            slots[line.out] = calls[line.op](slots[line.a], slots[line.b])
            continue
        values = [slots[slot] for slot in line.inits]
        steps.append(0)
        for steps[-1] in range(line.repeat):
            for phi, value in zip(line.phis, values, strict=True):
                slots[phi] = value
            _follow(line.body, slots, calls, steps)
            values = [slots[slot] for slot in line.nexts]
        steps.pop()
        for phi, value in zip(line.phis, values, strict=True):
            slots[phi] = value
