"""Gradients of a call that is one kernel: on its way back it is one as well.

The plan of the reverse pass (`inweave.run.backward`) is a plan, so it has a kernel like any other.
It begins with what the call began with and with the cotangents of its answers, and computes again
what it needs: nothing is kept between the two but the inputs. Every prompt has a gradient of its
own; where prompts share an input, these are summed. Gradients of gradients are left to torch, call
by call.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

from inweave.exact.arithmetic import Floats
from inweave.exact.constants import Array
from inweave.run.backward.reverse import STORED, NoReverse, reverse
from inweave.run.kernel.frame import Frame, Order
from inweave.run.kernel.text import Refused
from inweave.run.libraries.execute import Bound, in_batch
from inweave.run.lines.code import Lead, encode, live_nodes
from inweave.run.values.node import Node

if TYPE_CHECKING:
    from inweave.run.kernel.device import Launcher, Loaded
    from inweave.run.kernel.generate import Kernel

FEW = 256  # entries of states that a prompt keeps, where it has to share a block's memory
TRIED = ((0, 0), (16, 0), (16, 1))  # rows of a stream that are staged, and of a thread
T = TypeVar("T")
Made = tuple[Sequence[Node], Sequence[Node]]
Name = tuple[str, str]


class Backward:
    """The way back through a plan: a kernel for every choice of inputs to have gradients of.

    `mark` is the fingerprint of the plan, `made` its nodes and outputs.
    """

    def __init__(self, mark: Callable[[], str], made: Callable[[], Made]) -> None:
        self._mark, self.made = mark, made
        self._refused: dict[Any, Refused] = {}
        self._unchanged: dict[tuple[Name, ...], list[int]] = {}
        self._said: set[str] = set()

    def say(self, text: str) -> None:
        """Warn of something, once."""
        if text not in self._said:
            self._said.add(text)
            warnings.warn(f"{text}; kernel=False silences this", stacklevel=8)

    def computed(
        self, launch: Launcher, sources: Sequence[Array], finish: Callable[[list[Array]], T]
    ) -> T | None:
        """What is made of the answers of a launch, which gradients pass where they are wanted.

        None if a prompt is marked; Refused if there is no kernel for the way back.
        """
        wanted = _wanted(launch.ready.frame, sources)
        if not wanted:
            return launch(sources, finish)
        import torch

        back = self.loaded(launch.ready.frame, wanted, launch.index)
        with torch.no_grad():
            outs = launch(sources, list)
        if outs is None:
            return None
        way = _Way(self, launch.ready.frame, back, wanted, launch.lead, launch.device)
        return finish(list(_function().apply(way, outs, *way.lifted(sources))))

    def unchanged(self, wanted: tuple[Name, ...]) -> list[int]:
        """The answers that none of these inputs changes."""
        if wanted not in self._unchanged:
            reads = [
                {node.data for node in live_nodes([output]) if node.op == "source"}
                for output in self.made()[1]
            ]
            found = [i for i, names in enumerate(reads) if names.isdisjoint(wanted)]
            self._unchanged[wanted] = found
        return self._unchanged[wanted]

    def loaded(self, frame: Frame, wanted: tuple[Name, ...], device: int) -> Loaded:
        """The kernel that runs another one backwards, on a device; Refused if there is none."""
        from inweave.run.kernel.device import loaded

        key = (frame.dtype, frame.check, wanted)
        if key in self._refused:
            raise self._refused[key]
        order = Order(f"{self._mark()} back to {wanted}", frame.dtype, frame.check)
        try:
            return loaded(order, device, lambda: self.kernel(frame.dtype, frame.check, wanted))
        except (Refused, NoReverse) as refused:
            self._refused[key] = Refused(str(refused))
        except (RuntimeError, ImportError) as error:
            self._refused[key] = Refused(f"it cannot be compiled: {error}")
        self.say(
            f"gradients are wanted, for which there is no kernel: {self._refused[key]}; so this "
            "batch runs call by call, under torch.no_grad() it runs as one kernel"
        )
        raise self._refused[key]

    def kernel(self, dtype: str, check: bool, wanted: Sequence[Name]) -> Kernel:
        """The same before it is compiled; `check` if the way there looks at domains."""
        from inweave.run.kernel.generate import Shape, generate, resident

        ways = [(STORED, Shape()), *((FEW, Shape(chunk=chunk, rows=rows)) for chunk, rows in TRIED)]
        found: list[Kernel] = []
        refusals: list[Refused] = []
        for stored, shape in ways:
            plan = reverse(*self.made(), wanted, checked=check, stored=stored)
            try:
                found.append(generate(*plan, dtype, check=False, shape=shape))
            except Refused as refused:
                refusals.append(refused)
            if found and found[0].kind == "prompt":
                break
        if not found:
            raise refusals[0]
        return max(found, key=lambda kernel: resident(kernel) / kernel.flops)


def _wanted(frame: Frame, sources: Sequence[Array]) -> tuple[Name, ...]:
    """The inputs that gradients are wanted of."""
    import torch

    if not torch.is_grad_enabled():
        return ()
    for source in sources:  # a call may wait for this: no generator
        if source.requires_grad:
            pairs = zip(frame.sources, sources, strict=True)
            return tuple(name for name, x in pairs if x.requires_grad)
    return ()


@dataclass(frozen=True)
class _Way:
    """The way back from a launch."""

    through: Backward
    frame: Frame
    back: Loaded
    wanted: tuple[Name, ...]
    lead: Lead
    device: Any

    def lifted(self, sources: Sequence[Array]) -> list[Array]:
        """Sources as matrices, which vectors need not have been for a launch."""
        shapes = {node.data: node.shape for node in self.through.made()[0] if node.op == "source"}
        prompts, found = prod(self.lead), list[Array]()
        for name, x in zip(self.frame.sources, sources, strict=True):
            shape = shapes[name]
            if x.numel() == prod(shape):
                found.append(x.reshape(shape))
            elif x.numel() == prompts * prod(shape):
                found.append(x.reshape(*self.lead, *shape))
            else:
                found.append(x)
        return found

    def gradients(self, sources: Sequence[Array], cotangents: Sequence[Array]) -> dict[Any, Array]:
        """The gradients of those inputs that they are wanted of, by name."""
        import torch

        from inweave.run.kernel.device import Launcher, enter
        from inweave.run.libraries.lent import is_plain

        named = dict(zip(self.frame.sources, sources, strict=True))
        shapes = ((*self.lead, *shape) for shape in self.frame.outputs)
        asked = [c.reshape(shape) for c, shape in zip(cotangents, shapes, strict=True)]
        if torch.is_grad_enabled() or not is_plain(asked):
            return self._call_by_call(named, asked)
        enter(self.device)
        given = named | {("cotangent", str(i)): c for i, c in enumerate(asked)}
        read = [given[name] for name in self.back.frame.sources]
        found = Launcher(self.back, read, self.lead, self.device)(read, list)
        assert found is not None
        pairs = zip(self.wanted, found, strict=True)
        return {name: x.sum_to_size(named[name].shape) for name, x in pairs}

    def _call_by_call(
        self, named: dict[Name, Array], cotangents: Sequence[Array]
    ) -> dict[Name, Array]:
        """The same by torch, which keeps how they were found if their gradients are wanted."""
        import torch

        again = torch.is_grad_enabled()
        if again:
            self.through.say("gradients of gradients are wanted, which run call by call")
        else:
            named = {n: x.detach().requires_grad_(n in self.wanted) for n, x in named.items()}
        floats = Floats.like(next(iter(named.values())))
        floats.checked = self.frame.check
        with torch.enable_grad():
            outs = in_batch(
                Bound(encode(*self.through.made()), floats).run(named), self.lead, floats
            )
        pairs = [(out, c) for out, c in zip(outs, cotangents, strict=True) if out.requires_grad]
        found = torch.autograd.grad(
            [out for out, _ in pairs],
            [named[name] for name in self.wanted],
            [c for _, c in pairs],
            create_graph=again,
            materialize_grads=True,
        )
        return dict(zip(self.wanted, found, strict=True))


@cache
def _function() -> Any:
    """A launch as torch's autograd knows it."""
    import torch

    class Launch(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, way: _Way, outs: list[Array], *sources: Array) -> tuple[Array, ...]:
            ctx.way = way
            unchanged = way.through.unchanged(way.wanted)
            ctx.mark_non_differentiable(*(outs[i] for i in unchanged))
            ctx.save_for_backward(*sources)
            return tuple(outs)

        @staticmethod
        def backward(ctx: Any, *cotangents: Array) -> tuple[Array | None, ...]:
            found = ctx.way.gradients(ctx.saved_tensors, cotangents)
            return (None, None, *(found.get(name) for name in ctx.way.frame.sources))

    return Launch
