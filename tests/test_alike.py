"""Terms that are alike are found quickly: what is left out of the search never finds any."""

from collections.abc import Callable
from typing import Any

import pytest

import inweave
from inweave import Matrix, Vector, gallery
from inweave.run import alike


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
