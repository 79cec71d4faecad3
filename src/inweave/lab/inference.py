"""What can be concluded from a number per seed: intervals, paired differences, contrasts.

A seed is the unit that is repeated, so seeds are what intervals are over: problems can be drawn by
the million and say nothing about another start. Numbers are log₁₀ of losses, whose spread over
seeds is about the same for good networks and bad ones. Arms are trained on the same problems from
the same starts, so differences are taken seed by seed.

`t_interval` is exact for normal numbers. The test of this file simulates how often it covers at 20
seeds: 95 % of the time for normal numbers and for skewed ones, 92 % for exponential ones, two times
in three where one seed in twenty ends apart from the rest; so answers say how many arms are skewed
like that. Where a question asks several things at once, `holm` keeps the chance of any false answer
at the level.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from inweave.errors import InputError

LEVEL = 0.95

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Interval:
    """A mean with an interval."""

    mean: float
    low: float
    high: float

    def __format__(self, spec: str) -> str:
        spec = spec or ".4f"
        return f"{self.mean:{spec}} [{self.low:{spec}}, {self.high:{spec}}]"

    def asdict(self) -> dict[str, float]:
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Effect(Interval):
    """A difference or a contrast, with the p-value of none; `seeds` it is over."""

    p: float
    seeds: int


def t_interval(values: Sequence[float] | np.ndarray[Any, Any]) -> Interval:
    """Student's interval of the mean."""
    x = _several(values)
    mean, error = float(x.mean()), _error(x)
    reach = t_quantile(0.5 + LEVEL / 2, len(x) - 1) * error if error else 0.0
    return Interval(mean, mean - reach, mean + reach)


def effect(values: Sequence[float] | np.ndarray[Any, Any]) -> Effect:
    """Numbers per seed that are 0 on average if nothing is there: Student's interval and p."""
    x = _several(values)
    interval, error = t_interval(x), _error(x)
    if error:
        p = 2 * t_tail(abs(interval.mean) / error, len(x) - 1)
    else:
        p = float(interval.mean == 0)
    return Effect(interval.mean, interval.low, interval.high, p, len(x))


def paired(
    one: Sequence[float] | np.ndarray[Any, Any], other: Sequence[float] | np.ndarray[Any, Any]
) -> Effect:
    """one - other, seed by seed. Seeds at which either is not finite are left out."""
    a, b = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    if a.shape != b.shape:
        raise InputError(f"paired numbers need the same seeds, got {a.shape} and {b.shape}")
    difference = a - b
    return effect(difference[np.isfinite(difference)])


def holm(p: Mapping[Key, float]) -> dict[Key, float]:
    """Holm's p-values of a family: each may be held against the level as if it were alone."""
    found: dict[Key, float] = {}
    least = 0.0
    for rank, key in enumerate(sorted(p, key=lambda key: p[key])):
        least = max(least, min(1.0, (len(p) - rank) * p[key]))
        found[key] = least
    return {key: found[key] for key in p}


def contrasts(
    factors: Sequence[str], cells: Mapping[tuple[bool, ...], Sequence[float]]
) -> dict[str, Effect]:
    """Main effects and interactions of factors with two levels, from numbers per seed and cell.

    The effect of A is what A changes on average over the other factors; that of A x B is by how
    much B changes the effect of A, and so on. All are taken seed by seed.
    """
    wanted = set(itertools.product((False, True), repeat=len(factors)))
    if set(cells) != wanted:
        raise InputError(f"a full factorial of {len(factors)} factors has {len(wanted)} cells")
    found = {}
    for count in range(1, len(factors) + 1):
        for chosen in itertools.combinations(range(len(factors)), count):
            total: np.ndarray[Any, Any] = sum(
                math.prod(1 if cell[i] else -1 for i in chosen) * np.asarray(values, np.float64)
                for cell, values in cells.items()
            )  # type: ignore[assignment]
            each = total / (len(wanted) / 2**count)
            name = " x ".join(factors[i] for i in chosen)
            found[name] = effect(each[np.isfinite(each)])
    return found


# -- Student's distribution -----------------------------------------------------------------------
NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)


def t_tail(t: float, freedom: int) -> float:
    """P(T > t) for t of at least 0, to all digits however small.

    With t = √ν cot φ the density is sinᵛ⁻¹φ, up to a factor, and the tail that from 0 to φ.
    """

    def area(end: float) -> float:
        phi = end * (NODES + 1) / 2
        return float(end / 2 * np.sum(WEIGHTS * np.sin(phi) ** (freedom - 1)))

    return 0.5 * area(math.atan2(math.sqrt(freedom), t)) / area(math.pi / 2)


def t_cdf(t: float, freedom: int) -> float:
    """P(T <= t)."""
    tail = t_tail(abs(t), freedom)
    return 1 - tail if t > 0 else tail


@functools.cache
def t_quantile(p: float, freedom: int) -> float:
    """The t with P(T <= t) = p, for p of at least ½, by bisection."""
    low, high = 0.0, 1.0
    while t_cdf(high, freedom) < p:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if t_cdf(middle, freedom) < p else (low, middle)
    return high


def _several(values: Sequence[float] | np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or len(x) < 2 or not np.isfinite(x).all():
        raise InputError(f"an interval over seeds needs two finite numbers or more, got {x}")
    return x


def _error(x: np.ndarray[Any, Any]) -> float:
    """The standard error of the mean; 0 for numbers that are all one."""
    return 0.0 if np.all(x == x[0]) else float(x.std(ddof=1)) / math.sqrt(len(x))
