"""The trainable pointwise layer: the paper's network component, one small network per entry."""

from __future__ import annotations

from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from inweave.errors import InputError, ShapeError
from inweave.model.layers import PointwiseLayer
from inweave.nn.attention import ALL, as_numpy, normal_


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
            normal_(self.V, scale, generator)
            normal_(self.W, scale, generator)

    def forward(self, H: Tensor, rows: slice = ALL, columns: slice = ALL) -> Tensor:
        """The output at the given rows and columns; every entry is by itself."""
        if H.shape[-2:] != self.C.shape:
            raise ShapeError(
                f"pointwise layer: got a prompt of shape {tuple(H.shape)}, expected "
                f"(..., {self.tokens}, {self.features})"
            )
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
        C[0] = as_numpy(self.C)
        V, W, B = (as_numpy(getattr(self, name)) for name in "VWB")
        return PointwiseLayer(V, W, B, C, self.activation, self.skip)
