"""Verification: a network against a program, and the certificate of their equality.

Here is only what is asked and what is concluded. Whether they can be compared at all is asked in
`interface`, how they are compared in `field_check`, how sure that is in `heights`, what is known of
functions in `tables`, what it costs in `cost`, what rounding adds in `floats`, and where a wrong
network goes wrong in `diagnosis`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from inweave.errors import ProgramError, VerificationError
from inweave.exact.field import Field, random_prime
from inweave.exact.field_arithmetic import FieldArithmetic
from inweave.exact.whole import is_whole
from inweave.language import expressions as ex
from inweave.language.program import Traced
from inweave.model.network import Network
from inweave.proof.algebra import NotProved, prove
from inweave.proof.certificate import Certificate
from inweave.proof.cost import seconds
from inweave.proof.degree import degree_text
from inweave.proof.diagnosis import first_layer
from inweave.proof.field_check import Comparison, Mismatch, Point
from inweave.proof.floats import float_difference
from inweave.proof.heights import Size
from inweave.proof.interface import compatible, conditions
from inweave.proof.sizes import Recorder, said_of_sizes, unchanged_by
from inweave.proof.tables import function_notes, own_tables, reciprocals
from inweave.run.plan import Plan

TRIALS = 2  # at least
UNLIKELY = 1e-12  # trials are added until a wrong network passes with no more than this
UNSURE = 1e-3  # a larger chance of passing by accident is no certificate
MOST_TRIALS = 100
BUDGET = 60.0  # seconds for trials that nobody asked for
UNLUCKY = 8  # draws at which something is divided by zero, before that is taken for certain


class TooFewTrials(VerificationError):
    """Nothing differed, but it takes more time than was allowed to be sure of that."""


def verify(
    name: str,
    traced: Traced,
    network: Network,
    *,
    trials: int | None = None,
    seed: int | None = None,
    plan: Plan | None = None,
    budget: float = BUDGET,
    reference: Callable[[], Network] | None = None,
    record: Recorder | None = None,
) -> Certificate:
    """Check a network against a recorded program; a Certificate, or VerificationError.

    It is proved by algebra where that is possible; else, and if `trials` are asked for, both are
    evaluated at random points: at least so many, and as many more as it takes to be sure, if that
    takes no more than about `budget` seconds. `plan` is the network's where there is one already.
    `reference` compiles the program again, to say where a wrong network parts from a right one;
    `record` records it at other sizes, to see whether a proof holds for them.
    """
    compatible(name, traced, network)
    if trials is not None and not is_whole(trials, 1):
        raise ProgramError(f"verification needs at least one trial, got {trials!r}")
    if seed is not None and not is_whole(seed, 0):
        raise ProgramError(f"the seed of a verification is a whole number from 0 on, got {seed!r}")
    plan = plan or Plan(network)
    if trials is None and seed is None:
        try:
            return _by_algebra(name, traced, network, plan, record)
        except NotProved:
            trials = TRIALS
    trials = TRIALS if trials is None else int(trials)
    seed = secrets.randbelow(2**53) if seed is None else int(seed)
    most = max(trials, min(MOST_TRIALS, int(2 * budget / seconds(traced, plan))))
    check = Check(name, traced, network, trials, most, seed, reference)
    notes, limits = function_notes(traced), conditions(traced, network)
    try:
        found = check.run(opaque=True)
    except VerificationError:
        if not reciprocals(traced):
            raise
        found = check.run(opaque=False)
        notes = own_tables(name, traced, network)
        limits.append("with 1/x in place of every reciprocal")
    if found.risk > UNSURE:
        raise _unsure(name, traced, found, most)
    return Certificate(
        program=name,
        network=network.fingerprint,
        method="direct" if found.method == "direct" else "induction",
        prime=found.prime,
        seed=seed,
        trials=found.trials,
        degree=found.size.degree,
        bits=int(found.size.bits),
        probability=found.risk,
        float_difference=float_difference(traced, plan),
        functions=tuple(notes),
        conditions=tuple(limits),
    )


def _by_algebra(
    name: str, traced: Traced, network: Network, plan: Plan, record: Recorder | None
) -> Certificate:
    """The certificate of a proof, or NotProved."""
    found = prove(traced, network)
    free = unchanged_by(traced, found.sizes, record)
    beyond = said_of_sizes(traced, free)
    if found.every_step and any(module.carries for module in network.modules):
        beyond.append("however often its loops repeat")
    return Certificate(
        program=name,
        network=network.fingerprint,
        method="algebra",
        float_difference=float_difference(traced, plan),
        functions=tuple(function_notes(traced)),
        conditions=tuple(conditions(traced, network)),
        beyond=tuple(beyond),
        free=free,
    )


@dataclass(frozen=True)
class Passed:
    """A comparison that found no difference: how, at how many points, and how sure that is."""

    method: str
    size: Size
    trials: int
    prime: int  # the least that was drawn
    risk: float


@dataclass
class Check:
    """Comparisons of a program and a network, repeated until they are sure."""

    name: str
    traced: Traced
    network: Network
    trials: int
    most: int
    seed: int
    reference: Callable[[], Network] | None

    def run(self, opaque: bool) -> Passed:
        """How program and network were found equal.

        `opaque` takes a reciprocal for a function of which nothing is known. A compiled network
        equals its program even so; another one may need that it is an inverse. Every method that
        was tried could have passed a wrong network, so the chances add up.
        """
        comparison, rng = Comparison(self.traced, self.network), np.random.default_rng(self.seed)
        risk = 0.0
        for method in comparison.methods:
            try:
                found = self._repeated(comparison, method, opaque, rng)
                return replace(found, risk=min(1.0, risk + found.risk))
            except Mismatch as mismatch:
                if method == "direct":
                    raise VerificationError(
                        f"network and program {self.name!r} differ: {mismatch}"
                    ) from None
                size = comparison.size(method, opaque)
                risk += size.risk(enough(size, self.trials, self.most))
        raise AssertionError("the last method is direct")

    def _repeated(
        self, comparison: Comparison, method: str, opaque: bool, rng: np.random.Generator
    ) -> Passed:
        """Compare in one way at enough points."""
        size = Size(0, 0.0)
        needed, least, equal = self.trials, 2**31, dict[str, list[int]]()
        trial = lucky = 0
        while trial < needed:
            arithmetic = self._point(comparison, method, opaque, rng)
            meetings = arithmetic.meetings()
            if trial and meetings != equal:  # two arguments were equal by accident
                lucky += 1
                if lucky > UNLUCKY:
                    raise VerificationError(f"{self.name!r}: arguments of functions meet by chance")
                trial = 0
                continue
            least, equal = min(least, arithmetic.field.prime), meetings
            if trial == 0:
                size = comparison.size(method, opaque)
                needed = enough(size, self.trials, self.most)
            trial += 1
        return Passed(method, size, needed, least, size.risk(needed))

    def _point(
        self, comparison: Comparison, method: str, opaque: bool, rng: np.random.Generator
    ) -> FieldArithmetic:
        """Compare at one point modulo a prime of its own, both drawn at random."""
        for _ in range(UNLUCKY):
            key = int(rng.integers(2**62))
            arithmetic = FieldArithmetic(Field(random_prime(rng)), key, opaque)
            try:
                comparison.compare(method, Point(arithmetic, rng))
                return arithmetic
            except ZeroDivisionError:  # the prime divides a denominator, or a pivot was drawn as 0
                continue
            except Mismatch as found:
                if method != "direct" or self.reference is None:
                    raise
                where = first_layer(self.network, self.reference(), arithmetic, rng)
                raise Mismatch(f"{found}{where}") from None
        raise VerificationError(
            f"program {self.name!r} divides by zero at {UNLUCKY} random points, so by what is zero "
            "everywhere"
        )


def enough(size: Size, least: int, most: int) -> int:
    """How many trials make a wrong network unlikely to pass; `most` if even they do not."""
    return next((n for n in range(least, most) if size.risk(n) <= UNLIKELY), most)


def _unsure(name: str, traced: Traced, found: Passed, most: int) -> VerificationError:
    """Nothing differed, but that proves nothing: why, and what to do."""
    degree, bits = degree_text(found.size.degree), f"{found.size.bits:.3g}"
    message = (
        f"no difference between network and program {name!r} was found, but that proves nothing: "
        f"their degree may reach {degree}, their coefficients {bits} bits, and a wrong network "
        f"would pass {found.trials} trials with probability up to {found.risk:.2g}. "
    )
    sure = next((n for n in range(most, MOST_TRIALS + 1) if found.size.risk(n) <= UNLIKELY), None)
    if sure is not None:
        return TooFewTrials(
            message + f"{sure} trials are enough, as in net.verify(trials={sure}), but take long"
        )
    return VerificationError(
        message + _remedy(traced) + "; compile with verify=False to have it unproved"
    )


def _remedy(traced: Traced) -> str:
    if any(isinstance(x, ex.LoopResult) for x in ex.every(traced.outputs.values())):
        return (
            'Compile with optimize="faithful", which keeps loops, and write every repetition with '
            "inweave.iterate: a loop is proved one step at a time"
        )
    return "Write the repetition with inweave.iterate, which is proved one step at a time"
