"""Pointwise functions as networks with one hidden ReLU layer, and what is known about their error.

A `ReluNet` is `c + Σ_k v_k relu(w_k x + b_k)`, the paper's network component for one entry. A
`Function` is what a program applies: the true function, the net that stands for it in a network,
the domain on which the net was built and the error bound that holds there. Over a finite field a
reciprocal is the field's own inverse and any other function a keyed random one, so wiring is
checked exactly while the approximation error is bounded here.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from inweave.errors import InputError, ShapeError
from inweave.exact.constants import Array, exact
from inweave.exact.names import check_line
from inweave.exact.schema import fingerprint


def rounded_up(bound: float) -> str:
    """A bound in two digits, rounded up: rounded down it would not be one."""
    return f"{float(Context(prec=2, rounding=ROUND_CEILING).create_decimal(bound)):.1e}"


def interval(domain: tuple[float, float] | None) -> str:
    """A domain for people, with as many digits as it takes to tell its ends from other numbers."""
    low, high = domain or (-math.inf, math.inf)
    end = "∞)" if high >= sys.float_info.max else f"{digits(high)}]"
    return f"{'(-∞' if low <= -sys.float_info.max else f'[{digits(low)}'}, {end}"


def digits(number: float) -> str:
    """A number in few digits if they are all it has, otherwise in all."""
    few = f"{number:g}"
    return few if float(few) == number else repr(float(number))


def relu(x: Array, xp: Any = np) -> Array:
    """`(x)_+`, entry by entry, in the numbers of x."""
    return xp.where(x > 0, x, x * 0)


@dataclass(frozen=True)
class ReluNet:
    """`constant + Σ_k outputs[k] relu(weights[k] x + biases[k])`; float64, each number exact."""

    weights: tuple[float, ...]
    biases: tuple[float, ...]
    outputs: tuple[float, ...]
    constant: float = 0.0

    def __post_init__(self) -> None:
        if not len(self.weights) == len(self.biases) == len(self.outputs):
            raise ShapeError("a ReLU net needs as many weights as biases and outputs")
        for number in (*self.weights, *self.biases, *self.outputs, self.constant):
            if not math.isfinite(number):
                raise InputError(f"a ReLU net holds {number!r}, which is not finite")

    @property
    def units(self) -> int:
        return len(self.weights)

    def __call__(self, x: Array, xp: Any = np) -> Array:
        """The net at every entry of a float array."""
        total = x * 0 + self.constant
        for w, b, v in zip(self.weights, self.biases, self.outputs, strict=True):
            total = total + relu(x * w + b, xp) * v
        return total

    def rationals(self, x: Array) -> Array:
        """The net over Fractions, exactly."""

        def one(q: Fraction) -> Fraction:
            total = exact(self.constant)
            for w, b, v in zip(self.weights, self.biases, self.outputs, strict=True):
                total += exact(v) * max(Fraction(0), exact(w) * q + exact(b))
            return total

        return np.vectorize(one, otypes=[object])(x)


@dataclass(frozen=True)
class Function:
    """A pointwise function of the language.

    `error` bounds |net - function| on the domain, relative to |function| if `relative`; an exact
    function has error 0, and no domain if it is exact everywhere. `evidence` says how that is
    known: "proved", or measured and where. `steps` of Newton's iteration follow the net in its
    program and take the error down to `reached`; where the program makes another function of it,
    that is the error of what it `reaches`. These are notes for the certificate, no part of a
    network: a file does not hold them.
    """

    name: str
    net: ReluNet
    domain: tuple[float, float] | None = None
    error: float = 0.0
    relative: bool = False
    is_reciprocal: bool = False
    reference: Callable[[Any, Array], Array] | None = field(default=None, compare=False, repr=False)
    evidence: str = field(default="", compare=False, repr=False)
    steps: int = field(default=0, compare=False, repr=False)
    reached: float = field(default=0.0, compare=False, repr=False)
    reaches: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        check_line("a function", self.name, InputError)
        if self.domain is not None and not self.domain[0] <= self.domain[1]:
            raise InputError(f"{self.name}: got the domain {self.domain}, expected low, high")

    def floats(self, xp: Any, x: Array) -> Array:
        """The true function where it is known, for a program called with arrays."""
        return self.net(x, xp) if self.reference is None else self.reference(xp, x)

    def rationals(self, x: Array) -> Array:
        if self.is_reciprocal:
            return np.vectorize(lambda q: 1 / q, otypes=[object])(x)
        return self.net.rationals(x)

    def field(self, x: Any, key: int, opaque: bool = False) -> Any:
        """Its stand-in over the finite field, the same for program and network.

        `opaque`: a random function even for a reciprocal. Then nothing of 1/x is used, and degrees
        stay small: what is equal is equal whatever stands in the function's place.
        """
        if self.is_reciprocal and not opaque:
            return x.inverse()
        return x.keyed(self.digest, key)

    def note(self) -> str:
        """A line for the certificate."""
        if self.domain is None:
            known = self in (RELU, ABS) or not self.evidence
            said = f"{self.name}: a table of {self.net.units} units without a domain"
            return "" if known else f"{said}, {self.evidence}"
        kind = ("relative" if self.relative else "absolute") + " error"
        if self.reaches:
            kind += f" of {self.reaches}"
        head = f"{self.name} on {interval(self.domain)}: {self.net.units} units"
        if self.steps:
            head += f" and {self.steps} Newton step{'s' if self.steps > 1 else ''}"
        error = rounded_up(self.reached or self.error)
        if not self.error and not self.evidence:
            return f"{head}, exact"
        if self.evidence == "proved":
            return f"{head}, {kind} at most {error}"
        return f"{head}, {kind} {error}, {self.evidence or 'as stated for the net'}"

    @cached_property
    def digest(self) -> str:
        return fingerprint(Function, self)


RELU = Function("relu", ReluNet((1.0,), (0.0,), (1.0,)))
ABS = Function("abs", ReluNet((1.0, -1.0), (0.0, 0.0), (1.0, 1.0)))
