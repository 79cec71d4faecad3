"""What the explorer shows: a network, and what is known of it besides its data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol

from inweave.errors import InputError
from inweave.language.program import Traced
from inweave.model.network import Network
from inweave.proof.certificate import Certificate, Claim
from inweave.proof.entries import Degree


@dataclass(frozen=True)
class Made:
    """What a network was made from, here or as its file says, and how; `traced` is the program.

    `counted` finds, for each static number, the loops that are as long as it says, where nothing
    else of the network depends on it as far as seen.
    """

    program: str
    optimize: str
    sizes: Mapping[str, Any]
    traced: Traced | None
    changed: bool = False  # the network is not, or not as far as is known, what was compiled
    counted: Callable[[], Mapping[str, Sequence[int]]] = dict


@dataclass(frozen=True)
class Shown:
    """A network, what it was made from, what is proved or claimed of it, and its degree."""

    network: Network
    made: Made | None = None
    proved: Certificate | Claim | None = None
    degree: Degree | None = None


class Explorable(Protocol):
    """What `page`, `write` and `Widget` take: the public Network is one."""

    def shown(self) -> Shown:
        """The network and what is known of it."""


Several = Mapping[Any, Explorable] | Sequence[Explorable] | Explorable


def title(shown: Shown) -> str:
    """A name for a network without one."""
    made, kind = shown.made, shown.network.target.upper()
    if made is None:
        return f"{kind} network"
    return f"{made.program}, {kind}, {'changed' if made.changed else made.optimize}"


def named(networks: Several) -> dict[str, Shown]:
    """Networks by name; those without one are called after their program and options."""
    if hasattr(networks, "shown"):
        shown = networks.shown()
        return {title(shown): shown}
    if not isinstance(networks, Iterable):
        raise InputError(f"expected a Network, or several, got {type(networks).__name__}")
    pairs = (
        list(networks.items()) if isinstance(networks, Mapping) else [(None, n) for n in networks]
    )
    out: dict[str, Shown] = {}
    for key, net in pairs:
        if not hasattr(net, "shown"):
            said = "this" if key is None else repr(key)
            raise InputError(f"{said} is not a Network, got {type(net).__name__}")
        if not (key is None or isinstance(key, (str, Real))):
            raise InputError(f"a network's name is text or a number, got {key!r}")
        base = name = title(net.shown()) if key is None else str(key)
        count = 1
        while name in out:
            if key is not None:
                raise InputError(f"two networks are called {name!r}")
            count += 1
            name = f"{base} ({count})"
        out[name] = net.shown()
    return out
