"""Tensors lent to numpy: on a processor, what no gradient follows is computed there.

A call of torch costs a microsecond, one of numpy a third of that, and loops in numpy write into
arrays that are made once. A tensor and an array can be the same memory, so nothing is copied. And
torch wakes its threads for a product of 24 by 24 numbers, which takes longer than the product, and
a hundred times as long while others use the processor; numpy does not. Large work for many threads
stays in torch: numpy goes through a batch in one. Sums and products entry by entry of many short
rows are lent back: torch takes a third of the time for them.

A tensor is lent only if nobody would miss what torch does beside computing: no gradients, no
tangents, no transform of torch.func, nobody who writes down operations. All but gradients matter to
kernels as well, which take a tensor for the numbers at its address.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch._C._functorch import peek_interpreter_stack
from torch.autograd import forward_ad
from torch.jit import is_tracing as is_script_tracing  # type: ignore[attr-defined]
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from inweave.exact.arithmetic import is_tracing
from inweave.exact.constants import Array
from inweave.model.inputs import NUMBERS
from inweave.run.libraries.numpy import LIBRARY, InPlace

DTYPES = (torch.float64, torch.float32)
KINDS = (torch.Tensor, torch.nn.Parameter)  # other kinds may hold their numbers elsewhere
FEW_THREADS = 2  # in so many torch gains no more than numpy's quicker products
SHORT, LONG = 1 << 11, 1 << 15  # entries from which on torch is quicker, and wakes its threads
MANY = 1 << 13  # the same for sums and products of any rows
HEAVY = 1 << 21  # flops of an operation from which on more threads are worth waking


def is_light(flops: int) -> bool:
    """Whether work whose heaviest operation takes so many flops is best done in one thread."""
    return flops <= HEAVY or torch.get_num_threads() <= FEW_THREADS


def is_watched() -> bool:
    """Whether torch follows tangents or transforms, or somebody writes down what it does."""
    return (
        is_tracing()
        or forward_ad._current_level >= 0
        or peek_interpreter_stack() is not None
        or is_in_torch_dispatch_mode()
        or is_script_tracing()  # type: ignore[no-untyped-call]
    )


def is_plain(tensors: Iterable[Any]) -> bool:
    """Whether tensors are no more than the numbers at their addresses, gradients aside."""
    if is_watched():
        return False
    try:
        for tensor in tensors:  # a call may wait for this: no generator
            if type(tensor) not in KINDS or tensor.is_neg():
                return False
            tensor.data_ptr()
    except RuntimeError:  # it has none: autograd maps over cotangents in a way of its own
        return False
    return True


def lend(values: Iterable[Any]) -> list[Any] | None:
    """Tensors as numpy arrays of the same memory, numbers as they are; None if one is not lent."""
    if is_watched():
        return None
    found = []
    for value in values:
        if type(value) is torch.Tensor:
            try:
                array = value.numpy()
            except (RuntimeError, TypeError):  # followed by autograd, negated, or elsewhere
                return None
            if value.dtype not in DTYPES:
                return None
            value = array
        elif type(value) not in NUMBERS:
            return None
        found.append(value)
    return found


def give_back(found: Any) -> Any:
    """Arrays as tensors of the same memory, alone, in a tuple or by name."""
    if isinstance(found, np.ndarray):
        plain = found.flags.writeable and min(found.strides, default=0) >= 0
        return torch.from_numpy(found if plain else found.copy())
    if isinstance(found, Mapping):
        return {name: give_back(array) for name, array in found.items()}
    return tuple(map(give_back, found))


Straight = Callable[[Sequence[Array]], list[Array]]


def lending(in_torch: Straight, in_numpy: Callable[[], Straight], heaviest: int) -> Straight:
    """Code for tensors, which are lent where that is better; `heaviest` is per problem."""

    def run(tensors: Sequence[Array]) -> list[Array]:
        problems = max((math.prod(x.shape[:-2]) for x in tensors), default=1)
        arrays = lend(tensors) if is_light(problems * heaviest) else None
        if arrays is None:
            return in_torch(tensors)
        with np.errstate(all="ignore"):  # torch warns of nothing
            return [give_back(out) for out in in_numpy()(arrays)]

    return run


def _back(in_numpy: Any, in_torch: Any) -> Callable[..., Array]:
    """An operation entry by entry, bit for bit the same, where it is quicker."""

    def apply(a: Any, b: Any, out: Any = None) -> Any:
        if not (_is_lent(a) and _is_lent(b)):
            return in_numpy(a, b, out=out)
        rows, cols = (max(x.size // x.shape[-1] for x in (a, b)), max(a.shape[-1], b.shape[-1]))
        few = rows * cols <= MANY or (rows * cols > LONG and torch.get_num_threads() > 1)
        if few or _is_one_row(a, b):
            return in_numpy(a, b, out=out)
        if out is None:
            return in_torch(torch.from_numpy(a), torch.from_numpy(b)).numpy()
        in_torch(torch.from_numpy(a), torch.from_numpy(b), out=torch.from_numpy(out))
        return out

    return apply


def _is_one_row(a: Array, b: Array) -> bool:
    """Whether numpy goes through both as through one long row."""
    whole = a.flags.c_contiguous and b.flags.c_contiguous
    return bool(whole and (a.shape == b.shape or 1 in (a.size, b.size)))


def _is_lent(x: Any) -> bool:
    """Whether it is an array that torch takes; of one that nobody may write into it warns."""
    return type(x) is np.ndarray and x.flags.writeable and min(x.shape) > 0 <= min(x.strides)


class InLentMemory(InPlace):
    """Loops of numpy over memory that torch can see too."""

    entrywise: ClassVar[dict[str, Any]] = {
        "add": _back(np.add, torch.add),
        "sub": _back(np.subtract, torch.sub),
        "mul": _back(np.multiply, torch.mul),
        "div": _back(np.divide, torch.div),
    }

    def library(self) -> dict[str, Any]:
        return super().library() | {"outer": _outer}


def _outer(a: Array, b: Array, out: Array) -> None:
    """Columns times rows."""
    if out.size <= SHORT or (out.size > LONG and torch.get_num_threads() > 1):
        LIBRARY["outer"](a, b, out)
    else:
        torch.mul(*map(torch.from_numpy, (a, b)), out=torch.from_numpy(out))
