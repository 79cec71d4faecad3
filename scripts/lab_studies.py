"""Runs studies of the lab in several processes side by side, which one GPU can serve.

    python -m scripts.lab_studies bias noise --out results --processes 8 --within 500

A step of small networks is many small kernels, between which a GPU waits for one process; others
fill the gaps, and run beside them where the driver's multi-process service can be started. What is
not done within that time is done by the same command, given again: every arm has a file of its own.
At the end it says what is missing, and what a step of each study takes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from inweave.lab.experiments import named

PASSED_ON = ("device", "out", "within", "share", "seed")
SERVICE = "nvidia-cuda-mps-control"
TRIED = [sys.executable, "-c", "import torch; torch.ones(2, device='cuda').sum().item()"]
SLACK = 20.0  # seconds that a process may take to notice that its time is over


def main() -> int:
    asked = _asked()
    studies = [each for name in asked.names for each in named(name)]
    asked.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    ends = began + asked.within
    with _service(asked.device) as environment:
        asked.within = ends - time.monotonic()
        running = [_start(studies, k, asked, environment) for k in range(1, asked.processes + 1)]
        for process in running:
            try:
                process.wait(max(1.0, ends + SLACK - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
    for name in studies:
        print(_said(name, asked.out))
    print(f"{time.monotonic() - began:.0f} s")
    return 0


def _asked() -> Any:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", default=["all"])
    parser.add_argument("--out", type=Path, default=Path("lab"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--within", type=float, default=500.0)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


@contextmanager
def _service(device: str) -> Iterator[dict[str, str]]:
    """The environment in which processes run kernels at the same time; as it is, if none can."""
    plain = dict(os.environ)
    if not device.startswith("cuda") or not shutil.which(SERVICE):
        yield plain
        return
    with tempfile.TemporaryDirectory() as folder:
        shared = plain | {f"CUDA_MPS_{name}_DIRECTORY": folder for name in ("PIPE", "LOG")}
        subprocess.run([SERVICE, "-d"], env=shared, check=False)
        try:
            works = subprocess.run(TRIED, env=shared, timeout=30, check=False).returncode == 0
        except subprocess.TimeoutExpired:
            works = False
        if not works:
            subprocess.run([SERVICE], input=b"quit\n", env=shared, check=False)
        print("kernels of several processes", "run" if works else "cannot run", "at the same time")
        yield shared if works else plain
        if works:
            subprocess.run([SERVICE], input=b"quit\n", env=shared, check=False)


def _start(
    studies: list[str], k: int, asked: Any, environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    """Process k, which begins with another study than the one before it."""
    turned = studies[k % len(studies) :] + studies[: k % len(studies)]
    options = [f"--part={k}/{asked.processes}"]
    options += [f"--{name}={vars(asked)[name]}" for name in PASSED_ON]
    command = [sys.executable, "-m", "inweave", "lab", "run", *turned, *options]
    log = (asked.out / f"part-{k}.log").open("ab")
    return subprocess.Popen(
        command + ["--quick"] * asked.quick, stdout=log, stderr=subprocess.STDOUT, env=environment
    )


def _said(name: str, out: Path) -> str:
    """How far a study is."""
    arms = [json.loads(path.read_text()) for path in (out / name).glob("*.json")]
    paces = [1000 * arm["seconds_per_step"] for arm in arms if "arm" in arm]
    searches = [1000 * arm["seconds_per_step"] for arm in arms if "tries" in arm]
    if not paces:
        return f"{name}: nothing yet"
    return (
        f"{name}: {len(paces)} arms; ms per step: {statistics.fmean(paces):.2f} (mean), "
        f"{max(paces):.2f} (most), {statistics.fmean(searches):.2f} when searching"
    )


if __name__ == "__main__":
    sys.exit(main())
