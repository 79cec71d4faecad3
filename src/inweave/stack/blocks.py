"""Executed layers as blocks, under the names that interpretability tools know.

Every executed layer is a block: `blocks.{i}`, with `attn` (or `mlp` for a pointwise layer), and
every value of interest passes through a hook point: `blocks.{i}.hook_resid_pre`,
`blocks.{i}.attn.hook_q`, ..., `blocks.{i}.hook_resid_post`, as in TransformerLens. Blocks of a
repeated module are separate, so that one step can be changed alone, and share their parameters.
States are (..., tokens, width).

torch.compile follows every operation of every block, several times, and takes a minute for some
hundred blocks. Few blocks it may look through, and fuse. Many are one operation to it (see
`inweave.stack.opaque`), unless there are hooks, which it has to see.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor, nn

from inweave.errors import InputError
from inweave.model.cost import ADVICE, LONGEST
from inweave.stack.attention import ExtendedLinearAttention, HookedAttention
from inweave.stack.hooks import Hooked, HookPoint
from inweave.stack.opaque import final_state, keep
from inweave.stack.pointwise import Functions, PointwiseNetwork

Layer = ExtendedLinearAttention | PointwiseNetwork | Functions
CLEAR = 32  # blocks that torch.compile looks through in some seconds
Step = Layer | Literal["open", "close"]  # a layer, or where a skip around several begins and ends


class Block(nn.Module):
    """One executed layer, with its skip."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        inner = layer.hooked()
        self.skip, self.kind = layer.skip, "attn" if isinstance(inner, HookedAttention) else "mlp"
        self.hook_resid_pre = HookPoint()
        self.add_module(self.kind, inner)
        self.add_module(f"hook_{self.kind}_out", HookPoint())
        self.hook_resid_post = HookPoint()

    def forward(self, H: Tensor) -> Tensor:
        H = self.hook_resid_pre(H)
        out = getattr(self, f"hook_{self.kind}_out")(getattr(self, self.kind)(H))
        after: Tensor = self.hook_resid_post(H + out if self.skip else out)
        return after


class Blocks(Hooked):
    """Layers in the order in which they run, one block each; the final state of a prompt."""

    def __init__(self, steps: Iterable[Step]) -> None:
        super().__init__()
        self.hook_embed, self.hook_final = HookPoint(), HookPoint()
        self.blocks = nn.ModuleList()
        self._order: list[int | str] = []  # which block, or where a skip begins and ends
        layers: list[Layer] = []
        for step in steps:
            if isinstance(step, str):
                self._order.append(step)
                continue
            self._order.append(len(layers))
            layers.append(step)
            if len(layers) > LONGEST:
                raise InputError(
                    f"the network executes more than {LONGEST:,} layers, too many to write out: "
                    f"{ADVICE}"
                )
        self.blocks.extend(map(Block, layers))

    def forward(self, H: Tensor) -> Tensor:
        """The state after the last block, (..., tokens, width)."""
        if torch.compiler.is_dynamo_compiling() and self.is_opaque():
            tensors = list(map(self.get_parameter, self.tied()))
            state: Tensor = final_state(self.keep(), H, tensors)
            return state
        H = self.hook_embed(H)
        opened: list[Tensor] = []
        for step in self._order:
            if step == "open":
                opened.append(H)
            elif step == "close":
                H = opened.pop() + H
            else:
                H = self.blocks[int(step)](H)
        final: Tensor = self.hook_final(H)
        return final

    # -- facts for torch.compile ------------------------------------------------------------------
    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
    def keep(self) -> int:
        """Its `id`, by which `final_state` finds it while it is in use."""
        return keep(self)

    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
    def is_opaque(self) -> bool:
        """Whether it is too long to look through, and nobody wants to look in."""
        kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
        hooks = (getattr(part, kind) for part in self.modules() for kind in kinds)
        return len(self.blocks) > CLEAR and not any(hooks)

    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
    def tied(self) -> tuple[str, ...]:
        """The names of its parameters, one for those that blocks share."""
        return tuple(name for name, _ in self.named_parameters())
