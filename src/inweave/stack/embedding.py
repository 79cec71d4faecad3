"""The basis of a network's prompt in torch: in before the layers, out again before the answer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from inweave.model.embedding import Embedding


class Embedded(nn.Module):
    """`tokens @ H @ columns`, on weights that are neither trained nor stored."""

    tokens: Tensor | None
    columns: Tensor | None

    def __init__(self, embedding: Embedding, dtype: torch.dtype | None) -> None:
        super().__init__()
        for name, matrix in zip(("tokens", "columns"), embedding.floats, strict=True):
            written = None if matrix is None else torch.tensor(matrix, dtype=dtype)
            self.register_buffer(name, written, False)

    def forward(self, H: Tensor) -> Tensor:
        H = H if self.tokens is None else self.tokens @ H
        return H if self.columns is None else H @ self.columns


def embedded(embedding: Embedding | None, dtype: torch.dtype | None) -> Embedded | None:
    """The embedding of a network, if it has one."""
    return None if embedding is None else Embedded(embedding, dtype)
