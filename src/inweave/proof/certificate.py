"""What verification leaves behind: how equality was established, and how sure that is.

A certificate belongs to one network, by its fingerprint. Whoever shows, saves or hands on a
certificate beside a network goes through `about`: a changed network has none.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from inweave.model.network import Network


@dataclass(frozen=True)
class Certificate:
    """Equality of a program and a network, checked exactly modulo random primes at random points.

    If they differed, all checks would still have passed with at most `probability`. It counts the
    points at which a difference of this `degree` may vanish, and the primes that may divide all of
    its coefficients, which have at most so many `bits`. `prime` is the least that was drawn.
    """

    program: str
    network: str  # fingerprint
    method: str  # 'direct', or 'induction' (one step of each tied loop on a random state)
    prime: int
    seed: int
    trials: int
    degree: int
    bits: int
    probability: float
    float_difference: float | None = None
    functions: tuple[str, ...] = field(default=())
    conditions: tuple[str, ...] = field(default=())  # on the inputs, where it holds not for all

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        data: dict[str, Any] = json.loads(text)
        notes = {name: tuple(data.get(name, ())) for name in ("functions", "conditions")}
        return cls(**data | notes)

    def __str__(self) -> str:
        how = {
            "direct": "the whole network on random inputs",
            "induction": "one step of each tied loop on a random state, and all else directly",
        }[self.method]
        drawn = f"{self.trials} trials, seed {self.seed}, primes from {self.prime} on"
        lines = [
            f"verified: {self.program} = network {self.network[:12]}",
            f"  exact, modulo random primes: {how}",
            f"  {drawn}",
            f"  degree at most {self.degree}, coefficients of at most {self.bits} bits",
            f"  a wrong network passes with probability at most {self.probability:.1e}",
        ]
        if self.float_difference is not None:
            lines.append(
                f"  float64, random inputs: largest relative difference {self.float_difference:.1e}"
            )
        lines += [f"  {text}" for text in (*self.conditions, *self.functions)]
        return "\n".join(lines)


def about(network: Network, certificate: Certificate | None) -> Certificate | None:
    """The certificate if it is about exactly this network, otherwise None."""
    if certificate is None or certificate.network != network.fingerprint:
        return None
    return certificate
