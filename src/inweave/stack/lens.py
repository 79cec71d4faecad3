"""Compiled networks as models of TransformerLens, for the tools that are written for it.

`LensNetwork` is the torch module with TransformerLens' hook points in place of the stack's, under
the same names, and its root: `run_with_hooks`, `hooks()`, `add_hook`, an `ActivationCache`. Every
value has exactly one batch axis, so heads are axis 2. Layers have different numbers of heads and
tools count on one, so those with fewer get heads whose weights are zero.

Many tools take token ids for granted: they read the number of positions off the last axis of what
they hand to the model. So rows of prompts can be given ids, `model.to_tokens(...)`: the vocabulary
is the rows that were named, and embedding is looking them up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import Any, Self

import torch
from torch import Tensor
from transformer_lens import ActivationCache, HookedRootModule, TransformerBridgeConfig
from transformer_lens.hook_points import HookPoint as LensHookPoint

from inweave.errors import InputError, ShapeError
from inweave.model.cost import check_numbers
from inweave.model.layers import AttentionLayer
from inweave.model.network import Network
from inweave.stack.exported import TorchNetwork
from inweave.stack.hooks import Filter, HookPoint

Name = str | Callable[[str], bool]
Hooks = Sequence[tuple[Name, Callable[..., Any]]]


class LensPoint(LensHookPoint, HookPoint):  # type: ignore[misc]
    """A hook point of both."""


class LensNetwork(TorchNetwork, HookedRootModule):  # type: ignore[misc]
    """A network as a model of TransformerLens: `model(H)` is the final state of prompts.

    Prompts are (batch, tokens, width), or ids of their rows, (batch, tokens); one prompt alone gets
    a batch axis. `model(X=X, ...)` is the answer to named inputs. Activations have gradients where
    gradients are taken at all.
    """

    W_E: Tensor  # the rows that have ids
    cfg: Any  # TransformerLens' own, with the fields of the stack's and many more
    mod_dict: dict[str, Any]
    hook_dict: dict[str, Any]

    def __init__(
        self, network: Network, trainable: bool = False, dtype: torch.dtype = torch.float64
    ) -> None:
        layers = [layer for layer in network.layers if isinstance(layer, AttentionLayer)]
        heads = max((len(layer.heads) for layer in layers), default=1)
        each = 3 * network.width * (network.width + network.tokens)
        check_numbers("a model of TransformerLens", heads * len(layers) * each)
        super().__init__(network, trainable, dtype, heads=heads)
        self.register_buffer("W_E", torch.empty(0, network.width, dtype=dtype), False)
        shape = asdict(self.cfg)
        fast = shape.pop("use_attn_kv")  # which TransformerLens does not know
        cfg = TransformerBridgeConfig(
            **shape, d_vocab=0, d_mlp=0, device="cpu", dtype=dtype, model_name="inweave",
            normalization_type=None, attention_dir="bidirectional",
        )  # fmt: skip
        cfg.use_attn_kv = fast
        self._become_lens(cfg)
        self.setup()
        self.eval()

    def _become_lens(self, cfg: Any) -> None:
        """Hook points and settings of TransformerLens in place of the stack's."""
        for module in list(self.modules()):
            if hasattr(module, "cfg"):
                module.cfg = cfg
            for name, part in list(module.named_children()):
                if isinstance(part, HookPoint):
                    module.add_module(name, LensPoint())

    def setup(self) -> None:
        """Name the hook points; what heads read has a second name, which newer tools use."""
        super().setup()
        for i, block in enumerate(self.blocks):
            for x in "qkv":
                point = block.get_submodule(f"hook_{x}_input")
                name = f"blocks.{i}.attn.hook_{x}_input"
                self.mod_dict[name] = self.hook_dict[name] = point

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.cfg.device, self.cfg.dtype = str(self.W_E.device), self.W_E.dtype
        return self

    # -- prompts and rows with ids -----------------------------------------------------------------
    def to_tokens(self, H: Tensor | None = None, /, **inputs: Any) -> Tensor:
        """Ids (batch, tokens) for the rows of prompts, for tools that take ids for granted."""
        H = self._batch(self.prompt_of(**inputs) if H is None else H).detach()
        self.network.layout.check(H)
        first = len(self.W_E)
        self.W_E = torch.cat([self.W_E, H.flatten(0, 1).to(self.W_E)])
        self.cfg.d_vocab = len(self.W_E)
        ids = torch.arange(first, len(self.W_E), device=self.W_E.device)
        return ids.reshape(H.shape[:2])

    def forward_prompt(self, H: Tensor) -> Tensor:
        """The state after the last block, (batch, tokens, width)."""
        H = self._batch(H if H.is_floating_point() else self._rows(H))
        if not H.requires_grad:  # for gradients of activations, which tools ask for
            H = H.detach().requires_grad_(torch.is_grad_enabled())
        return super().forward_prompt(H)

    def forward_inputs(self, **inputs: Any) -> Any:
        """Named inputs in, the answer or a dict of answers out."""
        H = self.prompt_of(**inputs)
        state = self.forward_prompt(H)
        return self.readout(state[0] if H.dim() == 2 else state)

    def _rows(self, ids: Tensor) -> Tensor:
        known = len(self.W_E)
        if ids.dim() > 2 or ((ids < 0) | (ids >= known)).any():
            raise InputError(
                f"got whole numbers of shape {tuple(ids.shape)}, which are read as ids: expected "
                f"(batch, tokens) of the {known} that model.to_tokens(...) has given, or a prompt "
                f"of {self.dtype}"
            )
        return self.W_E[ids]

    def _batch(self, H: Tensor) -> Tensor:
        H = H[None] if H.dim() == 2 else H
        if H.dim() != 3:
            raise ShapeError(
                f"got a prompt of shape {tuple(H.shape)}, expected (batch, tokens, width): a model "
                "of TransformerLens has one batch axis; flatten the others"
            )
        return H

    # -- TransformerLens ---------------------------------------------------------------------------
    def run_with_cache(
        self,
        *args: Any,
        names_filter: Filter = None,
        return_cache_object: bool = True,
        remove_batch_dim: bool = False,
        **more: Any,
    ) -> tuple[Any, Any]:
        """The result, and an ActivationCache, or a dict."""
        kept = self._kept(names_filter)
        out, found = HookedRootModule.run_with_cache(
            self, *args, names_filter=kept, remove_batch_dim=remove_batch_dim, **more
        )
        if not return_cache_object:
            return out, found
        return out, ActivationCache(found, self, has_batch_dim=not remove_batch_dim)

    def hooks(
        self, fwd_hooks: Hooks = (), bwd_hooks: Hooks = (), *args: Any, **more: Any
    ) -> AbstractContextManager[Self]:
        """A context with hooks; one that would never be called is refused."""
        given = (fwd_hooks, bwd_hooks)
        chosen = ([(n, hook) for name, hook in each for n in self._chosen(name)] for each in given)
        context: AbstractContextManager[Self] = super().hooks(*chosen, *args, **more)
        return context

    def add_hook(self, name: Name, hook: Callable[..., Any], *args: Any, **more: Any) -> None:
        """A hook on one point, or on those that a function chooses."""
        for each in self._chosen(name):
            super().add_hook(each, hook, *args, **more)

    def _chosen(self, name: Name) -> list[str]:
        """The points of a name, or of a function of names: of those that values pass, each once."""
        if not callable(name):
            self.check_name(name)
            return [name]
        wanted = dict.fromkeys(point.name for n, point in self.hook_dict.items() if name(n))
        chosen = [n for n in wanted if self.closed_by(n) is None]
        if wanted and not chosen:
            self.check_name(next(iter(wanted)))
        if not chosen:
            raise InputError(f"the filter {name!r} keeps no activation; see hook_names")
        return chosen

    def check_name(self, name: str) -> None:
        """Refuse the name of a hook point that is not there, or that nothing passes."""
        super().check_name(self.hook_dict[name].name if name in self.hook_dict else name)

    def set_use_split_qkv_input(self, use: bool) -> None:
        """Whether what each head reads passes `hook_q_input`, `hook_k_input`, `hook_v_input`."""
        self.cfg.use_split_qkv_input = use

    def set_use_attn_result(self, use: bool) -> None:
        """Whether what each head writes passes `attn.hook_result`."""
        self.cfg.use_attn_result = use

    def set_use_hook_mlp_in(self, use: bool) -> None:
        """Whether what a pointwise layer reads passes `hook_mlp_in`."""
        self.cfg.use_hook_mlp_in = use

    def accumulated_bias(self, *_: Any, **__: Any) -> Tensor:
        """What is added to the state beside heads and pointwise layers: nothing."""
        return self.W_E.new_zeros(self.cfg.d_model)


def to_lens(
    network: Network, trainable: bool = False, dtype: torch.dtype | None = None
) -> LensNetwork:
    """The network as a model of TransformerLens, in float64 unless told otherwise."""
    return LensNetwork(network, trainable, dtype or torch.float64)
