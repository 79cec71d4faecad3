"""Parameters drawn at random, and written as numpy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor


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
