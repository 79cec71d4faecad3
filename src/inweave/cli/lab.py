"""`inweave lab`: train networks of the compiled shape, and run the experiments.

The lab brings torch, so each command imports what it needs of it when it runs.
"""

from __future__ import annotations

import json
import math
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from inweave.atomic import check_apart
from inweave.cli import output
from inweave.cli.options import FLAG
from inweave.cli.training import watched
from inweave.errors import InputError, needs_extra

HELP = """Train networks of the compiled shape and compare them with the constructed.

For example:

    inweave lab list

    inweave lab run one-step --quick

    inweave lab train run.toml

    torchrun --nproc-per-node 2 -m inweave lab train run.toml
"""

Device = Annotated[str, Parameter(help="cpu, cuda or cuda:NUMBER.")]
Flag = Annotated[bool, FLAG]

lab = App(name="lab", help=HELP, version_flags=[])


@lab.command
def train(
    config: Path, /, *, out: Path | None = None, resume: Flag = False, device: Device = "cpu"
) -> None:
    """Train one run.

    Started by torchrun, several processes share each batch.

    For example:

        inweave lab train run.toml

        inweave lab train run.toml --out runs/again --device cuda

        inweave lab train run.toml --resume

    Parameters
    ----------
    config
        A TOML file with the tables task, form, model and train.
    out
        The run's folder; runs/NAME if not given.
    resume
        Continue from the folder's checkpoint.
    """
    from inweave.lab.config import from_toml
    from inweave.lab.devices import check_device
    from inweave.lab.train import OWN, train

    check_device(device)
    settings = from_toml(config)
    folder = out or Path("runs", settings.name)
    for name in OWN:
        check_apart(folder / name, [config])
    with watched(f"training {settings.name}"):
        result = train(settings, folder, resume=resume, device=device)
    if "evaluation" in result:  # of several processes the first one evaluates, and speaks
        loss, held_out = result["loss"], result["evaluation"]
        output.say(f"{folder}: MSE {loss:.5g} at the end, {held_out:.5g} held out")


@lab.command
def evaluate(
    folder: Path, /, *, size: int = 20_000, half: Flag = False, device: Device = "cpu"
) -> None:
    """Compare a trained run with its baselines on held-out problems.

    For example:

        inweave lab evaluate runs/run

        inweave lab evaluate runs/run --size 100000 --half

    Parameters
    ----------
    folder
        A run's folder; evaluation.json goes there.
    size
        How many problems.
    half
        Show half-MSE instead of MSE.
    """
    from inweave.lab.checks import at_least
    from inweave.lab.devices import check_device
    from inweave.lab.evaluate import evaluate

    check_device(device)
    at_least(1, size=size)
    with watched(f"evaluating {folder}"):
        result = evaluate(folder, size, device)
    output.say(_losses(result, half))


def _losses(result: dict[str, Any], half: bool) -> str:
    """An evaluation as a table."""
    scale, name = (0.5, "half-MSE") if half else (1.0, "MSE")
    lines = [f"{'':16} {name + ' (' + result['target'] + ')':>16}  {'95 % interval':>20}  cosine"]
    for row, entry in result["table"].items():
        loss = {k: scale * v for k, v in entry["loss"].items()}
        interval = f"[{loss['low']:.5f}, {loss['high']:.5f}]"
        lines.append(f"{row:16} {loss['mean']:16.5f}  {interval:>20}  {entry['cosine']:.4f}")
    each = "  ".join(f"{scale * loss:.4f}" for loss in result["by_layer"])
    lines.append(f"read after every step, from the prompt on: {each}")
    if "by_context" in result:
        each = "  ".join(f"{k}: {scale * loss:.4f}" for k, loss in result["by_context"].items())
        lines.append(f"with fewer examples: {each}")
    return "\n".join(lines)


@lab.command
def run(
    names: Annotated[list[str], Parameter(negative=())],
    /,
    *,
    out: Path = Path("lab"),
    quick: Flag = False,
    device: Device = "cpu",
    seed: int = 0,
    within: float = math.inf,
    part: str = "1/1",
    share: float = 1.0,
) -> None:
    """Run experiments (`inweave lab list` names them).

    A study, whose arms each have a file of their own in OUT/NAME, goes on from those that are
    there; several processes can each do a part of it.

    For example:

        inweave lab run one-step --quick

        inweave lab run two-step --device cuda --out results

        inweave lab run bias --device cuda --within 500 --part 2/4

    Parameters
    ----------
    names
        The experiments, or all (studies).
    out
        The folder that NAME.json and its figure go to.
    quick
        Minutes on two cores instead of the full form.
    seed
        The first seed.
    within
        Seconds in which to end: no arm of a study is begun that would take longer.
    part
        K/N: this process does every N-th search of a study, from the K-th on.
    share
        Of all training steps of a study, for one that would take too long.
    """
    from inweave.lab.devices import check_device
    from inweave.lab.experiments import check_studies, named, run
    from inweave.lab.report import report

    check_device(device)
    if not within >= 0:
        raise InputError(f"--within is a number of seconds, at least 0, got {within}")
    if seed < 0:
        raise InputError(f"--seed is at least 0, got {seed}")
    began, every = time.monotonic(), [name for given in names for name in named(given)]
    check_studies(every, _part(part), share)
    for each in every:
        left = within - (time.monotonic() - began)
        with watched(each):
            path = run(
                each, out, quick=quick, device=device, seed=seed, within=left, part=_part(part),
                share=share,
            )  # fmt: skip
        found = json.loads(path.read_text(encoding="utf-8"))
        if missing := found.get("missing"):
            output.note(f"{each}: {len(missing)} arms are not trained yet; run it again to go on")
        if not found["rows"]:
            continue
        output.say(found["table"])
        made = report([path]) if find_spec("matplotlib") else []
        output.say("\n         ".join(map(str, [f"results: {path}", *made])))
        if not made:
            output.note(
                "no figure: matplotlib is not installed (inweave lab report draws it later)"
            )


def _part(text: str) -> tuple[int, int]:
    k, _, n = text.partition("/")
    if not (k.isdecimal() and n.isdecimal()):
        raise InputError(f"--part is K/N, 2/4 say, got {text!r}")
    return int(k), int(n)


@lab.command
def report(
    files: Annotated[list[Path], Parameter(negative=())], /, *, out: Path | None = None
) -> None:
    """Make figures and tables from result files or run folders.

    For example:

        inweave lab report lab/one-step.json lab/noise.json --out figures

        inweave lab report runs/run

    Parameters
    ----------
    files
        JSON files of experiments, or folders of runs.
    out
        The folder that figures go to; beside the files if not given.
    """
    from inweave.lab.report import report

    output.say("\n".join(map(str, report(files, out))))


@lab.command
def sweep(
    configs: Annotated[list[Path], Parameter(negative=())],
    /,
    *,
    out: Path = Path("runs"),
    workers: int = 2,
    dask: str | None = None,
    device: Device = "cpu",
) -> int:
    """Train many runs; exits with 1 if one failed.

    For example:

        inweave lab sweep small.toml large.toml --workers 2

    Parameters
    ----------
    configs
        TOML files.
    out
        Each run goes to OUT/NAME.
    workers
        Local processes.
    dask
        Address of a Dask scheduler to use instead.
    """
    from inweave.lab.config import from_toml
    from inweave.lab.devices import check_device
    from inweave.lab.sweep import sweep
    from inweave.lab.train import OWN

    check_device(device, here=not dask)
    settings = [from_toml(path) for path in configs]
    for path in (out / one.name / name for one in settings for name in OWN):
        check_apart(path, configs)
    if dask:
        with needs_extra("--dask", "cluster"):
            from distributed import Client
        with Client(dask) as client, watched("training"):  # type: ignore[no-untyped-call]
            results = sweep(settings, out, executor=client.get_executor(), device=device)
    else:
        with watched("training"):
            results = sweep(settings, out, workers=workers, device=device)
    for name, result in results.items():
        output.say(f"{name:24} {result.get('failed') or format(result['evaluation'], '.5g')}")
    return int(any("failed" in result for result in results.values()))


@lab.command(name="list")
def list_() -> None:
    """List the experiments: what each asks, and how long it takes.

    For example:

        inweave lab list
    """
    from inweave.lab.experiments import EXPERIMENTS

    shown = output.table("", "name", "asks", "--quick", "in full", left=2)
    for name, it in EXPERIMENTS.items():
        shown.add_row(name, it.question, *(_duration(time) for time in (it.quick, it.full)))
    output.console().print(shown)
    output.say(
        "about, with --quick on one CPU core, in full (--device cuda) on one H200, studies in ten "
        "processes (--part)"
    )


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
