"""Every way to compile a program, whichever of them `optimize="speed"` would keep."""

from __future__ import annotations

from typing import Any

from inweave import network
from inweave.compiler.options import CANDIDATES
from inweave.compiler.origin import Origin
from inweave.compiler.resize import build
from inweave.language.program import Program

WAYS = tuple(CANDIDATES)


def compiled(
    program: Program, way: str, target: str = "elsa", verify: bool = True, **sizes: Any
) -> network.Network:
    """The network of one candidate, as `inweave.compile` hands it out."""
    asked = Origin(program, sizes, target, "speed", candidate=way)
    found = network._public(build(asked))
    return network._certified(found) if verify else found
