"""Writes the table of docs/explanation/lower-bound.md: `python -m scripts.least_depth`.

Programs are compiled by least depth for many numbers of steps, in both targets, and their layers
are put beside the bound. Minutes for each, one process per core; with names as arguments, these are
swept and nothing is written. `python -m scripts.least_depth --digits` says what depth costs in
float64.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import inweave
from inweave import Matrix, Scalar, Vector, gallery
from inweave.compiler.candidates import best
from inweave.compiler.driver import Shared, checked_by, run
from inweave.compiler.options import COLLAPSED, TARGETS
from inweave.compiler.origin import Origin
from inweave.gallery.examples import positive_definite
from inweave.language.program import Program
from inweave.model.network import Network
from inweave.proof.degree import degree, lower_bound
from inweave.run.plan import Plan

PAGE = Path(__file__).parent.parent / "docs" / "explanation" / "lower-bound.md"
BEGIN, END = "<!-- least depth: begin -->", "<!-- least depth: end -->"
SMALL = {"n": 3, "d": 2, "m": 3}  # from two on, depths do not depend on sizes
USUAL = {"n": 40, "d": 8, "m": 8}  # those at which heads, columns and flops are said
EVERY, MOST, RANDOM = 100, 2187, 30  # every number of steps up to, none beyond, so many at random


@inweave.program
def descent(X: Matrix["n", "d"], y: Vector["n"], u: Vector["d"], *, steps: int) -> Scalar:
    """Least squares by gradient descent with a constant step, from zero."""
    start = inweave.zeros(X.shape[1])
    return u.T @ inweave.iterate(lambda w: w - 0.01 * (X.T @ (X @ w - y)), start, steps)


@inweave.program
def ridge(
    X: Matrix["n", "d"], y: Vector["n"], u: Vector["d"], lam: Scalar, eta: Scalar, *, steps: int
) -> Scalar:
    """Ridge regression by gradient descent from zero."""
    start = inweave.zeros(X.shape[1])
    return u.T @ inweave.iterate(lambda w: w - eta * (X.T @ (X @ w - y) + lam * w), start, steps)


PROGRAMS: dict[str, Program] = {"descent": descent, "ridge": ridge} | {
    name: gallery.get(name).program
    for name in (
        "ridge_gd", "heavy_ball", "nesterov", "td0", "weighted_least_squares", "neumann_series",
        "kernel_regression", "chebyshev", "newton_schulz", "hyperpower",
    )
}  # fmt: skip
LONGEST = {"chebyshev": 243, "newton_schulz": 8, "hyperpower": 8}


def sizes(program: Program, chosen: Mapping[str, int], steps: int) -> dict[str, int]:
    return {size: chosen[size] for size in program.size_names} | {"steps": steps}


def network(program: Program, at: Mapping[str, int], target: str = "elsa") -> Network:
    """The network by least depth; passes are not checked."""
    with checked_by(None):
        return best(Origin(program, dict(at), target, "depth")).network


def depths(program: Program, steps: int) -> list[int]:
    """Its layers in both targets, which have all but the last passes in common."""
    recorded, shared = program.trace(**sizes(program, SMALL, steps)), Shared()
    asked: dict[str, Any] = {"candidate": COLLAPSED, "least_depth": True, "shared": shared}
    with checked_by(None):
        return [run(recorded, target=target, **asked).network.depth for target in TARGETS]


def bound(program: Program, steps: int) -> int:
    found, exact = degree(program.trace(**sizes(program, SMALL, steps)))
    assert exact, (program.name, steps)
    return lower_bound(found)


# -- numbers of steps ------------------------------------------------------------------------------
def rises(name: str) -> list[int]:
    """The numbers of steps, up to the longest, with which the bound is higher than before."""
    program, longest = PROGRAMS[name], LONGEST.get(name, MOST)
    found, low = [1], 1
    while bound(program, low) < bound(program, longest):
        now, high = bound(program, low), longest
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if bound(program, middle) == now else (low, middle)
        found.append(high)
        low = high
    return found


def counts(name: str) -> list[int]:
    """All numbers of steps that are tried."""
    longest = LONGEST.get(name, MOST)
    near = {T + by for T in rises(name) for by in (-1, 0, 1)}
    drawn = random.Random(name).sample(range(1, longest + 1), min(RANDOM, longest))
    found = {*range(1, EVERY + 1), *near, *drawn, longest}
    return sorted(T for T in found if 1 <= T <= longest)


# -- the table -------------------------------------------------------------------------------------
class Row(NamedTuple):
    """A range of numbers of steps with one bound; heads, columns and flops of its two ends."""

    first: int
    last: int
    bound: int
    deepest: int
    heads: tuple[int, int]
    width: tuple[int, int]
    flops: tuple[int, int]

    def __str__(self) -> str:
        ends = (f"{a:,}" if a == b else f"{a:,} to {b:,}" for a, b in self[4:])
        steps = f"{self.first}" if self.first == self.last else f"{self.first} to {self.last}"
        return f"| {steps} | {self.bound} | {self.deepest} | {' | '.join(ends)} |"


def swept(name: str) -> list[Row]:
    return list(rows(name))


def rows(name: str) -> Iterator[Row]:
    program, tried = PROGRAMS[name], counts(name)
    starts = rises(name)
    for first, after in zip(starts, [*starts[1:], tried[-1] + 1], strict=True):
        least, last = bound(program, first), after - 1
        found = [depth for T in tried if first <= T <= last for depth in depths(program, T)]
        ends = [network(program, sizes(program, USUAL, T)) for T in (first, last)]
        yield Row(
            first, last, least, max(found),
            (ends[0].heads, ends[1].heads),
            (ends[0].width, ends[1].width),
            (Plan(ends[0]).flops, Plan(ends[1]).flops),
        )  # fmt: skip


ABOUT = f"""\
Written by `python -m scripts.least_depth`. Each program was compiled with `optimize="depth"`, in
both targets, for every number of steps up to {EVERY}, for those next to a step of the bound up to
{MOST:,} and for {RANDOM} more at random (Chebyshev's method up to 243 steps, Newton–Schulz and
hyperpower up to 8). *Layers* is the largest number found in a range of steps with one bound. Heads
stored, columns and flops are those at the two ends of the range, for ELSA at n = 40, d = 8, m = 8.
"""


def table() -> str:
    out = [ABOUT]
    with ProcessPoolExecutor() as pool:
        every = list(pool.map(swept, PROGRAMS))
    for (name, program), found in zip(PROGRAMS.items(), every, strict=True):
        above = [f"{row.first} to {row.last}" for row in found if row.deepest > row.bound]
        said = f"above the bound at {', '.join(above)}" if above else "all at the bound"
        title = (program.__doc__ or "").strip().partition("\n")[0].rstrip(".")
        out.append(f"**{name}**: {title}; {len(counts(name))} numbers of steps, {said}.\n")
        out.append("| steps | bound | layers | heads | columns | flops |")
        out.append("| --- | --- | --- | --- | --- | --- |")
        out += [*map(str, found), ""]
    return "\n".join(out)


# -- digits ----------------------------------------------------------------------------------------
class Digits(NamedTuple):
    """Relative errors in float64, in the norm of the answer: medians over many problems."""

    network: float
    program: float
    faithful: float


def problem(name: str, seed: int) -> dict[str, Any]:
    """Data on which a program converges."""
    rng = np.random.default_rng(seed)
    at = {size: USUAL[size] for size in PROGRAMS[name].size_names}
    if name == "neumann_series":
        A = rng.normal(size=(at["m"], at["m"]))
        return {"A": A / (1.05 * np.linalg.norm(A, 2)), "b": rng.normal(size=at["m"])}
    if name in ("newton_schulz", "hyperpower"):
        A = positive_definite(rng, at["m"], 10.0)
        return {"A": A, "alpha": 1 / np.linalg.norm(A) ** 2}
    if name == "descent":
        X = rng.normal(size=(at["n"], at["d"]))
        X *= 9 / np.linalg.norm(X, 2)
        return {"X": X, "y": rng.normal(size=at["n"]), "u": rng.normal(size=at["d"])}
    entry = gallery.get("ridge_gd" if name == "ridge" else name)
    made = entry.inputs(rng, **{**entry.sizes, **at})
    return {key: value for key, value in made.items() if (name, key) != ("ridge", "w0")}


def digits(name: str, steps: int, draws: int = 30) -> Digits:
    """What least depth costs: errors against the program itself in extended precision."""
    program = PROGRAMS[name]
    at = sizes(program, USUAL, steps)
    by_depth = inweave.compile(program, optimize="depth", verify=False, **at)
    faithful = inweave.compile(program, verify=False, **at)
    found = []
    for seed in range(draws):
        inputs = problem(name, seed)
        wide = {key: np.asarray(value, np.longdouble) for key, value in inputs.items()}
        exact = np.asarray(program(**wide, steps=steps))
        size = np.linalg.norm(exact.astype(float))
        answers = (
            by_depth(**inputs), program(**inputs, steps=steps), faithful(**inputs)
        )  # fmt: skip
        gaps = [
            np.asarray(answer, np.longdouble).reshape(exact.shape) - exact for answer in answers
        ]
        found.append([float(np.linalg.norm(gap.astype(float)) / size) for gap in gaps])
    return Digits(*(float(x) for x in np.median(found, axis=0)))


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--digits"]:
        for name in arguments[1:] or PROGRAMS:
            for steps in (rises(name)[k] - 1 for k in range(1, len(rises(name)))):
                if steps <= 200:
                    print(name, steps, digits(name, steps))
        return
    if arguments:
        for name in arguments:
            print(name, *rows(name), sep="\n")
        return
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}")


if __name__ == "__main__":
    main(sys.argv[1:])
