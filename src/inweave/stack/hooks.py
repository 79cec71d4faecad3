"""Hook points: names for the values that pass through a network, as TransformerLens has them.

A hook point is the identity. Ordinary forward hooks on it read and replace what passes, and
`run_with_cache` collects it by name. Some values are made only when they are asked for, because
they cost an axis of heads: the flags of the `Config` say which.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from inweave.errors import InputError

Filter = str | Sequence[str] | Callable[[str], bool] | None


@dataclass
class Config:
    """The sizes of a stack, and which hook points values pass; the names are TransformerLens'.

    A head reads and writes whole columns, so `d_head` is `d_model`, the width. Without
    `use_attn_kv` a linear head is (Q Kᵀ) V and Q Kᵀ passes `attn.hook_pattern`; with it, the head
    is Q (Kᵀ V), which is less where tokens outnumber columns, and Kᵀ V passes `attn.hook_kv`.
    """

    n_layers: int
    n_heads: int
    d_model: int
    d_head: int
    n_ctx: int
    attn_only: bool
    parallel_attn_mlp: bool = False
    use_split_qkv_input: bool = False
    use_attn_result: bool = False
    use_hook_mlp_in: bool = False
    use_attn_kv: bool = False


# hook points that a flag opens
FLAGS = {
    "hook_q_input": "use_split_qkv_input",
    "hook_k_input": "use_split_qkv_input",
    "hook_v_input": "use_split_qkv_input",
    "hook_result": "use_attn_result",
    "hook_mlp_in": "use_hook_mlp_in",
    "hook_kv": "use_attn_kv",
}


class HookPoint(nn.Module):
    """The identity: a name for a value that passes through."""

    def forward(self, x: Tensor) -> Tensor:
        return x


class Hooked(nn.Module):
    """A module with hook points somewhere inside."""

    cfg: Config

    @property
    def hook_names(self) -> list[str]:
        """The names of all activations that pass while the flags are as they are."""
        points = (name for name, part in self.named_modules() if isinstance(part, HookPoint))
        return [name for name in points if self.closed_by(name) is None]

    def closed_by(self, name: str) -> str | None:
        """The setting without which nothing passes a hook point; None if it is as needed."""
        point = name.rpartition(".")[2]
        flag = FLAGS.get(point)
        if flag is not None and not getattr(self.cfg, flag):
            return f"{flag} = True"
        if point == "hook_pattern" and self.cfg.use_attn_kv and self._is_linear(name):
            return "use_attn_kv = False"
        return None

    def check_name(self, name: str) -> None:
        """Refuse the name of a hook point that is not there, or that nothing passes."""
        try:
            known = isinstance(self.get_submodule(name), HookPoint)
        except AttributeError:
            known = False
        if not known:
            raise InputError(f"no activation {name!r}; see hook_names")
        setting = self.closed_by(name)
        if setting is not None:
            raise InputError(f"nothing passes {name!r} unless cfg.{setting}")

    def _is_linear(self, pattern: str) -> bool:
        return hasattr(self.get_submodule(pattern.rpartition(".")[0]), "hook_kv")

    def run_with_cache(
        self, *args: Any, names_filter: Filter = None, **inputs: Any
    ) -> tuple[Any, Any]:
        """The result, and the activations by name; all of them, or those that the filter keeps."""
        cache: dict[str, Tensor] = {}

        def keeper(name: str) -> Callable[..., None]:
            def keep(_: nn.Module, __: Any, value: Tensor) -> None:
                cache[name] = value

            return keep

        kept = self._kept(names_filter)
        handles = [self.get_submodule(n).register_forward_hook(keeper(n)) for n in kept]
        try:
            return self(*args, **inputs), cache
        finally:
            for handle in handles:
                handle.remove()

    def _kept(self, wanted: Filter) -> list[str]:
        if wanted is None:
            return self.hook_names
        if callable(wanted):
            return [name for name in self.hook_names if wanted(name)]
        names = [wanted] if isinstance(wanted, str) else list(wanted)
        for name in names:
            self.check_name(name)
        return names
