"""What the command line does, without any command-line library.

`inweave lab` (cyclopts) and `python -m inweave.lab` (argparse, for machines with torch and little
else) are thin fronts of these functions.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from inweave.errors import InputError
from inweave.lab.checks import at_least
from inweave.lab.devices import check_device


def train(config: str, out: str = "", resume: bool = False, device: str = "cpu") -> Path:
    """Train one run from a TOML file; returns its folder."""
    from inweave.lab.config import from_toml
    from inweave.lab.train import train as run

    check_device(device)
    settings = from_toml(config)
    folder = Path(out or f"runs/{settings.name}")
    result = run(settings, folder, resume=resume, device=device, progress=True)
    if "evaluation" in result:  # of several processes the first one evaluates, and speaks
        print(f"{folder}: MSE {result['loss']:.5g} at the end, {result['evaluation']:.5g} held out")
    return folder


def evaluate(folder: str, size: int = 20_000, half: bool = False, device: str = "cpu") -> None:
    """Print a run's loss beside its baselines', and write evaluation.json."""
    from inweave.lab.evaluate import evaluate as run

    check_device(device)
    at_least(1, size=size)
    result = run(folder, size, device)
    print(table_of_losses(result, half))


def table_of_losses(result: dict[str, Any], half: bool = False) -> str:
    """The losses of `evaluation.json` as text; `half` shows half-MSE."""
    scale, name = (0.5, "half-MSE") if half else (1.0, "MSE")
    lines = [f"{'':16} {name + ' (' + result['target'] + ')':>16}  {'95 % interval':>20}  cosine"]
    for row, entry in result["table"].items():
        loss = {k: scale * v for k, v in entry["loss"].items()}
        interval = f"[{loss['low']:.5f}, {loss['high']:.5f}]"
        lines.append(f"{row:16} {loss['mean']:16.5f}  {interval:>20}  {entry['cosine']:.4f}")
    if "by_layer" in result:
        each = "  ".join(f"{scale * loss:.4f}" for loss in result["by_layer"])
        lines.append(f"read after every step, from the prompt on: {each}")
    if "by_context" in result:
        each = "  ".join(f"{k}: {scale * loss:.4f}" for k, loss in result["by_context"].items())
        lines.append(f"with fewer examples: {each}")
    return "\n".join(lines)


def run(
    name: str, out: str = "lab", quick: bool = False, device: str = "cpu", seed: int = 0
) -> Path:
    """Run one experiment and draw its figure; returns the JSON file with its results."""
    from inweave.lab.experiments import run as go
    from inweave.lab.report import report as draw
    from inweave.lab.results import stored

    check_device(device)
    path = go(name, Path(out), quick=quick, device=device, seed=seed)
    print(stored(path)["table"])
    print(f"results: {path}")
    if importlib.util.find_spec("matplotlib"):
        for made in draw([path]):
            print(f"         {made}")
    else:
        print("         no figure: matplotlib is not installed (inweave lab report draws it later)")
    return path


def report(*files: str, out: str = "") -> list[Path]:
    """Figures and tables from the JSON files of experiments, or from a run's folder."""
    from inweave.lab.report import report as go

    if not files:
        raise InputError("name at least one result file or run folder")
    made = go([Path(f) for f in files], Path(out) if out else None)
    for path in made:
        print(path)
    return made


def sweep(
    *configs: str, out: str = "runs", workers: int = 2, dask: str = "", device: str = "cpu"
) -> bool:
    """Train many configs; True if all finished."""
    from inweave.lab.config import from_toml
    from inweave.lab.sweep import sweep as go

    check_device(device, here=not dask)
    settings = [from_toml(path) for path in configs]
    if dask:
        from distributed import Client

        with Client(dask) as client:  # type: ignore[no-untyped-call]
            results = go(settings, out, executor=client.get_executor(), device=device)
    else:
        results = go(settings, out, workers=workers, device=device)
    for name, result in results.items():
        print(f"{name:24} {result.get('failed') or format(result['evaluation'], '.5g')}")
    return not any("failed" in result for result in results.values())


def names() -> list[str]:
    """The experiments that come with the lab."""
    from inweave.lab.experiments import EXPERIMENTS

    return list(EXPERIMENTS)
