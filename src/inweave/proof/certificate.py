"""What verification leaves behind: how equality was established, and how sure that is.

A certificate belongs to one network, by its fingerprint. Whoever shows, saves or hands on a
certificate beside a network goes through `about`: a changed network has none. A file can say
anything, so what is read from one is not a certificate but a `Claim` of it, and is called one
wherever it is shown, until `verify` has checked it here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from textwrap import indent
from typing import Annotated, Any, TypeVar

from inweave.exact.schema import Line, Must, Natural, Number
from inweave.model.network import Network

METHODS = {
    "algebra": "sums of words, loops by induction",
    "direct": "the whole network on random inputs",
    "words": "sums of words, with random numbers for scalars and for what is repeated",
    "induction": "one step of each tied loop on a random state, and all else directly",
}
UNCHECKED = "recorded in the file, not checked here"
Method = Annotated[str, Must(" or ".join(METHODS), METHODS.__contains__)]
Probability = Annotated[float, Must("a probability", lambda p: 0 <= p <= 1)]


@dataclass(frozen=True)
class Certificate:
    """Equality of a program and a network: proved by algebra, or checked at random points.

    By algebra there is no chance of error, and `beyond` says for which other sizes and numbers of
    steps it holds. Otherwise both were evaluated modulo random primes, and if they differed, all
    checks would still have passed with at most `probability`. It counts the points at which a
    difference of this `degree` may vanish, and the primes that may divide all of its coefficients,
    which have at most so many `bits`. `prime` is the least that was drawn.
    """

    program: Line
    network: Line  # fingerprint
    method: Method
    prime: Natural = 0
    seed: Natural = 0
    trials: Natural = 0
    degree: Natural = 0
    bits: Natural = 0
    probability: Probability = 0.0
    float_difference: Number | None = None
    functions: tuple[Line, ...] = field(default=())
    conditions: tuple[Line, ...] = field(default=())  # on the inputs, where it holds not for all
    beyond: tuple[Line, ...] = field(default=())  # what else it holds for, as it stands
    free: tuple[Line, ...] = field(default=())  # the sizes that the proof does not depend on

    @property
    def is_proof(self) -> bool:
        """Whether nothing is left to chance."""
        return self.method == "algebra"

    @property
    def summary(self) -> str:
        """What is known, in a line."""
        if self.is_proof:
            return ", ".join(["proved (algebra)", *self.conditions, *self.beyond])
        said = ", ".join([f"verified ({self.method})", *self.conditions])
        return f"{said}, wrong with probability at most {self.probability:.0e}"

    def __str__(self) -> str:
        if self.is_proof:
            lines = [
                f"proved: {self.program} = network {self.network[:12]}",
                f"  by algebra, with no chance of error: {METHODS[self.method]}",
                *(f"  {text}" for text in self.beyond),
            ]
        else:
            lines = [
                f"verified: {self.program} = network {self.network[:12]}",
                f"  exact, modulo random primes: {METHODS[self.method]}",
                f"  {self.trials} trials, seed {self.seed}, primes from {self.prime} on",
                f"  degree at most {self.degree}, coefficients of at most {self.bits} bits",
                f"  a wrong network passes with probability at most {self.probability:.1e}",
            ]
        if self.float_difference is None:
            lines.append("  float64: not compared")
        else:
            lines.append(
                f"  float64, random inputs: largest relative difference {self.float_difference:.1e}"
            )
        lines += [f"  {text}" for text in (*self.conditions, *self.functions)]
        return "\n".join(lines)


@dataclass(frozen=True)
class Claim:
    """What a file says was proved, which anyone could have written there."""

    certificate: Certificate

    @property
    def network(self) -> str:
        return self.certificate.network

    @property
    def summary(self) -> str:
        """What is claimed, in a line."""
        return f"{UNCHECKED}: {self.certificate.summary}"

    def __str__(self) -> str:
        return f"{UNCHECKED}:\n{indent(str(self.certificate), '  ')}"


Known = TypeVar("Known", bound=Certificate | Claim)


def about(network: Network, known: Known | None) -> Known | None:
    """The certificate or claim if it is about exactly this network, otherwise None."""
    if known is None or known.network != network.fingerprint:
        return None
    return known


def as_data(network: Network, known: Certificate | Claim | None) -> dict[str, Any]:
    """What is known of a network, for other programs; `verified` only if it was checked."""
    known = about(network, known)
    certificate = vars(known) if isinstance(known, Certificate) else None
    claim = None
    if isinstance(known, Claim):
        claim = {"status": UNCHECKED, **vars(known.certificate)}
    return {"verified": certificate is not None, "certificate": certificate, "claim": claim}
