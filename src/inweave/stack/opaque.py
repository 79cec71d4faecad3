"""A module as one operation of torch, for compilers that should not look into it.

An operation takes tensors and numbers, so a module is named by its `id`, and its parameters, which
an optimizer may change, are handed over beside its input. The gradient is another operation, which
runs the module once more; there is none of the gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn

_kept: WeakValueDictionary[int, nn.Module] = WeakValueDictionary()


def keep(module: nn.Module) -> int:
    """The `id` of a module, by which the operations find it while it is in use."""
    _kept[id(module)] = module
    return id(module)


def _run(module: int, H: Tensor, tensors: Sequence[Tensor]) -> Tensor:
    """What a module makes of its input, with these in place of its parameters."""
    names = [name for name, _ in _kept[module].named_parameters()]
    given = dict(zip(names, tensors, strict=True))
    state: Tensor = torch.func.functional_call(_kept[module], given, (H,))
    return state


@torch.library.custom_op("inweave::final_state", mutates_args=())
def final_state(module: int, H: Tensor, tensors: Sequence[Tensor]) -> Tensor:
    """The state that a module leads a prompt to."""
    return _run(module, H, tensors)


@torch.library.custom_op("inweave::final_state_slopes", mutates_args=())
def slopes(module: int, H: Tensor, tensors: Sequence[Tensor], after: Tensor) -> list[Tensor]:
    """The slopes in the prompt and in the parameters, given those in the state."""
    _, back, *_ = torch.func.vjp(lambda H, *tensors: _run(module, H, tensors), H, *tensors)
    return [slope.clone() for slope in back(after)]


@final_state.register_fake
def _(_: int, H: Tensor, __: Sequence[Tensor]) -> Tensor:
    return torch.empty_like(H)


@slopes.register_fake
def _(_: int, H: Tensor, tensors: Sequence[Tensor], __: Tensor) -> list[Tensor]:
    return [torch.empty_like(x) for x in (H, *tensors)]


def _remember(ctx: Any, inputs: tuple[int, Tensor, Sequence[Tensor]], output: Tensor) -> None:  # noqa: ARG001
    ctx.module, H, tensors = inputs
    ctx.save_for_backward(H, *tensors)


def _backward(ctx: Any, after: Tensor) -> tuple[None, Tensor, list[Tensor]]:
    H, *tensors = ctx.saved_tensors
    first, *others = slopes(ctx.module, H, tensors, after)
    return None, first, others


final_state.register_autograd(_backward, setup_context=_remember)


@final_state.register_vmap
def _(
    info: Any, dims: Any, module: int, H: Tensor, tensors: Sequence[Tensor]
) -> tuple[Tensor, int]:
    _, over, others = dims
    if all(dim is None for dim in others):  # prompts have any batch axes
        return final_state(module, H.movedim(over, 0), tensors), 0

    def at(i: int, x: Tensor, dim: int | None) -> Tensor:
        return x if dim is None else x.select(dim, i)

    each = [
        final_state(module, at(i, H, over), [*map(partial(at, i), tensors, others)])
        for i in range(info.batch_size)
    ]
    return torch.stack(each), 0
