"""What a call costs beyond the work: a problem so small that hand-written code takes a few µs.

One step of ridge descent from zero, (5, 2): by hand, `u @ (eta * (X.T @ y))`. The difference to it
is what looking at inputs and answers and finding the way to the library takes, in every call.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import measure, problem
from benchmarks.row import Row

BARS = {"numpy": 8.0, "torch": 20.0, "jax": 60.0}  # µs above hand-written code


def rows(threads: int, seconds: float = 2.0) -> Iterator[Row]:
    """Microseconds above hand-written code, in each library."""
    for library, bar in BARS.items():
        if importlib.util.find_spec(library) is None:
            continue
        calls = candidates(library)
        for call in calls.values():  # what the first call makes is not what is measured
            call()
        timing = measure.interleaved(calls, seconds, threads=threads)
        yield Row.of("calls", f"{library}, one problem, n=5 d=2, one step",
                     timing.difference("inweave", "by hand").times(1e6), unit="µs",
                     against=f"{library}, by hand", threads=threads, bar=bar,
                     seconds=timing.seconds())  # fmt: skip


def by_hand(X: Any, y: Any, u: Any, lam: Any, eta: Any) -> Any:  # noqa: ARG001
    """One step from zero, which reads no lam, and the prediction."""
    return u @ (eta * (X.T @ y))


def candidates(library: str) -> dict[str, Callable[[], Any]]:
    """The network and the hand-written line, each called on its own."""
    net, given = problem.network(5, 2, 1), problem.data(5, 2)
    if library == "numpy":
        return {"inweave": lambda: net(**given), "by hand": lambda: by_hand(**given)}
    numbers = {name: value for name, value in given.items() if isinstance(value, float)}
    arrays = {name: value for name, value in given.items() if name not in numbers}
    if library == "torch":
        import torch

        tensors = {name: torch.from_numpy(value) for name, value in arrays.items()} | numbers
        return {"inweave": lambda: net(**tensors), "by hand": lambda: by_hand(**tensors)}
    import jax

    single = {name: jax.numpy.asarray(value) for name, value in arrays.items()} | numbers
    fast = jax.jit(by_hand)
    return {
        "inweave": lambda: net(**single).block_until_ready(),
        "by hand": lambda: fast(**single).block_until_ready(),
    }
