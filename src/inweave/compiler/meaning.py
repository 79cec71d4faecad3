"""What the compiler's representations mean: their answers at one point, in any arithmetic.

Each is evaluated as it stands, step by step, knowing nothing of how it was made. So two of them can
be compared, and a pass that changes an answer is found by its name (see `inweave.proof.passes`).
What the last of them means, the network, is defined in `inweave.model.dense`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from inweave.compiler.forms import (
    AppliedLeaf,
    DefinedLeaf,
    Form,
    GivenLeaf,
    InputLeaf,
    LoopForm,
    Node,
    Product,
    ResultLeaf,
    Scope,
    Written,
    by_parent,
    ordered,
)
from inweave.compiler.layers import (
    Allocation,
    HeadSpec,
    Item,
    Key,
    LayerSpec,
    LoopSpec,
    Part,
    Schedule,
    layers,
)
from inweave.exact.arithmetic import Arithmetic, bordered, matrix, times
from inweave.exact.constants import Array, added
from inweave.language.program import Traced
from inweave.model.layout import Layout
from inweave.model.prompt import fill_prompt


@dataclass(frozen=True)
class Point:
    """Inputs, as (rows, cols) arrays, and the square roots of those that are scalars."""

    inputs: Mapping[str, Array]
    roots: Mapping[str, Array]
    arithmetic: Arithmetic


Answers = dict[str, Array]


@singledispatch
def meaning(made: Any, point: Point) -> Answers:  # noqa: ARG001
    """The answers of whatever a pass made."""
    raise TypeError(f"no meaning is known of a {type(made).__name__}")


@meaning.register
def _(made: Traced, point: Point) -> Answers:
    return made.evaluate(point.inputs, point.arithmetic)


# -- forms ----------------------------------------------------------------------------------------
@meaning.register
def _(made: Written, point: Point) -> Answers:
    values = FormValues(point, made.loops)
    return {name: values.of(form) for name, form in made.outputs.items()}


class FormValues:
    """Values of forms; those that a loop changes are forgotten at every step of it."""

    def __init__(self, point: Point, loops: Sequence[LoopForm] = ()) -> None:
        self.point, self.arithmetic = point, point.arithmetic
        self._known: dict[Node, Array] = {}
        self._ends: dict[LoopForm, list[Array]] = {}
        self._inside = by_parent(loops)
        self._run(None)

    def of(self, form: Form) -> Array:
        self._fill([form])
        return self._known[form]

    def _fill(self, roots: Sequence[Node]) -> None:
        for x in ordered(roots, self._known):
            self._known[x] = self._one(x)

    def _run(self, scope: Scope | None) -> None:
        """Run the loops right inside a scope."""
        for loop in self._inside.get(scope, ()):
            state = [self.of(form) for form in loop.init]
            self._fill([x for x in ordered(loop.step, self._known) if loop.scope not in x.loops])
            for _ in range(loop.times):
                self._forget(loop.scope)
                self._known |= dict(zip(loop.carried, state, strict=True))
                self._run(loop.scope)
                state = [self.of(form) for form in loop.step]
            self._forget(loop.scope)
            self._ends[loop] = state

    def _forget(self, scope: Scope) -> None:
        self._known = {x: value for x, value in self._known.items() if scope not in x.loops}

    def _one(self, x: Node) -> Array:
        known, number = self._known, self.arithmetic.number
        if isinstance(x, Form):
            total = self.arithmetic.zeros((x.rows, x.cols))
            for v, t, c in x.terms:
                total = total + (known[v].mT if t else known[v]) * number(c)
            if x.constants:
                total = total + matrix(self.arithmetic, added((c, k) for k, c in x.constants))
            return total
        if isinstance(x, Product):
            out = known[x.parts[0]]
            for i, factor in enumerate(x.parts[1:], 1):
                out = out * known[factor] if i <= len(x.scalars) else out @ known[factor]
            return out
        if isinstance(x, AppliedLeaf):
            return self.arithmetic.pointwise(x.function, known[x.definition])
        if isinstance(x, DefinedLeaf):
            return known[x.definition]
        if isinstance(x, ResultLeaf):
            return self._ends[x.loop][x.index]
        assert isinstance(x, (InputLeaf, GivenLeaf))
        return given(x, self.point)


def given(leaf: InputLeaf | GivenLeaf, point: Point) -> Array:
    """An input, or what stands in a block of the user's layout; of s I_q, the s."""
    if isinstance(leaf, InputLeaf):
        return point.inputs[leaf.name]
    layout = Layout.of({leaf.block.name: (leaf.block.rows, leaf.block.cols)}, leaf.block.rows)
    block = fill_prompt(layout, [leaf.fill], point.inputs, point.arithmetic, point.roots)
    row, col = leaf.fill.place.row, leaf.fill.place.col
    return block[row : row + 1, col : col + 1] if leaf.is_scalar else block


# -- layers of heads ------------------------------------------------------------------------------
@meaning.register
def _(made: Schedule, point: Point) -> Answers:
    return Stored(made, point).answers()


@meaning.register
def _(made: Allocation, point: Point) -> Answers:
    return Blocks(made, point).answers()


class Stored:
    """Layers of heads over stored values: every value has a place of its own, zero at first.

    What a loop's body writes, but for what it carries, is zero again at each repetition.
    """

    def __init__(self, made: Schedule | Allocation, point: Point) -> None:
        self.made, self.point, self.arithmetic = made, point, point.arithmetic
        self.state: dict[Any, Array] = self.start()

    def start(self) -> dict[Any, Array]:
        assert isinstance(self.made, Schedule)
        found = {
            key: given(key.value, self.point)
            for key in self.made.leaves
            if isinstance(key.value, (InputLeaf, GivenLeaf))
        }
        values = FormValues(self.point)
        found |= {key: values.of(form) for key, form in self.made.starts}
        return {key: value.mT if key.flipped else value for key, value in found.items()}

    def where(self, key: Key) -> Any:
        return key

    def stored(self, key: Key, diagonal: int) -> Array:
        """What a head reads of a stored value."""
        found = self.state.get(key)
        found = self.arithmetic.zeros(key.shape) if found is None else found
        return found * self.arithmetic.array(np.eye(diagonal)) if diagonal > 1 else found

    def again(self, loop: LoopSpec) -> None:
        """Begin a repetition."""
        kept = {key for keys in loop.carried for key in keys}
        for layer in layers(loop.body):
            for key in layer.written:
                if key not in kept:
                    self.state.pop(key, None)

    def answers(self) -> Answers:
        self.run(self.made.parts)
        out = {}
        for name, (key, turned) in self.made.outputs.items():
            rows, cols = (1, 1) if key.value.is_scalar else key.shape
            found = self._padded(self.stored(key, 0), rows, cols)[:rows, :cols]
            out[name] = found.mT if key.flipped != turned else found
        return out

    def run(self, parts: Sequence[Part]) -> None:
        for part in parts:
            if isinstance(part, LayerSpec):
                self._layer(part)
                continue
            for _ in range(part.loop.times):
                self.again(part)
                self.run(part.body)

    def _layer(self, layer: LayerSpec) -> None:
        written = [put for head in layer.heads for put in self._head(head)]
        written += [(linear.dest, self._read(linear.read)) for linear in layer.linear]
        for key, value in written:
            at = self.where(key)
            before = self.state.get(at, self.arithmetic.zeros(key.shape))
            self.state[at] = self._sum([before, value])
        for key, function in layer.pointwise:
            at, (rows, cols) = self.where(key), key.shape
            value = self._padded(self.state[at], rows, cols)
            new = self.arithmetic.pointwise(function, value[:rows, :cols])
            below = [new, value[rows:, :cols]] if value.shape[0] > rows else [new]
            self.state[at] = self.arithmetic.concat(below, -2)

    def _head(self, head: HeadSpec) -> list[tuple[Key, Array]]:
        query, key = self._read(head.query), self._read(head.key)
        width = max(query.shape[1], key.shape[1])
        query, key = (self._padded(x, x.shape[0], width) for x in (query, key))
        out = []
        for dest, item in head.values:
            value = self._read((item,))
            tall = max(key.shape[0], value.shape[0])
            key, value = (self._padded(x, tall, x.shape[1]) for x in (key, value))
            out.append((dest, query @ key.mT @ value))
        return out

    def _read(self, items: Sequence[Item]) -> Array:
        return self._sum([self._item(item) for item in items])

    def _item(self, item: Item) -> Array:
        if item.key is None:
            assert item.constant is not None
            found = matrix(self.arithmetic, item.constant)
        else:
            found = self.stored(item.key, item.diagonal)
            if item.constant is not None:
                found = times(self.arithmetic, found, item.constant)
        c = item.coefficient
        return found if c == 1 else found * self.arithmetic.number(c)

    def _sum(self, values: Sequence[Array]) -> Array:
        """A sum of values of different heights: below each, the prompt holds zeros."""
        rows, cols = (max(x.shape[axis] for x in values) for axis in (0, 1))
        total = self.arithmetic.zeros((rows, cols))
        for value in values:
            total = total + self._padded(value, rows, cols)
        return total

    def _padded(self, x: Array, rows: int, cols: int) -> Array:
        wide = bordered(self.arithmetic, x, -1, 0, max(cols - x.shape[1], 0))
        return bordered(self.arithmetic, wide, -2, 0, max(rows - x.shape[0], 0))


class Blocks(Stored):
    """Layers of heads over blocks: values share them, and nothing is zeroed but by heads."""

    made: Allocation

    def start(self) -> dict[Any, Array]:
        made = self.made
        shapes = {name: (slot.rows, slot.cols) for name, slot in made.blocks.items()}
        layout = Layout.of(shapes, max(rows for rows, _ in shapes.values()))
        fills = [fill for fill in made.fills if fill.place.block in made.blocks]
        H = fill_prompt(layout, fills, self.point.inputs, self.arithmetic, self.point.roots)
        return {b.name: H[: b.rows, b.start : b.stop] for b in layout}

    def where(self, key: Key) -> Any:
        return self.made.where[key]

    def stored(self, key: Key, diagonal: int) -> Array:
        block = self.state[self.made.where[key]]
        shared = key.value.is_scalar and self.made.slot(key).diagonal > 1
        return block[:, : max(diagonal, 1)] if shared else block

    def again(self, loop: LoopSpec) -> None:
        pass
