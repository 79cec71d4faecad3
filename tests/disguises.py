"""The whole gallery, hidden and read back: `python -m tests.disguises --part 1/16`.

Every entry, at small sizes, for every target, in every mode and at every dial: compiled, disguised,
decompiled, and what came back compiled again and verified against the entry's own program. With
`--plain`, the entries are only compiled and verified, at their own sizes. A line for every case; of
what went wrong, the reason.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import inweave
from inweave import Program, gallery
from inweave.circuits.disguise import disguise
from inweave.compiler.options import MODES
from inweave.gallery.entry import Entry

DIALS = (0.0, 0.5, 1.0)
SMALL = {"n": 4, "d": 2, "m": 3, "k": 2, "t": 3, "v": 3, "steps": 4, "batch": 2}


class Case(NamedTuple):
    """An entry, how it is compiled, and how well it is hidden; not at all if it is plain."""

    entry: Entry
    target: str
    mode: str
    dial: float | None

    def __str__(self) -> str:
        how = "plain" if self.dial is None else f"dial {self.dial:g}"
        return f"{self.entry.name} {self.target} {self.mode} {how}"


def cases(plain: bool = False) -> Iterator[Case]:
    for entry in gallery.entries():
        yield from (
            Case(entry, *how) for how in product(entry.targets, MODES, (None,) if plain else DIALS)
        )


def sizes(case: Case) -> dict[str, Any]:
    """Those of the entry, or small ones where it is to be hidden."""
    given = dict(case.entry.sizes)
    if case.dial is not None:
        given |= {name: min(given[name], most) for name, most in SMALL.items() if name in given}
    return given


def attempt(case: Case, seed: int = 1) -> inweave.Certificate:
    """One case; whatever goes wrong is an exception."""
    entry, options = case.entry, {"target": case.target, "optimize": case.mode, "verify": False}
    network = entry.compile(**options, **sizes(case))
    if case.dial is not None:
        source = inweave.decompile(disguise(network, case.dial, seed))
        network = inweave.compile(program_of(source), **options)
    return inweave.verify(entry.program, network, **sizes(case))


def program_of(source: str) -> Program:
    """The program that a source defines."""
    space: dict[str, Any] = {}
    exec(source, space)
    program: Program = space["algorithm"]
    return program


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", default="1/1", metavar="K/N", help="the K-th of N parts")
    parser.add_argument("--entry", help="only this one")
    parser.add_argument("--plain", action="store_true", help="compile and verify, hide nothing")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    part, parts = map(int, args.part.split("/"))
    chosen = [c for c in cases(args.plain) if args.entry in (None, c.entry.name)][part - 1 :: parts]
    warnings.filterwarnings("ignore", message=".*does not use its input")
    failed, begin = 0, time.process_time()
    for case in chosen:
        start = time.process_time()
        try:
            outcome = f"ok, {attempt(case, args.seed).method}"
        except Exception as error:  # whatever it is, it is a failure to report
            failed += 1
            outcome = f"FAILED {type(error).__name__}: {' '.join(str(error).split())[:300]}"
        print(f"{case}: {outcome} ({time.process_time() - start:.1f} s)", flush=True)
    print(f"{len(chosen)} cases, {failed} failed, {time.process_time() - begin:.0f} s")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
