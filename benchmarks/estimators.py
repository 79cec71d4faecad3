"""The estimators beside scikit-learn's own: time, memory and what the first fit of a shape adds.

Time is that of `fit` and `predict` together. Memory is what `tracemalloc` counts beside the data.
Both stop at the same `tol`, which for scikit-learn's LogisticRegression and Lasso bounds the
gradient and the duality gap, for ours the distance to the solution. The first fit compiles a
network and proves it; what it takes more than the next one is measured at a size next to it, whose
network is not there yet, unless sizes share one, as those of a lasso of many columns do.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import Lasso, LogisticRegression, Ridge

from benchmarks.measure import Spread, interleaved
from benchmarks.row import Row
from inweave.estimators import InContextLasso, InContextLogistic, InContextRidge

SIZES = ((1000, 10), (100_000, 20), (10_000, 200),
         (20, 200), (50, 1000), (30, 5000), (100, 100))  # fmt: skip
FIRST = 60.0  # milliseconds
OURS, THEIRS = "inweave", "scikit-learn"


@dataclass(frozen=True)
class Pair:
    """Two estimators of the same thing, and how much longer or larger ours may be."""

    ours: Any
    theirs: Any
    bar: float
    classes: bool = False


PAIRS = (
    Pair(InContextRidge(), Ridge(), 2.0),
    Pair(InContextLasso(0.1, tol=1e-8), Lasso(0.1, tol=1e-8), 4.0),
    Pair(InContextLogistic(tol=1e-4), LogisticRegression(tol=1e-4), 4.0, classes=True),
    Pair(InContextLogistic(tol=1e-6), LogisticRegression(tol=1e-6), 4.0, classes=True),
)


def rows(
    threads: int, sizes: tuple[tuple[int, int], ...] = SIZES, pairs: tuple[Pair, ...] = PAIRS
) -> Iterator[Row]:
    """Three rows per estimator and size."""
    for n, d in sizes:
        for pair in pairs:
            yield from _compared(pair, n, d, threads)


def data(n: int, d: int, classes: bool) -> tuple[Any, Any]:
    """Rows, and responses with noise or labels drawn with the probabilities of a logit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    z = X @ rng.normal(size=d) * 2 / np.sqrt(d)
    return X, (rng.random(n) < 1 / (1 + np.exp(-z))) if classes else z + rng.normal(size=n)


def _compared(pair: Pair, n: int, d: int, threads: int) -> Iterator[Row]:
    X, y = data(n, d, pair.classes)
    fits = {OURS: _fit(pair.ours, X, y), THEIRS: _fit(pair.theirs, X, y)}
    name = f"{type(pair.theirs).__name__}, n={n} d={d}, tol={pair.ours.tol:g}"
    timing = interleaved(fits, threads=threads)
    ratio = timing.ratio(OURS, THEIRS)
    yield Row.of("estimators", f"{name}: time", ratio, against=THEIRS,
                 threads=threads, bar=pair.bar, seconds=timing.seconds(),
                 note=f"{pair.ours.steps_} steps")  # fmt: skip
    peaks = {which: _peak(fit) for which, fit in fits.items()}
    share = peaks[OURS] / peaks[THEIRS]
    yield Row.of("estimators", f"{name}: memory", share, against=THEIRS,
                 threads=threads, bar=pair.bar, note=", ".join(
                     f"{which} {peak / 1e6:.2f} MB" for which, peak in peaks.items()))  # fmt: skip
    more = Spread.of([_first(pair, n + more, d + more) for more in (1, 2, 3)])
    yield Row.of("estimators", f"{name}: first fit", more, unit="ms",
                 threads=threads, bar=FIRST)  # fmt: skip


def _fit(estimator: Any, X: Any, y: Any) -> Callable[[], Any]:
    return lambda: estimator.fit(X, y).predict(X)


def _peak(call: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _first(pair: Pair, n: int, d: int) -> float:
    """Milliseconds that the first fit of a size takes more than the second."""
    X, y = data(n, d, pair.classes)
    taken = []
    for _ in range(2):
        start = time.process_time()
        pair.ours.fit(X, y)
        taken.append(time.process_time() - start)
    return 1e3 * (taken[0] - taken[1])
