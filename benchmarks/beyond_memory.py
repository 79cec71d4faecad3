"""Ten million rows on two workers with a gigabyte each, and a million small prompts.

Memory is that of the process that has most, workers and caller alike. The answer is compared with
scikit-learn's, which is given R and R⁻ᵀXᵀy instead of X and y, where RᵀR = XᵀX: to ridge regression
these are the same data.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import inweave
from benchmarks.row import Row
from inweave import Matrix, Scalar, Vector

ROWS, FEATURES, CHUNK = 10**7, 20, 10**5
PROMPTS = 10**6


@inweave.program
def descent(
    X: Matrix["n", "d"], y: Vector["n"], lam: Scalar, eta: Scalar, *, steps: int
) -> Vector["d"]:
    """Ridge regression by gradient descent from zero."""

    def step(w: Any) -> Any:
        return w - eta * (X.T @ (X @ w - y) + lam * w)

    return inweave.iterate(step, inweave.zeros(X.shape[1]), steps)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def rows(threads: int, size: int = ROWS, prompts: int = PROMPTS) -> Iterator[Row]:
    """The time of both beside what has to be done at least, and the memory of the long one."""
    import dask
    import dask.array as da
    from distributed import Client, LocalCluster
    from scipy.linalg import solve_triangular
    from sklearn.linear_model import Ridge

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))  # two workers want two cores
    random = da.random.default_rng(0)

    def data(*lead: int, n: int, d: int) -> tuple[Any, Any]:
        chunks = (CHUNK // n, n) if lead else (CHUNK,)
        X = random.normal(size=(*lead, n, d), chunks=(*chunks, d))
        noise = random.normal(size=(*lead, n), chunks=chunks)
        return X, X @ (np.arange(d) / d) + noise

    def timed(work: Any) -> tuple[Any, float]:
        start = time.perf_counter()
        return dask.compute(work)[0], time.perf_counter() - start

    def row(name: str, seconds: float, plain: float, against: str, note: str) -> Row:
        times = {"inweave": seconds, against: plain}
        return Row.of(
            "beyond memory", name, seconds / plain, against=against, seconds=times, note=note
        )

    cluster = LocalCluster(
        n_workers=2, threads_per_worker=threads, memory_limit="1GB", dashboard_address=None
    )
    with cluster, Client(cluster) as client:
        net = inweave.compile(descent, n=size, d=FEATURES, steps=100, optimize="speed")
        X, y = data(n=size, d=FEATURES)
        (gram, moment), plain = timed((X.T @ X, X.T @ y))
        answer, seconds = timed(net(X=X, y=y, lam=1.0, eta=1 / size))
        R = np.linalg.cholesky(gram).T
        their = Ridge(alpha=1.0, fit_intercept=False, solver="cholesky")
        their.fit(R, solve_triangular(R, moment, trans="T"))
        peak = max(_peak(), *client.run(_peak).values())
        yield row(
            f"{size:.0e} rows x {FEATURES}", seconds, plain, "XᵀX and Xᵀy alone",
            f"{8 * size * (FEATURES + 1) / 1e9:.2f} GB of data, no process above "
            f"{peak / 1e9:.2f} GB; differs from scikit-learn by "
            f"{np.max(np.abs(answer - their.coef_)):.0e}",
        )  # fmt: skip
        net = inweave.compile(descent, n=10, d=3, steps=10, optimize="speed")
        X, y = data(prompts, n=10, d=3)
        _, plain = timed((X.sum(), y.sum()))
        _, seconds = timed(net(X=X, y=y, lam=1.0, eta=0.02).sum())
        yield row(f"{prompts:.0e} prompts of 10 x 3", seconds, plain, "reading the data", "")
