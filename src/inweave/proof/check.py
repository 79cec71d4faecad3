"""Verification: a network against a program, and the certificate of their equality.

Here is only what is asked and what is concluded. Whether they can be compared at all is asked in
`interface`, how they are proved equal in `algebra` and for which sizes in `sizes`, how heads that
were taken apart are put together in `merged`, how they are compared at points in `field_check`, how
sure that is in `heights`, what is known of functions in `tables`, what it costs in `cost`, what
rounding adds in `floats`, and where a wrong network goes wrong in `diagnosis`.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from numbers import Real

import numpy as np

from inweave.errors import ProgramError, VerificationError
from inweave.exact.field import LONG, SHORT, Primes
from inweave.exact.field_arithmetic import FieldArithmetic, Meetings
from inweave.exact.long_field import LENGTHS, of_bits, random_field
from inweave.exact.whole import is_whole
from inweave.language import expressions as ex
from inweave.language.program import Traced
from inweave.model.network import Network
from inweave.proof.algebra import NotProved, Proof, prove
from inweave.proof.certificate import Certificate
from inweave.proof.cost import seconds as cost_of_two
from inweave.proof.degree import degree_text
from inweave.proof.diagnosis import first_layer
from inweave.proof.field_check import WORDS, Comparison, Mismatch, Point
from inweave.proof.floats import float_difference
from inweave.proof.heights import Size
from inweave.proof.interface import compatible, conditions
from inweave.proof.merged import in_runs, is_dense, merged
from inweave.proof.runs import are_long
from inweave.proof.sizes import Recorder, said_of_sizes, unchanged_by
from inweave.proof.tables import (
    function_notes,
    functions,
    network_functions,
    own_tables,
    reciprocals,
)
from inweave.run.plan import Plan

TRIALS = 2  # at least
UNLIKELY = 1e-12  # with no more than this a wrong network passes, or there is no certificate
MOST_TRIALS = 100
IN_WORDS = 0.05  # seconds of a trial in words, about
LONG_WORDS = 2.0  # the same with powers of matrices of numbers, at least
SECONDS = 60.0  # for trials that nobody asked for
UNLUCKY = 8  # draws at which something is divided by zero, before that is taken for certain


class Unsure(VerificationError):
    """Nothing differed so far, but that proves nothing."""


class TooFewTrials(Unsure):
    """It takes more time than was allowed to be sure."""


class Differ(VerificationError):
    """Program and network were seen to differ."""


@dataclass(frozen=True)
class Budget:
    """The seconds that trials may take, and about how many one of them takes."""

    seconds: float
    each: float

    @property
    def trials(self) -> int:
        """How many fit."""
        return int(min(MOST_TRIALS, self.seconds / self.each))

    def enough(self, trials: int) -> int:
        """Whole seconds into which so many fit."""
        return math.floor(trials * self.each) + 1


def verify(
    name: str,
    traced: Traced,
    network: Network,
    *,
    trials: int | None = None,
    seed: int | None = None,
    seconds: float = SECONDS,
    plan: Plan | None = None,
    reference: Callable[[], Network] | None = None,
    record: Recorder | None = None,
) -> Certificate:
    """Check a network against a recorded program; a Certificate, or VerificationError.

    It is proved by algebra where that is possible; else, and if `trials` are asked for, both are
    evaluated at random points: at least so many, and as many more as it takes until a wrong network
    passes with probability at most 1e-12. If they would take more than about `seconds`, that is
    TooFewTrials, which says how long it takes. `plan` is the network's where there is one already.
    A network with an embedding, or of full matrices, is proved as the one that it is, exactly, with
    its heads put together (`merged`).
    `reference` compiles the program again, to say where a wrong network parts from a right one;
    `record` records it at other sizes, to see whether a proof holds for them.
    """
    compatible(name, traced, network)
    if trials is not None and not is_whole(trials, 1):
        raise ProgramError(f"verification needs at least one trial, got {trials!r}")
    if seed is not None and not is_whole(seed, 0):
        raise ProgramError(f"the seed of a verification is a whole number from 0 on, got {seed!r}")
    if isinstance(seconds, bool) or not isinstance(seconds, Real) or not seconds >= 0:
        raise ProgramError(f"verification takes a number of seconds from 0 on, got {seconds!r}")
    plan = plan or Plan(network)
    if trials is None and seed is None:
        try:
            return _by_algebra(name, traced, network, plan, record)
        except NotProved:
            pass
    seed = secrets.randbelow(2**53) if seed is None else int(seed)
    check = Check(name, traced, network.plain, plan, trials, float(seconds), seed, reference)
    notes, limits = function_notes(traced), conditions(traced, network)
    try:
        found = check.run(opaque=True)
    except Differ:
        if not reciprocals(traced):
            raise
        found = check.run(opaque=False)
        notes = own_tables(name, traced, network)
        limits.append("with 1/x in place of every reciprocal")
    return Certificate(
        program=name,
        network=network.fingerprint,
        method=found.method if found.method in ("direct", WORDS) else "induction",
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
    found, sizes = _proof(traced, network)
    free = unchanged_by(traced, sizes, record)
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


def _proof(traced: Traced, network: Network) -> tuple[Proof, tuple[str, ...]]:
    """A proof, and the sizes it may hold for: matrices that are given in full have one size."""
    if not is_dense(network):
        found = prove(traced, network)
        return found, found.sizes
    together = merged(network)
    try:
        return prove(traced, together), ()
    except NotProved:
        otherwise = in_runs(together)
        if otherwise == together:
            raise
        return prove(traced, otherwise), ()


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
    """Comparisons of a program and a plain network, repeated until they are sure.

    Every way of comparing that is tried could pass a wrong network, so the chances add up in
    `risk`, and each is to be so much less than what is stated in the end.
    """

    name: str
    traced: Traced
    network: Network
    plan: Plan
    asked: int | None  # trials
    seconds: float
    seed: int
    reference: Callable[[], Network] | None
    risk: float = 0.0
    budget: Budget = field(init=False)  # of the method at hand

    def run(self, opaque: bool) -> Passed:
        """How program and network were found equal.

        `opaque` takes a reciprocal for a function of which nothing is known. A compiled network
        equals its program even so; another one may need that it is an inverse.
        """
        comparison = Comparison(self.traced, self.network, self.plan)
        rng = np.random.default_rng(self.seed)
        quick = self.asked is None and self.seconds >= TRIALS * IN_WORDS
        if quick and are_long(self.traced):
            quick = cost_of_two(self.traced, self.plan) > LONG_WORDS
        methods = [method for method in comparison.methods if method != WORDS or quick]
        ways = len(methods) * (2 if reciprocals(self.traced) else 1)
        for method in methods:
            self._allow(comparison, method)
            try:
                found = self._repeated(comparison, method, opaque, rng, UNLIKELY / ways)
                return replace(found, risk=min(1.0, self.risk + found.risk))
            except Mismatch as mismatch:
                if method == "direct":
                    raise Differ(
                        f"network and program {self.name!r} {self._part(opaque)}: {mismatch}"
                    ) from None
                size = comparison.size(method, opaque)
                needed = self._needed(size, UNLIKELY / ways)
                self.risk += UNLIKELY / ways if needed is None else size.risk(needed)
        raise AssertionError("the last method is direct")

    def _part(self, opaque: bool) -> str:
        """What a difference says: of most functions, nothing is known here."""
        every = [*functions(self.traced), *network_functions(self.network)]
        if all(f.is_reciprocal and not opaque for f in every):
            return "differ"
        return (
            "were not found equal (a function equals itself only: abs(x) is not relu(x) + relu(-x))"
        )

    def _repeated(
        self,
        comparison: Comparison,
        method: str,
        opaque: bool,
        rng: np.random.Generator,
        unlikely: float,
    ) -> Passed:
        """Compare in one way at enough points.

        Which arguments of functions are equal is seen at the first point, and has to be so at all
        others. Where two were equal by accident (among 10^5, some always are), it begins again, and
        takes for equal only those that were equal at every point so far. It begins again, too, with
        longer primes, where the degree is too high for these.
        """
        size, primes = Size(0, 0.0), LONG if method == WORDS else SHORT
        least = primes.end
        equal: Meetings | None = None
        needed, trial, lucky = self.trials, 0, 0
        while trial < needed:
            arithmetic = self._point(comparison, method, opaque, rng, primes, equal)
            meetings = arithmetic.meetings()
            if equal is not None and meetings != equal:
                lucky += 1
                if lucky > UNLUCKY:
                    raise VerificationError(f"{self.name!r}: arguments of functions meet by chance")
                self.risk += size.risk(needed)  # a wrong network might have passed
                unlikely = (unlikely - size.risk(needed)) / 2
                equal, trial = meetings, 0
                continue
            least, equal = min(least, arithmetic.field.prime), meetings
            if trial == 0:
                size = replace(comparison.size(method, opaque), primes=primes)
                found = self._needed(size, unlikely)
                if found is None:
                    primes = self._longer(size, unlikely, comparison, method)
                    least, equal = primes.end, None
                    continue
                needed = found
            trial += 1
        return Passed(method, size, needed, least, size.risk(needed))

    def _budget(self, comparison: Comparison, method: str, primes: Primes = SHORT) -> Budget:
        """The time that trials in this way may take."""
        if method == WORDS:
            return Budget(self.seconds, IN_WORDS)
        whole = method == "direct" and comparison.pairs is not None
        return Budget(self.seconds, cost_of_two(self.traced, self.plan, whole, primes) / 2)

    def _allow(self, comparison: Comparison, method: str) -> None:
        """Go on in this way, if there is time for it; with loops in all their steps, if it must."""
        self.budget = self._budget(comparison, method)
        whole = method == "direct" and comparison.pairs is not None
        fits = self.asked is not None or self.budget.trials >= (1 if whole else TRIALS)
        if method == WORDS or fits:
            return
        told = (
            f"one step of a repeated module is not one step of program {self.name!r}; whether all "
            "of them are equal takes"
            if whole
            else f"program {self.name!r} and its network are compared at random points, which takes"
        )
        raise TooFewTrials(
            f"{told} about {self.budget.enough(TRIALS)} s or more{' to see' * whole}, and "
            f"{self.seconds:g} s were allowed: call "
            f"net.verify(seconds={self.budget.enough(TRIALS)})"
        )

    def _longer(self, size: Size, unlikely: float, comparison: Comparison, method: str) -> Primes:
        """Primes so long that the least number of trials will do, if there is time; or Unsure."""
        sizes = (replace(size, primes=of_bits(bits)) for bits in LENGTHS)
        found = next((x.primes for x in sizes if x.risk(self.trials) <= unlikely), None)
        if found is None:
            raise self._unsure(size, unlikely)
        budget = self._budget(comparison, method, found)
        if budget.trials < self.trials:
            raise self._unsure(size, unlikely, budget)
        self.budget = budget
        return found

    @property
    def trials(self) -> int:
        """The least number of trials."""
        return TRIALS if self.asked is None else int(self.asked)

    @property
    def most(self) -> int:
        """Trials that may be made: as many as were asked for, or fit."""
        return max(self.trials, self.budget.trials)

    def _needed(self, size: Size, unlikely: float, most: int | None = None) -> int | None:
        """How many trials are enough, if that is no more than may be made."""
        counts = range(self.trials, (most or self.most) + 1)
        return next((n for n in counts if size.risk(n) <= unlikely), None)

    def _unsure(self, size: Size, unlikely: float, longer: Budget | None = None) -> Unsure:
        """Nothing differed, but that proves nothing: why, and what to do.

        With `longer` primes, the least number of trials would do.
        """
        message = (
            f"no difference between network and program {self.name!r} was found, but that proves "
            f"nothing: their degree may reach {degree_text(size.degree)}, their coefficients "
            f"{size.bits:.3g} bits, and a wrong network would pass {self.most} trials with "
            f"probability up to {size.risk(self.most):.2g}. "
        )
        sure, budget = self._needed(size, unlikely, MOST_TRIALS), self.budget
        if sure is None and longer is not None:
            sure, budget = self.trials, longer
        if sure is None:
            return Unsure(
                message + _remedy(self.traced) + "; compile with verify=False to have it unproved"
            )
        return TooFewTrials(
            f"{message}{sure} trials are enough for {UNLIKELY:g}, which takes about "
            f"{budget.enough(sure)} s, and {self.seconds:g} s were allowed: call "
            f"net.verify(seconds={budget.enough(sure)})"
        )

    def _point(
        self,
        comparison: Comparison,
        method: str,
        opaque: bool,
        rng: np.random.Generator,
        primes: Primes,
        equal: Meetings | None,
    ) -> FieldArithmetic:
        """Compare at one point modulo a prime of its own, both drawn at random.

        `equal` are the arguments of functions that are taken for equal, if that is known.
        """
        for _ in range(UNLUCKY):
            key = int(rng.integers(2**62))
            arithmetic = FieldArithmetic(random_field(rng, primes), key, opaque, equal)
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


def _remedy(traced: Traced) -> str:
    if any(isinstance(x, ex.LoopResult) for x in ex.every(traced.outputs.values())):
        return (
            'Compile with optimize="faithful", which keeps loops, and write every repetition with '
            "inweave.iterate, over rows with inweave.scan: a loop is proved one step at a time"
        )
    return (
        "Write the repetition with inweave.iterate, over rows with inweave.scan, which are proved "
        "one step at a time"
    )
