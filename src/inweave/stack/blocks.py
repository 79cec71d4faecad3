"""Executed layers as blocks, under the names that interpretability tools know.

Every executed layer is a block, `blocks.{i}`, as TransformerLens has them: heads `attn`, then an
`mlp`, each adding to the state. An attention layer has no `mlp` and a pointwise layer no heads;
what is missing adds zero, through the hook points that it has elsewhere, so that whoever goes
through all layers finds them. Blocks of a repeated module are separate, so that one step can be
changed alone, and share their parameters. States are (..., tokens, width).

Where a layer stands alone inside the skip of a module, that skip is the block's. A skip around
several layers cannot be: it is added between blocks, and the next `hook_resid_pre` is what comes
out of it. An attention layer without any skip puts its heads in the place of the state, and
`hook_resid_mid` is `hook_attn_out`.

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
from inweave.model.layout import Layout
from inweave.stack.attention import ExtendedLinearAttention
from inweave.stack.heads import HookedAttention, NoHeads, nothing
from inweave.stack.hooks import Config, Hooked, HookPoint
from inweave.stack.opaque import final_state, keep
from inweave.stack.pointwise import Functions, PointwiseNetwork

Layer = ExtendedLinearAttention | PointwiseNetwork | Functions
CLEAR = 32  # blocks that torch.compile looks through in some seconds
# a layer and whether it has a skip, or where a skip around several begins and ends
Step = tuple[Layer, bool] | Literal["open", "close"]


class Block(nn.Module):
    """One executed layer, with the skip that is its own or of a module that holds nothing else."""

    def __init__(self, layer: Layer, skip: bool, cfg: Config) -> None:
        super().__init__()
        self.cfg, self.skip = cfg, skip
        self.hook_resid_pre = HookPoint()
        self.hook_q_input, self.hook_k_input, self.hook_v_input = (HookPoint() for _ in range(3))
        if isinstance(layer, ExtendedLinearAttention):
            self.attn, self.mlp = HookedAttention(layer, cfg), None
        else:
            self.attn = NoHeads(next(layer.parameters(), torch.empty(0)), cfg)
            self.mlp = layer.hooked()
        self.hook_attn_out, self.hook_resid_mid = HookPoint(), HookPoint()
        self.hook_mlp_in, self.hook_mlp_out = HookPoint(), HookPoint()
        self.hook_resid_post = HookPoint()

    def forward(self, H: Tensor) -> Tensor:
        H = self.hook_resid_pre(H)
        out = self.hook_attn_out(self.attn(H, self._inputs(H)))
        H = self.hook_resid_mid(H + out if self.skip or self.mlp is not None else out)
        after: Tensor = self.hook_resid_post(self._after_mlp(H))
        return after

    def _inputs(self, H: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
        """What each head reads as query, key and value, if that is to be told apart."""
        if not self.cfg.use_split_qkv_input:
            return None
        each = H.unsqueeze(-2).expand(*H.shape[:-1], self.attn.heads, H.shape[-1])
        query, key = self.hook_q_input(each.clone()), self.hook_k_input(each.clone())
        return query, key, self.hook_v_input(each.clone())

    def _after_mlp(self, H: Tensor) -> Tensor:
        """The state and what the pointwise layer adds to it.

        One without a skip, which puts values in the place of others, adds the difference. What
        rounding takes from the sum, where values become much smaller, is put back.
        """
        read = self.hook_mlp_in(H.clone()) if self.cfg.use_hook_mlp_in else H
        out: Tensor = nothing(read, read.shape[-1]) if self.mlp is None else self.mlp(read)
        if self.mlp is None or self.skip:
            added: Tensor = self.hook_mlp_out(out)
            return H + added
        change = out - read
        lost = (out - (read + change)).detach()
        added = self.hook_mlp_out(change)
        return H + added + lost


class Blocks(Hooked):
    """Layers in the order in which they run, one block each; the final state of a prompt."""

    def __init__(self, layout: Layout, steps: Iterable[Step]) -> None:
        super().__init__()
        self.hook_embed, self.hook_final = HookPoint(), HookPoint()
        self.blocks = nn.ModuleList()
        self._order: list[int | str] = []  # which block, or where a skip begins and ends
        layers: list[tuple[Layer, bool]] = []
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
        attention = [x for x, _ in layers if isinstance(x, ExtendedLinearAttention)]
        self.cfg = Config(
            n_layers=len(layers),
            n_heads=max((x.heads for x in attention), default=1),
            d_model=layout.width,
            d_head=layout.width,
            n_ctx=layout.tokens,
            attn_only=len(attention) == len(layers),
        )
        self.blocks.extend(Block(layer, skip, self.cfg) for layer, skip in layers)

    def forward(self, H: Tensor) -> Tensor:
        """The state after the last block, (..., tokens, width)."""
        if torch.compiler.is_dynamo_compiling() and self.is_opaque():
            tensors = list(map(self.get_parameter, self.tied()))
            state: Tensor = final_state(self.keep(), H, tensors)
            return state
        H = self.hook_embed(H.clone())  # hooks may write into what they get
        opened: list[Tensor] = []
        for step in self._order:
            if step == "open":
                opened.append(H.clone())
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
