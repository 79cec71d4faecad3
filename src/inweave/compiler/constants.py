"""Pass, for LSA: the constants that ELSA keeps in its biases become blocks of the prompt.

One identity serves every piece of an identity, one column of ones every matrix of ones; any other
constant has a block of its own. After this pass no head reads anything but blocks.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace

from inweave.compiler.given import Given
from inweave.compiler.layers import (
    Allocation,
    ConstantLeaf,
    HeadSpec,
    Item,
    Key,
    LayerSpec,
    Slot,
    layers,
    rewritten,
)
from inweave.compiler.options import Options
from inweave.exact.constants import Constant, Ones, Shift, identity
from inweave.model.prompt import Fill, Place


def constants(allocation: Allocation, options: Options) -> Allocation:
    wanted = _wanted(allocation)
    blocks, where = dict(allocation.blocks), dict(allocation.where)
    fills, added = list(allocation.fills), []
    keys: dict[Constant, Key] = {}
    for constant in wanted:
        if options.given is not None:
            name, held = _held(constant, options.given)
        else:
            name, held = _free_name(constant, blocks), constant
            fills.append(Fill(Place(name, held.rows, held.cols), constant=held))
            added.append(f"{name} ({held.rows} x {held.cols}): {_why(held)}")
        blocks[name] = Slot(held.rows, held.cols)
        keys[constant] = key = Key(ConstantLeaf(name, held.rows, held.cols, held), False)
        where[key] = name
    made = rewritten(allocation.parts, lambda layer: _layer(layer, keys))
    return replace(
        allocation, parts=made, blocks=blocks, where=where, fills=tuple(fills), added=tuple(added)
    )


def _wanted(allocation: Allocation) -> list[Constant]:
    """The constants that need blocks, a large enough identity first."""
    size, others = 0, dict[Constant, None]()
    for layer in layers(allocation.parts):
        for item in (item for head in layer.heads for item in head.items):
            k = item.constant
            if item.key is not None or k is None:
                continue
            if isinstance(k, Shift):
                size = max(size, k.row + k.size)
            else:
                others[Ones(k.rows, 1) if isinstance(k, Ones) else k] = None
    return [*([identity(size)] if size else []), *others]


def _layer(layer: LayerSpec, keys: Mapping[Constant, Key]) -> LayerSpec:
    heads = tuple(
        HeadSpec(
            tuple(_item(item, keys) for item in head.query),
            tuple(_item(item, keys) for item in head.key),
            tuple((dest, _item(item, keys)) for dest, item in head.values),
        )
        for head in layer.heads
    )
    return replace(layer, heads=heads)


def _item(item: Item, keys: Mapping[Constant, Key]) -> Item:
    """The item with its constant read from a block."""
    k = item.constant
    if item.key is not None or k is None:
        return item
    if isinstance(k, Shift):
        key = next(key for constant, key in keys.items() if constant.is_identity())
        return Item(item.coefficient, key, Shift(key.value.cols, k.cols, k.row, k.col, k.size))
    if isinstance(k, Ones):
        return Item(item.coefficient, keys[Ones(k.rows, 1)], Ones(1, k.cols))
    return Item(item.coefficient, keys[k])


def _held(k: Constant, given: Given) -> tuple[str, Constant]:
    """The block of a user's layout that holds a constant, or a larger identity."""
    for fill in given.fills:
        held = fill.constant
        if held is None or fill.scale or (fill.place.row, fill.place.col) != (0, 0):
            continue
        if held == k or (k.is_identity() and held.is_identity() and held.rows >= k.rows):
            return fill.place.block, held
    raise given.missing(f"the constant {k!r}", k.rows, k.cols)


def _free_name(k: Constant, used: Mapping[str, Slot]) -> str:
    base = "I" if k.is_identity() else "1" if isinstance(k, Ones) else "F"
    names = itertools.chain([base], (f"{base}{n}" for n in itertools.count(2)))
    return next(name for name in names if name not in used)


def _why(k: Constant) -> str:
    if k.is_identity():
        return "an identity, to copy, transpose and multiply two matrices"
    return "ones" if isinstance(k, Ones) else "a constant of the program"
