"""Terms that are alike are found quickly: what is left out of the search never finds any."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import inweave
from inweave import Matrix, Vector, gallery
from inweave.run.lines.code import VIEWS, Line, Repeat
from inweave.run.values import alike


@inweave.program
def rows_one_by_one(X: Matrix["n", "d"], y: Vector["n"]) -> Any:
    def step(w: Any) -> Any:
        for i in range(4):
            w = w + (y[i] - X[i] @ w) * X[i]
        return w

    return inweave.iterate(step, inweave.zeros(3), 40)


@inweave.program
def gated(X: Matrix["n", "d"], W: Matrix["d", "k"], V: Matrix["d", "k"]) -> Any:
    return ((X @ W) * (X @ V)).sum(axis=1)


def in_the_gallery(name: str) -> Callable[[], inweave.Network]:
    return lambda: gallery.get(name).compile(verify=False)


NETWORKS = {
    "rows": lambda: inweave.compile(rows_one_by_one, n=4, d=3, verify=False),
    "gated": lambda: inweave.compile(gated, n=5, d=3, k=2, verify=False),
    **{name: in_the_gallery(name) for name in ("gated_linear_attention", "kalman_filter")},
}


def lines(network: inweave.Network) -> list[str]:
    start = network.plan.from_inputs
    return [repr(v.code.lines) for v in (start, start.alone, start.batched, start.staged)]


def looked(self: Any, node: Any, axes: Any, depth: int = 0, flip: bool = False) -> Any:
    return self._looked(node, axes, depth, flip)


@pytest.mark.parametrize("name", NETWORKS)
def test_plans_are_those_of_a_search_that_skips_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = lines(NETWORKS[name]())
    monkeypatch.setattr(alike._Family, "_strays", 0)
    monkeypatch.setattr(alike._Look, "node", looked)
    assert lines(NETWORKS[name]()) == quick


@inweave.program
def factored(V: Matrix["n", "m"], W: Matrix["n", "k"], H: Matrix["k", "m"]) -> Any:
    def step(W: Any, H: Any) -> Any:
        H = H * (W.T @ (V / inweave.assume(W @ H, 1e-2, 1e2))) / V.shape[0]
        return W * ((V / inweave.assume(W @ H, 1e-2, 1e2)) @ H.T) / V.shape[1], H

    return inweave.iterate(step, (W, H), 3)


def computed(n: int) -> int:
    """How many operations a step takes, views not counted."""
    net = inweave.compile(factored, n=n, m=4, k=2, optimize="speed", verify=False)
    (loop,) = (x for x in net.plan.from_inputs.code.lines if isinstance(x, Repeat))
    return sum(line.op not in VIEWS for line in loop.body if isinstance(line, Line))


def test_what_multiplies_or_divides_entry_by_entry_in_a_loop_is_one_operation_at_any_size() -> None:
    """Four products of matrices, four entry by entry, two divisions, at most four multiples."""
    assert computed(3) <= 4 + 4 + 2 + 4
    assert computed(3) == computed(6)


@inweave.program
def multiplied(V: Matrix["n", "m"], W: Matrix["n", "k"], H: Matrix["k", "m"], *, steps: int) -> Any:
    def step(H: Any) -> Any:
        return H * (W.T @ V) / inweave.assume(W.T @ W @ H, 1e-2, 1e3)

    return inweave.iterate(step, H, steps)


@pytest.mark.parametrize(("n", "m", "k"), [(3, 6, 2), (6, 3, 2), (9, 4, 4), (5, 5, 3)])
def test_what_is_made_before_a_loop_is_one_matrix_in_it_whichever_side_is_longer(
    n: int, m: int, k: int
) -> None:
    """One product of matrices, one division, two products entry by entry."""
    net = inweave.compile(multiplied, n=n, m=m, k=k, steps=5, optimize="speed")
    (loop,) = (x for x in net.plan.from_inputs.code.lines if isinstance(x, Repeat))
    assert sum(line.op not in VIEWS for line in loop.body if isinstance(line, Line)) == 4
    rng = np.random.default_rng(0)
    for lead in ((), (5,)):
        V, W, H = (rng.uniform(0.5, 1, (*lead, *s)) for s in ((n, m), (n, k), (k, m)))
        answer = net(V=V, W=W, H=H)
        for _ in range(5):
            H = H * (W.mT @ V) / (W.mT @ W @ H)
        np.testing.assert_allclose(answer, H, rtol=1e-12)


def test_products_and_divisions_entry_by_entry_in_a_loop_are_those_of_numpy() -> None:
    net, rng = inweave.compile(factored, n=6, m=4, k=2, optimize="speed"), np.random.default_rng(0)
    for lead in ((), (5,)):
        V, W, H = (rng.uniform(0.5, 1, (*lead, *s)) for s in ((6, 4), (6, 2), (2, 4)))
        answer = net(V=V, W=W, H=H)
        for _ in range(3):
            H = H * (W.mT @ (V / (W @ H))) / 6
            W = W * ((V / (W @ H)) @ H.mT) / 4
        np.testing.assert_allclose(answer[0], W, rtol=1e-9)
        np.testing.assert_allclose(answer[1], H, rtol=1e-9)
