"""What expressions stand for, in any arithmetic: floats, rationals, a finite field, degrees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inweave.errors import ShapeError
from inweave.exact.arithmetic import Arithmetic, matrix, times
from inweave.exact.constants import Array, Shift
from inweave.language import expressions as ex
from inweave.language.expressions import Expr, Loop

LARGE = 1 << 16  # entries of a constant that is not written out before a loop which may not need it

Known = dict[Expr | Loop, Any]  # the value of an expression, or all those that a loop ends with


def evaluate(
    roots: Sequence[Expr], inputs: Mapping[str, Array], arithmetic: Arithmetic
) -> list[Array]:
    """The values of expressions."""
    order = ex.ordered(roots)
    known: Known = {
        x: inputs[x.name] for x in order if isinstance(x, ex.InputExpr) and x.name in inputs
    }
    fill(order, known, arithmetic)
    return [value(x, known, arithmetic) for x in roots]


def fill(order: Sequence[Expr], known: Known, arithmetic: Arithmetic) -> None:
    """Compute every expression of an ordered list into `known`."""
    for x in order:
        if x in known or _waits(x):
            continue
        if isinstance(x, ex.LoopResult):
            if x.loop not in known:
                start = [value(y, known, arithmetic) for y in x.loop.init]
                known[x.loop] = run(x.loop, start, known, arithmetic, x.loop.times)
            known[x] = known[x.loop][x.index]
        elif isinstance(x, ex.Product) and (moved := _moved(x, known, arithmetic)) is not None:
            known[x] = moved
        else:
            parts = [value(part, known, arithmetic) for part in x.parts]
            known[x] = operation(x, parts, arithmetic)


def value(x: Expr, known: Known, arithmetic: Arithmetic) -> Array:
    """A value that is known, or a constant that waited."""
    if x not in known and _waits(x):
        known[x] = operation(x, (), arithmetic)
    return known[x]


def _waits(x: Expr) -> bool:
    """Whether a constant is only written out where it must be: pieces of an identity only move."""
    return isinstance(x, ex.ConstantExpr) and isinstance(x.constant, Shift)


def _moved(x: ex.Product, known: Known, arithmetic: Arithmetic) -> Array | None:
    """A product with a piece of an identity: rows or columns of the other factor, moved."""
    for constant, other, left in ((x.a, x.b, True), (x.b, x.a, False)):
        if isinstance(constant, ex.ConstantExpr) and isinstance(constant.constant, Shift):
            values = value(other, known, arithmetic)
            if left:
                return times(arithmetic, values.mT, constant.constant.T).mT
            return times(arithmetic, values, constant.constant)
    return None


def run(
    loop: Loop, start: Sequence[Array], known: Known, arithmetic: Arithmetic, times: int
) -> list[Array]:
    """The carried values after `times` steps; `known` holds what stands outside the loop."""
    outside: Known = {
        x: value(x, known, arithmetic)
        for x in loop.outer
        if not _waits(x) or x.rows * x.cols <= LARGE
    }
    state = list(start)
    for _ in range(times):
        inside = outside | dict(zip(loop.carried, state, strict=True))
        fill(loop.body, inside, arithmetic)
        state = [value(x, inside, arithmetic) for x in loop.step]
    return state


def operation(x: Expr, values: Sequence[Array], arithmetic: Arithmetic) -> Array:
    """One operation on the values of its parts."""
    match x:
        case ex.Sum():
            return _sum(x, values, arithmetic)
        case ex.Product():
            return values[0] @ values[1]
        case ex.Scaled() | ex.Entrywise():
            return values[0] * values[1]
        case ex.Transposed():
            return values[0].mT
        case ex.Held():
            return values[0]
        case ex.Applied():
            return arithmetic.pointwise(x.function, values[0])
        case ex.ConstantExpr():
            return matrix(arithmetic, x.constant)
        case _:
            raise ShapeError(f"no value was given for the input {x.text()!r}")


def _sum(x: ex.Sum, values: Sequence[Array], arithmetic: Arithmetic) -> Array:
    total = None
    for (coefficient, _), value in zip(x.terms, values, strict=True):
        if coefficient == 1:
            total = value if total is None else total + value
        elif coefficient == -1 and total is not None:
            total = total - value
        else:
            term = value * arithmetic.number(coefficient)
            total = term if total is None else total + term
    return total
