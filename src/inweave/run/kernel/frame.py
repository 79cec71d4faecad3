"""Which kernel, and what it takes to launch one.

An `Order` names a kernel before it is written, so that code kept for it is found without writing it
again; a `Frame` is all that is kept beside the code. Neither needs the generator.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Order:
    """A kernel by what it is made from."""

    plan: str  # the fingerprint of what it computes
    dtype: str
    check: bool
    shape: str = ""  # how it is laid out, where that was asked for


@dataclass(frozen=True)
class Frame:
    """What it takes to launch a kernel."""

    name: str
    dtype: str
    check: bool
    sources: tuple[tuple[str, str], ...]  # what is read, by the names of a plan's sources
    sizes: tuple[int, ...]  # their entries, for one prompt
    outputs: tuple[tuple[int, int], ...]
    prompts: int  # in a block
    threads: int
    shared: int  # bytes of a block

    def blocks(self, prompts: int) -> int:
        """How many blocks a batch takes."""
        return -(-prompts // self.prompts)
