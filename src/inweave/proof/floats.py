"""How far rounding takes a network from its program, on one random input: a remark, no proof.

A polynomial's rounding errors are those of its terms, however it is computed. So what runs is
compared with the program beside what the absolute values of all terms add up to, for one prompt and
for several, which run in other ways: what is further off is no rounding, and no network of the
program runs. That is the one check of what `net(...)` does with a network that was proved.

`net(...)` computes what a network stands for. Run as a network, layer by layer, it adds to a stream
of floats, and a block that held a large value keeps the rounding error of it when a small one
follows; so exports are compared with `net(...)` as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from inweave.errors import VerificationError
from inweave.exact.arithmetic import Floats
from inweave.exact.constants import Array
from inweave.language.program import Traced
from inweave.model.cost import executed, written
from inweave.model.dense import forward
from inweave.model.layers import heads_of
from inweave.model.network import Network
from inweave.model.projection import Projection
from inweave.model.prompt import by_name
from inweave.proof.cost import program_work
from inweave.run.domains import OutOfDomain, guard
from inweave.run.plan import Plan

# more than this, a few tens of milliseconds, is not run in floating point unasked
MOST_LAYERS, MOST_FLOPS = 5000, 2e8  # of the network
MOST_OPERATIONS, MOST_PRODUCTS = 50_000, 1e7  # of the program
UNPROVED = 4e9  # multiplications, well under a second where matrices are multiplied by matrices
MOST_NUMBERS = 1e7  # that a network which runs as one multiplies each token by
ROUNDED = 1e-9  # of the sizes of all terms: floats have 1e-16, and programs many operations
SMALLEST = np.finfo(np.float64).tiny  # below which floats have fewer digits
EXACTLY_EQUAL = (
    "exactly, program and network agree; in floats, what runs the network does not. For random "
    "inputs"
)
DIFFERENT = "network and program differ: in floats, for random inputs"
DIGITS = {"float64": 53, "float32": 24}  # in base two; shorter floats have none to lose

Run = Callable[[Mapping[str, Array]], Any]  # inputs as a user gives them -> the answer or answers


def float_difference(traced: Traced, plan: Plan) -> float | None:
    """The largest difference in float64 on one random input, relative to the largest answer.

    None if it overflows, if it takes a function out of its domain, or if running every step would
    cost far more than the exact check of one: a proof takes no longer for large matrices.
    """
    operations, products = program_work(traced)
    if operations > MOST_OPERATIONS or products > MOST_PRODUCTS:
        return None
    if plan.network.depth > MOST_LAYERS or plan.flops > MOST_FLOPS:
        return None
    inputs = _drawn(plan.network)
    with np.errstate(all="ignore"):
        try:
            expected = traced.evaluate(inputs, Watched())
        except OutOfDomain:
            return None
        found = plan.answers(inputs, Floats())
        several = plan.answers({k: np.stack([x, x]) for k, x in inputs.items()}, Floats())
        sizes = terms(traced, inputs) if _has_terms(plan.network) else {}
        for answers in (found, {k: x[(-1,) * (x.ndim - 2)] for k, x in several.items()}):
            _check_terms(expected, answers, sizes, EXACTLY_EQUAL)
        return _difference(expected, found)


def refuse_if_far_off(traced: Traced, plan: Plan) -> None:
    """Refuse a network that takes long to prove if it is seen to be none of its program.

    A proof of large matrices takes far longer than to multiply them once, in floats. That proves
    nothing, and nothing is said of what takes longer still, or has no terms.
    """
    operations, products = program_work(traced)
    if operations > MOST_OPERATIONS or plan.network.depth > MOST_LAYERS:
        return
    if products + plan.flops > UNPROVED or not _has_terms(plan.network):
        return
    inputs = _drawn(plan.network)
    with np.errstate(all="ignore"):
        sizes = terms(traced, inputs)
        if sizes:
            expected, found = traced.evaluate(inputs, Floats()), plan.answers(inputs, Floats())
            _check_terms(expected, found, sizes, DIFFERENT)


def _has_terms(network: Network) -> bool:
    """Whether what a network computes are terms of its program: in another basis they cancel."""
    parts = (part for head in heads_of(network.layers) for part in head.projections)
    return network.embedding is None and all(isinstance(part, Projection) for part in parts)


def terms(traced: Traced, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """What the absolute values of all terms add up to; nothing of a program with functions."""
    try:
        return traced.evaluate({k: abs(x).view(Added) for k, x in inputs.items()}, Magnitudes())
    except NoTerms:
        return {}


def _check_terms(
    expected: Mapping[str, Array],
    found: Mapping[str, Array],
    sizes: Mapping[str, Array],
    what: str,
) -> None:
    """Refuse answers that are further off than rounding takes them, and say what that means."""
    for name, size in sizes.items():
        off = np.abs(expected[name] - found[name])
        if np.any(off > ROUNDED * size + SMALLEST):  # not where it overflows
            where = np.unravel_index(np.nanargmax(off / size), off.shape)
            raise VerificationError(
                f"{what} entry {tuple(map(int, where))} of the answer {name!r} is "
                f"{found[name][where]:.17g}, and {expected[name][where]:.17g} by the program. That "
                "is a fault of inweave: please report it with the program; another optimize= may "
                "not have it"
            )


def stream_difference(plan: Plan, run: Run) -> float | None:
    """The same between `net(...)` and a network that is run as one.

    None if it has no inputs or answers, if running it takes long, or if an answer is no number in
    either; infinite if it is none in what runs as one.
    """
    network = plan.network
    if not (network.inputs and network.outputs):
        return None
    rounds = executed(network) / max(len(network.layers), 1)
    if network.depth > MOST_LAYERS or written(network) * rounds > MOST_NUMBERS:
        return None
    inputs = _drawn(network)
    given = {x.name: inputs[x.name].reshape(x.shape) for x in network.inputs}
    with np.errstate(all="ignore"):
        expected, found = plan.answers(inputs, Floats()), by_name(run(given))
        finite = all(np.isfinite(x).all() for x in expected.values())
        lost = not all(np.isfinite(x).all() for x in found.values())
        return math.inf if finite and lost else _difference(expected, found)


def densely(network: Network, dtype: str) -> Run:
    """A network run as one, by its definition."""

    def run(inputs: Mapping[str, Array]) -> Any:
        H = network.prompt(**{name: x.astype(dtype) for name, x in inputs.items()})
        return network.readout(forward(network, H))

    return run


def _drawn(network: Network) -> dict[str, Array]:
    """Random inputs (rows, cols) by name; products of them do not grow with their sizes."""
    rng = np.random.default_rng(0)
    inputs = {}
    for spec in network.inputs:
        value = rng.uniform(-1, 1, size=(spec.rows, spec.cols)) / max(spec.rows, spec.cols)
        inputs[spec.name] = np.abs(value) if spec.sign != "any" else value
    return inputs


def _difference(expected: Mapping[str, Array], found: Mapping[str, Array]) -> float | None:
    """The largest difference of answers, relative to the largest entry of each."""
    worst = 0.0
    for name, value in expected.items():
        scale = float(np.max(np.abs(value), initial=0.0))
        gap = float(np.max(np.abs(value - np.reshape(found[name], value.shape)), initial=0.0))
        if not np.isfinite(scale) or not np.isfinite(gap):
            return None
        worst = max(worst, gap / scale if scale else gap)
    return worst


class NoTerms(Exception):
    """A function of a sum has no terms of its own."""


class Added(np.ndarray[Any, Any]):
    """Numbers that are added where others are taken away."""

    __sub__ = __rsub__ = np.ndarray.__add__  # type: ignore[assignment]


class Magnitudes(Floats):
    """Floats in which every coefficient and constant has its absolute value: nothing cancels."""

    def number(self, value: Fraction) -> Any:
        return abs(super().number(value))

    def zeros(self, shape: Sequence[int]) -> Array:
        return super().zeros(shape).view(Added)

    def array(self, entries: np.ndarray[Any, Any]) -> Array:
        return abs(super().array(entries)).view(Added)

    def concat(self, arrays: Sequence[Array], axis: int) -> Array:
        return super().concat(arrays, axis).view(Added)

    def pointwise(self, function: Any, x: Array) -> Array:
        raise NoTerms


class Watched(Floats):
    """Floats in which a function refuses what lies outside its domain."""

    def pointwise(self, function: Any, x: Array) -> Array:
        guard(function, x, self.xp)
        return super().pointwise(function, x)
