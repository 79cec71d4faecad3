"""Networks as pure functions of jax: `apply(params, **inputs)` and a tree of parameters.

`params` mirrors the network, `{"module 0": {"layer 0": {"W_Q": ...}}}`, a repeated module once,
and is all that `apply` depends on, so that `jax.jit`, `jax.grad` and `jax.vmap` apply to both
arguments. Repeated modules are `lax.fori_loop`s with a fixed number of steps: compiled once, and
differentiable in both directions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from inweave.errors import InputError
from inweave.exact.arithmetic import Floats
from inweave.model.layers import AttentionLayer, BlockPointwiseLayer, PointwiseLayer
from inweave.model.layout import Layout
from inweave.model.modules import Module, Part
from inweave.model.network import Network
from inweave.model.prompt import fill_prompt, lift, lower
from inweave.model.written import attention_weights, function_weights, pointwise_weights, region

Apply = Callable[..., Any]
Params = dict[str, Any]


def to_jax(network: Network, dtype: str | None = None) -> tuple[Apply, Params]:
    """A pure function and its parameters.

    `apply(params, H)` is the final state, `apply(params, X=X, ...)` the answer. Without `dtype` the
    parameters are in jax's own precision: float64 if `jax_enable_x64` is on, float32 otherwise.
    It is the network alone: functions are flat outside their domains, and nothing checks them;
    `net(...)` takes jax arrays too, and does.
    """
    own = jnp.zeros(()).dtype  # float64 only where jax_enable_x64 is on
    if dtype == "float64" and own != dtype:
        raise InputError(
            "jax computes in float32 unless told otherwise; for float64 call "
            "jax.config.update('jax_enable_x64', True) first, or ask for dtype='float32'"
        )
    kind = jnp.dtype(dtype) if dtype else own
    layout = network.layout
    params = {
        f"module {i}": _params(module, layout, kind) for i, module in enumerate(network.modules)
    }

    def apply(params: Params, H: Any = None, /, **inputs: Any) -> Any:
        if H is not None:
            layout.check(H)
            return _run(network, params, jnp.asarray(H))
        lifted, _ = lift(network.inputs, inputs)
        arithmetic = Floats(jnp, kind)
        lifted = {name: jnp.asarray(value, kind) for name, value in lifted.items()}
        H = _run(network, params, fill_prompt(layout, network.fills, lifted, arithmetic))
        found = {o.name: lower(o.place.read(layout, H), o.kind) for o in network.outputs}
        return found[""] if list(found) == [""] else found

    return apply, params


def _params(part: Part, layout: Layout, dtype: Any) -> Any:
    """The parameters of a part as a tree of arrays."""
    if isinstance(part, Module):
        return {_name(x, i): _params(x, layout, dtype) for i, x in enumerate(part.body)}
    if isinstance(part, AttentionLayer):
        arrays: Any = attention_weights(part, layout)
    elif isinstance(part, PointwiseLayer):
        arrays = pointwise_weights(part)
    else:
        arrays = {f"function {i}": function_weights(f) for i, (_, f) in enumerate(part.applied)}
    return jax.tree.map(lambda array: jnp.asarray(array, dtype), arrays)


def _name(part: Part, i: int) -> str:
    return f"module {i}" if isinstance(part, Module) else f"layer {i}"


def _run(network: Network, params: Params, H: Any) -> Any:
    for i, module in enumerate(network.modules):
        H = _module(module, params[f"module {i}"], H, network.layout)
    return H


def _module(module: Module, params: Params, H: Any, layout: Layout) -> Any:
    def once(_: Any, start: Any) -> Any:
        H = start
        for i, part in enumerate(module.body):
            inner = params[_name(part, i)]
            if isinstance(part, Module):
                H = _module(part, inner, H, layout)
            else:
                out = _layer(part, inner, H, layout)
                H = H + out if part.skip else out
        return start + H if module.skip else H

    if module.repeat == 1:
        return once(0, H)
    return jax.lax.fori_loop(0, module.repeat, once, H)


def _layer(layer: Any, p: Params, H: Any, layout: Layout) -> Any:
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
        net, (rows, cols) = p[f"function {i}"], region(place, layout)
        inner = H[..., rows, cols, None] * net["W"] + net["B"]
        out = out.at[..., rows, cols].set(jax.nn.relu(inner) @ net["V"] + net["C"])
    return out
