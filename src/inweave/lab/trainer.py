"""The trainer: draws, predicts, differentiates and updates all members of an ensemble in one step.

Each member has its own start, its own gradient norm and its own step size, and each seed its own
data, so the members are as independent as separate runs. The data of step t comes from a stream
named by the seed and t. What a step needs stays in the same tensors, so that a GPU can replay it
(`inweave.lab.replay`); several processes each take their share of every batch and average their
gradients. AdamW is written out: on the one matrix that holds all weights it is a dozen operations,
a fifth of what the bookkeeping of `torch.optim` takes for models of a few hundred numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from inweave.errors import InputError, needs_extra
from inweave.lab.direct import DirectStep
from inweave.lab.ensemble import Ensemble
from inweave.lab.forms import Form
from inweave.lab.progress import tell
from inweave.lab.replay import Replayed
from inweave.lab.tasks import Target, Task, draw, stream

with needs_extra("the lab", "lab"):
    import torch
    import torch.distributed as dist
    from torch import Tensor

EPSILON = 1e-8  # of AdamW


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
    weight_decay: float = 0.0


def warm(t: int, warmup: int) -> float:
    """The share of the step size that the warm-up allows."""
    return min(1.0, (t + 1) / max(1, warmup))


def cosine(t: int, steps: int) -> float:
    """A share of the step size that falls from 1 to 0.01."""
    return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * t / steps))


class Trainer:
    """An ensemble, its optimizer and its data; `step` does all of one step.

    With `batch_last`, problems are drawn with the batch innermost, the fastest order for one plain
    layer on a CPU (see `draw`); where `DirectStep` applies, it then takes the place of autograd.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        task: Task,
        form: Form,
        settings: Settings,
        device: torch.device | str = "cpu",
        *,
        data: str = "ensemble",
        batch_last: bool = False,
        rank: int = 0,
        processes: int = 1,
    ) -> None:
        if settings.batch % processes:
            raise InputError(
                f"batch = {settings.batch} does not divide among {processes} processes"
            )
        self.ensemble, self.task, self.form, self.settings = ensemble, task, form, settings
        self.device, self.data, self.batch_last = torch.device(device), data, batch_last
        self.processes, self.on_gpu = processes, self.device.type == "cuda"
        share = settings.batch // processes
        self.share = slice(rank * share, (rank + 1) * share)
        self.weights = ensemble.rows.detach().to(device).requires_grad_()
        ensemble.rows = self.weights
        self.mean, self.square = (torch.zeros_like(self.weights) for _ in range(2))
        self.rates = torch.tensor(ensemble.lrs * len(ensemble.seeds)).to(self.weights)[:, None]
        self.size, self.shrink = (torch.zeros_like(self.rates) for _ in range(2))
        self.correction = torch.zeros_like(self.weights[0, 0])
        self.losses = torch.zeros(ensemble.members, device=device)
        self.sums = torch.zeros(ensemble.members, dtype=torch.float64, device=device)
        self.stuck, self.counted = torch.zeros_like(self.rates), 0
        self.problems: tuple[Tensor, Tensor] | None = None
        self.direct = None
        if batch_last and processes == 1 and DirectStep.applies(task, ensemble):
            self.direct = DirectStep(task, ensemble, settings.batch)
        self.update: Callable[[], None] = self._update
        if self.on_gpu and processes == 1:
            self.update = Replayed(self._update, self.device)

    def step(self, t: int, share: float) -> Tensor:
        """Step t, with that share of every member's step size; the losses before it.

        They stand on the device until the next step overwrites them.
        """
        generator = stream(self.ensemble.seeds[0], self.data, t, device=self.device)
        beta1, beta2 = self.settings.betas
        torch.mul(self.rates, share / (1 - beta1 ** (t + 1)), out=self.size)
        if self.settings.weight_decay:
            torch.mul(self.rates, share * self.settings.weight_decay, out=self.shrink)
        self.correction.fill_(1 - beta2 ** (t + 1))
        if self.direct is not None:
            self._descend(*self.direct(generator))
        else:
            self._draw(generator)
            self.update()
        self.counted += 1
        return self.losses

    def mean_losses(self) -> list[float]:
        """The mean loss of every member since this was last asked."""
        if self.processes > 1:
            dist.all_reduce(self.sums)
        found: list[float] = (self.sums / (self.counted * self.processes)).tolist()
        self.sums.zero_()
        self.counted = 0
        return found

    def _draw(self, generator: torch.Generator) -> None:
        """New problems, (members, share of the batch, ...); the tries of a seed share its data."""
        seeds, tries = len(self.ensemble.seeds), len(self.ensemble.lrs)
        settings, dtype = self.settings, self.weights.dtype
        batch = draw(self.task, settings.batch * seeds, generator, dtype, self.batch_last)

        def of_members(drawn: Tensor) -> Tensor:
            shaped = drawn.reshape(seeds, settings.batch, *drawn.shape[1:])[:, self.share]
            return shaped if tries == 1 else shaped.repeat_interleave(tries, 0)

        prompts = of_members(self.form.prompt(batch))
        target = of_members(batch.target(settings.target))
        if self.problems is None or not isinstance(self.update, Replayed):
            self.problems = prompts, target
        else:
            for kept, new in zip(self.problems, (prompts, target), strict=True):
                kept.copy_(new)

    def _update(self) -> None:
        """One update by the problems that are there."""
        assert self.problems is not None
        prompts, target = self.problems
        losses = (self.ensemble.predict(prompts) - target).square().mean(1)
        (gradient,) = torch.autograd.grad(losses.sum(), self.weights)
        self._descend(losses.detach(), gradient)

    @torch.no_grad()
    def _descend(self, losses: Tensor, gradient: Tensor) -> None:
        """Bound each member's gradient, leave out those that are not finite, and step."""
        if self.processes > 1:
            dist.all_reduce(gradient)
            gradient = gradient / self.processes
        norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
        alive = norm.isfinite()
        if self.settings.clip:
            gradient = gradient * (self.settings.clip / norm.clamp(min=1e-12)).clamp(max=1.0)
        size, shrink = self.size, self.shrink if self.settings.weight_decay else None
        if self.on_gpu or not alive.all():  # what is recorded cannot look
            gradient, size = torch.where(alive, gradient, 0.0), torch.where(alive, size, 0.0)
            shrink = None if shrink is None else shrink * alive
            self.stuck.add_(~alive)
        moments = self.mean, self.square
        adamw(self.weights, gradient, moments, self.settings.betas, size, self.correction, shrink)
        self.sums.add_(losses)
        self.losses = losses


def adamw(
    weights: Tensor,
    gradient: Tensor,
    moments: tuple[Tensor, Tensor],
    betas: tuple[float, float],
    size: Tensor,
    correction: Tensor | float,
    shrink: Tensor | None = None,
) -> None:
    """One step of AdamW in place, every row by its own step size.

    At step k, `size` is lr / (1 - β₁ᵏ), `correction` is 1 - β₂ᵏ, and `shrink` is lr times the
    weight decay where there is any.
    """
    (mean, square), (beta1, beta2) = moments, betas
    if shrink is not None:
        weights.mul_(1 - shrink)
    mean.lerp_(gradient, 1 - beta1)
    square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    spread = (square / correction).sqrt_().add_(EPSILON)
    weights.addcmul_(mean / spread, size, value=-1)


def train_ensemble(
    ensemble: Ensemble,
    task: Task,
    form: Form,
    settings: Settings,
    device: torch.device | str = "cpu",
    watch: Callable[[Ensemble], Any] | None = None,
) -> Ensemble:
    """Train all members with cosine decay, warm-up and a bound on each gradient's norm.

    `watch` is called at every logged step and its answers are kept as snapshots. The loss that is
    told is that of the best member.
    """
    trainer = Trainer(ensemble, task, form, settings, device)
    tell(0, settings.steps, math.nan)
    for t in range(settings.steps):
        trainer.step(t, warm(t, settings.warmup) * cosine(t, settings.steps))
        done = t + 1
        if done % settings.log_every == 0 or done == settings.steps:
            losses = trainer.mean_losses()
            ensemble.curve.append((done, losses))
            tell(done, settings.steps, min(losses))
            if watch is not None:
                ensemble.snapshots.append((done, watch(ensemble)))
    ensemble.rows = ensemble.rows.detach()
    ensemble.skipped = (trainer.stuck[:, 0] / settings.steps).tolist()
    return ensemble
