"""The experiments that come with the lab: one file per question.

Each has a `--quick` form (minutes on two cores) and a full form (minutes on one GPU), and writes
one JSON file: settings, rows of a table, series of a figure, and the claims it was made to test,
each with the number found and whether it holds. Figures are made from the JSON by
`inweave.lab.report`, so the machine that computes needs torch and numpy only.

Those with a `run` reproduce published numbers. Those with a `study` settle open questions by the
method of `inweave.lab.study`: each arm has a file of its own in a folder beside the JSON, and
`answer` says what they amount to, as soon as there are some. Their `QUICK` says what the quick form
can support and what it cannot.
"""

from __future__ import annotations

import importlib
import math
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inweave.errors import InputError


@dataclass(frozen=True)
class Experiment:
    """What it asks, and how many seconds it takes, about: on one CPU core, and in full on a GPU."""

    question: str
    quick: float
    full: float


EXPERIMENTS = {
    "one-step": Experiment(
        "Does one trained LSA layer do one optimal step of gradient descent?", 10, 57
    ),
    "two-step": Experiment(
        "What do two tied LSA layers learn: two gradient steps, or GD++?", 40, 449
    ),
    "gaussian-one-layer": Experiment(
        "Does one trained LSA layer reach d(d+1)/(n+d+1) on normal inputs?", 15, 77
    ),
    "preconditioner": Experiment("Do the layers learn to precondition with Σ⁻¹?", 40, 447),
    "construction": Experiment("Can training find the paper's constructions?", 35, 326),
    "bias": Experiment("Does the bias help when networks are trained?", 60, 884),
    "nonlinearity": Experiment("Does a nonlinearity in attention help?", 100, 530),
    "extraction": Experiment("Is hard extraction enough, or does it take weights?", 60, 238),
    "explained": Experiment("What do networks compute that beat their construction?", 30, 83),
    "noise": Experiment(
        "Do deeper LSA networks adapt to a noise level that changes per prompt?", 55, 16
    ),
    "perturb": Experiment(
        "How much noise does a construction bear, and does training repair it?", 15, 32
    ),
}


def named(name: str) -> Sequence[str]:
    """The experiment of that name, or all studies."""
    if name == "all":
        return [each for each in EXPERIMENTS if hasattr(_module(each), "study")]
    if name not in EXPERIMENTS:
        raise InputError(f"no experiment {name!r}; there are {', '.join(EXPERIMENTS)}, and all")
    return [name]


def check_studies(names: Sequence[str], part: tuple[int, int], share: float) -> None:
    """Refuse a part, or a share of the steps, of what is no study: it is run whole."""
    for name in names:
        if (part != (1, 1) or share != 1.0) and not hasattr(_module(name), "study"):
            raise InputError(f"{name} is no study, it is run whole: leave out --part and --share")


def run(
    name: str,
    out: Path,
    *,
    quick: bool = False,
    device: str = "cpu",
    seed: int = 0,
    within: float = math.inf,
    part: tuple[int, int] = (1, 1),
    share: float = 1.0,
) -> Path:
    """Run one experiment and write `NAME.json`; returns its path.

    A study goes on from the arms that are in `out/NAME`, begins none that would not end `within` so
    many seconds, and takes a `part` of them; `share` shortens all training by one factor. Its
    `seconds` are those of all its arms, divided among as many processes as there are parts.
    """
    from inweave.lab.checkpoint import write_json
    from inweave.lab.tensors import torch  # here, so that experiments are listed without it

    (name,) = named(name)
    check_studies([name], part, share)
    module = _module(name)
    began, cpu = time.monotonic(), time.process_time()
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}.json"
    said = {"--quick": quick, f"--share {share:g}": share != 1.0}
    options = " ".join(option for option, is_given in said.items() if is_given)

    def found() -> dict[str, Any]:
        if hasattr(module, "run"):
            return {"complete": True} | dict(module.run(quick=quick, device=device, seed=seed))
        study = module.study(quick, seed).scaled(share)
        content = _studied(module, study, out / name, device, within, part)
        if quick:
            content["supports"] = module.QUICK
            content["table"] += f"\n\n{module.QUICK}"
        return content

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # products this small only wait for each other on more
    try:
        content = found()
    finally:
        torch.set_num_threads(threads)
    trained_on = device if content.get("device", "CPU") == "CPU" else "cuda"
    header = {
        "name": name,
        "question": EXPERIMENTS[name].question,
        "command": " ".join(
            filter(None, ("inweave lab run", name, options, f"--device {trained_on} --seed {seed}"))
        ),
        "quick": quick,
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else "CPU",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
    }
    write_json(path, header | content)
    return path


def _studied(
    module: Any, study: Any, folder: Path, device: str, within: float, part: tuple[int, int]
) -> dict[str, Any]:
    from inweave.lab import study as method

    method.run(study, folder, device, within, part)
    results = method.Results.read(study, folder)
    missing = results.missing
    spent = sum(each["seconds"] for each in results.by_arm.values())
    where = [{key: each[key] for key in ("device", "torch")} for each in results.by_arm.values()]
    return {
        "complete": not missing, "missing": missing, "seeds": len(study.seeds),
        "arm_seconds": round(spent, 1), "seconds": round(spent / part[1], 1),
        **(where[0] if where else {}), **module.answer(results),
    }  # fmt: skip


def _module(name: str) -> Any:
    return importlib.import_module(f"inweave.lab.experiments.{name.replace('-', '_')}")
