"""The program beside the heads: its lines, as they are read back from the weights.

They are the lines of what the network does, proved equal to it: in them every head has its place,
whatever became of the loops of the program that it was compiled from.
"""

from __future__ import annotations

from typing import Any

from inweave.decompiler import lines
from inweave.errors import DecompileError
from inweave.model.network import Network

SECONDS = 5.0  # for the proof that the lines are the network's


def source(network: Network) -> dict[str, Any]:
    """What the program does, line by line, and the heads of each; or why that cannot be read."""
    try:
        found = lines(network, seconds=SECONDS)
    except DecompileError as error:
        return {"lines": [], "why": str(error)}
    named = next(i for i, line in enumerate(found) if line.text.startswith("def "))
    body = next(i for i, line in enumerate(found) if i >= named and line.text.endswith(":")) + 1
    return {
        "lines": [
            {"text": line.text.removeprefix("    "), "heads": [list(at) for at in line.heads]}
            for line in found[body:]
        ],
        "why": "",
    }
