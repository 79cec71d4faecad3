"""Ridge gradient descent, 100 steps: the `speed` network beside the loop written by hand.

The hand-written loop without hoisting is linear in the number of steps. Where a few of its steps
show that it would take more than twice as long as the other one, it is not run in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

from benchmarks import measure, problem
from benchmarks.row import Row

LIBRARIES = ("numpy", "torch", "jax")
SIZES = ((40, 10), (400, 50), (4000, 200))
BATCHES = (1, 256)
MEDIAN, WORST = 1.15, 1.5  # bars: median of a library's rows, and each single row


def rows(
    library: str,
    threads: int,
    seconds: float = 1.0,
    sizes: tuple[tuple[int, int], ...] = SIZES,
    batches: tuple[int, ...] = BATCHES,
    steps: int = problem.STEPS,
) -> Iterator[Row]:
    """One row per size and batch."""
    for n, d in sizes:
        net = problem.network(n, d, steps)
        for batch in batches:
            given = problem.data(n, d, batch)
            calls = candidates(library, net, given)
            timing = compare(calls, steps, threads, seconds)
            best = timing.quickest([name for name in timing.samples if name != "inweave"])
            ratio = timing.ratio("inweave", best)
            yield Row.of(f"ridge, {library}", f"n={n} d={d} batch={batch}", ratio,
                         against=f"{library}, {best}", threads=threads, bar=WORST,
                         seconds=timing.seconds())  # fmt: skip


def compare(
    calls: Mapping[str, Callable[[int], Any]], steps: int, threads: int, seconds: float
) -> measure.Timing:
    """Time the network with the hand-written loops, or with the better one if that is plain."""
    taken = {name: (lambda call=call: call(steps)) for name, call in calls.items()}
    few = max(1, steps // 25)
    if measure.once(lambda: calls["plain"](few)) * steps / few > 2 * measure.once(taken["gram"]):
        del taken["plain"]
    return measure.interleaved(taken, seconds, threads=threads)


def candidates(library: str, net: Any, given: dict[str, Any]) -> dict[str, Callable[[int], Any]]:
    """Calls that take a number of steps (the network has its own)."""
    by_hand = import_module(f"benchmarks.by_hand.in_{library}")
    if library == "jax":
        return _in_jax(net, given, by_hand)
    if library == "torch":
        import torch

        arrays = {k: v if isinstance(v, float) else torch.from_numpy(v) for k, v in given.items()}
    else:
        arrays = given
    return {
        "inweave": lambda _: net(**arrays),
        "plain": lambda steps: by_hand.plain(**arrays, steps=steps),
        "gram": lambda steps: by_hand.gram(**arrays, steps=steps),
    }


def _in_jax(net: Any, given: dict[str, Any], by_hand: Any) -> dict[str, Callable[[int], Any]]:
    import jax
    import jax.numpy as jnp

    def double(call: Callable[[int], Any]) -> Callable[[int], Any]:
        """The call in double precision, without setting it for the whole process."""

        def scoped(steps: int) -> Any:
            with jax.enable_x64(True):
                return call(steps).block_until_ready()

        return scoped

    with jax.enable_x64(True):
        arrays = {k: jnp.asarray(v) for k, v in given.items()}
    network = jax.jit(lambda arrays: net(**arrays))
    plain = jax.jit(lambda arrays, steps: by_hand.plain(**arrays, steps=steps), static_argnums=1)
    gram = jax.jit(lambda arrays, steps: by_hand.gram(**arrays, steps=steps), static_argnums=1)
    return {
        "inweave": double(lambda _: network(arrays)),
        "plain": double(lambda steps: plain(arrays, steps)),
        "gram": double(lambda steps: gram(arrays, steps)),
    }
