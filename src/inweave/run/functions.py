"""Pointwise functions in any arithmetic: a ReLU table, entry by entry.

`Σ_k V_k ⊙ σ(W_k ⊙ x + B_k) + C_k` is computed for all units at once where that is small, by
bisection over the knots in numpy, and by the function's own stand-in where there is no order. What
the array library has itself (a positive part, a size, a division) is one call to it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce

import numpy as np

from inweave.errors import DTypeError
from inweave.exact.arithmetic import Arithmetic
from inweave.exact.constants import Array
from inweave.model.inputs import is_concrete
from inweave.model.layers import PointwiseLayer
from inweave.model.relunet import ABS, RELU, Function, interval
from inweave.run.domains import guard, limits, nan_outside
from inweave.run.newton import Refined

MANY = 1 << 14  # entries of all units together, up to which they are computed at once


def applied(
    function: Function | Refined, rows: int, cols: int, arithmetic: Arithmetic
) -> Callable[[Array], Array]:
    """A function entry by entry, refused outside its domain where that is checked."""
    if not isinstance(function, Refined):
        return _checked(function, _table(function, rows, cols, arithmetic), arithmetic)
    table = function.table
    steps = function.after(applied(table, rows, cols, arithmetic), arithmetic)
    if not (_checks(table, arithmetic) and function.is_exact) or arithmetic.library == "jax":
        return steps
    divided = _checked(table, function.direct(arithmetic.xp), arithmetic)
    if arithmetic.library == "numpy":
        return divided
    return lambda x: divided(x) if is_concrete(x) else steps(x)


def _checks(function: Function, arithmetic: Arithmetic) -> bool:
    return arithmetic.ordered and arithmetic.checked and function.domain is not None


def _checked(
    function: Function, apply: Callable[[Array], Array], arithmetic: Arithmetic
) -> Callable[[Array], Array]:
    """What computes a function, after a look at its domain if the arithmetic checks domains."""
    if not _checks(function, arithmetic):
        return apply
    if arithmetic.library == "jax":
        from inweave.run import jax

        return jax.guarded(function, apply)
    low, high = limits(function)

    def of_numpy(x: Array) -> Array:
        if not (x.size == 1 and low <= x.item() <= high):
            guard(function, x, np)
        return apply(x)

    def guarded(x: Array) -> Array:
        if not is_concrete(x):  # inside torch.func.vmap
            return nan_outside(function, x, apply(x), arithmetic.xp)
        guard(function, x, arithmetic.xp)
        return apply(x)

    return of_numpy if arithmetic.library == "numpy" else guarded


def _table(
    function: Function, rows: int, cols: int, arithmetic: Arithmetic
) -> Callable[[Array], Array]:
    """A function by its ReLU net where there is an order, else by its stand-in."""
    if not arithmetic.ordered:
        return lambda x: arithmetic.pointwise(function, x)
    net = function.net
    if net == RELU.net:
        return _positive if arithmetic.library == "numpy" else arithmetic.relu
    if net == ABS.net:
        return abs
    units = max(net.units, 1)
    V, W, B, C = (np.zeros((units, 1, 1)) for _ in range(4))
    for array, numbers in ((V, net.outputs), (W, net.weights), (B, net.biases)):
        array[: net.units, 0, 0] = numbers
    C[0] = net.constant
    _check_room(function, max(float(np.max(np.abs(array))) for array in (V, W, B, C)), arithmetic)
    if arithmetic.library == "numpy" and function.domain and units > 8:
        return _between_knots(function)
    return _units(V, W, B, C, True, units * rows * cols, arithmetic)


def _positive(x: Array) -> Array:
    return np.maximum(x, 0)


def _between_knots(function: Function) -> Callable[[Array], Array]:
    """The same piecewise linear function by bisection over its knots: log units, not units.

    A function with a domain is flat outside its knots, as `numpy.interp` is.
    """
    net, ends = function.net, function.domain or ()
    pairs = zip(net.weights, net.biases, strict=True)
    knots = np.unique([*ends, *(-b / w for w, b in pairs if w)])
    values = net(knots)

    def apply(x: Array) -> Array:
        return np.interp(x, knots, values).astype(x.dtype, copy=False)

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
