"""Annotations: what a program says about its arguments, `Matrix[n, d]`, `Vector[n]` and `Scalar`.

A size is a name or a number. A name is a string, `Matrix["n", "d"]`, or a type variable,
`Matrix[n, d]` with `n = TypeVar("n")`; from Python 3.12 on, `def ridge[n, d](X: Matrix[n, d])` is
enough. Strings need nothing else, but type checkers take them for names of classes; with type
variables they read `typed.pyi`, which gives every operator its shape. A range goes along as
`Annotated[Scalar, inweave.Range(0.1, 10)]`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin

from inweave.errors import ProgramError
from inweave.exact.whole import is_whole
from inweave.language.ranges import Range
from inweave.model.prompt import Kind

Size = str | int
ANY = "?"  # a size that is not said, which only an answer may have


@dataclass(frozen=True)
class Type:
    """What an annotation says: the kind of a value, its named or literal sizes, its range."""

    kind: Kind
    sizes: tuple[Size, ...] = ()
    range: Range | None = None

    def __repr__(self) -> str:
        inner = ", ".join("Any" if size == ANY else repr(size) for size in self.sizes)
        return self.kind.capitalize() + (f"[{inner}]" if inner else "")


def _typed(kind: Kind, axes: int, given: Any) -> Type:
    given = given if isinstance(given, tuple) else (given,)
    sizes = tuple(map(_size, given))
    if len(sizes) != axes or any(size == "" for size in sizes):
        raise ProgramError(
            f"{kind.capitalize()} takes {axes} sizes, each a name like 'n', a TypeVar or a "
            f"positive int; got {given!r}"
        )
    return Type(kind, sizes)


def _size(given: Any) -> Size:
    """A size, or an empty name where it is none."""
    if given is Any:
        return ANY
    if isinstance(given, TypeVar):
        return given.__name__
    if get_origin(given) is Literal and len(get_args(given)) == 1:
        (given,) = get_args(given)  # what type checkers want numbers to be written as
    if isinstance(given, str):
        return given if given.isidentifier() else ""
    return int(given) if is_whole(given, 1) else ""


if TYPE_CHECKING:
    from inweave.language.typed import Matrix, Scalar, Vector
else:

    class Matrix:
        """Annotation of a matrix argument: `Matrix[n, d]` or `Matrix["n", "d"]`."""

        def __class_getitem__(cls, sizes: Any) -> Any:
            return _typed("matrix", 2, sizes)

    class Vector:
        """Annotation of a vector argument, a column: `Vector[n]` or `Vector["n"]`."""

        def __class_getitem__(cls, sizes: Any) -> Any:
            return _typed("vector", 1, sizes)

    class Scalar:
        """Annotation of a scalar argument."""


def as_type(annotation: Any) -> Type | None:
    """What an annotation says of a value, if it is one of the language."""
    if get_origin(annotation) is Annotated:
        inner, *notes = get_args(annotation)
        kind = as_type(inner)
        ranges = [note for note in notes if isinstance(note, Range)]
        return replace(kind, range=ranges[-1]) if kind and ranges else kind
    if annotation is Scalar:
        return Type("scalar")
    return annotation if isinstance(annotation, Type) else None


def as_types(annotation: Any) -> dict[str, Type]:
    """The same for answers, by name: one without a name, or those of a tuple."""
    several = get_args(annotation) if get_origin(annotation) is tuple else ()
    named = {str(i): each for i, each in enumerate(several)} or {"": annotation}
    return {name: kind for name, each in named.items() if (kind := as_type(each)) is not None}


__all__ = ["ANY", "Matrix", "Scalar", "Size", "Type", "Vector", "as_type", "as_types"]
