"""From a graph to code: lines over numbered slots, every line a function of two slots.

`slots[out] = f(slots[a], slots[b])` is all an executor has to do, whatever the array library.
Numbers, constants and slice indices are slots that are filled in beforehand. Only what the answers
need is written out, and a slot is used again once its value has been read for the last time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from inweave.exact.constants import Ones, identity, zeros
from inweave.run.values.kinds import ONE, is_outer
from inweave.run.values.node import LoopBody, Node, flops, placed

FEW = 32  # calls of a short piece of code
MOSTLY = 8  # times the calls outside loops, from which on those inside count
VIEWS = ("flip", "getitem", "one", "more")  # lines that make no arrays


class Line(NamedTuple):
    """`slots[out] = op(slots[a], slots[b])`, a rows x cols value.

    The operations: `matmul`, `mul`, `add`, `sub`; `getitem` by an index; `flip` (transpose); `one`,
    `more` and `concat` (collect arrays, then join them along an axis); `pointwise`; `pick` (rows,
    the number of the first and how many stand in the other slot); `diagonal`.
    """

    op: str
    a: int
    b: int
    out: int
    rows: int
    cols: int


class Counter(NamedTuple):
    """A slot that holds the first of the rows that a loop has come to, and how many they are."""

    slot: int
    backward: bool
    height: int


class Stack(NamedTuple):
    """Rows that the steps of a loop leave in a slot, `height` each: `out` holds them all after."""

    slot: int
    out: int
    flip: bool  # what is left are rows, what they make is transposed
    backward: bool
    height: int


@dataclass(frozen=True)
class Repeat:
    """A body, `times` times; before that `phis` take `inits`, after every step `nexts`."""

    times: int
    body: Lines
    phis: tuple[int, ...]
    inits: tuple[int, ...]
    nexts: tuple[int, ...]
    flops: int  # of one step
    counters: tuple[Counter, ...] = ()
    stacks: tuple[Stack, ...] = ()
    unread: tuple[int, ...] = ()  # columns of what is carried that nothing reads afterwards

    def rows(self, counter: Counter, step: Any) -> tuple[Any, int]:
        """The first of the rows that a step comes to, and how many they are."""
        at = self.times - 1 - step if counter.backward else step
        return at * counter.height, counter.height

    @cached_property
    def reads(self) -> list[int]:
        """The slots that it reads before it fills them itself, loops inside included."""
        return self._reads(picked=True)

    def _reads(self, picked: bool) -> list[int]:
        """The same, perhaps without those of which it picks rows."""
        found: dict[int, None] = {}
        filled: set[int] = set()

        def use(slots: Iterable[int]) -> None:
            found.update((slot, None) for slot in slots if slot not in filled)

        def walk(loop: Repeat) -> None:
            use(loop.inits)
            filled.update(loop.phis, (counter.slot for counter in loop.counters))
            for line in loop.body:
                if isinstance(line, Repeat):
                    walk(line)
                else:
                    use((line.a, line.b) if picked or line.op != "pick" else ())
                    filled.add(line.out)
            use((*loop.nexts, *(stack.slot for stack in loop.stacks)))
            filled.update(stack.out for stack in loop.stacks)

        walk(self)
        return [*found]

    @cached_property
    def whole(self) -> list[int]:
        """The slots that it reads in other ways than row by row, one row in each step."""
        return self._reads(picked=False)

    @property
    def fills(self) -> Iterator[int]:
        """The slots that it fills, loops inside included."""
        yield from (*self.phis, *(counter.slot for counter in self.counters))
        yield from (stack.out for stack in self.stacks)
        for line in self.body:
            yield from line.fills if isinstance(line, Repeat) else [line.out]

    @cached_property
    def last(self) -> dict[int, int]:
        """The last line of the body that fills a slot; -1 for the next ones filled elsewhere."""
        filled = {line.out: i for i, line in enumerate(self.body) if isinstance(line, Line)}
        return dict.fromkeys(self.nexts, -1) | filled


Lines = list["Line | Repeat"]


class Made(NamedTuple):
    """A value made of constants only: one of the outputs of code that needs no sources."""

    code: Code
    output: int


@dataclass
class Code:
    """Lines, and how to fill their slots: names of sources, and the fixed ones by contents."""

    lines: Lines = field(default_factory=list)
    slots: int = 0
    sources: dict[Any, int] = field(default_factory=dict)
    fixed: dict[int, Any] = field(default_factory=dict)
    outputs: tuple[int, ...] = ()
    flops: int = 0
    looks: int = 0  # outputs behind the others that say which problems are to be computed again
    heaviest: int = 0  # flops of the one operation that has most of them
    shapes: dict[int, tuple[int, int]] = field(default_factory=dict)  # of sources

    def __hash__(self) -> int:
        return hash((self.slots, self.flops, self.outputs))  # once it is written, it stays

    @cached_property
    def widest(self) -> int:
        """The entries of the largest value that is computed for each problem of a batch."""
        return max((line.rows * line.cols for line in _computed(self.lines)), default=1)

    @cached_property
    def held(self) -> int:
        """The entries for each problem that a cache should hold: all that few calls make.

        Where there are many, they go through a few arrays again and again, and should be long.
        """
        if self.calls <= FEW:
            return max(1, sum(x.rows * x.cols for x in _computed(self.lines)))
        return self._by_use[0]

    @property
    def passed(self) -> int:
        """The entries that are computed once, before loops that do not hold them."""
        return self._by_use[1]

    @cached_property
    def _by_use(self) -> tuple[int, int]:
        """The entries of the largest value that is gone through again and again; of all others.

        What loops read row by row, or not at all, each problem goes through once or twice.
        """
        straight = [line for line in self.lines if isinstance(line, Line)]
        if len(straight) * MOSTLY > self.calls:
            return self.widest, 0
        sizes, again, made = dict[int, int](), 1, 0
        for line in self.lines:
            if not isinstance(line, Line):
                again = max(again, *(sizes.get(slot, 0) for slot in line.whole), 0)
                again = max(again, *(x.rows * x.cols for x in _computed([line])), 0)
            elif line.op in VIEWS:
                sizes[line.out] = sizes.get(line.a, 0)
            else:
                sizes[line.out] = line.rows * line.cols
                made += sizes[line.out]
        return again, made

    @cached_property
    def calls(self) -> int:
        """How many lines are run, loops multiplied out."""
        return _calls(self.lines)

    @property
    def flops_once(self) -> int:
        """The work with one step of each outermost repetition."""
        repeats = [line for line in self.lines if isinstance(line, Repeat)]
        return self.flops - sum((repeat.times - 1) * repeat.flops for repeat in repeats)


def _calls(lines: Lines) -> int:
    return sum(1 if isinstance(line, Line) else line.times * _calls(line.body) for line in lines)


def _computed(lines: Lines) -> Iterator[Line]:
    """The lines that make new arrays, those of loops too."""
    for line in lines:
        if not isinstance(line, Line):
            yield from _computed(line.body)
        elif line.op not in VIEWS:
            yield line


def live_nodes(outputs: Iterable[Node]) -> set[Node]:
    """The nodes that the outputs need; of a loop, only the values that matter are carried."""
    live: set[Node] = set()
    stack = list(outputs)
    while stack:
        node = stack.pop()
        if node in live:
            continue
        live.add(node)
        if node.op in ("phi", "result"):
            body, i = node.data if node.op == "phi" else (node.args[0].data, node.data)
            stack += [body.phis[i], body.inits[i], body.nexts[i]]
            live.update(node.args)
        else:
            stack += node.args
    return live


def needs(node: Node, live: set[Node]) -> list[Node]:
    """The live nodes that must be there before a node is computed."""
    if node.op != "loop":
        return list(node.args)
    body: LoopBody = node.data
    inside, found = set(body.nodes), list[Node]()
    for i, phi in enumerate(body.phis):
        if phi in live:
            found += [body.inits[i], body.nexts[i]]
    for inner in body.nodes:
        if inner in live:
            found += needs(inner, live)
    return [n for n in dict.fromkeys(found) if n not in inside]


def stacked(body: LoopBody, live: set[Node]) -> dict[int, tuple[Node, bool]]:
    """Carried values that only collect a row of every step: the `place` of each, and if transposed.

    Nothing else may read what is collected, which begins as zeros and is complete at the end.
    """
    readers: dict[Node, int] = {}
    for node in body.nodes:
        if node in live:
            for arg in node.args:
                readers[arg] = readers.get(arg, 0) + 1
    for node in body.nexts:
        readers[node] = readers.get(node, 0) + 1
    found = {}
    for i, (phi, init, after) in enumerate(zip(body.phis, body.inits, body.nexts, strict=True)):
        if phi not in live or after.op != "sum" or len(after.args) != 2 or phi not in after.args:
            continue
        part = placed(after.args[1 - after.args.index(phi)])
        if part is None or after.data[2] != ((1, 0, 0), (1, 0, 0)):
            continue
        if part[0].rows != body.repeat * part[0].args[0].rows:
            continue
        alone = all(readers[node] == 1 for node in (phi, after, *after.args, part[0]))
        if alone and init.op == "const" and init.data == zeros(*init.shape):
            found[i] = part
    return found


def encode(nodes: Sequence[Node], outputs: Sequence[Node]) -> Code:
    """The code that computes the outputs; what is made of constants only, is before any call."""
    encoder = _Encoder(live_nodes(outputs), outputs)
    inside = {node for node in encoder.live if node.known and node.op != "const"}
    inside -= {*outputs, *encoder.repeated}
    read = {x for node in encoder.live - inside for x in needs(node, encoder.live)}
    if made := sorted(inside & read, key=lambda node: node.order):
        before = _Encoder(live_nodes(made), made).run(nodes, made)
        encoder.take({node: Made(before, i) for i, node in enumerate(made)})
        encoder.live -= inside
    return encoder.run(nodes, outputs)


Alike = tuple[bool, bool]
"""Whether all rows of a value are alike, and all columns."""


def _repeated(live: set[Node]) -> dict[Node, Alike]:
    """Values with alike rows or columns that are only added to others: one of them will do."""
    found = {node: alike for node in live if any(alike := _alike(node))}
    for node in live:
        if node.op == "loop":
            used: set[Node] = {*node.data.inits, *node.data.nexts}
        elif node.op == "sum":
            whole = any(x.shape == node.shape and x not in found for x in node.args)
            used = set() if whole else {*node.args}
        else:
            used = {*node.args}
        for x in used:
            found.pop(x, None)
    return found


def _alike(node: Node) -> Alike:
    if is_outer(node):
        column, row = map(_is_ones, node.args)
        return column and not row, row and not column
    even = node.args[1] if node.op == "mul" and node.args[0].is_scalar else node
    return (True, True) if _is_ones(even) else (False, False)


def _is_ones(node: Node) -> bool:
    return node.op == "const" and isinstance(node.data, Ones) and node.size > 1


class _Cell(NamedTuple):
    """A slice of a slot, as a part of a sum that stands at (row, col)."""

    sign: int
    slot: int
    row: int
    col: int
    top: int
    left: int
    rows: int
    cols: int
    whole: bool
    alike: Alike = (False, False)  # one row, or one column, is all there is

    def clipped(self, axis: int, low: int, high: int) -> _Cell | None:
        """The part between two rows (axis 0) or columns (axis 1), counted from `low`."""
        at, size = (self.row, self.rows) if axis == 0 else (self.col, self.cols)
        start, stop = max(at, low), min(at + size, high)
        if start >= stop:
            return None
        whole = self.whole and (self.alike[axis] or stop - start == size)
        begin = 0 if self.alike[axis] else start - at
        if axis == 0:
            return self._replace(row=start - low, top=self.top + begin, rows=stop - start,
                                 whole=whole)  # fmt: skip
        return self._replace(col=start - low, left=self.left + begin, cols=stop - start,
                             whole=whole)  # fmt: skip


class _Encoder:
    def __init__(self, live: set[Node], outputs: Sequence[Node]) -> None:
        self.live = live
        self._stacks = {
            node.data: found
            for node in live
            if node.op == "loop" and (found := stacked(node.data, live))
        }
        for body, found in self._stacks.items():
            for i in found:
                self.live -= {body.phis[i], body.nexts[i], *body.nexts[i].args}
        self._stacked = {place for found in self._stacks.values() for place, _ in found.values()}
        self.live |= self._stacked
        self.repeated = _repeated(self.live)
        for node in outputs:
            self.repeated.pop(node, None)
        self.out = Code()
        self.slot: dict[Node, int] = {}
        self._free: list[int] = []
        self._kept: dict[Any, int] = {}

    def take(self, made: dict[Node, Made]) -> None:
        """Values that are there before a call."""
        for node, content in made.items():
            self.slot[node] = self._fixed("made", content)

    def run(self, nodes: Sequence[Node], outputs: Sequence[Node]) -> Code:
        self.out.lines, self.out.flops = self._scope(nodes, set(outputs))
        self.out.outputs = tuple(self.slot[node] for node in outputs)
        self.out.looks = sum(node.op == "grown" for node in outputs)
        return self.out

    # -- slots ------------------------------------------------------------------------------------
    def _fresh(self) -> int:
        self.out.slots += 1
        return self.out.slots - 1

    def _new(self) -> int:
        return self._free.pop() if self._free else self._fresh()

    def _fixed(self, kind: str, content: Any) -> int:
        """The slot of a number, a constant, an index, an axis, a function and the like."""
        key = (kind, content)
        if key not in self._kept:
            self._kept[key] = self._fresh()
            self.out.fixed[self._kept[key]] = key
        return self._kept[key]

    def _scope(self, nodes: Sequence[Node], keep: set[Node]) -> tuple[Lines, int]:
        """The lines of a straight stretch or of a loop's body, and what they cost once."""
        lines: Lines = []
        nodes = [node for node in nodes if node in self.live]
        last: dict[Node, int] = {}
        for i, node in enumerate(nodes):
            for used in [node, *needs(node, self.live)]:
                last[used] = i
        dying: list[list[Node]] = [[] for _ in nodes]
        for node in nodes:
            if node not in keep and node.op not in ("const", "loop", "phi"):
                dying[last[node]].append(node)
        work = sum(map(flops, nodes))
        self.out.heaviest = max([self.out.heaviest, *map(flops, nodes)])
        for node, dead in zip(nodes, dying, strict=True):
            if node.op == "loop":
                repeat = self._repeat(node.data)
                lines.append(repeat)
                work += repeat.times * repeat.flops
            else:
                self._node(node, lines)
            self._free += [self.slot[d] for d in dead]
        return lines, work

    # -- nodes ------------------------------------------------------------------------------------
    def _node(self, node: Node, lines: Lines) -> None:
        if node.op == "source":
            self.slot[node] = self.out.sources[node.data] = self._fresh()
            self.out.shapes[self.slot[node]] = node.shape
        elif node.op == "const":
            content = identity(1) if node in self.repeated else node.data
            self.slot[node] = self._fixed("const", content)
        elif node in self.repeated:
            line = node.args[self.repeated[node] == (True, False)]
            self.slot[node] = self._slice(lines, self.slot[line], 0, 0, *line.shape)
        elif node.op == "result":
            self.slot[node] = self.slot[node.args[0].data.phis[node.data]]
        elif node.op == "view":
            self._view(node, lines)
        elif node.op == "sum":
            self._sum(node, lines)
        elif node.op == "unit":
            self.slot[node] = self._unit(lines, *node.shape, self.slot[node.args[0]])
        elif node.op == "place":
            if node not in self._stacked:
                rows, at = node.args
                unit = self._unit(lines, node.rows, rows.rows, self.slot[at])
                op = "mul" if rows.rows == 1 else "matmul"
                self.slot[node] = self._line(lines, op, unit, self.slot[rows], *node.shape)
                self._free.append(unit)
        elif node.op == "both":
            a, b = (self.slot[arg] for arg in node.args)
            one = self._line(lines, "matmul", a, b, *node.shape)
            other = self._line(lines, "flip", one, one, *node.shape)
            self.slot[node] = self._line(lines, "add", one, other, *node.shape)
            self._free += [one, other]
        elif node.op == "grown":
            held = self._held(lines, [self.slot[arg] for arg in node.args])
            look = self._fixed("look", node.data)
            self.slot[node] = self._line(lines, "pointwise", held, look, *node.shape)
            self._free.append(held)
        elif node.op not in ("phi", "at"):
            a = self.slot[node.args[0]]
            if node.op == "scale":
                op, b = "mul", self._fixed("number", node.data)
            elif node.op == "diagonal":
                op, b = node.op, a
            elif node.op == "pointwise":
                op, b = "pointwise", self._fixed("layer", node.data)
            elif node.op == "apply":
                content = (node.data, node.rows, node.cols)
                op, b = "pointwise", self._fixed("function", content)
            else:
                op, b = node.op, self.slot[node.args[1]]
            self.slot[node] = self._line(lines, op, a, b, node.rows, node.cols)

    def _held(self, lines: Lines, slots: Sequence[int]) -> int:
        """Several arrays in one slot."""
        held = self._line(lines, "one", slots[0], slots[0], 0, 0)
        for slot in slots[1:]:
            lines.append(Line("more", held, slot, held, 0, 0))
        return held

    def _line(self, lines: Lines, op: str, a: int, b: int, rows: int, cols: int) -> int:
        out = self._new()
        lines.append(Line(op, a, b, out, rows, cols))
        return out

    def _unit(self, lines: Lines, rows: int, height: int, at: int) -> int:
        picked = self._line(lines, "pick", self._fixed("const", identity(rows)), at, height, rows)
        self._free.append(picked)
        return self._line(lines, "flip", picked, picked, rows, height)

    def _slice(self, lines: Lines, a: int, top: int, left: int, rows: int, cols: int) -> int:
        index = self._fixed("index", (top, top + rows, left, left + cols))
        return self._line(lines, "getitem", a, index, rows, cols)

    def _view(self, node: Node, lines: Lines) -> None:
        top, left, rows, cols, flip = node.data
        base = node.args[0]
        slot, sliced = self.slot[base], (rows, cols) != (base.rows, base.cols)
        if sliced:
            slot = self._slice(lines, slot, top, left, rows, cols)
        if flip:
            out = self._line(lines, "flip", slot, slot, cols, rows)
            if sliced:
                self._free.append(slot)
            slot = out
        self.slot[node] = slot

    def _repeat(self, body: LoopBody) -> Repeat:
        carried = [i for i, phi in enumerate(body.phis) if phi in self.live]
        for i in carried:
            self.slot[body.phis[i]] = self._new()
        stacks = self._stacks.get(body, {})
        for i in stacks:
            self.slot[body.phis[i]] = self._fresh()
        counters = [node for node in body.nodes if node.op == "at" and node in self.live]
        for node in counters:
            self.slot[node] = self._fresh()
        phis, nexts = [body.phis[i] for i in carried], [body.nexts[i] for i in carried]
        places = [place for place, _ in stacks.values()]
        rows = [place.args[0] for place in places]
        lines, work = self._scope(body.nodes, {*phis, *nexts, *places, *rows, *counters})
        inside = {node for node in body.nodes if node.op not in ("const", "phi", "at")}
        kept = dict.fromkeys((*nexts, *rows))
        self._free += [self.slot[node] for node in kept if node in inside]
        return Repeat(
            body.repeat,
            lines,
            tuple(self.slot[phi] for phi in phis),
            tuple(self.slot[body.inits[i]] for i in carried),
            tuple(self.slot[node] for node in nexts),
            work,
            tuple(Counter(self.slot[node], *node.data[1:]) for node in counters),
            tuple(
                Stack(self.slot[rows], self.slot[body.phis[i]], flip, *at.data[1:])
                for i, (place, flip) in stacks.items()
                for rows, at in [place.args]
            ),
        )

    # -- sums -------------------------------------------------------------------------------------
    def _sum(self, node: Node, lines: Lines) -> None:
        rows, cols, where = node.data
        cells = [
            _Cell(sign, self.slot[arg], row, col, 0, 0, *arg.shape, True, self._alike(arg))
            for arg, (sign, row, col) in zip(node.args, where, strict=True)
        ]
        used: list[int] = []
        self.slot[node] = out = self._cells(lines, cells, rows, cols, used)
        self._free += [slot for slot in dict.fromkeys(used) if slot != out]

    def _alike(self, node: Node) -> Alike:
        return self.repeated.get(node, (False, False))

    def _cells(
        self, lines: Lines, cells: Sequence[_Cell], rows: int, cols: int, used: list[int]
    ) -> int:
        """The slot of a sum: cut where parts begin or end, added up, and joined again."""
        if not cells:
            return self._fixed("const", zeros(rows, cols))
        cuts = {0: _cuts(cells, 0, rows), 1: _cuts(cells, 1, cols)}
        if not cuts[0] and not cuts[1]:
            return self._added(lines, cells, rows, cols, used)
        axis = min(
            (axis for axis in (0, 1) if cuts[axis]), key=lambda a: _crossed(cells, a, cuts[a])
        )
        edges = [0, *cuts[axis], rows if axis == 0 else cols]
        held, total = -1, 0
        for low, high in pairwise(edges):
            inner = [c for cell in cells if (c := cell.clipped(axis, low, high)) is not None]
            shape = (high - low, cols) if axis == 0 else (rows, high - low)
            part = self._cells(lines, inner, *shape, used)
            total += high - low
            if held < 0:
                held = self._line(lines, "one", part, part, *shape)
            else:
                shape = (total, cols) if axis == 0 else (rows, total)
                held = self._line(lines, "more", held, part, *shape)
            used.append(held)
        out = self._line(lines, "concat", held, self._fixed("axis", axis - 2), rows, cols)
        used.append(out)
        return out

    def _added(
        self, lines: Lines, cells: Sequence[_Cell], rows: int, cols: int, used: list[int]
    ) -> int:
        """The slot of parts that all reach from edge to edge, one by one.

        Where the first of them have one row or column for all, so has their sum so far.
        """
        out, made = -1, (1, 1)
        for cell in sorted(cells, key=lambda c: -c.sign):
            slot, size = cell.slot, (1 if cell.alike[0] else rows, 1 if cell.alike[1] else cols)
            if not cell.whole:
                slot = self._slice(lines, slot, cell.top, cell.left, *size)
                used.append(slot)
            made = (max(made[0], size[0]), max(made[1], size[1]))
            if out >= 0:
                out = self._line(lines, "add" if cell.sign > 0 else "sub", out, slot, *made)
                used.append(out)
            elif cell.sign > 0:
                out = slot
            else:
                out = self._line(lines, "mul", slot, self._fixed("number", -ONE), *made)
                used.append(out)
        return out


def _cuts(cells: Sequence[_Cell], axis: int, size: int) -> list[int]:
    """Where parts begin or end strictly inside a sum."""
    edges = set[int]()
    for cell in cells:
        at, length = (cell.row, cell.rows) if axis == 0 else (cell.col, cell.cols)
        edges |= {at, at + length}
    return sorted(edge for edge in edges if 0 < edge < size)


def _crossed(cells: Sequence[_Cell], axis: int, cuts: Sequence[int]) -> int:
    """How many parts the cuts go through."""
    count = 0
    for cell in cells:
        at, length = (cell.row, cell.rows) if axis == 0 else (cell.col, cell.cols)
        count += sum(at < cut < at + length for cut in cuts)
    return count


# -- batch axes ------------------------------------------------------------------------------------
Lead = tuple[int, ...]


def broadcast(*leads: Lead) -> Lead:
    """The batch axes of a result; nearly always those of its parts are equal or empty."""
    out: Lead = ()
    for lead in leads:
        if lead and lead != out:
            out = np.broadcast_shapes(out, lead) if out else lead
    return out


def batch_axes(lines: Lines, leads: dict[int, Lead]) -> None:
    """The batch axes of every slot after the lines have run, from those before; () if not named.

    Arrays and carried values of a loop are made in advance, so their full shapes must be known. A
    value that a loop carries may begin without the batch axes that its steps give it.
    """
    for line in lines:
        if isinstance(line, Line):
            leads[line.out] = broadcast(leads.get(line.a, ()), leads.get(line.b, ()))
            continue
        for phi, init in zip(line.phis, line.inits, strict=True):
            leads[phi] = leads.get(init, ())
        settled = False
        while not settled:
            before = [leads[phi] for phi in line.phis]
            batch_axes(line.body, leads)
            pairs = zip(before, line.nexts, strict=True)
            after = [broadcast(lead, leads.get(slot, ())) for lead, slot in pairs]
            settled = before == after
            leads.update(zip(line.phis, after, strict=True))
        for stack in line.stacks:
            leads[stack.out] = leads.get(stack.slot, ())
