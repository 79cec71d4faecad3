"""`inweave demo`: the main example."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from inweave.atomic import check_place
from inweave.cli.options import Json
from inweave.errors import InputError


def demo(
    *,
    steps: Annotated[int, Parameter(help="Steps of gradient descent.")] = 729,
    page: Annotated[Path, Parameter(help="Where the explorer's page goes.")] = Path(
        "inweave-demo.html"
    ),
    json: Json = False,
) -> None:
    """Run the main example: one regression as seven attention networks, each verified.

    For example:

        inweave demo

        inweave demo --steps 100 --json
    """
    if steps < 1:
        raise InputError(f"steps must be at least 1, got {steps}")
    check_place(page)
    from inweave.cli.demo_report import tell

    tell(steps, page, json)
