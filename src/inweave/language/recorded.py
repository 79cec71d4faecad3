"""A recorded program as data: written to files, read again, and never run as code.

The graph becomes a list of operations on numbered values, as for a stack machine. The inputs are
the first values, and every operation adds its results at the end and names what it reads by
numbers. `Begin` opens a loop and adds what it carries; `End` closes it, takes away every value
since, and adds what the loop ends with. So a number is always that of a value which exists at that
point: what a loop carries cannot be read outside of it, and nothing can be read before it is made.

Reading does not recurse, and trusts nothing: shapes and numbers are checked operation by operation,
each can add only as much as its own text is long, and the first that makes no sense is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from inweave.errors import ProgramError
from inweave.exact.constants import Constant
from inweave.exact.schema import Coefficient, Count, Line, Name, Size
from inweave.language import expressions as ex
from inweave.language.expressions import Expr, Loop
from inweave.language.program import Traced
from inweave.model.prompt import Input, Kind
from inweave.model.relunet import Function

MOST = 1_000_000  # operations
DEEPEST = 100  # loops in loops
LARGEST_LOOPS = 10_000_000  # what loops read, and what stood around them, all together
LARGEST_NUMBERS = 2**24  # bits of all constant scalars together
STATED = "as stated in the file"

Units = tuple[bool, bool]
Values = tuple[Expr, ...]


# -- operations ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ConstantValue:
    """A constant matrix."""

    constant: Constant
    units: Units


@dataclass(frozen=True)
class Added:
    """A linear combination."""

    terms: tuple[tuple[Coefficient, Count], ...]
    units: Units


@dataclass(frozen=True)
class Multiplied:
    """A matrix product."""

    left: Count
    right: Count


@dataclass(frozen=True)
class Scaled:
    """A scalar times a matrix."""

    scalar: Count
    matrix: Count


@dataclass(frozen=True)
class Entrywise:
    """A product entry by entry."""

    entrywise: tuple[Count, Count]


@dataclass(frozen=True)
class Transposed:
    """A transpose."""

    transposed: Count


@dataclass(frozen=True)
class Applied:
    """A pointwise function, by its number, of every entry."""

    function: Count
    argument: Count


@dataclass(frozen=True)
class Held:
    """The same value, which the network stores as it is."""

    held: Count


@dataclass(frozen=True)
class Begin:
    """A loop begins: what it carries, by name, and the values that it starts from."""

    names: tuple[Name, ...]
    start: tuple[Count, ...]


@dataclass(frozen=True)
class End:
    """The innermost loop ends: what one step makes of what it carries, and how often."""

    step: tuple[Count, ...]
    times: Size


Made = ConstantValue | Added | Multiplied | Scaled | Entrywise | Transposed | Applied | Held
Operation = Made | Begin | End


@dataclass(frozen=True)
class Answer:
    """A value that the program returns."""

    name: Line
    value: Count
    kind: Kind


@dataclass(frozen=True)
class Table:
    """A function of the program, with what its program says of the Newton steps after it."""

    function: Function
    steps: Count = 0
    reached: float = 0.0


@dataclass(frozen=True)
class Recorded:
    """A program at its sizes: what `Traced` is, as data. One that makes no sense is refused."""

    inputs: tuple[Input, ...]
    sizes: tuple[tuple[Name, Size], ...]
    functions: tuple[Table, ...]
    operations: tuple[Operation, ...]
    answers: tuple[Answer, ...]
    traced: Traced = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "traced", _Reader(self).traced())

    @classmethod
    def of(cls, traced: Traced) -> Recorded:
        """The data of a recorded program."""
        return cls(*_Writer(traced).written())


Written = tuple[
    tuple[Input, ...],
    tuple[tuple[str, int], ...],
    tuple[Table, ...],
    tuple[Operation, ...],
    tuple[Answer, ...],
]
"""The parts of a `Recorded`."""


def written(traced: Traced) -> Written:
    """The data of a recorded program, which need not be read to be looked at."""
    return _Writer(traced).written()


# -- to data ---------------------------------------------------------------------------------------
class _Writer:
    def __init__(self, program: Traced) -> None:
        self.program = program
        self.numbers: dict[Expr, int] = {}
        self.values: list[Expr] = []  # the one that has each number
        self.functions: dict[tuple[object, ...], tuple[int, Table]] = {}
        self.operations: list[Operation] = []
        self.opened: list[int] = []

    def written(self) -> Written:
        program, roots = self.program, list(self.program.outputs.values())
        symbols = {x.name: x for x in ex.ordered(roots) if isinstance(x, ex.InputExpr)}
        for spec in program.inputs:
            self._add([symbols.get(spec.name, ex.InputExpr(spec, ex.Recording()))])
        self._write(roots)
        tables = tuple(table for _, table in self.functions.values())
        found = [(name, self.numbers[x]) for name, x in program.outputs.items()]
        answers = tuple(Answer(name, value, program.kinds[name]) for name, value in found)
        sizes = tuple(program.sizes.items())
        return program.inputs, sizes, tables, tuple(self.operations), answers

    def _add(self, results: Iterable[Expr]) -> None:
        for x in results:
            self.numbers[x] = len(self.values)
            self.values.append(x)

    def _write(self, roots: Sequence[Expr]) -> None:
        """Operations for the roots and all they are made of; bodies of loops between their ends."""
        waiting: list[tuple[str, Expr | Loop]] = [("write", x) for x in _stacked(ex.ordered(roots))]
        while waiting:
            what, x = waiting.pop()
            if isinstance(x, Loop):
                self._begin(x) if what == "begin" else self._end(x)
            elif what == "done":
                self.operations.append(self._operation(x))
                self._add([x])
            elif x in self.numbers:
                continue
            elif isinstance(x, ex.LoopResult):
                waiting += [("end", x.loop), *(("write", y) for y in _stacked(x.loop.body))]
                waiting += [("begin", x.loop), *(("write", y) for y in reversed(x.parts))]
            else:
                waiting.append(("done", x))
                waiting += [("write", y) for y in reversed(x.parts)]

    def _begin(self, loop: Loop) -> None:
        self.operations.append(Begin(tuple(x.name for x in loop.carried), self._all(loop.init)))
        self.opened.append(len(self.values))
        self._add(loop.carried)

    def _end(self, loop: Loop) -> None:
        self.operations.append(End(self._all(loop.step), loop.times))
        start = self.opened.pop()
        for x in self.values[start:]:
            del self.numbers[x]
        del self.values[start:]
        self._add(ex.LoopResult(loop, i) for i in range(len(loop.carried)))

    def _all(self, values: Sequence[Expr]) -> tuple[int, ...]:
        return tuple(self.numbers[x] for x in values)

    def _operation(self, x: Expr) -> Operation:
        read = self._all(x.parts)
        match x:
            case ex.ConstantExpr():
                return ConstantValue(x.constant, x.units)
            case ex.Sum():
                return Added(tuple((c, self.numbers[y]) for c, y in x.terms), x.units)
            case ex.Product():
                return Multiplied(*read)
            case ex.Scaled():
                return Scaled(*read)
            case ex.Entrywise():
                return Entrywise((read[0], read[1]))
            case ex.Transposed():
                return Transposed(*read)
            case ex.Applied():
                return Applied(self._function(x.function), *read)
            case ex.Held():
                return Held(*read)
        raise ProgramError(f"{x!r} has no value where it is read")

    def _function(self, function: Function) -> int:
        key = (function, function.steps, function.reached)
        table = Table(function, function.steps, float(function.reached))
        return self.functions.setdefault(key, (len(self.functions), table))[0]


def _stacked(values: Sequence[Expr]) -> list[Expr]:
    """Values for a stack: on top the loops, as the program has them one after the other.

    Proofs compare loop after loop in that order, and a walk from the answers would not keep it.
    """
    loops = {x.loop: x for x in values if isinstance(x, ex.LoopResult)}
    first = sorted(loops, key=lambda loop: loop.carried[0].path)
    return [*reversed(values), *(loops[loop] for loop in reversed(first))]


# -- from data -------------------------------------------------------------------------------------
class _Reader:
    def __init__(self, recorded: Recorded) -> None:
        self.recorded = recorded
        self.recording = ex.Recording()
        self.symbols = [ex.InputExpr(spec, self.recording) for spec in recorded.inputs]
        self.values: list[Expr] = list(self.symbols)
        self.opened: list[tuple[int, tuple[int, ...], tuple[ex.Carried, ...], Values]] = []
        self.functions = [
            replace(t.function, evidence=STATED, steps=t.steps, reached=t.reached)
            for t in recorded.functions
        ]
        self.bits = self.looped = 0

    def traced(self) -> Traced:
        recorded = self.recorded
        if len(recorded.operations) > MOST:
            count = f"{len(recorded.operations):,}"
            raise ProgramError(f"the program has {count} operations, the limit is {MOST:,}")
        self._check_names()
        for i, operation in enumerate(recorded.operations):
            try:
                self._operation(operation)
            except ProgramError as error:
                raise ProgramError(f"operation {i}: {error}") from None
        if self.opened:
            raise ProgramError("a loop begins and does not end")
        outputs = {answer.name: self._at(answer.value) for answer in recorded.answers}
        kinds = {answer.name: answer.kind for answer in recorded.answers}
        for name, x in outputs.items():
            wide = {"scalar": x.shape != (1, 1), "vector": x.cols != 1, "matrix": False}
            if wide[kinds[name]]:
                raise ProgramError(f"answer {name!r} is called a {kinds[name]} and is {_shape(x)}")
        operations = tuple(ex.ordered(outputs.values()))
        return Traced(recorded.inputs, outputs, kinds, operations, dict(recorded.sizes))

    def _check_names(self) -> None:
        recorded = self.recorded
        for what, names in (
            ("input", [spec.name for spec in recorded.inputs]),
            ("answer", [answer.name for answer in recorded.answers]),
            ("size", [name for name, _ in recorded.sizes]),
        ):
            if len(set(names)) < len(names):
                raise ProgramError(f"two {what}s of the program have one name")
        for spec in recorded.inputs:
            if not spec.name.isidentifier():
                raise ProgramError(f"the input {spec.name!r} has no name as Python has them")
        if not recorded.answers:
            raise ProgramError("the program has no answer")
        known = {size for spec in recorded.inputs for size in (spec.rows, spec.cols)}
        for name, size in recorded.sizes:
            if size not in known:
                raise ProgramError(f"no input has the size {name} = {size}")

    def _at(self, number: int) -> Expr:
        if number >= len(self.values):
            raise ProgramError(f"reads value {number}, there are {len(self.values)}")
        return self.values[number]

    def _operation(self, operation: Operation) -> None:
        match operation:
            case ConstantValue(constant, units):
                made: Expr = ex.ConstantExpr(constant, self._units(units, constant.shape))
                self._count([made])
            case Added(terms, units):
                made = self._sum([(c, self._at(i)) for c, i in terms], units)
            case Multiplied(i, j):
                left, right = self._at(i), self._at(j)
                if left.cols != right.rows:
                    raise ProgramError(f"multiplies {_shape(left)} by {_shape(right)}")
                made = ex.Product(left, right)
            case Scaled(i, j):
                if not self._at(i).is_scalar:
                    raise ProgramError(f"scales by {_shape(self._at(i))}, expected 1 x 1")
                made = ex.Scaled(self._at(i), self._at(j))
            case Entrywise((i, j)):
                left, right = self._at(i), self._at(j)
                if left.shape != right.shape:
                    shapes = f"{_shape(left)} by {_shape(right)}"
                    raise ProgramError(f"multiplies {shapes} entry by entry")
                made = ex.Entrywise(left, right)
            case Transposed(i):
                made = ex.Transposed(self._at(i))
            case Applied(f, i):
                if f >= len(self.functions):
                    raise ProgramError(f"applies function {f}, there are {len(self.functions)}")
                made = ex.Applied(self.functions[f], self._at(i))
            case Held(i):
                made = ex.Held(self._at(i))
            case Begin():
                return self._begin(operation)
            case End():
                return self._end(operation)
        self.values.append(made)
        return None

    def _sum(self, terms: list[tuple[Coefficient, Expr]], units: Units) -> Expr:
        if not terms:
            raise ProgramError("adds nothing")
        for _, x in terms:
            if x.shape != terms[0][1].shape:
                raise ProgramError(f"adds {_shape(x)} to {_shape(terms[0][1])}")
            if isinstance(x, ex.Sum) and len(x.terms) == 1:
                raise ProgramError("adds a multiple of a value instead of the value")
        self._count(x for _, x in terms)
        return ex.Sum(terms, self._units(units, terms[0][1].shape))

    def _count(self, values: Iterable[Expr]) -> None:
        """Constant scalars are kept exactly: a short text must not make long ones."""
        for x in values:
            if x.number is not None:
                self.bits += x.number.numerator.bit_length() + x.number.denominator.bit_length()
        if self.bits > LARGEST_NUMBERS:
            raise ProgramError(f"its constant scalars have more than {LARGEST_NUMBERS:,} bits")

    def _count_loop(self, values: int) -> None:
        self.looped += values
        if self.looped > LARGEST_LOOPS:
            raise ProgramError("the loops of the program are too many and too large")

    def _units(self, units: Units, shape: tuple[int, int]) -> Units:
        if not all(shape):
            raise ProgramError(f"a value is {shape[0]} x {shape[1]}")
        if any(unit and size != 1 for unit, size in zip(units, shape, strict=True)):
            raise ProgramError(f"an axis of {shape[0]} x {shape[1]} is marked as of length one")
        return units

    def _begin(self, begin: Begin) -> None:
        if len(self.opened) == DEEPEST:
            raise ProgramError(f"loops are nested deeper than {DEEPEST}")
        if not begin.start or len(begin.names) != len(begin.start):
            raise ProgramError(f"carries {len(begin.names)} values from {len(begin.start)}")
        if len(set(begin.names)) < len(begin.names):
            raise ProgramError("two values that a loop carries have one name")
        start = tuple(self._at(i) for i in begin.start)
        path, pairs = self.recording.path, zip(begin.names, start, strict=True)
        carried = tuple(ex.Carried(name, x, "", self.recording) for name, x in pairs)
        self.opened.append((len(self.values), path, carried, start))
        self.recording.path = (*path, 0)
        self.values += carried

    def _end(self, end: End) -> None:
        if not self.opened:
            raise ProgramError("a loop ends that did not begin")
        first, path, carried, start = self.opened.pop()
        step = tuple(self._at(i) for i in end.step)
        if [x.shape for x in step] != [x.shape for x in start]:
            raise ProgramError("a step changes the shapes of what its loop carries")
        self.recording.path = (*path[:-1], path[-1] + 1)
        self._count_loop(len(self.values))
        loop = Loop(carried, start, step, end.times)
        self._count_loop(len(carried) * (len(carried) + len(loop.outer)))
        del self.values[first:]
        self.values += [ex.LoopResult(loop, i) for i in range(len(carried))]


def _shape(x: Expr) -> str:
    return f"{x.rows} x {x.cols}"
