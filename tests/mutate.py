"""Mutation check: `python -m tests.mutate` changes everything that networks are made of, in turn.

Numbers, offsets, flags, the order of things, tables of functions, inputs and answers with their
kinds and signs; `tests.changed` has the list. A mutant that changes the function must be refused by
each of the checks: at random points of a field, and by algebra and in words at a random point where
these prove the network as it was. Whether it does is decided independently: by the dense executor,
on inputs over exact rationals, against the network that was compiled. Mutants that differ on some
input but pass a check have survived it; there must be none. Those that never differ are equivalent
(a coefficient that meets only zeros, say).
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.errors import VerificationError
from inweave.exact.field import LONG, Field, random_prime
from inweave.language.program import Traced
from inweave.model.dense import forward
from inweave.model.prompt import fill_prompt, of_kind
from inweave.network import Network
from inweave.proof import runs
from inweave.proof.algebra import NotProved, prove
from inweave.proof.check import verify
from inweave.proof.interface import compatible
from tests.cases import CASES
from tests.changed import Mutant, built, mutants, pairs
from tests.fuzz import WholeWherePossible, rational_inputs

WORDS = ("killed", "survived", "equivalent")
CHOSEN = (
    ("product", "elsa", "faithful"),
    ("chain_of_four", "lsa", "depth"),
    ("constant_factors", "elsa", "speed"),
    ("slices", "lsa", "faithful"),
    ("scalars", "elsa", "depth"),
    ("ridge_gd", "elsa", "faithful"),
    ("ridge_gd", "lsa", "depth"),
    ("heavy_ball", "elsa", "speed"),
    ("nested", "lsa", "speed"),
    ("two_sided", "elsa", "faithful"),
)


@inweave.program
def shrunk(A: Matrix["n", "n"], x: Vector["n"], *, steps: int):
    return inweave.iterate(lambda v: inweave.soft_threshold(v - A @ v, 0.5), x, steps)


@inweave.program
def divided(x: Vector["n"], p: Scalar):
    return inweave.reciprocal(p, domain=(0.5, 4), error=1e-4) * x


@inweave.program
def entries_inverted(x: Vector["n"], y: Vector["n"]):
    return inweave.reciprocal(x, domain=(0.5, 4), error=3e-2) + inweave.relu(x + y)


FUNCTIONS = ((shrunk, {"n": 2, "steps": 2}), (divided, {"n": 2}), (entries_inverted, {"n": 2}))


def networks() -> Iterator[tuple[str, Network]]:
    cases = {case.name: case for case in CASES}
    for name, target, mode in CHOSEN:
        case = cases[name]
        sizes = {k: 2 if k in ("steps", "inner") else v for k, v in case.sizes.items()}
        net = inweave.compile(case.program, target=target, optimize=mode, **sizes)
        yield f"{name}, {target}, {mode}", net
    for program, sizes in FUNCTIONS:
        yield f"{program.name}, elsa, faithful", inweave.compile(program, **sizes)


# -- judging ---------------------------------------------------------------------------------------
class Judge:
    """Knows a network's answers on some inputs over the rationals.

    Without functions they must be the program's; a function's table is only near the function.
    `checks` are those that pass the network as it is.
    """

    def __init__(self, network: Network, points: int = 3) -> None:
        self.arithmetic = WholeWherePossible()
        assert network.origin is not None
        self.traced = network.origin.traced
        self.checks = [check for check in CHECKS if passes(check, network, self.traced)]
        self.inputs = [rational_inputs(network, key) for key in range(points)]
        if not network.is_polynomial:  # where every table of these networks has its domain
            self.inputs = [{k: abs(x) + Fraction(1, 2) for k, x in drawn.items()}
                           for drawn in self.inputs]  # fmt: skip
        self.expected = [self._answers(network, inputs) for inputs in self.inputs]
        if network.is_polynomial:
            for inputs, expected in zip(self.inputs, self.expected, strict=True):
                wanted = self.traced.evaluate(inputs, self.arithmetic)
                assert all((of_kind(x, kind) == of_kind(wanted[name], kind)).all()
                           for name, (x, kind) in expected.items())  # fmt: skip

    def _answers(self, network: Network, inputs: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
        H = fill_prompt(network.layout, network.fills, inputs, self.arithmetic)
        H = forward(network, H, self.arithmetic)
        return {o.name: (o.place.read(network.layout, H), o.kind) for o in network.outputs}

    def same(self, network: Network) -> bool:
        """Whether a network takes the same inputs and gives the same answers, computed densely."""
        for inputs, expected in zip(self.inputs, self.expected, strict=True):
            taken = {spec.name: (spec.rows, spec.cols) for spec in network.inputs}
            if taken != {name: x.shape for name, x in inputs.items()}:
                return False
            found = self._answers(network, inputs)
            if list(found) != list(expected):
                return False
            for name, (x, kind) in expected.items():
                got, got_kind = found[name]
                if got_kind != kind or got.shape != x.shape or not (got == x).all():
                    return False
        return True


def at_points(network: Network, traced: Traced) -> None:
    """The check at random points, without that in floats, which tells most of them apart too."""
    with patch("inweave.proof.check.float_difference", return_value=None):
        verify(traced=traced, network=network, name="mutant", trials=1, seed=1)


def by_algebra(network: Network, traced: Traced) -> None:
    """The proof by algebra."""
    compatible("mutant", traced, network)
    prove(traced, network)


def in_words(network: Network, traced: Traced) -> None:
    """Words at a random point."""
    compatible("mutant", traced, network)
    if any(module.carries for module in network.modules):
        raise NotProved("there are loops")
    rng = np.random.default_rng(1)
    runs.compare(traced, network, Field(random_prime(rng, LONG)), rng)


CHECKS = {"field": at_points, "algebra": by_algebra, "words": in_words}


def passes(check: str, network: Network, traced: Traced) -> bool:
    try:
        CHECKS[check](network, traced)
    except (VerificationError, NotProved):
        return False
    return True


def judge(changed: Network, known: Judge) -> dict[str, str]:
    """For each check that applies: 'killed', 'equivalent', or 'survived'."""
    passed = {check: passes(check, changed, known.traced) for check in known.checks}
    same = any(passed.values()) and known.same(changed)
    word = "equivalent" if same else "survived"
    return {check: word if found else "killed" for check, found in passed.items()}


@dataclass
class Count:
    """What became of the mutants of a network: a counter for each check, and the survivors."""

    words: dict[str, Counter[str]]
    invalid: int = 0
    survivors: list[str] = field(default_factory=list)

    def add(self, mutant: Mutant, found: dict[str, str]) -> None:
        for check, word in found.items():
            self.words[check][word] += 1
            if word == "survived":
                self.survivors.append(f"{check}: {mutant.text}")

    def row(self) -> list[int | str]:
        out: list[int | str] = []
        for check in CHECKS:
            known = self.words.get(check)
            out += ["-"] * 3 if known is None else [known[word] for word in WORDS]
        return [*out, self.invalid]


def check(network: Network, most: int, seed: int = 0, doubled: int = 0) -> Count:
    """Judge up to `most` single changes of a network and `doubled` pairs of them."""
    known = Judge(network)
    count = Count({check: Counter() for check in known.checks})
    single = list(mutants(network))
    order = np.random.default_rng(seed).permutation(len(single))
    left = most
    for mutant in [*(single[i] for i in order), *pairs(network, doubled, seed)]:
        pair = len(mutant.changes) > 1
        if not (left or pair):
            continue
        changed = built(network, mutant)
        if changed is None:
            count.invalid += 1
            continue
        count.add(mutant, judge(changed, known))
        left -= not pair
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=10_000, help="single changes of each network")
    parser.add_argument("--pairs", type=int, default=100, help="two changes at once, of each")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    line = "{:34}" + " {:>9} {:>9} {:>11}" * len(CHECKS) + " {:>8}"
    print(line.format("", *(text for check in CHECKS for text in (check, "", "")), ""))
    print(line.format("network", *WORDS * len(CHECKS), "invalid"))
    total = Count({check: Counter() for check in CHECKS})
    for name, network in networks():
        count = check(network, args.most, args.seed, args.pairs)
        for one, words in count.words.items():
            total.words[one] += words
        total.invalid += count.invalid
        total.survivors += count.survivors
        print(line.format(name, *count.row()), flush=True)
        for text in count.survivors[:10]:
            print(f"  survived: {text}")
    print(line.format("all", *total.row()))
    return 1 if total.survivors else 0


if __name__ == "__main__":
    sys.exit(main())
