"""`inweave circuits`: networks with known circuits, to test interpretability methods on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from inweave.cli import output

HELP = """Build networks whose circuits are known, to test methods on.

For example:

    inweave circuits build suite
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
        build(out, count=count, seed=seed, dial=dial, progress=begin)
    output.say(f"{count} models in {out}")
