"""torch as the files of the lab import it: whoever lacks it is told which extra brings it."""

from inweave.errors import needs_extra

with needs_extra("the lab", "lab"):
    import torch
    import torch.distributed as dist
    from torch import Tensor, nn

__all__ = ["Tensor", "dist", "nn", "torch"]
