"""Many seeds and step sizes at once: one stacked model instead of a run for each.

The models here are so small that a run is mostly overhead, on a GPU above all. An ensemble stacks
the weights of its members along a new axis and trains them in the same few operations; each member
has its own start, its own data, its own gradient norm and its own step size, so the members are
as independent as separate runs with those seeds.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from inweave.lab.baselines import Predictor
from inweave.lab.forms import Form
from inweave.lab.replay import Replayed
from inweave.lab.tasks import Batch, Target, Task, draw, stream
from inweave.nn import AttentionNetwork

Weights = dict[str, Tensor]


@dataclass(frozen=True)
class Settings:
    """How an ensemble is trained; `scales` multiply the weights that a member starts from."""

    steps: int
    batch: int
    lrs: tuple[float, ...] = (3e-3,)
    scales: tuple[float, ...] = (1.0,)
    warmup: int = 100
    clip: float = 1.0
    betas: tuple[float, float] = (0.9, 0.99)
    target: Target = "clean"
    log_every: int = 100


@dataclass
class Ensemble:
    """Stacked weights; member m has seed `seeds[m // len(lrs)]` and step size `lrs[m % len(lrs)]`.

    A seed is tried with every step size and every scale of its start; `lrs` has one entry per try.

    `curve` holds (step, losses of all members). A member takes no step on a batch where its
    gradient is not finite; `skipped` is the share of such steps of each. A member whose loss is
    not finite stays in the ensemble and is never the best one.
    """

    template: nn.Module
    weights: Weights
    seeds: tuple[int, ...]
    lrs: tuple[float, ...]
    curve: list[tuple[int, list[float]]] = field(default_factory=list)
    skipped: list[float] = field(default_factory=list)
    snapshots: list[tuple[int, Any]] = field(default_factory=list)

    @property
    def members(self) -> int:
        return len(self.seeds) * len(self.lrs)

    def predict(self, prompts: Tensor) -> Tensor:
        """Predictions (members, B) for prompts shared by all members, or (members, B, ...)."""
        shared = prompts.dim() == 3
        call: Callable[..., Tensor] = lambda w, H: functional_call(self.template, w, (H,))  # noqa: E731
        return vmap(call, in_dims=(0, None if shared else 0))(self.weights, prompts)

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
        table = torch.nan_to_num(losses, nan=math.inf).reshape(len(self.seeds), len(self.lrs))
        which = table.argmin(1).tolist()
        return [s * len(self.lrs) + k for s, k in enumerate(which)]

    @torch.no_grad()
    def losses(self, form: Form, batch: Batch, target: Target = "clean") -> Tensor:
        """The MSE of every member."""
        return (self.errors(form, batch, target)).mean(1)

    @torch.no_grad()
    def errors(
        self, form: Form, batch: Batch, target: Target = "clean", chunk: int = 4096
    ) -> Tensor:
        """Squared errors (members, B)."""
        parts = []
        for at in range(0, len(batch), chunk):
            part = batch.rows(slice(at, at + chunk))
            parts.append((self.predict(form.prompt(part)) - part.target(target)).square())
        return torch.cat(parts, 1)

    def predictors(self, form: Form, members: Sequence[int]) -> list[Predictor]:
        """Each member as a function of a batch, on the batch's own device."""

        def predictor(model: Any) -> Predictor:
            return lambda batch: model.to(batch.X.device)(form.prompt(batch))

        return [predictor(self.member(m)) for m in members]


def assemble(
    make: Callable[[int], nn.Module],
    seeds: Sequence[int],
    lrs: Sequence[float],
    scales: Sequence[float] = (1.0,),
) -> Ensemble:
    """An ensemble of the models that `make(seed)` gives; step sizes share a seed's start."""
    tries = [(lr, scale) for scale in scales for lr in lrs]
    models = [make(seed) for seed in seeds for _ in tries]
    weights, _ = stack_module_state(models)
    scaling = torch.tensor([scale for _ in seeds for _, scale in tries])
    plain = {
        name: w.detach() * scaling.to(w).reshape(-1, *([1] * (w.dim() - 1)))
        for name, w in weights.items()
    }
    return Ensemble(models[0], plain, tuple(seeds), tuple(lr for lr, _ in tries))


def train_ensemble(
    ensemble: Ensemble,
    task: Task,
    form: Form,
    settings: Settings,
    device: torch.device | str = "cpu",
    watch: Callable[[Ensemble], Any] | None = None,
) -> Ensemble:
    """Train all members with Adam, cosine decay, warm-up and a bound on each gradient's norm.

    `watch` is called at every logged step and its answers are kept as snapshots.
    """
    seeds, members = len(ensemble.seeds), ensemble.members
    names = list(ensemble.weights)
    values = [ensemble.weights[n].to(device).requires_grad_() for n in names]
    ensemble.weights = dict(zip(names, values, strict=True))
    first, second = ([torch.zeros_like(v) for v in values] for _ in range(2))
    rates = torch.tensor(ensemble.lrs * seeds, device=device)
    b1, b2 = settings.betas
    sums, counted = torch.zeros(members, device=device), 0
    stuck = torch.zeros(members, device=device)
    clock = torch.zeros(
        3, dtype=values[0].dtype, device=device
    )  # share of the step size, two corrections of Adam

    def each_its_own(drawn: Tensor) -> Tensor:
        """(seeds x batch, ...) as (members, batch, ...): step sizes share a seed's data."""
        shaped = drawn.reshape(seeds, settings.batch, *drawn.shape[1:])
        return shaped.repeat_interleave(len(ensemble.lrs), 0)

    def fresh(t: int) -> tuple[Tensor, Tensor]:
        generator = stream(ensemble.seeds[0], "ensemble", t, device=device)
        batch = draw(task, settings.batch * seeds, generator, values[0].dtype)
        return each_its_own(form.prompt(batch)), each_its_own(batch.target(settings.target))

    prompts, target = fresh(0)

    def update() -> None:
        each = (ensemble.predict(prompts) - target).square().mean(1)
        gradients = torch.autograd.grad(each.sum(), values)
        with torch.no_grad():
            norm = sum((g.flatten(1).square().sum(1) for g in gradients), torch.zeros_like(each))
            alive = torch.isfinite(norm)
            stuck.add_((~alive).to(stuck.dtype))
            scale = (settings.clip / norm.sqrt().clamp(min=1e-12)).clamp(max=1.0)
            scale = torch.where(alive, scale if settings.clip else torch.ones_like(scale), 0.0)
            part, bias1, bias2 = clock.unbind()
            rate = torch.where(alive, rates * part, 0.0)
            for v, g, m, s in zip(values, gradients, first, second, strict=True):
                shape = (-1, *([1] * (v.dim() - 1)))
                g = torch.nan_to_num(g, nan=0.0, posinf=0.0, neginf=0.0) * scale.reshape(shape)
                m.mul_(b1).add_(g, alpha=1 - b1)
                s.mul_(b2).addcmul_(g, g, value=1 - b2)
                v.sub_(rate.reshape(shape) * (m / bias1) / ((s / bias2).sqrt() + 1e-8))
            sums.add_(each.detach())

    step = Replayed(update, device)
    for t in range(settings.steps):
        if t:
            for kept, new in zip((prompts, target), fresh(t), strict=True):
                kept.copy_(new)
        part = min(1.0, (t + 1) / max(1, settings.warmup))
        part *= 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * t / settings.steps))
        clock.copy_(torch.tensor([part, 1 - b1 ** (t + 1), 1 - b2 ** (t + 1)]))
        step()
        counted += 1
        if (t + 1) % settings.log_every == 0 or t + 1 == settings.steps:
            ensemble.curve.append((t + 1, (sums / counted).tolist()))
            sums.zero_()
            counted = 0
            if watch is not None:
                ensemble.snapshots.append((t + 1, watch(ensemble)))
    ensemble.weights = {n: v.detach() for n, v in ensemble.weights.items()}
    ensemble.skipped = (stuck / settings.steps).tolist()
    return ensemble
