"""Trainable attention layers of exactly the shape that weft compiles to.

The torch modules here mirror `weft.network` one to one: `ExtendedLinearAttention` is an attention
layer, `PointwiseNetwork` a pointwise layer, `AttentionModule` a module (layers in sequence inside
one skip, tied by `repeat`), `AttentionNetwork` a network. So a construction can be the starting
point of training (`from_network`), and what was trained can be saved, explored and compared like
what was compiled (`to_network`).

Speed comes from three things that change no result. All heads and all three projections are one
matrix product. The order of multiplication is chosen from the shapes: `(Q Kᵀ) V` costs tokens²,
`Q (Kᵀ V)` costs features², and without biases all heads share the Gram matrix `HᵀH`. And a read-out
computes only the rows and columns that are read: for one entry of a one-layer network nothing is
larger than the prompt itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from weft.errors import InputError, ProgramError, ShapeError
from weft.layout import Layout
from weft.network import (
    AttentionLayer,
    BlockPointwiseLayer,
    Head,
    Layer,
    Module,
    Network,
    Part,
    PointwiseLayer,
)
from weft.projection import DenseProjection
from weft.prompt import Fill, Input, Output, lower

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
    accepted.
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
        init: str = "scaled",
        scale: float = 1.0,
        generator: torch.Generator | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        for what, size in (("tokens", tokens), ("features", features), ("heads", heads)):
            if not isinstance(size, int) or size < 1:
                raise ShapeError(f"attention layer: {what} must be a positive int, got {size!r}")
        if activation not in (None, "relu", "softmax"):
            raise InputError(f"activation {activation!r} is not None, 'relu' or 'softmax'")
        self.tokens, self.features, self.heads = tokens, features, heads
        self.activation, self.merged, self.skip = activation, merged, skip
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
        _normal_(self.weight, weights * unit, generator)
        if zero_value:
            self.weight[:, :, -1] = 0.0
        if self.bias is not None:
            _normal_(self.bias, biases * unit, generator)

    def extra_repr(self) -> str:
        said = f"{self.tokens}, {self.features}, heads={self.heads}, bias={self.bias is not None}"
        said += f", activation={self.activation!r}" if self.activation else ""
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
        width = len(range(*columns.indices(self.features)))
        order = cheapest_order(
            part.shape[-2], H.shape[-2], self.features, width, self.heads,
            self.bias is not None, self.activation is None,
        )  # fmt: skip
        if order == "gram":
            output = self._by_gram(H, part, columns)
        elif order == "memory":
            query, key, value = self._projected(H, part, rows, columns)
            # Σ_h Q_h (K_hᵀ V_h), heads side by side in one product
            memory = torch.einsum("...thf,...thc->...hfc", key, value).flatten(-3, -2)
            output = query.flatten(-2) @ memory
        else:
            scores, value = self._scores(H, part, rows, columns)
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
        return self.heads == 1 and self.bias is None and self.activation is None

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

    def _by_gram(self, H: Tensor, part: Tensor, columns: slice) -> Tensor:
        """H (Σ_h A_h HᵀH V_h); both weight products run over batch and heads at once."""
        value = self.weight[:, :, -1, columns]
        inner = _times(H.mT @ H, value.flatten(1)).reshape(*H.shape[:-2], *value.shape)
        inner = inner.movedim(-1, -3).flatten(-2)  # (..., columns, features x heads)
        inner = _times(inner, self._merged_query().permute(2, 0, 1).flatten(0, 1))
        return part @ inner.mT

    def _projected(
        self, H: Tensor, part: Tensor, rows: slice, columns: slice
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Q of the wanted rows, K, and V in the wanted columns, each (..., tokens, heads, .)."""
        if rows == ALL and columns == ALL and not self.merged:
            fused = _times(H, self.weight.flatten(1))
            fused = fused.reshape(*H.shape[:-1], *self.weight.shape[1:])
            query, key, value = (fused if self.bias is None else fused + self.bias).unbind(-2)
            return query, key, value
        key_weight = self._weights()[2]
        if key_weight is None:
            key = H.unsqueeze(-2).expand(*H.shape[:-1], self.heads, self.features)
            key = key if self.bias is None else key + self.bias[:, :, KEY]
        else:
            key = self._affine(H, key_weight, KEY)
        return self._query(part, rows), key, self._value(H, columns)

    def _affine(
        self, H: Tensor, weight: Tensor, part: int, rows: slice = ALL, columns: slice = ALL
    ) -> Tensor:
        """`H W + B` for every head, (..., tokens, heads, columns)."""
        weight = weight[..., columns]
        out = _times(H, weight.flatten(1)).reshape(*H.shape[:-1], *weight.shape[1:])
        return out if self.bias is None else out + self.bias[rows, :, part, columns]

    def _query(self, part: Tensor, rows: slice) -> Tensor:
        return self._affine(part, self._weights()[0], QUERY, rows=rows)

    def _value(self, H: Tensor, columns: slice) -> Tensor:
        return self._affine(H, self._weights()[1], VALUE, columns=columns)

    def _scores(
        self, H: Tensor, part: Tensor, rows: slice, columns: slice
    ) -> tuple[Tensor, Tensor]:
        """Q Kᵀ as (..., heads, rows, tokens), and V as (..., tokens, heads, columns).

        Without biases Q Kᵀ = (H A) Hᵀ needs no keys; with biases and few rows
        Q Kᵀ = (Q W_kᵀ) Hᵀ + Q B_kᵀ is cheaper than making the key of every token.
        """
        if self.bias is None:
            query = self._affine(part, self._merged_query().transpose(0, 1), QUERY)
            return query.transpose(-3, -2) @ H.unsqueeze(-3).mT, self._value(H, columns)
        if rows == ALL:
            query, key, value = self._projected(H, part, rows, columns)
            return query.transpose(-3, -2) @ key.transpose(-3, -2).mT, value
        key_weight = self._weights()[2]
        query = self._query(part, rows).transpose(-3, -2)
        constant = torch.einsum("...hrf,thf->...hrt", query, self.bias[:, :, KEY])
        absorbed = query
        if key_weight is not None:
            absorbed = torch.einsum("...hrf,ghf->...hrg", query, key_weight)
        return absorbed @ H.unsqueeze(-3).mT + constant, self._value(H, columns)

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
        if self.activation is not None:
            raise ProgramError(
                f"a network's heads are linear; a layer with {self.activation} scores cannot be "
                "written as one"
            )
        W = _numpy(self.weight)
        if self.merged:
            identity = np.broadcast_to(np.eye(self.features)[:, None], W[:, :, 0].shape)
            W = np.stack([W[:, :, 0], identity, W[:, :, 1]], axis=2)
        B = None if self.bias is None else _numpy(self.bias)
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


class PointwiseNetwork(nn.Module):
    """The paper's network component `Σ_k V_k ⊙ σ(W_k ⊙ H + B_k) + C`; with `skip`, `H + ...`."""

    def __init__(
        self,
        tokens: int,
        features: int,
        units: int,
        activation: str = "relu",
        *,
        skip: bool = True,
        scale: float = 0.1,
        generator: torch.Generator | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        if activation not in ("relu", "identity"):
            raise InputError(f"activation {activation!r} is not 'relu' or 'identity'")
        self.tokens, self.features, self.units = tokens, features, units
        self.activation, self.skip = activation, skip
        made = {"dtype": dtype, "device": device}
        shape = (units, tokens, features)
        self.V = nn.Parameter(torch.empty(shape, **made))  # type: ignore[arg-type]
        self.W = nn.Parameter(torch.empty(shape, **made))  # type: ignore[arg-type]
        self.B = nn.Parameter(torch.zeros(shape, **made))  # type: ignore[arg-type]
        self.C = nn.Parameter(torch.zeros(shape[1:], **made))  # type: ignore[arg-type]
        with torch.no_grad():
            _normal_(self.V, scale, generator)
            _normal_(self.W, scale, generator)

    def forward(self, H: Tensor, rows: slice = ALL, columns: slice = ALL) -> Tensor:
        """The output at the given rows and columns; every entry is by itself."""
        part = H[..., rows, columns]
        at = (ALL, rows, columns)
        inner = self.W[at] * part.unsqueeze(-3) + self.B[at]
        inner = inner.relu() if self.activation == "relu" else inner
        output = (self.V[at] * inner).sum(-3) + self.C[rows, columns]
        return part + output if self.skip else output

    @classmethod
    def from_layer(
        cls,
        layer: PointwiseLayer,
        *,
        dtype: torch.dtype | None = torch.float64,
        device: torch.device | str | None = None,
    ) -> Self:
        """The weights of a constructed pointwise layer."""
        units, tokens, features = layer.V.shape
        made = cls(
            tokens, features, units, layer.activation, skip=layer.skip, dtype=dtype, device=device
        )
        with torch.no_grad():
            for name in "VWB":
                array = np.array(getattr(layer, name), dtype=np.float64)
                getattr(made, name).copy_(torch.as_tensor(array))
            made.C.copy_(torch.as_tensor(np.asarray(layer.C, dtype=np.float64).sum(axis=0)))
        return made

    def to_layer(self) -> PointwiseLayer:
        """This layer as data."""
        C = np.zeros(self.V.shape)
        C[0] = _numpy(self.C)
        V, W, B = (_numpy(getattr(self, name)) for name in "VWB")
        return PointwiseLayer(V, W, B, C, self.activation, self.skip)


class AttentionModule(nn.Module):
    """Layers in sequence, with one skip around them all, run `repeat` times with tied weights."""

    def __init__(self, body: Sequence[nn.Module], repeat: int = 1, skip: bool = True) -> None:
        super().__init__()
        if not body or repeat < 1:
            raise InputError("a trainable module needs at least one layer and one repetition")
        self.body, self.repeat, self.skip = nn.ModuleList(body), repeat, skip

    def steps(self, H: Tensor) -> Iterator[Tensor]:
        """The state after each repetition."""
        for _ in range(self.repeat):
            H = self._once(H)
            yield H

    def _once(self, H: Tensor, rows: slice = ALL, columns: slice = ALL) -> Tensor:
        inner: Tensor = H
        for layer in list(self.body)[:-1]:
            inner = layer(inner)
        inner = self.body[-1](inner, rows, columns)
        return H[..., rows, columns] + inner if self.skip else inner

    def forward(self, H: Tensor, rows: slice = ALL, columns: slice = ALL) -> Tensor:
        """The state after all repetitions, at the given rows and columns."""
        for _ in range(self.repeat - 1):
            H = self._once(H)
        return self._once(H, rows, columns)

    def extra_repr(self) -> str:
        return f"repeat={self.repeat}, skip={self.skip}"


class AttentionNetwork(nn.Module):
    """Modules over a layout, with the inputs, fills and outputs of a `weft.Network`.

    Calling it reads the (first) output from a prompt, computing in the last layer only what is
    read; `final(H)` gives the whole state.
    """

    def __init__(
        self,
        modules: Sequence[AttentionModule],
        layout: Layout,
        inputs: Sequence[Input] = (),
        fills: Sequence[Fill] = (),
        outputs: Sequence[Output] = (),
    ) -> None:
        super().__init__()
        if not modules:
            raise InputError("a trainable network needs at least one module")
        self.stack = nn.ModuleList(modules)
        self.layout, self.inputs, self.fills = layout, tuple(inputs), tuple(fills)
        self.outputs = tuple(outputs)

    def final(self, H: Tensor) -> Tensor:
        """The state after the last module."""
        for module in self.stack:
            H = module(H)
        return H

    def forward(self, H: Tensor) -> Tensor:
        """The answer that a prompt leads to, in its user's shape."""
        *before, last = self.stack
        for module in before:
            H = module(H)
        rows, columns, output = self._where()
        return self._shaped(last(H, rows, columns), output)

    def states(self, H: Tensor) -> list[Tensor]:
        """The prompt, then the state after every repetition of every module."""
        found = [H]
        for module in self.stack:
            assert isinstance(module, AttentionModule)
            found.extend(module.steps(found[-1]))
        return found

    @property
    def reads_entries(self) -> bool:
        """Whether prompts are best given with the batch innermost (one plain LSA layer)."""
        if len(self.stack) > 1:
            return False
        module = self.stack[0]
        assert isinstance(module, AttentionModule)
        layer = module.body[0]
        alone = len(module.body) == 1 and module.repeat == 1
        return alone and isinstance(layer, ExtendedLinearAttention) and layer.reads_entries

    def read(self, H: Tensor) -> Tensor:
        """The answer that stands in a state."""
        rows, columns, output = self._where()
        return self._shaped(H[..., rows, columns], output)

    def _where(self) -> tuple[slice, slice, Output]:
        if not self.outputs:
            raise InputError("this network has no output to read; use final(H)")
        output = self.outputs[0]
        place = output.place
        height, width = (1, 1) if place.diagonal else place.extent
        left = self.layout[place.block].start + place.col
        return slice(place.row, place.row + height), slice(left, left + width), output

    @staticmethod
    def _shaped(part: Tensor, output: Output) -> Tensor:
        shaped: Tensor = lower(part.mT if output.place.transpose else part, output.kind)
        return shaped

    @classmethod
    def from_network(
        cls,
        network: Network,
        *,
        bias: bool | None = None,
        merged: bool = False,
        dtype: torch.dtype | None = torch.float64,
        device: torch.device | str | None = None,
    ) -> Self:
        """Trainable weights that start as a construction."""

        def module(part: Module) -> AttentionModule:
            return AttentionModule([convert(p) for p in part.body], part.repeat, part.skip)

        def convert(part: Part) -> nn.Module:
            if isinstance(part, Module):
                return module(part)
            if isinstance(part, AttentionLayer):
                return ExtendedLinearAttention.from_layer(
                    part, network.layout, bias=bias, merged=merged, dtype=dtype, device=device
                )
            if isinstance(part, BlockPointwiseLayer):
                part = part.dense(network.layout)
            return PointwiseNetwork.from_layer(part, dtype=dtype, device=device)

        modules = [module(part) for part in network.modules if part.repeat]
        return cls(modules, network.layout, network.inputs, network.fills, network.outputs)

    def to_network(self) -> Network:
        """These weights as a network: to be saved, explored, traced and compared."""

        def convert(part: nn.Module) -> Layer | Module:
            if isinstance(part, AttentionModule):
                return Module(tuple(convert(p) for p in part.body), part.repeat, part.skip)
            if isinstance(part, (ExtendedLinearAttention, PointwiseNetwork)):
                return part.to_layer()
            raise ProgramError(f"{type(part).__name__} has no counterpart in a network")

        modules = []
        for part in self.stack:
            made = convert(part)
            modules.append(made if isinstance(made, Module) else Module((made,)))
        return Network(self.layout, tuple(modules), self.inputs, self.fills, self.outputs)


from_network = AttentionNetwork.from_network


def build(
    layout: Layout,
    *,
    depth: int = 1,
    blocks: int = 1,
    heads: int = 1,
    bias: bool = True,
    activation: Activation | None = None,
    merged: bool = False,
    tied: bool = False,
    mlp_units: int = 0,
    readout: bool = False,
    init: str = "scaled",
    scale: float = 1.0,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    inputs: Sequence[Input] = (),
    fills: Sequence[Fill] = (),
    outputs: Sequence[Output] = (),
) -> AttentionNetwork:
    """A network as in the paper: `depth` modules, each of `blocks` multi-head layers in one skip.

    `tied` shares one module over the whole depth; `readout` adds one more module with weights of
    its own, as the paper's networks have; `mlp_units` ends each module with a pointwise network.
    """

    def module(repeat: int) -> AttentionModule:
        body: list[nn.Module] = [
            ExtendedLinearAttention(
                layout.tokens, layout.width, heads, bias, activation, merged,
                init=init, scale=scale, generator=generator, dtype=dtype, device=device,
            )
            for _ in range(blocks)
        ]  # fmt: skip
        if mlp_units:
            body.append(
                PointwiseNetwork(
                    layout.tokens, layout.width, mlp_units,
                    generator=generator, dtype=dtype, device=device,
                )
            )  # fmt: skip
        return AttentionModule(body, repeat)

    if depth < 1 or blocks < 1:
        raise InputError(f"depth and blocks must be positive, got {depth} and {blocks}")
    modules = [module(depth)] if tied else [module(1) for _ in range(depth)]
    if readout:
        modules.append(module(1))
    return AttentionNetwork(modules, layout, inputs, fills, outputs)


def _batch_innermost(H: Tensor) -> bool:
    return H.dim() == 3 and H.shape[0] > 1 and H.stride(0) == 1


def _times(H: Tensor, W: Tensor) -> Tensor:
    """`H @ W` as one product of two matrices, also when torch.func.vmap adds an axis to both."""
    return (H.reshape(-1, H.shape[-1]) @ W).reshape(*H.shape[:-1], W.shape[1])


def _normal_(parameter: Tensor, std: float, generator: torch.Generator | None) -> None:
    """Normal entries, drawn on the generator's device so that a seed means the same everywhere."""
    if std == 0.0:
        parameter.zero_()
        return
    where = generator.device if generator is not None else parameter.device
    drawn = torch.randn(parameter.shape, generator=generator, device=where, dtype=torch.float32)
    parameter.copy_(drawn * std)


def _numpy(tensor: Tensor) -> np.ndarray[Any, Any]:
    return tensor.detach().to("cpu", torch.float64).numpy()
