"""Loops in numpy without allocating, and large batches in pieces that stay in a cache.

The arrays are made before the loop. A line writes into one that nothing reads any more, or into
its part of the array that is put together of it and others. Carried values are updated where they
stand, or change places with what comes next. Where functions have a domain, their arguments are
kept for some steps, and then looked at together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

import numpy as np

from inweave.exact.constants import Array
from inweave.run.libraries.compiled import einsum
from inweave.run.libraries.entries import InEntries, split
from inweave.run.libraries.functions import INVERSE, InNumpy
from inweave.run.libraries.numbers import Numbers
from inweave.run.libraries.parted import parted
from inweave.run.libraries.rows import by_rows, column, entry, joined, moved, rows
from inweave.run.libraries.tables import FEW
from inweave.run.libraries.written import (
    MANY,
    Entry,
    Shape,
    Step,
    Value,
    Writer,
    Written,
    stepping,
)
from inweave.run.lines.code import FEW as FEW_CALLS
from inweave.run.lines.code import Code, Line, Lines, Repeat, Stack
from inweave.run.lines.lifetimes import ENTRY_BY_ENTRY, lifetimes, reader
from inweave.run.lines.narrow import narrow

PIECE = 1 << 17  # entries that a cache holds
NEAR = 1 << 20  # entries that the next one holds
NARROW = {False: 128, True: 32}  # entries of a matrix that are worth leaving alone; of many
KEPT = 1 << 14  # entries that are kept until they are looked at
SMALL = 36  # entries of a matrix for which a call of BLAS costs more than the product
APPLIED = ("pointwise", "guard")  # what has arguments that are looked at
ENTRIES = 1 << 15  # to read them from afar takes longer than a call
MIRRORED = 32  # rows of products with a transpose, up to which all of it is quicker than half
COPIED = 1 << 18  # entries that a copy for this may have
BLOCK = (1 << 25) - (1 << 13)  # bytes
READING = ("getitem", "flip", "diagonal", "pick", "one", "more")  # lines that compute nothing

# Nanoseconds of a call in a loop, whatever its size: for one prompt, with the views that it needs;
# in a batch, of arrays that lie in a row, and of others; and of each entry of these. A product of
# the small matrices of a problem takes as long as many entries, one of a column and a row as a few.
ALONE, CALL, ASIDE, ENTRY, APART, OUTER, PRODUCT = 800.0, 320.0, 950.0, 0.25, 1.0, 3.5, 25.0

Look = Callable[[Array], None]
"""Raises where an array is not what it should be."""


def loop(loop: Repeat, otherwise: Step, writer: type[InPlace], known: Sequence[Any]) -> Step:
    """A loop as a step over slots, some of which are `known` before any call."""
    return stepping(loop, lambda slots, lead: quickest(loop, slots, lead, writer, known),
                    otherwise, concrete=True)  # fmt: skip


@cache
def _keep_memory() -> None:
    """Let the memory of a batch stay for the next one; done before the first.

    glibc hands the arrays of a batch back to the system after every call, and then every page of
    them is cleared again: up to two thirds of the time. It keeps twice as much as the largest block
    that was ever freed, so one is, of the most that counts; it is never touched.
    """
    with suppress(MemoryError):
        np.empty(BLOCK, np.uint8)


def in_pieces(
    code: Code,
    through: Callable[[list[Any], Look | None], list[Array]],
    slots: list[Any],
    piece: int,
    shown: Container[int],
    look: Look | None,
) -> list[Array]:
    """The outputs for a batch, computed for so many problems at a time; 0: for all together.

    Every operation goes through the whole batch, so that what one has written is far away when the
    next one reads it; and new memory of such size comes from the system, which clears it first.
    Also the `look` at the inputs that are not `shown`, piece by piece, brings them nearer.
    """
    _keep_memory()
    sources = {slot: slots[slot] for slot in code.sources.values()}
    count = max((x.shape[0] for x in sources.values() if x.ndim > 2), default=0) if piece else 0
    whole = {slot: x for slot, x in sources.items() if piece and x.ndim > 2 and len(x) == count}
    if look is not None:
        for slot, x in sources.items():
            if slot not in shown and slot not in whole:
                look(x)
    if not piece:
        return through(slots, look)
    axes = max(x.ndim for x in whole.values())
    outs: list[Array] = []
    for start in range(0, count, piece):
        inside = slots.copy()
        for slot, x in whole.items():
            inside[slot] = x[start : start + piece]
            if look is not None and slot not in shown:
                look(inside[slot])
        found = through(inside, look)
        if not outs:
            outs = [
                np.empty((count, *x.shape[1:]), x.dtype) if x.ndim == axes else x for x in found
            ]
        for out, part in zip(outs, found, strict=True):
            if part.ndim == axes:
                out[start : start + piece] = part
    return outs


def piece(code: Code, shapes: Mapping[int, tuple[int, ...]], shown: Container[int]) -> int:
    """How many problems of a batch are computed at a time, given the shapes of sources; 0: all.

    As many as a cache holds. What all problems share is computed once, so there nothing is cut; nor
    where there is one value only, or a few that are near together, for answers are copied.
    """
    axes = max(map(len, shapes.values()), default=2)
    whole = {slot: shape for slot, shape in shapes.items() if len(shape) == axes and shape[0] > 1}
    count = max((shape[0] for shape in whole.values()), default=1)
    read = sum(math.prod(shape[1:]) for slot, shape in whole.items() if slot not in shown)
    found = _piece(code, read)
    shared = any(math.prod(shape) > 1 for slot, shape in shapes.items() if slot not in whole)
    near = code.calls <= FEW_CALLS and (code.held == code.widest or count * code.held <= NEAR)
    return 0 if axes == 2 or count < 2 * found or shared or near else found


def _piece(code: Code, read: int) -> int:
    """Problems at a time: their largest values fit a cache, and so does what is read if that pays.

    To read inputs twice from afar costs less than to make more calls of a piece of few entries.
    """
    inputs = max(PIECE, code.calls * ENTRIES)
    return max(1, min(PIECE // code.held, inputs // max(1, read + code.passed)))


def matmul(a: Array, b: Array) -> Array:
    """`a @ b`; a matrix that the whole batch shares multiplies all vectors at once."""
    if a.ndim == 2 and b.ndim > 2 and b.shape[-1] == 1:
        return (b[..., 0] @ a.T)[..., None]
    if b.ndim == 2 and a.ndim > 2 and a.shape[-2] == 1:
        return (a[..., 0, :] @ b)[..., None, :]
    if a.shape[-2] <= MIRRORED and a.ndim > 2 and a.size <= COPIED and _is_flip(a, b):
        a = a.copy("K")
    return a @ b


def _is_flip(a: Array, b: Array) -> bool:
    """Whether one may be a view of the other's transpose.

    Such a product numpy hands to BLAS as a symmetric one, which computes half of it: of small
    matrices that takes twice as long as a copy and the whole product.
    """
    return (
        a.strides[-1] == b.strides[-2] and a.strides[-2] == b.strides[-1]
        and (a.base is b or b.base is a or (a.base is b.base is not None))
    )  # fmt: skip


def _shared_right(a: Array, b: Array, out: Array) -> None:
    """A matrix that the whole batch shares multiplies all rows at once."""
    np.matmul(a.reshape(-1, a.shape[-1]), b, out.reshape(-1, out.shape[-1]))


def _small(a: Array, b: Array, out: Array) -> None:
    """Many small matrices times a column each, without a call of BLAS for each of them."""
    einsum("...ij,...j->...i", a, b[..., 0], out=out[..., 0])


def _outer(a: Array, b: Array, out: Array) -> None:
    """Columns times rows, in two thirds of the time that numpy takes to broadcast them."""
    einsum("...i,...j->...ij", a[..., 0], b[..., 0, :], out=out)


LIBRARY: dict[str, Any] = {
    "matmul": np.matmul, "mul": np.multiply, "div": np.divide, "add": np.add, "sub": np.subtract,
    "asarray": np.asarray, "copyto": np.copyto, "empty": np.empty, "moved": moved,
    "prod": math.prod,
    "ascontiguousarray": np.ascontiguousarray, "shared_right": _shared_right,
    "outer": _outer, "small": _small,
    "forward": rows, "backward": lambda x, height: rows(x, height)[::-1],
    "joined": joined, "entry": entry, "column": column, "by_rows": by_rows,
    "diagonal": lambda x: np.linalg.diagonal(x)[..., None],
    "errstate": np.errstate,
    "rows": lambda x, i, height: x[..., i * height : (i + 1) * height, :],
}  # fmt: skip


def divided(lines: Lines, kept: set[int], slots: Sequence[Any]) -> Lines:
    """Lines in which an inverse that only multiplies, and is not `kept`, is a division.

    What is left of the inverse is the look at what is divided by; it may be transposed on the way.
    """
    found: list[Any] = list(lines)
    for i, line in enumerate(found):
        if not isinstance(line, Line) or line.op != "pointwise":
            continue
        if getattr(slots[line.b], "into", None) is not INVERSE.into:
            continue
        turn, held, by = None, line, line.a
        j = reader(found, i, kept)
        if j is not None and found[j].op == "flip":
            turn, held, by = j, found[j], found[j].out
            j = reader(found, j, kept)
        until = j if turn is None else turn
        if j is None or found[j].op != "mul" or any(x.out == line.a for x in found[i:until]):
            continue
        found[i] = line._replace(op="guard")
        if turn is not None:
            found[turn] = held._replace(a=line.a, b=line.a)
        times = found[j]
        found[j] = times._replace(op="div", a=times.b if times.a == held.out else times.a, b=by)
    return found


def guarded(x: Array, function: InNumpy) -> None:
    """A look at the argument of a function, in place of the function."""
    function.look(x)


def quickest(
    loop: Repeat, slots: Sequence[Any], lead: Shape, writer: type[InPlace], known: Sequence[Any]
) -> Written:
    """What writes a loop: its matrices as they are, or entry by entry."""
    loop = _with_divisions(loop, slots)
    whole = in_parts(loop, slots, lead, writer)
    if isinstance(whole, Numbers):
        return whole
    alone = in_entries(loop, slots, lead, writer, known)
    return whole if alone is None or alone.price >= whole.price else alone


def in_entries(
    loop: Repeat, slots: Sequence[Any], lead: Shape, writer: type[InPlace], known: Sequence[Any]
) -> InEntries | None:
    """What writes a loop entry by entry; None where a matrix is too large."""
    found = split(loop, slots, known)
    if found is None:
        return None
    numbers = _with_divisions(found.numbers, found.slots)
    alone = in_parts(numbers, found.slots, lead, writer, found.ends)
    each = (CALL + APART * math.prod(lead)) / loop.times  # of an entry that is read or put back
    return InEntries(found, alone, alone.price + each * found.copied)


def _with_divisions(loop: Repeat, slots: Sequence[Any]) -> Repeat:
    ends = {*loop.nexts, *(stack.slot for stack in loop.stacks)}
    return replace(loop, body=divided(loop.body, ends, slots))


def in_parts(
    loop: Repeat,
    slots: Sequence[Any],
    lead: Shape,
    writer: type[InPlace],
    plain: Container[int] = frozenset(),
) -> Numbers | InPlace | InTurn:
    """What writes numbers as numbers, and the rest in arrays."""
    parts = parted(loop, slots)
    if parts is None:
        return writer(loop, slots, lead)
    first = Numbers(parts.numbers, slots, plain)
    if parts.rest is None:
        return first
    return InTurn(first, writer(parts.rest, [*slots, *parts.left], lead), len(parts.left))


class InTurn:
    """A loop over numbers, then one that reads what it leaves, in so many slots behind all."""

    def __init__(self, first: Numbers, then: InPlace, more: int) -> None:
        self.first, self.then, self.more = first, then, more
        self.price = first.price + then.price

    def function(self) -> Callable[[list[Any], tuple[int, ...]], None]:
        first, then, more = self.first.function(), self.then.function(), [None] * self.more

        def both(slots: list[Any], lead: tuple[int, ...]) -> None:
            end = len(slots)
            slots += more
            first(slots, lead)
            then(slots, lead)
            del slots[end:]

        return both


class InPlace(Writer):
    """In numpy: arrays are made before the loop."""

    entrywise: ClassVar[dict[str, Any]] = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    }  # fmt: skip
    """Outside of loops; each may write into an operand (`inweave.run.lines.reuse`)."""

    def __init__(self, loop: Repeat, slots: Sequence[Any], lead: Shape) -> None:
        self.dtype = next((x.dtype for x in slots if hasattr(x, "shape")), None)
        self.problems = math.prod(lead)
        self.many = self.problems >= MANY
        super().__init__(loop, slots)

    @property
    def price(self) -> float:
        """Nanoseconds of a step; views of arrays are not `fixed`."""
        known = self.values | dict(zip(self.loop.phis, self.phis, strict=True))
        known = {slot: value._replace(fixed=True) for slot, value in known.items()}
        found = 0.0
        for line in self.loop.body:
            assert isinstance(line, Line)
            a, b = (known.get(slot, Value("")) for slot in (line.a, line.b))
            along = line.op == "flip" and 1 in (line.rows, line.cols) and a.fixed
            whole = along or line.op not in READING
            made = Value("", line.rows, line.cols, a.batched or b.batched, whole)
            known[line.out] = made
            if line.op not in READING:
                found += self.takes(line.op, made, a, b)
        rows = [known[stack.slot] for stack in self.loop.stacks]
        return found + sum(CALL + ENTRY * self.entries(row) for row in rows)

    def takes(self, op: str, made: Value, a: Value, b: Value) -> float:
        """Nanoseconds of a line."""
        entries = self.entries(made)
        if not made.batched:
            return ALONE if entries > 1 else CALL
        if op == "matmul" and a.batched and b.batched:
            each = PRODUCT
            if self.many and b.cols == 1:  # `small`, without BLAS
                each = 0.3 * PRODUCT + 0.7 * APART * a.rows * a.cols
            return ASIDE + each * self.problems
        sides = [x for x in (a, b) if x.batched]
        if all(x.fixed and x[1:3] == made[1:3] for x in sides) and op != "matmul":
            return CALL + ENTRY * entries
        outer = a.cols == b.rows == 1 and min(made.rows, made.cols) > 1
        return ASIDE + (OUTER if outer and op == "mul" else APART) * entries

    def entries(self, x: Value) -> int:
        return x.rows * x.cols * (self.problems if x.batched else 1)

    def library(self) -> dict[str, Any]:
        return LIBRARY.copy()

    def constant(self, x: Any) -> Any:
        return np.array(x, self.dtype) if isinstance(x, float) else x

    def given_as(self, slot: int, x: Any) -> str:
        if not isinstance(x, Entry):
            return super().given_as(slot, x)
        return f"{'column' if x.shape[-2] > 1 else 'entry'}(slots[{x.slot}], {x.at})"

    def start(self) -> None:
        self.flat: set[str] = set()
        self.picked: set[str] = set()  # numbers that are rows of what no step changes
        self.lives = lifetimes(self.loop)
        self.moving = {self.loop.last[slot] for slot in self.loop.nexts}
        self.movable = {phi.name for phi in self.phis}  # arrays that may change places
        self.kept = self.looked_at()
        entries = max((phi.rows * phi.cols for phi in self.phis if phi.batched), default=0)
        found = narrow(self.loop) if entries >= NARROW[self.many] else None
        self.narrow = found if found and found.update in self.lives.updated else None
        self.turned: set[str] = set()  # arrays that stand column by column
        if self.narrow is not None:
            self.turned = {self.phis[0].name, f"v{self.narrow.product}"}
            self.lives.apart.add(self.narrow.product)
        for k in self.lives.updated.values():
            self.phis[k] = self.phis[k]._replace(fixed=True)
        known = [f"{self.values[init].name}.dtype" for init in self.loop.inits]
        known.append("next(x.dtype for x in slots if hasattr(x, 'shape'))")
        self.before.append(f"dtype = {known[0]}")
        for phi, init in zip(self.phis, self.loop.inits, strict=True):
            self.before.append(f"{phi.name} = {self.empty(phi)}")
            self.before.append(f"{phi.name}[...] = {self.values[init].name}")
        self.arrays: dict[str, str] = {}  # where each line writes, before all else that is fixed
        self.shared: dict[Value, int] = {}  # arrays of several lines, and which has written last
        self.after_start = len(self.before)
        self.loose: set[str] = set()  # arrays that may as well be a part of another one

    def looked_at(self) -> set[int]:
        """The lines that write what is looked at later into an array where it is kept."""
        found = set()
        for line, made in zip(self.loop.body, self.lives.reads, strict=True):
            if isinstance(line, Line) and line.op in APPLIED and made is not None:
                if (
                    made not in self.lives.apart
                    and made >= 0
                    and self.is_guarded(self.values[line.b])
                ):
                    found.add(made)
        return found

    def is_guarded(self, b: Value) -> bool:
        function = self.space[b.name]
        return isinstance(function, InNumpy) and function.guarded is not None

    def empty(self, like: Value, times: str = "") -> str:
        lead = "*lead, " if like.batched else ""
        if self.narrow is not None and self.many and like.batched and not times:
            return f"moved(moved(empty(({like.cols}, {like.rows}, *lead), dtype), 0, -1), 0, -2)"
        if like.name in self.turned:
            return f"moved(empty(({like.cols}, {lead}{like.rows}), dtype), 0, -1)"
        return f"empty(({times}{lead}{like.rows}, {like.cols}), dtype)"

    def put(self, text: str, fixed: bool) -> None:
        (self.before if fixed else self.body).append(text)

    def compute(self, made: Value, op: str, a: Value, b: Value) -> Value:
        if op in APPLIED:
            self.guard(a, b)
            if op == "guard":
                return made
            if self.is_small(made, b):
                self.movable.add(made.name)
                self.body.append(f"{made.name} = {b.name}.small({a.name})")
                return made
        i, made = int(made.name[1:]), self.placed(made, op, a, b)
        if self.narrow is not None and i in self.narrow:
            self.body.append(self.narrowed(made, op, a, b))
        elif op == "matmul":
            self.body.append(self.product(made, a, b))
        elif op in ("mul", "div"):
            self.body.append(self.multiplied(made, op, a, b))
        elif op == "concat":
            self.joined(made, a.parts, self.space[b.name])
        elif op == "pointwise":
            self.body.append(self.applied(made, a, b))
        else:
            self.body.append(self.entry_by_entry(made, op, a, b))
        if made.fixed and op in ("add", "sub", "concat") and i not in self.lives.updated:
            self.loose.add(made.name)
        return made

    def placed(self, made: Value, op: str, a: Value, b: Value) -> Value:
        """What a line makes, with the array that it writes into."""
        i, until = int(made.name[1:]), self.lives.until
        if i in self.kept:
            self.body.append(f"{made.name} = {self.keep(made)}")
            return made
        if i in self.lives.updated:
            return self.phis[self.lives.updated[i]]
        if i in self.moving:
            self.movable.add(made.name)
        else:
            made = made._replace(fixed=True)
        if i not in self.lives.apart:
            ending = (a.name, b.name) if op in ENTRY_BY_ENTRY else ()
            for array, last in reversed(self.shared.items()):
                free = until[last] < i or (until[last] == i and array.name in ending)
                if free and array == made._replace(name=array.name):
                    made = array
                    break
            self.shared.pop(made, None)  # those in a cache stand last
            self.shared[made] = i
        self.arrays.setdefault(made.name, self.empty(made))
        return made

    def keep(self, x: Value) -> str:
        """Where a value is kept until it is looked at."""
        name, times, size = x.name, self.loop.times, max(1, x.rows * x.cols)
        room = str(max(1, min(times, KEPT // size)))
        if x.batched:
            room = f"max(1, min({times}, {KEPT} // max(1, {size} * prod(lead))))"
        self.before.append(f"{name}_room = {room}")
        self.before.append(f"{name}_kept = {self.empty(x, f'{name}_room, ')}")
        return f"{name}_kept[i % {name}_room]"

    def joined(self, made: Value, parts: Sequence[Value], axis: int) -> None:
        """Parts are computed where they stand; those that cannot be, are copied there."""
        end = 0
        for part in parts:
            start, end = end, end + (part.rows, part.cols)[axis]
            place = f"{made.name}[..., {start}:{end}{', :' if axis == -2 else ''}]"
            if made.fixed and part.name in self.loose and part.batched == made.batched:
                self.arrays[part.name] = place
                self.loose.remove(part.name)
                continue
            if made.fixed:
                self.before.append(f"{made.name}_{start} = {place}")
                place = f"{made.name}_{start}"
            self.body.append(f"copyto({place}, {part.name})")

    def product(self, made: Value, a: Value, b: Value) -> str:
        if not made.batched:
            return f"{a.name}.dot({b.name}, {made.name})"
        call = "matmul"
        if not a.batched and b.cols == 1:
            return self.shared_left(made, a, b)
        elif not b.batched:
            call = "shared_right"
        elif self.many and b.cols == 1 and a.rows * a.cols <= SMALL:
            call = "small"
        return f"{call}({a.name}, {b.name}, {made.name})"

    def shared_left(self, made: Value, a: Value, b: Value) -> str:
        """A matrix that the whole batch shares multiplies all columns at once.

        They are rows of a matrix here, and BLAS is quickest if it is not to transpose the other.
        """
        turned = f"{a.name}_turned"
        if a.name not in self.given:
            turned = f"{a.name}.T"
        elif turned not in self.flat:
            self.before.append(f"{turned} = ascontiguousarray({a.name}.T)")
            self.flat.add(turned)
        return f"matmul({b.name}[..., 0], {turned}, {made.name}[..., 0])"

    def multiplied(self, made: Value, op: str, a: Value, b: Value) -> str:
        """numpy takes three times as long for a column times a row as for their matrix product."""
        alone = self.is_number(a) or self.is_number(b)
        if op == "mul" and not made.batched and a.cols == b.rows == 1 and not alone:
            return f"{a.name}.dot({b.name}, {made.name})"
        if op == "mul" and a.cols == b.rows == 1 and min(made.rows, made.cols) > 1:
            return f"outer({a.name}, {b.name}, {made.name})"
        return self.entry_by_entry(made, op, a, b)

    def entry_by_entry(self, made: Value, op: str, a: Value, b: Value) -> str:
        """numpy takes three times as long for (1, 1) as for an array without axes."""
        names = [
            self.number(x) if self.is_number(x) and not self.is_number(made) else x.name
            for x in (a, b)
        ]
        return f"{op}({names[0]}, {names[1]}, {made.name})"

    def is_number(self, x: Value) -> bool:
        return x.rows == x.cols == 1 and not x.batched

    def narrowed(self, made: Value, op: str, a: Value, b: Value) -> str:
        """The same, right of the column of this step."""
        parts = [x.name if x.cols == 1 else f"{x.name}[..., i + 1 :]" for x in (a, b, made)]
        return f"{'outer' if op == 'mul' else op}({', '.join(parts)})"

    def number(self, x: Value) -> str:
        name = f"{x.name}_number"
        if name not in self.flat or not x.fixed:
            text = f"{x.name}[0, 0, ...]"
            if x.name in self.picked:  # an array without axes is quicker to hand over than a float
                self.before.append(f"{name}s = [*map(asarray, {x.name}_rows.ravel())]")
                text = f"{name}s[i]"
            self.put(f"{name} = {text}", x.fixed)
            self.flat.add(name)
        return name

    def pick(self, name: str, x: Value, order: Value, line: Line) -> Value:
        if x.name in self.given and x.batched and line.rows == line.cols == 1:
            self.before.append(f"{name}_near = by_rows({x.name})")
            x = x._replace(name=f"{name}_near")
        found = super().pick(name, x, order, line)
        if x.fixed and self.is_number(found):
            self.picked.add(name)
        return found

    def is_small(self, made: Value, b: Value) -> bool:
        """Whether a function makes a new array as quickly as it fills one."""
        function, i = self.space[b.name], int(made.name[1:])
        small = not made.batched and made.rows * made.cols <= FEW
        bound = i in self.kept or i in self.lives.updated
        return small and not bound and getattr(function, "small", None) is not None

    def applied(self, made: Value, x: Value, b: Value) -> str:
        if isinstance(self.space[b.name], InNumpy):
            return f"{b.name}.into({x.name}, {made.name})"
        return f"copyto({made.name}, {b.name}({x.name}))"

    def guard(self, x: Value, b: Value) -> None:
        """Arguments are looked at when so many are kept as a cache holds, and at the end."""
        if not self.is_guarded(b):
            return
        name = x.name
        if f"{name} = {name}_kept[i % {name}_room]" not in self.body:
            name = f"{x.name}_{len(self.body)}"
            self.body.append(f"copyto({self.keep(x._replace(name=name))}, {x.name})")
        self.body.append(f"if i % {name}_room == {name}_room - 1:")
        self.body.append(f"    {b.name}.look({name}_kept)")
        self.after.append(f"{b.name}.look({name}_kept[:{self.loop.times} % {name}_room])")
        self.around = "errstate(divide='ignore')"  # by what is then refused

    def stack(self, name: str, stack: Stack, row: Value) -> None:
        shape = f"{self.loop.times}, {'*lead, ' if row.batched else ''}{stack.height}, {row.cols}"
        self.before.append(f"{name} = empty(({shape}), dtype)")
        self.before.append(f"{name}_at = {name}{'[::-1]' if stack.backward else ''}")
        self.body.append(f"{name}_at[i] = {row.name}")
        self.after.append(f"slots[{stack.out}] = joined({name}){'.mT' if stack.flip else ''}")

    def carry(self, nexts: Sequence[Value]) -> None:
        """Carried values change places with what comes next; what must be copied, is before."""
        takers: dict[str, str] = {}  # arrays, and the carried values that have them next
        for phi, after in zip(self.phis, nexts, strict=True):
            taken = after.name
            if taken not in self.movable or taken in takers or after.batched != phi.batched:
                taken = f"{phi.name}_copy"
                self.before.append(f"{taken} = {self.empty(phi)}")
                self.body.append(f"{taken}[...] = {after.name}")
            takers[taken] = phi.name
        moved = {phi: array for array, phi in takers.items() if array != phi}
        for array in takers:
            if array not in takers.values():
                last = array  # gets what nobody takes, of all that change places in turn
                while last in takers:
                    last = takers[last]
                moved[array] = last
        if moved:
            self.body.append(f"{', '.join(moved)} = {', '.join(moved.values())}")
        arrays = [f"{name} = {array}" for name, array in reversed(self.arrays.items())]
        self.before[self.after_start : self.after_start] = arrays  # the whole before its parts
