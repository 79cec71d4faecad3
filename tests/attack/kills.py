"""kill -9 while files are written: afterwards there is the old one or the new one, and it is whole.

Saving a network, training and a sweep, each killed at a random moment. A killed training goes on
from its checkpoint and ends with the very numbers of one that was left alone.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import inweave
from inweave import Network, gallery
from inweave.lab.config import Config, ModelConfig, TrainConfig
from inweave.lab.sweep import sweep
from inweave.lab.tasks import Task
from inweave.lab.train import METRICS, train
from tests.attack.forked import run, started, wait_until

SMALL = Config(
    task=Task(d=2, n=4),
    model=ModelConfig(depth=1, scale=0.3),
    train=TrainConfig(steps=60, batch=16, log_every=5, checkpoint_every=5, eval_size=50),
)


def killed(function: Callable[[], int], ready: Callable[[], bool], after: float) -> None:
    """Run a function in a process (and its children), and kill them all some time after `ready`."""
    with started(function) as pid:
        wait_until(ready)
        time.sleep(after)
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def attack(count: int, rng: random.Random) -> Counter[str]:
    """Kill as often as told: half of the time while saving, the rest while training."""
    nets = [gallery.get("ridge_gd").compile(n=n, d=2, steps=3) for n in (4, 30)]
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        expected = alone(folder / "alone")
        for i in range(count):
            if i % 4 < 2:
                found[saving(folder / "save", nets, rng)] += 1
            elif i % 4 == 2:
                found[training(folder / "train", expected, rng)] += 1
            else:
                found[sweeping(folder / "sweep", expected, rng)] += 1
    return found


# -- saving ---------------------------------------------------------------------------------------
def saving(folder: Path, nets: list[Network], rng: random.Random) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / "net.inweave"
    nets[0].save(path)

    def forever() -> int:
        while True:
            for net in reversed(nets):
                net.save(path)

    first = path.stat().st_mtime_ns
    killed(forever, lambda: path.stat().st_mtime_ns != first, rng.random() * 0.02)
    there = inweave.load(path)
    assert there in nets, "the file is neither the old one nor the new one"
    nets[0].save(path)
    left = [p.name for p in folder.iterdir() if p != path]
    assert not left, f"drafts are left behind: {left}"
    return "save: whole"


# -- training -------------------------------------------------------------------------------------
def curve(folder: Path) -> list[dict[str, Any]]:
    """What a run measured, without what depends on the clock."""
    lines = [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]
    return [{k: v for k, v in line.items() if k in ("step", "loss")} for line in lines]


def completed(function: Callable[[], int]) -> None:
    ended = run(function)
    assert ended.code == 0, ended.err.decode(errors="replace")


def trained(folder: Path, resume: bool) -> int:
    train(SMALL, folder, resume=resume)
    return 0


def alone(folder: Path) -> list[dict[str, Any]]:
    """The curve of a run that nobody disturbs."""
    completed(partial(trained, folder, False))
    return curve(folder)


def training(folder: Path, expected: list[dict[str, Any]], rng: random.Random) -> str:
    shutil.rmtree(folder, ignore_errors=True)
    metrics = folder / METRICS
    killed(partial(trained, folder, False), metrics.exists, rng.random() * 0.3)
    completed(partial(trained, folder, True))
    assert curve(folder) == expected, "a resumed run is another one"
    return "train: the same numbers"


# -- sweeps ---------------------------------------------------------------------------------------
def swept(folder: Path) -> int:
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:  # torch is loaded here
        found = sweep([replace(SMALL, name="a"), replace(SMALL, name="b")], folder, executor=pool)
    return int(any("failed" in result for result in found.values()))


def sweeping(folder: Path, expected: list[dict[str, Any]], rng: random.Random) -> str:
    shutil.rmtree(folder, ignore_errors=True)
    killed(partial(swept, folder), lambda: any(folder.rglob(METRICS)), rng.random() * 0.5)
    completed(partial(swept, folder))
    assert curve(folder / "a") == curve(folder / "b") == expected, "a resumed sweep is another one"
    return "sweep: the same numbers"
