"""Optimizers, written out for the one matrix that holds the weights of all members as its rows.

AdamW is a dozen operations that way, a fifth of what the bookkeeping of `torch.optim` takes for
models of a few hundred numbers. Muon is the second opinion that a comparison needs: a result that
holds for one optimizer only says something about the optimizer.
"""

from __future__ import annotations

from collections.abc import Collection

from inweave.errors import InputError
from inweave.lab.tensors import Tensor, torch

# of p(x) = a x + b x³ + c x⁵, which applied five times brings singular values from (0, 1] near 1
QUINTIC = (3.4445, -4.7750, 2.0315)
ROUNDS = 5
RMS = 0.2  # of an entry of Muon's steps, about that of AdamW's


def adamw(
    weights: Tensor,
    gradient: Tensor,
    moments: tuple[Tensor, Tensor],
    betas: tuple[float, float],
    size: Tensor,
    correction: Tensor | float,
    shrink: Tensor | None = None,
    epsilon: Tensor | float = 1e-8,
) -> None:
    """One step of AdamW in place, every row by its own step size and ε.

    At step k, `size` is lr / (1 - β₁ᵏ), `correction` is 1 - β₂ᵏ, and `shrink` is lr times the
    weight decay where there is any.
    """
    (mean, square), (beta1, beta2) = moments, betas
    if shrink is not None:
        weights.mul_(1 - shrink)
    mean.lerp_(gradient, 1 - beta1)
    square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    spread = (square / correction).sqrt_().add_(epsilon)
    weights.addcmul_(mean / spread, size, value=-1)


def muon(direction: Tensor, shapes: Collection[torch.Size]) -> Tensor:
    """The step that Muon takes for a direction, rows of parameters of those shapes, before its lr.

    K. Jordan and others, "Muon: an optimizer for hidden layers in neural networks" (2024): every
    matrix becomes the nearest orthogonal one. With the scale of J. Liu and others, "Muon is
    scalable for LLM training" (2025), step sizes are those of AdamW. The matrices of an attention
    layer are those of one head and one part each.
    """
    parts = direction.split_with_sizes([shape.numel() for shape in shapes], 1)
    alike: dict[torch.Size, list[int]] = {}
    for i, shape in enumerate(shapes):
        if len(shape) != 4:
            raise InputError(
                "Muon trains the matrices of attention layers, (rows, heads, parts, columns); "
                f"a parameter has shape {tuple(shape)}: use AdamW"
            )
        alike.setdefault(shape, []).append(i)
    steps = list(parts)
    for shape, which in alike.items():  # layers of one shape together: few large operations
        matrices = torch.stack([parts[i].reshape(-1, *shape) for i in which]).movedim(2, 4)
        step = orthogonal(matrices) * (RMS * max(shape[0], shape[3]) ** 0.5)
        for i, one in zip(which, step.movedim(4, 2).flatten(2), strict=True):
            steps[i] = one
    return torch.cat(steps, 1)


def orthogonal(matrices: Tensor) -> Tensor:
    """About the nearest orthogonal matrices: singular values brought to 0.7 to 1.2."""
    tiny = torch.finfo(matrices.dtype).tiny
    X: Tensor = matrices / matrices.norm(dim=(-2, -1), keepdim=True).clamp(min=tiny)
    tall = X.shape[-2] > X.shape[-1]
    X = X.mT if tall else X
    a, b, c = QUINTIC
    for _ in range(ROUNDS):
        A = X @ X.mT
        X = a * X + (b * A + c * A @ A) @ X
    return X.mT if tall else X
