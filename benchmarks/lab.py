"""Training speed: one LSA layer of inweave beside the module one would write by hand.

d = n = 10, uniform inputs, batch 2048, CPU milliseconds per step on one thread, for everything a
step takes: drawing the data, forward, backward, Adam. The plain module makes query, key and value
of every token and differentiates through all of it. The two are timed in alternating stretches, so
that whatever else the machine does falls on both, and the median of their ratios counts. Both
train for the same number of steps, and both losses are reported: speed at unequal loss would mean
nothing.

On a GPU there is one more row: steps per second of the four-layer model of the experiment `noise`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.measure import Spread
from benchmarks.row import Row
from inweave.lab.baselines import one_step_loss
from inweave.lab.config import Config, ModelConfig, TrainConfig
from inweave.lab.tasks import Task, draw, mse, stream
from inweave.lab.train import Run

TASK = Task(d=10, n=10, inputs="uniform")
NOISY = Task(d=10, n=20, noise_max=5.0)
BATCH, LR, STEPS = 2048, 1e-2, 2000


class PlainAttention(nn.Module):
    """Linear self-attention as it is usually written."""

    def __init__(self, features: int, scale: float, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.query, self.key, self.value = (nn.Linear(features, features, False) for _ in range(3))
        for linear in (self.query, self.key, self.value):
            drawn = torch.randn(features, features, generator=generator)
            linear.weight.data = drawn * scale / features**0.5

    def forward(self, H: Tensor) -> Tensor:
        q, k, v = self.query(H), self.key(H), self.value(H)
        return H + (q @ k.transpose(-1, -2)) @ v


class PlainTrainer:
    """The usual loop around `layers` plain layers: torch.rand, torch.cat, Adam."""

    def __init__(self, task: Task, layers: int, batch: int, lr: float, device: str = "cpu") -> None:
        self.task, self.batch, self.device = task, batch, device
        stack = [PlainAttention(task.d + 1, 0.3, i) for i in range(layers)]
        self.model = nn.Sequential(*stack).to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)

    def step(self, _: int) -> Tensor:
        shape = (self.batch, self.task.n + 1, self.task.d)
        if self.task.inputs == "uniform":
            points = torch.rand(shape, device=self.device) - 0.5
        else:
            points = torch.randn(shape, device=self.device)
        y = points @ torch.randn(self.batch, self.task.d, 1, device=self.device)
        if self.task.noise_max:
            sigma = self.task.noise_max * torch.rand(self.batch, 1, 1, device=self.device)
            y = y + sigma * torch.randn_like(y)
        target = y[:, -1, 0].clone()
        y[:, -1] = 0.0
        prediction = self.model(torch.cat([points, y], -1))[:, -1, -1]
        loss = (prediction - target).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def side_by_side(
    one: Callable[[int], Any], other: Callable[[int], Any], steps: int, stretch: int = 50
) -> tuple[list[float], list[float]]:
    """CPU milliseconds per step of each, in alternating stretches."""
    times: tuple[list[float], list[float]] = ([], [])
    for start in range(0, steps, stretch):
        for step, found in zip((one, other), times, strict=True):
            began = time.process_time()
            for t in range(start, start + stretch):
                step(t)
            found.append((time.process_time() - began) / stretch * 1e3)
    return times


def lsa_training(steps: int = STEPS) -> Row:
    """CPU time of a step of one LSA layer, as a share of the plain module's."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        settings = TrainConfig(steps=steps, batch=BATCH, lr=LR)
        ours = Run(Config(task=TASK, model=ModelConfig(scale=0.3), train=settings))
        plain = PlainTrainer(TASK, 1, BATCH, LR)
        fast, slow = side_by_side(ours.step, plain.step, steps)
    finally:
        torch.set_num_threads(threads)
    batch = draw(TASK, 50_000, stream(0, "eval"))
    prompts = ours.form.prompt(batch)
    with torch.no_grad():
        own = float(mse(ours.model(prompts), batch))
        prompts[:, :-1, -1] *= -1  # the plain module is given y, inweave's form holds -y
        other = float(mse(plain.model(prompts)[:, -1, -1], batch))
    shares = [a / b for a, b in zip(fast, slow, strict=True)]
    return Row.of(
        "lab",
        "train one LSA layer, d = n = 10, batch 2048, CPU time per step",
        Spread(*statistics.quantiles(shares, n=4)),
        against="plain torch module",
        bar=0.25,
        seconds={
            "inweave": statistics.median(fast) / 1e3,
            "plain torch module": statistics.median(slow) / 1e3,
        },
        note=f"MSE after {steps} steps: inweave {own:.4f}, plain {other:.4f}, "
        f"closed form {one_step_loss(TASK):.4f}",
    )


def gpu_training(steps: int = 200, repeats: int = 5) -> Row:
    """Seconds per step of four untied LSA layers on a GPU, as a share of four plain ones'."""
    settings = TrainConfig(steps=steps, batch=BATCH, lr=1e-3, target="noisy")
    config = Config(task=NOISY, model=ModelConfig(depth=4, scale=0.3), train=settings)
    trainers = (Run(config, "cuda"), PlainTrainer(NOISY, 4, BATCH, 1e-3, "cuda"))
    times: tuple[list[float], list[float]] = ([], [])
    for repeat in range(repeats + 1):
        for trainer, found in zip(trainers, times, strict=True):
            torch.cuda.synchronize()
            began = time.perf_counter()
            for t in range(steps):
                trainer.step(t)
            torch.cuda.synchronize()
            if repeat:  # the first is for warming up
                found.append((time.perf_counter() - began) / steps)
    shares = sorted(a / b for a, b in zip(*times, strict=True))
    ours, plain = (statistics.median(found) for found in times)
    return Row.of(
        "lab",
        "train four LSA layers, d = 10, n = 20, batch 2048, GPU",
        Spread(shares[0], statistics.median(shares), shares[-1]),
        against="plain torch module",
        seconds={"inweave": ours, "plain torch module": plain},
        note=f"{torch.cuda.get_device_name()}: {1 / ours:.0f} steps/s, plain {1 / plain:.0f}",
    )


def rows(quick: bool = False) -> list[Row]:
    """All rows that this machine can measure."""
    found = [lsa_training(400 if quick else STEPS)]
    if torch.cuda.is_available():
        found.append(gpu_training())
    return found


if __name__ == "__main__":
    for line in rows():
        print(line.to_json())
