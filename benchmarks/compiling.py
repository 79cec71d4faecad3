"""Compile and verify: seconds from a program to a network with its certificate.

Ridge descent at three sizes; what the language says entry by entry, for vectors of 256 and matrices
of 32 x 32 numbers; Python loops of a thousand steps; and the slowest entries of the gallery.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import inweave
from benchmarks import measure, problem
from benchmarks.row import Row
from inweave import Matrix, Vector, gallery
from inweave.language.program import Program

SIZES = ((40, 10), (400, 50), (4000, 200))
MODES = ("faithful", "speed", "depth")
BAR = 0.5
FAMILY = "compile and verify"
WRITTEN = f"{FAMILY}, language"


# -- what is written entry by entry, and loops ----------------------------------------------------
@inweave.program
def products(a: Vector["n"], b: Vector["n"]) -> Vector["n"]:
    return a * b


@inweave.program
def matrix_products(A: Matrix["n", "n"], B: Matrix["n", "n"]) -> Matrix["n", "n"]:
    return A * B


@inweave.program
def fourth_powers(a: Vector["n"]) -> Vector["n"]:
    return a**4


@inweave.program
def masked(A: Matrix["n", "n"]) -> Matrix["n", "n"]:
    return inweave.tril(A)


@inweave.program
def diagonals(A: Matrix["n", "n"]) -> Vector["n"]:
    return inweave.diag(A)


@inweave.program
def weights(a: Vector["n"]) -> Vector["n"]:
    return inweave.softmax(inweave.assume(a, -4, 4))


@inweave.program
def quotients(a: Vector["n"], b: Vector["n"]) -> Vector["n"]:
    return a / inweave.assume(b, 0.1, 10)


@inweave.program
def matrix_quotients(A: Matrix["n", "n"], B: Matrix["n", "n"]) -> Matrix["n", "n"]:
    return A / inweave.assume(B, 0.1, 10)


@inweave.program
def steps(A: Matrix["n", "n"], x: Vector["n"], *, times: int) -> Vector["n"]:
    for _ in range(times):
        x = x - A @ x
    return x


@inweave.program
def rows_added(X: Matrix["n", "d"]) -> Vector["d"]:
    total = X[0]
    for i in range(1, X.shape[0]):
        total = total + X[i]
    return total


PROGRAMS: dict[str, tuple[Program, Mapping[str, int]]] = {
    "a * b, 256": (products, {"n": 256}),
    "A * B, 32 x 32": (matrix_products, {"n": 32}),
    "a ** 4, 256": (fourth_powers, {"n": 256}),
    "tril(A), 32 x 32": (masked, {"n": 32}),
    "diag(A), 32 x 32": (diagonals, {"n": 32}),
    "softmax(a), 256": (weights, {"n": 256}),
    "a / b, 256": (quotients, {"n": 256}),
    "A / B, 32 x 32": (matrix_quotients, {"n": 32}),
    "1,000 steps of a Python loop": (steps, {"n": 8, "times": 1000}),
    "sum of 2,000 rows, one by one": (rows_added, {"n": 2000, "d": 4}),
}
"""By what is said, with sizes; two seconds are what each may take."""

WRITTEN_BAR, GALLERY_BAR = 2.0, 1.0


def rows(
    threads: int,
    seconds: float = 1.0,
    sizes: tuple[tuple[int, int], ...] = SIZES,
    modes: tuple[str, ...] = MODES,
    programs: Mapping[str, tuple[Program, Mapping[str, int]]] = PROGRAMS,
    entries: tuple[gallery.Entry, ...] | None = None,
) -> Iterator[Row]:
    """One row per size and mode, per program and mode, and the slowest entry in each mode."""
    for n, d in sizes:
        for mode in modes:
            given = {"n": n, "d": d, "steps": problem.STEPS, "optimize": mode}
            name = f"n={n} d={d} {mode}"
            yield _row(FAMILY, name, problem.ridge_gd, given, seconds, threads, BAR)
    for said, (program, own) in programs.items():
        for mode in modes[:2]:
            given = {**own, "optimize": mode}
            yield _row(WRITTEN, f"{said}, {mode}", program, given, 0.0, threads, WRITTEN_BAR)
    for mode in modes:
        yield _slowest(entries or gallery.entries(), mode, threads)


def _row(
    family: str,
    name: str,
    program: Program,
    given: Mapping[str, Any],
    seconds: float,
    threads: int,
    bar: float,
) -> Row:
    """The note says how much of it is verification."""
    calls = {
        "compile and verify": partial(inweave.compile, program, **given),
        "compile": partial(inweave.compile, program, verify=False, **given),
    }
    timing = measure.interleaved(calls, seconds, threads=threads)
    spread = measure.Spread.of(timing.samples["compile and verify"])
    return Row.of(family, name, spread, unit="s", threads=threads, bar=bar,
                  seconds=timing.seconds(),
                  note=f"{timing.seconds()['compile']:.3f} s of it to compile")  # fmt: skip


def _slowest(entries: tuple[gallery.Entry, ...], mode: str, threads: int) -> Row:
    """Every entry of the gallery once, after once: the one that takes longest."""
    took = {}
    for entry in entries:
        call = partial(entry.compile, optimize=mode)
        timing = measure.interleaved({"": call}, 0.0, least=1, threads=threads)
        took[entry.name] = timing.seconds()[""]
    name, longest = max(took.items(), key=lambda pair: pair[1])
    return Row.of(WRITTEN, f"slowest of the gallery, {mode}", longest, unit="s", threads=threads,
                  bar=GALLERY_BAR,
                  note=f"{name}; all {len(took)} together {sum(took.values()):.1f} s")  # fmt: skip
