"""`inweave circuits`: networks with known circuits, to test interpretability methods on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from inweave.cli import output
from inweave.cli.options import OUTPUT

HELP = """Build networks whose circuits are known, and measure what simple methods find.

For example:

    inweave circuits build suite

    inweave circuits build disguised --dial 1

    inweave circuits baselines suite disguised
"""

circuits = App(name="circuits", help=HELP, version_flags=[])


@circuits.command
def build(
    out: Path,
    /,
    *,
    count: int = 150,
    seed: int = 0,
    dial: Annotated[float, Parameter(help="How much models are disguised, from 0 to 1.")] = 0.0,
) -> None:
    """Write a suite of certified models: safetensors, JSON and a card each.

    The same seed gives the same bytes. A build that was interrupted goes on where it stopped.

    For example:

        inweave circuits build suite

        inweave circuits build suite --count 20 --seed 1

    Parameters
    ----------
    out
        A new folder, or that of a build with the same seed and dial.
    count
        How many models.
    """
    from inweave.circuits.build import build

    with output.stages(count) as begin:
        found = build(out, count=count, seed=seed, dial=dial, progress=begin)
    output.say(f"{found} models in {out}")


@circuits.command
def baselines(
    suites: Annotated[list[Path], Parameter(negative=())],
    /,
    *,
    most: int = 5000,
    out: Annotated[Path | None, OUTPUT] = None,
) -> None:
    """Measure what attribution patching, path patching and linear probes find.

    Suites of one seed at several dials are compared on the same models.

    For example:

        inweave circuits baselines suite

        inweave circuits baselines suite disguised -o results.json

    Parameters
    ----------
    suites
        Folders that `inweave circuits build` made.
    most
        Leave out models of more possible edges.
    out
        A JSON file for every number behind the table.
    """
    from inweave.atomic import check_place, write
    from inweave.errors import needs_extra

    with needs_extra("inweave circuits baselines", "torch"):
        import torch  # noqa: F401
    from inweave.circuits.results import measure, table

    if out is not None:
        check_place(out)
    with output.stages(150 * len(suites)) as begin:
        found = measure(suites, most=most, progress=begin)
    if out is not None:
        write(out, found.to_json())
    output.say(f"{len(found.models)} models of at most {most} possible edges\n\n{table(found)}")
