"""Loops over single numbers, written out over Python's own floats.

A filter, a moving average, a running maximum: every value is one number, and a call of numpy for it
takes ten times as long as what Python does itself. So where a loop, or a part of it (`parted`),
carries, reads row by row and leaves behind nothing but numbers, what it reads become floats before
it, what it leaves become arrays after it, and a step is what a programmer would write. A value that
is read once is part of the expression that reads it.

Python's floats are IEEE's, so all answers are bit for bit those of numpy in double precision. What
Python refuses and numpy does not, a division by zero, is not reached: where a function divides, its
argument is looked at first, and zero is outside its domain.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Container, Sequence
from math import inf, isfinite, sqrt
from typing import Any

import numpy as np

from inweave.run.libraries.functions import InNumpy
from inweave.run.libraries.parted import APPLIED, SAME, SIGNS
from inweave.run.libraries.written import Entry, Value, Writer
from inweave.run.lines.code import Line, Repeat, Stack

NUMBER = 40.0  # nanoseconds of a line
DEEPEST = 20  # expressions inside each other, where Python allows for 200


def _left(loop: Repeat) -> list[int]:
    """The slots that a step leaves to what comes after it."""
    return [*loop.nexts, *(stack.slot for stack in loop.stacks)]


class Numbers(Writer):
    """The names of values are names or expressions; what is left in `plain` slots, is no array."""

    def __init__(
        self, loop: Repeat, slots: Sequence[Any], plain: Container[int] = frozenset()
    ) -> None:
        self.plain = plain
        super().__init__(loop, slots)

    @property
    def price(self) -> float:
        """Nanoseconds of a step."""
        lines = (line for line in self.loop.body if isinstance(line, Line))
        return NUMBER * sum(line.op in (*SIGNS, *APPLIED) for line in lines)

    def library(self) -> dict[str, Any]:
        return {"array": np.array, "bisect": bisect, "inf": inf, "sqrt": sqrt}

    def given_as(self, slot: int, x: Any) -> str:
        if isinstance(x, Entry):
            column = x.shape[-2] > 1
            return f"slots[{x.slot}]" + (f"[:, {x.at}].tolist()" if column else f".item({x.at})")
        if x.size == 1:
            return f"slots[{slot}].item()"
        return f"slots[{slot}].ravel().tolist()" if x.shape[1] == 1 else f"slots[{slot}]"

    def start(self) -> None:
        self.rows: dict[str, str] = {}  # the numbers that steps are given, and all of each
        self.reads = self._reads()
        for slot, value in self.values.items():
            number = self.space.get(value.name)
            if isinstance(number, float) and isfinite(number):
                self.values[slot] = value._replace(name=f"({number!r})")
        for phi, init in zip(self.phis, self.loop.inits, strict=True):
            self.before.append(f"{phi.name} = {self.values[init].name}")

    def _reads(self) -> Counter[str]:
        """How often what a line makes is read."""
        found, made = Counter[str](), dict[int, str]()
        for i, line in enumerate(self.loop.body):
            assert isinstance(line, Line)
            if line.op in SAME:
                made[line.out] = made.get(line.a, "")
                continue
            found.update(made.get(slot, "") for slot in (line.a, line.b))
            made[line.out] = f"v{i}"
        found.update(made.get(slot, "") for slot in _left(self.loop))
        return found

    def header(self) -> str:
        if not self.rows:
            return super().header()
        if len(self.rows) == 1:
            return "for {} in {}:".format(*self.rows, *self.rows.values())
        return f"for {', '.join(self.rows)} in zip({', '.join(self.rows.values())}):"

    def line(self, name: str, line: Line) -> Value:
        if line.op not in SAME:
            return super().line(name, line)
        number = self.values[line.a]
        if number.cols > 1:
            _, _, columns = self.space[self.values[line.b].name]
            self.rows[name] = f"{number.name}[:, {columns.start}].tolist()"
            number = Value(name, 1, 1, fixed=False)
        return number

    def pick(self, name: str, x: Value, order: Value, line: Line) -> Value:
        every = f"{x.name}[::-1]" if order.name == "backward" else x.name
        if line.cols == 1:
            self.rows[name], every = every, name
        return Value(every, 1, line.cols, fixed=False)

    def compute(self, made: Value, op: str, a: Value, b: Value) -> Value:
        if op in SIGNS:
            return self.expressed(made, f"{a.name} {SIGNS[op]} {b.name}")
        function = self.space[b.name]
        assert isinstance(function, InNumpy)
        assert function.formula is not None
        x = self.named(f"{made.name}_x", a)
        if function.guarded is not None:
            low, high = function.limits
            self.body.append(f"if not {low!r} <= {x} <= {high!r}:")
            self.body.append(f"    {b.name}.look(array({x}))")
        if op == "guard":
            return made
        text, names = function.formula
        self.space |= {f"{b.name}_{name}": known for name, known in names.items()}
        return self.expressed(made, text.format(x=x, f=b.name))

    def expressed(self, made: Value, text: str) -> Value:
        """A value as an expression if it is read once, and else as a name for it."""
        if self.reads[made.name] == 1 and text.count("(") < DEEPEST:
            return made._replace(name=f"({text})")
        self.body.append(f"{made.name} = {text}")
        return made

    def named(self, name: str, x: Value) -> str:
        """A name for a value that is read more than once."""
        if x.name.isidentifier():
            return x.name
        self.body.append(f"{name} = {x.name}")
        return name

    def stack(self, name: str, stack: Stack, row: Value) -> None:
        self.before.append(f"{name} = []")
        self.body.append(f"{name}.append({row.name})")
        rows = f"{name}[::-1]" if stack.backward else name
        if stack.out not in self.plain:
            rows = f"array({rows}).reshape{'(1, -1)' if stack.flip else '(-1, 1)'}"
        self.after.append(f"slots[{stack.out}] = {rows}")

    def carry(self, nexts: Sequence[Value]) -> None:
        pairs = zip(self.phis, nexts, strict=True)
        moved = {phi.name: after.name for phi, after in pairs if phi.name != after.name}
        if moved:
            self.body.append(f"{', '.join(moved)} = {', '.join(moved.values())}")

    def result(self, slot: int, phi: Value) -> str:
        return phi.name if slot in self.plain else f"array([[{phi.name}]])"
