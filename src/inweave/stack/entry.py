"""One entry of a layer of one plain LSA head: what a one-layer network needs, and its gradient.

A product of a vector and a matrix per problem is too small for a matrix library; with the batch
innermost it is a few passes over the prompt that fill whole vector registers. The derivatives reuse
both factors, so writing them out halves the passes that automatic differentiation makes and skips
its bookkeeping for slices of the weights. `Entry` hands both to autograd; a training step that
needs no graph (`inweave.lab.direct`) calls the two functions with buffers of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

QUERY, KEY, VALUE = 0, 1, 2


class Factors(NamedTuple):
    """What the entry Σ_t scores_t values_t is made of, and its derivatives are."""

    A: Tensor  # W_q W_kᵀ
    a: Tensor  # Aᵀ h_row, (features, B)
    scores: Tensor  # a·h_t, (tokens, B)
    values: Tensor  # h_t·v with v = W_v[:, column], (tokens, B)


def factors(
    weight: Tensor, H: Tensor, row: int, column: int, scratch: Tensor | None = None
) -> Factors:
    """The two factors of the entry at (row, column), for a prompt H (tokens, features, B).

    `scratch` is a buffer like H that may be overwritten.
    """
    query, v = weight[:, 0, QUERY], weight[:, 0, -1, column]
    A = query if weight.shape[2] == 2 else query @ weight[:, 0, KEY].T
    a = A.T @ H[row]
    values = torch.bmm(v.expand(len(H), 1, -1), H).squeeze(1)
    return Factors(A, a, torch.mul(a, H, out=scratch).sum(1), values)


def write_gradient(
    into: Tensor,
    weight: Tensor,
    H: Tensor,
    by_score: Tensor,
    by_value: Tensor,
    row: int,
    column: int,
    scratch: Tensor | None = None,
) -> Tensor:
    """Write the weights' gradient `into` an array that is zero elsewhere; returns that of `a`."""
    grad_a = torch.mul(by_score.unsqueeze(1), H, out=scratch).sum(0)
    grad_A = H[row] @ grad_a.T
    if weight.shape[2] == 2:
        into[:, 0, QUERY] = grad_A
    else:
        into[:, 0, QUERY] = grad_A @ weight[:, 0, KEY]
        into[:, 0, KEY] = grad_A.T @ weight[:, 0, QUERY]
    into[:, 0, -1, column] = torch.bmm(H, by_value.unsqueeze(-1)).sum((0, 2))
    return grad_a


class Entry(torch.autograd.Function):
    """The entry for each problem of a batch, (B,), differentiable in weights and prompt."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, H: Tensor, row: int, column: int) -> Tensor:
        found = factors(weight, H, row, column)
        ctx.save_for_backward(weight, H, *found)
        ctx.row, ctx.column = row, column
        return (found.scores * found.values).sum(0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        weight, H, A, a, scores, values = ctx.saved_tensors
        row, column = ctx.row, ctx.column
        by_score, by_value = grad * values, grad * scores
        grad_weight, grad_H = torch.zeros_like(weight), None
        grad_a = write_gradient(grad_weight, weight, H, by_score, by_value, row, column)
        if ctx.needs_input_grad[1]:
            v = weight[:, 0, -1, column].unsqueeze(-1)
            grad_H = by_score.unsqueeze(1) * a + by_value.unsqueeze(1) * v
            grad_H[row] += A @ grad_a
        return grad_weight, grad_H, None, None
