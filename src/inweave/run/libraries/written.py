"""Loops written out as Python, for libraries that compute when they are called.

Between two calls of numpy or torch an interpreter of lines does as much as the calls themselves for
small arrays. So a loop is written down as a programmer would write it, and compiled by Python: once
for every arrangement of batch axes, since that decides which call a product is, and for few and
`many` problems.

Views of arrays that stay where they are, are made before the loop. `numpy` and `torch` say what a
line is in theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from inweave.run.lines.code import Line, Repeat, Stack

Step = Callable[[list[Any]], None]
Shape = tuple[int, ...]
MANY = 512  # problems of a batch, from which on calls cost little
KEPT = 64  # shapes that a loop remembers, for batches may have any size
FEWEST = 2  # repetitions below which there is nothing to repeat
VIEWS = {"getitem": "{a}[{b}]", "flip": "{a}.mT", "diagonal": "diagonal({a})"}


class Value(NamedTuple):
    """A name in the source, and what is known of its array."""

    name: str
    rows: int = 0
    cols: int = 0
    batched: bool = False
    fixed: bool = True  # the same array in every step
    parts: tuple[Value, ...] = ()  # of what is collected, and has no array of its own


class Entry(NamedTuple):
    """What is known of an entry of an array in a slot, or of a column, before it is read."""

    slot: int
    at: str  # where it stands: its row, if it is not a column, and its column
    shape: Shape
    dtype: Any


def stepping(
    loop: Repeat,
    way: Callable[[list[Any], Shape], Written],
    otherwise: Step,
    concrete: bool = False,
) -> Step:
    """A loop as a step over slots: written in a `way`, or `otherwise` where it cannot be.

    Where shapes are concrete, batches of about as many problems are written once: torch has symbols
    in the place of shapes while it compiles.
    """
    if loop.times < FEWEST or not all(_is_own(line, loop) for line in loop.body):
        return otherwise
    read, written = loop.reads, dict[Any, Callable[..., None]]()
    known: dict[Any, tuple[Callable[..., None], Shape]] = {}

    def step(slots: list[Any]) -> None:
        shapes = tuple([getattr(slots[slot], "shape", None) for slot in read])
        found = known.get(shapes) if concrete else None
        if found is None:
            lead = _lead(shapes)
            if lead is None:
                otherwise(slots)
                return
            size = math.prod(lead).bit_length() // 2 if concrete else 0
            key = (size, *(shape and (len(shape), *shape[-2:]) for shape in shapes))
            if key not in written:
                written[key] = way(slots, lead).function()
            found = written[key], lead
            if concrete:
                if len(known) >= KEPT:
                    known.clear()
                known[shapes] = found
        function, lead = found
        function(slots, lead)

    return step


def _is_own(line: Line | Repeat, loop: Repeat) -> bool:
    """Whether a line is no loop, and picks no rows that follow the steps of a loop around."""
    own = {counter.slot for counter in loop.counters}
    return isinstance(line, Line) and (line.op != "pick" or line.b in own)


def _lead(shapes: Sequence[Shape | None]) -> Shape | None:
    """The batch axes of all that has some; None if they differ."""
    lead: Shape = ()
    for shape in shapes:
        if shape is not None and len(shape) > 2:
            if lead and lead != shape[:-2]:
                return None
            lead = shape[:-2]
    return lead


class Written(Protocol):
    """What writes a loop, as a function of the slots and the batch axes."""

    def function(self) -> Callable[[list[Any], Shape], None]: ...


class Priced(Written, Protocol):
    """The same with about how many nanoseconds a step takes."""

    @property
    def price(self) -> float: ...


class Writer:
    """Writes one loop for one arrangement of batch axes."""

    around = ""  # what the loop is done with

    def __init__(self, loop: Repeat, slots: Sequence[Any]) -> None:
        self.loop, read = loop, loop.reads
        self.before: list[str] = []
        self.body: list[str] = []
        self.after: list[str] = []
        self.space = self.library()
        self.axes = max((len(getattr(slots[slot], "shape", ())) for slot in read), default=2)
        self.values: dict[int, Value] = {}
        self.flips: dict[str, Value] = {}  # what names are the transposes of
        for slot in read:
            x, name = slots[slot], f"s{slot}"
            if getattr(x, "shape", None) is None:
                self.space[name] = self.constant(x)
                self.values[slot] = Value(name)
            else:
                self.before.append(f"{name} = {self.given_as(slot, x)}")
                rows, cols = x.shape[-2:]
                self.values[slot] = Value(name, rows, cols, len(x.shape) > 2)
        self.given = {value.name for value in self.values.values()}  # what no step changes
        self.batched = self._batched()
        self.phis = [
            self.values[init]._replace(name=f"p{i}", batched=self.batched[phi], fixed=False)
            for i, (phi, init) in enumerate(zip(loop.phis, loop.inits, strict=True))
        ]

    def constant(self, x: Any) -> Any:
        return x

    def given_as(self, slot: int, x: Any) -> str:
        """An array that is read."""
        return f"slots[{slot}]"

    def header(self) -> str:
        return f"for i in range({self.loop.times}):"

    def results(self) -> Iterator[str]:
        """What is left of carried values."""
        for slot, phi in zip(self.loop.phis, self.phis, strict=True):
            yield f"slots[{slot}] = {self.result(slot, phi)}"

    def result(self, slot: int, phi: Value) -> str:
        """What is left of a carried value."""
        return phi.name

    def _batched(self) -> dict[int, bool]:
        """Which carried values have batch axes, perhaps only after a step."""
        loop = self.loop
        found = {p: self.values[i].batched for p, i in zip(loop.phis, loop.inits, strict=True)}
        while True:
            known = {slot: value.batched for slot, value in self.values.items()} | found
            for line in loop.body:
                assert isinstance(line, Line)
                known[line.out] = known.get(line.a, False) or known.get(line.b, False)
            after = {p: found[p] or known[n] for p, n in zip(loop.phis, loop.nexts, strict=True)}
            if after == found:
                return found
            found = after

    def function(self) -> Callable[[list[Any], Shape], None]:
        """The loop as a function of the slots and the batch axes."""
        loop = self.loop
        self.start()
        for counter in loop.counters:
            order = "backward" if counter.backward else "forward"
            self.values[counter.slot] = Value(order, counter.height)
        self.values |= dict(zip(loop.phis, self.phis, strict=True))
        for i, line in enumerate(loop.body):
            assert isinstance(line, Line)
            self.values[line.out] = self.line(f"v{i}", line)
        for k, stack in enumerate(loop.stacks):
            self.stack(f"left{k}", stack, self.values[stack.slot])
        self.carry([self.values[slot] for slot in loop.nexts])
        steps = [self.header(), *(f"    {line}" for line in self.body)]
        if not self.body:  # nothing changes
            steps = []
        elif self.around:
            steps = [f"with {self.around}:", *(f"    {line}" for line in steps)]
        self.after += self.results()
        source = ["def written(slots, lead):"]
        source += [f"    {line}" for line in (*self.before, *steps, *self.after)]
        exec(compile("\n".join(source), f"<loop of {loop.times} steps>", "exec"), self.space)
        found: Callable[[list[Any], Shape], None] = self.space["written"]
        return found

    def line(self, name: str, line: Line) -> Value:
        a, b = self.values[line.a], self.values[line.b]
        if line.op == "pick":
            return self.pick(name, a, b, line)
        made = Value(name, line.rows, line.cols, a.batched or b.batched, fixed=False)
        if line.op in ("one", "more"):
            return made._replace(parts=(a,) if line.op == "one" else (*a.parts, b))
        if line.op not in VIEWS:
            return self.compute(made, line.op, a, b)
        if line.op == "flip" and a.name in self.flips:
            return self.flips[a.name]
        fixed = a.fixed and b.fixed
        text = f"{name} = " + VIEWS[line.op].format(a=a.name, b=b.name)
        (self.before if fixed else self.body).append(text)
        made = made._replace(fixed=fixed)
        if line.op == "flip":
            self.flips[name] = a
        return made

    def pick(self, name: str, x: Value, order: Value, line: Line) -> Value:
        if x.fixed:
            self.before.append(f"{name}_rows = {order.name}({x.name}, {line.rows})")
            self.body.append(f"{name} = {name}_rows[i]")
        else:
            at = f"{self.loop.times - 1} - i" if order.name == "backward" else "i"
            self.body.append(f"{name} = rows({x.name}, {at}, {line.rows})")
        return Value(name, line.rows, line.cols, x.batched, fixed=False)

    # -- what libraries do differently ------------------------------------------------------------
    def library(self) -> dict[str, Any]:
        """The names that the source may use."""
        raise NotImplementedError

    def start(self) -> None:
        raise NotImplementedError

    def compute(self, made: Value, op: str, a: Value, b: Value) -> Value:
        raise NotImplementedError

    def stack(self, name: str, stack: Stack, row: Value) -> None:
        raise NotImplementedError

    def carry(self, nexts: Sequence[Value]) -> None:
        raise NotImplementedError
