"""Pointwise functions in any arithmetic: a ReLU table, entry by entry.

`Σ_k V_k ⊙ σ(W_k ⊙ x + B_k) + C_k` is computed for all units at once where that is small, looked up
where there are many (`tables`), and by the function's own stand-in where there is no order. What
the array library has itself (a positive part, a size, a division) is one call to it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from inweave.errors import DTypeError
from inweave.exact.arithmetic import Arithmetic
from inweave.exact.constants import Array
from inweave.model.inputs import is_concrete
from inweave.model.layers import PointwiseLayer
from inweave.model.relunet import ABS, RELU, Function, ReluNet, interval
from inweave.run.domains import guard, limits, nan_outside
from inweave.run.libraries import slopes, tables
from inweave.run.libraries.compiled import interp
from inweave.run.libraries.slopes import Slope
from inweave.run.libraries.tables import FEW, Table
from inweave.run.values.newton import STEPS, Refined

MANY = 1 << 14  # entries of all units together, up to which they are computed at once


class Formula(NamedTuple):
    """A function of a float in Python: an expression of the name {x}, and what {f}_... names."""

    text: str
    names: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class InNumpy:
    """A function of numpy arrays, apart from the look at its domain, which loops take afterwards.

    `into` computes it into another array, `small` a small array, where that is quicker; `formula`
    says the same, bit for bit, of one number in double precision.
    """

    apply: Callable[[Array], Array]
    into: Callable[[Array, Array], Any]
    guarded: Function | None = None
    dtype: Any = None
    small: Callable[[Array], Array] | None = None
    formula: Formula | None = None

    def __call__(self, x: Array) -> Array:
        self.look(x)
        return self.apply(x)

    def look(self, x: Array) -> None:
        """Refuse arguments outside the domain."""
        if self.guarded is not None and x.size:
            low, high = self.limits
            if x.size <= FEW:  # numpy is quicker to say where the least of a few is than what
                flat = x.ravel()
                least, most = flat.item(flat.argmin()), flat.item(flat.argmax())
            else:
                least, most = np.minimum.reduce(x, axis=None), np.maximum.reduce(x, axis=None)
            if not (low <= least and most <= high):
                guard(self.guarded, x, np)

    @cached_property
    def limits(self) -> tuple[float, float]:
        assert self.guarded is not None
        return limits(self.guarded, self.dtype)

    @classmethod
    def copied(cls, apply: Callable[[Array], Array]) -> InNumpy:
        """A function that makes an array of its own."""
        return cls(apply, lambda x, out: np.copyto(out, apply(x)))


def applied(
    function: Function | Refined | Slope, rows: int, cols: int, arithmetic: Arithmetic
) -> Callable[[Array], Array]:
    """A function entry by entry, refused outside its domain where that is checked."""
    if isinstance(function, Slope):
        return slopes.applied(function, lambda f: _table(f, rows, cols, arithmetic), arithmetic)
    if isinstance(function, Refined) and function.is_inside:
        return function.direct(arithmetic.xp)
    if not isinstance(function, Refined):
        return _checked(function, _table(function, rows, cols, arithmetic), arithmetic)
    table = function.table
    directly = _checks(table, arithmetic) and function.is_exact
    if arithmetic.library == "numpy":
        in_steps = _in_steps(function, rows, cols, arithmetic)  # refused where it has no room
        root = ROOT if function.degree == 3 else INVERSE
        return _checked(table, root if directly else in_steps, arithmetic)
    steps = function.after(applied(table, rows, cols, arithmetic), arithmetic)
    if not directly:
        return steps
    return _checked(table, function.direct(arithmetic.xp), arithmetic, steps)


def _in_steps(function: Refined, rows: int, cols: int, arithmetic: Arithmetic) -> InNumpy:
    """Newton's steps after a table of numpy."""
    table = _table(function.table, rows, cols, arithmetic)
    steps = InNumpy.copied(function.after(table, arithmetic))
    found = getattr(table, "formula", None)
    if found is None:
        return steps
    text, (plus, minus) = found.text, map(float, STEPS[function.degree][:2])
    for _ in range(function.steps):
        product = "{f}_r * {x}" + " * {f}_r" * (function.degree - 1)
        text = f"({{f}}_r := {text}) * {plus!r} + {product} * {minus!r}"
    return replace(steps, formula=Formula(text, found.names))


def _checks(function: Function, arithmetic: Arithmetic) -> bool:
    return arithmetic.ordered and arithmetic.checked and function.domain is not None


def _checked(
    function: Function,
    apply: Callable[[Array], Array],
    arithmetic: Arithmetic,
    unseen: Callable[[Array], Array] | None = None,
) -> Callable[[Array], Array]:
    """What computes a function, after a look at its domain if the arithmetic checks domains.

    Where no value can be seen, `unseen` does, or `apply` with NaN outside the domain.
    """
    if not _checks(function, arithmetic):
        return apply
    if arithmetic.library == "jax":
        from inweave.run.libraries import jax

        return jax.guarded(function, apply)
    if arithmetic.library == "numpy":
        known = apply if isinstance(apply, InNumpy) else InNumpy.copied(apply)
        return replace(known, guarded=function, dtype=arithmetic.dtype)

    low, high = limits(function, arithmetic.dtype)
    in_torch = arithmetic.library == "torch"

    def guarded(x: Array) -> Array:
        if not is_concrete(x):  # inside torch.func.vmap
            if unseen is not None:
                return unseen(x)
            return nan_outside(function, apply, x, arithmetic.xp)
        if not (in_torch and x.numel() == 1 and low <= x.item() <= high):
            guard(function, x, arithmetic.xp)
        return apply(x)

    return guarded


def _table(
    function: Function, rows: int, cols: int, arithmetic: Arithmetic
) -> Callable[[Array], Array]:
    """A function by its ReLU net where there is an order, else by its stand-in."""
    if not arithmetic.ordered:
        return lambda x: arithmetic.pointwise(function, x)
    net = function.net
    if net == RELU.net:
        if arithmetic.library == "torch":
            return arithmetic.xp.relu  # type: ignore[no-any-return]
        return POSITIVE if arithmetic.library == "numpy" else arithmetic.relu
    if net == ABS.net:
        return SIZE if arithmetic.library == "numpy" else abs
    if not arithmetic.exact and (threshold := _threshold(net)) is not None:
        return _towards_zero(threshold, arithmetic)
    units = max(net.units, 1)
    V, W, B, C = (np.zeros((units, 1, 1)) for _ in range(4))
    for array, numbers in ((V, net.outputs), (W, net.weights), (B, net.biases)):
        array[: net.units, 0, 0] = numbers
    C[0] = net.constant
    _check_room(function, max(float(np.max(np.abs(array))) for array in (V, W, B, C)), arithmetic)
    if function.domain and units > 8:
        if arithmetic.library == "numpy":
            return _looked_up(Table.of(function), arithmetic)
        if arithmetic.library == "jax":
            return tables.in_jax(Table.of(function), arithmetic)
        if arithmetic.library == "torch":
            return _in_segments(function, arithmetic)
    return _units(V, W, B, C, True, units * rows * cols, arithmetic)


def _threshold(net: ReluNet) -> float | None:
    """t, if a net is `relu(x - t) - relu(-x - t)`: towards zero by t."""
    if net.units != 2 or net.constant != 0 or net.biases[0] != net.biases[1]:
        return None
    ends = {(float(v), float(w)) for v, w in zip(net.outputs, net.weights, strict=True)}
    t = -float(net.biases[0])
    return t if ends == {(1.0, 1.0), (-1.0, -1.0)} and t >= 0 else None


def _towards_zero(t: float, arithmetic: Arithmetic) -> Callable[[Array], Array]:
    """x less what is between -t and t of it: what the two units add up to, to the last digit."""
    if arithmetic.library != "numpy":
        return lambda x: x - arithmetic.xp.clip(x, -t, t)

    def into(x: Array, out: Array | None = None) -> Array:
        between = np.minimum(x, t)
        np.maximum(between, -t, out=between)
        return np.subtract(x, between, out=between if out is None else out)

    formula = (
        f"{{x}} - {t!r} if {{x}} > {t!r} else {{x}} + {t!r} if {{x}} < -{t!r} else {{x}} - {{x}}"
    )
    return InNumpy(into, into, formula=Formula(formula))


def _inverse(x: Array, out: Array | None = None) -> Array:
    """By a division, which numpy does for several numbers at once: half of a reciprocal's time."""
    return np.divide(1.0, x, out) if x.size > FEW else np.reciprocal(x, out)


def _inverse_root(x: Array, out: Array | None = None) -> Array:
    out = np.sqrt(x, out)
    return _inverse(out, out)


POSITIVE = InNumpy(
    lambda x: np.maximum(x, 0),
    lambda x, out: np.maximum(x, 0, out=out),
    formula=Formula("0.0 if {x} <= 0.0 else {x}"),
)
SIZE = InNumpy(np.absolute, np.absolute, formula=Formula("abs({x})"))
# Both only where the domain is looked at, which is of positive numbers.
INVERSE = InNumpy(_inverse, _inverse, formula=Formula("1.0 / {x}"))
ROOT = InNumpy(_inverse_root, _inverse_root, formula=Formula("1.0 / sqrt({x})"))


def _looked_up(table: Table, arithmetic: Arithmetic) -> InNumpy:
    into = tables.in_numpy(table)

    def apply(x: Array) -> Array:
        out = np.empty(x.shape, x.dtype)
        into(x, out)
        return out

    double = arithmetic.dtype == np.float64
    small = partial(interp, xp=table.knots, fp=table.values) if double else None
    return InNumpy(apply, into, small=small, formula=_of_a_number(table) if double else None)


def _of_a_number(table: Table) -> Formula | None:
    """The line between the two knots beside a number, which is moved to the ends if beyond."""
    if not np.isfinite(table.slopes).all():
        return None
    low, high = float(table.knots[0]), float(table.knots[-1])
    inside = f"{low!r} if {{x}} < {low!r} else {high!r} if {{x}} > {high!r} else {{x}}"
    text = (
        f"{{f}}_rises[{{f}}_at := bisect({{f}}_knots, {{f}}_x := {inside}) - 1] * "
        "({f}_x - {f}_knots[{f}_at]) + {f}_values[{f}_at]"
    )
    numbers = {"knots": table.knots, "values": table.values, "rises": table.slopes}
    return Formula(text, {name: array.tolist() for name, array in numbers.items()})


def _in_segments(function: Function, arithmetic: Arithmetic) -> Callable[[Array], Array]:
    """The same in other libraries, where it can be differentiated: a line for every segment."""
    table, xp = Table.of(function), arithmetic.xp
    knots, values = table.knots, table.values
    slopes = np.concatenate([[0.0], np.diff(values) / np.diff(knots), [0.0]])
    tables = (
        knots,
        np.concatenate([knots[:1], knots]),
        np.concatenate([values[:1], values]),
        slopes,
    )
    ends, starts, firsts, rises = (arithmetic.array(table) for table in tables)

    def apply(x: Array) -> Array:
        at = xp.searchsorted(ends, x.contiguous() if hasattr(x, "contiguous") else x)
        return firsts[at] + rises[at] * (x - starts[at])

    return apply


def _check_room(function: Function, largest: float, arithmetic: Arithmetic) -> None:
    """Weights that the dtype cannot hold would turn into infinities, and answers into NaN."""
    if largest > arithmetic.largest:
        over = "" if function.domain is None else f" over {interval(function.domain)}"
        raise DTypeError(
            f"{function.name}{over} has weights up to {largest:.1e}, more than {arithmetic.dtype} "
            "holds; use float64, or a narrower domain in the program"
        )


def layer(layer: PointwiseLayer, arithmetic: Arithmetic) -> Callable[[Array], Array]:
    """A pointwise layer without the units that have no effect."""
    pairs = zip(layer.V, layer.C, strict=True)
    kept = np.array([np.any(V != 0) or np.any(C != 0) for V, C in pairs], dtype=bool)
    V, W, B, C = (array[kept] for array in (layer.V, layer.W, layer.B, layer.C))
    return _units(V, W, B, C, layer.activation == "relu", V.size, arithmetic)


def _units(
    V: Array, W: Array, B: Array, C: Array, relu: bool, size: int, arithmetic: Arithmetic
) -> Callable[[Array], Array]:
    """`Σ_k V_k ⊙ σ(W_k ⊙ x + B_k) + C_k`, in this order."""

    def unit(x: Array, V: Array, W: Array, B: Array, C: Array) -> Array:
        inner = W * x + B
        return V * (arithmetic.relu(inner) if relu else inner) + C

    if arithmetic.xp is not None and size <= MANY:
        xp, arrays = arithmetic.xp, [arithmetic.array(array) for array in (V, W, B, C)]
        return lambda x: xp.sum(unit(xp.expand_dims(x, axis=-3), *arrays), axis=-3)

    units = [tuple(map(arithmetic.array, one)) for one in zip(V, W, B, C, strict=True)]
    return lambda x: reduce(operator.add, (unit(x, *one) for one in units))
