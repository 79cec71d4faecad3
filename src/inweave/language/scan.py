"""Loops over data: `scan` hands a step one row of each of its arrays.

In attention that is a loop like any other which carries a little more. A selector e begins as the
first unit vector and is moved on by a shift matrix, so the row of X is `Xᵀ e`; and what a step says
of its row is put there by `Y + e vᵀ`. Nothing that comes after needs to know of scans: e and the
shift are pieces of an identity, described alike at every number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from inweave.errors import InputError, ShapeError
from inweave.language.expressions import Carried, Expr, Product, Transposed, is_recording
from inweave.language.iterate import Recorded, of_same_shapes, parameters
from inweave.language.refusals import refuse
from inweave.language.selector import Selector, Stack
from inweave.language.values import Value, lift

if TYPE_CHECKING:
    from inweave.language.typed import Matrix, Number, Scalar, Vector

S = TypeVar("S")
K = TypeVar("K")


@overload
def scan(
    step: Callable[..., tuple[S, None]], start: S | Number, *xs: Any, reverse: bool = False
) -> tuple[S, None]: ...
@overload
def scan(
    step: Callable[..., tuple[S, Scalar]], start: S | Number, *xs: Any, reverse: bool = False
) -> tuple[S, Vector[Any]]: ...
@overload
def scan(
    step: Callable[..., tuple[S, Vector[K]]], start: S | Number, *xs: Any, reverse: bool = False
) -> tuple[S, Matrix[Any, K]]: ...
@overload
def scan(
    step: Callable[..., tuple[S, tuple[Any, ...]]],
    start: S | Number,
    *xs: Any,
    reverse: bool = False,
) -> tuple[S, Any]: ...


def scan(
    step: Callable[..., Any], start: Any, *xs: Any, reverse: bool = False, **options: Any
) -> Any:
    """Go through the rows of `xs`: what a step carries in the end, and what it said of each row.

    The step is called with what is carried and with one row of each of `xs`: of a matrix a vector,
    of a vector or a list of numbers a scalar. It returns a pair: what is carried next, and its
    value for this row or None. The values are stacked, scalars to a vector and vectors to the rows
    of a matrix. What is carried, and the value, may be tuples. With `reverse` the last row comes
    first; the values stand in the order of the rows all the same.

    >>> import inweave
    >>> from inweave import Vector
    >>> @inweave.program
    ... def running(x: Vector["n"]):
    ...     _, sums = inweave.scan(lambda s, x: (s + x, s + x), 0.0, x)
    ...     return sums
    >>> running(x=[1.0, 2.0, 3.0])
    array([1., 3., 6.])
    """
    _check_arguments(xs, options)
    called = f"calls it with what is carried and a row of each of {len(xs)} arrays"
    name, *_ = parameters(step, 1 + len(xs), "scan", called)
    if not is_recording():
        return _computed(step, start, xs, reverse)
    arrays = [lift(x) for x in xs]
    rows = _common_rows([x.rows for x in arrays])
    selector = Selector.rows(rows, (False, True), reverse)
    begin = _several(start)
    several = [f"{name}{i}" for i in range(len(begin.parts))]
    names = [name] if begin.one and not begin.none else several
    said = _several(None)

    def stepped(carried: tuple[Carried, ...]) -> tuple[Expr, ...]:
        nonlocal said
        *state, at = carried
        given = begin.like(map(Value, state))
        after, value = _pair(step(given, *(Value(_row(x, at)) for x in arrays)), begin.none)
        said = _several(value)
        stacked = (_stackable(lift(v)) for v in said.parts)
        held = of_same_shapes("scan", state, _several(after).parts)
        return (*held, selector.moved(at), *stacked)

    begins = (*map(lift, begin.parts), selector.first())
    loop = Recorded("scan", step, rows, stepped, (*names, "row"), begins)
    *state, at = loop.carried
    values = loop.stepped[len(loop.carried) :]
    stacks = [Stack(rows, x) for x in values]
    names = [f"value{i or ''}" for i in range(len(values))]
    held = loop.carry(names, [stack.empty() for stack in stacks])
    put = (stack.put(x, at, value) for stack, x, value in zip(stacks, held, values, strict=True))
    loop.stepped = (*loop.stepped[: len(state) + 1], *put)
    ends = [Value(x) for x in loop.results()]
    return begin.like(ends[: len(state)]), said.like(ends[len(state) + 1 :])


def _check_arguments(xs: Sequence[Any], options: Iterable[str]) -> None:
    """Refuse what jax.lax.scan takes and this does not, or takes for something else."""
    for option in options:
        raise refuse(
            f"scan has no option {option!r}: it goes through all rows of its arrays, backwards "
            "with reverse=True; to repeat a step so many times use inweave.iterate",
            InputError,
        )
    for x in xs:
        if isinstance(x, (list, tuple)) and any(isinstance(part, Value) for part in x):
            raise refuse(
                "scan got a list of expressions, which is not a matrix: for a row of each in every "
                "step write scan(step, start, x, y), for rows that hold both "
                "scan(step, start, inweave.hstack([x, y])), and for one after the other, as numpy "
                "reads the list, scan(step, start, inweave.hstack([x, y]).T)"
            )


def _row(x: Expr, at: Expr) -> Expr:
    """The row of a matrix, as a column, or the entry of a vector."""
    return Product(Transposed(at), x) if x.kind == "vector" else Product(Transposed(x), at)


def _stackable(x: Expr) -> Expr:
    if x.cols != 1:
        raise refuse(
            f"the step of scan returns {x!r} as its value: values are stacked as rows, so each is "
            "a scalar or a vector; return a product or a column of it, or carry it",
            ShapeError,
        )
    return x


class _several:
    """One value, a tuple of them, or none: its parts, and others in the same arrangement."""

    def __init__(self, x: Any) -> None:
        self.none, self.one = x is None, not isinstance(x, (tuple, list))
        self.parts = () if self.none else (x,) if self.one else tuple(x)

    def like(self, parts: Iterable[Any]) -> Any:
        parts = tuple(parts)
        return None if self.none else parts[0] if self.one else parts


def _pair(result: Any, nothing: bool) -> tuple[Any, Any]:
    """What a step returned; `nothing` says that it was given nothing to carry."""
    if not isinstance(result, tuple) or len(result) != 2:
        got = f"{len(result)} values" if isinstance(result, tuple) else f"{result!r}"
        raise refuse(
            f"the step of scan returns {got}; expected a pair, what is carried next and the value "
            "for this row: return w, None if there is none"
        )
    if result[0] is None and not nothing:
        raise refuse("the step of scan carries nothing on; expected (carried next, value or None)")
    return result


def _common_rows(rows: Sequence[int]) -> int:
    if not rows:
        raise refuse(
            "scan needs something to go through: scan(step, start, X); to repeat a step so many "
            "times use inweave.iterate",
            InputError,
        )
    if len(set(rows)) > 1:
        raise refuse(
            f"scan goes through all its arrays at once, but they have {', '.join(map(str, rows))} "
            "rows",
            ShapeError,
        )
    if rows[0] == 0:
        raise refuse("scan has nothing to go through: its arrays have no rows", ShapeError)
    return rows[0]


def _computed(step: Callable[..., Any], start: Any, xs: Sequence[Any], reverse: bool) -> Any:
    """The same with arrays, outside of programs."""
    arrays = [np.asarray(x) for x in xs]
    rows = _common_rows([len(x) for x in arrays])
    state, said = start, [None] * rows  # type: Any, list[Any]
    for i in reversed(range(rows)) if reverse else range(rows):
        state, said[i] = _pair(step(state, *(x[i] for x in arrays)), start is None)
    values = _several(said[0])
    each = zip(*(_several(value).parts for value in said), strict=True)
    return state, values.like(np.stack(column) for column in each)
