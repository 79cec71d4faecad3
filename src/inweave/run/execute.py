"""Running lines in any arithmetic.

A line's function is looked up once per library, so that running it is one call of the library's own
operator. Loops are the one thing libraries differ in: numpy steps through preallocated arrays
(`buffers`), jax stages a `fori_loop`, everything else repeats the body.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from typing import Any

import numpy as np

from inweave.errors import DTypeError
from inweave.exact.arithmetic import Arithmetic, Floats, Rationals
from inweave.exact.constants import Array, zeros
from inweave.model.inputs import is_concrete
from inweave.model.layers import PointwiseLayer
from inweave.model.relunet import Function
from inweave.run import buffers
from inweave.run.checks import guard, nan_outside
from inweave.run.lower import Code, Line, Loop, Lowered

Step = Callable[[list[Any]], None]


class Bound:
    """Lowered code with its constants written out in one arithmetic."""

    def __init__(self, lowered: Lowered, arithmetic: Arithmetic) -> None:
        self.lowered, self.arithmetic = lowered, arithmetic
        self.library = library(arithmetic)
        self.slots: list[Any] = [None] * lowered.slots
        with _outside_tracing(self.library):
            for slot, (kind, content) in lowered.fixed.items():
                self.slots[slot] = _fixed(kind, content, arithmetic)
        functions = operations(arithmetic)
        self._batched = self._plain = self._steps(lowered.code, functions)
        if self.library == "numpy":
            single = functions | {"matmul": np.dot, "concat": np.concatenate}
            self._plain = self._steps(lowered.code, single, batched=False)
            self._batched = self._steps(lowered.code, functions | {"matmul": buffers.product})
        self._run = self._straight
        if self.library == "jax":
            from inweave.run import jax

            self._run = jax.staged(self._straight)

    def run(self, sources: Mapping[Any, Array]) -> list[Array]:
        """The outputs; sources are given by name."""
        return self._run([sources[name] for name in self.lowered.sources])

    def _straight(self, arrays: Sequence[Array]) -> list[Array]:
        slots = self.slots.copy()
        batched = False
        for slot, array in zip(self.lowered.sources.values(), arrays, strict=True):
            slots[slot] = array
            batched = batched or len(array.shape) > 2
        for step in self._batched if batched else self._plain:
            step(slots)
        return [slots[slot] for slot in self.lowered.outputs]

    # -- from lines to calls ----------------------------------------------------------------------
    def _steps(self, code: Code, functions: Mapping[str, Any], batched: bool = True) -> list[Step]:
        """Stretches of lines between loops, and the loops."""
        steps: list[Step] = []
        stretch: list[tuple[Any, int, int, int]] = []
        for line in code:
            if isinstance(line, Line):
                if not stretch:
                    steps.append(_stretch(stretch))
                stretch.append((functions[line.op], line.a, line.b, line.out))
            else:
                stretch = []
                body = self._steps(line.body, functions, batched)
                steps.append(self._loop(line, body, batched))
        return steps

    def _loop(self, loop: Loop, body: list[Step], batched: bool) -> Step:
        if self.library == "jax":
            from inweave.run import jax

            return jax.loop(loop, body)
        if self.library == "numpy" and buffers.can_run(loop):
            return lambda slots: buffers.run(loop, slots, batched)
        return _repeated(loop, body)


def _outside_tracing(library: str) -> AbstractContextManager[Any]:
    """Constants are kept for later calls, so they must not belong to a trace that is under way."""
    if library != "jax":
        return nullcontext()
    import jax

    return jax.ensure_compile_time_eval()


def library(arithmetic: Arithmetic) -> str:
    """'numpy' or 'jax' where there is a faster way than repeating lines, '' otherwise."""
    if isinstance(arithmetic, Floats):
        name = arithmetic.xp.__name__
        if name.endswith("numpy"):
            return "jax" if name.startswith("jax") else "numpy"
    return ""


def _stretch(lines: list[tuple[Any, int, int, int]]) -> Step:
    def step(slots: list[Any]) -> None:
        for function, a, b, out in lines:
            slots[out] = function(slots[a], slots[b])

    return step


def _repeated(loop: Loop, body: list[Step]) -> Step:
    phis, inits, nexts = loop.phis, loop.inits, loop.nexts

    def step(slots: list[Any]) -> None:
        values = [slots[i] for i in inits]
        for _ in range(loop.repeat):
            for phi, value in zip(phis, values, strict=True):
                slots[phi] = value
            for part in body:
                part(slots)
            values = [slots[i] for i in nexts]
        for phi, value in zip(phis, values, strict=True):
            slots[phi] = value

    return step


# -- what lines call ------------------------------------------------------------------------------
def operations(arithmetic: Arithmetic) -> dict[str, Any]:
    """The functions of two slots that lines name."""
    return {
        "matmul": operator.matmul,
        "mul": operator.mul,
        "add": operator.add,
        "sub": operator.sub,
        "getitem": operator.getitem,
        "flip": lambda x, _: x.mT,
        "one": lambda x, _: (x,),
        "more": lambda held, x: (*held, x),
        "concat": arithmetic.concat,
        "pointwise": lambda x, function: function(x),
    }


def _fixed(kind: str, content: Any, arithmetic: Arithmetic) -> Any:
    if kind == "number":
        return arithmetic.number(content)
    if kind == "const":
        if content == zeros(*content.shape):
            return arithmetic.zeros(content.shape)
        return arithmetic.array(content.entries())
    if kind == "index":
        top, bottom, left, right = content
        return (..., slice(top, bottom), slice(left, right))
    if kind == "layer":
        return _layer(content, arithmetic)
    if kind == "function":
        function, rows, cols = content
        return _function(function, rows, cols, arithmetic)
    return content


MANY = 1 << 14  # entries of all units together, up to which they are computed at once


def _function(
    function: Function, rows: int, cols: int, arithmetic: Arithmetic
) -> Callable[[Array], Array]:
    """A function entry by entry: by its ReLU net where there is an order, else by its stand-in."""
    if not isinstance(arithmetic, (Floats, Rationals)):
        return lambda x: arithmetic.pointwise(function, x)
    net = function.net
    units = max(net.units, 1)
    V, W, B, C = (np.zeros((units, 1, 1)) for _ in range(4))
    for array, numbers in ((V, net.outputs), (W, net.weights), (B, net.biases)):
        array[: net.units, 0, 0] = numbers
    C[0] = net.constant
    if isinstance(arithmetic, Floats):
        _check_room(
            function, max(float(np.max(np.abs(array))) for array in (V, W, B, C)), arithmetic
        )
    apply = _units(V, W, B, C, True, units * rows * cols, arithmetic)
    if isinstance(arithmetic, Floats) and arithmetic.xp is np and function.domain and units > 8:
        apply = _between_knots(function)
    if not (isinstance(arithmetic, Floats) and arithmetic.checked and function.domain):
        return apply
    if library(arithmetic) == "jax":
        from inweave.run import jax

        return jax.guarded(function, apply)

    def guarded(x: Array) -> Array:
        if not is_concrete(x):  # inside torch.func.vmap
            return nan_outside(function, x, apply(x), arithmetic.xp)
        guard(function, x, arithmetic.xp)
        return apply(x)

    return guarded


def _between_knots(function: Function) -> Callable[[Array], Array]:
    """The same piecewise linear function by bisection over its knots: log units, not units.

    A function with a domain is flat outside its knots, as `numpy.interp` is.
    """
    net = function.net
    pairs = zip(net.weights, net.biases, strict=True)
    knots = np.unique([-b / w for w, b in pairs if w])
    values = net(knots)

    def apply(x: Array) -> Array:
        return np.interp(x, knots, values).astype(x.dtype, copy=False)

    return apply


def _check_room(function: Function, largest: float, arithmetic: Floats) -> None:
    """Weights that the dtype cannot hold would turn into infinities, and answers into NaN."""
    if largest > float(arithmetic.xp.finfo(arithmetic.dtype).max):
        over = (
            ""
            if function.domain is None
            else f" over [{function.domain[0]:g}, {function.domain[1]:g}]"
        )
        raise DTypeError(
            f"{function.name}{over} has weights up to {largest:.1e}, more than {arithmetic.dtype} "
            "holds; use float64, or a narrower domain in the program"
        )


def _layer(layer: PointwiseLayer, arithmetic: Arithmetic) -> Callable[[Array], Array]:
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
        return V * (_relu(inner, arithmetic) if relu else inner) + C

    if isinstance(arithmetic, Floats) and size <= MANY:
        xp, arrays = arithmetic.xp, [arithmetic.array(array) for array in (V, W, B, C)]
        return lambda x: xp.sum(unit(xp.expand_dims(x, axis=-3), *arrays), axis=-3)

    units = [tuple(map(arithmetic.array, one)) for one in zip(V, W, B, C, strict=True)]
    return lambda x: reduce(operator.add, (unit(x, *one) for one in units))


def _relu(x: Array, arithmetic: Arithmetic) -> Array:
    where = arithmetic.xp.where if isinstance(arithmetic, Floats) else np.where
    return where(x > 0, x, x * 0)
