"""Is the network equal to its program? Exact evaluation in a finite field says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inweave.verify.certificate import Certificate

if TYPE_CHECKING:
    from inweave.language import Program
    from inweave.network import Network

__all__ = ["Certificate", "verify"]


def verify(
    program: Program, network: Network, *, trials: int = 2, seed: int | None = None, **sizes: Any
) -> Certificate:
    """Check a network against a program; a Certificate, or VerificationError.

    Sizes are read off the network's inputs; static arguments of the program, such as a number of
    steps, are given by name.
    """
    from inweave.verify.check import verify

    return verify(program, network, trials=trials, seed=seed, **sizes)
