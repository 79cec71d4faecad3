"""Networks as pure functions of jax: `apply(params, **inputs)` and a tree of parameters.

`params` mirrors the network, `{"module 0": {"layer 0": {"W_Q": ...}}}`, a repeated module once,
and is all that `apply` depends on, so that `jax.jit`, `jax.grad` and `jax.vmap` apply to both
arguments. Repeated modules are `lax.fori_loop`s with a fixed number of steps: compiled once, and
differentiable in both directions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import getitem
from typing import Any

import jax
import jax.numpy as jnp

from inweave.errors import InputError
from inweave.exact.arithmetic import Floats
from inweave.model.cost import check_numbers, written
from inweave.model.inputs import accept
from inweave.model.layers import AttentionLayer, BlockPointwiseLayer, Layer, PointwiseLayer
from inweave.model.layout import Layout
from inweave.model.modules import Executor, Module, Part, named
from inweave.model.network import Network
from inweave.model.written import attention_weights, function_weights, pointwise_weights

Apply = Callable[..., Any]
Params = dict[str, Any]


def precision(dtype: str | None = None) -> str:
    """The name of a dtype; without one, that of jax's own."""
    own = str(jnp.zeros(()).dtype)  # float64 only where jax_enable_x64 is on
    if dtype == "float64" and own != dtype:
        raise InputError(
            "jax computes in float32 unless told otherwise; for float64 call "
            "jax.config.update('jax_enable_x64', True) first, or ask for dtype='float32'"
        )
    return str(jnp.dtype(dtype)) if dtype else own


def to_jax(network: Network, dtype: str | None = None) -> tuple[Apply, Params]:
    """A pure function and its parameters.

    `apply(params, H)` is the final state, `apply(params, X=X, ...)` the answer. Without `dtype` the
    parameters are in jax's own precision: float64 if `jax_enable_x64` is on, float32 otherwise.
    It is the network alone: functions are flat outside their domains, and nothing checks them;
    `net(...)` takes jax arrays too, and does.
    """
    kind = jnp.dtype(precision(dtype))
    check_numbers("net.to_jax", written(network))
    layout = network.layout
    params = {name: _params(module, layout, kind) for name, module in named(network.modules)}

    def apply(params: Params, H: Any = None, /, **inputs: Any) -> Any:
        if H is not None:
            layout.check(H)
            return JaxExecutor(layout, params).run(network.modules, jnp.asarray(H))
        taken, _ = accept(network.inputs, inputs)
        taken = {name: jnp.asarray(value, kind) for name, value in taken.items()}
        H = network.filled(taken, Floats(jnp, kind))
        return network.readout(JaxExecutor(layout, params).run(network.modules, H))

    return apply, params


def _params(part: Part, layout: Layout, dtype: Any) -> Any:
    """The parameters of a part as a tree of arrays."""
    if isinstance(part, Module):
        return {name: _params(inner, layout, dtype) for name, inner in named(part.body)}
    if isinstance(part, AttentionLayer):
        arrays: Any = attention_weights(part, layout)
    elif isinstance(part, PointwiseLayer):
        arrays = pointwise_weights(part)
    else:
        arrays = {f"function {i}": function_weights(f) for i, (_, f) in enumerate(part.applied)}
    return jax.tree.map(lambda array: jnp.asarray(array, dtype), arrays)


class JaxExecutor(Executor[Any]):
    """The layers of a network with their weights taken from a tree of parameters."""

    def __init__(self, layout: Layout, params: Params) -> None:
        self.layout, self.params = layout, params

    def layer(self, layer: Layer, state: Any, name: str) -> Any:
        own: Params = reduce(getitem, name.split(", "), self.params)
        out = _layer(layer, own, state, self.layout)
        return state + out if layer.skip else out

    def repeat(self, module: Module, state: Any, name: str) -> Any:
        if module.repeat == 1:
            return self.step(module, state, name)
        return jax.lax.fori_loop(0, module.repeat, lambda _, H: self.step(module, H, name), state)


def _layer(layer: Layer, p: Params, H: Any, layout: Layout) -> Any:
    if isinstance(layer, AttentionLayer):
        q, k, v = (_project(p, letter, H) for letter in "QKV")
        kv = jnp.einsum("...htd,...hte->...hde", k, v)
        return jnp.einsum("...htd,...hde->...te", q, kv)
    if isinstance(layer, PointwiseLayer):
        inner = H[..., None, :, :] * p["W"] + p["B"]
        outer = jax.nn.relu(inner) if layer.activation == "relu" else inner
        return jnp.sum(p["V"] * outer + p["C"], -3)
    return _applied(layer, p, H, layout)


def _project(p: Params, letter: str, H: Any) -> Any:
    """`H W + B` for every head, (..., heads, tokens, width)."""
    out = H[..., None, :, :] @ p[f"W_{letter}"]
    return out + p[f"B_{letter}"] if f"B_{letter}" in p else out


def _applied(layer: BlockPointwiseLayer, p: Params, H: Any, layout: Layout) -> Any:
    out = H
    for i, (place, _) in enumerate(layer.applied):
        net, (rows, cols) = p[f"function {i}"], place.region(layout)
        inner = H[..., rows, cols, None] * net["W"] + net["B"]
        out = out.at[..., rows, cols].set(jax.nn.relu(inner) @ net["V"] + net["C"])
    return out
