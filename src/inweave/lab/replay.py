"""Work recorded once and replayed: what lets small models train fast on a GPU.

A step of a model of a few layers is some two hundred kernels of a few microseconds each, and
starting them one by one from Python takes several times as long as running them. A CUDA graph
starts them all at once. Recording asks for two things. The work must find its inputs, and leave its
results, in tensors that stay where they are. And nothing on the device may be freed meanwhile, an
older recording say, which the collector of garbage would do at a time of its own.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from inweave.lab.tensors import torch

WARM_UP = 3


class Replayed:
    """`work` without arguments on a GPU: called a few times, then recorded and replayed.

    Every call does the work once, whichever way.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self.work, self.calls = work, 0
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        self.calls += 1
        if self.calls <= WARM_UP:
            # libraries set themselves up in these calls, which must not be recorded
            main = torch.cuda.current_stream()
            side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            side.wait_stream(main)
            with torch.cuda.stream(side):
                self.work()
            main.wait_stream(side)
        else:
            if self.graph is None:
                self.graph = torch.cuda.CUDAGraph()
                with _nothing_freed(), torch.cuda.graph(self.graph):  # records, does not run
                    self.work()
            self.graph.replay()


@contextmanager
def _nothing_freed() -> Iterator[None]:
    """What is garbage is freed before, and what becomes garbage after."""
    gc.collect()
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
