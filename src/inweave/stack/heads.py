"""A sum of heads by its definition, to be looked into: every value passes through a hook point.

The parameters are those of an `ExtendedLinearAttention`, which computes the cheapest way. What a
head makes is what it writes, so its result is its z, and `W_O` is the identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor, nn

from inweave.stack.attention import Heads
from inweave.stack.entry import KEY, QUERY, VALUE
from inweave.stack.hooks import Config, HookPoint


def nothing(H: Tensor, *shape: int) -> Tensor:
    """Zeros (..., tokens, *shape): an empty sum over columns, so that gradients know of them."""
    return (H[..., :0] @ H.new_zeros(0, prod(shape))).reshape(*H.shape[:-1], *shape)


class HookedAttention(Heads):
    """A sum of heads, without a skip.

    `hook_q`, `hook_k`, `hook_v`, `hook_z` and `hook_result` are (..., tokens, heads, features),
    `hook_pattern` (Q Kᵀ, or what a nonlinearity makes of it) is (..., heads, tokens, tokens), and
    `hook_kv` (Kᵀ V, the fast weights of linear attention) is (..., heads, features, features).
    """

    def __init__(self, of: Heads, cfg: Config) -> None:
        super().__init__(of.weight, of.bias, of.activation, of.queries)
        self.cfg = cfg
        self.hook_q, self.hook_k, self.hook_v = HookPoint(), HookPoint(), HookPoint()
        if self.activation is None:
            self.hook_kv = HookPoint()
        self.hook_pattern, self.hook_z, self.hook_result = HookPoint(), HookPoint(), HookPoint()

    def forward(self, H: Tensor, inputs: Sequence[Tensor] | None = None) -> Tensor:
        """What the heads write.

        All of them read the prompt H, or each its own query, key and value inputs,
        (..., tokens, heads, features).
        """
        values = self.values(H) if inputs is None else self.split_values(*inputs)
        q, k, v = (hook(x) for hook, x in zip(self._taps, values, strict=True))
        if self.cfg.use_attn_kv and self.activation is None:
            kv = self.hook_kv(torch.einsum("...thf,...thc->...hfc", k, v))
            z = torch.einsum("...thf,...hfc->...thc", q, kv)
        else:
            pattern = self.activated(torch.einsum("...qhf,...thf->...hqt", q, k))
            z = torch.einsum("...hqt,...thc->...qhc", self.hook_pattern(pattern), v)
        heads: Tensor = self.hook_z(z)
        if self.cfg.use_attn_result:
            heads = self.hook_result(heads.clone())
        return heads.sum(-2)

    @property
    def _taps(self) -> tuple[nn.Module, nn.Module, nn.Module]:
        return self.hook_q, self.hook_k, self.hook_v

    def values(self, H: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Q, K and V of a prompt; none of them shares memory with another or with the prompt."""
        seen = self.seen(H)
        query, key = self.project(H, QUERY), self.project(seen, KEY)
        return query, key.clone() if self.merged else key, self.project(seen, VALUE)

    def split_values(
        self, query: Tensor, key: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Q, K and V of what each head reads."""
        asked = query.shape[-3] - self.queries
        key, value = key[..., :asked, :, :], value[..., :asked, :, :]
        return self._split(query, QUERY), self._split(key, KEY), self._split(value, VALUE)

    def _split(self, x: Tensor, part: int) -> Tensor:
        x = torch.einsum("...thf,hfc->...thc", x, self._matrix(part))
        return x if self.bias is None else x + self.bias[: x.shape[-3], :, part]

    # -- weights, by the names that TransformerLens has for them -----------------------------------
    def _matrix(self, part: int) -> Tensor:
        """The weights of a projection, (heads, features, features)."""
        if part == KEY and self.merged:
            return self.W_O
        return self.weight[:, :, (0, 1, -1)[part]].transpose(0, 1)

    @property
    def W_Q(self) -> Tensor:
        return self._matrix(QUERY)

    @property
    def W_K(self) -> Tensor:
        return self._matrix(KEY)

    @property
    def W_V(self) -> Tensor:
        return self._matrix(VALUE)

    @property
    def W_O(self) -> Tensor:
        one = torch.eye(self.features, dtype=self.weight.dtype, device=self.weight.device)
        return one.expand(self.heads, -1, -1)


class NoHeads(HookedAttention):
    """Stands where a block has no heads: the values of heads whose weights are zero."""

    def __init__(self, like: Tensor, cfg: Config) -> None:
        empty = like.new_empty(cfg.d_model, cfg.n_heads, 0, cfg.d_model)
        super().__init__(Heads(nn.Parameter(empty), None), cfg)
        del self.weight
        self.register_buffer("weight", empty, persistent=False)

    def values(self, H: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Zeros."""
        q, k, v = (nothing(H, self.heads, self.features) for _ in self._taps)
        return q, k, v

    def _matrix(self, part: int) -> Tensor:
        return self.weight.new_zeros(self.heads, self.features, self.features)
