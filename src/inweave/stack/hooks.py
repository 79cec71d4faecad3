"""Hook points: names for the values that pass through a network.

A hook point is the identity. Ordinary forward hooks on it read and replace what passes, and
`run_with_cache` collects it by name, as in TransformerLens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from inweave.errors import InputError

Filter = str | Sequence[str] | Callable[[str], bool] | None


class HookPoint(nn.Module):
    """The identity: a name for a value that passes through."""

    def forward(self, x: Tensor) -> Tensor:
        return x


class Hooked(nn.Module):
    """A module with hook points somewhere inside."""

    @property
    def hook_names(self) -> list[str]:
        """The names of all activations."""
        return [name for name, part in self.named_modules() if isinstance(part, HookPoint)]

    def run_with_cache(
        self, *args: Any, names_filter: Filter = None, **inputs: Any
    ) -> tuple[Any, dict[str, Tensor]]:
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
        known = self.hook_names
        if wanted is None:
            return known
        if callable(wanted):
            return [name for name in known if wanted(name)]
        names = [wanted] if isinstance(wanted, str) else list(wanted)
        unknown = [name for name in names if name not in known]
        if unknown:
            raise InputError(f"no activation {unknown[0]!r}; see hook_names")
        return names
