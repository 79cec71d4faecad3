"""One training run: exact to resume, honest when it diverges, the same on one process or several.

The data of step t comes from a stream named by (seed, t), so a checkpoint needs weights, the
optimizer's moments and the schedule's few numbers, and a resumed run is bit-identical to one never
stopped. Several processes (started by torchrun) draw the same global batch and each takes its
share, so their loss curve is that of one process up to rounding.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from inweave.atomic import write
from inweave.errors import DivergenceError, FileFormatError, InputError
from inweave.lab import checkpoint
from inweave.lab.config import Config, from_dict
from inweave.lab.devices import within_memory
from inweave.lab.ensemble import Try, assemble
from inweave.lab.progress import tell
from inweave.lab.results import METRICS, logged
from inweave.lab.tasks import draw, mse, stream
from inweave.lab.tensors import Tensor, dist, torch
from inweave.lab.trainer import Settings, Trainer, cosine, warm
from inweave.nn import AttentionNetwork

RESULT = "result.json"
OWN = (METRICS, checkpoint.CURRENT, RESULT)  # the files of a run's folder, but for its tensors


@dataclass
class Schedule:
    """The step size over time. Its state is three numbers, kept in checkpoints."""

    config: Config
    best: float = math.inf
    since: int = 0
    scale: float = 1.0

    def share(self, step: int) -> float:
        """The share of the settings' step size."""
        settings = self.config.train
        falling = cosine(step, settings.steps) if settings.schedule == "cosine" else 1.0
        return warm(step, settings.warmup) * falling * self.scale

    def lr(self, step: int) -> float:
        return self.config.train.lr * self.share(step)

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

    def state(self) -> checkpoint.Scheduled:
        best = self.best if math.isfinite(self.best) else None
        return {"best": best, "since": self.since, "scale": self.scale}

    def restore(self, state: checkpoint.Scheduled) -> None:
        self.best = math.inf if state["best"] is None else state["best"]
        self.since, self.scale = state["since"], state["scale"]


class Run:
    """A config's ensemble of one, its trainer and its schedule; `step(t)` does all of one step."""

    def __init__(
        self, config: Config, device: torch.device | str = "cpu", rank: int = 0, processes: int = 1
    ) -> None:
        s = config.train
        self.config, self.device = config, torch.device(device)
        self.form, self.schedule = config.make_form(), Schedule(config)
        model = config.make_model()
        self.ensemble = assemble(lambda _: model, (s.seed,), (Try(s.lr),))
        settings = Settings(
            s.steps, s.batch, clip=s.clip, betas=(s.beta1, s.beta2), target=s.target,
            weight_decay=s.weight_decay, guard=False,
        )  # fmt: skip
        on_cpu = self.device.type == "cpu"
        innermost = on_cpu and model.reads_entries and self.form.name == "examples"
        self.trainer = Trainer(
            self.ensemble, config.task, self.form, settings, device,
            data="train", batch_last=innermost, rank=rank, processes=processes,
        )  # fmt: skip
        zero = draw(config.task, 4096, stream(s.seed, "zero"))
        self.zero_loss = float(mse(torch.zeros_like(zero.clean), zero, s.target))

    @property
    def model(self) -> AttentionNetwork:
        """The model as it is now, on the CPU."""
        return self.ensemble.member(0)

    def step(self, t: int) -> Tensor:
        """Draw, predict, differentiate, update. The loss stays on the device."""
        return self.trainer.step(t, self.schedule.share(t))[0]

    def loss_on(self, name: str, size: int) -> float:
        """The loss of the weights as they are, on problems of a stream of their own."""
        batch = self.config.problems(name, size, self.device)
        return float(self.ensemble.losses(self.form, batch, self.config.train.target))

    def tensors(self) -> dict[str, Tensor]:
        """Everything a checkpoint holds as arrays."""
        weights = {f"model.{name}": w[0].clone() for name, w in self.ensemble.weights.items()}
        return weights | {"mean": self.trainer.mean, "square": self.trainer.square}

    @torch.no_grad()
    def resume(self, folder: Path) -> int:
        """Become the run of a folder's checkpoint; the step to go on from."""
        tensors, state = checkpoint.load(folder)
        if state["config"] != json.loads(json.dumps(self.config.asdict())):
            raise InputError(
                f"{folder} holds a run with other settings; resume with its own config "
                f"({folder / checkpoint.CURRENT}) or choose another folder"
            )
        if state["step"] > self.config.train.steps:
            raise FileFormatError(
                f"the checkpoint of {folder} is of step {state['step']}, "
                f"its run has {self.config.train.steps}"
            )
        checkpoint.expect(folder, tensors, self.tensors())
        stored = [tensors[f"model.{name}"].flatten() for name in self.ensemble.shapes]
        self.ensemble.rows.copy_(torch.cat(stored).unsqueeze(0))
        self.trainer.mean.copy_(tensors["mean"])
        self.trainer.square.copy_(tensors["square"])
        self.schedule.restore(state["schedule"])
        return state["step"]


@within_memory()
def train(
    config: Config, out: str | Path, *, resume: bool = False, device: str = "cpu"
) -> dict[str, Any]:
    """Run a config in a folder; returns what `result.json` holds."""
    folder = Path(out)
    with _processes(device) as (rank, count, where):
        run = Run(config, where, rank, count)
        start = _prepare(folder, run, resume, rank)
        if count > 1:
            dist.barrier()
        log = (folder / METRICS).open("a", encoding="utf-8") if rank == 0 else None
        try:
            loss = _loop(run, folder, start, log)
        finally:
            if log is not None:
                log.close()
        result: dict[str, Any] = {"name": config.name, "digest": config.digest, "loss": loss}
        result["steps"] = config.train.steps
        if rank == 0:
            result["evaluation"] = run.loss_on("eval", config.train.eval_size)
            checkpoint.write_json(folder / RESULT, result)
        return result


def _loop(run: Run, folder: Path, start: int, log: TextIO | None) -> float:
    settings, before = run.config.train, logged(folder)
    mean = before[-1]["loss"] if before else math.nan  # of a run resumed when it has finished
    if log is not None:
        tell(start, settings.steps, math.nan)
    for t in range(start, settings.steps):
        run.step(t)
        done = t + 1
        if done % settings.log_every and done != settings.steps:
            continue
        (mean,) = run.trainer.mean_losses()
        lr = run.schedule.lr(t)
        saving = done % settings.checkpoint_every == 0 or done == settings.steps
        # the logged losses are from before each update; what is saved must be good after it
        for loss in (mean, run.loss_on("probe", 1024)) if saving else (mean,):
            _refuse_divergence(loss, done, run, folder)
        run.schedule.logged(mean, run.zero_loss)
        if log is not None:
            log.write(json.dumps({"step": done, "loss": mean, "lr": lr}) + "\n")
            log.flush()
            if saving:
                os.fsync(log.fileno())  # who resumes the checkpoint needs what was logged before it
                _save(run, folder, done)
            tell(done, settings.steps, mean)
    return mean


def _refuse_divergence(loss: float, done: int, run: Run, folder: Path) -> None:
    if math.isfinite(loss) and loss <= 1e4 * run.zero_loss:
        return
    kept = checkpoint.current(folder)
    raise DivergenceError(
        f"the loss is {loss:g} at step {done} (zero predictor: {run.zero_loss:g}); "
        f"the last good checkpoint, of step {kept['step']}, is kept in {folder}. "
        f"Try lr below {run.config.train.lr:g}, a longer warm-up, or clip = 1.0"
    )


def _prepare(folder: Path, run: Run, resume: bool, rank: int) -> int:
    """Make the folder ready; returns the step to start from."""
    if resume and checkpoint.exists(folder):
        step = run.resume(folder)
        if rank == 0:
            _cut_metrics(folder, step, run.config)
        return step
    settings = run.config.train  # as many problems as will be needed: what does not fit shows now
    run.config.problems("largest", max(settings.batch, settings.eval_size), run.device)
    if rank == 0:
        if checkpoint.exists(folder):
            raise InputError(f"{folder} already holds a run; resume it or choose another folder")
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / METRICS, "")
        _save(run, folder, 0)
    return 0


def _save(run: Run, folder: Path, step: int) -> None:
    state = checkpoint.State(config=run.config.asdict(), schedule=run.schedule.state())
    checkpoint.save(folder, step, run.tensors(), state)


def _cut_metrics(folder: Path, step: int, config: Config) -> None:
    """Drop what was logged after the checkpoint; refuse a log that lacks what was before it."""
    kept = [entry for entry in logged(folder) if entry["step"] <= step]
    steps = [entry["step"] for entry in kept if math.isfinite(entry["loss"])]
    every = config.train.log_every
    expected = [*range(every, step + 1, every), *([step] if step % every else [])]
    if steps != expected:
        raise FileFormatError(
            f"{folder / METRICS} is damaged: up to the checkpoint's step {step} there must be one "
            f"finite loss every {every} steps, {len(expected)} in all; it has those of "
            f"{len(steps)} steps. Restore the file, or train in another folder"
        )
    entries = [{"step": entry["step"], "loss": entry["loss"]} | entry for entry in kept]
    write(folder / METRICS, "".join(json.dumps(entry) + "\n" for entry in entries))


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


@within_memory()
def load_run(folder: str | Path, device: str = "cpu") -> tuple[Config, AttentionNetwork]:
    """The config and the trained model of a run's folder."""
    tensors, state = checkpoint.load(Path(folder))
    config = from_dict(state["config"])
    for where in ("meta", device):  # shapes alone first: nothing is allocated that is not there
        model = config.make_model(where)
        weights = {f"model.{name}": p for name, p in model.named_parameters()}
        checkpoint.expect(Path(folder), tensors, weights)
    with torch.no_grad():
        for name, p in weights.items():
            p.copy_(tensors[name])
    return config, model
