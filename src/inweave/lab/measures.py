"""How far apart two predictors, or two sets of weights, are.

Predictors are functions of a `Batch`; a trained model becomes one by `predictor(model, form)`.
Weights are compared in a gauge: a head's `Q Kᵀ V` is unchanged by `W_q M, W_k M⁻ᵀ`, by moving a
factor between scores and values, and by the order of the heads. All of that drops out of the tensor
`T = Σ_h A_h ⊗ W_v,h` with `A = W_q W_kᵀ`, and since `A` and `W_v` meet through the symmetric matrix
`HᵀH`, so does the part of T antisymmetric in its two inner indices. The distance is the Frobenius
norm between such tensors, computed from traces without writing them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from inweave.errors import InputError
from inweave.lab.baselines import Predictor
from inweave.lab.forms import Form
from inweave.lab.inference import LEVEL
from inweave.lab.inference import Interval as Interval
from inweave.lab.tasks import Batch, Target
from inweave.lab.tensors import Tensor, torch
from inweave.nn import KEY, QUERY, VALUE, AttentionNetwork, ExtendedLinearAttention


def bootstrap(values: Any, samples: int = 1000) -> Interval:
    """The mean over problems, with a percentile interval; nothing about other seeds.

    Beyond 1000 problems they are resampled in 1000 groups, as independent as the problems are.
    """
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or x.size == 0:
        raise InputError(f"expected one value per problem, got shape {x.shape}")
    if not np.isfinite(x).all():  # a predictor that overflows somewhere has no finite loss
        return Interval(np.inf, np.inf, np.inf)
    groups = min(1000, len(x))
    starts = np.arange(groups) * len(x) // groups
    sizes, sums = np.diff(starts, append=len(x)), np.add.reduceat(x, starts)
    drawn = np.random.default_rng(0).integers(groups, size=(samples, groups))
    found = sums[drawn].sum(1) / sizes[drawn].sum(1)
    low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(x.mean()), float(low), float(high))


# -- predictors -----------------------------------------------------------------------------------
def predictor(model: AttentionNetwork, form: Form) -> Predictor:
    """The predictions of a model for a batch."""
    return lambda batch: model(form.prompt(batch))


def squared_errors(predict: Predictor, batch: Batch, target: Target = "clean") -> Tensor:
    """The squared error on each problem."""
    with torch.no_grad():
        return (predict(batch) - batch.target(target)).square()


def prediction_difference(one: Predictor, other: Predictor, batch: Batch) -> Tensor:
    """(f - g)² on each problem."""
    with torch.no_grad():
        return (one(batch) - other(batch)).square()


def excess(one: Predictor, bayes: Predictor, batch: Batch, target: Target = "clean") -> Tensor:
    """Squared error above the Bayes predictor's, on each problem."""
    return squared_errors(one, batch, target) - squared_errors(bayes, batch, target)


def sensitivity(predict: Predictor, batch: Batch) -> Tensor:
    """∂prediction/∂query, (B, d)."""
    u = batch.u.detach().clone().requires_grad_()
    total = predict(replace(batch, u=u)).sum()
    if not total.requires_grad:  # a predictor that is constant around almost every query
        return torch.zeros_like(u)
    (gradient,) = torch.autograd.grad(total, u)
    return gradient


def sensitivity_cosine(one: Predictor, other: Predictor, batch: Batch) -> Tensor:
    """The cosine between the two sensitivities on each problem."""
    return torch.cosine_similarity(sensitivity(one, batch), sensitivity(other, batch), dim=-1)


def by_context(
    predict: Predictor, batch: Batch, lengths: Sequence[int], target: Target = "clean"
) -> list[Tensor]:
    """Squared errors with the first k examples only, for each k."""
    return [squared_errors(predict, batch.context(k), target) for k in lengths]


def by_layer(model: AttentionNetwork, form: Form, batch: Batch) -> list[Tensor]:
    """What stands at the read-out before the first module and after every step, (B,) each."""
    with torch.no_grad():
        return [model.read(state) for state in model.states(form.prompt(batch))]


# -- weights --------------------------------------------------------------------------------------
def _gauge(layer: ExtendedLinearAttention) -> tuple[Tensor, Tensor]:
    """A_h and V_h of each head, with biases as further rows: H W + B = [H, I] [W; B]."""
    with torch.no_grad():
        weight = layer.weight.detach().to(torch.float64).permute(1, 2, 0, 3)
        if layer.merged:
            eye = torch.eye(layer.features, dtype=torch.float64, device=weight.device)
            key = eye.expand(layer.heads, -1, -1)
            parts = [weight[:, 0], key, weight[:, 1]]
        else:
            parts = [weight[:, i] for i in (QUERY, KEY, VALUE)]
        if layer.bias is not None:
            bias = layer.bias.detach().to(torch.float64).permute(1, 2, 0, 3)
            parts = [torch.cat([p, bias[:, i]], 1) for i, p in enumerate(parts)]
        return parts[0] @ parts[1].mT, parts[2]


def _inner(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> Tensor:
    """⟨sym T, sym T'⟩ = ½ Σ_{h,g} (⟨A, A'⟩⟨V, V'⟩ + tr(AᵀA' V V'ᵀ))."""
    (A, V), (B, W) = one, other
    plain = torch.einsum("hij,gij->hg", A, B) * torch.einsum("hkl,gkl->hg", V, W)
    crossed = torch.einsum("hij,gik->hgjk", A, B) * torch.einsum("hkl,gjl->hgjk", V, W)
    return 0.5 * (plain.sum() + crossed.sum())


def _coefficients(layer: ExtendedLinearAttention) -> tuple[Tensor, Tensor]:
    """A layer with biases as the coefficients of its polynomial in H: sym T, and constants.

    With biases the Gram matrix is that of [H, I], and T has two freedoms more: its corner I x I
    counts by its trace only, and a trace that multiplies H (rows of H times a constant) may as
    well stand among the linear terms of every row. Both are moved to one place.
    """
    A, V = _gauge(layer)
    f = layer.features
    T = torch.einsum("hij,hkl->ijkl", A, V)
    T = 0.5 * (T + T.transpose(1, 2))
    corner = T[:, f:, f:].diagonal(dim1=1, dim2=2).sum(-1)
    T[:, f:, f:] = 0.0
    for r in range(layer.tokens):
        T[f + r, :f, f + r] += 0.5 * corner[:f]
        T[f + r, f + r, :f] += 0.5 * corner[:f]
    return T, corner[f:]


def gauge_distance(one: ExtendedLinearAttention, other: ExtendedLinearAttention) -> float:
    """‖T - T'‖ / ‖T'‖ between two layers' gauge-fixed tensors; 0 for layers equal as functions.

    With biases, on prompts of two tokens or more.
    """

    def kind(layer: ExtendedLinearAttention) -> tuple[Any, ...]:
        tokens = None if layer.bias is None else layer.tokens
        return layer.features, layer.bias is None, tokens, layer.queries, layer.skip

    if kind(one) != kind(other):
        raise InputError(
            "gauge_distance compares layers of the same width and kind (biases and their tokens, "
            "queries, skip)"
        )
    if one.activation or other.activation:
        raise InputError("gauge_distance compares linear heads")
    if one.bias is None:
        a, b = _gauge(one), _gauge(other)
        reference = _inner(b, b)
        squared = _inner(a, a) - 2 * _inner(a, b) + reference
    elif one.queries:
        raise InputError("gauge_distance compares layers with biases only if all tokens are keys")
    else:
        pairs = list(zip(_coefficients(one), _coefficients(other), strict=True))
        reference = sum((y.square().sum() for _, y in pairs), torch.zeros(()))
        squared = sum(((x - y).square().sum() for x, y in pairs), torch.zeros(()))
    if not reference > 0:
        return 0.0 if not squared > 0 else float("inf")
    return float((squared.clamp(min=0.0) / reference).sqrt())


def multiple_of(matrix: Tensor, reference: Tensor) -> float:
    """min over c of ‖matrix/‖matrix‖ - c reference‖: 0 if it is a multiple, 1 if orthogonal."""
    cosine = (matrix * reference).sum() / (matrix.norm() * reference.norm()).clamp(min=1e-300)
    return float((1 - cosine**2).clamp(min=0.0).sqrt())
