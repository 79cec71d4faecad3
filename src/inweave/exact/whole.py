"""Whole numbers: sizes, counts and steps, told from bools and floats in one way and one wording.

Python's ints and numpy's are both taken; True is an int to Python and a mistake to a user.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np

from inweave.errors import InputError, InweaveError

_WORDS: dict[int | None, str] = {None: "an int", 0: "a non-negative int", 1: "a positive int"}


def is_whole(value: Any, least: int | None = None) -> TypeGuard[int]:
    """Whether a value is an int, perhaps of at least `least`."""
    good = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return good and (least is None or bool(value >= least))


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
