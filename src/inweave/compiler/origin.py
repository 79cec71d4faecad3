"""Where a network came from: kept beside it, never part of its identity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inweave.language import Program, Traced

if TYPE_CHECKING:
    from inweave.network import Network


@dataclass(frozen=True)
class Origin:
    """The program, sizes and options that a network was compiled from."""

    program: Program
    sizes: dict[str, Any]
    target: str = "elsa"
    optimize: str = "faithful"
    tokens: int | str | None = None
    layout: Any = None
    added: tuple[str, ...] = ()
    made_at: dict[str, Any] | None = None  # the sizes that the weights were compiled at, if others

    def free_sizes(self, network: Network) -> tuple[str, ...]:
        """The sizes that the weights do not depend on: `net.resize` takes any value of them."""
        from inweave.compiler.resize import is_free

        names = [name for name in self.program.size_names if name in self.sizes]
        return tuple(name for name in names if is_free(network, name))

    @property
    def traced(self) -> Traced:
        return self.program.trace(**self.sizes)
