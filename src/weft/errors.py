"""Every error weft raises on purpose, in one family.

A message says what was got, what was expected, which block, layer or line it is about, and what to
do. Subclasses also derive from the built-in class that a caller would expect to catch.
"""


class WeftError(Exception):
    """Base of every error that weft raises on purpose."""


class ShapeError(WeftError, ValueError):
    """A size does not fit: an array, a block, a layer or a network."""


class BlockError(WeftError, ValueError):
    """A block or input name is missing, unknown or used twice."""


class InputError(WeftError, ValueError):
    """A value cannot be used: not finite, out of range, or not a number that makes sense here."""


class DTypeError(WeftError, TypeError):
    """An array has a dtype that a network cannot carry (complex, object, text)."""


class ProgramError(WeftError, TypeError):
    """A program asks for something that attention layers cannot express."""


class CompileError(WeftError, ValueError):
    """A program is well formed, but cannot be compiled under the given target, layout or tokens."""


class VerificationError(WeftError, AssertionError):
    """A network does not compute its program."""


class DomainError(WeftError, ValueError):
    """A value left the domain on which a pointwise function was built."""


class DivergenceError(WeftError, ArithmeticError):
    """An iteration grew without bound."""


class FileFormatError(WeftError, ValueError):
    """A file is damaged, truncated, too large, or of a newer version."""
