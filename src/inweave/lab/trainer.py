"""The trainer: draws, predicts, differentiates and updates all members of an ensemble in one step.

Each member has its own start, its own gradient norm and its own way to be trained (`Try`), and each
seed its own data, so the members are as independent as separate runs. The data of step t comes from
a stream named by the seed and t. What a step needs stays in the same tensors, so that a GPU can
replay it (`inweave.lab.replay`); several processes each take their share of every batch and average
their gradients.

A network of high degree overflows on rare problems, and one of them makes the gradient of a whole
batch useless. Under guard a member leaves such problems out and counts them: predictions are made
once to see which, and then again without those.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from inweave.errors import InputError
from inweave.lab.direct import DirectStep
from inweave.lab.ensemble import Ensemble, Try
from inweave.lab.forms import Form
from inweave.lab.optimizers import adamw, muon
from inweave.lab.progress import tell
from inweave.lab.replay import Replayed
from inweave.lab.tasks import Batch, Target, Task, draw, stream
from inweave.lab.tensors import Tensor, dist, nn, torch


@dataclass(frozen=True)
class Settings:
    """How an ensemble is trained.

    Under `guard`, problems on which a member overflows are left out of its gradient. Logged losses
    count no squared error for more than `cap`.
    """

    steps: int
    batch: int
    tries: tuple[Try, ...] = (Try(3e-3),)
    warmup: int = 100
    clip: float = 1.0
    betas: tuple[float, float] = (0.9, 0.99)
    target: Target = "clean"
    log_every: int = 100
    weight_decay: float = 0.0
    guard: bool = True
    cap: float = math.inf


@dataclass(frozen=True)
class Stage:
    """A share of the steps in which the parameters are trained as those of another model.

    The goal is what its predictions are held against, (B,) or (B, numbers).
    """

    template: nn.Module
    goal: Callable[[Batch], Tensor]


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
        every = ensemble.tries * len(ensemble.seeds)
        self.rates, self.epsilons = (
            torch.tensor(values, dtype=torch.float64).to(self.weights)[:, None]
            for values in ([one.lr for one in every], [one.epsilon for one in every])
        )
        by_muon = torch.tensor([one.optimizer == "muon" for one in every], device=device)
        self.by_muon = by_muon.nonzero()[:, 0] if bool(by_muon.any()) else None
        self.by_adamw = (~by_muon).to(self.weights)[:, None]
        self.pace, self.size, self.shrink = (torch.zeros_like(self.rates) for _ in range(3))
        self.correction = torch.zeros_like(self.weights[0, 0])
        self.losses = torch.zeros(ensemble.members, device=device)
        self.sums, self.dropped = (
            torch.zeros(ensemble.members, dtype=torch.float64, device=device) for _ in range(2)
        )
        self.stuck, self.counted = torch.zeros_like(self.rates), 0
        self.bound = torch.finfo(self.weights.dtype).max ** 0.8
        self.direct = None
        if batch_last and processes == 1 and DirectStep.applies(task, ensemble):
            self.direct = DirectStep(task, ensemble, settings.batch)
        self.train(Stage(ensemble.template, lambda batch: batch.target(settings.target)))

    def train(self, stage: Stage) -> None:
        """From now on, train the parameters as those of this model, towards this goal."""
        self.ensemble.template, self.goal = stage.template, stage.goal
        self.problems: tuple[Tensor, Tensor] | None = None
        self.update: Callable[[], None] = self._update
        if self.on_gpu and self.processes == 1:
            self.update = Replayed(self._update)

    def step(self, t: int, share: float) -> Tensor:
        """Step t, with that share of every member's step size; the losses before it.

        They stand on the device until the next step overwrites them.
        """
        generator = stream(self.ensemble.seeds[0], self.data, t, device=self.device)
        beta1, beta2 = self.settings.betas
        torch.mul(self.rates, share, out=self.pace)
        torch.mul(self.pace, 1 / (1 - beta1 ** (t + 1)), out=self.size)
        if self.settings.weight_decay:
            torch.mul(self.pace, self.settings.weight_decay, out=self.shrink)
        self.correction.fill_(1 - beta2 ** (t + 1))
        if self.direct is not None:
            losses, gradient = self.direct(generator)
            self._descend(losses, losses, gradient)
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
        seeds, tries = len(self.ensemble.seeds), len(self.ensemble.tries)
        settings, dtype = self.settings, self.weights.dtype
        batch = draw(self.task, settings.batch * seeds, generator, dtype, self.batch_last)

        def of_members(drawn: Tensor) -> Tensor:
            shaped = drawn.reshape(seeds, settings.batch, *drawn.shape[1:])[:, self.share]
            return shaped if tries == 1 else shaped.repeat_interleave(tries, 0)

        prompts = of_members(self.form.prompt(batch))
        target = of_members(self.goal(batch))
        if self.problems is None or not isinstance(self.update, Replayed):
            self.problems = prompts, target
        else:
            for kept, new in zip(self.problems, (prompts, target), strict=True):
                kept.copy_(new)

    def _update(self) -> None:
        """One update by the problems that are there."""
        assert self.problems is not None
        prompts, target = self.problems
        if self.settings.guard and self.on_gpu:  # what is recorded cannot look
            self._update_guarded(prompts, target)
            return
        errors = self._errors(prompts, target)
        if self.settings.guard and not bool((errors < self.bound).all()):
            self._update_guarded(prompts, target)
            return
        losses = errors.mean(1)
        (gradient,) = torch.autograd.grad(losses.sum(), self.weights)
        self._descend(losses.detach(), errors.detach(), gradient)

    def _update_guarded(self, prompts: Tensor, target: Tensor) -> None:
        """The same without the problems whose gradient would overflow, each member without its."""
        with torch.no_grad():
            seen = self._errors(prompts, target)
            kept = seen < self.bound  # which nan is not
            self.dropped.add_((~kept).sum(1))
            prompts = torch.where(kept[..., None, None], prompts, 0.0)
        errors = torch.where(kept, self._errors(prompts, target), 0.0)
        losses = errors.sum(1) / kept.sum(1).clamp(min=1)
        (gradient,) = torch.autograd.grad(losses.sum(), self.weights)
        self._descend(losses.detach(), torch.nan_to_num(seen, nan=math.inf), gradient)

    def _errors(self, prompts: Tensor, target: Tensor) -> Tensor:
        """Squared errors (members, B), the mean over the numbers of a prediction."""
        squared = (self.ensemble.predict(prompts) - target).square()
        return squared if squared.dim() == 2 else squared.mean(2)

    @torch.no_grad()
    def _descend(self, losses: Tensor, errors: Tensor, gradient: Tensor) -> None:
        """Bound each member's gradient, leave out those that are not finite, and step."""
        settings = self.settings
        if self.processes > 1:
            dist.all_reduce(gradient)
            gradient = gradient / self.processes
        norm = _norm(gradient)
        alive = norm.isfinite()
        if settings.clip:
            gradient = gradient * (settings.clip / norm.clamp(min=1e-30)).clamp(max=1.0)
        size, shrink = self.size, self.shrink if settings.weight_decay else None
        if self.on_gpu or not alive.all():  # what is recorded cannot look
            gradient, size = torch.where(alive, gradient, 0.0), torch.where(alive, size, 0.0)
            shrink = None if shrink is None else shrink * alive
            self.stuck.add_(~alive)
        if self.by_muon is not None:
            size = size * self.by_adamw
        moments = self.mean, self.square
        adamw(
            self.weights, gradient, moments, settings.betas, size, self.correction, shrink,
            self.epsilons,
        )  # fmt: skip
        if self.by_muon is not None:
            which = self.by_muon
            ahead = gradient[which].lerp(self.mean[which], settings.betas[0])  # Nesterov's
            step = muon(ahead, self.ensemble.shapes.values()) * self.pace[which]
            self.weights.index_add_(0, which, torch.where(alive[which], step, 0.0), alpha=-1)
        capped = settings.cap < math.inf
        self.sums.add_(errors.clamp(max=settings.cap).mean(1) if capped else losses)
        self.losses = losses


def _norm(gradient: Tensor) -> Tensor:
    """The norm of every row, without overflow on the way."""
    tiny = torch.finfo(gradient.dtype).tiny
    peak = gradient.abs().amax(1, keepdim=True).clamp(min=tiny)
    norm: Tensor = peak * torch.linalg.vector_norm(gradient / peak, dim=1, keepdim=True)
    return norm


def train_ensemble(
    ensemble: Ensemble,
    task: Task,
    form: Form,
    settings: Settings,
    device: torch.device | str = "cpu",
    watch: Callable[[Ensemble], Any] | None = None,
    stages: Sequence[Stage] = (),
) -> Ensemble:
    """Train all members with cosine decay, warm-up and a bound on each gradient's norm.

    `watch` is called at every logged step and its answers are kept as snapshots. `stages` share the
    steps evenly; afterwards the ensemble is of its own model again. The loss that is told is that
    of the best member.
    """
    own = ensemble.template
    trainer = Trainer(ensemble, task, form, settings, device)
    tell(0, settings.steps, math.nan)
    begins = {k * settings.steps // len(stages): stage for k, stage in enumerate(stages)}
    for t in range(settings.steps):
        if t in begins:
            trainer.train(begins[t])
        trainer.step(t, warm(t, settings.warmup) * cosine(t, settings.steps))
        done = t + 1
        if done % settings.log_every == 0 or done == settings.steps:
            losses = trainer.mean_losses()
            ensemble.curve.append((done, losses))
            tell(done, settings.steps, min(losses))
            if watch is not None:
                ensemble.snapshots.append((done, watch(ensemble)))
    ensemble.rows, ensemble.template = ensemble.rows.detach(), own
    ensemble.dropped = (trainer.dropped / (settings.steps * settings.batch)).tolist()
    ensemble.skipped = (trainer.stuck[:, 0] / settings.steps).tolist()
    return ensemble
