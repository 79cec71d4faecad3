"""Values over threads: each has a row of every matrix, and an entry of every vector.

What a thread reads of other rows stands in shared memory as well: its *mirror*, written right after
it is computed. Numbers are computed by every thread for itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from inweave.run.kernel.indices import ZERO, Index, plus, times
from inweave.run.kernel.shared import SharedMemory
from inweave.run.kernel.text import Lines, Numbers, Refused
from inweave.run.kernel.values import Values
from inweave.run.values.node import PRODUCTS, LoopBody, Node

LARGEST = 128  # threads of a prompt

LANE = Index("lane", own=True, known=False)


class Rows(SharedMemory):
    """Values that lie over the threads of a prompt."""

    def __init__(
        self,
        values: Values,
        name: str,
        numbers: Numbers,
        check: bool,
        prompts: int,
        chunk: int,
        two_rows: int,
    ) -> None:
        super().__init__(values, name, numbers, check)
        self.mirrored: set[Node] = set()
        self.restart()
        self.chunk = chunk
        self.group = self._group()
        if self._can_double(two_rows):
            self.group //= 2
        self._asked = prompts
        self.turning: dict[Node, str] = {}
        self.taken: dict[tuple[str, int, int], str] | None = None  # whole rows, four by four
        self.read_rows: dict[tuple[Node, bool], set[int] | None] = {}

    def _group(self) -> int:
        """How many threads a prompt takes."""
        held = [node for node in self.values.every() if node.op == "phi" or self.is_written(node)]
        held += [node for node in self.sources if self.is_held(node)]
        kept = [node for node in held if node.op != "loop"]
        longest = max(kept, key=self.length, default=None)
        if longest is None or self.length(longest) < 2:
            raise Refused("there are only numbers, no rows")
        if self.length(longest) > LARGEST:
            raise Refused(f"{self.title(longest)} has {self.length(longest)} rows, "
                          f"a prompt has {LARGEST} threads")  # fmt: skip
        widest = max(kept, key=self.width)
        if self.width(widest) > 2 * LARGEST:
            raise Refused(f"{self.title(widest)} has {self.width(widest)} columns")
        return self.length(longest)

    def _can_double(self, two_rows: int) -> bool:
        """Whether a thread has two rows: all values are as long, or half as long at most.

        A value that it reads of others then serves both. Rows that go round stay single.
        """
        held = [x for x in self.values.every() if x.op == "phi" or self.is_written(x)]
        held += [x for x in self.sources if self.is_held(x)]
        held = [x for x in held if x.op != "loop"]
        half, turns = self.group // 2, any(map(self.turn, self.values.carried))
        fits = all(self.length(x) <= half or self.length(x) == self.group for x in held)
        narrow = max(map(self.width, held)) <= two_rows
        return self.group % 2 == 0 and fits and narrow and not turns

    def turn(self, loop: Node) -> int:
        """By how many rows all that a loop carries goes round in a step: rows then stay where they
        are and threads change theirs. 0 if they do not, or do not come back to where they were."""
        body: LoopBody = loop.data
        carried = [i for i in self.values.carried[loop] if not body.phis[i].is_scalar]
        moves = [self.values.moves.get(body.nexts[i]) for i in carried]
        steps = {None if move is None else move.step for move in moves}
        step = steps.pop() if len(steps) == 1 else None
        fits = all(body.phis[i].rows == self.group for i in carried)
        nested = loop.level or any(x.op == "loop" for x in body.nodes)
        if not step or not fits or nested or step * body.repeat % self.group:
            return 0
        return step

    # -- entries ----------------------------------------------------------------------------------
    def axis(self, node: Node) -> int:
        """Along which axis a value lies over the threads."""
        return 1 if node.rows == 1 and node.cols > 1 else 0

    def length(self, node: Node) -> int:
        """Over how many threads a value lies."""
        return node.shape[self.axis(node)]

    def deep(self, node: Node) -> int:
        """How many rows of a value a thread has."""
        return -(-self.length(node) // self.group)

    def width(self, node: Node) -> int:
        """How many registers a row of a value takes."""
        return node.shape[1 - self.axis(node)]

    def size(self, node: Node) -> int:
        """How many registers a value takes."""
        return self.deep(node) * self.width(node)

    def is_held(self, source: Node) -> bool:
        if source.is_scalar:
            return True
        waiting = [source]
        while waiting:
            for how, reader in self.values.readers[waiting.pop()]:
                if how == "node" and reader.op == "view":
                    waiting.append(reader)
                elif how != "node" or not (
                    reader in self.values.contractions
                    or reader in self.values.streams
                    or reader.op == "pick"
                ):
                    return True
        return False

    def is_inline(self, node: Node) -> bool:
        """Also a multiple of a row of a matrix, which every thread takes for itself."""
        if super().is_inline(node):
            return True
        if node.op not in ("mul", "scale") or node.rows > 1 or node.cols == 1:
            return False
        rows = [arg for arg in node.args if not arg.is_scalar]
        return len(rows) == 1 and rows[0].op == "view" and min(rows[0].args[0].shape) > 1

    def own(self, node: Node) -> Index:
        """Which row of a value is the thread's own."""
        name = self.turning.get(node)
        if self.deep(node) > 1:
            name = f"(lane + s * {self.group})"
        return LANE if name is None else Index(name, own=True, known=False)

    def register(self, node: Node, at: Index, name: str = "") -> str:
        """An entry of the own row of a value."""
        where = str(at) if self.deep(node) == 1 else plus(times("s", self.width(node)), str(at))
        return f"{name or f'v{node.order}'}[{where}]"

    def held(self, node: Node, i: Index, j: Index) -> str:
        name = f"v{node.order}"
        if node.is_scalar:
            return f"{name}[0]"
        mine, other = (i, j) if self.axis(node) == 0 else (j, i)
        if mine == self.own(node) and other.known:
            return self.register(node, other)
        if node in self.values.symmetric and j == self.own(node) and i.known:
            return self.register(node, i)
        self._reads_mirror(node, i)
        name = self._seen(self.mirror(node))
        row = i.number
        if (
            self.taken is not None
            and row is not None
            and j.name == "j"
            and row * node.cols % 4 == 0
        ):
            array = self.taken.setdefault((name, row, node.cols), f"h{len(self.taken)}")
            return f"{array}[{j}]"
        return f"{name}[{plus(times(i, node.cols), str(j))}]"

    def _reads_mirror(self, node: Node, row: Index) -> None:
        """Take note of which rows others read, while a loop that carries a value runs and after."""
        self.mirrored.add(node)
        key = (node, node in self.turning)
        found = self.read_rows.setdefault(key, set())
        if row.number is None:
            self.read_rows[key] = None
        elif found is not None:
            found.add(row.number)

    def mirror(self, node: Node) -> str:
        return self.buffer(f"m{node.order}", self._mirror_size(node))

    def _mirror_size(self, node: Node) -> int:
        rows = self._rows_read(node)
        return node.size if rows is None else (max(rows, default=0) + 1) * node.cols

    def of_row(self, name: str, node: Node, axis: int, index: Index, other: Index) -> str:
        return f"{self._seen(name)}[{plus(times('r', node.shape[1 - axis]), str(other))}]"

    def stack_entry(self, node: Node, i: Index, j: Index) -> str:
        found = self.values.stack_of(node)
        assert found is not None
        place, flip = found
        i, j = (j, i) if flip else (i, j)
        return f"{self._seen(f's{node.order}')}[{plus(times(i, place.cols), str(j))}]"

    def run(self, node: Node, fixed: Index, axis: int, start: int = 0) -> str | None:
        """Where the entries along an axis stand one after another in shared memory, four by four.

        The other index is `fixed`; None if they do not stand so.
        """
        if node.op == "view":
            top, left, _, _, flip = node.data
            axis ^= flip
            return self.run(node.args[0], fixed + (top, left)[1 - axis], axis,
                            start + (top, left)[axis])  # fmt: skip
        if node.op == "result" and self.values.stack_of(node) is None:
            return self.run(node.args[0].data.phis[node.data], fixed, axis, start)
        if start % 4:
            return None
        name = self.rows.get((node, 1 - axis, str(fixed)))
        if name is not None:
            if node.shape[axis] % 4:
                return None
            return f"{self._seen(name)} + {plus(times('r', node.shape[axis]), str(start))}"
        is_held = node.op == "phi" or (node.op == "source" and self.is_held(node))
        if not (is_held or self.is_written(node)) or node.is_scalar or fixed.own:
            return None
        if node.rows == 1 or node.cols == 1:
            if node.shape[axis] == 1:
                return None
            self._reads_mirror(node, LANE)
            return f"{self._seen(self.mirror(node))} + {start}"
        if node in self.values.symmetric:
            axis = 1
        if axis == 0 or node.cols % 4:
            return None
        self._reads_mirror(node, LANE if node in self.values.symmetric else fixed)
        return f"{self._seen(self.mirror(node))} + {plus(times(fixed, node.cols), str(start))}"

    # -- statements -------------------------------------------------------------------------------
    @contextmanager
    def guarded(self, length: int) -> Iterator[None]:
        """Lines for the threads that have a row of a value."""
        if length == 1 or length >= self.group:
            with self.out.block(""):
                yield
        else:
            with self.out.block(f"if (lane < {length})"):
                yield

    @contextmanager
    def each(self, node: Node) -> Iterator[tuple[Index, Index]]:
        """Loops over a thread's own entries of a value: its row and column."""
        if node.is_scalar:
            with self.out.block(""):
                yield ZERO, ZERO
            return
        with self.rows_of(node), self.out.loop("j", self.width(node)) as j:
            yield (self.own(node), j) if self.axis(node) == 0 else (j, self.own(node))

    @contextmanager
    def rows_of(self, node: Node) -> Iterator[None]:
        """A loop over the own rows of a value, where there are several."""
        if self.deep(node) == 1:
            with self.guarded(self.length(node)):
                yield
        else:
            with self.out.loop("s", self.deep(node)):
                yield

    def declare(self, node: Node, name: str = "") -> None:
        self.out(f"real {name or f'v{node.order}'}[{self.size(node)}];")

    def _publish(self, node: Node, name: str = "") -> None:
        """Write the mirror of a value, or those rows of it that others read."""
        if node not in self.mirrored or node.is_scalar:
            return
        name, rows = name or self.mirror(node), self._rows_read(node)
        if node in self.turning:
            rows = self.read_rows.get((node, True), set())
        if rows is None:
            self._copy_out(node, name)
        elif rows:
            mine = self.own(node)
            condition = " || ".join(f"{mine} == {row}" for row in sorted(rows))
            self._copy_out(node, name, f"if ({condition})")

    def _rows_read(self, node: Node) -> set[int] | None:
        """The rows of a matrix that others read; None if it can be any."""
        found = set[int]()
        for turning in (True, False):
            rows = self.read_rows.get((node, turning), set())
            if rows is None or min(node.shape) == 1:
                return None
            found |= rows
        return found

    def _copy_out(self, node: Node, name: str, condition: str = "") -> None:
        size, mine = self.width(node), self.own(node)
        with self.rows_of(node), self.out.block(condition), self.out.loop("j", size) as other:
            i, j = (mine, other) if self.axis(node) == 0 else (other, mine)
            at = plus(times(i, node.cols), str(j))
            self.out(f"{name}[{at}] = {self.held(node, i, j)};")

    def _mirrors(self, node: Node) -> list[str]:
        return [f"m{node.order}"] if node in self.mirrored and not node.is_scalar else []

    def write(self, node: Node) -> None:
        self.comment(node)
        self.declare(node)
        if node.op == "matmul" and node.is_scalar and self._summed_up(node):
            return
        with self.statement(*self._mirrors(node)), self.out.block(""):
            if node.op in PRODUCTS:
                self._matmul(node)
            else:
                self._entries(node)
            self._publish(node)

    def _entries(self, node: Node) -> None:
        """Own entries; whole rows of others that they take part with are read at once."""
        outer, self.out = self.out, Lines()
        self.out.depth, self.taken = outer.depth, {}
        with self.each(node) as (i, j):
            self.assign(self.held(node, i, j), node, i, j)
        inner, self.out = self.out, outer
        for (name, row, cols), array in self.taken.items():
            self.out(f"real {array}[{cols}];")
            with self.out.loop("q", cols // 4) as q:
                self.out(f"real4 x4 = LDS4({name} + {row * cols}, {q});")
                for e, part in enumerate("xyzw"):
                    self.out(f"{array}[{plus(times(q, 4), str(e))}] = x4.{part};")
            for e in range(cols - cols % 4, cols):
                self.out(f"{array}[{e}] = {name}[{row * cols + e}];")
        self.taken = None
        self.out.found += inner.found

    def _summed_up(self, node: Node) -> bool:
        """An inner product of which every thread has its own factors: their products are summed."""
        a, b = node.args
        owners = [LANE, *(Index(x, own=True, known=False) for x in set(self.turning.values()))]
        if not 1 < a.cols <= self.group:
            return False
        for mine in owners:
            rows = {
                key: None if found is None else set(found) for key, found in self.read_rows.items()
            }
            kept = rows, set(self.mirrored), dict(self._buffers)
            x, y = self.entry(a, ZERO, mine), self.entry(b, mine, ZERO)
            if not self._read:
                break
            (self.read_rows, self.mirrored, self._buffers), self._read = kept, set()
        else:
            return False
        name, size = self.buffer(f"d{node.order}", a.cols), a.cols
        with self.statement(name), self.out.block(f"if (lane < {size})"):
            self.out(f"{name}[lane] = ({x}) * ({y});")
        with self.statement(), self.out.block(""):
            self.out("real p0 = 0, p1 = 0, p2 = 0, p3 = 0;")
            with self.out.loop("q", size // 4) as q:
                self.out(f"real4 x4 = LDS4({self._seen(name)}, {q});")
                self.out("p0 += x4.x; p1 += x4.y; p2 += x4.z; p3 += x4.w;")
            for k in range(size - size % 4, size):
                self.out(f"p0 += {self._seen(name)}[{k}];")
            self.out(f"v{node.order}[0] = (p0 + p1) + (p2 + p3);")
        return True

    def load(self, source: Node) -> None:
        self.out(f"// {self.title(source)} ({source.rows} x {source.cols})")
        self.declare(source)
        with self.statement(*self._mirrors(source)):
            with self.each(source) as (i, j):
                at = plus(times(i, source.cols), str(j))
                self.out(f"{self.held(source, i, j)} = LDG({self.source(source)}[{at}]);")
                if self.check:
                    self.out(f"LOOK({self.held(source, i, j)});")
            self._publish(source)

    def look(self, source: Node) -> None:
        self.out(f"// is {self.title(source)} finite?")
        head = f"for (int q = lane; q < {source.size}; q += {self.group})"
        self.out(f"{head} LOOK(LDG({self.source(source)}[q]));")

    def _matmul(self, node: Node) -> None:
        a, b = node.args
        if node.cols > 1 and self.axis(node) == 0:
            with self.each(node) as (i, j):
                self.out(f"{self.held(node, i, j)} = 0;")
            with self.guarded(self.length(node)), self.out.loop("k", a.cols) as k:
                self.add_row(node, a, b, k)
        else:
            with self.guarded(self.length(node)):
                self._dots(node, a, b)

    def _own(self, node: Node) -> tuple[Index, Index]:
        if node.is_scalar:
            return ZERO, ZERO
        mine = self.own(node)
        return (mine, ZERO) if self.axis(node) == 0 else (ZERO, mine)

    def add_row(self, node: Node, a: Node, b: Node, k: Index) -> None:
        """Add an entry of the own row of one factor, times a row of the other."""
        self._add_row(node, a, b, k)
        if node.op == "both":
            with self.out.loop("s", self.deep(node)), self.out.loop("j", node.cols) as j:
                mine = self.own(node)
                turned = f"({self.entry(a, j, k)}) * ({self.entry(b, k, mine)})"
                self.out(f"{self.held(node, mine, j)} += {turned};")

    def _add_row(self, node: Node, a: Node, b: Node, k: Index) -> None:
        mine, deep = self.own(node), self.deep(node)
        self.out(f"real x[{deep}];")
        with self.out.loop("s", deep) as s:
            self.out(f"x[{s}] = {self.entry(a, mine, k)};")
        run = self.run(b, k, 1) if node.cols % 4 == 0 else None
        if run is None:
            with self.out.loop("j", node.cols) as j:
                self.out(f"real y = {self.entry(b, k, j)};")
                with self.out.loop("s", deep) as s:
                    self.out(f"{self.held(node, mine, j)} += x[{s}] * y;")
            return
        with self.out.loop("q", node.cols // 4) as q:
            self.out(f"real4 y4 = LDS4({run}, {q});")
            with self.out.loop("s", deep) as s:
                for e, part in enumerate("xyzw"):
                    at = Index(plus(times(q, 4), str(e)))
                    self.out(f"{self.held(node, mine, at)} += x[{s}] * y4.{part};")

    def _dots(self, node: Node, a: Node, b: Node) -> None:
        """Own sums over k of `a[i, k] b[k, j]`, each in four where that can be."""
        size, deep, (i, j) = a.cols, self.deep(node), self._own(node)
        found = (("a", self.run(a, i, 1)), ("b", self.run(b, j, 0)))
        runs = {side: run for side, run in found if run}
        if size % 4 or not runs:
            with self.out.loop("s", deep):
                self.out("real sum = 0;")
                with self.out.loop("k", size) as k:
                    self.out(f"sum += ({self.entry(a, i, k)}) * ({self.entry(b, k, j)});")
                self.out(f"{self.held(node, i, j)} = sum;")
            return
        self.out(f"real p[{4 * deep}];")
        with self.out.loop("e", 4 * deep) as every:
            self.out(f"p[{every}] = 0;")
        with self.out.loop("q", size // 4) as q:
            for side, run in runs.items():
                self.out(f"real4 {side}4 = LDS4({run}, {q});")
            with self.out.loop("s", deep) as s:
                for e, part in enumerate("xyzw"):
                    k = Index(f"({plus(times(q, 4), str(e))})")
                    x = f"a4.{part}" if "a" in runs else f"({self.entry(a, i, k)})"
                    y = f"b4.{part}" if "b" in runs else f"({self.entry(b, k, j)})"
                    self.out(f"p[{plus(times(s, 4), str(e))}] += {x} * {y};")
        with self.out.loop("s", deep) as s:
            parts = [f"p[{plus(times(s, 4), str(e))}]" for e in range(4)]
            target = self.held(node, i, j)
            self.out(f"{target} = ({parts[0]} + {parts[1]}) + ({parts[2]} + {parts[3]});")
