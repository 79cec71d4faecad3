"""One attention layer, a sum of (extended) linear heads, computed the cheapest way.

Three things make it fast and change no result. All heads and all three projections are one matrix
product. The order of multiplication is chosen from the shapes: `(Q Kᵀ) V` costs tokens², `Q (Kᵀ V)`
costs features², and without biases all heads share the Gram matrix `HᵀH`. And a read-out computes
only the rows and columns that are read: for one entry of a one-layer network nothing is larger than
the prompt.
`inweave.stack.heads` computes the same by definition, to be looked into.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from inweave.errors import InputError, ProgramError, ShapeError
from inweave.exact.whole import is_whole, whole
from inweave.model.layers import AttentionLayer, Head
from inweave.model.layout import Layout
from inweave.model.projection import DenseProjection
from inweave.stack.entry import KEY, QUERY, VALUE, Entry

Activation = Literal["normalised", "relu", "softmax"]
Order = Literal["scores", "memory", "gram"]
ALL = slice(None)

LEAST = 1e-12  # what rows of scores are divided by at least

# by row: signs as they are or none below zero, sizes as they are or with absolute values of sum one
ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "normalised": lambda scores: scores / scores.abs().sum(-1, keepdim=True).clamp(min=LEAST),
    "relu": torch.relu,
    "softmax": lambda scores: scores.softmax(-1),
}

# preset: (std of weights, std of biases) in units of 1/√features, and whether values start at zero
INITS: dict[str, tuple[float, float, bool]] = {
    "scaled": (1.0, 0.0, False),
    "random": (1.0, 1.0, False),
    "small": (0.05, 0.0, False),
    "zero-value": (1.0, 0.0, True),
}


def multiplications(
    rows: int, tokens: int, features: int, columns: int, heads: int, bias: bool
) -> dict[Order, int]:
    """How many `rows` x `columns` of a layer's output take in every order.

    `scores` is (Q Kᵀ) V, `memory` is Q (Kᵀ V), `gram` is H (Σ A_h HᵀH V_h) with A = W_q W_kᵀ, which
    needs linear heads without biases.
    """
    r, t, f, c = rows, tokens, features, columns
    project = heads * (r * f * f + t * f * c) + (heads * min(r, t) * f * f if bias else 0)
    cost: dict[Order, int] = {
        "scores": project + heads * (r * t * f + r * t * c),
        "memory": project + heads * (t * f * c + r * f * c),
    }
    if not bias:
        cost["gram"] = t * f * f + 2 * heads * f * f * c + r * f * c
    return cost


def cheapest_order(
    rows: int, tokens: int, features: int, columns: int, heads: int, bias: bool, linear: bool = True
) -> Order:
    """The order with the fewest multiplications; a nonlinearity acts on the scores and leaves no
    choice."""
    if not linear:
        return "scores"
    cost = multiplications(rows, tokens, features, columns, heads, bias)
    return min(cost, key=lambda order: cost[order])


class Heads(nn.Module):
    """The parameters of a sum of heads, and its projections.

    `weight` is (features, heads, parts, features) and `bias` (tokens, heads, 3, features), so that
    the fused projection is a view. With two parts instead of three the heads are `merged`: the key
    is the prompt itself, W_k = I.
    """

    weight: nn.Parameter
    bias: nn.Parameter | None

    def __init__(
        self,
        weight: nn.Parameter,
        bias: nn.Parameter | None,
        activation: Activation | None = None,
        queries: int = 0,
    ) -> None:
        super().__init__()
        self.weight = weight
        self.register_parameter("bias", bias)
        self.features, self.heads, parts, _ = weight.shape
        self.merged, self.activation, self.queries = parts == 2, activation, queries

    def seen(self, H: Tensor) -> Tensor:
        """The tokens that are keys and values: all but the last, which only ask."""
        return H[..., : H.shape[-2] - self.queries, :] if self.queries else H

    def project(
        self, H: Tensor, part: int, rows: slice | None = None, columns: slice = ALL
    ) -> Tensor:
        """`H W + B` for every head, (..., rows, heads, columns); H is the first rows of a prompt
        unless told which."""
        if part == KEY and self.merged:
            out = H.unsqueeze(-2).expand(*H.shape[:-1], self.heads, self.features)
        else:
            out = _times(H, self.weight[:, :, (0, 1, -1)[part], columns])
        if self.bias is None:
            return out
        return out + self.bias[slice(H.shape[-2]) if rows is None else rows, :, part, columns]

    def projected(
        self, seen: Tensor, part: Tensor, rows: slice = ALL, columns: slice = ALL
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Q of the wanted rows, K, and V in the wanted columns, each (..., tokens, heads, .)."""
        if rows == ALL and columns == ALL and not self.merged and not self.queries:
            fused = _times(seen, self.weight)
            query, key, value = (fused if self.bias is None else fused + self.bias).unbind(-2)
            return query, key, value
        query, key = self.project(part, QUERY, rows), self.project(seen, KEY)
        return query, key, self.project(seen, VALUE, columns=columns)

    def activated(self, scores: Tensor) -> Tensor:
        """The nonlinearity, if there is one, of the scores `Q Kᵀ`."""
        return scores if self.activation is None else ACTIVATIONS[self.activation](scores)


class ExtendedLinearAttention(Heads):
    """A sum of heads `(H W_q + B_q)(H W_k + B_k)ᵀ(H W_v + B_v)`; with `skip`, `H +` that sum.

    `activation` acts on the scores `Q Kᵀ`. With `merged`, W_k is the identity and `weight` has the
    two parts query and value: no restriction without biases, where only W_q W_kᵀ matters; with
    biases it is one. Without biases any number of tokens is accepted. The last `queries` tokens
    only ask: they attend to the others, and nobody, themselves included, attends to them.
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
        for what, size in (("tokens", tokens), ("features", features), ("heads", heads)):
            whole(f"attention layer: {what}", size, 1, ShapeError)
        if activation is not None and activation not in ACTIVATIONS:
            known = ", ".join(map(repr, ACTIVATIONS))
            raise InputError(f"activation {activation!r} is not None or one of {known}")
        if not is_whole(queries, 0) or queries >= tokens:
            raise InputError(f"queries must be an int from 0 to {tokens - 1}, got {queries!r}")

        def empty(first: int, parts: int) -> nn.Parameter:
            shape = (first, heads, parts, features)
            return nn.Parameter(torch.empty(shape, dtype=dtype, device=device))

        biases = empty(tokens, 3) if bias else None
        super().__init__(empty(features, 2 if merged else 3), biases, activation, queries)
        self.tokens, self.skip = tokens, skip
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
        seen = self.seen(H)
        width = len(range(*columns.indices(self.features)))
        order = cheapest_order(
            part.shape[-2], seen.shape[-2], self.features, width, self.heads,
            self.bias is not None, self.activation is None,
        )  # fmt: skip
        if order == "gram":
            output = self._by_gram(seen, part, columns)
        elif order == "memory":
            query, key, value = self.projected(seen, part, rows, columns)
            # Σ_h Q_h (K_hᵀ V_h), heads side by side in one product
            memory = torch.einsum("...thf,...thc->...hfc", key, value).flatten(-3, -2)
            output = query.flatten(-2) @ memory
        else:
            scores, value = self._scores(seen, part, rows, columns)
            # Σ_h S_h V_h, heads side by side in one product
            scores = self.activated(scores).transpose(-3, -2).flatten(-2)
            output = scores @ value.transpose(-3, -2).flatten(-3, -2)
        return part[..., columns] + output if self.skip else output

    @property
    def reads_entries(self) -> bool:
        """Whether one entry of the output is cheapest from a prompt with the batch innermost."""
        plain = self.bias is None and self.activation is None and not self.queries
        return self.heads == 1 and plain

    def _entry(self, H: Tensor, rows: slice, columns: slice) -> Tensor:
        """One entry, Σ_t (a·h_t)(h_t·v) with a = Aᵀh_row and v = W_v[:, column], as (B, 1, 1)."""
        row = range(*rows.indices(H.shape[1]))[0]
        column = range(*columns.indices(self.features))[0]
        innermost = H.permute(1, 2, 0)  # (tokens, features, B), as it lies in memory
        entry: Tensor = Entry.apply(self.weight, innermost, row, column)  # type: ignore[no-untyped-call]
        return entry[:, None, None]

    def _merged_query(self) -> Tensor:
        """A_h = W_q W_kᵀ for each head, (features, heads, features)."""
        if self.merged:
            return self.weight[:, :, QUERY]
        return torch.einsum("fhk,ghk->hfg", *self.weight[:, :, :2].unbind(2)).transpose(0, 1)

    def _by_gram(self, seen: Tensor, part: Tensor, columns: slice) -> Tensor:
        """H (Σ_h A_h HᵀH V_h); both weight products run over batch and heads at once."""
        inner = _times(seen.mT @ seen, self.weight[:, :, -1, columns])
        inner = inner.movedim(-1, -3).flatten(-2)  # (..., columns, features x heads)
        inner = _times(inner, self._merged_query().permute(2, 1, 0).flatten(0, 1))
        return part @ inner.mT

    def _scores(
        self, seen: Tensor, part: Tensor, rows: slice, columns: slice
    ) -> tuple[Tensor, Tensor]:
        """Q Kᵀ as (..., heads, rows, tokens), and V as (..., tokens, heads, columns).

        Without biases Q Kᵀ = (H A) Hᵀ needs no keys; with biases and few rows
        Q Kᵀ = (Q W_kᵀ) Hᵀ + Q B_kᵀ is cheaper than making the key of every token.
        """
        if self.bias is not None and rows == ALL:
            query, key, value = self.projected(seen, part, rows, columns)
            return query.transpose(-3, -2) @ key.transpose(-3, -2).mT, value
        value = self.project(seen, VALUE, columns=columns)
        if self.bias is None:
            query = _times(part, self._merged_query()).transpose(-3, -2)
            return query @ seen.unsqueeze(-3).mT, value
        query = self.project(part, QUERY, rows).transpose(-3, -2)
        constant = torch.einsum("...hrf,thf->...hrt", query, self.bias[: seen.shape[-2], :, KEY])
        if not self.merged:
            query = torch.einsum("...hrf,ghf->...hrg", query, self.weight[:, :, KEY])
        return query @ seen.unsqueeze(-3).mT + constant, value

    # -- to and from the data model ---------------------------------------------------------------
    @classmethod
    def from_layer(
        cls,
        layer: AttentionLayer,
        layout: Layout,
        *,
        bias: bool | None = None,
        merged: bool = False,
        heads: int = 1,
        dtype: torch.dtype | None = torch.float64,
        device: torch.device | str | None = None,
    ) -> Self:
        """The weights of a constructed layer. `bias=None` keeps biases where the layer has any.

        It has so many `heads` at least; those that the layer does not have are zero.
        """
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
            layout.tokens, layout.width, max(heads, len(layer.heads)),
            has if bias is None else bias,
            merged=merged, skip=layer.skip, dtype=dtype, device=device,
        )  # fmt: skip
        with torch.no_grad():
            for parameter, arrays in ((made.weight, weights), (made.bias, biases)):
                if parameter is not None:
                    parameter.zero_()
                    if arrays:
                        stacked = np.asarray(arrays, dtype=np.float64)
                        written = torch.as_tensor(stacked).permute(2, 0, 1, 3)
                        parameter[:, : len(arrays)].copy_(written)
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
        """This layer as data, as if every token were attended to (see `inweave.stack.queries`)."""
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

        def projection(h: int, part: int) -> DenseProjection:
            return DenseProjection(W[:, h, part], None if B is None else B[:, h, part])

        heads = [Head(*(projection(h, part) for part in range(3))) for h in range(self.heads)]
        return AttentionLayer(tuple(heads), self.skip)


def _batch_innermost(H: Tensor) -> bool:
    return H.dim() == 3 and H.shape[0] > 1 and H.stride(0) == 1


def _times(H: Tensor, W: Tensor) -> Tensor:
    """`H @ W` as one product of two matrices, also when torch.func.vmap adds an axis to both.

    W may have several axes after its first; so has the result then.
    """
    product = H.reshape(-1, H.shape[-1]) @ W.flatten(1)
    return product.reshape(*H.shape[:-1], *W.shape[1:])


def normal_(parameter: Tensor, std: float, generator: torch.Generator | None) -> None:
    """Normal entries, drawn on the generator's device so that a seed means the same everywhere."""
    if std == 0.0 or parameter.is_meta:  # which has a shape and no entries
        parameter.zero_()
        return
    where = generator.device if generator is not None else parameter.device
    drawn = torch.randn(parameter.shape, generator=generator, device=where, dtype=torch.float32)
    parameter.copy_(drawn * std)


def as_numpy(tensor: Tensor) -> np.ndarray[Any, Any]:
    return tensor.detach().to("cpu", torch.float64).numpy()
