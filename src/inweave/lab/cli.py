"""`inweave lab ...`: the commands of the lab for the main command line."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import App, Parameter

from inweave.lab import commands

HELP = """Train networks of the compiled shape and run the experiments.

For example:

    inweave lab list

    inweave lab run one-step --quick

    inweave lab train run.toml
"""

app = App(name="inweave lab", help=HELP, version_flags=[])


@app.command
def train(config: str, *, out: str = "", resume: bool = False, device: str = "cpu") -> None:
    """Train one run.

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
    device
        cpu or cuda.
    """
    commands.train(config, out, resume, device)


@app.command
def evaluate(folder: str, *, size: int = 20_000, half: bool = False, device: str = "cpu") -> None:
    """Compare a trained run with its baselines on held-out problems.

    For example:

        inweave lab evaluate runs/run

        inweave lab evaluate runs/run --size 100000 --half

    Parameters
    ----------
    folder
        A run's folder.
    size
        How many problems.
    half
        Show half-MSE instead of MSE.
    device
        cpu or cuda.
    """
    commands.evaluate(folder, size, half, device)


@app.command
def run(
    name: str, *, out: str = "lab", quick: bool = False, device: str = "cpu", seed: int = 0
) -> None:
    """Run an experiment (`inweave lab list` names them).

    For example:

        inweave lab run one-step --quick

        inweave lab run two-step --device cuda --out results

    Parameters
    ----------
    name
        The experiment.
    out
        Where NAME.json goes.
    quick
        Minutes on two cores instead of the full form.
    device
        cpu or cuda.
    seed
        The first seed.
    """
    commands.run(name, out, quick, device, seed)


@app.command
def report(files: Annotated[list[str], Parameter(negative=())], *, out: str = "") -> None:
    """Make figures and tables from result files or run folders.

    For example:

        inweave lab report lab/one-step.json lab/noise.json --out figures

        inweave lab report runs/run

    Parameters
    ----------
    files
        JSON files of experiments, or folders of runs.
    out
        Where figures go; beside the files if not given.
    """
    commands.report(*files, out=out)


@app.command
def sweep(
    configs: Annotated[list[str], Parameter(negative=())],
    *,
    out: str = "runs",
    workers: int = 2,
    dask: str = "",
    device: str = "cpu",
) -> None:
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
    device
        cpu or cuda.
    """
    if not commands.sweep(*configs, out=out, workers=workers, dask=dask, device=device):
        sys.exit(1)


@app.command(name="list")
def list_() -> None:
    """List the experiments.

    For example:

        inweave lab list
    """
    print("\n".join(commands.names()))
