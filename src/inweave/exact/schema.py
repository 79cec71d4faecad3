"""Typed records to and from JSON: the one reader and writer of files, settings and results.

A record is a dataclass, or a TypedDict where more may be said than it names. Its annotations are
the schema: `write` makes JSON data of a value, `read` makes the value again, and whatever the
annotations do not promise is refused with the way to it, as in `modules[0].repeat`.

    int, float, str, bool, None, Literal    as JSON has them; a float is finite
    Fraction                                the text p/q
    tuple[X, ...], tuple[X, Y], list[X], dict[str, X]
    X | Y                                   records are told apart by the names that they have
    a class that is no record               any of its subclasses
    Annotated[X, Must("...", test)]         an X that passes the test
    Number, Any                             a number may be NaN or infinite; JSON has no such
                                            numbers, so the text of its name stands for it
    Stored                                  an array: its content's SHA-256, and a hook keeps it

A field that is not compared is a note and no part of its record. One that came `LATER` is left out
while it is None, so that records from before keep their data and their fingerprints. A flat record
is built once however often it stands in the data, so that a short text cannot ask for much memory.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import math
import re
import sys
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from fractions import Fraction
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import numpy as np

from inweave.errors import FileFormatError, InweaveError
from inweave.exact.names import is_line

T = TypeVar("T")
UNIONS = (typing.Union, UnionType)


@dataclass(frozen=True)
class Must:
    """What a value must be, in words and as a test."""

    be: str
    test: Callable[[Any], bool]


ARRAY, ANY_NUMBER = "an array", "a number, perhaps not finite"  # marks in annotations
LATER = {"later": True}  # the metadata of such a field
Stored = Annotated[Any, ARRAY]
Number = Annotated[float, ANY_NUMBER]

LARGEST, LARGEST_FLOAT = 2**31 - 1, sys.float_info.max
Size = Annotated[int, Must(f"an integer from 1 to {LARGEST}", lambda n: 1 <= n <= LARGEST)]
Count = Annotated[int, Must(f"an integer from 0 to {LARGEST}", lambda n: 0 <= n <= LARGEST)]
Natural = Annotated[int, Must("an integer from 0 on", lambda n: n >= 0)]
Line = Annotated[str, Must("one line of printable text", is_line)]
Name = Annotated[str, Must("a name as Python has them", str.isidentifier)]
Coefficient = Annotated[
    Fraction, Must("a fraction p/q that float64 can hold", lambda q: abs(q) <= LARGEST_FLOAT)
]

DEEPEST = 30  # records inside records
LONGEST = 4300  # digits of a number; Python's own limit
LONGEST_DECIMAL = 14_000  # bits that are written in decimals, within that limit
LONGEST_HEXADECIMAL = 1_000_000  # digits
HALF = re.compile("[\ud800-\udfff]")
RATIONAL = re.compile(r"-?[0-9]+(/0*[1-9][0-9]*)?|-?0x[0-9a-f]+/0x0*[1-9a-f][0-9a-f]*")
NAMES = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
WORDS = {
    int: "int",
    float: "a number",
    str: "a text",
    bool: "bool (true or false)",
    Fraction: "a fraction p/q",
    NoneType: "null",
}


class Mismatch(FileFormatError):
    """Data that is not what was asked for: the way to it, and what is wrong there.

    `said` is a sentence or, where `got` is given, what was expected.
    """

    def __init__(self, said: str, got: str = "") -> None:
        super().__init__(said, got)
        self.said, self.got = said, got
        self.path: list[str] = []

    @property
    def where(self) -> str:
        return "".join(self.path).removeprefix(".")

    def sentence(self, expected: str) -> str:
        """What is wrong, in the words that a reader has for 'expected'."""
        return f"{expected} {self.said}, got {self.got}" if self.got else self.said

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.where, self.sentence("expected"))))


def short(value: Any) -> str:
    """A value for a message, never at length."""
    if isinstance(value, int) and value.bit_length() > 200:
        return f"an integer of {value.bit_length():,} bits"
    shown = f"a {type(value).__name__}" if isinstance(value, (list, dict)) else repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def is_record(kind: Any) -> bool:
    return typing.is_typeddict(kind) or (isinstance(kind, type) and is_dataclass(kind))


@cache
def fields_of(kind: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The names of a record with their annotations, and the names that must be there."""
    hints = typing.get_type_hints(kind, include_extras=True)
    if typing.is_typeddict(kind):
        return hints, tuple(hints)
    known = [f for f in fields(kind) if f.init and f.compare]
    needed = tuple(f.name for f in known if f.default is f.default_factory is MISSING)
    return {f.name: hints[f.name] for f in known}, needed


@cache
def later(kind: Any) -> frozenset[str]:
    """The names that are left out where there is nothing to say."""
    if typing.is_typeddict(kind):
        return frozenset()
    return frozenset(f.name for f in fields(kind) if f.metadata == LATER)


def rational_text(number: Fraction) -> str:
    """A rational number as text, `p/q` or `p`; hexadecimal where decimals would be too long."""
    if max(number.numerator.bit_length(), number.denominator.bit_length()) < LONGEST_DECIMAL:
        return str(number)
    return in_hexadecimal(number)


def in_hexadecimal(number: Fraction) -> str:
    """The same in hexadecimal, which takes no time at all."""
    return f"{number.numerator:#x}/{number.denominator:#x}"


# -- to JSON ---------------------------------------------------------------------------------------
def content(array: np.ndarray[Any, Any], text: Callable[[Fraction], str] = rational_text) -> str:
    """The SHA-256 of what an array of floats or Fractions holds, the same in every process."""
    is_exact = array.dtype == object
    data = ",".join(map(text, array.flat)).encode() if is_exact else array.tobytes()
    return hashlib.sha256(repr(array.shape).encode() + data).hexdigest()


def write(kind: Any, value: Any, array: Callable[[Any], str] = content) -> Any:
    """The JSON data of a value; equal values of a kind have equal data."""
    origin, args = get_origin(kind), get_args(kind)
    if value is None or origin is Literal:
        return value
    if kind is Any:
        return named(value)
    if origin is Annotated:
        if args[1] is ARRAY:
            return array(value)
        return named(value) if args[1] is ANY_NUMBER else write(args[0], value, array)
    if origin in UNIONS and not is_record(type(value)):
        others = [k for k in args if k is not NoneType]
        return write(others[0], value, array) if len(others) == 1 else value
    if origin is tuple and args[-1] is not Ellipsis:
        return [write(k, v, array) for k, v in zip(args, value, strict=True)]
    if origin in (tuple, list):
        if args[0] is float:  # tables hold thousands
            return [float(v) + 0.0 for v in value]
        return [write(args[0], v, array) for v in value]
    if origin is dict:
        return {name: write(args[1], v, array) for name, v in value.items()}
    if kind is float:
        return float(value) + 0.0  # there is one zero
    if kind in WORDS:
        return rational_text(value) if kind is Fraction else value
    record: Any = kind if is_record(kind) else type(value)
    kinds, _ = fields_of(record)
    said = {name: write(k, getattr(value, name), array) for name, k in kinds.items()}
    return {name: v for name, v in said.items() if v is not None or name not in later(record)}


def named(value: Any) -> Any:
    """JSON data of any value, with the names of numbers where they are not finite."""
    if is_record(type(value)):
        return write(type(value), value)
    if isinstance(value, dict):
        return {name: named(v) for name, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [named(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def dumps(data: Any) -> str:
    """The canonical JSON text of JSON data."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def fingerprint(kind: Any, value: Any) -> str:
    """A content hash, the same for equal values in every process."""
    return hashlib.sha256(dumps(write(kind, value)).encode()).hexdigest()


# -- from JSON -------------------------------------------------------------------------------------
def loads(text: str | bytes) -> Any:
    """The data of a JSON text in which no object has a name twice."""
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except Mismatch:
        raise
    except (ValueError, RecursionError) as error:
        raise Mismatch(f"damaged JSON: {error}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Mismatch("a name stands twice in one JSON object")
    return found


def _no_arrays(name: str) -> Any:
    raise Mismatch(f"array {short(name)} is missing")


Limits = Mapping[Any, Callable[[dict[str, Any]], None]]


def read(
    kind: type[T], data: Any, array: Callable[[str], Any] = _no_arrays, limits: Limits | None = None
) -> T:
    """The value that JSON data stand for, or Mismatch.

    `array` finds what `write` kept. `limits` look at the fields of a class before it is built.
    """
    try:
        found: T = _Reader(array, limits or {}).read(kind, data)
    except RecursionError:
        raise Mismatch("the data are nested too deeply") from None
    return found


@dataclass
class _Reader:
    array: Callable[[str], Any]
    limits: Limits
    depth: int = 0
    built: dict[tuple[Any, str], Any] = field(default_factory=dict)

    def read(self, kind: Any, data: Any) -> Any:
        origin, args = get_origin(kind), get_args(kind)
        if kind in WORDS:
            return _plain(kind, data)
        if kind is Any:
            return numbers(data)
        if origin is Annotated:
            return self._annotated(args[0], args[1], data)
        if origin in UNIONS:
            return self._union(args, data)
        if origin is Literal:
            if not isinstance(data, str) or data not in args:
                raise Mismatch(f"{short(data)} is not one of {', '.join(map(repr, args))}")
            return data
        if origin in (tuple, list):
            return origin(self._list(origin, args, data))
        if origin is dict:
            entries = _object(data).items()
            return {_plain(str, n): self._inside(f"[{n!r}]", args[1], v) for n, v in entries}
        if is_record(kind):
            return self._record(kind, data)
        return self._union(kind.__subclasses__(), data)

    def _inside(self, step: str, kind: Any, data: Any) -> Any:
        try:
            return self.read(kind, data)
        except Mismatch as mismatch:
            mismatch.path.insert(0, step)
            raise

    def _annotated(self, kind: Any, mark: Any, data: Any) -> Any:
        if mark is ARRAY:
            return self.array(_plain(str, data))
        if mark is ANY_NUMBER:
            number = numbers(data)
            return number if isinstance(number, float) else _plain(float, number)
        try:
            value = self.read(kind, data)
        except Mismatch:
            raise Mismatch(mark.be, short(data)) from None
        if not mark.test(value):
            raise Mismatch(mark.be, short(data))
        return value

    def _union(self, kinds: Any, data: Any) -> Any:
        if data is None and NoneType in kinds:
            return None
        kinds = [kind for kind in kinds if kind is not NoneType]
        if all(map(is_record, kinds)):
            names = _object(data).keys()
            kinds = [min(kinds, key=lambda kind: len(fields_of(kind)[0].keys() ^ names))]
        if len(kinds) == 1:
            return self.read(kinds[0], data)
        for kind in kinds:
            with suppress(Mismatch):
                return self.read(kind, data)
        raise Mismatch(" or ".join(WORDS.get(kind, "an object") for kind in kinds), short(data))

    def _list(self, origin: Any, args: Any, data: Any) -> list[Any]:
        is_numbers = args == (float, ...)
        if not isinstance(data, (list, tuple)):
            raise Mismatch("a list of numbers" if is_numbers else "a list", short(data))
        if is_numbers:  # they are one value: the way leads to the list
            return [_plain(float, entry) for entry in data]
        kinds = [args[0]] * len(data) if origin is list or args[-1] is Ellipsis else args
        if len(kinds) != len(data):
            raise Mismatch(f"a list of {len(kinds)} entries", f"{len(data)}")
        pairs = enumerate(zip(kinds, data, strict=True))
        return [self._inside(f"[{i}]", kind, entry) for i, (kind, entry) in pairs]

    def _record(self, kind: Any, data: Any) -> Any:
        given, (kinds, needed) = _object(data), fields_of(kind)
        for name in needed:
            if name not in given:
                raise Mismatch(f"lacks {name!r}")
        more = {name: value for name, value in given.items() if name not in kinds}
        if typing.is_typeddict(kind):
            return {**numbers(more), **self._values(kinds, given)}
        for name in more:
            near = difflib.get_close_matches(name[:60], kinds, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(kinds)}"
            raise Mismatch(f"unknown entry {short(name)}; {hint}")
        if any(isinstance(value, (list, dict)) for value in given.values()):
            return self._build(kind, self._values(kinds, given))
        key = (kind, repr(given))
        if key not in self.built:
            self.built[key] = self._build(kind, self._values(kinds, given))
        return self.built[key]

    def _values(self, kinds: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        if self.depth == DEEPEST:
            raise Mismatch(f"records are nested deeper than {DEEPEST}")
        self.depth += 1
        try:
            here = [name for name in kinds if name in given]
            return {name: self._inside(f".{name}", kinds[name], given[name]) for name in here}
        finally:
            self.depth -= 1

    def _build(self, kind: Any, values: dict[str, Any]) -> Any:
        if kind in self.limits:
            self.limits[kind](values)
        try:
            return kind(**values)
        except InweaveError as error:
            raise Mismatch(str(error)) from error


def _object(data: Any) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise Mismatch(f"must be an object, is {type(data).__name__}")
    return data


def _plain(kind: Any, data: Any) -> Any:
    """A value of one of the kinds that have `WORDS`."""
    if kind is float and isinstance(data, (int, float)) and not isinstance(data, bool):
        if not abs(data) <= LARGEST_FLOAT:
            raise Mismatch(f"must be finite, got {short(data)}")
        return float(data)
    if kind is Fraction:
        longest = LONGEST_HEXADECIMAL if isinstance(data, str) and "x" in data else LONGEST
        is_short = isinstance(data, str) and max(map(len, data.split("/"))) <= longest
        if not is_short or not RATIONAL.fullmatch(data):
            raise Mismatch(WORDS[kind], short(data))
        if "x" in data:
            top, bottom = data.split("/")
            return Fraction(int(top, 16), int(bottom, 16))
        return Fraction(data)
    if not isinstance(data, kind) or (isinstance(data, bool) and kind is not bool):
        raise Mismatch(WORDS[kind], short(data))
    if kind is str and HALF.search(data):
        raise Mismatch("holds half of a character")
    return data


def numbers(data: Any) -> Any:
    """JSON data with numbers where their names stand."""
    if isinstance(data, dict):
        return {name: numbers(value) for name, value in data.items()}
    if isinstance(data, list):
        return [numbers(value) for value in data]
    return NAMES.get(data, data) if isinstance(data, str) else data
