"""Random programs against the compiler: `python -m tests.fuzz --count 10000 --seed 1`.

Every program must compile and verify, or be refused with a InweaveError. A crash and a network that
differs from its program are failures, printed with the program and the seed that made it.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import inweave
from inweave.errors import CompileError, InweaveError
from inweave.exact.arithmetic import Floats, Rationals
from inweave.exact.constants import Array, fractions
from inweave.model.dense import forward
from inweave.model.prompt import fill_prompt
from inweave.network import Network
from inweave.proof.floats import terms
from tests.programs import Recipe, recipes
from tests.ways import WAYS, compiled

TARGETS, MODES = ("elsa", "lsa"), ("faithful", "speed", "depth")
HOW = (*MODES, *WAYS)
BATCH = 20
EQUAL, FUNCTIONS = "equal in rationals too", "of them with functions"
CLOSE = "close in floats"
ROUNDED = (
    1e-12  # of the sizes of all terms together: floats have 1e-16, and programs many operations
)
ONE, SCALES = (Fraction(1),), tuple(Fraction(10) ** k for k in (-30, -9, 0, 9, 30))
SMALL = 40_000  # multiplications in Fractions that a check may take


def attempt(recipe: Recipe, target: str, how: str) -> tuple[str, Network | None]:
    """Compile and verify, in a mode or a way: ('compiled', network) or ('refused: why', None).

    A refusal is a InweaveError while tracing, or a CompileError later. Any other error is a
    failure.
    """
    program = recipe.program()
    try:
        program.trace()
    except InweaveError as error:
        return f"refused: {type(error).__name__}", None
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*does not use its input")
        try:
            if how in MODES:
                network = inweave.compile(program, target=target, optimize=how)
            else:
                network = compiled(program, how, target)
        except CompileError:
            return "refused: CompileError", None
    assert network.certificate is not None
    return "compiled", network


class WholeWherePossible(Rationals):
    """Exact rationals that are ints where they are whole: Python multiplies those much faster."""

    def number(self, value: Fraction) -> Fraction | int:
        return value.numerator if value.denominator == 1 else value

    def zeros(self, shape: Sequence[int]) -> Array:
        return np.zeros(tuple(shape), dtype=object)

    def array(self, entries: np.ndarray) -> Array:
        out = np.zeros(np.shape(entries), dtype=object)
        some = entries != 0  # few of the entries of dense weights
        out[some] = [self.number(entry) for entry in fractions(entries[some])]
        return out

    def pointwise(self, function: Any, x: Array) -> Array:
        return function.rationals(fractions(x))  # a function may divide


def rational_inputs(
    network: Network, key: int, scales: tuple[Fraction, ...] = ONE
) -> dict[str, np.ndarray]:
    """Small random numbers for a network's inputs, each on one of these scales."""
    rng = np.random.default_rng(key)
    out = {}
    for spec in network.inputs:
        whole = rng.integers(-6, 7, size=(spec.rows, spec.cols)).astype(object)
        out[spec.name] = WholeWherePossible().array(whole * scales[rng.integers(len(scales))])
    return out


def work(network: Network) -> int:
    """Roughly how many multiplications a dense forward pass takes."""
    return network.depth * network.heads * network.tokens * network.width**2


class Tabled(WholeWherePossible):
    """Rationals in which a function is its table, as it is in the network."""

    def pointwise(self, function: Any, x: Array) -> Array:
        return function.net.rationals(fractions(x))


def equal_in_rationals(network: Network, key: int = 0) -> bool:
    """Whether the dense forward pass and every plan give the program's answers, in exact rationals.

    Independent of verification: other numbers, another executor, the whole loop instead of a step.
    Inputs are small, and on other scales; functions are their tables, on both sides.
    """
    return all(_equal(network, rational_inputs(network, key, scales)) for scales in (ONE, SCALES))


def _equal(network: Network, inputs: dict[str, np.ndarray]) -> bool:
    arithmetic = Tabled()
    assert network.origin is not None
    expected = network.origin.traced.evaluate(inputs, arithmetic)
    H = fill_prompt(network.layout, network.fills, inputs, arithmetic)
    H = forward(network, H, arithmetic)
    dense = {o.name: o.place.read(network.layout, H) for o in network.outputs}
    one = network.plan.from_inputs
    ways = (one, one.alone, one.batched, one.staged, network.plan.in_one_call)
    planned = (network.plan.answers(inputs, arithmetic, variant=way) for way in ways)
    return all(
        (answers[name] == value).all()
        for answers in (dense, *planned)
        for name, value in expected.items()
    )


def close_in_floats(network: Network, key: int = 0) -> bool | None:
    """Whether floats give the program's answers up to the rounding of its terms, if it has any.

    However a polynomial is computed, its rounding errors are those of its terms, so answers are
    compared with what the absolute values of all terms add up to: where they decay to 1e-30, that
    does too, and where terms cancel it does not. Whoever adds and takes away what is larger, loses.
    """
    assert network.origin is not None
    rational = rational_inputs(network, key)
    inputs = {name: x.astype(float) for name, x in rational.items()}
    sizes = terms(network.origin.traced, inputs)
    if not sizes:
        return None
    expected = network.origin.traced.evaluate(rational, WholeWherePossible())
    found = network.plan.answers(inputs, Floats())
    return all(
        (abs(found[name] - exact.astype(float)) <= ROUNDED * sizes[name]).all()
        for name, exact in expected.items()
    )


def fuzz(count: int, key: int) -> tuple[Counter[str], list[str]]:
    """Try `count` programs; the outcomes, and a report for every failure."""
    outcomes: Counter[str] = Counter()
    failures: list[str] = []
    for batch in range(-(-count // BATCH)):
        size = min(BATCH, count - batch * BATCH)
        _batch(size, key + batch, outcomes, failures)
    return outcomes, failures


def _batch(count: int, key: int, outcomes: Counter[str], failures: list[str]) -> None:
    """One run of hypothesis, which varies what it has seen: short runs keep programs different."""

    @seed(key)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(recipes(), st.sampled_from(TARGETS), st.sampled_from(HOW))
    def one(recipe: Recipe, target: str, how: str) -> None:
        try:
            outcome, network = attempt(recipe, target, how)
            outcomes[outcome] += 1
            if network is not None and not network.is_polynomial:
                outcomes[FUNCTIONS] += 1
            if network is not None and work(network) <= SMALL:
                outcomes[EQUAL] += 1
                assert equal_in_rationals(network), "differs in rationals"
            close = None if network is None else close_in_floats(network)
            outcomes[CLOSE] += close is not None
            assert close is not False, "loses digits in floats"
        except Exception:  # whatever it is, it is a failure to report
            outcomes["FAILED"] += 1
            why = traceback.format_exc(limit=-4)
            failures.append(f"seed {key}: {target} {how}\n{recipe!r}\n{why}")

    one()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=None)
    args = parser.parse_args()
    key = int(time.time()) if args.seed is None else args.seed
    start = time.perf_counter()
    outcomes, failures = fuzz(args.count, key)
    for text in failures[:20]:
        print(text, end="\n\n")
    tried = sum(n for name, n in outcomes.items() if name not in (EQUAL, FUNCTIONS, CLOSE))
    print(f"{tried} programs, seed {key}, {time.perf_counter() - start:.0f} s")
    for name, number in outcomes.most_common():
        print(f"  {name:30} {number}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
