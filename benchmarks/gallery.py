"""Every entry of the gallery beside the same algorithm written by hand for speed.

Each entry at its own sizes, and at sizes that hold ten and a hundred times as many numbers (every
dimension √10 and 10 times as long; steps and other static arguments stay), alone and in batches.
The bar counts where the hand-written code takes long enough that the fixed cost of a call, which
other rows measure, is not what is compared. Closed forms are also put beside LAPACK.

A batch whose inputs would take too much memory, or whose calls too many seconds by what the batch
before took, is left out, and its row says so.

Where a network has a table for exp, tanh or 1/x, the same algorithm is the one with that table; the
library's own function is put beside it too. And a batch may share its X: then all of its problems
are one product of matrices, in a row of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks import measure
from benchmarks.by_hand.kits import KITS
from benchmarks.row import Row
from inweave import Network, gallery
from inweave.gallery import Entry, difference
from inweave.run.values.newton import Refined

LIBRARIES = tuple(KITS)
FACTORS = (1, 10, 100)
BATCHES = (1, 64, 4096)
MEDIAN, WORST = 1.15, 1.5  # bars: median over the entries, and each single row
COUNTS = 1e-4  # seconds by hand from which on the bar counts
MEMORY = 256e6  # bytes of inputs beyond which a batch is left out
PATIENCE = 4.0  # seconds of one call of every candidate, by estimate, beyond which it is, too
FEW_UNITS = 8  # of a function that is no table
DRAWN = 16  # problems of a batch that are drawn, the others repeat them

WIDER = {"logistic_gd": {"largest": 48.0}}
"""Domains that the data of larger sizes need."""

MODULES = ("regression", "solving", "memories", "kernels")
LAPACK: dict[str, Callable[..., Any]] = {
    "gauss_jordan": lambda F, B: np.linalg.solve(F, B),
    "gaussian_elimination": lambda F, B: np.linalg.solve(F, B),
    "ridge_closed_form": lambda X, y, u, lam: u.mT @ _cholesky(X, y, lam),
    "recursive_least_squares": lambda X, y, lam: _cholesky(X, y, lam),
}
"""Entries that solve a system, by LAPACK; arrays are lifted."""

SHARED = {"ridge_gd": "y"}
"""Entries of which a batch that shares everything but one input is measured too."""


def by_hand(name: str) -> Callable[..., Any]:
    """The hand-written function of an entry."""
    modules = [import_module(f"benchmarks.by_hand.{module}") for module in MODULES]
    found: Callable[..., Any] = next(
        getattr(module, name) for module in modules if hasattr(module, name)
    )
    return found


def rows(
    library: str,
    threads: int,
    seconds: float = 0.3,
    entries: Sequence[Entry] | None = None,
    factors: Sequence[int] = FACTORS,
    batches: Sequence[int] = BATCHES,
) -> Iterator[Row]:
    """One row per entry, size and batch; more for closed forms."""
    for entry in gallery.entries() if entries is None else entries:
        for factor in factors:
            sizes = grown(entry, factor)
            net = entry.compile(optimize="speed", verify=False, **sizes)
            each = sum(np.asarray(x).nbytes for x in data(entry, sizes, 1).values())
            slow = 0.0  # seconds that one problem of a batch takes
            for batch in batches:
                label = f"{entry.name} ×{factor} batch={batch}"
                if batch * each > MEMORY:
                    yield _left_out(library, label, batch * each / 1e6, "MB", MEMORY / 1e6)
                elif batch * slow > PATIENCE:
                    yield _left_out(library, label, batch * slow, "s", PATIENCE)
                else:
                    calls = candidates(library, entry, net, data(entry, sizes, batch))
                    timing = _timed(entry, label, calls, threads, seconds)
                    slow = sum(timing.seconds().values()) / batch
                    yield from _compared(library, label, timing, threads)
                if batch > 1 and entry.name in SHARED:
                    own = {SHARED[entry.name]: data(entry, sizes, batch)[SHARED[entry.name]]}
                    calls = candidates(library, entry, net, {**data(entry, sizes, 1), **own}, True)
                    label = f"{label}, the rest shared"
                    timing = _timed(entry, label, calls, threads, seconds)
                    yield from _compared(library, label, timing, threads)


def _timed(
    entry: Entry, label: str, calls: dict[str, Callable[[], Any]], threads: int, seconds: float
) -> measure.Timing:
    """Candidates side by side, if they compute the same."""
    answers = {name: as_numpy(call()) for name, call in calls.items()}
    off = difference(answers["inweave"], answers["by hand"])
    if not off <= 10 * entry.tolerance:
        raise ArithmeticError(f"{label}: the network and the hand-written code differ by {off:.1e}")
    return measure.interleaved(calls, seconds, threads=threads, called=True)


def _compared(library: str, label: str, timing: measure.Timing, threads: int) -> Iterator[Row]:
    took = timing.seconds()
    for against in [name for name in took if name != "inweave"]:
        ratio = timing.ratio("inweave", against)
        counts = against == "by hand" and took[against] >= COUNTS
        yield Row.of(f"gallery, {library}", label, ratio, against=f"{library}, {against}",
                     threads=threads, bar=WORST if counts else None,
                     seconds={name: took[name] for name in ("inweave", against)})  # fmt: skip


def _left_out(library: str, label: str, value: float, unit: str, most: float) -> Row:
    note = f"left out: more than {most:g} {unit}"
    return Row.of(f"gallery, {library}", label, value, unit=unit, note=note)


# -- problems -------------------------------------------------------------------------------------
def grown(entry: Entry, factor: int) -> dict[str, Any]:
    """The entry's sizes with `factor` times as many numbers in a matrix."""
    longer = math.sqrt(factor)
    sizes = {
        name: value if name in entry.program.statics else round(value * longer)
        for name, value in entry.sizes.items()
    }
    return {**sizes, **({} if factor == 1 else WIDER.get(entry.name, {}))}


def data(entry: Entry, sizes: Mapping[str, Any], batch: int) -> dict[str, Any]:
    """A problem, or a batch of them with one value for each scalar, the least: it is stable."""
    if batch == 1:
        one = entry.example(**sizes)
        return {name: x if np.ndim(x) else float(x) for name, x in one.items()}
    drawn = [entry.example(seed, **sizes) for seed in range(min(batch, DRAWN))]
    found: dict[str, Any] = {}
    for name, first in drawn[0].items():
        if np.ndim(first) == 0:
            found[name] = min(float(one[name]) for one in drawn)
        else:
            found[name] = np.resize([one[name] for one in drawn], (batch, *np.shape(first)))
    return found


def lifted(entry: Entry, given: Mapping[str, Any]) -> dict[str, Any]:
    """Vectors as columns, as the hand-written functions take them."""
    kinds = entry.program.arguments
    return {name: x[..., None] if kinds[name].kind == "vector" else x for name, x in given.items()}


# -- calls ----------------------------------------------------------------------------------------
def candidates(
    library: str, entry: Entry, net: Network | None, given: Mapping[str, Any], shared: bool = False
) -> dict[str, Callable[[], Any]]:
    """The network, the code written by hand, without tables where it has some, and LAPACK."""
    batched = any(np.ndim(x) > 2 for x in lifted(entry, given).values()) and not shared
    kit = KITS[library](batched)
    statics = {k: v for k, v in entry.sizes.items() if k in entry.program.statics}
    function = by_hand(f"{entry.name}_shared" if shared else entry.name)
    found = tables(net)
    hands = {"by hand": partial(function, kit.with_tables(found) if found else kit, **statics)}
    if found:
        hands["by hand, no tables"] = partial(function, kit, **statics)
    if library == "jax":
        return _in_jax(entry, net, hands, given)
    arrays = {name: _converted(library, x) for name, x in given.items()}
    columns = lifted(entry, arrays)
    calls: dict[str, Callable[[], Any]] = {"inweave": lambda: net(**arrays)} if net else {}
    calls |= {name: partial(hand, **columns) for name, hand in hands.items()}
    if library == "numpy" and entry.name in LAPACK:
        calls["LAPACK"] = lambda: LAPACK[entry.name](**columns)
    return calls


def tables(net: Network | None) -> dict[str, list[Any]]:
    """The tables that a network looks up, by name, in the order in which it does."""
    if net is None:
        return {}
    found: dict[str, list[Any]] = {}
    for kind, content in net.plan.from_inputs.code.fixed.values():
        function = content[0] if kind == "function" else None
        is_table = function is not None and function.net.units > FEW_UNITS
        if is_table and not (isinstance(function, Refined) and function.is_exact):
            table = function.table if isinstance(function, Refined) else function
            known = found.setdefault(table.name, [])
            known += [function] if function not in known else []
    return found


def _converted(library: str, x: Any) -> Any:
    if library == "numpy" or np.ndim(x) == 0:
        return x
    import torch

    return torch.from_numpy(np.ascontiguousarray(x))


def _in_jax(
    entry: Entry,
    net: Network | None,
    hands: Mapping[str, Callable[..., Any]],
    given: Mapping[str, Any],
) -> dict[str, Callable[[], Any]]:
    import jax
    import jax.numpy as jnp

    def double(call: Callable[..., Any], arrays: Any) -> Callable[[], Any]:
        staged = jax.jit(call)

        def scoped() -> Any:
            with jax.enable_x64(True):
                return jax.block_until_ready(staged(arrays))

        return scoped

    with jax.enable_x64(True):
        arrays = {name: jnp.asarray(x) for name, x in given.items()}
        columns = lifted(entry, arrays)
    calls = {"inweave": double(lambda arrays: net(**arrays), arrays)} if net else {}
    return calls | {
        name: double(lambda columns, hand=hand: hand(**columns), columns)
        for name, hand in hands.items()
    }


def as_numpy(answer: Any) -> Any:
    """Answers as flat arrays, by name where there are several."""
    if isinstance(answer, Mapping):
        return {name: np.ravel(value) for name, value in answer.items()}
    return np.ravel(answer)


def _cholesky(X: Any, y: Any, lam: float) -> Any:
    from scipy.linalg import cho_factor, cho_solve

    G = X.mT @ X
    np.einsum("...ii->...i", G)[...] += lam
    b = X.mT @ y
    if X.ndim > 2:
        return np.linalg.solve(G, b)
    factor = cho_factor(G, overwrite_a=True, check_finite=False)
    return cho_solve(factor, b, overwrite_b=True, check_finite=False)
