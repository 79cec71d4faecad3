"""Networks whose weights do not know how many examples there are.

When tokens are examples and no projection holds a constant as long as the examples, the same
weights serve any number of them. That is not assumed but seen: the program is compiled at the other
size, and its modules must be equal, piece by piece.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from weft.errors import CompileError, InputError, WeftError
from weft.network import Module, Network, Part


def same_weights(network: Network, sizes: dict[str, Any]) -> Network | None:
    """The network at other sizes if its weights are the same, otherwise None."""
    from weft.compiler import rebuild

    origin = network.origin
    if origin is None:
        return None
    try:
        other = rebuild(replace(origin, sizes={**origin.sizes, **sizes}))
    except WeftError:
        return None
    return other if _weights(other.modules) == _weights(network.modules) else None


def _weights(parts: tuple[Part, ...]) -> list[Any]:
    """Layers, repeats and skips, without the heights of what is carried."""
    return [
        (part.repeat, part.skip, _weights(part.body)) if isinstance(part, Module) else part
        for part in parts
    ]


def resize(network: Network, sizes: dict[str, Any]) -> Network:
    """The same weights at another size, verified there."""
    from weft.compiler import certified

    if network.origin is None:
        raise InputError("only compiled networks can be resized")
    unknown = [name for name in sizes if name not in network.origin.program.size_names]
    if unknown:
        known = ", ".join(network.origin.program.size_names)
        raise InputError(f"unknown sizes {', '.join(unknown)}; the program has {known}")
    other = same_weights(network, sizes)
    if other is None:
        said = ", ".join(f"{name}={value}" for name, value in sizes.items())
        raise CompileError(f"the weights depend on the size, so {said} needs a new compilation")
    return certified(other)
