"""Stories: short chapters that move a page along, as data.

A chapter says something and what the page shows meanwhile: a network, a layer, a head, with which
scalar inputs, how many steps and which heads switched off, and which panel it is about. The page
begins every chapter from the networks and data that it was made with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from inweave.exact import schema


@dataclass(frozen=True)
class Chapter:
    """What is said, and what the page shows meanwhile.

    `layer` is a position as in a link, the number of executed layers, or "end"; `off` are heads
    that write nothing in any step, each a stored layer and a head of it; `show` is the name of the
    panel that is pointed at, as in "prompt-0", "head", "data", "distance" or "report-1".
    """

    title: str
    text: str
    show: str = "prompt-0"
    network: int = 0
    layer: str = "0"
    head: int = 0
    inputs: dict[str, float] = field(default_factory=dict)
    steps: int | None = None
    off: tuple[tuple[int, int], ...] = ()
    difference: bool = False


Story = tuple[Chapter, ...]


def read(text: str) -> Story:
    """A story from JSON."""
    found: Story = schema.read(Story, schema.loads(text))
    return found


def packed(story: Sequence[Chapter]) -> list[dict[str, Any]]:
    """A story for the page."""
    return [asdict(chapter) for chapter in story]
