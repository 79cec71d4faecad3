"""Plans whose coefficients float32 has hardly room for: those compute float32 in float64.

A loop that is written out and shrinks by constants is a sum of products with coefficients such as
1e-30. What the program computes step by step may be of any size, but times such a coefficient it is
below what float32 holds, and lost.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from inweave.exact.constants import log2
from inweave.model.inputs import is_concrete
from inweave.model.prompt import as_answer, by_name
from inweave.run.values.node import LoopBody, Node

FAR = 30  # powers of two from one: three such factors and small data are beyond float32


def is_far(nodes: Iterable[Node]) -> bool:
    """Whether something is multiplied by a number far from one."""
    for node in nodes:
        if node.op == "scale" and abs(log2(node.data)) > FAR:
            return True
        if isinstance(node.data, LoopBody) and is_far(node.data.nodes):
            return True
    return False


def widened(inputs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Inputs in float64, if all arrays among them are of numpy or torch and in float32."""
    found: dict[str, Any] = {}
    some = False
    for name, value in inputs.items():
        if isinstance(value, (bool, int, float)):
            found[name] = value
            continue
        if isinstance(value, (np.ndarray, np.generic)) and value.dtype == np.float32:
            found[name] = value.astype(np.float64)
        elif _is_tensor(value) and str(value.dtype) == "torch.float32":
            found[name] = value.double()
        else:
            return None
        some = True
    return found if some else None


def narrowed(answer: Any) -> Any | None:
    """Answers in float32 again; None if that is seen to have no room for one."""
    with np.errstate(over="ignore"):
        found = {
            name: x.float() if _is_tensor(x) else x.astype(np.float32)
            for name, x in by_name(answer).items()
        }
    if any(is_concrete(x) and bool((abs(x) == np.inf).any()) for x in found.values()):
        return None
    return as_answer(found)


def _is_tensor(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)
