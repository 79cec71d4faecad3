"""Single changes of everything that a network is made of, one after the other.

A network is a tree of frozen data. For each kind of node there is one function that yields the
names of its fields with other values; what holds a sequence also loses, repeats and exchanges its
parts. Two changes at once are drawn at random: one may undo the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from inweave.errors import InweaveError
from inweave.exact.constants import Constant, Dense, Ones, Shift, zeros
from inweave.model.layers import AttentionLayer, BlockPointwiseLayer, Head
from inweave.model.layout import Block, Layout
from inweave.model.modules import Module
from inweave.model.projection import Piece, Projection
from inweave.model.prompt import HALF, Fill, Input, Output, Place
from inweave.model.relunet import Function, ReluNet
from inweave.network import Network

Path = tuple[Any, ...]  # field names and indices, from the network down
Change = tuple[str, Any]  # the name of a field, and another value

PARTS = ("layout", "modules", "fills", "inputs", "outputs")
PRIME = 2**31 - 1  # may be drawn as the modulus of a trial
LITTLE = Fraction(1, 2**40)  # far below what a table or a float would show
SEQUENCES = {
    Layout: ("blocks",), Module: ("body",), AttentionLayer: ("heads",),
    BlockPointwiseLayer: ("applied",), Projection: ("pieces",),
}  # fmt: skip


class Lost(Exception):
    """The second of two changes has no place any more."""


@dataclass(frozen=True)
class Mutant:
    """What stands elsewhere in a network, and where."""

    changes: tuple[tuple[Path, Any], ...]
    text: str


def mutants(network: Network) -> Iterator[Mutant]:
    """Every single change."""
    for part in PARTS:
        held = getattr(network, part)
        for path, node in walk(held, (part,)):
            for name, value in changes(network, node):
                said = f"{type(node).__name__}.{name}: {getattr(node, name)!r} to {value!r}"
                yield Mutant((((*path, name), value),), said)
            for name in SEQUENCES.get(type(node), ()):
                for text, value in arranged(getattr(node, name)):
                    yield Mutant((((*path, name), value),), f"{type(node).__name__}.{name}: {text}")
        if isinstance(held, tuple):
            for text, value in arranged(held):
                yield Mutant((((part,), value),), f"Network.{part}: {text}")


def pairs(network: Network, count: int, seed: int = 0) -> Iterator[Mutant]:
    """Two changes at once, drawn at random."""
    single, rng = list(mutants(network)), np.random.default_rng(seed)
    for i, j in rng.integers(len(single), size=(count, 2)):
        a, b = single[i], single[j]
        yield Mutant((*a.changes, *b.changes), f"{a.text}; {b.text}")


def walk(node: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Every dataclass below a node, with the way to it."""
    if isinstance(node, tuple):
        for i, inner in enumerate(node):
            yield from walk(inner, (*path, i))
    elif is_dataclass(node):
        yield path, node
        for f in fields(node):
            yield from walk(getattr(node, f.name), (*path, f.name))


def arranged(held: tuple[Any, ...]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """A sequence that lacks a part, has one twice, or has two exchanged."""
    for i in range(len(held)):
        yield f"without {i}", held[:i] + held[i + 1 :]
        yield f"{i} twice", (*held[: i + 1], *held[i:])
        if i:
            yield f"{i} before {i - 1}", (*held[: i - 1], held[i], held[i - 1], *held[i + 1 :])


def built(network: Network, mutant: Mutant) -> Network | None:
    """The changed network; None if a network refuses to be so."""
    try:
        for path, value in mutant.changes:
            network = apply(network, path, value)
    except (InweaveError, Lost):
        return None
    return network


def apply(node: Any, path: Path, value: Any) -> Any:
    """A copy of a node with the value at a path replaced."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if not (step < len(node) if isinstance(node, tuple) else hasattr(node, str(step))):
        raise Lost
    if isinstance(node, tuple):
        return (*node[:step], apply(node[step], rest, value), *node[step + 1 :])
    return replace(node, **{step: apply(getattr(node, step), rest, value)})


# -- the changes of each kind of node --------------------------------------------------------------
def changes(network: Network, node: Any) -> Iterator[Change]:
    """Every field of a node with other values, but for what stands below it."""
    found = KINDS.get(type(node))
    if found is not None:
        yield from found(network, node)


def stepped(node: Any, *names: str) -> Iterator[Change]:
    """Numbers that are one more, and one less."""
    for name in names:
        for step in (-1, 1):
            yield name, getattr(node, name) + step


def elsewhere(network: Network, node: Any) -> Iterator[Change]:
    """Another block."""
    for block in network.layout:
        if block.name != node.block:
            yield "block", block.name


def coefficients(c: Fraction) -> Iterator[Change]:
    for value in (c + 1, -c, Fraction(0), c + LITTLE, c + PRIME, c / 2):
        yield "coefficient", value


def of_piece(network: Network, node: Piece) -> Iterator[Change]:
    yield from coefficients(node.coefficient)
    yield from stepped(node, "at")
    yield from elsewhere(network, node)
    yield "block", None
    for matrix in other_constants(node.matrix):
        yield "matrix", matrix


def other_constants(constant: Constant) -> Iterator[Constant]:
    if isinstance(constant, Dense):
        for i, j in np.ndindex(*constant.shape):
            for step in (1, float(LITTLE)):
                array = np.array(constant.array)
                array[i, j] += step
                yield Dense(array)
    elif isinstance(constant, Ones):
        yield Shift(*constant.shape, 0, 0, min(constant.shape))
    yield constant.T
    yield zeros(*constant.shape)


def of_shift(_network: Network, node: Shift) -> Iterator[Change]:
    yield from stepped(node, "row", "col", "size")


def of_place(network: Network, node: Place) -> Iterator[Change]:
    yield from stepped(node, "row", "col", "diagonal", "rows", "cols")
    yield "transpose", not node.transpose
    yield from elsewhere(network, node)


def of_fill(network: Network, node: Fill) -> Iterator[Change]:
    yield from coefficients(node.coefficient)
    for spec in network.inputs:
        if node.source is not None and spec.name != node.source:
            yield "source", spec.name
        yield "scale", (*node.scale, (spec.name, Fraction(1)))
    if node.scale:
        yield "scale", node.scale[1:]
        (name, power), rest = node.scale[0], node.scale[1:]
        yield "scale", ((name, Fraction(1) if power == HALF else HALF), *rest)
    if node.constant is not None:
        for constant in other_constants(node.constant):
            yield "constant", constant


def of_input(_network: Network, node: Input) -> Iterator[Change]:
    yield from named(node)
    for sign in ("nonnegative", "positive"):
        yield "sign", sign
    for name in ("rows", "cols"):
        yield name, getattr(node, name) + 1


def of_output(_network: Network, node: Output) -> Iterator[Change]:
    yield from named(node)


def named(node: Input | Output) -> Iterator[Change]:
    yield "name", node.name + "_"
    for kind in ("scalar", "vector", "matrix"):
        if kind != node.kind:
            yield "kind", kind


def of_block(_network: Network, node: Block) -> Iterator[Change]:
    yield "name", node.name + "_"
    yield from stepped(node, "rows", "cols", "start")


def of_layout(_network: Network, node: Layout) -> Iterator[Change]:
    yield from stepped(node, "tokens")


def of_table(_network: Network, node: ReluNet) -> Iterator[Change]:
    yield "constant", node.constant + 0.25
    for name in ("weights", "biases", "outputs"):
        numbers = getattr(node, name)
        for k in range(len(numbers)):
            for number in (numbers[k] + 1.0, -numbers[k], 0.0):
                yield name, (*numbers[:k], number, *numbers[k + 1 :])


def of_function(_network: Network, node: Function) -> Iterator[Change]:
    yield "net", ReluNet((1.0,), (0.0,), (0.0,), 0.0)
    yield "is_reciprocal", not node.is_reciprocal
    if node.domain is not None:
        yield "domain", (node.domain[0] / 2, node.domain[1] * 2)


def of_module(_network: Network, node: Module) -> Iterator[Change]:
    yield from stepped(node, "repeat")
    yield "skip", not node.skip
    if node.carries:  # says how to verify, not what to compute
        yield "carries", ()
        yield "carries", node.carries[1:]
        yield "carries", node.carries[::-1]


def of_head(_network: Network, node: Head) -> Iterator[Change]:
    for name, other in (("query", "value"), ("key", "query"), ("value", "key"), ("query", "key")):
        yield name, getattr(node, other)


def of_layer(_network: Network, node: AttentionLayer | BlockPointwiseLayer) -> Iterator[Change]:
    yield "skip", not node.skip


KINDS: dict[type, Callable[[Network, Any], Iterator[Change]]] = {
    Piece: of_piece, Shift: of_shift, Place: of_place, Fill: of_fill, Input: of_input,
    Output: of_output, Block: of_block, Layout: of_layout, ReluNet: of_table,
    Function: of_function, Module: of_module, Head: of_head, AttentionLayer: of_layer,
    BlockPointwiseLayer: of_layer,
}  # fmt: skip
