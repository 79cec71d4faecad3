"""Modules: layers in sequence, tied over steps, and the one walk over them.

`walk`, `map` and `executed` go over a module as it is stored. `Executor` goes over it as it runs,
and is the one place that says what `repeat` and `skip` mean: whoever carries a state through a
network (full matrices, jax, an ONNX graph) says what a layer does to it, and nothing of modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from inweave.exact.schema import Count
from inweave.exact.whole import whole
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
        object.__setattr__(self, "repeat", whole("repeat", self.repeat, 0))

    def walk(self) -> Iterator[Layer | Module]:
        """This module and every part inside it, in order; those of a repeated module once."""
        yield self
        for part in self.body:
            if isinstance(part, Module):
                yield from part.walk()
            else:
                yield part

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers as stored."""
        return tuple(part for part in self.walk() if not isinstance(part, Module))

    def map(self, change: Callable[[Layer, str], Layer], name: str = "module") -> Module:
        """The same module of other layers; `change` gets each with its name (see `named`)."""
        at = stepped(self, name, "{}")
        return replace(
            self,
            body=tuple(
                part.map(change, inner) if isinstance(part, Module) else change(part, inner)
                for inner, part in named(self.body, at)
            ),
        )

    def executed(self, kind: Any = AttentionLayer) -> int:
        """How many layers of a kind run when this module runs."""
        return self.repeat * sum(
            part.executed(kind) if isinstance(part, Module) else isinstance(part, kind)
            for part in self.body
        )

    def check(self, layout: Layout, what: str) -> None:
        for i, part in enumerate(self.body):
            part.check(layout, f"{what}.{i}")
        for places in self.carries:
            for place in places:
                place.check(layout, f"{what}, carried value")


Part = Layer | Module


def loops_of(modules: Iterable[Module]) -> list[Module]:
    """The modules among some, and inside them, that say what they carry."""
    parts = (part for module in modules for part in module.walk())
    return [part for part in parts if isinstance(part, Module) and part.carries]


def named(
    parts: Iterable[Part], outside: str = "", between: str = ", "
) -> Iterator[tuple[str, Part]]:
    """Parts with their names: 'module 0', or 'module 0, layer 1' inside of it."""
    for i, part in enumerate(parts):
        own = f"module {i}" if isinstance(part, Module) else f"layer {i}"
        yield f"{outside}{between}{own}" if outside else own, part


def named_layers(parts: Iterable[Part], outside: str = "") -> Iterator[tuple[str, Layer]]:
    """The layers as stored, each with its name."""
    for name, part in named(parts, outside):
        if isinstance(part, Module):
            yield from named_layers(part.body, name)
        else:
            yield name, part


def stepped(module: Module, name: str, step: int | str) -> str:
    """The name of one step of a module: only where there are steps it says which."""
    return name if module.repeat == 1 else f"{name}, step {step}"


State = TypeVar("State")


class Executor(Generic[State]):
    """Carries a state through parts of a network; what a layer does to it, a subclass says."""

    between = ", "  # names of parts, from the outside in

    def layer(self, layer: Layer, state: State, name: str) -> State:
        """The state after a layer, its skip included."""
        raise NotImplementedError

    def plus(self, before: State, after: State, name: str) -> State:
        """The skip around a module."""
        return before + after  # type: ignore[operator,no-any-return]

    def repeat(self, module: Module, state: State, name: str) -> State:
        """The state after all steps of a module."""
        for t in range(module.repeat):
            state = self.step(module, state, stepped(module, name, t))
        return state

    def step(self, module: Module, state: State, name: str) -> State:
        after = self.run(module.body, state, name)
        return self.plus(state, after, name) if module.skip else after

    def run(self, parts: Iterable[Part], state: State, outside: str = "") -> State:
        """The state after some parts, such as the modules of a network."""
        for name, part in named(parts, outside, self.between):
            if isinstance(part, Module):
                state = self.repeat(part, state, name)
            else:
                state = self.layer(part, state, name)
        return state
