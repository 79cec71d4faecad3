"""Streams over threads: some rows at a time are staged in shared memory, where all read them."""

from __future__ import annotations

from collections.abc import Callable

from inweave.run.kernel.indices import Index, plus, times
from inweave.run.kernel.rows import Rows
from inweave.run.values.node import Node

STAGED = 64  # rows of a stream that are staged at a time, at most


class StagedRows(Rows):
    """A kernel of rows that sums over streams."""

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
                self.add_row(node, a, b, k)
                return
            with self.out.loop("s", self.deep(node)):
                i, j = self._own(node)
                product = f"({self.entry(a, i, k)}) * ({self.entry(b, k, j)})"
                self.out(f"{self.held(node, i, j)} += {product};")

    def _staging(self, length: int, step: Callable[[], None]) -> None:
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


def _piece(length: int) -> int:
    """How many rows of a stream to stage at a time: all, or a part that divides them."""
    if length <= STAGED:
        return length
    fits = [size for size in range(STAGED // 2, STAGED + 1) if length % size == 0]
    return max(fits, default=32)
