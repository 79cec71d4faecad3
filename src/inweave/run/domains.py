"""Domains of pointwise functions: outside its own a ReLU table is flat, and that is not silent.

Arguments are looked at while the functions are applied. Where one left its domain is said by
running once more, because the plan that answers has no layers: equal values are one, and what a
loop does not change is computed before it. So the network is planned again with every pointwise
function marked by its layer and block, which keeps the work the same and tells equal functions
apart, and its lines are followed one by one, counting the steps of loops. This costs what a call
costs, not what the dense prompt would, and happens only after a domain was left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from inweave.errors import DomainError
from inweave.exact.constants import Array
from inweave.model.inputs import is_concrete
from inweave.model.layers import BlockPointwiseLayer, Layer
from inweave.model.network import Network
from inweave.model.prompt import Place
from inweave.model.relunet import Function, digits, interval

# Relative to the domain's ends, by dtype: rounding may carry a value just over them.
SLACK = {"float64": 1e-9} | {name: 8 * float(np.finfo(name).eps) for name in ("float32", "float16")}


class OutOfDomain(Exception):
    """A function met a value outside its domain."""

    def __init__(self, function: Function, value: float) -> None:
        super().__init__(function.name)
        self.function, self.value = function, value


def limits(function: Function, dtype: Any) -> tuple[float, float]:
    """What a function accepts: its domain, and what rounding in a dtype may add to it.

    Both are numbers of the dtype, so that all who compare with them find the same.
    """
    if function.domain is None:
        return -math.inf, math.inf
    name = getattr(dtype, "__name__", str(dtype).rpartition(".")[2])
    name = name if name in SLACK else "float64"
    (low, high), slack = function.domain, SLACK[name]
    return _inside(low - slack * abs(low), 1, name), _inside(high + slack * abs(high), -1, name)


def _inside(end: float, side: int, dtype: str) -> float:
    """The end of an interval, rounded to the side of its inside."""
    kind = np.dtype(dtype).type
    with np.errstate(over="ignore"):
        found = kind(end)
    if (float(found) - end) * side < 0:
        found = np.nextafter(found, kind(side * np.inf))
    return float(found)


def guard(function: Function, x: Array, xp: Any) -> None:
    """Raise OutOfDomain if any entry lies outside the function's domain."""
    if function.domain is None or not is_concrete(x) or math.prod(x.shape) == 0:
        return
    low, high = limits(function, x.dtype)
    x = x.detach() if hasattr(x, "detach") else x
    least, most = xp.min(x), xp.max(x)
    if not is_concrete(least):  # a constant of the network inside jax.jit, whose values are known
        x = np.asarray(x)
        least, most = np.min(x), np.max(x)
    least, most = float(least), float(most)
    if not least >= low:
        raise OutOfDomain(function, least)
    if not most <= high:
        raise OutOfDomain(function, most)


def nan_outside(function: Function, apply: Callable[[Array], Array], x: Array, xp: Any) -> Array:
    """What computes a function, applied; NaN where a problem has any entry outside the domain.

    For where nothing can be raised. The whole matrix becomes NaN and not that entry alone: a good
    answer then means that no function left its domain, which is what is checked elsewhere. NaN is
    a factor before and after, so that the gradient there is NaN too: that of `where` is zero.
    """
    low, high = limits(function, x.dtype)
    inside = xp.all(
        xp.all((x >= low) & (x <= high), axis=-1, keepdims=True), axis=-2, keepdims=True
    )
    one, nan = (xp.asarray(number, dtype=x.dtype) for number in (1.0, math.nan))
    factor = xp.where(inside, one, nan)
    return factor * apply(factor * x)


# -- where -----------------------------------------------------------------------------------------
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
    n = network
    return Network(n.layout, modules, n.inputs, n.fills, n.outputs, n.embedding)


def _marked(layer: Layer, name: str) -> Layer:
    if not isinstance(layer, BlockPointwiseLayer):
        return layer
    applied = [
        (place, Marked(**{f.name: getattr(function, f.name) for f in fields(function)},
                       path=name, place=place))
        for place, function in layer.applied
    ]  # fmt: skip
    return replace(layer, applied=tuple(applied))


def refusal(left: OutOfDomain, steps: list[int]) -> DomainError:
    """The error for the user: which value, which layer, which domain."""
    function = left.function
    where = f" at {function.at(steps)}" if isinstance(function, Marked) else ""
    hint = "widen the domain in the program"
    if not function.error:
        hint = "beyond it, it is not what the program means"
    elif function.domain and function.domain[0] > 0 and not left.value > 0:
        hint = (
            "the system is singular or not positive definite, or the domain does not fit the data"
        )
    return DomainError(
        f"{function.name} got {digits(left.value)}{where}; its domain is "
        f"{interval(function.domain)}: {hint}, "
        "or call with check=False to see what the network does there"
    )
