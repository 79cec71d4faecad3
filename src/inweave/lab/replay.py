"""Work recorded once and replayed: what lets small models train fast on a GPU.

A step of a model of a few layers is some two hundred kernels of a few microseconds each, and
starting them one by one from Python takes several times as long as running them. A CUDA graph
starts them all at once. Recording asks for one thing: the work must find its inputs, and leave its
results, in tensors that stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable

from inweave.errors import needs_extra

with needs_extra("the lab", "lab"):
    import torch

WARM_UP = 3


class Replayed:
    """`work` without arguments: on a GPU called a few times, then recorded and replayed.

    Every call does the work once, whichever way; elsewhere than on a GPU it is simply called.
    """

    def __init__(self, work: Callable[[], None], device: torch.device | str) -> None:
        self.work, self.on_gpu = work, torch.device(device).type == "cuda"
        self.calls = 0
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        self.calls += 1
        if not self.on_gpu:
            self.work()
        elif self.calls <= WARM_UP:
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
                with torch.cuda.graph(self.graph):  # records, does not run
                    self.work()
            self.graph.replay()
