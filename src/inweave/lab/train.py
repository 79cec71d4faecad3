"""One training run: exact to resume, honest when it diverges, the same on one process or several.

The data of step t comes from a stream named by (seed, t), so a checkpoint needs weights, optimizer
moments and the schedule's few numbers, and a resumed run is bit-identical to one never stopped.
Several processes (started by torchrun) draw the same global batch and each takes its share, so
their loss curve is that of one process up to rounding.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import torch
import torch.distributed as dist
from torch import Tensor, nn

from inweave.errors import DivergenceError, InputError
from inweave.files.atomic import write
from inweave.lab import checkpoint
from inweave.lab.config import Config, from_dict
from inweave.lab.direct import DirectStep, adamw, applies
from inweave.lab.replay import Replayed
from inweave.lab.tasks import Batch, draw, mse, stream
from inweave.nn import AttentionNetwork

METRICS = "metrics.jsonl"
RESULT = "result.json"


@dataclass
class Schedule:
    """The step size over time. Its state is three numbers, kept in checkpoints."""

    config: Config
    best: float = math.inf
    since: int = 0
    scale: float = 1.0

    def lr(self, step: int) -> float:
        settings = self.config.train
        warm = min(1.0, (step + 1) / settings.warmup) if settings.warmup else 1.0
        if settings.schedule == "cosine":
            part = step / settings.steps
            warm *= 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * part))
        return settings.lr * warm * self.scale

    def logged(self, loss: float, zero_loss: float) -> None:
        """Note a logged loss; on a long stand-still after the fall, lower the step size."""
        settings = self.config.train
        if settings.schedule != "plateau" or loss > settings.fallen * zero_loss:
            return
        if loss < self.best:
            self.best, self.since = loss, 0
            return
        self.since += 1
        if self.since >= settings.patience:
            self.scale, self.since = self.scale * settings.factor, 0

    def state(self) -> dict[str, Any]:
        best = self.best if math.isfinite(self.best) else None
        return {"best": best, "since": self.since, "scale": self.scale}

    def restore(self, state: dict[str, Any]) -> None:
        self.best = math.inf if state["best"] is None else float(state["best"])
        self.since = int(state["since"])
        self.scale = float(state["scale"])


class Trainer:
    """Model, optimizer and data of a run; `step(t)` does all of one step and returns its loss."""

    def __init__(
        self,
        config: Config,
        device: torch.device | str = "cpu",
        rank: int = 0,
        processes: int = 1,
        model: AttentionNetwork | None = None,
    ) -> None:
        settings = config.train
        if settings.batch % processes:
            raise InputError(
                f"batch = {settings.batch} does not divide among {processes} processes"
            )
        self.config, self.device = config, torch.device(device)
        share = settings.batch // processes
        self.share = slice(rank * share, (rank + 1) * share)
        self.form = config.make_form()
        self.model = config.make_model(device) if model is None else model
        self.batch_last = (
            self.device.type == "cpu" and self.model.reads_entries and self.form.name == "examples"
        )
        self.wrapped: nn.Module = self.model
        if processes > 1:
            from torch.nn.parallel import DistributedDataParallel

            self.wrapped = DistributedDataParallel(self.model)
        self.parameters = list(self.model.parameters())
        on_gpu = self.device.type == "cuda"
        self.optimizer = torch.optim.AdamW(
            self.parameters,
            lr=torch.tensor(settings.lr, device=self.device) if on_gpu else settings.lr,
            betas=(settings.beta1, settings.beta2),
            weight_decay=settings.weight_decay,
            fused=True,
            capturable=on_gpu,
        )
        self.direct = (
            DirectStep(config.task, self.model, settings.batch)
            if self.batch_last
            and processes == 1
            and applies(config.task, self.model, settings.torch_dtype)
            else None
        )
        self.batch: Batch | None = None
        self.loss = torch.zeros((), device=self.device)
        replayed = on_gpu and processes == 1
        self.update = Replayed(self._update, self.device) if replayed else self._update
        self.schedule = Schedule(config)
        zero = draw(config.task, 4096, stream(settings.seed, "zero"))
        self.zero_loss = float(mse(torch.zeros_like(zero.clean), zero, settings.target))

    def step(self, t: int) -> Tensor:
        """Draw, predict, differentiate, update. The loss stays on the device."""
        settings = self.config.train
        generator = stream(settings.seed, "train", t, device=self.device)
        lr = self.schedule.lr(t)
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(lr)
            else:
                group["lr"] = lr
        if self.direct is not None:
            self.loss = self.direct(generator)
            self._descend()
            return self.loss
        batch = draw(
            self.config.task, settings.batch, generator, settings.torch_dtype, self.batch_last
        )
        if len(batch) != self.share.stop - self.share.start:
            batch = batch.rows(self.share)
        if self.batch is None or not isinstance(self.update, Replayed):
            self.batch = batch
        else:
            self.batch.copy_(batch)
        self.update()
        return self.loss.clone()

    def _update(self) -> None:
        """One update by the batch that is there; the loss stands in `loss`."""
        assert self.batch is not None
        prediction = self.wrapped(self.form.prompt(self.batch))
        loss = mse(prediction, self.batch, self.config.train.target)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._descend()
        self.loss = loss.detach()

    def _descend(self) -> None:
        if self.config.train.clip:
            nn.utils.clip_grad_norm_(self.parameters, self.config.train.clip)
        if self.direct is not None:
            adamw(self.optimizer, self.parameters[0])
        else:
            self.optimizer.step()

    @torch.no_grad()
    def probe(self) -> float:
        """The loss of the weights as they are, on problems of their own."""
        settings = self.config.train
        generator = stream(settings.seed, "probe", device=self.device)
        batch = draw(self.config.task, 1024, generator, settings.torch_dtype)
        return float(mse(self.model(self.form.prompt(batch)), batch, settings.target))

    def tensors(self) -> dict[str, Tensor]:
        """Everything a checkpoint holds as arrays."""
        found: dict[str, Tensor] = {f"model.{n}": p for n, p in self.model.named_parameters()}
        for name, p in self.model.named_parameters():
            for key, value in self.optimizer.state.get(p, {}).items():
                found[f"optimizer.{key}.{name}"] = torch.as_tensor(value)
        return found

    @torch.no_grad()
    def restore(self, tensors: dict[str, Tensor]) -> None:
        for name, p in self.model.named_parameters():
            p.copy_(tensors[f"model.{name}"])
            for key in ("step", "exp_avg", "exp_avg_sq"):
                stored = tensors.get(f"optimizer.{key}.{name}")
                if stored is not None:
                    self.optimizer.state[p][key] = stored.to(p.device)


def train(
    config: Config,
    out: str | Path,
    *,
    resume: bool = False,
    device: str = "cpu",
    progress: bool = False,
) -> dict[str, Any]:
    """Run a config in a folder; returns what `result.json` holds."""
    folder = Path(out)
    with _processes(device) as (rank, count, where):
        trainer = Trainer(config, where, rank, count)
        start = _prepare(folder, config, trainer, resume, rank)
        if count > 1:
            dist.barrier()
        log = (folder / METRICS).open("a", encoding="utf-8") if rank == 0 else None
        try:
            loss = _loop(trainer, folder, start, count, log, progress and rank == 0)
        finally:
            if log is not None:
                log.close()
        result: dict[str, Any] = {"name": config.name, "digest": config.digest, "loss": loss}
        result["steps"] = config.train.steps
        if rank == 0:
            result["evaluation"] = float(_held_out(trainer))
            checkpoint.write_json(folder / RESULT, result)
        return result


def _loop(
    trainer: Trainer, folder: Path, start: int, count: int, log: TextIO | None, progress: bool
) -> float:
    settings, mean = trainer.config.train, _last_loss(folder)
    total = torch.zeros((), dtype=torch.float64, device=trainer.device)
    began = time.monotonic()
    for t in range(start, settings.steps):
        total += trainer.step(t)
        done = t + 1
        if done % settings.log_every and done != settings.steps:
            continue
        if count > 1:
            dist.all_reduce(total)
        steps = done % settings.log_every or settings.log_every
        mean = float(total) / steps / count
        total.zero_()
        lr = trainer.schedule.lr(t)
        saving = done % settings.checkpoint_every == 0 or done == settings.steps
        # the logged losses are from before each update; what is saved must be good after it
        for loss in (mean, trainer.probe()) if saving else (mean,):
            _refuse_divergence(loss, done, trainer, folder)
        trainer.schedule.logged(mean, trainer.zero_loss)
        if log is not None:
            _write(log, {"step": done, "loss": mean, "lr": lr})
            if saving:
                _save(trainer, folder, done)
        if progress:
            _show(done, settings.steps, mean, (done - start) / (time.monotonic() - began))
    return mean


def _refuse_divergence(loss: float, done: int, trainer: Trainer, folder: Path) -> None:
    if math.isfinite(loss) and loss <= 1e4 * trainer.zero_loss:
        return
    kept = json.loads((folder / checkpoint.CURRENT).read_text(encoding="utf-8"))
    raise DivergenceError(
        f"the loss is {loss:g} at step {done} (zero predictor: {trainer.zero_loss:g}); "
        f"the last good checkpoint, of step {kept['step']}, is kept in {folder}. "
        f"Try lr below {trainer.config.train.lr:g}, a longer warm-up, or clip = 1.0"
    )


def _last_loss(folder: Path) -> float:
    """The last loss that was logged: that of a run which is resumed when it has finished."""
    path = folder / METRICS
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return float(json.loads(lines[-1])["loss"]) if lines else math.nan


def _prepare(folder: Path, config: Config, trainer: Trainer, resume: bool, rank: int) -> int:
    """Make the folder ready; returns the step to start from."""
    if resume and checkpoint.exists(folder):
        tensors, state = checkpoint.load(folder)
        if state["config"] != json.loads(json.dumps(config.asdict())):
            raise InputError(
                f"{folder} holds a run with other settings; resume with its own config "
                f"({folder / checkpoint.CURRENT}) or choose another folder"
            )
        trainer.restore(tensors)
        trainer.schedule.restore(state["schedule"])
        step = int(state["step"])
        if rank == 0:
            _cut_metrics(folder / METRICS, step)
        return step
    if rank == 0:
        if checkpoint.exists(folder):
            raise InputError(f"{folder} already holds a run; resume it or choose another folder")
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / METRICS, "")
        _save(trainer, folder, 0)
    return 0


def _save(trainer: Trainer, folder: Path, step: int) -> None:
    state = {"config": trainer.config.asdict(), "schedule": trainer.schedule.state()}
    checkpoint.save(folder, step, trainer.tensors(), state)


def _cut_metrics(path: Path, step: int) -> None:
    """Drop what was logged after the checkpoint, including a line cut short by a kill."""
    kept = []
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                if json.loads(line)["step"] <= step:
                    kept.append(line + "\n")
            except ValueError:
                break
    write(path, "".join(kept))


def _write(log: TextIO, entry: dict[str, Any]) -> None:
    log.write(json.dumps(entry) + "\n")
    log.flush()


def _show(done: int, steps: int, loss: float, rate: float) -> None:
    left = (steps - done) / rate if rate else math.inf
    end = "\n" if done == steps else ""
    share = int(30 * done / steps)
    bar = "█" * share + "·" * (30 - share)
    print(
        f"\r{bar} {done}/{steps}  loss {loss:.5g}  {rate:.0f} steps/s  {left:.0f} s left ",
        end=end, file=sys.stderr, flush=True,
    )  # fmt: skip


def _held_out(trainer: Trainer) -> Tensor:
    """The loss on problems of the evaluation stream."""
    settings = trainer.config.train
    generator = stream(settings.seed, "eval", device=trainer.device)
    batch = draw(trainer.config.task, settings.eval_size, generator, settings.torch_dtype)
    with torch.no_grad():
        return mse(trainer.model(trainer.form.prompt(batch)), batch, settings.target)


@contextmanager
def _processes(device: str) -> Iterator[tuple[int, int, torch.device]]:
    """This process's rank, the number of processes and its device, from torchrun's variables."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield 0, 1, torch.device(device)
        return
    rank, local = int(os.environ["RANK"]), int(os.environ.get("LOCAL_RANK", "0"))
    where = torch.device(device if device == "cpu" else f"{device}:{local}")
    if where.type == "cuda":
        torch.cuda.set_device(where)
    dist.init_process_group("nccl" if where.type == "cuda" else "gloo")
    try:
        yield rank, count, where
        dist.barrier()  # nobody leaves while another still talks
    finally:
        dist.destroy_process_group()


def load_run(folder: str | Path, device: str = "cpu") -> tuple[Config, AttentionNetwork]:
    """The config and the trained model of a run's folder."""
    tensors, state = checkpoint.load(Path(folder))
    config = from_dict(state["config"])
    model = config.make_model(device)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(tensors[f"model.{name}"])
    return config, model
