"""Mutation check: `python -m tests.mutate` changes everything that networks are made of, in turn.

Numbers, offsets, flags, tables of functions, inputs and answers with their kinds and signs. A
mutant that changes the function must be refused by verification. Whether it does is decided
independently: by the dense executor, on inputs over exact rationals, against the network that was
compiled. Mutants that even differ on some random input but pass verification have survived; there
must be none. Those that never differ are equivalent (a coefficient that meets only zeros, say).
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.errors import InweaveError, VerificationError
from inweave.exact.arithmetic import Rationals
from inweave.exact.constants import Dense, Ones, Shift
from inweave.model.dense import forward
from inweave.model.layers import Head
from inweave.model.modules import Module
from inweave.model.projection import Piece
from inweave.model.prompt import Fill, Input, Output, Place, fill_prompt, of_kind
from inweave.model.relunet import Function, ReluNet
from inweave.network import Network
from tests.cases import CASES
from tests.fuzz import rational_inputs

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
Path = tuple[Any, ...]  # field names and indices, from the network down


def networks() -> Iterator[tuple[str, Network]]:
    cases = {case.name: case for case in CASES}
    for name, target, mode in CHOSEN:
        case = cases[name]
        sizes = {k: 2 if k in ("steps", "inner") else v for k, v in case.sizes.items()}
        net = inweave.compile(case.program, target=target, optimize=mode, **sizes)
        yield f"{name}, {target}, {mode}", net
    for program, sizes in FUNCTIONS:
        yield f"{program.name}, elsa, faithful", inweave.compile(program, **sizes)


# -- where a network can be changed, and how -------------------------------------------------------
@dataclass(frozen=True)
class Mutant:
    path: Path
    value: Any
    text: str


def mutants(network: Network) -> Iterator[Mutant]:
    """Every single change: numbers, offsets, sources, flags, kinds, names, tables."""
    for part in ("modules", "fills", "inputs", "outputs"):
        held = getattr(network, part)
        for path, node in walk(held, (part,)):
            yield from changes(network, path, node)
        for i in range(len(held)):
            yield Mutant((part,), held[:i] + held[i + 1 :], f"Network.{part}: without {i}")
            if i:
                swapped = (*held[: i - 1], held[i], held[i - 1], *held[i + 1 :])
                yield Mutant((part,), swapped, f"Network.{part}: {i} before {i - 1}")


def walk(node: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Every dataclass below a node, with the way to it."""
    if isinstance(node, tuple):
        for i, inner in enumerate(node):
            yield from walk(inner, (*path, i))
    elif is_dataclass(node):
        yield path, node
        for f in fields(node):
            if f.name != "carries":  # says how to verify, not what to compute
                yield from walk(getattr(node, f.name), (*path, f.name))


def changes(network: Network, path: Path, node: Any) -> Iterator[Mutant]:
    """The changes of one dataclass."""

    def one(name: str, value: Any) -> Mutant:
        old = getattr(node, name)
        return Mutant((*path, name), value, f"{type(node).__name__}.{name}: {old!r} to {value!r}")

    if isinstance(node, (Piece, Fill)):
        for value in (node.coefficient + 1, -node.coefficient, Fraction(0)):
            yield one("coefficient", value)
    if isinstance(node, Piece):
        for step in (-1, 1):
            yield one("at", node.at + step)
        for block in network.layout:
            if block.name != node.block:
                yield one("block", block.name)
        yield one("block", None)
        if isinstance(node.matrix, Dense):
            for i, j in np.ndindex(*node.matrix.shape):
                array = np.array(node.matrix.array)
                array[i, j] += 1
                yield one("matrix", Dense(array))
        elif isinstance(node.matrix, Ones):
            yield one("matrix", Shift(*node.matrix.shape, 0, 0, min(node.matrix.shape)))
    if isinstance(node, Shift):
        for name in ("row", "col", "size"):
            for step in (-1, 1):
                yield one(name, getattr(node, name) + step)
    if isinstance(node, Place):
        for name in ("row", "col", "diagonal"):
            for step in (-1, 1):
                yield one(name, getattr(node, name) + step)
        yield one("transpose", not node.transpose)
        for block in network.layout:
            if block.name != node.block:
                yield one("block", block.name)
    if isinstance(node, Fill) and node.source is not None:
        for spec in network.inputs:
            if spec.name != node.source:
                yield one("source", spec.name)
    if isinstance(node, (Input, Output)):
        yield one("name", node.name + "_")
        for kind in ("scalar", "vector", "matrix"):
            if kind != node.kind:
                yield one("kind", kind)
    if isinstance(node, Input):
        for sign in ("nonnegative", "positive"):
            yield one("sign", sign)
        for name in ("rows", "cols"):
            yield one(name, getattr(node, name) + 1)
    if isinstance(node, Place):
        for name in ("rows", "cols"):
            for step in (-1, 1):
                yield one(name, getattr(node, name) + step)
    if isinstance(node, Fill):
        for spec in network.inputs:
            yield one("scale", (*node.scale, (spec.name, Fraction(1))))
    if isinstance(node, ReluNet):
        yield one("constant", node.constant + 0.25)
        for name in ("weights", "biases", "outputs"):
            numbers = getattr(node, name)
            for k in range(len(numbers)):
                for number in (numbers[k] + 1.0, -numbers[k], 0.0):
                    yield one(name, (*numbers[:k], number, *numbers[k + 1 :]))
    if isinstance(node, Function):
        yield one("net", ReluNet((1.0,), (0.0,), (0.0,), 0.0))
        yield one("is_reciprocal", not node.is_reciprocal)
        if node.domain is not None:
            yield one("domain", (node.domain[0] / 2, node.domain[1] * 2))
    if isinstance(node, Module):
        for step in (-1, 1):
            yield one("repeat", node.repeat + step)
    if isinstance(node, Head):
        yield one("query", node.value)
        yield one("key", node.query)
    if hasattr(node, "skip"):
        yield one("skip", not node.skip)


def apply(node: Any, path: Path, value: Any) -> Any:
    """A copy of a node with the value at a path replaced."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(node, tuple):
        return (*node[:step], apply(node[step], rest, value), *node[step + 1 :])
    return replace(node, **{step: apply(getattr(node, step), rest, value)})


# -- judging ---------------------------------------------------------------------------------------
class Judge:
    """Knows a network's answers on some inputs over the rationals.

    Without functions they must be the program's; a function's table is only near the function.
    """

    def __init__(self, network: Network, points: int = 3) -> None:
        self.arithmetic = Rationals()
        self.inputs = [rational_inputs(network, key) for key in range(points)]
        if not network.is_polynomial:  # where every table of these networks has its domain
            self.inputs = [{k: abs(x) + Fraction(1, 2) for k, x in drawn.items()}
                           for drawn in self.inputs]  # fmt: skip
        self.expected = [self._answers(network, inputs) for inputs in self.inputs]
        assert network.origin is not None
        if network.is_polynomial:
            for inputs, expected in zip(self.inputs, self.expected, strict=True):
                wanted = network.origin.traced.evaluate(inputs, self.arithmetic)
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


def built(network: Network, mutant: Mutant) -> Network | None:
    """The changed network; None if a network refuses to be so."""
    try:
        changed: Network = apply(network, mutant.path, mutant.value)
    except InweaveError:
        return None
    return changed


def judge(changed: Network, known: Judge) -> str:
    """'killed', 'equivalent', or 'survived'."""
    try:
        changed.verify(trials=1, seed=1)
    except VerificationError:
        return "killed"
    return "equivalent" if known.same(changed) else "survived"


def check(network: Network, most: int, seed: int = 0) -> tuple[Counter[str], list[str]]:
    """Judge up to `most` mutants of a network; the counts, and the survivors."""
    everything, known = list(mutants(network)), Judge(network)
    counts: Counter[str] = Counter()
    survivors = []
    for i in np.random.default_rng(seed).permutation(len(everything)):
        if sum(counts[word] for word in ("killed", "survived", "equivalent")) == most:
            break
        mutant, changed = everything[i], built(network, everything[i])
        found = "invalid" if changed is None else judge(changed, known)
        counts[found] += 1
        if found == "survived":
            survivors.append(f"{mutant.path}: {mutant.text}")
    return counts, survivors


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=500, help="mutants of each network")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print(f"{'network':34} {'killed':>8} {'survived':>9} {'equivalent':>11} {'invalid':>8}")
    total: Counter[str] = Counter()
    for name, network in networks():
        counts, survivors = check(network, args.most, args.seed)
        total += counts
        row = [counts[word] for word in ("killed", "survived", "equivalent", "invalid")]
        print("{:34} {:8} {:9} {:11} {:8}".format(name, *row))
        for text in survivors[:10]:
            print(f"  survived: {text}")
    row = [total[word] for word in ("killed", "survived", "equivalent", "invalid")]
    print("{:34} {:8} {:9} {:11} {:8}".format("all", *row))
    return 1 if total["survived"] else 0


if __name__ == "__main__":
    sys.exit(main())
