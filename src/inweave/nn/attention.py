"""One trainable attention layer: a sum of (extended) linear heads, computed the cheapest way.

Three things make it fast and change no result. All heads and all three projections are one matrix
product. The order of multiplication is chosen from the shapes: `(Q Kᵀ) V` costs tokens²,
`Q (Kᵀ V)` costs features², and without biases all heads share the Gram matrix `HᵀH`. And a read-out
computes only the rows and columns that are read: for one entry of a one-layer network nothing is
larger than the prompt itself.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from inweave.errors import InputError, ProgramError, ShapeError
from inweave.exact.whole import is_whole, whole
from inweave.model.layers import AttentionLayer, Head
from inweave.model.layout import Layout
from inweave.model.projection import DenseProjection

Activation = Literal["relu", "softmax"]
Order = Literal["scores", "memory", "gram"]
ALL = slice(None)
QUERY, KEY, VALUE = 0, 1, 2

# preset: (std of weights, std of biases) in units of 1/√features, and whether values start at zero
INITS: dict[str, tuple[float, float, bool]] = {
    "scaled": (1.0, 0.0, False),
    "random": (1.0, 1.0, False),
    "small": (0.05, 0.0, False),
    "zero-value": (1.0, 0.0, True),
}


def cheapest_order(
    rows: int, tokens: int, features: int, columns: int, heads: int, bias: bool, linear: bool = True
) -> Order:
    """The order with the fewest multiplications for `rows` x `columns` of a layer's output.

    `scores` is (Q Kᵀ) V, `memory` is Q (Kᵀ V), `gram` is H (Σ A_h HᵀH V_h) with A = W_q W_kᵀ, which
    needs linear heads without biases. A nonlinearity acts on the scores and leaves no choice.
    """
    if not linear:
        return "scores"
    r, t, f, c = rows, tokens, features, columns
    project = heads * (r * f * f + t * f * c) + (heads * min(r, t) * f * f if bias else 0)
    cost: dict[Order, int] = {
        "scores": project + heads * (r * t * f + r * t * c),
        "memory": project + heads * (t * f * c + r * f * c),
    }
    if not bias:
        cost["gram"] = t * f * f + 2 * heads * f * f * c + r * f * c
    return min(cost, key=lambda order: cost[order])


class ExtendedLinearAttention(nn.Module):
    """A sum of heads `(H W_q + B_q)(H W_k + B_k)ᵀ(H W_v + B_v)`; with `skip`, `H +` that sum.

    `weight` is (features, heads, parts, features) and `bias` (tokens, heads, 3, features), so that
    the fused projection is a view. `activation` acts on the scores `Q Kᵀ`. With `merged`, W_k is
    the identity and `weight` has the two parts query and value: no restriction without biases,
    where only W_q W_kᵀ matters; with biases it is one. Without biases any number of tokens is
    accepted. The last `queries` tokens only ask: they attend to the others, and nobody, themselves
    included, attends to them.
    """

    def __init__(
        self,
        tokens: int,
        features: int,
        heads: int = 1,
        bias: bool = True,
        activation: Activation | None = None,
        merged: bool = False,
        *,
        skip: bool = False,
        queries: int = 0,
        init: str = "scaled",
        scale: float = 1.0,
        generator: torch.Generator | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        for what, size in (("tokens", tokens), ("features", features), ("heads", heads)):
            whole(f"attention layer: {what}", size, 1, ShapeError)
        if activation not in (None, "relu", "softmax"):
            raise InputError(f"activation {activation!r} is not None, 'relu' or 'softmax'")
        if not is_whole(queries, 0) or queries >= tokens:
            raise InputError(f"queries must be an int from 0 to {tokens - 1}, got {queries!r}")
        self.tokens, self.features, self.heads = tokens, features, heads
        self.activation, self.merged, self.skip = activation, merged, skip
        self.queries = queries
        made = {"dtype": dtype, "device": device}
        parts = 2 if merged else 3
        self.weight = nn.Parameter(torch.empty(features, heads, parts, features, **made))  # type: ignore[arg-type]
        self.bias = (
            nn.Parameter(torch.empty(tokens, heads, 3, features, **made))  # type: ignore[arg-type]
            if bias
            else None
        )
        self.reset_parameters(init, scale, generator)

    @torch.no_grad()
    def reset_parameters(
        self, init: str = "scaled", scale: float = 1.0, generator: torch.Generator | None = None
    ) -> None:
        """Draw new weights by a preset of `INITS`, times `scale`."""
        if init not in INITS:
            raise InputError(f"init {init!r} is not one of {', '.join(INITS)}")
        weights, biases, zero_value = INITS[init]
        unit = scale / self.features**0.5
        normal_(self.weight, weights * unit, generator)
        if zero_value:
            self.weight[:, :, -1] = 0.0
        if self.bias is not None:
            normal_(self.bias, biases * unit, generator)

    def extra_repr(self) -> str:
        said = f"{self.tokens}, {self.features}, heads={self.heads}, bias={self.bias is not None}"
        said += f", activation={self.activation!r}" if self.activation else ""
        said += f", queries={self.queries}" if self.queries else ""
        return said + (", merged=True" if self.merged else "") + (", skip=True" * self.skip)

    # -- computing --------------------------------------------------------------------------------
    def forward(self, H: Tensor, rows: slice = ALL, columns: slice = ALL) -> Tensor:
        """The output at the given rows and columns of a prompt (..., tokens, features)."""
        if H.shape[-1] != self.features or (self.bias is not None and H.shape[-2] != self.tokens):
            raise ShapeError(
                f"attention layer: got a prompt of shape {tuple(H.shape)}, expected "
                f"(..., {self.tokens}, {self.features})"
            )
        if self.reads_entries and _batch_innermost(H):
            height, width = H[0, rows, columns].shape
            if height == width == 1:
                entry = self._entry(H, rows, columns)
                return H[:, rows, columns] + entry if self.skip else entry
        part = H[..., rows, :]
        seen = H[..., : H.shape[-2] - self.queries, :] if self.queries else H
        width = len(range(*columns.indices(self.features)))
        order = cheapest_order(
            part.shape[-2], seen.shape[-2], self.features, width, self.heads,
            self.bias is not None, self.activation is None,
        )  # fmt: skip
        if order == "gram":
            output = self._by_gram(seen, part, columns)
        elif order == "memory":
            query, key, value = self._projected(seen, part, rows, columns)
            # Σ_h Q_h (K_hᵀ V_h), heads side by side in one product
            memory = torch.einsum("...thf,...thc->...hfc", key, value).flatten(-3, -2)
            output = query.flatten(-2) @ memory
        else:
            scores, value = self._scores(seen, part, rows, columns)
            if self.activation == "relu":
                scores = scores.relu()
            elif self.activation == "softmax":
                scores = scores.softmax(-1)
            # Σ_h S_h V_h, heads side by side in one product
            output = scores.transpose(-3, -2).flatten(-2) @ value.transpose(-3, -2).flatten(-3, -2)
        return part[..., columns] + output if self.skip else output

    @property
    def reads_entries(self) -> bool:
        """Whether one entry of the output is cheapest from a prompt with the batch innermost."""
        plain = self.bias is None and self.activation is None and not self.queries
        return self.heads == 1 and plain

    def _entry(self, H: Tensor, rows: slice, columns: slice) -> Tensor:
        """One entry, Σ_t (a·h_t)(h_t·v) with a = Aᵀh_row and v = W_v[:, column], as (B, 1, 1).

        A product of a vector and a matrix per problem is too small for a matrix library; with the
        batch innermost it is a few passes over the prompt that fill whole vector registers.
        """
        row = range(*rows.indices(H.shape[1]))[0]
        column = range(*columns.indices(self.features))[0]
        innermost = H.permute(1, 2, 0)  # (tokens, features, B), as it lies in memory
        entry: Tensor = _Entry.apply(self.weight, innermost, row, column)  # type: ignore[no-untyped-call]
        return entry[:, None, None]

    def _weights(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Query and value weights as (features, heads, features), and the key's unless merged."""
        return (
            self.weight[:, :, 0],
            self.weight[:, :, -1],
            None if self.merged else self.weight[:, :, KEY],
        )

    def _merged_query(self) -> Tensor:
        """A_h = W_q W_kᵀ for each head, (heads, features, features)."""
        query, _, key = self._weights()
        if key is None:
            return query.transpose(0, 1)
        return torch.einsum("fhk,ghk->hfg", query, key)

    def _by_gram(self, seen: Tensor, part: Tensor, columns: slice) -> Tensor:
        """H (Σ_h A_h HᵀH V_h); both weight products run over batch and heads at once."""
        value = self.weight[:, :, -1, columns]
        inner = _times(seen.mT @ seen, value.flatten(1)).reshape(*seen.shape[:-2], *value.shape)
        inner = inner.movedim(-1, -3).flatten(-2)  # (..., columns, features x heads)
        inner = _times(inner, self._merged_query().permute(2, 0, 1).flatten(0, 1))
        return part @ inner.mT

    def _projected(
        self, seen: Tensor, part: Tensor, rows: slice, columns: slice
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Q of the wanted rows, K, and V in the wanted columns, each (..., tokens, heads, .)."""
        if rows == ALL and columns == ALL and not self.merged and not self.queries:
            fused = _times(seen, self.weight.flatten(1))
            fused = fused.reshape(*seen.shape[:-1], *self.weight.shape[1:])
            query, key, value = (fused if self.bias is None else fused + self.bias).unbind(-2)
            return query, key, value
        key_weight = self._weights()[2]
        if key_weight is None:
            key = seen.unsqueeze(-2).expand(*seen.shape[:-1], self.heads, self.features)
            key = key if self.bias is None else key + self.bias[self._seen, :, KEY]
        else:
            key = self._affine(seen, key_weight, KEY, self._seen)
        return self._query(part, rows), key, self._value(seen, columns)

    @property
    def _seen(self) -> slice:
        """The rows that are keys and values (with biases, where the number of tokens is fixed)."""
        return slice(0, self.tokens - self.queries)

    def _affine(
        self, H: Tensor, weight: Tensor, part: int, rows: slice = ALL, columns: slice = ALL
    ) -> Tensor:
        """`H W + B` for every head, (..., tokens, heads, columns)."""
        weight = weight[..., columns]
        out = _times(H, weight.flatten(1)).reshape(*H.shape[:-1], *weight.shape[1:])
        return out if self.bias is None else out + self.bias[rows, :, part, columns]

    def _query(self, part: Tensor, rows: slice) -> Tensor:
        return self._affine(part, self._weights()[0], QUERY, rows=rows)

    def _value(self, seen: Tensor, columns: slice) -> Tensor:
        return self._affine(seen, self._weights()[1], VALUE, self._seen, columns)

    def _scores(
        self, seen: Tensor, part: Tensor, rows: slice, columns: slice
    ) -> tuple[Tensor, Tensor]:
        """Q Kᵀ as (..., heads, rows, tokens), and V as (..., tokens, heads, columns).

        Without biases Q Kᵀ = (H A) Hᵀ needs no keys; with biases and few rows
        Q Kᵀ = (Q W_kᵀ) Hᵀ + Q B_kᵀ is cheaper than making the key of every token.
        """
        if self.bias is None:
            query = self._affine(part, self._merged_query().transpose(0, 1), QUERY)
            return query.transpose(-3, -2) @ seen.unsqueeze(-3).mT, self._value(seen, columns)
        if rows == ALL:
            query, key, value = self._projected(seen, part, rows, columns)
            return query.transpose(-3, -2) @ key.transpose(-3, -2).mT, value
        key_weight = self._weights()[2]
        query = self._query(part, rows).transpose(-3, -2)
        constant = torch.einsum("...hrf,thf->...hrt", query, self.bias[self._seen, :, KEY])
        absorbed = query
        if key_weight is not None:
            absorbed = torch.einsum("...hrf,ghf->...hrg", query, key_weight)
        return absorbed @ seen.unsqueeze(-3).mT + constant, self._value(seen, columns)

    # -- to and from the data model ---------------------------------------------------------------
    @classmethod
    def from_layer(
        cls,
        layer: AttentionLayer,
        layout: Layout,
        *,
        bias: bool | None = None,
        merged: bool = False,
        dtype: torch.dtype | None = torch.float64,
        device: torch.device | str | None = None,
    ) -> Self:
        """The weights of a constructed layer. `bias=None` keeps biases where the layer has any."""
        has = any(p.has_bias for head in layer.heads for p in head.projections)
        if has and bias is False:
            raise InputError("this layer's heads have biases; bias=False would drop them")
        weights = [[p.weight(layout) for p in head.projections] for head in layer.heads]
        biases = [[p.bias(layout) for p in head.projections] for head in layer.heads]
        if merged:
            for W, B in zip(weights, biases, strict=True):
                if np.any(B[KEY]):
                    raise InputError("a head with a key bias cannot be merged; use merged=False")
                W[QUERY], B[QUERY] = W[QUERY] @ W[KEY].T, B[QUERY] @ W[KEY].T
                del W[KEY]
        made = cls(
            layout.tokens, layout.width, max(1, len(layer.heads)), has if bias is None else bias,
            merged=merged, skip=layer.skip, dtype=dtype, device=device,
        )  # fmt: skip
        with torch.no_grad():
            made.weight.zero_()
            if weights:
                stacked = np.asarray(weights, dtype=np.float64)
                made.weight.copy_(torch.as_tensor(stacked).permute(2, 0, 1, 3))
            if made.bias is not None:
                made.bias.zero_()
                if biases:
                    stacked = np.asarray(biases, dtype=np.float64)
                    made.bias.copy_(torch.as_tensor(stacked).permute(2, 0, 1, 3))
        return made

    def to_layer(self) -> AttentionLayer:
        """This layer as data, with dense projections."""
        if self.queries:
            raise ProgramError(
                f"a network's heads attend to every token; a layer with queries={self.queries} "
                "becomes one only in a wider prompt: convert the whole model with to_network()"
            )
        return self.unmasked_layer()

    def unmasked_layer(self) -> AttentionLayer:
        """This layer as data, as if every token were attended to (see `inweave.nn.queries`)."""
        if self.activation is not None:
            raise ProgramError(
                f"a network's heads are linear; a layer with {self.activation} scores cannot be "
                "written as one"
            )
        W = as_numpy(self.weight)
        if self.merged:
            identity = np.broadcast_to(np.eye(self.features)[:, None], W[:, :, 0].shape)
            W = np.stack([W[:, :, 0], identity, W[:, :, 1]], axis=2)
        B = None if self.bias is None else as_numpy(self.bias)
        heads = []
        for h in range(self.heads):
            parts = [
                DenseProjection(W[:, h, i], None if B is None else B[:, h, i]) for i in range(3)
            ]
            heads.append(Head(*parts))
        return AttentionLayer(tuple(heads), self.skip)


class _Entry(torch.autograd.Function):
    """Σ_t (a·h_t)(h_t·v), H (tokens, features, B): a = Aᵀh_row, A = W_q W_kᵀ, v = W_v[:, column].

    The derivatives reuse both factors, so writing them out halves the passes over H that automatic
    differentiation makes, and skips its bookkeeping for the slices of the weights.
    """

    @staticmethod
    def forward(ctx: Any, weight: Tensor, H: Tensor, row: int, column: int) -> Tensor:
        query, v = weight[:, 0, 0], weight[:, 0, -1, column]
        A = query if weight.shape[2] == 2 else query @ weight[:, 0, KEY].T
        a = A.T @ H[row]
        values = torch.bmm(v.expand(H.shape[0], 1, -1), H).squeeze(1)
        scores = (a * H).sum(1)
        ctx.save_for_backward(weight, H, A, a, scores, values)
        ctx.row, ctx.column = row, column
        return (scores * values).sum(0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        weight, H, A, a, scores, values = ctx.saved_tensors
        by_score, by_value = grad * values, grad * scores
        grad_a = (by_score.unsqueeze(1) * H).sum(0)
        grad_weight = grad_H = None
        if ctx.needs_input_grad[0]:
            grad_weight = torch.zeros_like(weight)
            grad_A = H[ctx.row] @ grad_a.T
            if weight.shape[2] == 2:
                grad_weight[:, 0, 0] = grad_A
            else:
                grad_weight[:, 0, QUERY] = grad_A @ weight[:, 0, KEY]
                grad_weight[:, 0, KEY] = grad_A.T @ weight[:, 0, QUERY]
            grad_weight[:, 0, -1, ctx.column] = (by_value.unsqueeze(1) * H).sum((0, 2))
        if ctx.needs_input_grad[1]:
            v = weight[:, 0, -1, ctx.column].unsqueeze(-1)
            grad_H = by_score.unsqueeze(1) * a + by_value.unsqueeze(1) * v
            grad_H[ctx.row] += A @ grad_a
        return grad_weight, grad_H, None, None


def _batch_innermost(H: Tensor) -> bool:
    return H.dim() == 3 and H.shape[0] > 1 and H.stride(0) == 1


def _times(H: Tensor, W: Tensor) -> Tensor:
    """`H @ W` as one product of two matrices, also when torch.func.vmap adds an axis to both."""
    return (H.reshape(-1, H.shape[-1]) @ W).reshape(*H.shape[:-1], W.shape[1])


def normal_(parameter: Tensor, std: float, generator: torch.Generator | None) -> None:
    """Normal entries, drawn on the generator's device so that a seed means the same everywhere."""
    if std == 0.0:
        parameter.zero_()
        return
    where = generator.device if generator is not None else parameter.device
    drawn = torch.randn(parameter.shape, generator=generator, device=where, dtype=torch.float32)
    parameter.copy_(drawn * std)


def as_numpy(tensor: Tensor) -> np.ndarray[Any, Any]:
    return tensor.detach().to("cpu", torch.float64).numpy()
