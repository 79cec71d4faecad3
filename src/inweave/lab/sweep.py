"""Many runs over any executor with `submit`, as in concurrent.futures.

Local processes by default; a Dask client's executor when one machine is outgrown. A run that fails
is recorded with its traceback and the sweep goes on; a run that has finished with the same settings
is not done again; one that was interrupted is resumed from its checkpoint.
"""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from inweave.errors import InputError, InweaveError
from inweave.lab import checkpoint
from inweave.lab.checks import at_least
from inweave.lab.config import Config, from_dict
from inweave.lab.progress import LOGGER
from inweave.lab.results import stored

FAILURE = "failure.json"


class Future(Protocol):
    def result(self) -> Any: ...


class Executor(Protocol):
    """What a sweep needs of an executor."""

    def submit(self, function: Any, /, *arguments: Any) -> Future: ...


def run_one(config: dict[str, Any], folder: str, device: str) -> dict[str, Any]:
    """One run, in whatever process this is called; a failure is a result, not an exception."""
    import torch

    from inweave.lab.train import train

    torch.set_num_threads(1)
    try:
        result = train(from_dict(config), folder, resume=True, device=device)
    except Exception as error:
        result = {"failed": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        Path(folder).mkdir(parents=True, exist_ok=True)
        checkpoint.write_json(Path(folder) / FAILURE, result)
        return result
    (Path(folder) / FAILURE).unlink(missing_ok=True)
    return result


def sweep(
    configs: Sequence[Config],
    out: str | Path,
    *,
    executor: Executor | None = None,
    workers: int = 2,
    device: str = "cpu",
) -> dict[str, dict[str, Any]]:
    """Run every config in `out/NAME`; returns each run's result, or how it failed, by name.

    Each end is logged, as training is (`inweave.lab.progress`).
    """
    at_least(1, workers=workers)
    names = [config.name for config in configs]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two runs of the sweep are named {name!r}; names are folders")
    folder = Path(out)
    results = {c.name: done for c in configs if (done := _finished(folder / c.name, c)) is not None}
    todo = [config for config in configs if config.name not in results]
    if executor is not None:
        results |= _collect(executor, todo, folder, device)
    elif todo:
        with _local(min(workers, len(todo))) as pool:
            results |= _collect(pool, todo, folder, device)
        for config in todo:
            # A process that dies takes its pool along. Each run that went down with it is tried
            # again alone: the one at fault fails again, the bystanders finish.
            if results[config.name].get("lost"):
                with _local(1) as pool:
                    results |= _collect(pool, [config], folder, device)
    checkpoint.write_json(folder / "sweep.json", results)
    return {name: results[name] for name in names}


def _local(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


def _collect(
    executor: Executor, configs: Sequence[Config], folder: Path, device: str
) -> dict[str, dict[str, Any]]:
    folder.mkdir(parents=True, exist_ok=True)
    waiting: list[tuple[str, Future | None, str]] = []
    for config in configs:
        try:
            job = executor.submit(run_one, config.asdict(), str(folder / config.name), device)
            waiting.append((config.name, job, ""))
        except BrokenExecutor as error:
            waiting.append((config.name, None, str(error)))
    results: dict[str, dict[str, Any]] = {}
    for name, future, said in waiting:
        try:
            if future is None:
                raise BrokenExecutor(said)
            results[name] = future.result()
        except Exception as error:  # the executor's own: a killed process, a lost connection
            results[name] = {"failed": f"{type(error).__name__}: {error}", "lost": True}
            (folder / name).mkdir(parents=True, exist_ok=True)
            checkpoint.write_json(folder / name / FAILURE, results[name])
        said = "failed" if "failed" in results[name] else "done"
        LOGGER.info("%s: %s, %d of %d", name, said, len(results), len(configs))
    return results


def _finished(folder: Path, config: Config) -> dict[str, Any] | None:
    """The stored result of a run with these very settings."""
    from inweave.lab.train import RESULT

    try:
        found = stored(folder / RESULT)
    except InweaveError:
        return None
    same = isinstance(found, dict) and found.get("digest") == config.digest
    return dict(found) if same else None
