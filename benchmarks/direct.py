"""Ridge regression to ten digits: the `depth` network beside direct solvers.

The network is exact gradient descent, T steps in about log₃ T layers. T is the least power of
three at which its answer agrees with the solution to 1e-10.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import measure, problem
from benchmarks.row import Row
from inweave import Network

SIZE = (4000, 200)
BAR = 3.0
DIGITS = 1e-10


def rows(threads: int, seconds: float = 2.0, size: tuple[int, int] = SIZE) -> Iterator[Row]:
    """The network against each solver."""
    given = problem.data(*size)
    net, steps = deep_enough(*size, given)
    calls = {"inweave": lambda: net(**given), **solvers(given)}
    timing = measure.interleaved(calls, seconds, threads=threads)
    for name in calls:
        if name != "inweave":
            ratio = timing.ratio("inweave", name)
            yield Row.of("ridge to 1e-10",
                         f"n={size[0]} d={size[1]}, {steps} steps in {net.depth} layers", ratio,
                         against=name, threads=threads, bar=BAR,
                         seconds=timing.seconds())  # fmt: skip


def deep_enough(n: int, d: int, given: dict[str, Any]) -> tuple[Network, int]:
    """The shallowest `depth` network that reaches the solution to 1e-10, and its steps."""
    exact = solvers(given)["scipy.linalg.solve"]()
    for power in range(3, 10):
        net = problem.network(n, d, 3**power, "depth")
        if abs(net(**given) - exact) <= DIGITS * abs(exact):
            return net, 3**power
    raise ValueError(f"3⁹ steps do not solve ridge at n={n}, d={d}")


def solvers(given: dict[str, Any]) -> dict[str, Any]:
    """Prediction for u by scikit-learn and by scipy, each from X and y on."""
    from scipy.linalg import solve
    from sklearn.linear_model import Ridge

    X, y, u, lam = (given[name] for name in ("X", "y", "u", "lam"))

    def by_sklearn() -> Any:
        model = Ridge(alpha=lam, solver="cholesky", fit_intercept=False).fit(X, y)
        return model.predict(u[None])[0]

    def by_scipy() -> Any:
        A = X.T @ X
        A.flat[:: A.shape[0] + 1] += lam
        with warnings.catch_warnings():
            return u @ solve(A, X.T @ y, assume_a="pos", overwrite_a=True, check_finite=False)

    assert np.ndim(u) == 1
    return {"sklearn Ridge(cholesky)": by_sklearn, "scipy.linalg.solve": by_scipy}
