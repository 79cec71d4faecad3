"""One row per thread: the threads of a prompt hold a row each of every matrix, an entry of vectors.

What a thread reads of other rows stands in shared memory as well: its *mirror*, written right after
it is computed. Scalars are computed by every thread for itself. Streams are staged some rows at a
time. Where a barrier has to stand follows from what is written and read between two of them; for a
loop, from what its last step leaves to its first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from inweave.run.kernel.text import ZERO, Index, Lines, Numbers, Refused, plus, times
from inweave.run.kernel.values import Values
from inweave.run.kernel.writer import Writer, through
from inweave.run.node import LoopBody, Node

LARGEST = 128  # threads of a prompt
BLOCK = 128  # threads of a block
STAGED = 64  # rows of a stream that are staged at a time
SHARED = 64 << 10  # bytes of shared memory of a block, where it holds several prompts
MOST_SHARED = 200 << 10  # where it holds one


@dataclass
class _Since:
    """What was written to shared memory, and read, since the last barrier."""

    written: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)

    def copy(self) -> _Since:
        return _Since(set(self.written), set(self.read))

    def clear(self) -> None:
        self.written, self.read = set(), set()

    def add(self, other: _Since) -> None:
        self.written |= other.written
        self.read |= other.read

    def swap(self, one: str, other: str) -> None:
        """Two buffers change their names."""
        names = {one: other, other: one}
        self.written = {names.get(x, x) for x in self.written}
        self.read = {names.get(x, x) for x in self.read}


LANE = Index("lane", own=True, known=False)


class RowPerThread(Writer):
    """A kernel in which every thread has a row, and a block some prompts."""

    def __init__(
        self, values: Values, name: str, numbers: Numbers, check: bool, prompts: int, chunk: int
    ) -> None:
        super().__init__(values, name, numbers, check)
        self.mirrored: set[Node] = set()
        self.since, self._read = _Since(), set[str]()
        self._buffers: dict[str, int] = {}
        self.chunk = chunk
        self.group = self._group()
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
        widest = max(kept, key=self.size)
        if self.size(widest) > 2 * LARGEST:
            raise Refused(f"{self.title(widest)} has {self.size(widest)} columns")
        return self.length(longest)

    # -- the whole --------------------------------------------------------------------------------
    def body(self) -> str:
        """Written twice: first to see what is read of other rows."""
        super().body()
        self._again()
        super().body()
        self.shared = sum(map(_rounded, self._buffers.values()))
        self.shared += 4 * (self.shared % 32 == 0 and self.shared > 0)
        size = self.shared * self.numbers.bytes
        if size > MOST_SHARED:
            raise Refused(f"a prompt takes {size >> 10} KB of shared memory, "
                          f"a block has {MOST_SHARED >> 10}")  # fmt: skip
        wanted = self._asked or max(1, BLOCK // self.group)
        self.prompts = max(1, min(wanted, SHARED // max(size, 1)))
        return str(self.out)

    def _again(self) -> None:
        self.out = Lines()
        self.functions.restart()
        self.done.clear()
        self.rows.clear()
        self._buffers.clear()
        self.since, self._read = _Since(), set()

    def buffers(self) -> list[str]:
        """The parts of a prompt's shared memory."""
        found, start = [], 0
        for name, size in self._buffers.items():
            found.append(f"real *{name} = memory + {start};")
            start += _rounded(size)
        return found

    def buffer(self, name: str, size: int) -> str:
        self._buffers[name] = max(size, self._buffers.get(name, 0))
        return name

    @contextmanager
    def statement(self, *writes: str) -> Iterator[None]:
        """Lines that read and write shared memory, after a barrier if they need one."""
        outer, self.out = self.out, Lines()
        self.out.depth, self._read = outer.depth, set()
        yield
        inner, self.out = self.out, outer
        self._barrier(self._read, set(writes))
        self.out.found += inner.found
        self._read = set()

    def _barrier(self, read: set[str], written: set[str]) -> None:
        if read & self.since.written or written & (self.since.read | self.since.written):
            self.out("SYNCWARP;" if 32 % self.group == 0 else "SYNC;")
            self.since.clear()
        self.since.read |= read
        self.since.written |= written

    # -- entries ----------------------------------------------------------------------------------
    def axis(self, node: Node) -> int:
        """Along which axis a value lies over the threads."""
        return 1 if node.rows == 1 and node.cols > 1 else 0

    def length(self, node: Node) -> int:
        """Over how many threads a value lies."""
        return node.shape[self.axis(node)]

    def size(self, node: Node) -> int:
        """How many registers a value takes."""
        return node.shape[1 - self.axis(node)]

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
        return LANE if name is None else Index(name, own=True, known=False)

    def held(self, node: Node, i: Index, j: Index) -> str:
        name = f"v{node.order}"
        if node.is_scalar:
            return f"{name}[0]"
        mine, other = (i, j) if self.axis(node) == 0 else (j, i)
        if mine == self.own(node) and other.known:
            return f"{name}[{other}]"
        if node in self.values.symmetric and j == self.own(node) and i.known:
            return f"{name}[{i}]"
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

    def _seen(self, name: str) -> str:
        self._read.add(name)
        return name

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
        if length in (1, self.group):
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
        with self.guarded(self.length(node)), self.out.loop("j", self.size(node)) as j:
            yield (self.own(node), j) if self.axis(node) == 0 else (j, self.own(node))

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
            with self.out.block(f"if ({' || '.join(f'{mine} == {row}' for row in sorted(rows))})"):
                self._copy_out(node, name)

    def _rows_read(self, node: Node) -> set[int] | None:
        """The rows of a matrix that others read; None if it can be any."""
        found = set[int]()
        for turning in (True, False):
            rows = self.read_rows.get((node, turning), set())
            if rows is None or min(node.shape) == 1:
                return None
            found |= rows
        return found

    def _copy_out(self, node: Node, name: str) -> None:
        with self.each(node) as (i, j):
            self.out(f"{name}[{plus(times(i, node.cols), str(j))}] = {self.held(node, i, j)};")

    def _mirrors(self, node: Node) -> list[str]:
        return [f"m{node.order}"] if node in self.mirrored and not node.is_scalar else []

    def write(self, node: Node) -> None:
        self.comment(node)
        self.declare(node)
        if node.op == "matmul" and node.is_scalar and self._summed_up(node):
            return
        with self.statement(*self._mirrors(node)), self.out.block(""):
            if node.op == "matmul":
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
        with self._accumulated(node):
            if node.cols > 1 and self.axis(node) == 0:
                with self.out.loop("k", a.cols) as k:
                    self._add_row(node, a, b, k)
            else:
                i, j = self._own(node)
                self._dot(self.held(node, i, j), a, i, b, j)

    def _own(self, node: Node) -> tuple[Index, Index]:
        if node.is_scalar:
            return ZERO, ZERO
        mine = self.own(node)
        return (mine, ZERO) if self.axis(node) == 0 else (ZERO, mine)

    @contextmanager
    def _accumulated(self, node: Node) -> Iterator[None]:
        with self.guarded(self.length(node)):
            if node.cols > 1 and self.axis(node) == 0:
                with self.out.loop("j", node.cols) as j:
                    self.out(f"{self.held(node, self.own(node), j)} = 0;")
            yield

    def _add_row(self, node: Node, a: Node, b: Node, k: Index) -> None:
        """Add an entry of the own row of one factor, times a row of the other."""
        mine = self.own(node)
        self.out(f"real x = {self.entry(a, mine, k)};")
        run = self.run(b, k, 1) if node.cols % 4 == 0 else None
        if run is None:
            with self.out.loop("j", node.cols) as j:
                self.out(f"{self.held(node, mine, j)} += x * ({self.entry(b, k, j)});")
            return
        with self.out.loop("q", node.cols // 4) as q:
            self.out(f"real4 y4 = LDS4({run}, {q});")
            for e, part in enumerate("xyzw"):
                at = Index(plus(times(q, 4), str(e)))
                self.out(f"{self.held(node, mine, at)} += x * y4.{part};")

    def _dot(self, target: str, a: Node, i: Index, b: Node, j: Index) -> None:
        """The sum over k of `a[i, k] b[k, j]`, in four sums where that can be."""
        size = a.cols
        runs = {
            side: run for side, run in (("a", self.run(a, i, 1)), ("b", self.run(b, j, 0))) if run
        }
        if size % 4 or not runs:
            self.out("real s = 0;")
            with self.out.loop("k", size) as k:
                self.out(f"s += ({self.entry(a, i, k)}) * ({self.entry(b, k, j)});")
            self.out(f"{target} = s;")
            return
        self.out("real p0 = 0, p1 = 0, p2 = 0, p3 = 0;")
        with self.out.loop("q", size // 4) as q:
            for side, run in runs.items():
                self.out(f"real4 {side}4 = LDS4({run}, {q});")
            for e, part in enumerate("xyzw"):
                k = Index(f"({plus(times(q, 4), str(e))})")
                x = f"a4.{part}" if "a" in runs else f"({self.entry(a, i, k)})"
                y = f"b4.{part}" if "b" in runs else f"({self.entry(b, k, j)})"
                self.out(f"p{e} += {x} * {y};")
        self.out(f"{target} = (p0 + p1) + (p2 + p3);")

    # -- streams ----------------------------------------------------------------------------------
    def contract(self, nodes: list[Node]) -> None:
        for node in nodes:
            self.comment(node)
            self.declare(node)
            with self.out.loop("e", self.size(node)) as e:
                self.out(f"v{node.order}[{e}] = 0;")
        k = Index("k", known=False)
        with self.statement():
            factors = {node: self.factors(node) for node in nodes}

        def staged() -> None:
            for a, b, _ in factors.values():
                self.stage(a, 1, k)
                self.stage(b, 0, k)
            with self.statement(), self.out.block("for (int r = 0; r < rows; r++)", "TWICE"):
                self.out("int k = k0 + r;")
                for node, (a, b, _) in factors.items():
                    self._add(node, a, b, k)

        self._staging(nodes[0].args[0].cols, staged)
        for node, (_, _, numbers) in factors.items():
            with self.statement(*self._mirrors(node)):
                for number in numbers:
                    with self.out.loop("e", self.size(node)) as e:
                        self.out(f"v{node.order}[{e}] *= {number};")
                self._publish(node)

    def _add(self, node: Node, a: Node, b: Node, k: Index) -> None:
        with self.guarded(self.length(node)):
            if node.cols > 1 and self.axis(node) == 0:
                self._add_row(node, a, b, k)
            else:
                i, j = self._own(node)
                product = f"({self.entry(a, i, k)}) * ({self.entry(b, k, j)})"
                self.out(f"{self.held(node, i, j)} += {product};")

    def _staging(self, length: int, step) -> None:  # type: ignore[no-untyped-def]
        """A loop over pieces of a stream, some rows at a time."""
        rows = self.chunk or _piece(length)
        self.piece = min(rows, length)
        whole = length % self.piece == 0

        def piece() -> None:
            count = (
                self.piece
                if whole
                else f"(k0 + {self.piece} < {length} ? {self.piece} : {length} - k0)"
            )
            self.out(f"const int rows = {count};")
            step()
            self.rows.clear()

        if self.piece == length:
            with self.out.block(""):
                self.out("const int k0 = 0;")
                piece()
            return
        head = f"for (int k0 = 0; k0 < {length}; k0 += {self.piece})"
        self._twice(head, "ROLLED", piece)

    def _twice(self, head: str, pragma: str, body) -> None:  # type: ignore[no-untyped-def]
        """A loop whose first step knows what the last one leaves to it, as to barriers."""
        since, done = self.since.copy(), set(self.done)
        out, self.out = self.out, Lines()
        body()
        after = self.since
        self.out, self.done, self.since = out, done, since
        self.since.add(after)
        with self.out.block(head, pragma):
            body()

    def stage(self, node: Node, axis: int, k: Index) -> None:
        """Put some rows (axis 0) or columns (axis 1) of a stream into shared memory."""
        if node.op == "view":
            top, left, _, _, flip = node.data
            inner = axis ^ flip
            self.stage(node.args[0], inner, k + (left if inner else top))
            return
        key = (node, axis, str(k))
        is_source = node.op == "source"
        if key in self.rows or not (is_source or node in self.values.streams):
            return
        if not is_source:
            for arg in node.args:
                spans = arg.shape[axis] == node.shape[axis] and arg.shape[axis] > 1
                if node.op == "matmul":
                    spans = arg is node.args[axis]
                if spans:
                    self.stage(arg, axis, k)
        width = node.shape[1 - axis]
        name = self.buffer(f"c{len(self.rows)}", self.piece * width)
        self.out(f"// {'rows' if axis == 0 else 'columns'} of {self.title(node)}")
        with self.statement(name):
            if is_source:
                self._stage_source(node, axis, k, name)
            else:
                with self.out.block(
                    f"for (int q = lane; q < rows * {width}; q += {self.group})", "ROLLED"
                ):
                    self.out(f"int r = q / {width}, e = q % {width}, k = k0 + r;")
                    e = Index("e", known=False)
                    i, j = (k, e) if axis == 0 else (e, k)
                    self.out("real x;")
                    if node.op == "matmul":
                        self._stream_dot(node, i, j)
                    else:
                        self.assign("x", node, i, j)
                    self.out(f"{name}[q] = x;")
        self.rows[key] = name

    def _stream_dot(self, node: Node, i: Index, j: Index) -> None:
        a, b = node.args
        self.out("x = 0;")
        with self.out.loop("m", a.cols) as m:
            self.out(f"x += ({self.entry(a, i, m)}) * ({self.entry(b, m, j)});")

    def _stage_source(self, node: Node, axis: int, k: Index, name: str) -> None:
        width, pointer = node.shape[1 - axis], self.source(node)
        looks = self.check and not self.counters
        first = str(Index("k0", k.offset))
        if axis == 0 and width % 4 == 0:
            with self.out.block(
                f"for (int q = lane; q < rows * {width // 4}; q += {self.group})", "ROLLED"
            ):
                self.out(f"real4 x4 = LDG4({pointer}, {times(first, width // 4)} + q);")
                if looks:
                    self.out("LOOK(x4.x); LOOK(x4.y); LOOK(x4.z); LOOK(x4.w);")
                self.out(f"((real4 *){name})[q] = x4;")
            return
        with self.out.block(f"for (int q = lane; q < rows * {width}; q += {self.group})", "ROLLED"):
            if axis == 0:
                at, to = plus(times(first, width), "q"), "q"
            else:
                at = f"(q / rows) * {node.cols} + {first} + q % rows"
                to = f"(q % rows) * {width} + q / rows"
            self.out(f"real x = LDG({pointer}[{at}]);")
            if looks:
                self.out("LOOK(x);")
            self.out(f"{name}[{to}] = x;")

    # -- loops ------------------------------------------------------------------------------------
    def loop(self, node: Node) -> None:
        body: LoopBody = node.data
        carried = self.values.carried[node]
        for i in carried:
            phi, init = body.phis[i], body.inits[i]
            self.out(f"// {self.title(phi)} ({phi.rows} x {phi.cols}) begins as {self.title(init)}")
            self.declare(phi)
            with self.statement(*self._mirrors(phi)):
                with self.each(phi) as (r, c):
                    self.out(f"{self.held(phi, r, c)} = {self.entry(init, r, c)};")
                self._publish(phi)
            if self._mirrors(phi):
                self.buffer(f"m{phi.order}n", self._mirror_size(phi))
        stacks = self.values.stacks.get(body, {})
        results = {
            result.data: result
            for result in self.values.live
            if result.op == "result" and result.args[0] is node and result.data in stacks
        }
        for i, (place, _) in stacks.items():
            if results[i] not in self.direct:
                self.buffer(f"s{results[i].order}", place.size)
        moved = [i for i in carried if body.nexts[i] is not body.phis[i]]
        name = f"t{len(self.counters)}"
        turn = self._turn(node)
        if turn:
            self.out(f"int row{name} = lane;")
            inside = {*body.nodes, *body.phis}
            self.turning = {x: f"row{name}" for x in inside if x.rows == self.group and x.cols > 0}

        def step() -> None:
            self.scope(body.nodes)
            for i, (place, _) in stacks.items():
                self._collect(results[i], place)
            for i in moved:
                self._next(body.phis[i], body.nexts[i], bool(turn))
            if turn:
                self.out(f"row{name} = row{name} >= {turn} ? row{name} - {turn} "
                         f": row{name} + {self.group - turn};")  # fmt: skip
            for i in moved:
                self._carry(body.phis[i])

        self.counters[body] = (name, body.repeat)
        self._twice(f"for (int {name} = 0; {name} < {body.repeat}; {name}++)", "ROLLED", step)
        del self.counters[body]
        if turn:
            self.turning = {}
            for phi in body.phis:  # of which others may read more from now on
                if (phi, False) in self.read_rows:
                    with self.statement(*self._mirrors(phi)):
                        self._publish(phi)

    def _turn(self, loop: Node) -> int:
        """By how many rows all that a loop carries goes round in a step: rows then stay where they
        are and threads change theirs. 0 if they do not, or do not come back to where they were."""
        body: LoopBody = loop.data
        carried = [i for i in self.values.carried[loop] if not body.phis[i].is_scalar]
        moves = [self.values.moves.get(body.nexts[i]) for i in carried]
        steps = {None if move is None else move.step for move in moves}
        step = steps.pop() if len(steps) == 1 else None
        fits = all(body.phis[i].rows == self.group for i in carried)
        nested = any(x.op == "loop" for x in body.nodes) or self.counters
        if not step or not fits or nested or step * body.repeat % self.group:
            return 0
        return step

    def _next(self, phi: Node, after: Node, turns: bool) -> None:
        """What a carried value will be: where rows go round, the own one but for its columns."""
        self.declare(phi, f"n{phi.order}")
        move = self.values.moves[after] if turns and not phi.is_scalar else None
        with self.statement(), self.each(phi) as (r, c):
            at = r if self.axis(phi) else c
            if move is None:
                value = self.entry(after, r, c)
            else:
                value = self.entry(move.base, r, through(c, move.cols))
            self.out(f"n{phi.order}[{at}] = {value};")

    def _carry(self, phi: Node) -> None:
        """Take the next value; its mirror is another one than that of the step before."""
        new = [f"{name}n" for name in self._mirrors(phi)]
        with self.statement(*new):
            with self.out.loop("e", self.size(phi)) as e:
                self.out(f"v{phi.order}[{e}] = n{phi.order}[{e}];")
            if new:
                self._publish(phi, new[0])
        for name in new:
            self.out(f"{{ real *other = {name}; {name} = {name[:-1]}; {name[:-1]} = other; }}")
            self.since.swap(name, name[:-1])

    def _collect(self, result: Node, place: Node) -> None:
        row, at = place.args
        self.out(f"// row {self.at(at)} of {self.title(result)}")
        direct = result in self.direct
        where = Index(self.at(at), known=False)
        with self.statement(*([] if direct else [f"s{result.order}"])):
            if place.cols == 1:
                value, j = self.entry(row, ZERO, ZERO), ZERO
                head = "if (lane == 0)"
            elif place.cols <= self.group:
                value, j = self.entry(row, ZERO, LANE), LANE
                head = f"if (lane < {place.cols})"
            else:
                j = Index("j", known=False)
                value = self.entry(row, ZERO, j)
                head = f"for (int j = lane; j < {place.cols}; j += {self.group})"
            with self.out.block(head):
                if direct:
                    target = f"out{self.direct[result]}[{self._place_in_answer(result, where, j)}]"
                    if self.check:
                        self.out(f"REACH({value});")
                else:
                    target = f"s{result.order}[{plus(times(where, place.cols), str(j))}]"
                self.out(f"{target} = {value};")

    def _place_in_answer(self, node: Node, i: Index, j: Index) -> str:
        """Where an entry of collected rows stands in the answer that they are."""
        found = self.values.stack_of(node)
        assert found is not None
        answer = self.values.outputs[self.direct[node]]
        turned = found[1] != (answer is not node)
        i, j = (j, i) if turned else (i, j)
        return plus(times(i, answer.cols), str(j))

    def store(self, i: int, node: Node) -> None:
        base = node.args[0] if node.flipped else node
        if base in self.direct:
            return
        self.out(f"// the answer {i}: {self.title(node)}")
        if base in self.values.streams:
            axis = self.values.streams[base] ^ (node.op == "view" and node.data[4])
            self._store_stream(i, node, axis)
            return
        with self.statement():
            if node.is_scalar:
                with self.out.block("if (lane == 0)"):
                    self._answer(i, node, ZERO, ZERO)
            elif self.length(node) <= self.group:
                with self.each(node) as (r, c):
                    self._answer(i, node, r, c)
            else:
                with self.out.block(f"for (int q = lane; q < {node.size}; q += {self.group})"):
                    r = Index(f"(q / {node.cols})", known=False)
                    self._answer(i, node, r, Index(f"(q % {node.cols})", known=False))

    def _store_stream(self, i: int, node: Node, axis: int) -> None:
        k, e = Index("k", known=False), Index("e", known=False)
        width = node.shape[1 - axis]

        def step() -> None:
            self.stage(node, axis, k)
            head = f"for (int q = lane; q < rows * {width}; q += {self.group})"
            with self.statement(), self.out.block(head):
                self.out(f"int r = q / {width}, e = q % {width}, k = k0 + r;")
                self._answer(i, node, *((k, e) if axis == 0 else (e, k)))

        self._staging(node.shape[axis], step)

    def _answer(self, i: int, node: Node, r: Index, c: Index) -> None:
        value = self.entry(node, r, c)
        look = "REACH(x); " if self.check else ""
        at = plus(times(r, node.cols), str(c))
        self.out(f"{{ real x = {value}; {look}out{i}[{at}] = x; }}")


def _rounded(size: int) -> int:
    """A size of shared memory at which four entries at a time can begin."""
    return -(-size // 4) * 4


def _piece(length: int) -> int:
    """How many rows of a stream to stage at a time: all, or a part that divides them."""
    if length <= STAGED:
        return length
    fits = [size for size in range(STAGED // 2, STAGED + 1) if length % size == 0]
    return max(fits, default=32)
