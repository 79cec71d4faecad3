"""Functions of networks as the language writes them.

A network holds a function as the ReLU net that stands for it. One that the language makes by a name
and a few numbers is written so, if it is the same to the last bit; any other is written out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import ROUND_CEILING, Context
from typing import Any

from inweave.errors import InweaveError
from inweave.language import functions, tables
from inweave.model.relunet import ABS, RELU, Function

EXACT = {RELU: "inweave.relu", ABS: "inweave.abs"}
GRIDS: dict[str, Callable[..., Function]] = {
    "reciprocal": tables.reciprocal_table,
    "rsqrt": tables.rsqrt_table,
    "exp": tables.exp_table,
    "softmax_exp": tables.exp_table,
    "log": tables.log_table,
}
SMOOTH = ("sigmoid", "tanh", "gelu")


def called(function: Function) -> str | None:
    """A call of the language with `{}` for its argument; None if it has none for the function."""
    if function in EXACT:
        return f"{EXACT[function]}({{}})"
    if function.name.startswith("soft_threshold(") and function.net.units == 2:
        threshold = -function.net.biases[0]
        net = replace(function.net, biases=(-threshold,) * 2, weights=(1.0, -1.0))
        if function == Function(f"soft_threshold({threshold:g})", net):
            return f"inweave.soft_threshold({{}}, {threshold!r})"
    if function.name in (*SMOOTH, "exp", "log") and function.domain is not None:
        for error in _errors(function):
            if _made(function, error) == function:
                return f"inweave.{function.name}({{}}, domain={function.domain!r}, error={error!r})"
    return None


def written(function: Function) -> str:
    """The function itself, as an expression of Python."""
    if function.name in GRIDS and function.domain is not None:
        table = GRIDS[function.name]
        low, high = function.domain
        for pieces in (function.net.units - 1, 62):
            made = table(low, high, max(pieces, 1))
            if replace(made, name=function.name) == function:
                text = f"tables.{table.__name__}({low!r}, {high!r}, {pieces})"
                if made.name == function.name:
                    return text
                return f"replace({text}, name={function.name!r})"
    net = function.net
    numbers = ", ".join(repr(x) for x in (net.weights, net.biases, net.outputs, net.constant))
    rest = (function.domain, function.error, function.relative, function.is_reciprocal)
    told = ", ".join(map(repr, rest))
    return f"Function({function.name!r}, ReluNet({numbers}), {told})"


def _errors(function: Function) -> Iterator[float]:
    """Errors that may have been asked for: the bound in few digits, and itself."""
    for digits in (1, 2, 3):
        context = Context(prec=digits, rounding=ROUND_CEILING)
        yield float(context.create_decimal(function.error))
    yield function.error


def _made(function: Function, error: float) -> Any:
    low, high = function.domain or (0.0, 0.0)
    try:
        if function.name in SMOOTH:
            return tables.smooth(function.name, low, high, error)
        call: Any = functions.exp if function.name == "exp" else functions.log
        return call(1.0, (low, high), error)._node.function
    except InweaveError:
        return None
