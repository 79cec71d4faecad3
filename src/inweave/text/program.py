"""A recorded program in words: whole and exact, so that it can be compared with what one meant.

One line per value that is read more than once or is long, the others where they are read; a loop is
a block. Nothing is left out or rounded: numbers are exact, and of a large constant or a table there
is a hash of its contents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from inweave.exact.constants import Constant, Dense, Shift
from inweave.exact.schema import rational_text
from inweave.language import expressions as ex
from inweave.language.expressions import Expr
from inweave.language.program import Traced
from inweave.model.relunet import ABS, RELU, Function

LONG = 60  # characters of what stands inside a line
OURS = ("relu", "abs", "held", "zeros", "ones", "constant", "e")  # words that no name may be
SMALL = 6  # entries of a constant that is written out


def spelled(traced: Traced) -> str:
    """The program, line by line."""
    return "\n".join(_Speller(traced).lines())


class _Speller:
    def __init__(self, traced: Traced) -> None:
        self.traced = traced
        roots = list(traced.outputs.values())
        every = ex.every(roots)
        loops = {x.loop for x in every if isinstance(x, ex.LoopResult)}
        self.read = Counter(roots)
        self.read.update(y for x in every if not isinstance(x, ex.LoopResult) for y in x.parts)
        self.read.update(y for loop in loops for y in (*loop.init, *loop.step))
        self.texts: dict[Expr, str] = {}
        self.taken = {*OURS, *(spec.name for spec in traced.inputs)}
        self.tables: dict[Function, str] = {}
        self.out: list[str] = []

    def lines(self) -> list[str]:
        for spec in self.traced.inputs:
            shape = "" if spec.kind == "scalar" else f" {' x '.join(map(str, spec.shape))}"
            self.out.append(f"  {spec.name}: {spec.kind}{shape}")
        self._block(ex.ordered(self.traced.outputs.values()))
        for name, x in self.traced.outputs.items():
            self.out.append(f"  return {f'{name}: ' if name else ''}{self.texts[x]}")
        self.out += [f"  where {name} is {_table(f)}" for f, name in self.tables.items()]
        return self.out

    def _block(self, order: Sequence[Expr]) -> None:
        """Spell values in order, the body of a loop where its first result stands. No recursion."""
        waiting: list[tuple[Expr | ex.Loop, str]] = [(x, "  ") for x in reversed(order)]
        opened: set[ex.Loop] = set()
        while waiting:
            x, indent = waiting.pop()
            if isinstance(x, ex.Loop):
                self._close(x, indent)
            elif isinstance(x, ex.LoopResult) and x.loop not in opened:
                opened.add(x.loop)
                self._open(x.loop, indent)
                waiting += [(x, indent), (x.loop, indent)]
                waiting += [(y, indent + "  ") for y in reversed(x.loop.body)]
            elif isinstance(x, ex.LoopResult):
                self.texts[x] = self.texts[x.loop.carried[x.index]]
            else:
                self._value(x, indent)

    def _open(self, loop: ex.Loop, indent: str) -> None:
        for symbol in loop.carried:
            self.texts[symbol] = self._name(symbol.name)
        names = [self.texts[x] for x in loop.carried]
        start = [self.texts[x] for x in loop.init]
        self.out.append(f"{indent}{', '.join(names)} = {', '.join(start)}")
        self.out.append(f"{indent}repeat {loop.times} times:")

    def _close(self, loop: ex.Loop, indent: str) -> None:
        names = [self.texts[x] for x in loop.carried]
        after = [self.texts[x] for x in loop.step]
        self.out.append(f"{indent}  {', '.join(names)} = {', '.join(after)}")

    def _value(self, x: Expr, indent: str) -> None:
        text = self._text(x)
        is_long = len(text) > LONG or (self.read[x] > 1 and bool(x.parts))
        if is_long and not isinstance(x, ex.Symbol):
            name = self._name("v")
            self.out.append(f"{indent}{name} = {text}")
            text = name
        self.texts[x] = text

    def _text(self, x: Expr) -> str:
        match x:
            case ex.Symbol():
                return self.texts.get(x, x.name)
            case ex.ConstantExpr():
                return _constant(x.constant)
            case ex.Sum():
                return self._sum(x)
            case ex.Transposed():
                return f"{self._inner(x.x)}.T"
            case ex.Product():
                return f"{self._inner(x.a)} @ {self._inner(x.b)}"
            case ex.Scaled():
                return f"{self._inner(x.s)} * {self._inner(x.x)}"
            case ex.Entrywise():
                return f"{self._inner(x.a)} * {self._inner(x.b)}"
            case ex.Applied():
                return f"{self._function(x.function)}({self.texts[x.x]})"
            case _:
                return f"held({self.texts[x.parts[0]]})"

    def _inner(self, x: Expr) -> str:
        text = self.texts[x]
        is_open = isinstance(x, (ex.Sum, ex.Product, ex.Scaled, ex.Entrywise)) and " " in text
        return f"({text})" if is_open else text

    def _sum(self, x: ex.Sum) -> str:
        out = ""
        for c, y in x.terms:
            sign = ("-" if c < 0 else "") if not out else (" - " if c < 0 else " + ")
            size = "" if abs(c) == 1 else f"{_number(abs(c))} * "
            out += f"{sign}{size}{self._inner(y)}"
        return out

    def _name(self, wanted: str) -> str:
        """A name that nothing else has."""
        count, name = 1, wanted if wanted != "v" else "v1"
        while name in self.taken:
            count += 1
            name = f"{wanted}{count}"
        self.taken.add(name)
        return name

    def _function(self, function: Function) -> str:
        if function in (RELU, ABS):
            return function.name
        if function not in self.tables:
            name = function.name if function.name.isidentifier() else "f"
            self.tables[function] = self._name(name)
        return self.tables[function]


def _number(c: Fraction) -> str:
    value = float(c)
    return repr(value) if Fraction(value) == c and c.denominator > 1 else rational_text(c)


def _constant(constant: Constant) -> str:
    if isinstance(constant, Shift) and not constant.size:
        return f"zeros({constant.rows}x{constant.cols})"
    if not isinstance(constant, Dense):
        return repr(constant)
    if constant.rows * constant.cols > SMALL:
        return f"constant({constant.rows}x{constant.cols}, sha256 {constant.digest[:16]})"
    rows = [", ".join(_number(Fraction(e)) for e in row) for row in constant.array]
    return f"[{'; '.join(rows)}]"


def _table(function: Function) -> str:
    low, high = function.domain or ("-inf", "inf")
    kind = "a reciprocal's table" if function.is_reciprocal else "a table"
    return f"{kind} of {function.net.units} units on [{low}, {high}], sha256 {function.digest[:16]}"
