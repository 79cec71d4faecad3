"""Training on a GPU: a recorded step does what the same step does when it is called."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from inweave.lab.config import Config, ModelConfig, TrainConfig
from inweave.lab.ensemble import Try, assemble, tries
from inweave.lab.experiments import common
from inweave.lab.forms import form
from inweave.lab.replay import _nothing_freed
from inweave.lab.tasks import Task
from inweave.lab.train import Run
from inweave.lab.trainer import Settings, train_ensemble

TASK = Task(d=3, n=6, noise_max=1.0)
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def test_nothing_is_freed_while_work_is_recorded():
    """A recording that is part of a cycle is freed by the collector, which would end another."""

    class Cycle:
        def __init__(self):
            self.own = self

    freed: list[str] = []
    weakref.finalize(Cycle(), freed.append, "before")
    with _nothing_freed():
        assert freed == ["before"]
        weakref.finalize(Cycle(), freed.append, "meanwhile")
        junk = [[] for _ in range(10_000)]  # enough for the collector to run, if it could
        assert freed == ["before"]
    del junk
    assert gc.isenabled()


@pytest.mark.gpu
@needs_gpu
def test_recorded_training_takes_the_same_steps():
    settings = TrainConfig(
        steps=60, batch=64, lr=1e-2, warmup=10, clip=1.0, schedule="cosine", dtype="float64"
    )
    config = Config(task=TASK, model=ModelConfig(depth=2, scale=0.5, queries=1), train=settings)
    recorded, called = Run(config, "cuda"), Run(config, "cuda")
    called.trainer.update = called.trainer._update
    losses = [[float(run.step(t)) for t in range(60)] for run in (recorded, called)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)
    for mine, other in zip(recorded.model.parameters(), called.model.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-7, atol=1e-10)


@pytest.mark.gpu
@needs_gpu
def test_a_recorded_ensemble_takes_the_same_steps(monkeypatch):
    made = form("examples", TASK.n, TASK.d)
    start = common.random_start(made, bias=False, depth=2, scale=0.3, dtype=torch.float64)
    settings = Settings(steps=50, batch=64, tries=tries(3e-3, 1e-2), warmup=5, log_every=10)

    def trained():
        return train_ensemble(assemble(start, (0, 1), settings.tries), TASK, made, settings, "cuda")

    recorded = trained()
    monkeypatch.setattr("inweave.lab.replay.WARM_UP", settings.steps)
    called = trained()
    assert recorded.curve[-1][1] == pytest.approx(called.curve[-1][1], rel=1e-6)
    for name, weights in called.weights.items():
        torch.testing.assert_close(recorded.weights[name], weights, rtol=1e-7, atol=1e-10)


@pytest.mark.gpu
@needs_gpu
def test_a_recorded_step_leaves_out_what_overflows_and_steps_by_muon(monkeypatch):
    """Degree 243 on wide inputs: some problems overflow in float32, in both ways the same ones."""
    wide = Task(d=3, n=6, input_scale=2.0)
    made = form("examples", wide.n, wide.d)
    start = common.random_start(made, bias=False, depth=5, scale=0.3)
    settings = Settings(
        steps=20, batch=64, tries=(Try(1e-3, epsilon=1e-16), Try(1e-3, optimizer="muon")), warmup=5
    )

    def trained():
        return train_ensemble(assemble(start, (0, 1), settings.tries), wide, made, settings, "cuda")

    recorded = trained()
    monkeypatch.setattr("inweave.lab.replay.WARM_UP", settings.steps)
    called = trained()
    assert 0 < sum(recorded.dropped) < len(recorded.dropped)
    assert recorded.dropped == pytest.approx(called.dropped, abs=0.05)
    assert bool(recorded.rows.isfinite().all())
