"""Modules: layers in sequence, tied over steps, and the one walk over them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from inweave.errors import InputError
from inweave.exact.schema import Count
from inweave.model.layers import AttentionLayer, Layer
from inweave.model.layout import Layout
from inweave.model.prompt import Place


@dataclass(frozen=True)
class Module:
    """Layers in sequence, optionally with one skip around them, repeated with tied weights.

    `carries` names what a repeated module updates: for each value that the loop carries, the places
    where it stands. Verification uses it to check one step instead of all of them.
    """

    body: tuple[Layer | Module, ...]
    repeat: Count = 1
    skip: bool = False
    carries: tuple[tuple[Place, ...], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "body", tuple(self.body))
        if not isinstance(self.repeat, int) or isinstance(self.repeat, bool) or self.repeat < 0:
            raise InputError(f"repeat must be a non-negative int, got {self.repeat!r}")

    def check(self, layout: Layout, what: str) -> None:
        for i, part in enumerate(self.body):
            part.check(layout, f"{what}.{i}")
        for places in self.carries:
            for place in places:
                place.check(layout, f"{what}, carried value")


Part = Layer | Module


def layers_of(part: Part) -> Iterator[Layer]:
    """The layers of a part as stored: those of a repeated module once."""
    if isinstance(part, Module):
        for inner in part.body:
            yield from layers_of(inner)
    else:
        yield part


def executed(part: Part) -> int:
    """How many attention layers run when a part runs."""
    if isinstance(part, Module):
        return part.repeat * sum(executed(inner) for inner in part.body)
    return int(isinstance(part, AttentionLayer))
