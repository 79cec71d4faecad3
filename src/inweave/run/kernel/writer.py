"""What both shapes of a kernel write alike: entries, formulas, loops, sums over streams.

An entry of a value is an expression of its row and column. Views, constants, unit vectors and
rotations are nothing but other indices, so they cost no instruction. What is held in registers is
an array whose indices are all known once the loops over it are unrolled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from inweave.exact.constants import Ones, Shift
from inweave.run.kernel.functions import Functions
from inweave.run.kernel.indices import ZERO, Index, between, on_shift, plus, through, times
from inweave.run.kernel.text import Lines, Numbers, Refused
from inweave.run.kernel.values import Values
from inweave.run.lines.code import needs
from inweave.run.values.node import PRODUCTS, LoopBody, Node

KEPT = ("scale", "mul", "sum", "apply", "pointwise", "diagonal", "pick", *PRODUCTS)
"""The operations whose results are held."""


class Writer:
    """A kernel under construction, for one plan."""

    def __init__(self, values: Values, name: str, numbers: Numbers, check: bool) -> None:
        self.values, self.name, self.numbers, self.check = values, name, numbers, check
        self.functions = Functions(name, numbers, check)
        self.out = Lines()
        self.sources = [node for node in values.every() if node.op == "source"]
        self.counters: dict[LoopBody, tuple[str, int]] = {}
        self.rows: dict[tuple[Node, int, str], str] = {}
        self.done: set[Node] = set()
        self.direct = self._written_directly()
        self.begun: dict[Node, Node] = {}  # sums that begin a product, and go on with it

    # -- the whole --------------------------------------------------------------------------------
    def body(self) -> str:
        """All lines between reading the inputs and writing the answers."""
        self.prepare()
        for source in self.sources:
            if self.check and not self.is_held(source) and not self._looked_at(source):
                self.look(source)
        self.scope(self.values.nodes)
        for i, node in enumerate(self.values.outputs):
            self._load_for([node])
            self.store(i, node)
        return str(self.out)

    def prepare(self) -> None:
        """What comes before everything else."""

    def _load_for(self, nodes: Sequence[Node]) -> None:
        """Hold the inputs that nodes read, before the first of them is written."""
        waiting, seen = [*nodes], set[Node]()
        while waiting:
            node = waiting.pop()
            if node in seen or node in self.done:
                continue
            seen.add(node)
            if node.op == "source" and self.is_held(node):
                self.load(node)
                self.done.add(node)
            waiting += needs(node, self.values.live) if node.op == "loop" else node.args

    def scope(self, nodes: Sequence[Node]) -> None:
        """The nodes of a straight line or of a loop's body."""
        nodes = [node for node in nodes if node in self.values.live]
        for i, node in enumerate(nodes):
            if node in self.done or not self.is_written(node):
                continue
            if not self.counters:
                self._load_for([node])
            if node.op == "loop":
                self.loop(node)
            elif node in self.values.contractions:
                together = self._together(node, nodes[i + 1 :])
                if not self.counters:
                    self._load_for(together)
                self.done |= {*together}
                self.contract(together)
            else:
                self.write(node)
            self.done.add(node)

    def is_written(self, node: Node) -> bool:
        """Whether a node takes instructions where it stands."""
        if node.op == "loop":
            return True
        if node.op not in KEPT or node in self.values.streams:
            return False
        if node in self.values.moves or node in self.begun.values():
            return False
        return not self.is_inline(node)

    def is_inline(self, node: Node) -> bool:
        """Whether the entries of a value are computed where they are read."""
        return node.op == "mul" and any(_mask(arg) for arg in node.args)

    def is_held(self, source: Node) -> bool:
        """Whether an input stands in registers from the beginning."""
        raise NotImplementedError

    def _together(self, first: Node, later: Sequence[Node]) -> list[Node]:
        """A sum over streams, and others over the same length that can be made in one pass."""
        found = [first]
        for node in later:
            same = node in self.values.contractions and node.args[0].cols == first.args[0].cols
            if same and node not in self.done and self._is_ready(node):
                found.append(node)
        return found

    def _is_ready(self, node: Node) -> bool:
        """Whether all that a node is computed from has been written."""
        waiting = [*node.args]
        while waiting:
            arg = waiting.pop()
            if arg.op in ("phi", "source", "const", "at", "result"):
                if arg.op == "result" and arg.args[0] not in self.done:
                    return False
            elif self.is_written(arg):
                if arg not in self.done:
                    return False
            else:
                waiting += arg.args
        return True

    def _looked_at(self, source: Node) -> bool:
        """Whether all of an input is read outside of loops, where its entries are looked at."""
        waiting = [node for node in self.values.contractions if not node.level]
        for node in waiting:
            stack = [*node.args]
            while stack:
                arg = stack.pop()
                if arg is source:
                    return True
                if arg.op == "view":
                    stack += arg.args if arg.size == arg.args[0].size else ()
                elif arg in self.values.streams:
                    stack += arg.args
        return False

    # -- names ------------------------------------------------------------------------------------
    def title(self, node: Node) -> str:
        """A value as comments call it."""
        if node.op == "view":
            base = self.title(node.args[0])
            top, left, rows, cols, flip = node.data
            part = (
                ""
                if (rows, cols) == node.args[0].shape
                else f"[{top}:{top + rows},{left}:{left + cols}]"
            )
            return f"{base}{part}{'ᵀ' if flip else ''}"
        if node.op == "const":
            return repr(node.data)
        if node.op == "result":
            return self.title(node.args[0].data.phis[node.data])
        return node.label or f"v{node.order}"

    def comment(self, node: Node) -> None:
        """What a node is, in matrix terms."""
        names = [self.title(arg) for arg in node.args]
        op = node.op
        if op in PRODUCTS:
            said = f"{names[0]} {names[1]}{' and its transpose' * (op == 'both')}"
        elif op == "mul":
            said = " ⊙ ".join(names) if not node.args[0].is_scalar else " · ".join(names)
        elif op == "scale":
            said = f"{float(node.data):g} {names[0]}"
        elif op == "sum":
            signs = ["+" if sign > 0 else "−" for sign, _, _ in node.data[2]]
            pairs = zip(signs, names, strict=True)
            said = " ".join(f"{sign} {name}" for sign, name in pairs).removeprefix("+ ")
        elif op in ("apply", "pointwise"):
            said = f"{getattr(node.data, 'name', 'pointwise')}({names[0]})"
        elif op == "pick":
            said = f"row {self.at(node.args[1])} of {names[0]}"
        else:
            said = f"{op}({', '.join(names)})"
        kind = ", symmetric" if node in self.values.symmetric else ""
        streams = ", summed row by row" if node in self.values.contractions else ""
        said = said.replace("\n", " ").replace("\\", " ")
        self.out(f"// {self.title(node)} = {said}   ({node.rows} x {node.cols}{kind}{streams})")

    # -- entries ----------------------------------------------------------------------------------
    def entry(self, node: Node, i: Index, j: Index) -> str:
        """An entry of a value as an expression."""
        if node.op == "view":
            top, left, _, _, flip = node.data
            i, j = (j, i) if flip else (i, j)
            return self.entry(node.args[0], i + top, j + left)
        if node.op == "const":
            return self._constant(node, i, j)
        if node.op == "at":
            return self.at(node)
        if node.op == "unit":
            return f"({i} == {plus(self.at(node.args[0]), str(j))} ? ONE : NIL)"
        if node.op == "place":
            rows, at = node.args
            return self._placed(rows, at, i, j)
        move = self.values.moves.get(node)
        if move is not None:
            return self.entry(move.base, through(i, move.rows), through(j, move.cols))
        found = self.row_entry(node, i, j)
        if found is not None:
            return found
        if node.op == "source" and not self.is_held(node):
            return self.far(node, plus(times(i, node.cols), str(j)))
        if node.op == "result":
            if self.values.stack_of(node) is not None:
                return self.stack_entry(node, i, j)
            return self.entry(node.args[0].data.phis[node.data], i, j)
        if self.is_inline(node):
            return self.formula(node, i, j)
        if node in self.values.streams:
            raise Refused(f"{self.title(node)} is read in an order of its own")
        return self.held(node, i, j)

    def row_entry(self, node: Node, i: Index, j: Index) -> str | None:
        """An entry of a stream whose row, or column, has just been made."""
        for axis, (index, other) in enumerate(((i, j), (j, i))):
            name = self.rows.get((node, axis, str(index)))
            if name is not None:
                return self.of_row(name, node, axis, index, other)
        return None

    def of_row(self, name: str, node: Node, axis: int, index: Index, other: Index) -> str:
        raise NotImplementedError

    def far(self, source: Node, at: str) -> str:
        """An entry of an input that is not held."""
        return f"LDG({self.source(source)}[{at}])"

    def held(self, node: Node, i: Index, j: Index) -> str:
        raise NotImplementedError

    def stack_entry(self, node: Node, i: Index, j: Index) -> str:
        raise NotImplementedError

    def source(self, node: Node) -> str:
        return f"in{self.sources.index(node)}"

    def at(self, node: Node) -> str:
        """The number of the row that a loop has come to, or of the first if it takes several."""
        body, backward, height = node.data
        name, steps = self.counters[body]
        return times(f"({steps - 1} - {name})" if backward else name, height)

    def _placed(self, rows: Node, at: Node, i: Index, j: Index) -> str:
        """An entry of rows in their place."""
        first = self.at(at)
        if rows.rows == 1:
            return f"({i} == {first} ? {self.entry(rows, ZERO, j)} : NIL)"
        inside = f"{i} >= {first} && {i} < {first} + {rows.rows}"
        row = Index(f"({i} - {first})", known=False)
        return f"({inside} ? {self.entry(rows, row, j)} : NIL)"

    def _constant(self, node: Node, i: Index, j: Index) -> str:
        constant = node.data
        if isinstance(constant, Ones):
            return "ONE"
        if isinstance(constant, Shift):
            cond = on_shift(constant, i, j)
            return cond if cond in ("ONE", "NIL") else f"({cond} ? ONE : NIL)"
        if i.number is not None and j.number is not None:
            return self.numbers(float(constant.entries()[i.number, j.number]))
        name = self.functions.table(constant.entries().astype(float))
        return f"{name}[{plus(times(i, node.cols), str(j))}]"

    # -- formulas ---------------------------------------------------------------------------------
    def formula(self, node: Node, i: Index, j: Index) -> str:
        """An entry of what is computed entry by entry, all but sums."""
        args = node.args
        if node.op == "scale":
            x = self.entry(args[0], i, j)
            if node.data in (1, -1):
                return x if node.data == 1 else f"-({x})"
            return f"{self.numbers(float(node.data))} * ({x})"
        if node.op == "mul":
            return self._product(node, i, j)
        if node.op == "apply":
            return self.functions.call(node.data, self.entry(args[0], i, j))
        if node.op == "pointwise":
            at = plus(times(i, node.cols), str(j))
            return self.functions.layer(node.data, at, self.entry(args[0], i, j))
        if node.op == "diagonal":
            return self.entry(args[0], i, i)
        if node.op == "pick":
            first = Index(self.at(args[1]), known=False)
            row = first if node.rows == 1 else replace(first, name=f"({first} + {i})")
            return self.entry(args[0], row, j)
        raise Refused(f"no kernel computes {node.op}")

    def _product(self, node: Node, i: Index, j: Index) -> str:
        def factor(arg: Node) -> str:
            return self.entry(arg, i if arg.rows > 1 else ZERO, j if arg.cols > 1 else ZERO)

        masks = [arg for arg in node.args if _mask(arg)]
        if not masks:
            found = sorted(self._factors(node), key=lambda arg: arg.size)  # numbers first
            return " * ".join(f"({factor(arg)})" for arg in found)
        mask = masks[0]
        other = factor(node.args[1 - node.args.index(mask)])
        if isinstance(mask.data, Ones):
            return other
        cond = on_shift(mask.data, i if mask.rows > 1 else ZERO, j if mask.cols > 1 else ZERO)
        return {"ONE": other, "NIL": "NIL"}.get(cond, f"({cond} ? {other} : NIL)")

    def _factors(self, node: Node) -> list[Node]:
        """The values that a product is of, those of products inside it that are not held too."""
        found = []
        for arg in node.args:
            inner = arg.op == "mul" and self.is_inline(arg) and not any(map(_mask, arg.args))
            found += self._factors(arg) if inner else [arg]
        return found

    def assign(self, target: str, node: Node, i: Index, j: Index) -> None:
        """Lines that compute an entry."""
        if node.op != "sum":
            self.out(f"{target} = {self.formula(node, i, j)};")
            return
        always, sometimes = list[str](), list[str]()
        for arg, (sign, row, col) in zip(node.args, node.data[2], strict=True):
            if arg is self.begun.get(node):
                continue
            conditions = [
                *between(i, row, arg.rows, node.rows),
                *between(j, col, arg.cols, node.cols),
            ]
            if "NIL" in conditions:
                continue
            value, more = self._term(arg, i + -row, j + -col)
            if value == "NIL":
                continue
            conditions += more
            mark = "-" if sign < 0 else "+"
            if conditions:
                sometimes.append(f"if ({' && '.join(conditions)}) {target} {mark}= {value};")
            else:
                always.append(f"{mark} {value}")
        first = " ".join(always).removeprefix("+ ") or "0"
        self.out(f"{target} = {first};")
        for line in sometimes:
            self.out(line)

    def _term(self, arg: Node, i: Index, j: Index) -> tuple[str, list[str]]:
        """A part of a sum, and under which conditions it is not zero."""
        shift: Shift | None = None
        if arg.op == "const" and isinstance(arg.data, Shift):
            shift, text = arg.data, "ONE"
        elif arg.op == "mul" and self.is_inline(arg):
            mask = next((x for x in arg.args if _mask(x)), None)
            if mask is not None and isinstance(mask.data, Shift) and mask.shape == arg.shape:
                shift = mask.data
                other = arg.args[1 - arg.args.index(mask)]
                text = self.entry(
                    other, i if other.rows > 1 else ZERO, j if other.cols > 1 else ZERO
                )
        if shift is None:
            return f"({self.entry(arg, i, j)})", []
        cond = on_shift(shift, i, j)
        return ("NIL", []) if cond == "NIL" else (text, [] if cond == "ONE" else [cond])

    def term(self, product: Node, a: Node, b: Node, i: Index, k: Index, j: Index) -> str:
        """What the k-th column of a and row of b add to an entry of their product."""
        found = f"({self.entry(a, i, k)}) * ({self.entry(b, k, j)})"
        if product.op == "both":
            found += f" + ({self.entry(a, j, k)}) * ({self.entry(b, k, i)})"
        return found

    def factors(self, node: Node) -> tuple[Node, Node, list[str]]:
        """The streams that a product sums over, and the numbers that multiply the sum."""
        (a, left), (b, right) = (self._without_numbers(arg) for arg in node.args)
        return a, b, left + right

    def _without_numbers(self, node: Node) -> tuple[Node, list[str]]:
        """A stream without the numbers that it is a multiple by, which a sum need not repeat."""
        if node.op == "view":
            inner, numbers = self._without_numbers(node.args[0])
            if not numbers:
                return node, []
            return replace(node, args=(inner,)), numbers
        if node in self.values.streams and node.op == "scale":
            inner, numbers = self._without_numbers(node.args[0])
            return inner, [self.numbers(float(node.data)), *numbers]
        if node in self.values.streams and node.op == "mul" and node.args[0].is_scalar:
            inner, numbers = self._without_numbers(node.args[1])
            return inner, [self.entry(node.args[0], ZERO, ZERO), *numbers]
        return node, []

    # -- statements -------------------------------------------------------------------------------
    def write(self, node: Node) -> None:
        """Compute a value that is held."""
        raise NotImplementedError

    def load(self, source: Node) -> None:
        """Hold an input."""
        raise NotImplementedError

    def look(self, source: Node) -> None:
        """Look at all entries of an input that is not held: are they finite?"""
        raise NotImplementedError

    def contract(self, nodes: list[Node]) -> None:
        """Sums over streams of one length."""
        raise NotImplementedError

    def loop(self, node: Node) -> None:
        raise NotImplementedError

    def store(self, i: int, node: Node) -> None:
        """Write an answer."""
        raise NotImplementedError

    @contextmanager
    def counting(self, body: LoopBody) -> Iterator[None]:
        """Inside, a loop's counter has a name."""
        name = f"t{len(self.counters)}"
        self.counters[body] = (name, body.repeat)
        with self.out.block(f"for (int {name} = 0; {name} < {body.repeat}; {name}++)", "ROLLED"):
            yield
        del self.counters[body]

    def collected(self, loop: Node) -> tuple[dict[int, tuple[Node, bool]], dict[int, Node]]:
        """The rows that a loop's steps leave: their places, and the results that they become."""
        stacks = self.values.stacks.get(loop.data, {})
        results = {
            node.data: node
            for node in self.values.live
            if node.op == "result" and node.args[0] is loop and node.data in stacks
        }
        return stacks, results

    def place_in_answer(self, node: Node, i: Index, j: Index) -> str:
        """Where an entry of collected rows stands in the answer that they are."""
        found = self.values.stack_of(node)
        assert found is not None
        answer = self.values.outputs[self.direct[node]]
        turned = found[1] != (answer is not node)
        i, j = (j, i) if turned else (i, j)
        return plus(times(i, answer.cols), str(j))

    def _written_directly(self) -> dict[Node, int]:
        """Collected rows that are nothing but an answer, by its number: they go there at once."""
        found = {}
        for i, node in enumerate(self.values.outputs):
            base = node.args[0] if node.flipped and node.args[0].shape == node.shape[::-1] else node
            alone = self.values.stack_of(base) is not None
            for read in (base, node):
                alone = alone and len(self.values.readers[read]) == 1
            if alone:
                found[base] = i
        return found


def _mask(node: Node) -> bool:
    return node.op == "const" and isinstance(node.data, (Shift, Ones)) and not node.is_scalar
