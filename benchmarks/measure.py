"""Timing side by side.

Candidates take turns, and the turn starts with another one every round. A sample is as many calls
as fill `SAMPLE` seconds, so that the clock and the loop cost nothing beside them. The ratio of two
candidates is taken within each round, where the machine was in the same mood for both.

With one thread the clock is the processor time of this process, which stands still while another
process has the core; on an idle machine it is the wall clock's. With more threads it is wall time.
"""

from __future__ import annotations

import gc
import itertools
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

SAMPLE = 1e-3
LEAST, MOST = 3, 400  # rounds


@dataclass(frozen=True)
class Spread:
    """A median and its quartiles."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, numbers: list[float]) -> Spread:
        if len(numbers) < 3:
            return cls(min(numbers), statistics.median(numbers), max(numbers))
        low, median, high = statistics.quantiles(numbers, n=4, method="inclusive")
        return cls(low, median, high)

    def times(self, factor: float) -> Spread:
        """The same in another unit."""
        return Spread(factor * self.low, factor * self.median, factor * self.high)


@dataclass(frozen=True)
class Timing:
    """Seconds per call of each candidate, round by round."""

    samples: Mapping[str, list[float]]

    def seconds(self) -> dict[str, float]:
        """The median of each."""
        return {name: statistics.median(found) for name, found in self.samples.items()}

    def quickest(self, names: list[str]) -> str:
        """The candidate with the least median among these."""
        medians = self.seconds()
        return min(names, key=lambda name: medians[name])

    def ratio(self, name: str, other: str) -> Spread:
        """How many times longer one takes than the other."""
        pairs = zip(self.samples[name], self.samples[other], strict=True)
        return Spread.of([a / b for a, b in pairs])

    def difference(self, name: str, other: str) -> Spread:
        """How many seconds longer one takes than the other."""
        pairs = zip(self.samples[name], self.samples[other], strict=True)
        return Spread.of([a - b for a, b in pairs])


def interleaved(
    candidates: Mapping[str, Callable[[], Any]],
    seconds: float = 1.0,
    least: int = LEAST,
    threads: int = 1,
    called: bool = False,
) -> Timing:
    """Time candidates in turns for about `seconds` in all, at least `least` rounds.

    What is made on the first call is not what is measured: `called` says that there was one, and
    then the calls that tell how many fill a sample are the first round where one of each does.
    """
    clock = time.process_time if threads == 1 else time.perf_counter
    firsts, start = dict[str, float](), time.perf_counter()
    for name, call in candidates.items():
        firsts[name] = _sample(call, 1, clock)
        if firsts[name] < 10 * SAMPLE and not called:
            firsts[name] = _sample(call, 1, clock)
    calls = {name: max(1, round(SAMPLE / max(took, 1e-7))) for name, took in firsts.items()}
    known = called and min(firsts.values()) >= 10 * SAMPLE
    samples = {name: [firsts[name]] if known else [] for name in candidates}
    names = list(candidates)
    if not known:
        start = time.perf_counter()
    was = gc.isenabled()
    gc.disable()
    try:
        for turn in itertools.count(int(known)):
            if turn >= MOST or (turn >= least and time.perf_counter() - start > seconds):
                break
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                samples[name].append(_sample(candidates[name], calls[name], clock))
    finally:
        if was:
            gc.enable()
    return Timing(samples)


def once(call: Callable[[], Any]) -> float:
    """Seconds of one call on the wall clock, after nothing."""
    return _sample(call, 1, time.perf_counter)


def _sample(call: Callable[[], Any], times: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(times):
        call()
    return (clock() - start) / times
