"""Modules and networks of torch layers: layers in sequence inside a skip, tied over depth or not.

They mirror a network's data one to one, a tied module once, and read an answer by computing in the
last layer only what is read. `inweave.nn` is the public face of all this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

import torch
from torch import Tensor, nn

from inweave.errors import InputError, ProgramError, ShapeError
from inweave.model.embedding import Embedding
from inweave.model.layers import AttentionLayer, BlockPointwiseLayer, Layer
from inweave.model.layout import Layout
from inweave.model.modules import Module, Part
from inweave.model.network import Network
from inweave.model.prompt import Fill, Input, Output, of_kind
from inweave.stack.attention import ALL, ExtendedLinearAttention
from inweave.stack.blocks import Blocks, Step
from inweave.stack.embedding import embedded
from inweave.stack.pointwise import Functions, PointwiseNetwork
from inweave.stack.queries import split_queries


class AttentionModule(nn.Module):
    """Layers in sequence, with one skip around them all, run `repeat` times with tied weights."""

    def __init__(self, body: Sequence[nn.Module], repeat: int = 1, skip: bool = True) -> None:
        super().__init__()
        if repeat < 0:
            raise InputError(f"a module is repeated 0 times or more, got repeat={repeat}")
        self.body, self.repeat, self.skip = nn.ModuleList(body), repeat, skip

    def steps(self, H: Tensor) -> Iterator[Tensor]:
        """The state after each repetition."""
        for _ in range(self.repeat):
            H = self._once(H)
            yield H

    def _once(self, H: Tensor, rows: slice = ALL, columns: slice = ALL) -> Tensor:
        inner: Tensor = H
        for layer in list(self.body)[:-1]:
            inner = layer(inner)
        inner = self.body[-1](inner, rows, columns) if self.body else inner[..., rows, columns]
        return H[..., rows, columns] + inner if self.skip else inner

    def forward(self, H: Tensor, rows: slice = ALL, columns: slice = ALL) -> Tensor:
        """The state after all repetitions, at the given rows and columns."""
        for _ in range(self.repeat - 1):
            H = self._once(H)
        return self._once(H, rows, columns) if self.repeat else H[..., rows, columns]

    def executed(self) -> Iterator[Step]:
        """The layers in the order in which they run, each with its skip.

        A skip around one layer that has none is the layer's own.
        """
        alone = len(self.body) == 1 and not getattr(self.body[0], "skip", True)
        around = self.skip and not (alone and not isinstance(self.body[0], AttentionModule))
        for _ in range(self.repeat if self.body or self.skip else 0):
            if around:
                yield "open"
            for part in self.body:
                if isinstance(part, AttentionModule):
                    yield from part.executed()
                else:
                    yield part, part.skip or (self.skip and not around)  # type: ignore[misc]
            if around:
                yield "close"

    def extra_repr(self) -> str:
        return f"repeat={self.repeat}, skip={self.skip}"


class AttentionNetwork(nn.Module):
    """Modules over a layout, with the inputs, fills and outputs of a `inweave.Network`.

    Calling it reads the (first) output from a prompt, computing in the last layer only what is
    read; `final(H)` gives the whole state.
    """

    def __init__(
        self,
        modules: Sequence[AttentionModule],
        layout: Layout,
        inputs: Sequence[Input] = (),
        fills: Sequence[Fill] = (),
        outputs: Sequence[Output] = (),
        embedding: Embedding | None = None,
    ) -> None:
        super().__init__()
        if not modules:
            raise InputError("a trainable network needs at least one module")
        self.embedding = embedding
        self.unembed = embedded(None if embedding is None else embedding.inverse, None)
        self.stack = nn.ModuleList(modules)
        self.layout, self.inputs, self.fills = layout, tuple(inputs), tuple(fills)
        self.outputs = tuple(outputs)

    def final(self, H: Tensor) -> Tensor:
        """The state after the last module."""
        for module in self.stack:
            H = module(H)
        return H

    def forward(self, H: Tensor) -> Tensor:
        """The answer that a prompt leads to, in its user's shape."""
        if self.unembed is not None:
            return self.read(self.final(H))
        *before, last = self.stack
        for module in before:
            H = module(H)
        rows, columns, output = self._where(H.shape[-2])
        return self._shaped(last(H, rows, columns), output)

    def states(self, H: Tensor) -> list[Tensor]:
        """The prompt, then the state after every repetition of every module."""
        found = [H]
        for module in self.parts:
            found.extend(module.steps(found[-1]))
        return found

    @property
    def parts(self) -> list[AttentionModule]:
        """The modules, as what they are."""
        return [module for module in self.stack if isinstance(module, AttentionModule)]

    def hooked(self) -> Blocks:
        """The layers as blocks with hook points, on the same parameters; gives the final state."""
        steps = (step for module in self.parts for step in module.executed())
        return Blocks(self.layout, steps)

    @property
    def only_layer(self) -> ExtendedLinearAttention | None:
        """The layer of a network that is one attention layer, run once."""
        (module, *more), layer = self.parts, None
        if not more and len(module.body) == module.repeat == 1:
            layer = module.body[0]
        return layer if isinstance(layer, ExtendedLinearAttention) else None

    @property
    def reads_entries(self) -> bool:
        """Whether prompts are best given with the batch innermost (one plain LSA layer)."""
        return self.only_layer is not None and self.only_layer.reads_entries

    def read(self, H: Tensor) -> Tensor:
        """The answer that stands in a state."""
        if self.unembed is not None:
            H = self.unembed.to(H.dtype)(H)
        rows, columns, output = self._where(H.shape[-2])
        return self._shaped(H[..., rows, columns], output)

    def _where(self, tokens: int) -> tuple[slice, slice, Output]:
        """Where the answer stands in a prompt of that many tokens.

        Layers without biases take any number; then an answer at the last tokens is still there.
        """
        if not self.outputs:
            raise InputError("this network has no output to read; use final(H)")
        output = self.outputs[0]
        place = output.place
        rows, cols = place.source(self.layout)
        if tokens != self.layout.tokens:
            if rows.stop != self.layout.tokens:
                raise ShapeError(
                    f"got a prompt of {tokens} tokens, expected {self.layout.tokens}: the answer "
                    f"stands from row {rows.start} on, and only one at the last tokens moves with "
                    "them"
                )
            more = tokens - self.layout.tokens
            rows = slice(rows.start + more, rows.stop + more)
        return rows, cols, output

    @staticmethod
    def _shaped(part: Tensor, output: Output) -> Tensor:
        shaped: Tensor = of_kind(part.mT if output.place.transpose else part, output.kind)
        return shaped

    @classmethod
    def from_network(
        cls,
        network: Network,
        *,
        bias: bool | None = None,
        merged: bool = False,
        dtype: torch.dtype | None = torch.float64,
        device: torch.device | str | None = None,
    ) -> Self:
        """Trainable weights that start as a construction."""
        modules = [
            module_of(part, network.layout, bias=bias, merged=merged, dtype=dtype, device=device)
            for part in network.modules
            if part.repeat
        ]
        n = network
        return cls(modules, n.layout, n.inputs, n.fills, n.outputs, n.embedding)

    def to_data(self) -> Network:
        """These weights as a network's data.

        Where the last tokens only ask (`queries`), they move into columns of their own.
        """
        queries = {m.queries for m in self.modules() if isinstance(m, ExtendedLinearAttention)}
        if len(queries) > 1:
            raise ProgramError(
                f"layers with different numbers of queries, {sorted(queries)}, make no network"
            )
        modules = tuple(map(_module_data, self.parts))
        network = Network(
            self.layout, modules, self.inputs, self.fills, self.outputs, self.embedding
        )
        return split_queries(network, *queries) if any(queries) else network


def module_of(
    module: Module,
    layout: Layout,
    *,
    bias: bool | None = None,
    merged: bool = False,
    heads: int = 1,
    by_entry: bool = True,
    dtype: torch.dtype | None = torch.float64,
    device: torch.device | str | None = None,
) -> AttentionModule:
    """A module of a network in torch, whose attention layers have so many `heads` at least.

    A function of blocks is written out `by_entry`, each entry with weights of its own, or else
    stays one function with one set of weights.
    """

    def convert(part: Part) -> nn.Module:
        if isinstance(part, Module):
            return AttentionModule([convert(p) for p in part.body], part.repeat, part.skip)
        if isinstance(part, AttentionLayer):
            return ExtendedLinearAttention.from_layer(
                part, layout, bias=bias, merged=merged, heads=heads, dtype=dtype, device=device
            )
        if isinstance(part, BlockPointwiseLayer):
            if not by_entry:
                return Functions.from_layer(part, layout, dtype=dtype, device=device)
            part = part.dense(layout)
        return PointwiseNetwork.from_layer(part, dtype=dtype, device=device)

    made = convert(module)
    assert isinstance(made, AttentionModule)
    return made


def _module_data(module: AttentionModule) -> Module:
    def convert(part: nn.Module) -> Layer | Module:
        if isinstance(part, AttentionModule):
            return _module_data(part)
        if isinstance(part, ExtendedLinearAttention):
            return part.unmasked_layer()
        if isinstance(part, PointwiseNetwork):
            return part.to_layer()
        raise ProgramError(f"{type(part).__name__} has no counterpart in a network")

    return Module(tuple(convert(part) for part in module.body), module.repeat, module.skip)
