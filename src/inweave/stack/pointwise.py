"""Pointwise layers: the paper's network component, and functions that know where they act.

Every entry is by itself, so there is one way to compute; hook points name what goes into the
nonlinearity and what comes out, `hook_pre` and `hook_post`. `Entries` is a layer given its
parameters, `PointwiseNetwork` one that draws them, with its skip, to be trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import Parameter

from inweave.errors import InputError, ShapeError
from inweave.model.layers import BlockPointwiseLayer, PointwiseLayer
from inweave.model.layout import Layout
from inweave.model.relunet import Function
from inweave.model.written import function_weights, pointwise_weights
from inweave.stack.attention import ALL, as_numpy, normal_
from inweave.stack.hooks import HookPoint


class Entries(nn.Module):
    """`Σ_k V_k ⊙ σ(W_k ⊙ H + B_k) + C`, with V, W, B as (units, tokens, features).

    Or as (units, 1, 1): one function for all entries.
    """

    def __init__(
        self, V: Parameter, W: Parameter, B: Parameter, C: Parameter, activation: str = "relu"
    ) -> None:
        super().__init__()
        self.V, self.W, self.B, self.C, self.activation = V, W, B, C, activation
        self.hook_pre, self.hook_post = HookPoint(), HookPoint()

    def forward(self, H: Tensor, rows: slice = ALL, columns: slice = ALL) -> Tensor:
        """The output at the given rows and columns."""
        at = (ALL, rows, columns)
        inner = self.hook_pre(self.W[at] * H[..., rows, columns].unsqueeze(-3) + self.B[at])
        outer: Tensor = self.hook_post(inner.relu() if self.activation == "relu" else inner)
        return (self.V[at] * outer).sum(-3) + self.C[rows, columns]

    def hooked(self) -> Entries:
        """Another module of the same parameters, without a skip."""
        return Entries(self.V, self.W, self.B, self.C, self.activation)


class PointwiseNetwork(Entries):
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
        if activation not in ("relu", "identity"):
            raise InputError(f"activation {activation!r} is not 'relu' or 'identity'")

        def zeros(*shape: int) -> Parameter:
            return Parameter(torch.zeros(shape, dtype=dtype, device=device))

        V, W, B = (zeros(units, tokens, features) for _ in range(3))
        super().__init__(V, W, B, zeros(tokens, features), activation)
        self.tokens, self.features, self.units, self.skip = tokens, features, units, skip
        with torch.no_grad():
            normal_(self.V, scale, generator)
            normal_(self.W, scale, generator)

    def forward(self, H: Tensor, rows: slice = ALL, columns: slice = ALL) -> Tensor:
        """The output at the given rows and columns; every entry is by itself."""
        if H.shape[-2:] != self.C.shape:
            raise ShapeError(
                f"pointwise layer: got a prompt of shape {tuple(H.shape)}, expected "
                f"(..., {self.tokens}, {self.features})"
            )
        output = super().forward(H, rows, columns)
        return H[..., rows, columns] + output if self.skip else output

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
        arrays = pointwise_weights(layer)
        arrays["C"] = arrays["C"].sum(axis=0)
        with torch.no_grad():
            for name, array in arrays.items():
                getattr(made, name).copy_(torch.as_tensor(array))
        return made

    def to_layer(self) -> PointwiseLayer:
        """This layer as data."""
        C = np.zeros(self.V.shape)
        C[0] = as_numpy(self.C)
        V, W, B = (as_numpy(getattr(self, name)) for name in "VWB")
        return PointwiseLayer(V, W, B, C, self.activation, self.skip)


class Functions(nn.Module):
    """A function at each of some places, the identity elsewhere."""

    skip = False

    def __init__(self, functions: Sequence[Entries], at: Sequence[tuple[slice, slice]]) -> None:
        super().__init__()
        self.functions, self.at = nn.ModuleList(functions), list(at)

    def forward(self, H: Tensor, rows: slice = ALL, columns: slice = ALL) -> Tensor:
        """The output at the given rows and columns."""
        out = H.clone()
        for function, at in zip(self.functions, self.at, strict=True):
            out[(..., *at)] = function(H[(..., *at)])
        return out[..., rows, columns]

    def hooked(self) -> Functions:
        """Another module of the same parameters."""
        functions = [f.hooked() for f in self.functions if isinstance(f, Entries)]
        return Functions(functions, self.at)

    @classmethod
    def from_layer(
        cls,
        layer: BlockPointwiseLayer,
        layout: Layout,
        *,
        dtype: torch.dtype | None = torch.float64,
        device: torch.device | str | None = None,
    ) -> Self:
        """The weights of a constructed layer."""

        def entries(function: Function) -> Entries:
            arrays = function_weights(function)
            V, W, B, C = (torch.tensor(arrays[n], dtype=dtype)[..., None, None] for n in "VWBC")
            return Entries(Parameter(V), Parameter(W), Parameter(B), Parameter(C))

        regions = [place.region(layout) for place, _ in layer.applied]
        return cls([entries(function) for _, function in layer.applied], regions).to(device)
