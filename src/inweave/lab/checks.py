"""Refusals of settings, in one wording: the setting, what it must be, what was got.

Every check asks for what is wanted, so that NaN, for which no comparison holds, is refused too.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from inweave.errors import InputError
from inweave.exact.schema import LARGEST


def refuse_unless(holds: bool, name: str, expected: str, got: object) -> None:
    if not holds:
        raise InputError(f"{name} must be {expected}, got {got!r}")


def at_least(low: int, **settings: float) -> None:
    """Numbers from `low` on; integers are counts, up to what a file may say."""
    for name, value in settings.items():
        refuse_unless(value >= low, name, f"at least {low}", value)
        if isinstance(value, int):
            refuse_unless(value <= LARGEST, name, f"at most {LARGEST}", value)


def positive(**settings: float) -> None:
    for name, value in settings.items():
        refuse_unless(value > 0, name, "positive", value)


def all_finite(settings: Any) -> None:
    """Every number of a dataclass, and every number in its tuples."""
    for f in dataclasses.fields(settings):
        value = getattr(settings, f.name)
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, float):
                refuse_unless(math.isfinite(number), f.name, "finite", number)


def is_file_name(name: object) -> bool:
    """Whether a name can be a file's or folder's here: one visible entry, not a path elsewhere."""
    return (
        isinstance(name, str)
        and name.isprintable()
        and name.strip() != ""
        and not name.startswith(".")
        and not set(name) & set("/\\")
    )
