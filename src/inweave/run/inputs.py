"""The short way in for what is nearly always given: arrays of one library and float type, numbers.

`lift` accepts anything array-like of any library and explains what is wrong with it, which takes
longer than running a small network. Here numpy arrays and torch tensors are either plainly right or
handed on to `lift`.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from inweave.exact.arithmetic import Floats
from inweave.exact.constants import Array
from inweave.model.prompt import Input, lift

LARGEST = 2.0**53  # numbers up to here are finite in every float type that is handled here


def lifted(specs: Sequence[Input], given: Mapping[str, Any]) -> tuple[dict[str, Array], Floats]:
    """Named user arrays as checked (..., rows, cols) arrays; the same as `lift`, sooner."""
    found = _plainly_right(specs, given)
    return lift(specs, given) if found is None else found


def _plainly_right(
    specs: Sequence[Input], given: Mapping[str, Any]
) -> tuple[dict[str, Array], Floats] | None:
    if len(given) != len(specs):
        return None
    out: dict[str, Array] = {}
    numbers: dict[str, float] = {}
    first: Any = None
    lead: tuple[int, ...] = ()
    for spec in specs:
        value: Any = given.get(spec.name)
        axes = len(spec.shape)
        if spec.sign != "any":
            return None
        if spec.kind == "scalar" and type(value) in (float, int) and abs(value) <= LARGEST:
            numbers[spec.name] = value
            continue
        first = value if first is None else first
        if not _is_plain(value) or not _alike(value, first):
            return None
        before = tuple(value.shape[: max(value.ndim - axes, 0)])
        if tuple(value.shape) != (*before, *spec.shape) or (before and lead not in ((), before)):
            return None
        lead = before or lead
        if not _finite(value):
            return None
        out[spec.name] = value[(..., *(None,) * (2 - axes))]
    if first is None:
        return None
    xp = _library("numpy" if isinstance(first, np.ndarray) else "torch")
    arithmetic = Floats(xp, first.dtype, first.device)
    for name, number in numbers.items():
        out[name] = xp.full((1, 1), number, dtype=first.dtype, device=first.device)
    return out, arithmetic


def _is_plain(value: Any) -> bool:
    """Whether a value is an array of floats that needs no conversion."""
    if type(value) is np.ndarray:
        return value.dtype.type in (np.float64, np.float32) and value.dtype.isnative
    torch = sys.modules.get("torch")
    if torch is None or type(value) is not torch.Tensor:
        return False
    return value.dtype in (torch.float64, torch.float32) and value.layout == torch.strided


def _alike(a: Array, b: Array) -> bool:
    return type(a) is type(b) and a.dtype == b.dtype and a.device == b.device


def _finite(value: Array) -> bool:
    """Whether an array is finite for sure: its sum of squares is, and that takes one quick pass.

    Finite numbers whose sum overflows are for `lift` to look at more closely.
    """
    if isinstance(value, np.ndarray):
        flat = value.reshape(-1)
        with np.errstate(all="ignore"):
            return math.isfinite(flat.dot(flat))
    flat = value.detach().reshape(-1)
    try:
        return math.isfinite(flat.dot(flat))
    except RuntimeError:  # inside torch.func.vmap no value is known
        return False


@cache
def _library(name: str) -> Any:
    return importlib.import_module(f"array_api_compat.{name}")
