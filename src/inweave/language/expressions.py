"""Expressions: the graph that a program records when it is called with symbols instead of arrays.

Everything else is a way of reading the graph: evaluated with arrays it computes, evaluated in a
finite field it is the exact reference, normalized and scheduled it becomes a network. Every value
is a matrix; a vector is one column, a scalar is 1 x 1.

Nodes are immutable and interned: the same operation on the same values is one object, so `is` is
equality, nodes are keys of tables, and a step that is recorded twice gives the same graph twice.
Only symbols are told apart by when they were made: an input belongs to one recording, a carried
value to one loop of it. The table is weak, so a graph lives as long as someone holds it. Nothing
here recurses: programs may be deep.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from threading import RLock
from typing import Any, ClassVar, Self
from weakref import WeakValueDictionary, ref

from inweave.exact.constants import Constant, exact
from inweave.language.refusals import check_length, check_range
from inweave.model.prompt import Input, Kind
from inweave.model.relunet import Function

LONGEST = 200  # characters of an expression's text

Units = tuple[bool, bool]


# -- nodes ----------------------------------------------------------------------------------------
class Node:
    """Something recorded: one object for equal keys, and unchangeable."""

    _known: ClassVar[WeakValueDictionary[Any, Any]] = WeakValueDictionary()
    _lock: ClassVar[Any] = RLock()  # re-entered if garbage is collected here

    def __new__(cls, key: tuple[Any, ...], **fields: Any) -> Self:
        key = (cls, *key)
        with Node._lock:
            node: Self | None = Node._known.get(key)
            if node is None:
                node = object.__new__(cls)
                vars(node).update(fields)
                Node._known[key] = node
        return node

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{self!r} does not change: cannot set {name}")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self


class Expr(Node):
    """A rows x cols matrix value, made of its parts.

    `units = (row, col)`: True where the axis of length one was added by lifting (a vector's column
    axis, both axes of a scalar); it decides the shape in which an answer is handed back.
    """

    parts: tuple[Expr, ...]
    shape: tuple[int, int]
    units: Units
    number: Fraction | None = None  # what a constant 1 x 1 value stands for

    def __new__(
        cls, parts: tuple[Expr, ...], shape: tuple[int, int], units: Units, *key: Any, **fields: Any
    ) -> Self:
        key = (shape, units, *(key or parts))
        node = super().__new__(cls, key, parts=parts, shape=shape, units=units, **fields)
        recording = _recording.get()
        if recording is not None:
            recording.made.append(ref(node))
        return node

    @property
    def rows(self) -> int:
        return self.shape[0]

    @property
    def cols(self) -> int:
        return self.shape[1]

    @property
    def kind(self) -> Kind:
        return "scalar" if all(self.units) else "vector" if self.units[1] else "matrix"

    @property
    def is_scalar(self) -> bool:
        return self.shape == (1, 1)

    def __repr__(self) -> str:
        return f"{shortened(self.text(), 60)} [{self.rows} x {self.cols}]"

    def text(self) -> str:
        """The expression in the program's own words, shortened.

        Each value is put into words once: written out, what is read twice would double the text.
        """
        words: dict[Expr, str] = {}
        for x in ordered([self]):
            words[x] = shortened(x.words([words[part] for part in x.parts]), LONGEST)
        return words[self]

    def words(self, parts: Sequence[str]) -> str:
        """The text of this operation, given those of what it reads."""
        raise NotImplementedError


class Symbol(Expr):
    """A value that is known by its name."""

    name: str

    def words(self, parts: Sequence[str]) -> str:
        return self.name


class InputExpr(Symbol):
    """An argument of the program, in one recording of it."""

    def __new__(cls, spec: Input, recording: Recording) -> Self:
        units = (spec.kind == "scalar", spec.kind != "matrix")
        shape = (spec.rows, spec.cols)
        return super().__new__(cls, (), shape, units, spec.name, recording.token, name=spec.name)


class Carried(Symbol):
    """A value that a loop carries, as its body sees it.

    It belongs to the loop at `path` of one recording; without one, it is like no other.
    """

    where: str  # the line of its loop
    path: tuple[int, ...]

    def __new__(
        cls,
        name: str,
        like: Expr,
        where: str = "",
        recording: Recording | None = None,
        path: tuple[int, ...] | None = None,
    ) -> Self:
        token = object() if recording is None else recording.token
        if path is None:
            path = () if recording is None else recording.path
        key, fields = (name, token, path), {"name": name, "where": where, "path": path}
        return super().__new__(cls, (), like.shape, like.units, *key, **fields)


class ConstantExpr(Expr):
    """A constant matrix."""

    constant: Constant

    def __new__(cls, constant: Constant, units: Units = (False, False)) -> Self:
        number = exact(constant.entries()[0, 0]) if constant.shape == (1, 1) else None
        fields = {"constant": constant, "number": number}
        return super().__new__(cls, (), constant.shape, units, constant, **fields)

    def words(self, parts: Sequence[str]) -> str:
        return repr(self.constant)


class Sum(Expr):
    """A linear combination with exact coefficients."""

    terms: tuple[tuple[Fraction, Expr], ...]

    def __new__(cls, terms: Iterable[tuple[Fraction, Expr]], units: Units | None = None) -> Self:
        flat: list[tuple[Fraction, Expr]] = []
        key: list[Any] = []  # in ints: Fractions are slow to hash
        row = col = True
        for coefficient, x in terms:
            row, col = row and x.units[0], col and x.units[1]  # a slice is labelled by its sum
            if isinstance(x, Sum) and len(x.terms) == 1:
                coefficient, x = coefficient * x.terms[0][0], x.terms[0][1]
            above, below = coefficient.as_integer_ratio()
            if above.bit_length() - below.bit_length() > 1022:
                check_range(coefficient, x)
            check_length(below)
            flat.append((coefficient, x))
            key.append((above, below, x))
        parts = tuple(x for _, x in flat)
        numbers = [c * x.number for c, x in flat if x.number is not None]
        number = sum(numbers, Fraction(0)) if len(numbers) == len(flat) else None
        fields = {"terms": tuple(flat), "number": number}
        return super().__new__(cls, parts, parts[0].shape, units or (row, col), *key, **fields)

    @property
    def relabelled(self) -> bool:
        """Whether its units are other than those of its terms, as those of a slice are."""
        own = (all(x.units[0] for x in self.parts), all(x.units[1] for x in self.parts))
        return self.units != own

    def words(self, parts: Sequence[str]) -> str:
        out = ""
        for (c, x), inner in zip(self.terms, parts, strict=True):
            size = "" if abs(c) == 1 else f"{float(abs(c)):g} "
            sign = ("-" if c < 0 else "") if not out else (" - " if c < 0 else " + ")
            out += sign + size + (inner if c == 1 and not out else _bracketed(x, inner))
            if len(out) > LONGEST:
                break
        return out


class Product(Expr):
    """A matrix product of two values."""

    a: Expr
    b: Expr

    def __new__(cls, a: Expr, b: Expr) -> Self:
        units = (a.units[0], b.units[1])
        return super().__new__(cls, (a, b), (a.rows, b.cols), units, a=a, b=b)

    def words(self, parts: Sequence[str]) -> str:
        pairs = zip(self.parts, parts, strict=True)
        return " @ ".join(_bracketed(x, text, Entrywise) for x, text in pairs)


class Scaled(Expr):
    """A scalar variable times a matrix."""

    s: Expr
    x: Expr

    def __new__(cls, s: Expr, x: Expr) -> Self:
        return super().__new__(cls, (s, x), x.shape, x.units, s=s, x=x)

    def words(self, parts: Sequence[str]) -> str:
        return " * ".join(map(_bracketed, self.parts, parts))


class Entrywise(Expr):
    """A product of two values of one size, entry by entry."""

    a: Expr
    b: Expr

    def __new__(cls, a: Expr, b: Expr) -> Self:
        units = (a.units[0] and b.units[0], a.units[1] and b.units[1])
        return super().__new__(cls, (a, b), a.shape, units, a=a, b=b)

    def words(self, parts: Sequence[str]) -> str:
        pairs = zip(self.parts, parts, strict=True)
        return " * ".join(_bracketed(x, text, Product) for x, text in pairs)


class Transposed(Expr):
    """A transpose."""

    x: Expr

    def __new__(cls, x: Expr) -> Self:
        return super().__new__(cls, (x,), x.shape[::-1], x.units[::-1], x=x)

    def words(self, parts: Sequence[str]) -> str:
        return f"{parts[0]}.T" if isinstance(self.x, Symbol) else f"({parts[0]}).T"


class Applied(Expr):
    """A pointwise function of every entry."""

    function: Function
    x: Expr

    def __new__(cls, function: Function, x: Expr) -> Self:
        # Functions with equal nets may stand for other true functions, and have other notes.
        notes = function.reference, function.evidence, function.steps, function.reached
        fields = {"function": function, "x": x}
        return super().__new__(cls, (x,), x.shape, x.units, function, *notes, x, **fields)

    def words(self, parts: Sequence[str]) -> str:
        return f"{self.function.name}({parts[0]})"


class Held(Expr):
    """The same value, stored by the network as it is: products do not reach through it."""

    x: Expr

    def __new__(cls, x: Expr) -> Self:
        return super().__new__(cls, (x,), x.shape, x.units, x=x)

    def words(self, parts: Sequence[str]) -> str:
        return parts[0]


class Loop(Node):
    """`times` applications of a step to the carried values.

    `body` is what changes with them, parts first, `outer` what the body and the step's results read
    of what does not, and `given` that part of it which the step did not make itself (`made`). A
    loop that is recorded again is the first one, also if its step kept what it made then.
    """

    carried: tuple[Carried, ...]
    init: tuple[Expr, ...]
    step: tuple[Expr, ...]
    times: int
    body: tuple[Expr, ...]
    outer: tuple[Expr, ...]
    given: tuple[Expr, ...]

    def __new__(
        cls,
        carried: tuple[Carried, ...],
        init: tuple[Expr, ...],
        step: tuple[Expr, ...],
        times: int,
        made: Collection[Expr | None] = (),
    ) -> Self:
        moving: dict[Expr, None] = dict.fromkeys(carried)
        for x in ordered(step, stop=carried):
            if any(part in moving for part in x.parts):
                moving[x] = None
        body = tuple(moving)[len(carried) :]
        read = (*step, *(part for x in body for part in x.parts))
        outer = tuple(dict.fromkeys(x for x in read if x not in moving))
        given = tuple(x for x in outer if x not in made)
        fields = {"carried": carried, "init": init, "step": step, "times": times}
        found = {"body": body, "outer": outer, "given": given}
        return super().__new__(cls, tuple(fields.values()), **fields, **found)


class LoopResult(Expr):
    """One of the values that a loop ends with."""

    loop: Loop
    index: int

    def __new__(cls, loop: Loop, index: int) -> Self:
        start, after = loop.init[index], loop.step[index]
        units = (start.units[0] and after.units[0], start.units[1] and after.units[1])
        parts = (*loop.init, *loop.outer)
        return super().__new__(cls, parts, start.shape, units, loop, index, loop=loop, index=index)

    def words(self, parts: Sequence[str]) -> str:
        return f"{self.loop.carried[self.index].name}[{self.loop.times}]"


def shortened(text: str, length: int) -> str:
    """A text for people: whole if it fits, otherwise its beginning."""
    return text if len(text) <= length else text[: length - 3] + "..."


def _bracketed(x: Expr, text: str, *others: type[Expr]) -> str:
    return f"({text})" if isinstance(x, (Sum, *others)) else text


# -- recordings -----------------------------------------------------------------------------------
class Recording:
    """One call of a program's function: what it made, in order, and the loop that it stands in.

    `path` counts, outermost first, the loops that came before at every level. So a step that is
    recorded `again`, only to be compared, has the same inner loops. `made` is weak: most sums on
    the way to a long one die.
    """

    def __init__(self) -> None:
        self.token = object()
        self.made: list[ref[Expr]] = []
        self.path: tuple[int, ...] = (0,)
        self.again = False
        self.calls = 0  # of steps that changed what they read
        self.unread: list[tuple[object, str]] = []  # ranges that were said, and what if none asks

    def __enter__(self) -> Self:
        self._before = _recording.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _recording.reset(self._before)

    @contextmanager
    def step(self, path: tuple[int, ...], again: bool = False) -> Iterator[None]:
        """Record the step of the loop at `path`; what is made `again` is not noted."""
        outside, made = _recording.set(self), len(self.made)
        self.path, before, self.again = (*path, 0), self.again, self.again or again
        try:
            yield
        finally:
            self.path, self.again = (*path[:-1], path[-1] + 1), before
            _recording.reset(outside)
            if again:
                del self.made[made:]

    def noticed(self, known: object) -> None:
        """Note that somebody asked for a range, and so checks it."""
        self.unread = [pair for pair in self.unread if pair[0] is not known]

    def operations(self, needed: Sequence[Expr]) -> tuple[Expr, ...]:
        """What is needed, in the order of the program, as often as it was written there."""
        kept = set(needed)
        made = [x for one in self.made if (x := one()) in kept and x is not None]
        outside = kept.difference(made)  # constants
        return (*(x for x in needed if x in outside), *made)


_recording: ContextVar[Recording | None] = ContextVar("recording", default=None)


def current() -> Recording:
    """The recording that runs; outside a program, one that nobody holds."""
    return _recording.get() or Recording()


def is_recording() -> bool:
    """Whether a program is being recorded."""
    return _recording.get() is not None


# -- walking --------------------------------------------------------------------------------------
def ordered(roots: Iterable[Expr], stop: Container[Expr] = ()) -> list[Expr]:
    """Every expression below the roots, parts first; nothing at or below `stop`."""
    return parts_first(roots, stop)


def parts_first(roots: Iterable[Any], stop: Container[Any]) -> list[Any]:
    """The same of anything that has `parts`."""
    done, out = set[Any](), list[Any]()
    waiting = [(x, False) for x in reversed(list(roots))]
    while waiting:
        x, ready = waiting.pop()
        if ready:
            out.append(x)
        elif x not in done and x not in stop:
            done.add(x)
            waiting.append((x, True))
            waiting.extend((part, False) for part in reversed(x.parts))
    return out


def read_often(roots: Iterable[Expr]) -> set[Expr]:
    """The expressions that are read more than once; loops are looked into."""
    seen: set[Expr] = set()
    often: set[Expr] = set()
    waiting = list(roots)
    while waiting:
        x = waiting.pop()
        if x in seen:
            often.add(x)
            continue
        seen.add(x)
        waiting += x.loop.step if isinstance(x, LoopResult) else ()
        waiting += x.parts
    return often


def only_summed(order: Iterable[Expr], often: Collection[Expr]) -> set[Expr]:
    """The sums that nothing reads but a sum: `summands` of that one opens them."""
    sums = [x for x in order if isinstance(x, Sum)]
    return {y for x in sums for y in x.parts if isinstance(y, Sum) and y not in often}


def summands(x: Sum, often: Collection[Expr]) -> list[tuple[Fraction, Expr]]:
    """A sum's terms, sums among them opened that nothing else reads.

    `total = total + x` in a Python loop records a sum of a sum of a sum.
    """
    out: list[tuple[Fraction, Expr]] = []
    waiting = [(Fraction(1), x)]  # type: list[tuple[Fraction, Expr]]
    while waiting:
        c, y = waiting.pop()
        if isinstance(y, Sum) and (y is x or y not in often):
            waiting += [(c * d, z) for d, z in reversed(y.terms)]
        else:
            out.append((c, y))
    return out


def every(roots: Iterable[Expr]) -> list[Expr]:
    """Every expression below the roots, the bodies of loops included."""
    seen: dict[Expr, None] = {}
    waiting = list(roots)
    while waiting:
        found = ordered(waiting, stop=seen)
        seen.update(dict.fromkeys(found))
        waiting = [y for x in found if isinstance(x, LoopResult) for y in x.loop.step]
    return list(seen)
