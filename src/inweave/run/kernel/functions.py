"""Pointwise functions in C: a comparison, a few units, a table between knots, or a division."""

from __future__ import annotations

from typing import Any

import numpy as np

from inweave.model.layers import PointwiseLayer
from inweave.model.relunet import ABS, RELU, Function
from inweave.run.domains import limits
from inweave.run.kernel.text import Numbers, Refused
from inweave.run.libraries.slopes import Slope
from inweave.run.libraries.tables import Even, Table
from inweave.run.values.newton import STEPS, Refined

FEW = 8  # units up to which they are added up


class Functions:
    """The functions of a kernel, each written once, before it."""

    def __init__(self, name: str, numbers: Numbers, check: bool) -> None:
        self.name, self.numbers, self.check = name, numbers, check
        self.text: list[str] = []
        self._names: dict[object, str] = {}

    def restart(self) -> None:
        """Forget what was written."""
        self.text.clear()
        self._names.clear()

    def call(self, function: Function | Refined | Slope, x: str) -> str:
        """A function of an expression; `flag` takes note of a domain that was left."""
        return f"{self._named(function)}({x}, &flag)"

    def layer(self, layer: PointwiseLayer, entry: str, x: str) -> str:
        """A pointwise layer at an entry, which has weights of its own."""
        pairs = zip(layer.V, layer.C, strict=True)
        kept = np.array([bool(np.any(V != 0) or np.any(C != 0)) for V, C in pairs], dtype=bool)
        size, units = layer.V[0].size, int(kept.sum())
        tables = [self.table(array[kept]) for array in (layer.V, layer.W, layer.B, layer.C)]
        at = f"[u * {size} + e]"
        V, W, B, C = (f"LDG({table}{at})" for table in tables)
        inner = f"{W} * x + {B}"
        name = f"{self.name}_l{len(self._names)}"
        self._names[name] = name
        inner = f"POSITIVE({inner})" if layer.activation == "relu" else f"({inner})"
        self.text.append(
            f"INLINE real {name}(int e, real x) {{\n  real s = 0;\n"
            f"  for (int u = 0; u < {units}; u++) s += {V} * {inner} + {C};\n  return s;\n}}\n"
        )
        return f"{name}({entry}, {x})"

    def table(self, numbers: np.ndarray[Any, Any]) -> str:
        """An array of numbers in the device's memory."""
        found = self.numbers.listed(np.asarray(numbers)) or ["0"]
        return self._array("real", ", ".join(found), len(found))

    def _array(self, kind: str, numbers: str, size: int) -> str:
        key = (kind, numbers)
        if key not in self._names:
            self._names[key] = f"{self.name}_t{len(self._names)}"
            self.text.append(f"TABLE {kind} {self._names[key]}[{size}] = {{{numbers}}};\n")
        return self._names[key]

    def _named(self, function: Function | Refined | Slope) -> str:
        if function not in self._names:
            body = self._body(function)
            name = f"{self.name}_f{len(self._names)}"
            self._names[function] = name
            head = f"// {function.name}\nINLINE real {name}(real x, int *flag) {{\n"
            self.text.append(head + "".join(f"  {line}\n" for line in body) + "}\n")
        return self._names[function]

    def _body(self, function: Function | Refined | Slope) -> list[str]:
        if isinstance(function, Slope):
            return self._slope(function.function)
        if not isinstance(function, Refined):
            return self._value(function)
        guard = self._guard(function.table)
        if function.is_inside or (guard and function.is_exact):
            root = "SQRT(x)" if function.degree == 3 else "x"
            return [*guard, f"return 1 / {root};"]
        plus, minus = (self.numbers(float(c)) for c in STEPS[function.degree][:2])
        product = " * ".join(["r", "x", *["r"] * (function.degree - 1)])
        return [
            f"real r = {self._named(function.table)}(x, flag);",
            f"for (int k = 0; k < {function.steps}; k++)",
            f"  r = r * {plus} + ({product}) * {minus};",
            "return r;",
        ]

    def _slope(self, function: Function | Refined) -> list[str]:
        """The derivative: of a table, of its segment; of Newton's steps, carried through them."""
        if isinstance(function, Refined):
            table, slope = self._named(function.table), self._named(Slope(function.table))
            plus, minus = (self.numbers(float(c)) for c in STEPS[function.degree][:2])
            power = " * ".join(["r"] * (function.degree - 1))
            return [
                f"real r = {table}(x, flag), d = {slope}(x, flag);",
                f"for (int k = 0; k < {function.steps}; k++) {{",
                f"  real p = {power};",
                f"  d = d * {plus} + (p * x * d * {function.degree} + p * r) * {minus};",
                f"  r = r * {plus} + p * r * x * {minus};",
                "}",
                "return d;",
            ]
        net = function.net
        if function.domain and net.units > FEW:
            knots = Table.of(function).rounded(self.numbers.dtype).knots
            low, high = (self.numbers(float(knots[i])) for i in (0, -1))
            return [
                f"if (!(x > {low} && x <= {high})) return 0;",
                *self._line(function, left=True),
                "return line.w;",
            ]
        terms = ["NIL"]
        for v, w, b in zip(net.outputs, net.weights, net.biases, strict=True):
            rises = f"{self.numbers(w)} * x + {self.numbers(b)} > 0"
            terms.append(f"({rises} ? {self.numbers(v * w)} : NIL)")
        return [f"return {' + '.join(terms)};"]

    def _guard(self, function: Function) -> list[str]:
        if not self.check or function.domain is None:
            return []
        low, high = map(self.numbers, limits(function, self.numbers.dtype))
        return [f"if (!(x >= {low} && x <= {high})) *flag |= LEFT_DOMAIN;"]

    def _value(self, function: Function) -> list[str]:
        net, guard = function.net, self._guard(function)
        if net == RELU.net:
            return [*guard, "return POSITIVE(x);"]
        if net == ABS.net:
            return [*guard, "return ABS(x);"]
        largest = max([abs(net.constant), *map(abs, (*net.weights, *net.biases, *net.outputs))])
        if largest > self.numbers.largest:
            raise Refused(f"{function.name} has weights that {self.numbers.dtype} cannot hold")
        if function.domain and net.units > FEW:
            return [*self._line(function), "return line.z + line.w * (x - line.y);"]
        units = zip(net.outputs, net.weights, net.biases, strict=True)
        terms = [self.numbers(net.constant)]
        for unit in units:
            v, w, b = map(self.numbers, unit)
            terms.append(f"{v} * POSITIVE({w} * x + {b})")
        return [*guard, f"return {' + '.join(terms)};"]

    def _line(self, function: Function, left: bool = False) -> list[str]:
        """The line between two knots, which a guide finds, or bisection where there is none.

        At a knot it is the line after it, or the one to its `left`.
        """
        table = Table.of(function).rounded(self.numbers.dtype)
        last = len(table.knots) - 1
        ends = np.where(np.isfinite(table.ends), table.ends, np.finfo(self.numbers.dtype).max)
        lines = self.table(np.stack([ends, table.knots, table.values, table.slopes], axis=1))
        low, high = (self.numbers(float(table.knots[i])) for i in (0, -1))
        return [
            *self._clamped(function, low, high),
            *(self._guided(table) if table.guide else self._bisected(table, left)),
            f"real4 line = LDG4({lines}, at);",
            f"if (x {'>' if left else '>='} line.x && at < {last}) line = LDG4({lines}, at + 1);",
        ]

    def _clamped(self, function: Function, low: str, high: str) -> list[str]:
        """An argument between the ends of a table; what is no number stays so, or is marked."""
        if guard := self._guard(function):
            return [*guard, f"x = CLAMP(x, {low}, {high});"]
        return [f"x = x < {low} ? {low} : x > {high} ? {high} : x;"]

    def _guided(self, table: Table) -> list[str]:
        assert table.guide is not None
        guide, before = table.guide
        knots = ", ".join(str(int(at)) for at in before)
        name = self._array("short", knots, len(before))
        if isinstance(guide, Even):
            low, scale = self.numbers(guide.low), self.numbers(guide.scale)
            cell = f"(int)((x - {low}) * {scale})"
        else:
            cell = f"(int)((BITS(x) >> {guide.shift}) - {guide.first})"
        most = len(before) - 1
        return [
            f"int cell = {cell};",
            f"cell = cell < 0 ? 0 : cell > {most} ? {most} : cell;",
            f"int at = LDG({name}[cell]);",
        ]

    def _bisected(self, table: Table, left: bool) -> list[str]:
        name = self.table(table.knots)
        return [
            f"int at = 0, end = {len(table.knots)};",
            "while (end - at > 1) {",
            "  int middle = (at + end) >> 1;",
            f"  if (LDG({name}[middle]) {'<' if left else '<='} x) at = middle; else end = middle;",
            "}",
        ]
