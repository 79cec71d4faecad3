"""What expressions stand for, in any arithmetic: floats, rationals, a finite field, degrees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inweave.errors import ShapeError
from inweave.exact.arithmetic import Arithmetic, matrix
from inweave.exact.constants import Array
from inweave.language import expressions as ex
from inweave.language.expressions import Expr, Loop

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
    return [known[x] for x in roots]


def fill(order: Sequence[Expr], known: Known, arithmetic: Arithmetic) -> None:
    """Compute every expression of an ordered list into `known`."""
    for x in order:
        if x in known:
            continue
        if isinstance(x, ex.LoopResult):
            if x.loop not in known:
                start = [known[y] for y in x.loop.init]
                known[x.loop] = run(x.loop, start, known, arithmetic, x.loop.times)
            known[x] = known[x.loop][x.index]
        else:
            known[x] = operation(x, [known[part] for part in x.parts], arithmetic)


def run(
    loop: Loop, start: Sequence[Array], known: Known, arithmetic: Arithmetic, times: int
) -> list[Array]:
    """The carried values after `times` steps; `known` holds what stands outside the loop."""
    outside: Known = {x: known[x] for x in loop.outer}
    state = list(start)
    for _ in range(times):
        inside = outside | dict(zip(loop.carried, state, strict=True))
        fill(loop.body, inside, arithmetic)
        state = [inside[x] for x in loop.step]
    return state


def operation(x: Expr, values: Sequence[Array], arithmetic: Arithmetic) -> Array:
    """One operation on the values of its parts."""
    match x:
        case ex.Sum():
            return _sum(x, values, arithmetic)
        case ex.Product():
            return values[0] @ values[1]
        case ex.Scaled():
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
