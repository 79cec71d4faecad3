"""Proofs: processor seconds of the slowest ones.

By algebra, all polynomial entries of the gallery in both targets, as written and hoisted, and the
paper's two networks of ridge regression. One row is the slowest of many; each must have been
proved. At random points, ridge regression with its loop collapsed, plain and with momentum, at many
numbers of steps.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

import inweave
from benchmarks.row import Row
from inweave import gallery, paper
from inweave.compiler.options import AS_WRITTEN, HOISTED
from inweave.compiler.origin import Origin
from inweave.compiler.resize import build
from inweave.language.program import Traced
from inweave.model.network import Network
from inweave.proof.algebra import NotProved, prove

BAR = 0.2
DEPTH_BAR = 0.5
COLLAPSED = {(400, 50): (100, 1_000, 10_000, 100_000, 1_000_000), (4000, 200): (100, 300, 1_000)}
TIMES = 3
Problem = tuple[Traced, Network]


def rows(
    threads: int,
    entries: tuple[gallery.Entry, ...] | None = None,
    collapsed: Mapping[tuple[int, int], tuple[int, ...]] = COLLAPSED,
) -> Iterator[Row]:
    """One row for each target and candidate, one for the paper, and one for each collapsed loop."""
    for target in ("elsa", "lsa"):
        for candidate in (AS_WRITTEN, HOISTED):
            problems = {}
            for entry in entries or gallery.entries():
                asked = Origin(entry.program, dict(entry.sizes), target, "speed", **entry.options)
                made = build(replace(asked, candidate=candidate))
                if made.network.is_polynomial:
                    problems[entry.name] = made.origin.traced, made.network
            yield _row(f"gallery, {target} {candidate}", problems, threads)
    nets = {f.__name__: f(7, 3, 100) for f in (paper.ridge_lsa, paper.ridge_elsa)}
    traced = gallery.ridge_gd.trace(n=7, d=3, steps=100)
    problems = {name: (traced, net) for name, net in nets.items()}
    yield _row("the paper's networks", problems, threads)
    for (n, d), steps in collapsed.items():
        found = {
            f"{program.name}, T={T:,}": _verified(program, n, d, T)
            for program in (gallery.ridge_gd, gallery.heavy_ball, gallery.nesterov)
            for T in steps
        }
        name = f"n={n} d={d}, T up to {max(steps):,}"
        yield Row.slowest(
            "verify, depth mode", name, found, unit="s", threads=threads, bar=DEPTH_BAR
        )


def _verified(program: inweave.Program, n: int, d: int, steps: int) -> float:
    """Seconds to verify a program whose loop is collapsed, at random points."""
    sizes = {"n": n, "d": d, "steps": steps}
    net = inweave.compile(program, optimize="depth", verify=False, **sizes)
    start = time.process_time()
    net.verify()
    return time.process_time() - start


def _row(name: str, problems: Mapping[str, Problem], threads: int) -> Row:
    """The slowest of some proofs, each the best of a few runs; which networks have none is said."""
    tried = {one: _seconds(problem) for one, problem in problems.items()}
    found = {one: seconds for one, seconds in tried.items() if seconds is not None}
    row = Row.slowest("proof by algebra", name, found, unit="s", threads=threads, bar=BAR)
    without = [one for one in tried if one not in found]
    return replace(row, note=f"{row.note}; none for {', '.join(without)}") if without else row


def _seconds(problem: Problem) -> float | None:
    """What a proof takes; None if program and network are not the same sums of words."""
    best = float("inf")
    for _ in range(TIMES):
        start = time.process_time()
        try:
            prove(*problem)
        except NotProved:
            return None
        best = min(best, time.process_time() - start)
    return best
