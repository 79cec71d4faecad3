"""Trainable modules and networks: layers in sequence inside a skip, tied or untied over depth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

import torch
from torch import Tensor, nn

from inweave.errors import InputError, ProgramError, ShapeError
from inweave.model.layers import AttentionLayer, BlockPointwiseLayer, Layer
from inweave.model.layout import Layout
from inweave.model.modules import Module, Part
from inweave.model.prompt import Fill, Input, Output, of_kind
from inweave.network import Network
from inweave.nn.attention import ALL, Activation, ExtendedLinearAttention
from inweave.nn.pointwise import PointwiseNetwork
from inweave.nn.queries import split_queries


class AttentionModule(nn.Module):
    """Layers in sequence, with one skip around them all, run `repeat` times with tied weights."""

    def __init__(self, body: Sequence[nn.Module], repeat: int = 1, skip: bool = True) -> None:
        super().__init__()
        if not body or repeat < 1:
            raise InputError("a trainable module needs at least one layer and one repetition")
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
        inner = self.body[-1](inner, rows, columns)
        return H[..., rows, columns] + inner if self.skip else inner

    def forward(self, H: Tensor, rows: slice = ALL, columns: slice = ALL) -> Tensor:
        """The state after all repetitions, at the given rows and columns."""
        for _ in range(self.repeat - 1):
            H = self._once(H)
        return self._once(H, rows, columns)

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
    ) -> None:
        super().__init__()
        if not modules:
            raise InputError("a trainable network needs at least one module")
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
        *before, last = self.stack
        for module in before:
            H = module(H)
        rows, columns, output = self._where(H.shape[-2])
        return self._shaped(last(H, rows, columns), output)

    def states(self, H: Tensor) -> list[Tensor]:
        """The prompt, then the state after every repetition of every module."""
        found = [H]
        for module in self.stack:
            assert isinstance(module, AttentionModule)
            found.extend(module.steps(found[-1]))
        return found

    @property
    def reads_entries(self) -> bool:
        """Whether prompts are best given with the batch innermost (one plain LSA layer)."""
        if len(self.stack) > 1:
            return False
        module = self.stack[0]
        assert isinstance(module, AttentionModule)
        layer = module.body[0]
        alone = len(module.body) == 1 and module.repeat == 1
        return alone and isinstance(layer, ExtendedLinearAttention) and layer.reads_entries

    def read(self, H: Tensor) -> Tensor:
        """The answer that stands in a state."""
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

        def module(part: Module) -> AttentionModule:
            return AttentionModule([convert(p) for p in part.body], part.repeat, part.skip)

        def convert(part: Part) -> nn.Module:
            if isinstance(part, Module):
                return module(part)
            if isinstance(part, AttentionLayer):
                return ExtendedLinearAttention.from_layer(
                    part, network.layout, bias=bias, merged=merged, dtype=dtype, device=device
                )
            if isinstance(part, BlockPointwiseLayer):
                part = part.dense(network.layout)
            return PointwiseNetwork.from_layer(part, dtype=dtype, device=device)

        modules = [module(part) for part in network.modules if part.repeat]
        return cls(modules, network.layout, network.inputs, network.fills, network.outputs)

    def to_network(self) -> Network:
        """These weights as a network: to be saved, explored, traced and compared.

        Where the last tokens only ask (`queries`), they move into columns of their own.
        """
        queries = {m.queries for m in self.modules() if isinstance(m, ExtendedLinearAttention)}
        if len(queries) > 1:
            raise ProgramError(
                f"layers with different numbers of queries, {sorted(queries)}, make no network"
            )

        def convert(part: nn.Module) -> Layer | Module:
            if isinstance(part, AttentionModule):
                return Module(tuple(convert(p) for p in part.body), part.repeat, part.skip)
            if isinstance(part, ExtendedLinearAttention):
                return part.unmasked_layer()
            if isinstance(part, PointwiseNetwork):
                return part.to_layer()
            raise ProgramError(f"{type(part).__name__} has no counterpart in a network")

        modules = []
        for part in self.stack:
            made = convert(part)
            modules.append(made if isinstance(made, Module) else Module((made,)))
        network = Network(self.layout, tuple(modules), self.inputs, self.fills, self.outputs)
        return split_queries(network, *queries) if any(queries) else network


from_network = AttentionNetwork.from_network


def build(
    layout: Layout,
    *,
    depth: int = 1,
    blocks: int = 1,
    heads: int = 1,
    bias: bool = True,
    activation: Activation | None = None,
    merged: bool = False,
    tied: bool = False,
    mlp_units: int = 0,
    readout: bool = False,
    queries: int = 0,
    init: str = "scaled",
    scale: float = 1.0,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    inputs: Sequence[Input] = (),
    fills: Sequence[Fill] = (),
    outputs: Sequence[Output] = (),
) -> AttentionNetwork:
    """A network as in the paper: `depth` modules, each of `blocks` multi-head layers in one skip.

    `tied` shares one module over the whole depth; `readout` adds one more module with weights of
    its own, as the paper's networks have; `mlp_units` ends each module with a pointwise network;
    the last `queries` tokens are attended to by nobody.
    """

    def module(repeat: int) -> AttentionModule:
        body: list[nn.Module] = [
            ExtendedLinearAttention(
                layout.tokens, layout.width, heads, bias, activation, merged,
                queries=queries, init=init, scale=scale, generator=generator,
                dtype=dtype, device=device,
            )
            for _ in range(blocks)
        ]  # fmt: skip
        if mlp_units:
            body.append(
                PointwiseNetwork(
                    layout.tokens, layout.width, mlp_units,
                    generator=generator, dtype=dtype, device=device,
                )
            )  # fmt: skip
        return AttentionModule(body, repeat)

    if depth < 1 or blocks < 1:
        raise InputError(f"depth and blocks must be positive, got {depth} and {blocks}")
    modules = [module(depth)] if tied else [module(1) for _ in range(depth)]
    if readout:
        modules.append(module(1))
    return AttentionNetwork(modules, layout, inputs, fills, outputs)
