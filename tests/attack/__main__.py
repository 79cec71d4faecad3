"""Run the doors one after another, in limits of time and memory."""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable

from tests import files_fuzz, fuzz
from tests.attack import commands, kills, pages

MEMORY = 8 << 30  # bytes that this process may map


def files(count: int, rng: random.Random) -> Counter[str]:
    """Damaged files."""
    return Counter(files_fuzz.fuzz(count, rng.randrange(2**31)))


def programs(count: int, rng: random.Random) -> Counter[str]:
    """Random programs."""
    outcomes, failures = fuzz.fuzz(count, rng.randrange(2**31))
    if failures:
        raise AssertionError("\n\n".join(failures[:5]))
    return outcomes


DOORS: dict[str, tuple[Callable[[int, random.Random], Counter[str]], int]] = {
    "commands": (commands.attack, 500),
    "kills": (kills.attack, 100),
    "pages": (pages.attack, 500),
    "files": (files, 100_000),
    "programs": (programs, 100_000),
}
"""Every door with the number of tries that is made where none is asked for."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--only", nargs="*", choices=DOORS, default=[*DOORS])
    parser.add_argument("--count", type=int, help="tries at each door")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    if "pages" not in options.only:  # a browser maps more than it uses
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for name in options.only:
        attack, usual = DOORS[name]
        count = usual if options.count is None else options.count
        print(f"{name}: {count} tries, seed {options.seed} ...", flush=True)
        start = time.perf_counter()
        found = attack(count, random.Random(f"{name} {options.seed}"))
        told = ", ".join(f"{what} {number}" for what, number in found.most_common())
        print(f"  {time.perf_counter() - start:.0f} s: {told}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
