"""Ranges: where a value lies, as the user knows it and the network must.

A function is a table over a domain, and 1/x has none that holds for every x. So whoever divides
says where the divisor lies. A range belongs to the value that a user holds, not to the recorded
expression: it chooses a table when the value is divided by, and that table's domain is checked
whenever the network runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from inweave.errors import InputError
from inweave.exact.schema import short
from inweave.exact.whole import is_number
from inweave.language.refusals import refuse


@dataclass(frozen=True, init=False)
class Range:
    """Every entry lies in [low, high]; with `either_sign`, in [-high, -low] or [low, high].

    As an annotation: `s: Annotated[Scalar, inweave.Range(0.1, 10)]`.
    """

    low: float
    high: float
    either_sign: bool

    def __init__(self, low: float, high: float, either_sign: bool = False) -> None:
        name = "a range of either sign" if either_sign else "a range"
        low, high = ends(name, (low, high), either_sign, "(low, high)")
        for field, value in (("low", low), ("high", high), ("either_sign", bool(either_sign))):
            object.__setattr__(self, field, value)

    def __repr__(self) -> str:
        text = f"[{self.low:g}, {self.high:g}]"
        return f"[{-self.high:g}, {-self.low:g}] or {text}" if self.either_sign else text


def ends(
    name: str, domain: Any, positive: bool = False, wanted: str = "domain=(low, high)"
) -> tuple[float, float]:
    """The ends of a domain that the user gave."""
    try:
        low, high = (float(v) for v in domain)
    except OverflowError:
        low, high = -math.inf, math.inf
    except (TypeError, ValueError):
        raise refuse(f"{name} needs {wanted}, got {domain!r}", InputError) from None
    if not (math.isfinite(high - low) and low < high):
        raise refuse(
            f"{name} needs a finite domain with low < high, got {short(domain)}", InputError
        )
    if positive and low <= 0:
        raise refuse(f"{name} needs a domain of positive numbers, got {domain!r}", InputError)
    return low, high


def bound(name: str, error: Any) -> float:
    """An error that the user allows."""
    if not is_number(error) or np.iscomplexobj(error) or not 0 < error < 1:
        raise refuse(f"{name} needs an error between 0 and 1, got {error!r}", InputError)
    return float(error)
