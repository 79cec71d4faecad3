"""Copies of a step that are not tied, and where they differ: why they are no loop.

Whether modules that are built alike were meant as one step, nobody can say. What can be read of
them comes back as one step after the other, proved like any other program. Where it cannot be read,
it helps to know which weights keep them from being one module that is repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from inweave.model.layers import PARTS, AttentionLayer
from inweave.model.modules import Module
from inweave.model.network import Network

FEW = 3  # places that are named


def differences(network: Network) -> str:
    """Where modules that are built alike differ from the first of them, in words; '' if nowhere."""
    for _, alike in groupby(enumerate(network.modules), key=lambda pair: _built(pair[1])):
        (at, step), *copies = alike
        apart = [f"{where} of module {i}" for i, copy in copies for where in _apart(step, copy)]
        if apart:
            more = f" and {len(apart) - FEW} more" * (len(apart) > FEW)
            return (
                f"module {at} and the {len(copies)} after it are built alike, but are no loop: "
                f"unlike in module {at} are {', '.join(apart[:FEW])}{more}"
            )
    return ""


def _built(module: Module) -> object:
    """What copies of a step have in common."""
    heads = (len(x.heads) if isinstance(x, AttentionLayer) else None for x in module.layers)
    return module.repeat, module.skip, tuple(heads)


def _apart(step: Module, copy: Module) -> Iterator[str]:
    for i, (a, b) in enumerate(zip(step.layers, copy.layers, strict=True)):
        if isinstance(a, AttentionLayer) and isinstance(b, AttentionLayer):
            for k, (x, y) in enumerate(zip(a.heads, b.heads, strict=True)):
                names = [name for name in PARTS if getattr(x, name) != getattr(y, name)]
                if names:
                    yield f"the {' and '.join(names)} of head {k} in layer {i}"
        elif a != b:
            yield f"the functions of layer {i}"
