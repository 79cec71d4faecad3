"""From statements to the source of a program.

What no answer needs is left out, what is read once and is short stands where it is read, and a
repeated module becomes a step and a call of `inweave.iterate`. Every line knows the heads that
compute it: those of what it defines, and of all that stands in it instead of on a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from inweave.decompiler.constants import ATOM, Text
from inweave.decompiler.idioms import in_part, shifted, softened
from inweave.decompiler.names import Names
from inweave.decompiler.needed import carried, definitions, pruned, read_once
from inweave.decompiler.scans import Scan, as_scan
from inweave.decompiler.statements import Body, HeadAt, Let, Loop, Read, letters_of
from inweave.decompiler.tables import called, written
from inweave.decompiler.text import Speller, summands
from inweave.exact.constants import Constant
from inweave.language.functions import THRESHOLD
from inweave.model.network import Network
from inweave.model.prompt import Input, Kind, Output, numbered
from inweave.model.relunet import Function
from inweave.proof.words import Words

NAME = "algorithm"
REFINED = ("reciprocal", "rsqrt")
LINE = 100  # characters
LONG = 85  # of what is returned
SHORT = 50  # characters of a value that is written where it is read
LONG_CONSTANT = 24  # characters of one that is not
IMPORTS = {
    "Fraction(": "from fractions import Fraction",
    "replace(": "from dataclasses import replace",
    "np.": "import numpy as np",
    "inweave.": "import inweave",
    "tables.": "from inweave.language import tables",
    "Pointwise(": "from inweave.language.functions import Pointwise",
    "Function(": "from inweave.model.relunet import Function, ReluNet",
}


@dataclass(frozen=True)
class Line:
    """A line of a program, and the heads that compute it."""

    text: str
    heads: tuple[HeadAt, ...] = ()


def source(
    network: Network, read: Read, kinds: Mapping[str, Kind] | None = None, idioms: bool = True
) -> tuple[Line, ...]:
    """The program of a network that was read.

    `kinds` are those that its answers had without further ado, to be made what they should be;
    without `idioms`, loops over rows are written as loops that carry a selector, soft thresholds
    as the functions that they are made of.
    """
    return _Writer(network, read, kinds or {}, idioms).program()


class _Writer:
    def __init__(
        self, network: Network, read: Read, kinds: Mapping[str, Kind], idioms: bool
    ) -> None:
        self.idioms, self.by = idioms, read.by
        self.defined: dict[int | str, Words] = dict(definitions(read.body))
        self.defined |= read.answers.items()
        self.own = set(carried(read.body))  # symbols that have a line of their own
        self.network, self.alphabet, self.kinds = network, read.alphabet, kinds
        body, answers = read.body, list(read.answers.values())
        if idioms:
            body, answers, pairs = softened(body, answers, self.alphabet)
            self.by = self.by | {a: self.by[a].union(self._heads(b)) for a, b in pairs.items()}
            self.own.update(pairs.values())
        body, answers = in_part(body, answers, self.alphabet)
        self.answers = dict(zip(read.answers, answers, strict=True))
        needed = {number for words in answers for number in letters_of(words)}
        self.body, self.read = pruned(body, needed)
        inputs = [spec.name for spec in network.inputs]
        self.names = Names([NAME, *inputs])
        self.texts: dict[int, Text] = {}
        for number in range(len(self.alphabet.letters)):
            key = self.alphabet.key(number)
            if key is not None and key[0] in ("input", "root"):
                self.texts[number] = Text(key[1])
        self.speller = Speller(self.alphabet, self.texts, self._hoisted)
        self.refined: set[int] = set()  # tables of inverses, and what Newton's steps make of them
        self.tables: dict[Function, str] = {}
        self.constants: dict[Constant, str] = {}
        self.above: list[str] = []

    def program(self) -> tuple[Line, ...]:
        lines = [*self._inputs(), *self._lines(self.body, list(self.answers.values()), "    ")]
        returned = _returned("    ", self._returned())
        lines.append(Line(returned, self._heads(*self.answers)))
        given = ", ".join(f"{spec.name}: {_type(spec)}" for spec in self.network.inputs)
        head = f"def {NAME}({given}){self._returns()}:"
        if len(head) > LINE:
            head = f"def {NAME}(\n    {given}\n){self._returns()}:"
        above = [*self.above, "", ""] if self.above else []
        ahead = "\n".join([*above, "@inweave.program", head])
        text = "\n".join([ahead, *(line.text for line in lines)])
        imports = [line for mark, line in IMPORTS.items() if mark in text]
        if types := sorted(set(re.findall(r"\b(Matrix|Scalar|Vector)\b", head))):
            imports.append(f"from inweave import {', '.join(types)}")
        order = sorted(imports, key=lambda line: ("inweave" in line, line.startswith("from"), line))
        top = "\n".join([*order, "", *([] if self.above else [""]), ahead])
        return tuple(
            Line(part, line.heads) for line in [Line(top), *lines] for part in line.text.split("\n")
        )

    def _heads(self, *about: int | str) -> tuple[HeadAt, ...]:
        """The heads of definitions or answers, and of what stands in them."""
        found, waiting, seen = set[HeadAt](), list(about), set[int | str]()
        while waiting:
            this = waiting.pop()
            seen.add(this)
            found |= self.by[this]
            waiting += self._written_in(self.defined[this]) - seen
        return tuple(sorted(found, key=lambda at: (at.layer, at.head or 0)))

    def _written_in(self, words: Words) -> set[int]:
        """The symbols of a sum that have no line of their own."""
        return {n for n in letters_of(words) if n in self.defined and n not in self.own}

    # -- the signature ----------------------------------------------------------------------------
    def _inputs(self) -> list[Line]:
        """A matrix of one column or row as the vector that it is."""
        lines = []
        for spec in self.network.inputs:
            if spec.kind == "matrix" and (spec.rows == 1) != (spec.cols == 1):
                index = ":, 0" if spec.cols == 1 else "0, :"
                lines.append(Line(f"    {spec.name} = {spec.name}[{index}]"))
        return lines

    def _returns(self) -> str:
        outputs = self.network.outputs
        types = [_type(output) for output in outputs]
        if [o.name for o in outputs] == [""]:
            return f" -> {types[0]}"
        return f" -> tuple[{', '.join(types)}]" if self._is_tuple else ""

    @property
    def _is_tuple(self) -> bool:
        return numbered([output.name for output in self.network.outputs])

    def _returned(self) -> list[str]:
        texts = {o.name: self._answer(o).text for o in self.network.outputs}
        if list(texts) == [""]:
            return [texts[""]]
        if self._is_tuple:
            return [*texts.values(), *([""] if len(texts) == 1 else [])]
        return ["{" + ", ".join(f"{name!r}: {text}" for name, text in texts.items()) + "}"]

    def _answer(self, output: Output) -> Text:
        """An answer, in the shape in which it is to be handed out."""
        text = self.speller.words(self.answers[output.name])
        got = self.kinds.get(output.name, output.kind)
        if got == output.kind:
            return text
        if output.kind == "scalar":
            return Text(f"{text.inside(ATOM)}[0, 0]")
        column = f"inweave.vstack([{text.text}])" if got == "scalar" else text.inside(ATOM)
        if output.kind == "vector":
            return Text(column if got == "scalar" else f"{column}[:, 0]")
        return Text(f"{column}[:, None]")

    # -- statements -------------------------------------------------------------------------------
    def _lines(self, body: Body, last: Iterable[Words], indent: str) -> list[Line]:
        """The lines of a body; `last` is what is read after it."""
        last = list(last)
        once = read_once(body, last)
        alone = {self._alone(words) for words in last} if len(last) == 1 else set()
        for let in reversed(body.statements):
            if isinstance(let, Let) and let.symbol in alone:
                alone.add(self._alone(let.words))
        lines: list[Line] = []
        for statement in body.statements:
            if isinstance(statement, Loop):
                lines += self._loop(statement, indent)
                continue
            text = self._value(statement)
            length = len(text.text) - (LONG - SHORT) * (statement.symbol in alone)
            if statement.symbol in once and length <= SHORT:
                self.texts[statement.symbol] = text
            else:
                name = self._named(statement.symbol, "soft" if statement.threshold else None)
                line = f"{indent}{name} = {_broken(text.text, indent, len(name) + 3)}"
                lines.append(Line(line, self._heads(statement.symbol)))
        return lines

    def _alone(self, words: Words) -> int | None:
        """The symbol that a value is, if it is one."""
        found = [*letters_of(words).elements()]
        return (
            found[0] if len(found) == len(words.terms) == 1 and 1 in words.terms.values() else None
        )

    def _value(self, let: Let) -> Text:
        if let.function is None and self._refines(let.words):
            self.refined.add(let.symbol)
            return Text(f"inweave.hold({self.speller.refinement(let.words).text})")
        if let.threshold is not None:
            whole = let.words + shifted(let.threshold, let, self.alphabet)
            threshold = self.texts[let.threshold].text
            return Text(f"inweave.soft_threshold({self.speller.words(whole).text}, {threshold})")
        text = self.speller.words(let.words)
        if let.function is None or (self.idioms and let.function == THRESHOLD):
            return text
        if let.function.name in REFINED:
            self.refined.add(let.symbol)
        call = called(let.function)
        if call is None:
            if let.function not in self.tables:
                self.tables[let.function] = self.names.new(f"{let.function.name}_table")
                table = f"Pointwise({written(let.function)})"
                self.above.append(f"{self.tables[let.function]} = {table}")
            call = f"{self.tables[let.function]}({{}})"
        return Text(call.format(text.text))

    def _refines(self, words: Words) -> bool:
        """Whether this is a step of Newton's, r ← 2r − r p r, which is not to be multiplied out."""
        return any(
            sum(number in self.refined for part in (*scalars, chain) for number, _ in part) > 1
            for scalars, chain in words.terms
        )

    def _loop(self, loop: Loop, indent: str) -> list[Line]:
        scan = as_scan(loop, self.alphabet, self.read) if self.idioms else None
        return self._iterate(loop, indent) if scan is None else self._scan(loop, scan, indent)

    def _scan(self, every: Loop, scan: Scan, indent: str) -> list[Line]:
        """A step on a row of each array, and the call that goes through them."""
        loop, inner = scan.loop, indent + "    "
        starts, arrays = self._texts(x.start for x in loop.carried), self._texts(scan.arrays)
        names = self._carried(loop)
        rows = [self._named(number) for number in scan.rows]
        stacks = [self._named(number) for number in scan.stacks]
        whole = names[0] if len(names) == 1 else self.names.new("carried")
        step = self.names.new("step")
        lines = [Line(""), Line(f"{indent}def {step}({', '.join([whole, *rows])}):")]
        if len(names) > 1:
            lines.append(Line(f"{inner}{', '.join(names)} = {whole}"))
        lines += self._lines(loop.body, (*loop.after, *scan.values), inner)
        after, values = self._texts(loop.after), self._texts(scan.values)
        said = f"{inner}return {_tuple(after)}, {_tuple(values)}"
        told = [*(x.symbol for x in loop.carried), *scan.said]
        moved = [x.symbol for x in every.carried if x.symbol not in told]
        lines += [Line(said, self._heads(*told)), Line("")]
        given = ", ".join([step, _tuple(starts), *arrays, *(["reverse=True"] * scan.reverse)])
        left = f"{_tuple(names, '_')}, {_tuple(stacks, '_')}"
        read = {n for words in scan.arrays for n in self._written_in(words)}
        called = self._heads(*(x.result for x in every.carried), *moved, *read)
        return [*lines, Line(f"{indent}{left} = inweave.scan({given})", called)]

    def _named(self, number: int, name: str | None = None) -> str:
        """A name for a symbol, after what it is."""
        key = self.alphabet.key(number)
        assert key is not None
        name = self.names.new(name or key[1])
        self.texts[number] = Text(name)
        self.own.add(number)
        return name

    def _carried(self, loop: Loop) -> list[str]:
        """Names for what a loop carries, the same in its step and after it."""
        names = [self._named(x.symbol) for x in loop.carried]
        self.texts |= {x.result: Text(name) for x, name in zip(loop.carried, names, strict=True)}
        return names

    def _texts(self, sums: Iterable[Words]) -> list[str]:
        return [self.speller.words(words).text for words in sums]

    def _iterate(self, loop: Loop, indent: str) -> list[Line]:
        """A step, and the call that repeats it."""
        starts, names = self._texts(x.start for x in loop.carried), self._carried(loop)
        step = self.names.new("step")
        lines = [Line(""), Line(f"{indent}def {step}({', '.join(names)}):")]
        lines += self._lines(loop.body, loop.after, indent + "    ")
        said = _returned(indent + "    ", self._texts(loop.after))
        lines += [Line(said, self._heads(*(x.symbol for x in loop.carried))), Line("")]
        call = f"inweave.iterate({step}, {_tuple(starts)}, {loop.times})"
        heads = self._heads(*(x.result for x in loop.carried))
        return [*lines, Line(f"{indent}{', '.join(names)} = {call}", heads)]

    def _hoisted(self, text: str, constant: Constant) -> str:
        """A constant where it is read, or above the program if it is long."""
        if len(text) > LONG_CONSTANT:
            if constant not in self.constants:
                self.constants[constant] = self.names.new("C")
                self.above.append(f"{self.constants[constant]} = {text}")
            text = self.constants[constant]
        return f"inweave.constant({text})"


def _returned(indent: str, texts: Sequence[str]) -> str:
    """The line that returns some values, or a line for each."""
    line = f"{indent}return {', '.join(texts)}"
    if len(line) <= LINE or len(texts) == 1:
        return line
    return "\n".join([f"{indent}return (", *(f"{indent}    {x}," for x in texts), f"{indent})"])


def _broken(text: str, indent: str, before: int) -> str:
    """A sum on several lines, if one is too short for it."""
    if len(indent) + before + len(text) <= LINE:
        return text
    parts = summands(text)
    if len(parts) == 1:
        return text
    inner = f"\n{indent}    "
    return f"({inner}{inner.join(parts)}\n{indent})"


def _tuple(texts: Sequence[str], none: str = "None") -> str:
    """One value as it is, several as a tuple."""
    return f"({', '.join(texts)})" if len(texts) > 1 else texts[0] if texts else none


def _type(spec: Input | Output) -> str:
    if spec.kind == "scalar":
        return "Scalar"
    return f"{spec.kind.capitalize()}[{', '.join(map(str, spec.shape))}]"
