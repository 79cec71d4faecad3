"""Constants folded: what multiplies a carried value in every step is one matrix, made before.

A step such as `w + b - s (G w)` is written in the terms of its network. A programmer who wants it
fast makes `A = I - s G` once and computes `A w + b`. That is a rewriting of the finished graph, for
only there it is known how often a value is used: a product that nothing else reads may be computed
in another way. The graph is built anew, node by node, with rules inside loops, each applied where
it saves more in all steps than it costs before them: with s, b, A and B fixed, `s (A x)` is
`(s A) x`, `A x + s x + B x` is `(A + s I + B) x`, `A (b + B x)` is `A b + (A B) x`, and `A x` above
`B x` is the product of x with A above B. For many prompts, `A x + B y` is that of A beside B with x
above y. A product of three is taken in the shorter order.

And a matrix of which every step reads the first row, and then moves that row to the end, is not
carried: the row is read where it stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import NamedTuple

from inweave.exact.constants import identity
from inweave.run.rules.ahead import of_rows, rows_together
from inweave.run.rules.constant import by_constants
from inweave.run.rules.multiples import as_matrix, as_number, common
from inweave.run.rules.needed import clipped, needed, operand
from inweave.run.rules.power import Way, powered
from inweave.run.rules.sandwich import sandwiched
from inweave.run.rules.still import Moves, Standing, Still, moved_on, turning
from inweave.run.values.graph import Graph
from inweave.run.values.kinds import is_near, is_outer
from inweave.run.values.node import ALONE, BATCHED, CALL, ENTRY, LoopBody, Node, Part, Work, cost
from inweave.run.values.term import Box

Nodes = Sequence[Node]


class Asked(NamedTuple):
    """What a graph is to be folded for.

    Loops whose step is affine are computed by `powers`, if a way is given and they cost less; where
    a matrix goes round, it may be computed where it `stays`; and for many prompts products of fixed
    matrices may be taken side by `side`, for there every product takes a call for each of them.
    What loops make of their rows alone may be made `ahead` of them.
    """

    powers: Way | None = None
    stays: bool = False
    side: bool = False
    ahead: bool = False


def folded(
    nodes: Nodes, outputs: Nodes, live: set[Node], asked: Asked
) -> tuple[list[Node], list[Node]]:
    """The nodes of the straight line that computes the same outputs; these, and looks at powers."""
    folding = _Folding(live, asked, needed(nodes, outputs, live))
    folding.scope(nodes)
    read: list[Node] = []
    for node in outputs:  # what a loop ends with may be what it began with
        read.append(folding.graph.apart(folding.new[node], read))
    made = folding.graph.scopes[0].nodes
    return made, read + [node for node in made if node.op == "grown" and node not in read]


class _Multiple(NamedTuple):
    """A part of a sum that is a fixed multiple of a value: a scalar (None: one) or a matrix."""

    part: Part
    by: Node | None
    of: Node


class _Folding:
    def __init__(self, live: set[Node], asked: Asked, needed: dict[Node, Box]) -> None:
        self.graph = Graph()
        self.live, self.asked = live, asked
        self.needed = needed  # of values of which not all is
        self.new: dict[Node, Node] = {}
        self.bodies: dict[LoopBody, tuple[LoopBody, int]] = {}  # the new ones, and their levels
        self.shared: set[Node] = set()  # new nodes that more than one reads
        self._readers = Counter(arg for node in live for arg in _read(node, live))
        self._counts: Counter[Node] = Counter()  # of new nodes: how often each is read
        self._sums: dict[Node, list[tuple[Node, LoopBody]]] = {}  # of which new nodes are parts

    def scope(self, nodes: Iterable[Node]) -> None:
        """Make every live node anew."""
        for node in nodes:
            if node not in self.live or node in self.new:
                continue
            if node.op == "loop":
                self._loop(node, node.data)
                continue
            made = self._made(node)
            made.label = made.label or node.label
            made.symmetric = made.symmetric or node.symmetric
            if self._readers[node] > 1 or made in self.new.values():
                self.shared.add(made)
            self.new[node] = made
            self._counts[made] += self._readers[node]
            if made.op == "sum" and all(arg.shape == made.shape for arg in made.args):
                for arg in made.args:
                    self._sums.setdefault(arg, []).append((made, self.graph.scopes[made.level]))

    def _loop(self, node: Node, old: LoopBody) -> None:
        graph = self.graph
        alive = [i for i, phi in enumerate(old.phis) if phi in self.live]
        if self.asked.powers is not None:
            by_powers = (
                made(graph, old, alive, self.new, self.asked.powers)
                for made in (by_constants, sandwiched, powered)
            )
            last = next((last for last in by_powers if last is not None), None)
            if last is not None:
                self._ended(node, dict(zip(alive, last, strict=True)))
                return
        if self.asked.stays and self._where_it_stands(node, old, alive):
            return
        body = graph.open(old.repeat)
        self.bodies[old] = body, len(graph.scopes) - 1  # loops around it may be gone
        kept = [i for i in alive if not self._rotates(node, old, i)]
        for i in set(alive) - set(kept):
            self._read_in_place(old, i)
        for i in kept:
            made = graph.phi(*old.phis[i].shape)
            made.label, made.symmetric = old.phis[i].label, old.phis[i].symmetric
            self.new[old.phis[i]] = made
        self.scope(old.nodes)
        inits, nexts = ([self.new[ends[i]] for i in kept] for ends in (old.inits, old.nexts))
        self._ended(node, dict(zip(kept, graph.close(inits, nexts), strict=True)))

    def _ended(self, node: Node, results: dict[int, Node]) -> None:
        """Know what a loop ends with."""
        for result in self.live:
            if result.op == "result" and result.args[0] is node:
                self.new[result] = results[result.data]
                self.new[result].label = self.new[result].label or result.label

    def _made(self, node: Node) -> Node:
        if node.op == "at":
            return self._at(*node.data)
        args = tuple(self.new[arg] for arg in node.args)
        if node.op == "view":
            return self.graph.view(args[0], *node.data)
        ahead = of_rows(self.graph, node, args) if self.asked.ahead and node.level else None
        if ahead is not None:
            return ahead
        if node in self.needed:
            return self._in_part(node, args, self.needed[node])
        if node.op == "sum":
            return self._sum(node, args)
        if node.op == "matmul":
            return self._multiplying(*args)
        if node.op == "scale" or (node.op == "mul" and args[0].is_scalar):
            inside = self._inside(node, args)
            if inside is not None:
                return inside
        return self.graph.make(node.op, args, node.data, *node.shape)

    def _in_part(self, node: Node, args: tuple[Node, ...], box: Box) -> Node:
        """A value of which only a box is needed: zeros around that, which nothing reads."""

        def part(x: Node, of: Box) -> Node:
            return self.graph.view(x, of.top, of.left, of.rows, of.cols)

        if node.op == "sum":
            parts = [
                (sign, part(new, met), row + met.top - box.top, col + met.left - box.left)
                for old, new, (sign, row, col) in zip(node.args, args, node.data[2], strict=True)
                if (met := clipped(old, row, col, box)) is not None
            ]
            made = self.graph.total(box.rows, box.cols, parts)
        elif node.op == "matmul":
            a, b = args
            made = self._multiplying(
                self.graph.view(a, box.top, 0, box.rows, a.cols),
                self.graph.view(b, 0, box.left, b.rows, box.cols),
            )
        elif node.op == "scale":
            made = self.graph.scale(node.data, part(args[0], box))
        else:
            made = self.graph.entrywise(*(part(x, operand(x, node, box)) for x in args))
        if self._readers[node] > 1:
            self.shared.add(made)
        return self.graph.total(*node.shape, [(1, made, box.top, box.left)])

    def _at(self, old: LoopBody, backward: bool, height: int = 1) -> Node:
        """Where a loop is."""
        body, level = self.bodies[old]
        return self.graph.at(body, backward, height, level)

    # -- rows that go round -----------------------------------------------------------------------
    def _rotates(self, loop: Node, body: LoopBody, i: int) -> bool:
        """Whether a carried matrix only hands its rows, or columns, to the steps, one to each."""
        phi, after = body.phis[i], body.nexts[i]
        results = (x for x in self.live if x.op == "result" and x.args[0] is loop and x.data == i)
        if after.op != "sum" or self._readers[after] > 1 or next(results, None) is not None:
            return False
        axis = _round_by(phi, after)
        if axis is None or body.repeat > phi.shape[axis]:
            return False
        readers = [x for x in body.nodes if x in self.live and phi in x.args]
        others = [x for x in readers if x not in after.args or self._readers[x] > 1]
        first = (0, 1)  # where it begins and how long it is
        return all(x.op == "view" and (x.data[axis], x.data[2 + axis]) == first for x in others)

    def _read_in_place(self, body: LoopBody, i: int) -> None:
        """The first row of what goes round, in every step."""
        graph, phi, start = self.graph, body.phis[i], self.new[body.inits[i]]
        across = _round_by(phi, body.nexts[i]) == 1
        row = graph.pick(graph.flip(start) if across else start, self._at(body, False))
        self.new[phi] = self.new[body.nexts[i]] = row
        for node in body.nodes:
            if node in self.live and node.op == "view" and node.args == (phi,):
                top, left, rows, cols, flip = node.data
                part = (0, top, 1, rows) if across else (0, left, 1, cols)
                is_first = (cols if across else rows) == 1
                self.new[node] = graph.view(row, *part, flip != across) if is_first else row

    # -- matrices that go round -------------------------------------------------------------------
    def _where_it_stands(self, node: Node, old: LoopBody, alive: list[int]) -> bool:
        """Make a loop whose carried matrix goes round as one in which it stays, if that is one."""
        turned = turning(old, alive)
        if turned is None:
            return False
        base, *turns = turned
        graph, (i,) = self.graph, alive
        mark, phi, start = graph.mark(), old.phis[i], self.new[old.inits[i]]
        body = graph.open(old.repeat)
        made = graph.phi(*phi.shape)
        made.label = phi.label
        at = graph.at(body, False, 1, len(graph.scopes) - 1)
        standing = Standing(graph, at, self.new)
        standing.known[phi] = Still(made, *turns)
        needed = [x for x in old.nodes if x in self.live and x.op not in ("phi", "const")]
        try:
            if base not in needed:  # it stands outside, and does not move with the loop
                raise Moves
            standing.follow(needed[: needed.index(base) + 1])
            if standing.of(base)[1:] != tuple(turns):
                raise Moves
        except Moves:
            graph.abandon(mark)
            return False
        (last,) = graph.close([start], [standing.of(base).node])
        self._ended(node, {i: moved_on(graph, last, (turns[0], turns[1]), old.repeat)})
        return True

    # -- A (b + B x) ------------------------------------------------------------------------------
    def _multiplying(self, a: Node, b: Node) -> Node:
        """A product with a sum or a product, its fixed factors multiplied before if that pays."""
        graph, shape = self.graph, (a.rows, b.cols)
        shorter = self._reordered(a, b)
        if shorter is not None:
            return shorter
        direct = graph.make("matmul", (a, b), None, *shape)
        if a.level >= b.level or b in self.shared:
            return direct
        parts = [(1, b)]
        if b.op == "sum":
            parts = [(sign, arg) for arg, (sign, _, _) in zip(b.args, b.data[2], strict=True)]
        varying = [x for _, x in parts if x.level == b.level]
        apart = all(
            x.op == "matmul" and x not in self.shared and x.args[0].level < b.level for x in varying
        )
        if not apart or any(x.shape != b.shape for _, x in parts):
            return direct
        each = [direct, *varying, *([b] if b.op == "sum" else [])]
        mark = graph.mark()
        products = [
            (sign, graph.matmul(a, x) if x.level < b.level
             else graph.matmul(graph.matmul(a, x.args[0]), x.args[1]), 0, 0)
            for sign, x in parts
        ]  # fmt: skip
        spread = graph.total(*shape, products)
        if graph.cost_since(mark, [spread]) < sum(map(cost, each)) * graph.weight(b.level):
            return spread
        graph.rollback(mark)
        return direct

    # -- (A B) x ----------------------------------------------------------------------------------
    def _reordered(self, a: Node, b: Node) -> Node | None:
        """A product with a product that nothing else reads, in the other order if that is shorter.

        A network multiplies layer by layer: `Aᵀ B` in one, and a vector by it in the next.
        """
        left, right, graph = self._factors(a), self._factors(b), self.graph
        if left is not None and a.level >= b.level:
            first, second = left
            if second.size * b.cols + first.size * b.cols < a.size * (second.rows + b.cols):
                return graph.matmul(first, graph.matmul(second, b))
        if right is not None and b.level >= a.level:
            first, second = right
            if a.rows * (first.size + second.size) < b.size * (second.rows + a.rows):
                return graph.matmul(graph.matmul(a, first), second)
        return None

    def _factors(self, x: Node) -> tuple[Node, Node] | None:
        """The two factors of a product of matrices; of a transposed one, turned round."""
        flip = x.flipped and x.args[0].shape == x.shape[::-1]
        product = x.args[0] if flip else x
        if product.op != "matmul" or self.shared & {x, product} or 1 in product.shape:
            return None
        a, b = product.args
        return (self.graph.flip(b), self.graph.flip(a)) if flip else (a, b)

    # -- s (A x) ----------------------------------------------------------------------------------
    def _inside(self, node: Node, args: tuple[Node, ...]) -> Node | None:
        """A multiple of a product, the fixed factor multiplied."""
        product = args[-1]
        level = args[0].level if node.op == "mul" else 0
        if product.op == "sum":
            return self._inside_sum(node, args, level)
        if product.op != "matmul" or product in self.shared:
            return None
        for i, factor in enumerate(product.args):
            if max(factor.level, level) < product.level and self._pays(node, factor):
                a, b = product.args
                multiple = self._times(node, args, factor)
                return self.graph.matmul(multiple, b) if i == 0 else self.graph.matmul(a, multiple)
        return None

    def _inside_sum(self, node: Node, args: tuple[Node, ...], level: int) -> Node | None:
        """A multiple of `A x + b`, A and b multiplied."""
        whole = args[-1]
        if whole in self.shared or level >= whole.level:
            return None
        parts = list[Part]()
        for x, (sign, row, col) in zip(whole.args, whole.data[2], strict=True):
            if x.level < whole.level:
                parts.append((sign, self._times(node, args, x), row, col))
                continue
            product = self._fixed_times(x)
            if product is None or not self._pays(node, product[0]):
                return None
            by, of = product
            parts.append((sign, self.graph.matmul(self._times(node, args, by), of), row, col))
        return self.graph.total(*whole.shape, parts)

    def _times(self, node: Node, args: tuple[Node, ...], x: Node) -> Node:
        return self.graph.mul(args[0], x) if node.op == "mul" else self.graph.scale(node.data, x)

    def _pays(self, each: Node, once: Node) -> bool:
        """Whether an operation on a value before a loop is cheaper than one in every step."""
        work = [(CALL + 2 * ENTRY * x.size) * self.graph.weight(x.level) for x in (each, once)]
        return work[1] < work[0]

    # -- A x + s x + B x, s x + s y ---------------------------------------------------------------
    def _sum(self, node: Node, args: tuple[Node, ...]) -> Node:
        """A sum, its multiples of one value as one; what stands transposed is looked at upright."""
        rows, cols, where = node.data
        args = tuple(map(self._upright, args))
        parts = [(sign, arg, row, col) for arg, (sign, row, col) in zip(args, where, strict=True)]
        parts = fewer = self._flat(parts)
        if self.asked.ahead and node.level:
            fewer = rows_together(self.graph, rows, cols, parts)
        fewer = self._stacked(rows, cols, self._with_sums(fewer))
        fewer = self._gathered(self._factored(rows, cols, fewer))
        fewer = self._side_by_side(self._as_multiples(fewer))
        if fewer != parts:
            return self.graph.total(rows, cols, fewer)
        upright = [(sign, self.graph.flip(arg), col, row) for sign, arg, row, col in parts]
        fewer = self._gathered(self._stacked(cols, rows, upright))
        fewer = self._side_by_side(self._as_multiples(fewer))
        if fewer != upright:
            return self.graph.flip(self.graph.total(cols, rows, fewer))
        return self.graph.make("sum", args, node.data, rows, cols)

    def _upright(self, x: Node) -> Node:
        """A column times a row that nothing else reads, the way round in which it is added."""
        if not x.flipped or not is_outer(x.args[0]) or x.size < x.args[0].size:
            return x
        if self.shared & {x, x.args[0]}:
            return x
        column, row = map(self.graph.flip, x.args[0].args)
        return self.graph.make("mul", (row, column), None, *x.shape)

    def _flat(self, parts: list[Part]) -> list[Part]:
        """The same parts, those of sums that nothing else reads in their place."""
        out = list[Part]()
        for sign, node, row, col in parts:
            flip = node.flipped and node.args[0].shape == node.shape[::-1]
            whole = node.args[0] if flip else node
            if whole.op != "sum" or self.shared & {node, whole}:
                out.append((sign, node, row, col))
                continue
            own = [(s, x, r, c) for x, (s, r, c) in zip(whole.args, whole.data[2], strict=True)]
            if flip:
                own = [(s, self.graph.flip(x), c, r) for s, x, r, c in own]
            out += self._flat([(sign * s, x, row + r, col + c) for s, x, r, c in own])
        return out

    def _stacked(self, rows: int, cols: int, parts: list[Part]) -> list[Part]:
        """The same parts, products of fixed matrices with one value, one above the other, as one.

        So it is where a column of ones stands beside the data: its row of a Gram matrix is apart.
        """
        groups: dict[Node, list[tuple[Part, Node]]] = {}
        for part in parts:
            product = self._fixed_times(part[1])
            if product is not None and part[1].cols == cols and part[1].rows < rows:
                by, of = product
                groups.setdefault(of, []).append((part, by))
        for x, group in groups.items():
            tops = sorted((row, row + node.rows) for (_, node, row, _), _ in group)
            apart = all(stop == start for (_, stop), (start, _) in pairwise(tops))
            if len(group) < 2 or not apart or (tops[0][0], tops[-1][1]) != (0, rows):
                continue
            each = [(sign, by, row, 0) for (sign, _, row, _), by in group]
            matrix = self.graph.total(rows, x.rows, each)
            if self._counts[x] == len(group):
                self.shared.discard(x)
            one = self._multiplying(matrix, x)
            gone = [part for part, _ in group]
            return [*(part for part in parts if part not in gone), *self._flat([(1, one, 0, 0)])]
        return parts

    def _with_sums(self, parts: list[Part]) -> list[Part]:
        """The same parts, `A x + B x` as the product of x with `A + B` where that is there anyway.

        A network that updates a memory and reads it in one layer reads the parts of the update.
        """
        for part in parts:
            sign, product, row, col = part
            if product.op != "matmul" or product in self.shared:
                continue
            matrix, x = product.args
            flip = matrix.flipped and matrix.args[0].shape == matrix.shape[::-1]
            base = matrix.args[0] if flip else matrix
            for whole, scope in self._sums.get(base, ()):
                if scope not in self.graph.scopes:  # of a loop that has ended
                    continue
                signs = {y: s for y, (s, _, _) in zip(whole.args, whole.data[2], strict=True)}
                sign_of_all = sign * signs[base]
                mark = self.graph.mark()
                each = [(sign_of_all * s, self._times_some(y, flip, x), row, col)
                        for y, s in signs.items()]  # fmt: skip
                if len(each) == len(whole.args) and all(parts.count(one) == 1 for one in each):
                    one = self.graph.matmul(self.graph.flip(whole) if flip else whole, x)
                    rest = [other for other in parts if other not in each]
                    return self._with_sums([*rest, (sign_of_all, one, row, col)])
                self.graph.rollback(mark)
        return parts

    def _times_some(self, y: Node, flip: bool, x: Node) -> Node:
        """`y x`, or `yᵀ x`; a column times a row multiplies as these two."""
        graph = self.graph
        if is_outer(y):
            column, line = map(graph.flip, y.args[::-1]) if flip else y.args
            return graph.matmul(column, graph.matmul(line, x))
        return graph.matmul(graph.flip(y) if flip else y, x)

    def _fixed_times(self, node: Node) -> tuple[Node, Node] | None:
        """A product that nothing else reads, as its fixed factor from the left and the other."""
        if node.op != "matmul" or self._counts[node] > 1:
            return None
        a, b = node.args
        if a.level < b.level:
            return a, b
        if node.is_scalar and b.level < a.level:
            return self.graph.flip(b), self.graph.flip(a)
        return None

    def _factored(self, rows: int, cols: int, parts: list[Part]) -> list[Part]:
        """The same parts, those that a step multiplies by the same number summed before."""
        level = max(node.level for _, node, _, _ in parts)
        groups: dict[Node | Fraction, list[tuple[Part, Part]]] = {}
        for part in parts:
            sign, node, row, col = part
            x = self.graph.flip(node) if node.flipped else node
            if x.op == "scale" and x not in self.shared and level == x.level > 0:
                inner = self.graph.flip(x.args[0]) if node.flipped else x.args[0]
                if node.size == rows * cols:
                    groups.setdefault(x.data, []).append((part, (sign, inner, row, col)))
                continue
            if x.op != "mul" or not x.args[0].is_scalar or x in self.shared or not level:
                continue
            number, times = _core(x.args[0])
            if x.args[0].level == level and number.level == level and node.size == rows * cols:
                inner = self._multiplied(times, x.args[1])
                inner = self.graph.flip(inner) if node.flipped else inner
                groups.setdefault(number, []).append((part, (sign, inner, row, col)))
        for factor, group in groups.items():
            if len(group) > 1:
                gone = [part for part, _ in group]
                inside = self._gathered([inner for _, inner in group])
                total = self.graph.total(rows, cols, inside)
                if isinstance(factor, Fraction):
                    one = self.graph.scale(factor, total)
                else:
                    one = self.graph.entrywise(factor, total)
                parts = [*(part for part in parts if part not in gone), (1, one, 0, 0)]
        return parts

    def _multiplied(self, times: Sequence[Node | Fraction], x: Node) -> Node:
        """A value times what is fixed, a product by its fixed factor."""
        if times and x.op == "matmul" and x not in self.shared and x.args[0].level < x.level:
            return self.graph.matmul(self._multiplied(times, x.args[0]), x.args[1])
        for number in times:
            if isinstance(number, Node):
                x = self.graph.mul(number, x)
            else:
                x = self.graph.scale(number, x)
        return x

    def _gathered(self, parts: list[Part]) -> list[Part]:
        """The same parts, those that are fixed multiples of one value in one place as one."""
        groups: dict[tuple[Node, int, int], list[_Multiple]] = {}
        largest = max((node.size for _, node, _, _ in parts), default=0)
        for part in parts:
            if part[1].size == largest:
                multiple = self._multiple(part)
                groups.setdefault((multiple.of, *part[2:]), []).append(multiple)
        for (x, row, col), group in groups.items():
            matrices = [m.by for m in group if m.by is not None and not m.by.is_scalar]
            fit = all(matrix.shape == (x.rows, x.rows) for matrix in matrices)
            if len(group) > 1 and matrices and fit and self._gathers(x, matrices):
                one = self.graph.matmul(self._summed(group, x.rows), x)
                gone = [multiple.part for multiple in group]
                parts = [*(part for part in parts if part not in gone), (1, one, row, col)]
        return parts

    def _products(self, parts: list[Part]) -> list[list[tuple[Part, Node, Node]]]:
        """Parts in one place that are products of fixed matrices, with both factors."""
        groups: dict[tuple[int, int, int, int], list[tuple[Part, Node, Node]]] = {}
        for part in parts:
            product = self._fixed_times(part[1])
            if product is not None and min(product[0].shape) > 1:
                groups.setdefault((*part[1].shape, *part[2:]), []).append((part, *product))
        return [group for group in groups.values() if len(group) > 1]

    def _as_multiples(self, parts: list[Part]) -> list[Part]:
        """The same parts, `s A x + t A y` in one place as the product of A with `s x + t y`."""
        price = BATCHED if self.asked.side else ALONE
        for group in self._products(parts):
            xs = [x for _, _, x in group]
            spared = sum(cost(part[1], price) for part, _, _ in group[1:])
            if spared < sum(price.of(Work(1, 2 * x.size, 0)) for x in xs):
                continue
            found = common([by for _, by, _ in group])
            if found is None:
                continue
            signs = [part[0] for part, _, _ in group]
            numbers = [as_number(self.graph, p) for p in found[1]]
            each = [
                (sign, self.graph.mul(number, x), 0, 0)
                for sign, number, x in zip(signs, numbers, xs, strict=True)
            ]
            summed = self.graph.total(*xs[0].shape, each)
            one = self.graph.matmul(as_matrix(self.graph, found[0]), summed)
            parts = _replaced(parts, group, one)
        return parts

    def _side_by_side(self, parts: list[Part]) -> list[Part]:
        """The same parts, `A x + B y` in one place as the product of A beside B and x above y."""
        for group in self._products(parts) if self.asked.side else []:
            (part, _, _), *_ = group
            starts = [*accumulate((x.rows for _, _, x in group), initial=0)]
            left = [(part[0], by, 0, at) for at, (part, by, _) in zip(starts, group, strict=False)]
            right = [(1, x, at, 0) for at, (_, _, x) in zip(starts, group, strict=False)]
            one = self.graph.matmul(
                self.graph.total(part[1].rows, starts[-1], left),
                self.graph.total(starts[-1], part[1].cols, right),
            )
            parts = _replaced(parts, group, one)
        return parts

    def _gathers(self, x: Node, matrices: Sequence[Node]) -> bool:
        """Whether `(A + B) x` is cheaper than `A x + B x`: summed before a loop, or one product."""
        if matrices[0].level == x.level:
            return len(matrices) > 1 and x.rows <= x.cols
        return self._pays(x, matrices[0])

    def _multiple(self, part: Part) -> _Multiple:
        numbers, node = self._numbers(part[1])
        if (
            node.op == "matmul"
            and node not in self.shared
            and (node.level == 0 or node.args[0].level < node.args[1].level)
        ):
            by, of = node.args
            return _Multiple(part, self._multiplied(numbers, by), of)
        if not numbers:
            return _Multiple(part, None, node)
        one = self.graph.const(identity(1))
        return _Multiple(part, self._multiplied(numbers, one), node)

    def _numbers(self, node: Node) -> tuple[list[Node | Fraction], Node]:
        """A value as fixed numbers times another."""
        if node.flipped and node.args[0].shape == node.shape[::-1]:
            numbers, of = self._numbers(node.args[0])
            return (numbers, self.graph.flip(of)) if numbers else ([], node)
        if node not in self.shared:
            if node.op == "scale" and is_near(node.data):
                numbers, of = self._numbers(node.args[0])
                return [*numbers, node.data], of
            if node.op == "mul" and node.args[0].is_scalar and node.args[0].level < node.level:
                numbers, of = self._numbers(node.args[1])
                return [*numbers, node.args[0]], of
        return [], node

    def _summed(self, group: list[_Multiple], size: int) -> Node:
        """The matrix that multiplies a value in all: multiples of the identity are one number."""
        graph, one = self.graph, self.graph.const(identity(size))
        terms = [(sign, one if by is None else by) for (sign, *_), by, _ in group]
        parts, numbers = list[Part](), list[Part]()
        while terms:
            sign, by = terms.pop(0)
            if by.op == "sum" and all(arg.shape == by.shape for arg in by.args):
                own = zip(by.args, by.data[2], strict=True)
                terms += [(sign * inner, arg) for arg, (inner, _, _) in own]
            elif by.is_scalar:
                numbers.append((sign, by, 0, 0))
            elif by is one or (by.op == "mul" and by.args[1] is one and by.args[0].is_scalar):
                number = graph.const(identity(1)) if by is one else by.args[0]
                numbers.append((sign, number, 0, 0))
            else:
                parts.append((sign, by, 0, 0))
        if numbers:
            parts.append((1, graph.mul(graph.total(1, 1, numbers), one), 0, 0))
        return graph.total(size, size, parts)


def _replaced(parts: list[Part], group: Sequence[tuple[Part, Node, Node]], one: Node) -> list[Part]:
    """The same parts, one in the place of several that stand together."""
    gone = [part for part, _, _ in group]
    return [*(part for part in parts if part not in gone), (1, one, *gone[0][2:])]


def _round_by(phi: Node, after: Node) -> int | None:
    """The axis along which a value is moved by one, its first row or column to the end."""
    rows, cols = phi.shape
    moved = {
        (part.data, at)
        for part, at in zip(after.args, after.data[2], strict=True)
        if part.op == "view" and part.args == (phi,)
    }
    ways = (
        {((1, 0, rows - 1, cols, False), (1, 0, 0)), ((0, 0, 1, cols, False), (1, rows - 1, 0))},
        {((0, 1, rows, cols - 1, False), (1, 0, 0)), ((0, 0, rows, 1, False), (1, 0, cols - 1))},
    )
    if len(after.args) != 2 or moved not in ways:
        return None
    return ways.index(moved)


def _core(number: Node) -> tuple[Node, list[Node | Fraction]]:
    """A number as one that a step changes times others that it does not."""
    if number.op == "scale" and is_near(number.data):
        core, times = _core(number.args[0])
        return core, [*times, number.data]
    if number.op == "mul":
        fixed, varying = sorted(number.args, key=lambda x: x.level)
        if fixed.level < varying.level:
            core, times = _core(varying)
            return core, [*times, fixed]
    return number, []


def _read(node: Node, live: set[Node]) -> list[Node]:
    """What a node reads; a loop also what it carries."""
    if node.op != "loop":
        return [] if node.op == "result" else list(node.args)
    body: LoopBody = node.data
    kept = [i for i, phi in enumerate(body.phis) if phi in live]
    return [ends[i] for i in kept for ends in (body.inits, body.nexts)]
