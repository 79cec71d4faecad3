"""What the explorer shows: a network, and what is known of it besides its data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from inweave.compiler.origin import Origin
from inweave.model.network import Network
from inweave.proof.certificate import Certificate


@dataclass(frozen=True)
class Shown:
    """A network with its origin, its certificate, and its degree and whether that is exact."""

    network: Network
    origin: Origin | None = None
    certificate: Certificate | None = None
    degree: tuple[int, bool] | None = None


class Explorable(Protocol):
    """What `page`, `write` and `Widget` take: the public Network is one."""

    def shown(self) -> Shown:
        """The network and what is known of it."""
