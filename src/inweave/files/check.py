"""Reading a network's description from a file that may say anything.

Every field is looked at before it is used: its type, its range, what it refers to. An array is
built once however often it is named, so that a short file cannot ask for much memory; sizes that
the network would allocate when it runs are bounded too. Each refusal says where in the description
it happened. Shapes that must fit together are checked by the data model itself, whose errors
`decode` turns into FileFormatError.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from fractions import Fraction
from typing import Any

import numpy as np

from inweave.errors import FileFormatError
from inweave.exact.constants import Constant, Dense, Ones, Shift, read_rational
from inweave.model.layers import AttentionLayer, BlockPointwiseLayer, Head, Layer, PointwiseLayer
from inweave.model.layout import Block, Layout
from inweave.model.modules import Module, Part
from inweave.model.network import Network
from inweave.model.projection import AnyProjection, DenseProjection, Piece, Projection
from inweave.model.prompt import Fill, Input, Output, Place
from inweave.model.relunet import Function, ReluNet
from inweave.proof.certificate import Certificate

LARGEST_SIZE = 2**31 - 1
LARGEST_PROMPT = 2**30  # numbers in one prompt
LONGEST_NUMBER = 4300  # digits; Python's own limit for integers in text
LONGEST_HEXADECIMAL = 10_000_000
LARGEST_DEGREE = 10**LONGEST_NUMBER - 1
MOST_INPUTS = 1000  # and outputs
MOST_FILLS = 100_000
DEEPEST = 20  # modules inside modules

RATIONAL = re.compile(r"-?[0-9]+(/[0-9]+)?|-?0x[0-9a-f]+/0x[0-9a-f]+")
DIGEST = re.compile(r"[0-9a-f]{64}")


# -- single values ---------------------------------------------------------------------------------
def mapping(value: Any, where: str, names: Sequence[str]) -> dict[str, Any]:
    """A JSON object with exactly these names."""
    if not isinstance(value, dict):
        raise FileFormatError(f"{where}: expected a JSON object, got {_said(value)}")
    if set(value) != set(names):
        missing = [name for name in names if name not in value]
        unknown = [_said(name) for name in value if name not in names]
        said = [f"missing {', '.join(missing)}"] if missing else []
        said += [f"unknown {', '.join(unknown[:5])}"] if unknown else []
        raise FileFormatError(f"{where}: {'; '.join(said)}")
    return value


def listed(value: Any, where: str, most: int = LARGEST_SIZE) -> list[Any]:
    if not isinstance(value, list):
        raise FileFormatError(f"{where}: expected a list, got {_said(value)}")
    if len(value) > most:
        raise FileFormatError(f"{where}: {len(value):,} entries, the limit is {most:,}")
    return value


def integer(value: Any, where: str, low: int = 0, high: int = LARGEST_SIZE) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise FileFormatError(
            f"{where}: expected an integer from {low} to {_said(high)}, got {_said(value)}"
        )
    return value


def flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise FileFormatError(f"{where}: expected true or false, got {_said(value)}")
    return value


def text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise FileFormatError(f"{where}: expected a text, got {_said(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise FileFormatError(f"{where}: the text holds half of a character") from None
    return value


def choice(value: Any, where: str, allowed: Sequence[str]) -> Any:
    if not isinstance(value, str) or value not in allowed:
        raise FileFormatError(f"{where}: expected one of {', '.join(allowed)}, got {_said(value)}")
    return value


def rational(value: Any, where: str) -> Fraction:
    """`p/q`, and only that: Python would also read `1e999999999`, which fills the memory."""
    parts = text(value, where).split("/")
    longest = LONGEST_HEXADECIMAL if "x" in value else LONGEST_NUMBER
    if not RATIONAL.fullmatch(value) or max(map(len, parts)) > longest:
        raise FileFormatError(f"{where}: expected a fraction p/q, got {_said(value)}")
    try:
        return read_rational(value)
    except ZeroDivisionError:
        raise FileFormatError(f"{where}: {_said(value)} has the denominator 0") from None


def real(value: Any, where: str) -> float:
    """A finite float as `float.hex` writes it."""
    try:
        number = float.fromhex(text(value, where))
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or number.hex() != value:
        raise FileFormatError(f"{where}: expected a hexadecimal float, got {_said(value)}")
    return number


def digest(value: Any, where: str) -> str:
    if not DIGEST.fullmatch(text(value, where)):
        raise FileFormatError(f"{where}: expected a SHA-256, got {_said(value)}")
    return str(value)


def _said(value: Any) -> str:
    """A value for a message, never at length."""
    if isinstance(value, int) and value.bit_length() > 200:
        return "a huge integer"
    shown = f"a {type(value).__name__}" if isinstance(value, (list, dict)) else repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


# -- networks --------------------------------------------------------------------------------------
class Reader:
    """Builds a network from a description and the arrays it names; `used` are those it named."""

    def __init__(self, stored: Mapping[str, Any]) -> None:
        self.stored = stored
        self.used: set[str] = set()
        self._built: dict[str, Any] = {}
        self.tokens = self.width = 0

    def network(self, value: Any, where: str) -> Network:
        found = mapping(value, where, ("layout", "modules", "inputs", "fills", "outputs"))
        layout = self.layout(found["layout"], f"{where}.layout")
        self.tokens, self.width = layout.tokens, layout.width

        def every(name: str, read: Any, most: int = LARGEST_SIZE) -> tuple[Any, ...]:
            entries = listed(found[name], f"{where}.{name}", most)
            return tuple(read(x, f"{where}.{name}[{i}]") for i, x in enumerate(entries))

        return Network(
            layout,
            modules=every("modules", self.module),
            inputs=every("inputs", self.input, MOST_INPUTS),
            fills=every("fills", self.fill, MOST_FILLS),
            outputs=every("outputs", self.output, MOST_INPUTS),
        )

    def layout(self, value: Any, where: str) -> Layout:
        found = mapping(value, where, ("tokens", "blocks"))
        tokens = integer(found["tokens"], f"{where}.tokens", 1)
        blocks, width = [], 0
        for i, entry in enumerate(listed(found["blocks"], f"{where}.blocks")):
            at = f"{where}.blocks[{i}]"
            if len(listed(entry, at)) != 3:
                raise FileFormatError(f"{at}: expected [name, rows, cols]")
            rows, cols = (integer(size, at, 1) for size in entry[1:])
            blocks.append(Block(text(entry[0], at), rows, cols, width))
            width += cols
        if tokens * width > LARGEST_PROMPT:
            raise FileFormatError(
                f"{where}: a prompt of {tokens:,} x {width:,} numbers is over the limit of "
                f"{LARGEST_PROMPT:,}"
            )
        return Layout(tuple(blocks), tokens)

    def input(self, value: Any, where: str) -> Input:
        found = mapping(value, where, ("name", "shape", "kind", "sign"))
        rows, cols = self._sizes(found["shape"], f"{where}.shape", 2, low=1)
        if rows * cols > LARGEST_PROMPT:
            raise FileFormatError(f"{where}: {rows:,} x {cols:,} numbers are over the limit")
        kind = self._kind(found["kind"], where, rows, cols)
        sign = choice(found["sign"], f"{where}.sign", ("any", "nonnegative", "positive"))
        name = text(found["name"], f"{where}.name")
        if not name:
            raise FileFormatError(f"{where}: an input needs a name")
        return Input(name, rows, cols, kind, sign)

    def output(self, value: Any, where: str) -> Output:
        found = mapping(value, where, ("name", "place", "kind"))
        place = self.place(found["place"], f"{where}.place")
        kind = self._kind(found["kind"], where, place.rows, place.cols)
        return Output(text(found["name"], f"{where}.name"), place, kind)

    def place(self, value: Any, where: str) -> Place:
        names = ("block", "rows", "cols", "row", "col", "transpose", "diagonal")
        found = mapping(value, where, names)
        place = Place(
            text(found["block"], f"{where}.block"),
            integer(found["rows"], f"{where}.rows", 1),
            integer(found["cols"], f"{where}.cols", 1),
            integer(found["row"], f"{where}.row"),
            integer(found["col"], f"{where}.col"),
            flag(found["transpose"], f"{where}.transpose"),
            integer(found["diagonal"], f"{where}.diagonal"),
        )
        if place.diagonal and (place.rows, place.cols) != (1, 1):
            raise FileFormatError(f"{where}: only a scalar stands on a diagonal")
        return place

    def fill(self, value: Any, where: str) -> Fill:
        found = mapping(value, where, ("place", "source", "constant", "scale", "coefficient"))
        source, constant = found["source"], found["constant"]
        if source is not None and not text(source, f"{where}.source"):
            raise FileFormatError(f"{where}: its source has no name")
        scale = []
        for i, pair in enumerate(listed(found["scale"], f"{where}.scale", MOST_INPUTS)):
            at = f"{where}.scale[{i}]"
            if len(listed(pair, at)) != 2:
                raise FileFormatError(f"{at}: expected [name, power]")
            scale.append((text(pair[0], at), rational(pair[1], at)))
        return Fill(
            self.place(found["place"], f"{where}.place"),
            source,
            None if constant is None else self.constant(constant, f"{where}.constant"),
            tuple(scale),
            rational(found["coefficient"], f"{where}.coefficient"),
        )

    # -- layers ------------------------------------------------------------------------------------
    def module(self, value: Any, where: str, depth: int = 0) -> Module:
        if depth > DEEPEST:
            raise FileFormatError(f"{where}: modules are nested deeper than {DEEPEST}")
        found = mapping(value, where, ("module", "repeat", "skip", "carries"))
        body = listed(found["module"], f"{where}.module")
        carries = [
            tuple(
                self.place(place, f"{where}.carries[{i}]")
                for place in listed(places, f"{where}.carries[{i}]")
            )
            for i, places in enumerate(listed(found["carries"], f"{where}.carries"))
        ]
        return Module(
            tuple(self.part(x, f"{where}.module[{i}]", depth) for i, x in enumerate(body)),
            integer(found["repeat"], f"{where}.repeat"),
            flag(found["skip"], f"{where}.skip"),
            tuple(carries),
        )

    def part(self, value: Any, where: str, depth: int) -> Part:
        if isinstance(value, dict) and "module" in value:
            return self.module(value, where, depth + 1)
        return self.layer(value, where)

    def layer(self, value: Any, where: str) -> Layer:
        if isinstance(value, dict) and "attention" in value:
            found = mapping(value, where, ("attention", "skip"))
            entries = listed(found["attention"], f"{where}.attention")
            heads = [self.head(x, f"{where}.attention[{i}]") for i, x in enumerate(entries)]
            return AttentionLayer(tuple(heads), flag(found["skip"], f"{where}.skip"))
        if isinstance(value, dict) and "pointwise" in value:
            return self.pointwise(value, where)
        found = mapping(value, where, ("functions",))
        applied = []
        for i, pair in enumerate(listed(found["functions"], f"{where}.functions")):
            at = f"{where}.functions[{i}]"
            if len(listed(pair, at)) != 2:
                raise FileFormatError(f"{at}: expected [place, function]")
            applied.append((self.place(pair[0], at), self.function(pair[1], at)))
        return BlockPointwiseLayer(tuple(applied))

    def head(self, value: Any, where: str) -> Head:
        found = mapping(value, where, ("query", "key", "value"))
        return Head(*(self.projection(found[n], f"{where}.{n}") for n in ("query", "key", "value")))

    def projection(self, value: Any, where: str) -> AnyProjection:
        if not (isinstance(value, dict) and "dense" in value):
            found = mapping(value, where, ("pieces",))
            entries = listed(found["pieces"], f"{where}.pieces")
            return Projection(
                tuple(self.piece(x, f"{where}.pieces[{i}]") for i, x in enumerate(entries))
            )
        found = mapping(value, where, ("dense", "bias"))
        name = f"projection.{digest(found['dense'], where)}"
        bias = flag(found["bias"], f"{where}.bias")
        if name not in self._built:
            W = self.array(f"{name}.W", (self.width, self.width))
            B = self.array(f"{name}.B", (self.tokens, self.width)) if bias else None
            self._built[name] = self._same(DenseProjection(W, B), found["dense"], name)
        built: DenseProjection = self._built[name]
        return built

    def piece(self, value: Any, where: str) -> Piece:
        found = mapping(value, where, ("matrix", "at", "coefficient", "block"))
        block = found["block"]
        return Piece(
            self.constant(found["matrix"], f"{where}.matrix"),
            integer(found["at"], f"{where}.at"),
            rational(found["coefficient"], f"{where}.coefficient"),
            None if block is None else text(block, f"{where}.block"),
        )

    def pointwise(self, value: Any, where: str) -> PointwiseLayer:
        found = mapping(value, where, ("pointwise", "activation", "skip"))
        name = f"pointwise.{digest(found['pointwise'], where)}"
        activation = choice(found["activation"], f"{where}.activation", ("relu", "identity"))
        skip = flag(found["skip"], f"{where}.skip")
        if name not in self._built:
            shape = (-1, self.tokens, self.width)
            V, W, B, C = (self.array(f"{name}.{letter}", shape) for letter in "VWBC")
            layer = PointwiseLayer(V, W, B, C, activation, skip)
            self._built[name] = self._same(layer, found["pointwise"], name)
        built: PointwiseLayer = self._built[name]
        return built

    def function(self, value: Any, where: str) -> Function:
        lists = ("weights", "biases", "outputs")
        names = ("name", *lists, "constant", "domain", "error", "relative", "reciprocal")
        found = mapping(value, where, names)
        weights, biases, outputs = (
            tuple(real(x, f"{where}.{name}") for x in listed(found[name], f"{where}.{name}"))
            for name in lists
        )
        domain = found["domain"]
        if domain is not None:
            ends = [real(x, f"{where}.domain") for x in listed(domain, f"{where}.domain")]
            if len(ends) != 2 or ends[0] > ends[1]:
                raise FileFormatError(f"{where}.domain: expected two numbers in order")
            domain = tuple(ends)
        return Function(
            text(found["name"], f"{where}.name"),
            ReluNet(weights, biases, outputs, real(found["constant"], f"{where}.constant")),
            domain,
            real(found["error"], f"{where}.error"),
            flag(found["relative"], f"{where}.relative"),
            flag(found["reciprocal"], f"{where}.reciprocal"),
        )

    # -- constants and arrays ----------------------------------------------------------------------
    def constant(self, value: Any, where: str) -> Constant:
        kind = choice(
            value.get("kind") if isinstance(value, dict) else None,
            f"{where}.kind",
            ("shift", "ones", "dense"),
        )
        if kind == "shift":
            return Shift(*self._sizes(mapping(value, where, ("kind", "at"))["at"], where, 5))
        if kind == "ones":
            return Ones(*self._sizes(mapping(value, where, ("kind", "at"))["at"], where, 2))
        found = mapping(value, where, ("kind", "at", "digest"))
        rows, cols = self._sizes(found["at"], where, 2)
        name = f"constant.{digest(found['digest'], where)}"
        if name not in self._built:
            dense = Dense(self.array(name, (rows, cols)))
            self._built[name] = self._same(dense, found["digest"], name)
        built: Dense = self._built[name]
        return built

    def array(self, name: str, expected: Sequence[int]) -> np.ndarray[Any, Any]:
        """A stored array of the expected shape; -1 stands for any size."""
        if name not in self.stored:
            raise FileFormatError(f"array {name!r} is missing")
        self.used.add(name)
        entry = self.stored[name]
        exact = entry["dtype"] == "U8"
        if exact:
            shape, entries = self._rationals(bytes(entry["data"]), name)
        elif entry["dtype"] == "F64":
            shape = [integer(size, f"array {name!r}") for size in entry["shape"]]
        else:
            raise FileFormatError(f"array {name!r} has dtype {entry['dtype']}, expected F64")
        if len(shape) != len(expected) or any(
            want not in (-1, got) for want, got in zip(expected, shape, strict=True)
        ):
            sizes = " x ".join("any" if size < 0 else str(size) for size in expected)
            raise FileFormatError(f"array {name!r} has shape {shape}, expected {sizes}")
        if exact:
            out: np.ndarray[Any, Any] = np.empty(len(entries), dtype=object)
            out[:] = entries
        else:
            out = np.frombuffer(bytes(entry["data"]), dtype="<f8")
        return out.reshape(shape)

    def _rationals(self, data: bytes, name: str) -> tuple[list[int], list[Fraction]]:
        """Fractions written as JSON."""
        try:
            value = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise FileFormatError(f"array {name!r} is damaged: {error}") from None
        found = mapping(value, f"array {name!r}", ("shape", "entries"))
        shape = [integer(size, f"array {name!r}") for size in listed(found["shape"], name, 3)]
        entries = [rational(x, f"array {name!r}") for x in listed(found["entries"], name)]
        if math.prod(shape) != len(entries):
            raise FileFormatError(f"array {name!r} has {len(entries)} entries and shape {shape}")
        return shape, entries

    def _same(self, built: Any, stated: str, name: str) -> Any:
        if built.digest != stated:
            raise FileFormatError(f"{name}: the array is damaged, its content hash is wrong")
        return built

    def _sizes(self, value: Any, where: str, count: int, low: int = 0) -> list[int]:
        if len(listed(value, where)) != count:
            raise FileFormatError(f"{where}: expected {count} integers")
        return [integer(size, where, low) for size in value]

    def _kind(self, value: Any, where: str, rows: int, cols: int) -> Any:
        kind = choice(value, f"{where}.kind", ("scalar", "vector", "matrix"))
        if (kind == "scalar" and (rows, cols) != (1, 1)) or (kind == "vector" and cols != 1):
            raise FileFormatError(f"{where}: a {kind} of {rows} x {cols} numbers")
        return kind


# -- certificates ----------------------------------------------------------------------------------
def read_certificate(value: Any, where: str) -> Certificate:
    """A certificate, each field of the type that its class declares."""
    if not isinstance(value, dict):
        raise FileFormatError(f"{where}: expected a JSON object, got {_said(value)}")
    known = {field.name: field for field in fields(Certificate)}
    needed = [name for name, f in known.items() if f.default is MISSING or name in value]
    mapping(value, where, needed)
    found: dict[str, Any] = {}
    for name in needed:
        at, given, kind = f"{where}.{name}", value[name], str(known[name].type)
        if given is None and kind.endswith("| None"):
            found[name] = None
        elif kind == "str":
            found[name] = text(given, at)
        elif kind == "int":
            found[name] = integer(given, at, 0, LARGEST_DEGREE)
        elif kind.startswith("float"):
            if not isinstance(given, float):
                raise FileFormatError(f"{at}: expected a number, got {_said(given)}")
            found[name] = given
        else:
            found[name] = tuple(text(x, at) for x in listed(given, at))
    certificate = Certificate(**found)
    if not 0 <= certificate.probability <= 1:
        raise FileFormatError(f"{where}.probability: {certificate.probability} is no probability")
    try:
        str(certificate)
    except KeyError as error:
        raise FileFormatError(f"{where}: unknown {error}") from None
    return certificate
