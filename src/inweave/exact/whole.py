"""Numbers that users give, told from other things in one way and one wording.

Sizes, counts and steps are whole: bools and floats are not. Python's numbers and numpy's are both
taken; True is an int to Python and a mistake to a user.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, TypeGuard

import numpy as np

from inweave.errors import InputError, InweaveError

_WORDS: dict[int | None, str] = {None: "an int", 0: "a non-negative int", 1: "a positive int"}


def is_whole(value: Any, least: int | None = None) -> TypeGuard[int]:
    """Whether a value is an int, perhaps of at least `least`."""
    good = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return good and (least is None or bool(value >= least))


def is_number(value: Any) -> bool:
    """Whether a value is a number of Python's or numpy's."""
    return isinstance(value, (int, float, Fraction, np.number)) and not isinstance(value, bool)


def whole(
    what: str, value: Any, least: int | None = None, error: type[InweaveError] = InputError
) -> int:
    """A value that is an int, as Python's; anything else is refused by the name `what`.

    >>> whole("steps", -1, 0)
    Traceback (most recent call last):
    inweave.errors.InputError: steps must be a non-negative int, got -1
    """
    if not is_whole(value, least):
        expected = _WORDS.get(least, f"an int of at least {least}")
        raise error(f"{what} must be {expected}, got {value!r}")
    return int(value)
