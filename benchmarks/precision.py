"""float32: the network's error beside the error of the same algorithm written by hand.

Inputs are rounded to float32 first, so that only the computation differs. An error is the root mean
square difference from the same computation in float64 over several random problems, relative to the
root mean square of the answers. By hand means the program called on arrays, the gallery's reference
where that computes in float32 at all, and the loop by someone who hoists products out of it as the
plan does: a Gram matrix rounds, whoever computes it. Nothing is nearer than float32 resolves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any

import numpy as np

from benchmarks.row import Row
from inweave import Network, gallery

MODES = ("faithful", "speed", "depth")
BAR = 2.0
SEEDS = 40
RESOLUTION = float(np.finfo(np.float32).eps)
# By least depth these are geometric sums of 2^steps terms or more, which do not correct themselves.
SUMS, SUMS_BAR = ("newton_schulz", "hyperpower"), 64 * RESOLUTION
OPTIONS: Mapping[str, dict[str, Any]] = {
    # 1/x over [1e-20, ...] has slopes of 1e40, which float32 cannot hold.
    "conjugate_gradient": {"domain": (1e-18, 1e6)},
}


def rows(threads: int, modes: tuple[str, ...] = MODES) -> Iterator[Row]:
    """One row per program of the gallery and mode that makes a network of its own."""
    for entry in gallery.entries():
        for mode, network in networks(entry, modes).items():
            found = errors(entry, network)
            ratio = found["network"] / allowed(found)
            bar = most(entry.name, mode, found) / allowed(found)
            note = ", ".join(f"{name} {value:.1e}" for name, value in found.items())
            yield Row.of("float32", f"{entry.name} {mode}", ratio, against="by hand",
                         threads=threads, bar=bar, note=note)  # fmt: skip


def most(name: str, mode: str, found: Mapping[str, float]) -> float:
    """The largest error that a network may have."""
    return SUMS_BAR if mode == "depth" and name in SUMS else BAR * allowed(found)


def networks(entry: gallery.Entry, modes: tuple[str, ...] = MODES) -> dict[str, Network]:
    """The different networks that the modes make of a program."""
    found: dict[str, Network] = {}
    for mode in modes:
        options = OPTIONS.get(entry.name, {})
        network = entry.compile(optimize=mode, verify=False, **options)
        if network not in found.values():
            found[mode] = network
    return found


def errors(entry: gallery.Entry, network: Network, seeds: int = SEEDS) -> dict[str, float]:
    """The float32 error of the network and of each way to write the algorithm by hand."""
    found, size = _by_hand(entry.name, seeds)
    gap, _ = _compared(network, entry, seeds)
    means = {name: float(np.sqrt(each / size)) for name, each in {"network": gap, **found}.items()}
    # A reference that starts from np.zeros computes in float64, whatever it is given.
    return {name: mean for name, mean in means.items() if name != "reference" or mean > 1e-8}


@cache
def _by_hand(name: str, seeds: int) -> tuple[dict[str, float], float]:
    """The mean square errors by hand, the same for every network, and the mean square answer."""
    entry = gallery.get(name)
    statics = {k: v for k, v in entry.sizes.items() if k in entry.program.statics}
    statics |= OPTIONS.get(name, {})
    computed = {"program": entry.program, "reference": entry.reference}
    if name in HOISTED:
        computed["hoisted"] = HOISTED[name]
    found = {by: _compared(partial(call, **statics), entry, seeds) for by, call in computed.items()}
    return {by: gap for by, (gap, _) in found.items()}, found["program"][1]


def _compared(call: Callable[..., Any], entry: gallery.Entry, seeds: int) -> tuple[float, float]:
    """The mean square difference between float32 and float64, and the mean square in float64."""
    gaps, sizes = [], []
    for seed in range(seeds):
        rounded = single(entry, seed)
        exact = _flat(call(**{k: _rounded(v, np.float64) for k, v in rounded.items()}))
        gaps.append(_mean_square(_flat(call(**rounded)) - exact))
        sizes.append(_mean_square(exact))
    return float(np.mean(gaps)), float(np.mean(sizes))


def single(entry: gallery.Entry, seed: int) -> dict[str, Any]:
    """Example inputs in float32."""
    return {k: _rounded(v, np.float32) for k, v in entry.example(seed).items()}


def allowed(found: Mapping[str, float]) -> float:
    """The largest error of those by hand, at least what float32 resolves."""
    return max(RESOLUTION, *(error for name, error in found.items() if name != "network"))


def _rounded(value: Any, dtype: Any) -> Any:
    return value.astype(dtype) if isinstance(value, np.ndarray) else dtype(value)


def _flat(answer: Any) -> np.ndarray[Any, Any]:
    parts = answer.values() if isinstance(answer, dict) else [answer]
    return np.concatenate([np.ravel(np.asarray(x, np.float64)) for x in parts])


def _mean_square(x: np.ndarray[Any, Any]) -> float:
    return float(np.mean(x**2))


# -- loops by someone who hoists as the plan does -------------------------------------------------
def _affine(A: Any, b: Any, w: Any, eta: Any, steps: int) -> Any:
    for _ in range(steps):
        w = w - eta * (A @ w - b)
    return w


def _normal(X: Any, y: Any, lam: Any = 0) -> tuple[Any, Any, Any]:
    """XᵀX + λI, Xᵀy and a start."""
    b = X.T @ y
    return X.T @ X + lam * np.eye(X.shape[1], dtype=X.dtype), b, np.zeros_like(b)


def _ridge_gd(X: Any, y: Any, u: Any, w0: Any, lam: Any, eta: Any, steps: int) -> Any:
    A, b, _ = _normal(X, y, lam)
    return u @ _affine(A, b, w0, eta, steps)


def _multi_output(X: Any, Y: Any, lam: Any, eta: Any, steps: int) -> Any:
    return _affine(*_normal(X, Y, lam), eta, steps)


def _heavy_ball(X: Any, y: Any, lam: Any, eta: Any, beta: Any, steps: int) -> Any:
    A, b, w = _normal(X, y, lam)
    velocity = w
    for _ in range(steps):
        velocity = beta * velocity - eta * (A @ w - b)
        w = w + velocity
    return w


def _nesterov(X: Any, y: Any, lam: Any, eta: Any, beta: Any, steps: int) -> Any:
    A, b, w = _normal(X, y, lam)
    velocity = w
    for _ in range(steps):
        velocity = beta * velocity - eta * (A @ (w + beta * velocity) - b)
        w = w + velocity
    return w


def _lasso(X: Any, y: Any, lam: Any, eta: Any, steps: int, fast: bool = False) -> Any:
    A, b, w = _normal(X, y)
    z, t = w, 1.0
    for _ in range(steps):
        after = z - eta * (A @ z - b)
        after = np.sign(after) * np.maximum(np.abs(after) - eta * lam, 0)
        t_after = (1 + (1 + 4 * t * t) ** 0.5) / 2 if fast else 1.0
        z = after + X.dtype.type((t - 1) / t_after) * (after - w)
        w, t = after, t_after
    return w


def _dual_gd(X: Any, y: Any, u: Any, eta: Any, steps: int) -> Any:
    """By squares, as a plan does: they round more than steps where an eigenvalue is one."""
    q, k, S = X.dtype.type(0), eta * (X @ u), np.eye(len(y), dtype=X.dtype) - eta * (X @ X.T)
    while steps:
        if steps % 2:
            q, y = q + k @ y, S @ y
        k, S, steps = k + k @ S, S @ S, steps // 2
    return q


def _td0(Phi: Any, After: Any, r: Any, u: Any, gamma: Any, eta: Any, steps: int) -> Any:
    A = Phi.T @ Phi - gamma * (Phi.T @ After)
    return u @ _affine(A, Phi.T @ r, np.zeros(Phi.shape[1], Phi.dtype), eta, steps)


def _selection(
    X: Any, y: Any, V: Any, z: Any, u: Any, eta: Any, steps: int, lams: tuple[float, ...], **__: Any
) -> Any:
    found = [_affine(*_normal(X, y, X.dtype.type(lam)), eta, steps) for lam in lams]
    best = int(np.argmin([np.mean((V @ w - z) ** 2) for w in found]))
    return {"prediction": u @ found[best], "choice": np.eye(len(lams))[best]}


def _shift(X: Any, y: Any, Z: Any, lam: Any, mu: Any, eta: Any, rho: Any, steps: int) -> Any:
    kind = X.dtype
    F, G = (np.column_stack([np.ones(len(M), kind), M]) for M in (X, Z))
    eye, start = np.eye(F.shape[1], dtype=kind), np.zeros(F.shape[1], kind)
    count = kind.type(len(F))
    alpha = _affine(F.T @ F / count + mu * eye, G.mean(axis=0), start, rho, steps)
    weighted = F * np.maximum(F @ alpha, 0)[:, None]
    return _affine(weighted.T @ F + lam * eye, weighted.T @ y, start, eta, steps)


HOISTED: Mapping[str, Callable[..., Any]] = {
    "ridge_gd": _ridge_gd,
    "ridge_multi_output": _multi_output,
    "heavy_ball": _heavy_ball,
    "nesterov": _nesterov,
    "lasso_ista": _lasso,
    "lasso_fista": partial(_lasso, fast=True),
    "dual_gd": _dual_gd,
    "ridge_selection": _selection,
    "td0": _td0,
    "covariate_shift": _shift,
}
