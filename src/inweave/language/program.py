"""The language: ordinary Python functions over matrices, marked with `@inweave.program`.

    @inweave.program
    def ridge(X: Matrix[n, d], y: Vector[n], *, steps: int) -> Vector[d]: ...

Arguments annotated `Matrix`, `Vector` or `Scalar` are the data; keyword-only arguments are static
and known at compile time. Called with arrays a program computes, given to `inweave.compile` it
becomes a network, and evaluated in a finite field it is the reference that the network is checked
against.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from keyword import iskeyword
from typing import Any

import numpy as np

from inweave.errors import BlockError, InweaveError, ProgramError, ShapeError, missing_and_unknown
from inweave.exact.constants import Array
from inweave.exact.names import check_line
from inweave.exact.whole import whole
from inweave.language import expressions as ex
from inweave.language.annotations import ANY, Type, as_type, as_types
from inweave.language.evaluate import evaluate
from inweave.language.expressions import Expr
from inweave.language.refusals import refuse
from inweave.language.rolled import rolled
from inweave.language.values import Value, lift
from inweave.model.inputs import accept
from inweave.model.prompt import Input, Kind, as_answer, numbered, of_kind


@dataclass(frozen=True)
class Traced:
    """A program recorded at concrete sizes: its inputs and the expressions of its answers.

    `operations` is what the answers need, in the order of the program, as often as it was written
    there: an expression that was written twice stands there twice. `length` is how many there were
    before Python's loops were found in them, `flat` is the same before short ones were.
    """

    inputs: tuple[Input, ...]
    outputs: dict[str, Expr]
    kinds: dict[str, Kind]
    operations: tuple[Expr, ...]
    sizes: dict[str, int]
    length: int = 0
    flat: Traced | None = None

    @property
    def unused(self) -> tuple[str, ...]:
        used = {x.name for x in self.operations if isinstance(x, ex.InputExpr)}
        return tuple(spec.name for spec in self.inputs if spec.name not in used)

    def evaluate(self, inputs: Mapping[str, Array], arithmetic: Any) -> dict[str, Array]:
        """Answers (..., rows, cols) from lifted inputs, in any arithmetic."""
        values = evaluate(list(self.outputs.values()), inputs, arithmetic)
        return dict(zip(self.outputs, values, strict=True))


# Names that inputs, and that sizes and static arguments, cannot have, each with its owner: the
# functions of `inweave.network` that take them as keywords. A test compares their signatures.
OF_CALLS = {
    **dict.fromkeys(("path", "compare"), "net.explore(...)"),
    **dict.fromkeys(("self", "check", "kernel"), "net(...)"),
}
OF_SIZES = {
    "self": "net.resize(...)",
    **dict.fromkeys(("network", "trials", "seed", "seconds"), "inweave.verify(...)"),
    **dict.fromkeys(
        ("program", "target", "optimize", "tokens", "layout", "verify"), "inweave.compile(...)"
    ),
}


class Program:
    """A matrix algorithm. Call it with arrays, or give it to `inweave.compile`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function) or not hasattr(function, "__name__"):
            raise ProgramError(
                f"inweave.program takes a function of matrices, as in @inweave.program above def; "
                f"got the {type(function).__name__} {function!r}"
            )
        self.function = function
        self.name = function.__name__
        check_line("a program", self.name, ProgramError)
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__wrapped__ = function
        try:
            own = {size.__name__: size for size in getattr(function, "__type_params__", ())}
            signature = inspect.signature(function, eval_str=True, locals=own)
        except InweaveError:
            raise
        except Exception as error:  # annotations are the user's own expressions
            raise ProgramError(
                f"program {self.name!r}: cannot read its annotations: {error}"
            ) from None
        self.signature = signature
        self.arguments: dict[str, Type] = {}
        self.statics: dict[str, Any] = {}
        for name, parameter in signature.parameters.items():
            if parameter.kind is parameter.KEYWORD_ONLY:
                self.statics[name] = parameter.default
                continue
            kind = as_type(parameter.annotation)
            if kind is None or parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
                raise ProgramError(
                    f"program {self.name!r}: argument {name!r} needs an annotation Matrix[...], "
                    "Vector[...] or Scalar; put arguments that are known at compile time after a *"
                )
            if ANY in kind.sizes:
                raise ProgramError(f"program {self.name!r}: name the sizes of {name!r}: {kind!r}")
            self.arguments[name] = kind
        self.returns = as_types(signature.return_annotation)
        self._check_names()

    def _check_names(self) -> None:
        """Refuse names that could not be given, because inweave's own arguments take them."""
        for name in self.size_names:
            if name in self.statics:
                raise ProgramError(
                    f"program {self.name!r}: {name!r} names a size and a static argument; rename "
                    "one of them (the size is known in the program as a length, len(x) or X.shape)"
                )
        named = [("input", name, OF_CALLS) for name in self.arguments]
        named += [("size", name, OF_SIZES) for name in self.size_names]
        named += [("static argument", name, OF_SIZES) for name in self.statics]
        for what, name, taken in named:
            if name in taken or iskeyword(name):
                why = f"an argument of {taken[name]}" if name in taken else "a word of Python"
                raise ProgramError(
                    f"program {self.name!r}: the {what} {name!r} has the name of {why}, so it "
                    "could not be given; rename it"
                )

    @property
    def size_names(self) -> tuple[str, ...]:
        named = [s for kind in self.arguments.values() for s in kind.sizes if isinstance(s, str)]
        return tuple(dict.fromkeys(named))

    @property
    def source(self) -> str:
        """The text of the program, where Python can find it."""
        try:
            return inspect.getsource(self.function)
        except (OSError, TypeError):
            return ""

    def trace(self, /, **sizes: Any) -> Traced:
        """Record the program at concrete sizes and static arguments.

        It is recorded anew each time, which takes well under a millisecond: what it reads from
        around it (globals, closures, arrays, other functions) may have changed, and no key knows.
        """
        values = self._complete(sizes)
        specs = [
            Input(name, *_shape(kind, values), kind.kind) for name, kind in self.arguments.items()
        ]
        statics = {name: values[name] for name in self.statics}
        with ex.Recording() as recording:
            symbols = {spec.name: ex.InputExpr(spec, recording) for spec in specs}
            handles = {name: Value(x, self.arguments[name].range) for name, x in symbols.items()}
            named = self._answers(self._called(handles | statics))
        if recording.unread:
            raise ProgramError(recording.unread[0][1])
        needed = ex.ordered(named.values())
        self._check_symbols(needed, symbols)
        operations = recording.operations(needed)
        length = len(operations)
        kinds = {name: x.kind for name, x in named.items()}
        for name, wanted in self.returns.items():
            if name in named:
                self._check_return(named[name], wanted, values)
                kinds[name] = wanted.kind
        sizes = {name: values[name] for name in self.size_names}
        flat = _rolled(Traced(tuple(specs), named, kinds, operations, sizes, length))
        traced = _rolled(flat, short=True)
        return traced if traced is flat else replace(traced, flat=flat)

    def _called(self, arguments: Mapping[str, Any]) -> Any:
        try:
            return self.function(**arguments)
        except Exception as error:
            if isinstance(error.__cause__, InweaveError):  # numpy replaces what is raised inside
                raise error.__cause__ from None
            raise

    def _complete(self, sizes: Mapping[str, Any]) -> dict[str, Any]:
        known = (*self.size_names, *self.statics)
        values = {name: d for name, d in self.statics.items() if d is not inspect.Parameter.empty}
        values.update(sizes)
        if said := missing_and_unknown(known, values):
            raise BlockError(
                f"program {self.name!r} takes {', '.join(known) or 'no sizes'}; {said}"
            )
        for name in self.size_names:
            values[name] = whole(f"size {name}", values[name], 1, ShapeError)
        for name, value in values.items():
            parameter = self.signature.parameters.get(name)
            if parameter is not None and parameter.annotation is int:
                whole(name, value)
        return values

    def _answers(self, result: Any) -> dict[str, Expr]:
        """What the program's function returned, by name."""
        if result is None:
            raise ProgramError(
                f"program {self.name!r} returns nothing; return a value, or a tuple or dict of them"
            )
        if isinstance(result, (tuple, list)):
            result = {str(i): x for i, x in enumerate(result)}
        elif not isinstance(result, dict):
            result = {"": result}
        elif numbered([*result]):
            raise ProgramError(
                f"program {self.name!r} returns a dict with the names {', '.join(result)}, which "
                "are those of a tuple; return a tuple, or give them other names"
            )
        elif not all(isinstance(k, str) and k for k in result):
            result = {}
        if not result:
            raise ProgramError(
                f"program {self.name!r} must return a value, a tuple or a dict with names"
            )
        for name in result:
            check_line(f"an answer of program {self.name!r}", name, ProgramError)
            self._check_answer(result[name])
        return {name: lift(x) for name, x in result.items()}

    def _check_answer(self, x: Any) -> None:
        """Refuse what scan returns and no answer is: None, or the tuple that it carries."""
        if x is None:
            raise ProgramError(
                f"program {self.name!r} returns None as one of its answers; of a scan whose step "
                "says nothing of its rows, return inweave.scan(...)[0]"
            )
        if isinstance(x, (tuple, list)) and any(isinstance(y, Value) for y in x):
            raise ProgramError(
                f"program {self.name!r} returns a {type(x).__name__} of values as one of its "
                "answers; return them one by one: (*carried, values)"
            )

    def _check_symbols(self, needed: Sequence[Expr], symbols: Mapping[str, Expr]) -> None:
        """Refuse values that have none here: kept from a step of iterate or another program."""
        for x in needed:
            if isinstance(x, ex.Carried):
                raise ProgramError(
                    f"program {self.name!r} uses {x!r}, which a loop carries{x.where}, outside of "
                    "its step: there it has no value; use what iterate or scan returns"
                )
            if isinstance(x, ex.InputExpr) and x is not symbols.get(x.name):
                raise ProgramError(
                    f"program {self.name!r} uses {x!r}, an input of another program or of an "
                    "earlier call, kept in a variable outside; take it as an argument"
                )

    def _check_return(self, x: Expr, wanted: Type, values: Mapping[str, Any]) -> None:
        rows, cols = _shape(wanted, values)
        if rows not in (ANY, x.rows) or cols not in (ANY, x.cols):
            raise ShapeError(
                f"program {self.name!r} is annotated to return {wanted!r} "
                f"({rows} x {cols}), but returns {x!r}"
            )

    def sizes_of(self, inputs: Mapping[str, Any]) -> dict[str, int]:
        """The sizes that given arrays imply."""
        sizes: dict[str, int] = {}
        for name, kind in self.arguments.items():
            if name not in inputs or not kind.sizes:
                continue
            try:
                shape = tuple(np.shape(inputs[name]))
            except ValueError:
                raise ShapeError(
                    f"input {name!r}: got lists of different lengths, expected {kind!r}"
                ) from None
            if kind.kind == "vector" and len(shape) >= 2 and shape[-1] == 1:
                known = sizes.get(str(kind.sizes[0]), kind.sizes[0])
                if known == shape[-2] or (isinstance(known, str) and shape[-2] > 1):
                    shape = shape[:-1]
            if len(shape) < len(kind.sizes):
                raise ShapeError(f"input {name!r}: got shape {shape}, expected {kind!r}")
            for wanted, size in zip(kind.sizes, shape[-len(kind.sizes) :], strict=False):
                if isinstance(wanted, str) and sizes.setdefault(wanted, size) != size:
                    raise ShapeError(
                        f"input {name!r}: size {wanted} is {size}, an earlier input has "
                        f"{wanted} = {sizes[wanted]}"
                    )
        return sizes

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        for x in (*args, *kwargs.values()):
            if isinstance(x, Value):
                raise refuse(
                    f"program {self.name!r} takes arrays, got {x!r}: a program cannot be called "
                    f"inside another one; call its function, {self.name}.function(...), or put "
                    "what they share into a plain function"
                )
        names = list(self.arguments)
        if len(args) > len(names):
            raise BlockError(f"program {self.name!r} takes {len(names)} arrays, got {len(args)}")
        given = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name in given:
                raise BlockError(f"program {self.name!r} got {name!r} twice")
            given[name] = value
        statics = {name: given.pop(name) for name in list(given) if name in self.statics}
        sizes = self.sizes_of(given)
        specs = [Input(name) for name in names]
        if set(given) != set(names):
            accept(specs, given, f"program {self.name!r}")
        traced = self.trace(**sizes, **statics)
        lifted, arithmetic = accept(traced.inputs, given, f"program {self.name!r}")
        found = traced.evaluate(lifted, arithmetic)
        lead = np.broadcast_shapes(*(tuple(x.shape[:-2]) for x in lifted.values()), ())
        answers = {}
        for name, value in found.items():
            if tuple(value.shape[:-2]) != lead:
                value = arithmetic.xp.broadcast_to(value, (*lead, *value.shape[-2:]))
            answers[name] = of_kind(value, traced.kinds[name])
        return as_answer(answers)

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}: {kind!r}" for name, kind in self.arguments.items())
        return f"<program {self.name}({inner})>"


def _rolled(traced: Traced, short: bool = False) -> Traced:
    """The same program with Python's loops as loops."""
    looped = rolled([*traced.outputs.values()], traced.operations, short)
    if looped == [*traced.outputs.values()]:
        return traced
    named = dict(zip(traced.outputs, looped, strict=True))
    return replace(traced, outputs=named, operations=tuple(ex.ordered(looped)))


def _shape(kind: Type, values: Mapping[str, Any]) -> tuple[Any, Any]:
    """Rows and columns of what an annotation says; a size without a value is any."""
    sizes = [values.get(s, ANY) if isinstance(s, str) else s for s in kind.sizes]
    rows, cols = (*sizes, 1, 1)[:2]
    return rows, cols


def program(function: Callable[..., Any]) -> Program:
    """Mark a function of matrices as a program."""
    return Program(function)
