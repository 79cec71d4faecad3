"""Loops whose matrix is fixed: its power is computed once, before any call or before loops around.

k steps of `x ← A x + c` are `A^k x + (I + A + ... + A^(k-1)) c`. Where A is made of constants only,
both matrices are, and what is left of a call is a product or two; and where no loop around changes
A, that is left of each of its steps. Here, too, powers of a matrix that is not symmetric may be
large on the way to a small one, and their rounding errors then too. But all of them are there, so
it is known beforehand: squaring a power of norm v errs by v² and doubles what was there,
e ← v (2 e + v), as where powers are looked at (`trusted`), and in the end e is compared with the
norm of the last one. That is a bound, and far above the errors of most matrices that are not
normal, so where it is too high for constants, some random starts go through all steps: what a power
makes of them must be what steps make of them. In a call, where loops around hand one value after
another to a power of any matrix, it is looked at by itself, before they begin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from inweave.exact.constants import identity
from inweave.run.rules.power import StaysALoop, StepMatrix, Way, is_nothing
from inweave.run.values.graph import Graph
from inweave.run.values.kinds import ONE
from inweave.run.values.node import ARITHMETIC, GROWTH, LoopBody, Node, Part, Powers, work
from inweave.run.values.terms import standing

LARGEST = 512  # rows of a matrix
EPSILON = np.finfo(np.float64).eps
ALLOWED = 1024.0  # roundings by the bound, beside the norm of a power, for every step
STARTS = 8  # that go through all steps, where those are so few
STEPS = 4096


def by_constants(
    graph: Graph, body: LoopBody, kept: Sequence[int], new: Mapping[Node, Node], way: Way
) -> list[Node] | None:
    """The last values of what is `kept` of a loop; None if its matrix is not fixed.

    `new` are the nodes of the graph for those outside of the loop.
    """
    phis = [body.phis[i] for i in kept]
    if way.any_matrix or way.price == ARITHMETIC or not phis:
        return None
    if len(graph.scopes) == 1 and not all(map(_multiplies_by_constants, body.nodes)):
        return None
    for width in dict.fromkeys(phis[0].shape[::-1]):
        if not all(width in phi.shape for phi in phis):
            continue
        mark = graph.mark()
        try:
            return _last(graph, body, StepMatrix(graph, body, kept, new, width, range(width)), way)
        except StaysALoop:
            graph.rollback(mark)
    return None


def _multiplies_by_constants(node: Node) -> bool:
    """Whether a node of a step is linear, and if it is a product, with a constant."""
    if node.op in ("matmul", "mul"):
        return any(arg.known for arg in node.args)
    return node.op in ("phi", "view", "scale", "sum")


def _last(graph: Graph, body: LoopBody, step: StepMatrix, way: Way) -> list[Node]:
    rows, width = step.rows, step.width
    matrix, added, start = step.matrix, step.added, step.start
    if matrix.known:
        entries = numbers(matrix) if rows <= LARGEST else None
        if entries is None or not keeps_digits(entries, body.repeat):
            raise StaysALoop
    elif matrix.level or not (way.looks or step.is_symmetric):
        raise StaysALoop
    mark = graph.mark()
    fixed = not (matrix.known or added.level) and width < rows
    one = graph.const(identity(rows))
    powers, totals = _powers(graph, matrix, added if fixed else one, body.repeat)
    power, total = powers[-1], totals[-1]
    looks = list[Node]()
    if not (matrix.known or step.is_symmetric):
        sums = [] if is_nothing(added) else totals
        made = Powers(rows, body.repeat, 0, False, bool(sums), len(step.kept), itself=True)
        looks = [graph.make("grown", (*powers, *sums), made, 1, 1)]
    by: dict[Node, list[Part]] = {}  # what multiplies multiples of one value is one matrix
    for by_value, value in ((power, start), *([] if fixed else [(total, added)])):
        times, core = (value.data, value.args[0]) if value.op == "scale" else (ONE, value)
        if not is_nothing(core):
            by.setdefault(core, []).append((1, graph.scale(times, by_value), 0, 0))
    multiplied = [(graph.total(rows, rows, ones), core) for core, ones in by.items()]

    def block(top: int, bottom: int) -> Node:
        def part(node: Node) -> Node:
            return graph.view(node, top, 0, bottom - top, node.cols)

        parts: list[Part] = [(1, part(total), 0, 0)] if fixed else []
        parts += [(1, graph.matmul(part(one), core), 0, 0) for one, core in multiplied]
        return graph.total(bottom - top, width, parts)

    # of constants, rows that nobody reads are nothing that is kept
    tops = step.starts if matrix.known else [0]
    last = [block(*ends) for ends in pairwise([*tops, rows])]
    loop = body.repeat * sum(way.price.of(work(node)) for node in body.nodes)
    loop *= graph.weight(len(graph.scopes) - 1)
    if graph.cost_since(mark, [*last, *looks], way.price) >= loop:
        raise StaysALoop
    state = (standing(graph, x, top, 0) for x, top in zip(last, tops, strict=True))
    return step.ends(tuple(state))


def _powers(graph: Graph, matrix: Node, first: Node, repeat: int) -> tuple[list[Node], list[Node]]:
    """A^j and F + A F + ... + A^(j-1) F for j = 1, ..., k, the leading bits of k."""
    powers, totals = [matrix], [first]

    def plus(a: Node, b: Node) -> Node:
        return graph.total(*first.shape, [(1, a, 0, 0), (1, b, 0, 0)])

    for bit in bin(repeat)[3:]:
        totals.append(plus(totals[-1], graph.matmul(powers[-1], totals[-1])))
        powers.append(graph.matmul(powers[-1], powers[-1]))
        if bit == "1":
            totals.append(plus(first, graph.matmul(matrix, totals[-1])))
            powers.append(graph.matmul(matrix, powers[-1]))
    return powers, totals


def keeps_digits(matrix: Any, repeat: int) -> bool:
    """Whether a power of a matrix, by squares, keeps the digits that so many steps keep.

    It must not be large itself, or a start that steps keep as it is would be lost: what errors of
    so many steps add up to is of the same order (`inweave.compiler.recurrence`).
    """
    one = np.eye(len(matrix))
    last, total, power, sums = one, 0 * one, matrix, one
    errors = most = np.zeros(2)
    with np.errstate(all="ignore"):
        for j in range(repeat.bit_length()):
            norms = np.array([np.abs(power).sum(axis=axis).max(initial=0.0) for axis in (1, 0)])
            most = np.where(norms > 0, errors / norms, 0.0)
            if repeat >> j & 1:
                last, total = power @ last, sums + power @ total
            errors = norms * (2 * errors + norms)
            power, sums = power @ power, sums + power @ sums
        rows = [np.abs(x).sum(axis=1).max(initial=0.0) for x in (last, total)]
    small = rows[0] <= GROWTH * repeat and 2 * rows[1] <= GROWTH * repeat**2
    return bool(small and (most.min() <= ALLOWED * repeat or _does(last, matrix, repeat)))


def _does(power: Any, matrix: Any, repeat: int) -> bool:
    """Whether a power does what steps do, but for a rounding of it in every step."""
    if repeat > STEPS:
        return False
    starts = np.random.default_rng(0).choice([-1.0, 1.0], size=(len(matrix), STARTS))
    state = starts
    for _ in range(repeat):
        state = matrix @ state
    largest = np.abs(power).sum(axis=1).max()
    return bool(np.abs(power @ starts - state).max() <= repeat * EPSILON * largest)


def numbers(node: Node) -> Any:
    """The entries of a node that is made of constants, as floats; None of other operations."""
    args = [numbers(arg) for arg in node.args]
    if any(arg is None for arg in args):
        return None
    if node.op == "const":
        return node.data.entries().astype(np.float64)
    if node.op == "scale":
        return float(node.data) * args[0]
    if node.op == "view":
        row, col, rows, cols, flip = node.data
        part = args[0][row : row + rows, col : col + cols]
        return part.T if flip else part
    if node.op == "mul":
        return args[0] * args[1]
    if node.op == "matmul":
        return args[0] @ args[1]
    if node.op == "sum":
        out = np.zeros(node.shape)
        for x, (sign, row, col) in zip(args, node.data[2], strict=True):
            out[row : row + x.shape[0], col : col + x.shape[1]] += sign * x
        return out
    return None
