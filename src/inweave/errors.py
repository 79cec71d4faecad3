"""Every error inweave raises on purpose, in one family.

A message says what was got, what was expected, which block, layer or line it is about, and what to
do. Subclasses also derive from the built-in class that a caller would expect to catch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class InweaveError(Exception):
    """Base of every error that inweave raises on purpose."""


class ShapeError(InweaveError, ValueError):
    """A size does not fit: an array, a block, a layer or a network."""


class BlockError(InweaveError, ValueError):
    """A block or input name is missing, unknown or used twice."""


class InputError(InweaveError, ValueError):
    """A value cannot be used: not finite, out of range, or not a number that makes sense here."""


class DTypeError(InweaveError, TypeError):
    """An array has a dtype that a network cannot carry (complex, object, text)."""


class ProgramError(InweaveError, TypeError):
    """A program asks for something that attention layers cannot express."""


class CompileError(InweaveError, ValueError):
    """A program is well formed, but cannot be compiled under the given target, layout or tokens."""


class DecompileError(InweaveError, ValueError):
    """A network cannot be read back as a program; says what is missing."""


class VerificationError(InweaveError, AssertionError):
    """A network does not compute its program."""


class DomainError(InweaveError, ValueError):
    """A value left the domain on which a pointwise function was built."""


class DivergenceError(InweaveError, ArithmeticError):
    """An iteration grew without bound."""


class FileFormatError(InweaveError, ValueError):
    """A file is damaged, truncated, too large, or of a newer version."""


class MissingExtraError(InweaveError, ImportError):
    """A part of inweave needs a library that one of its extras installs."""


def missing_and_unknown(names: Iterable[str], given: Iterable[str]) -> str:
    """What is wrong with the names that are given, in words; nothing if they are the right ones."""
    names, given = list(names), list(given)
    missing = [name for name in names if name not in given]
    unknown = [str(name) for name in given if name not in names]
    said = {"missing": missing, "unknown": unknown}
    return "; ".join(f"{what}: {', '.join(which)}" for what, which in said.items() if which)


def did_you_mean(text: str, names: Iterable[str]) -> str:
    """`did you mean 'ridge'? ` if one of these names is nearly the text; nothing if none is."""
    from difflib import get_close_matches

    found = get_close_matches(text, list(names), n=1)
    return f"did you mean {found[0]!r}? " if found else ""


@contextmanager
def needs_extra(what: str, extra: str) -> Iterator[None]:
    """Say which extra installs a library that the imports inside do not find."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "inweave":
            raise
        raise MissingExtraError(
            f"{what} needs {error.name}, which the extra {extra!r} installs: in a clone of inweave "
            f'pip install ".[{extra}]", with a wheel pip install "PATH/TO/inweave.whl[{extra}]"'
        ) from error
