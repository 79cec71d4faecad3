"""Baselines as the networks that compute them: on a GPU a million prompts are then one kernel.

Gradient descent, GD++ and Newton's iteration are programs of the gallery. Where a batch of prompts
runs as a kernel, the network compiled from the program answers for the baseline; elsewhere, and
where gradients are wanted, the same sums in torch do (`baselines`).
"""

from __future__ import annotations

from functools import cache
from typing import Any

from inweave import Network, gallery
from inweave.lab.tasks import Batch
from inweave.lab.tensors import Tensor, torch
from inweave.run.kernel import call


def predictions(name: str, batch: Batch, steps: int, **numbers: Any) -> Tensor | None:
    """What the network of a gallery's entry predicts; None where torch is to compute it.

    Numbers are the program's own: one for all prompts, or one for each.
    """
    if steps < 1 or not call.is_cuda(batch.X.device) or not call.has_cupy():
        return None
    given = {"X": batch.X, "y": batch.y, "u": batch.u, **numbers}
    tensors = [value for value in given.values() if isinstance(value, Tensor)]
    if any(x.device != batch.X.device for x in tensors):  # a parameter that is being tuned
        return None
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        return None
    _, n, d = batch.X.shape
    found: Tensor = network(name, n, d, steps)(check=False, **given)  # whatever it computes
    return found


@cache
def network(name: str, n: int, d: int, steps: int) -> Network:
    """An entry of the gallery for contexts of n examples, proved."""
    return gallery.get(name).compile(n=n, d=d, steps=steps)
