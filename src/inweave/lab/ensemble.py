"""Many seeds and step sizes at once: one stacked model instead of a run for each.

The models here are so small that a run is mostly overhead, on a GPU above all. An ensemble keeps
the weights of its members as the rows of one matrix and computes them all in the same few
operations. A single run is an ensemble of one.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from inweave.lab.baselines import Predictor
from inweave.lab.forms import Form
from inweave.lab.tasks import Batch, Target
from inweave.lab.tensors import Tensor, nn, torch
from inweave.nn import AttentionNetwork

Weights = dict[str, Tensor]
Optimizer = Literal["adamw", "muon"]


@dataclass(frozen=True)
class Try:
    """One way to train: the step size, what the start is multiplied by, the optimizer and its ε."""

    lr: float
    scale: float = 1.0
    epsilon: float = 1e-8
    optimizer: Optimizer = "adamw"


def tries(*lrs: float, scales: Sequence[float] = (1.0,), **more: Any) -> tuple[Try, ...]:
    """Every step size with every scale of the start."""
    return tuple(Try(lr, scale, **more) for scale in scales for lr in lrs)


@dataclass
class Ensemble:
    """Members as rows; member m has seed `seeds[m // len(tries)]` and try `tries[m % len(tries)]`.

    `curve` holds (step, losses of all members). Where an ensemble is trained under guard, problems
    on which a member overflows are left out of its gradient; `dropped` is their share. A member
    takes no step on a batch where its gradient is not finite all the same; `skipped` is the share
    of such steps. A member whose loss is not finite stays in the ensemble and is never the best
    one.
    """

    template: nn.Module
    rows: Tensor  # (members, numbers), the parameters of the template one after the other
    seeds: tuple[int, ...]
    tries: tuple[Try, ...]
    curve: list[tuple[int, list[float]]] = field(default_factory=list)
    dropped: list[float] = field(default_factory=list)
    skipped: list[float] = field(default_factory=list)
    snapshots: list[tuple[int, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shapes = {name: p.shape for name, p in self.template.named_parameters()}

    @property
    def members(self) -> int:
        return len(self.seeds) * len(self.tries)

    @property
    def weights(self) -> Weights:
        """The weights by name, (members, ...) each."""
        parts = self.rows.split_with_sizes([s.numel() for s in self.shapes.values()], 1)
        named = zip(self.shapes.items(), parts, strict=True)
        return {name: part.reshape(-1, *shape) for (name, shape), part in named}

    def predict(self, prompts: Tensor) -> Tensor:
        """Predictions (members, B) for prompts shared by all members, or (members, B, ...)."""
        shared = prompts.dim() == 3

        def call(weights: Weights, H: Tensor) -> Tensor:
            found: Tensor = torch.func.functional_call(self.template, weights, (H,))
            return found

        if self.members == 1:
            only = {name: w[0] for name, w in self.weights.items()}
            return call(only, prompts if shared else prompts[0]).unsqueeze(0)
        return torch.func.vmap(call, in_dims=(0, None if shared else 0))(self.weights, prompts)

    def member(self, index: int) -> AttentionNetwork:
        """One member as a model of its own."""
        model = copy.deepcopy(self.template)
        with torch.no_grad():
            for name, p in model.named_parameters():
                p.copy_(self.weights[name][index])
        assert isinstance(model, AttentionNetwork)
        return model

    def best(self, form: Form, batch: Batch, target: Target = "clean") -> list[int]:
        """For each seed the member with the least loss on a tuning set."""
        losses = self.losses(form, batch, target)
        table = torch.nan_to_num(losses, nan=math.inf).reshape(len(self.seeds), len(self.tries))
        which = table.argmin(1).tolist()
        return [s * len(self.tries) + k for s, k in enumerate(which)]

    def losses(self, form: Form, batch: Batch, target: Target = "clean") -> Tensor:
        """The MSE of every member."""
        return self.errors(form, batch, target).mean(1)

    def errors(self, form: Form, batch: Batch, target: Target = "clean") -> Tensor:
        """Squared errors (members, B)."""
        return (self.predictions(form, batch) - batch.target(target)).square()

    @torch.no_grad()
    def predictions(self, form: Form, batch: Batch, chunk: int = 4096) -> Tensor:
        """Those for a batch of any size, (members, B), made from so many prompts at a time."""
        parts = (batch.rows(slice(at, at + chunk)) for at in range(0, len(batch), chunk))
        return torch.cat([self.predict(form.prompt(part)) for part in parts], 1)

    def predictors(self, form: Form, members: Sequence[int]) -> list[Predictor]:
        """Each member as a function of a batch, on the batch's own device."""

        def predictor(model: Any) -> Predictor:
            return lambda batch: model.to(batch.X.device)(form.prompt(batch))

        return [predictor(self.member(m)) for m in members]


def assemble(
    make: Callable[[int], nn.Module], seeds: Sequence[int], tries: Sequence[Try]
) -> Ensemble:
    """An ensemble of the models that `make(seed)` gives; the tries of a seed share its start."""
    models = [make(seed) for seed in seeds]
    starts = [nn.utils.parameters_to_vector(model.parameters()).detach() for model in models]
    rows = torch.stack([start * one.scale for start in starts for one in tries])
    return Ensemble(models[0], rows, tuple(seeds), tuple(tries))
