"""One prompt per thread: all that a prompt needs stands in the registers of one thread.

Symmetric matrices are triangles. Nothing is shared and nobody waits, so this is the faster shape
wherever a prompt fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from inweave.run.kernel.indices import ZERO, Index, plus, times
from inweave.run.kernel.text import Numbers
from inweave.run.kernel.values import Values
from inweave.run.kernel.writer import Writer
from inweave.run.values.node import PRODUCTS, LoopBody, Node

SMALL = 24  # entries of an input that is read into registers at once
LOOPED = 144  # the same for one that a loop reads
WARP = 32
NEAR = 112 << 10  # bytes of a warp for inputs that a loop sums over: half a multiprocessor's


class PromptPerThread(Writer):
    """A kernel in which every thread has a prompt of its own."""

    def __init__(
        self, values: Values, name: str, numbers: Numbers, check: bool, threads: int, unrolled: int
    ) -> None:
        super().__init__(values, name, numbers, check)
        looped = [x for x in self.sources if not self.is_held(x) and self._is_streamed_again(x)]
        size = numbers.bytes * sum(x.size for x in looped)
        fits = WARP * size <= NEAR
        self.near = {x: f"near{i}" for i, x in enumerate(looped)} if fits else {}
        self.threads = WARP if self.near else threads  # so that as many as can be are under way
        self.unrolled = unrolled or (4 if self.near else 1)  # rows of a stream at a time
        self.shown: dict[Node, tuple[Node, int]] = {}  # inputs, by the sums that are looked at
        for node in values.every():
            product = self._goes_on_with(node)
            if product is not None:
                self.begun[node] = product

    def _goes_on_with(self, node: Node) -> Node | None:
        """A product that a sum is of, and that nothing else reads: it is added term by term."""
        if node.op != "sum" or not self.is_written(node):
            return None
        for part in node.args:
            fits = part.op == "matmul" and part.shape == node.shape and part.level == node.level
            alone = len(self.values.readers[part]) == 1
            plain = part not in self.values.contractions and self.is_written(part)
            if fits and alone and plain and not any(arg.op == "const" for arg in part.args):
                return part
        return None

    @property
    def shared(self) -> int:
        """The numbers of a block that stand in shared memory."""
        return self.threads * sum(x.size for x in self.near)

    def _is_streamed_again(self, source: Node) -> bool:
        """Whether the steps of a loop sum over an input."""
        waiting = [source]
        while waiting:
            for how, reader in self.values.readers[waiting.pop()]:
                if how == "node" and (reader.op == "view" or reader in self.values.streams):
                    if reader.level:
                        return True
                    waiting.append(reader)
                elif how == "node" and reader in self.values.contractions and reader.level:
                    return True
        return False

    def prepare(self) -> None:
        """Bring near what is summed over again and again: each thread its own, side by side."""
        start = 0
        for source, name in self.near.items():
            self.out(f"// {self.title(source)}, near")
            self.out(f"real *{name} = shared + {start} + threadIdx.x;")
            start += source.size * self.threads
            wide = source.size % 4 == 0
            with self.out.loop("q", source.size // 4 if wide else source.size, "FOURFOLD") as q:
                if wide:
                    self.out(f"real4 x4 = LDG4({self.source(source)}, {q});")
                    for e, part in enumerate("xyzw"):
                        at = f"({plus(times(q, 4), str(e))}) * {self.threads}"
                        look = f" LOOK(x4.{part});" if self.check else ""
                        self.out(f"{name}[{at}] = x4.{part};{look}")
                else:
                    self.out(f"real x = LDG({self.source(source)}[{q}]);")
                    self.out(f"{name}[{q} * {self.threads}] = x;{' LOOK(x);' * self.check}")

    def far(self, source: Node, at: str) -> str:
        if source in self.near:
            return f"{self.near[source]}[({at}) * {self.threads}]"
        return super().far(source, at)

    def look(self, source: Node) -> None:
        if source in self.near:
            return
        self._look(source)

    def is_held(self, source: Node) -> bool:
        if source.size <= SMALL:
            return not self._only_streamed(source)
        return source.size <= LOOPED and self._is_looped(source)

    def _is_looped(self, source: Node) -> bool:
        found, waiting = False, [source]
        while waiting:
            for how, reader in self.values.readers[waiting.pop()]:
                if how == "node" and reader.op == "view":
                    waiting.append(reader)
                elif how == "node" and reader.op == "pick":
                    continue
                elif how == "node":
                    if reader in self.values.contractions or reader in self.values.streams:
                        return False
                    found |= reader.level > 0
        return found

    def _only_streamed(self, source: Node) -> bool:
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
                    return False
        return source.size > 1

    # -- entries ----------------------------------------------------------------------------------
    def size(self, node: Node) -> int:
        """How many registers a value takes."""
        return node.rows * (node.rows + 1) // 2 if node in self.values.symmetric else node.size

    def held(self, node: Node, i: Index, j: Index) -> str:
        return self._at(f"v{node.order}", node, i, j)

    def _at(self, name: str, node: Node, i: Index, j: Index) -> str:
        if node in self.values.symmetric:
            return f"{name}[TRI({i}, {j})]"
        return f"{name}[{plus(times(i, node.cols), str(j))}]"

    def of_row(self, name: str, node: Node, axis: int, index: Index, other: Index) -> str:
        return f"{name}[{other}]"

    def stack_entry(self, node: Node, i: Index, j: Index) -> str:
        found = self.values.stack_of(node)
        assert found is not None
        place, flip = found
        i, j = (j, i) if flip else (i, j)
        if node in self.direct:
            return f"s{node.order}[{self.place_in_answer(node, i, j)}]"
        return f"s{node.order}[{plus(times(i, place.cols), str(j))}]"

    # -- statements -------------------------------------------------------------------------------
    def declare(self, node: Node, name: str = "") -> None:
        self.out(f"real {name or f'v{node.order}'}[{self.size(node)}];")

    @contextmanager
    def each(self, node: Node) -> Iterator[tuple[Index, Index]]:
        """Loops over the entries of a value: its row and column."""
        with self.out.loop("i", node.rows) as i:
            stop = "i + 1" if node in self.values.symmetric else node.cols
            with self.out.loop("j", stop) as j:
                yield i, j

    def write(self, node: Node) -> None:
        self.comment(node)
        self.declare(node)
        if node.op in PRODUCTS:
            self._matmul(node)
            return
        with self.each(node) as (i, j):
            self.assign(self.held(node, i, j), node, i, j)
        product = self.begun.get(node)
        if product is not None:
            self.comment(product)
            sign = node.data[2][node.args.index(product)][0]
            self._add_products(node, product, 0, "+=" if sign > 0 else "-=")

    def _add_products(self, target: Node, product: Node, first: int, how: str) -> None:
        """Add the terms of a product from one on."""
        a, b = product.args
        with self.out.block(f"for (int k = {first}; k < {a.cols}; k++)", "UNROLL"):
            k = Index("k")
            with self.each(target) as (i, j):
                self.out(f"{self.held(target, i, j)} {how} {self.term(product, a, b, i, k, j)};")

    def _matmul(self, node: Node) -> None:
        a, b = node.args
        for const in (a, b):
            if const.op == "const" and self._sparse(node, const):
                return
        with self.each(node) as (i, j):
            self.out(f"{self.held(node, i, j)} = {self.term(node, a, b, i, ZERO, j)};")
        if a.cols > 1:
            self._add_products(node, node, 1, "+=")

    def _sparse(self, node: Node, const: Node) -> bool:
        """A product with a constant, written out without its zeros."""
        entries = const.data.entries().astype(float)
        a, b = node.args
        left = const is a
        if (entries != 0).sum() > 400:
            return False
        symmetric = node in self.values.symmetric
        for row in range(node.rows if left else node.cols):
            numbers = entries[row] if left else entries[:, row]
            with self.out.loop("e", node.cols if left else node.rows) as e:
                at = Index("", row)
                i, j = (at, e) if left else (e, at)
                terms = []
                for k, number in enumerate(numbers):
                    if number:
                        K = Index("", k)
                        x = self.entry(b, K, j) if left else self.entry(a, i, K)
                        terms.append(f"({x})" if number == 1 else f"{self.numbers(number)} * ({x})")
                guard = f"if ({j} <= {i}) " if symmetric else ""
                self.out(f"{guard}{self.held(node, i, j)} = {' + '.join(terms) or '0'};")
        return True

    def load(self, source: Node) -> None:
        self.out(f"// {self.title(source)} ({source.rows} x {source.cols})")
        self.declare(source)
        self._copy(f"v{source.order}", self.source(source), source.size)

    def _copy(self, name: str, pointer: str, size: int, look: bool = True) -> None:
        """Entries that stand one after another in memory, four at a time where that can be."""
        if size % 4 == 0:
            with self.out.loop("q", size // 4) as q:
                self.out(f"real4 x4 = LDG4({pointer}, {q});")
                for e, part in enumerate("xyzw"):
                    self.out(f"{name}[{plus(times(q, 4), str(e))}] = x4.{part};")
        else:
            with self.out.loop("q", size) as q:
                self.out(f"{name}[{q}] = LDG({pointer}[{q}]);")
        if self.check and look:
            with self.out.loop("q", size) as q:
                self.out(f"LOOK({name}[{q}]);")

    def _look(self, source: Node) -> None:
        self.out(f"// is {self.title(source)} finite?")
        pointer = self.source(source)
        if source.size % 4 == 0:
            with self.out.loop("q", source.size // 4, "ROLLED") as q:
                self.out(f"real4 x4 = LDG4({pointer}, {q});")
                self.out("LOOK(x4.x); LOOK(x4.y); LOOK(x4.z); LOOK(x4.w);")
        else:
            with self.out.loop("q", source.size, "ROLLED") as q:
                self.out(f"LOOK(LDG({pointer}[{q}]));")

    # -- streams ----------------------------------------------------------------------------------
    def contract(self, nodes: list[Node]) -> None:
        for node in nodes:
            self.comment(node)
            self.declare(node)
            with self.out.loop("e", self.size(node)) as e:
                self.out(f"v{node.order}[{e}] = 0;")
        length = nodes[0].args[0].cols
        factors = {node: self.factors(node) for node in nodes}
        self.shown = self._shown(factors)
        with self._streaming(length) as k:
            for a, b, _ in factors.values():
                self.row(a, 1, k)
                self.row(b, 0, k)
            for node, (a, b, _) in factors.items():
                with self.each(node) as (i, j):
                    self.out(f"{self.held(node, i, j)} += {self.term(node, a, b, i, k, j)};")
        for node, axis in dict.fromkeys(self.shown.values()):
            with self.out.loop("e", node.shape[axis]) as e:
                self.out(f"LOOK({self.held(node, *((ZERO, e) if axis else (e, ZERO)))});")
        for node, (_, _, numbers) in factors.items():
            for number in numbers:
                with self.out.loop("e", self.size(node)) as e:
                    self.out(f"v{node.order}[{e}] *= {number};")

    def _shown(
        self, factors: dict[Node, tuple[Node, Node, list[str]]]
    ) -> dict[Node, tuple[Node, int]]:
        """The inputs that need no look of their own, by the sum and its axis that show them.

        What is not finite makes every product and every sum that it enters not finite. So of the
        sums over k of `a[i, k] b[k, j]` one column shows all of a, and one row all of b.
        """
        found: dict[Node, tuple[Node, int]] = {}
        if not self.check or self.counters:
            return found
        for node in sorted(factors, key=lambda node: node.size):
            for axis, factor in enumerate(factors[node][:2]):
                whole = factor.args[0] if factor.op == "view" else factor
                if whole.op == "source" and whole.size == factor.size:
                    found.setdefault(whole, (node, axis))
        return found

    @contextmanager
    def _streaming(self, length: int) -> Iterator[Index]:
        pragma = "ROLLED" if self.unrolled == 1 else f'_Pragma("unroll {self.unrolled}")'
        with self.out.loop("k", length, pragma) as k:
            yield k
        self.rows.clear()

    def row(self, node: Node, axis: int, k: Index) -> None:
        """Make a row (axis 0) or a column (axis 1) of a stream."""
        if node.op == "view":
            top, left, _, _, flip = node.data
            inner = axis ^ flip
            self.row(node.args[0], inner, k + (left if inner else top))
            return
        key = (node, axis, str(k))
        if node.op == "const" or key in self.rows:
            return
        name, size = f"r{len(self.rows)}", node.shape[1 - axis]
        if node.op == "source":  # a held one, too: no register has an index that is not known
            self.out(f"real {name}[{size}];")
            self._source_row(node, axis, k, name)
        elif node in self.values.streams:
            for arg in node.args:
                spans = arg.shape[axis] == node.shape[axis] and arg.shape[axis] > 1
                if node.op == "matmul":
                    spans = arg is node.args[axis]
                if spans:
                    self.row(arg, axis, k)
            name = f"r{len(self.rows)}"
            self.out(f"// {'row' if axis == 0 else 'column'} {k} of {self.title(node)}")
            self.out(f"real {name}[{size}];")
            self._stream_row(node, axis, k, name)
        else:
            return
        self.rows[key] = name

    def _source_row(self, node: Node, axis: int, k: Index, name: str) -> None:
        size, pointer = node.shape[1 - axis], self.source(node)
        known = node in self.near or node in self.shown or self.is_held(node)
        looks = not (self.counters or known)
        if node in self.near:
            with self.out.loop("q", size) as q:
                i, j = (k, q) if axis == 0 else (q, k)
                self.out(f"{name}[{q}] = {self.far(node, plus(times(i, node.cols), str(j)))};")
        elif axis == 0 or node.cols == 1:
            start = times(k, node.cols) if axis == 0 else "0"
            if size % 4 == 0 and node.cols % 4 == 0 and axis == 0:
                with self.out.loop("q", size // 4) as q:
                    self.out(
                        f"real4 x4 = LDG4({pointer}, {plus(times(k, node.cols // 4), str(q))});"
                    )
                    for e, part in enumerate("xyzw"):
                        self.out(f"{name}[{plus(times(q, 4), str(e))}] = x4.{part};")
            else:
                with self.out.loop("q", size) as q:
                    step = str(q) if axis == 0 else times(q, node.cols)
                    self.out(f"{name}[{q}] = LDG({pointer}[{plus(start, step)}]);")
        else:
            with self.out.loop("q", size) as q:
                self.out(f"{name}[{q}] = LDG({pointer}[{plus(times(q, node.cols), str(k))}]);")
        if self.check and looks:
            with self.out.loop("q", size) as q:
                self.out(f"LOOK({name}[{q}]);")

    def _stream_row(self, node: Node, axis: int, k: Index, name: str) -> None:
        with self.out.loop("e", node.shape[1 - axis]) as e:
            i, j = (k, e) if axis == 0 else (e, k)
            if node.op != "matmul":
                self.assign(f"{name}[{e}]", node, i, j)
                return
            a, b = node.args
            self.out(f"{name}[{e}] = ({self.entry(a, i, ZERO)}) * ({self.entry(b, ZERO, j)});")
            if a.cols > 1:
                with self.out.block(f"for (int m = 1; m < {a.cols}; m++)", "UNROLL"):
                    m = Index("m")
                    self.out(f"{name}[{e}] += ({self.entry(a, i, m)}) * ({self.entry(b, m, j)});")

    # -- loops ------------------------------------------------------------------------------------
    def loop(self, node: Node) -> None:
        body: LoopBody = node.data
        carried = self.values.carried[node]
        stacks, results = self.collected(node)
        for i in carried:
            phi, init = body.phis[i], body.inits[i]
            self.out(f"// {self.title(phi)} ({phi.rows} x {phi.cols}) begins as {self.title(init)}")
            self.declare(phi)
            with self.each(phi) as (r, c):
                self.out(f"{self.held(phi, r, c)} = {self.entry(init, r, c)};")
        for i, (place, _) in stacks.items():
            result = results[i]
            if result in self.direct:
                self.out(f"real *s{result.order} = out{self.direct[result]};")
            else:
                self.out(f"real s{result.order}[{place.size}];")
        with self.counting(body):
            self.scope(body.nodes)
            for i, (place, _) in stacks.items():
                self._collect(results[i], place)
            moved = [i for i in carried if body.nexts[i] is not body.phis[i]]
            for i in moved:
                phi = body.phis[i]
                self.declare(phi, f"n{phi.order}")
                with self.each(phi) as (r, c):
                    target = self._at(f"n{phi.order}", phi, r, c)
                    self.out(f"{target} = {self.entry(body.nexts[i], r, c)};")
            for i in moved:
                phi = body.phis[i]
                with self.out.loop("e", self.size(phi)) as e:
                    self.out(f"v{phi.order}[{e}] = n{phi.order}[{e}];")

    def _collect(self, result: Node, place: Node) -> None:
        rows, at = place.args
        self.out(f"// row {self.at(at)} of {self.title(result)}")
        for row in range(rows.rows):
            to = Index(self.at(at)) + row
            with self.out.loop("j", place.cols) as j:
                if result in self.direct:
                    where = self.place_in_answer(result, to, j)
                else:
                    where = plus(times(to, place.cols), str(j))
                self.out(f"s{result.order}[{where}] = {self.entry(rows, ZERO + row, j)};")

    def store(self, i: int, node: Node) -> None:
        base = node.args[0] if node.flipped else node
        if base in self.direct:
            if self.check:
                with self.out.loop("q", node.size, "ROLLED") as q:
                    self.out(f"REACH(out{i}[{q}]);")
            return
        self.out(f"// the answer {i}: {self.title(node)}")
        if base in self.values.streams:
            axis = self.values.streams[base] ^ (node.op == "view" and node.data[4])
            with self._streaming(node.shape[axis]) as k:
                self.row(node, axis, k)
                if axis == 0 and node.cols % 4 == 0 and not self.check:
                    self._four_by_four(i, node, k)
                    return
                with self.out.loop("e", node.shape[1 - axis]) as e:
                    r, c = (k, e) if axis == 0 else (e, k)
                    self._answer(i, node, r, c)
            return
        with self.out.loop("i", node.rows) as r, self.out.loop("j", node.cols) as c:
            self._answer(i, node, r, c)

    def _four_by_four(self, i: int, node: Node, row: Index) -> None:
        """A row of an answer: rows of other threads are far from it."""
        with self.out.loop("q", node.cols // 4) as q:
            self.out("real4 x4;")
            for e, part in enumerate("xyzw"):
                self.out(f"x4.{part} = {self.entry(node, row, Index(plus(times(q, 4), str(e))))};")
            self.out(f"((real4 *)out{i})[{plus(times(row, node.cols // 4), str(q))}] = x4;")

    def _answer(self, i: int, node: Node, r: Index, c: Index) -> None:
        value = self.entry(node, r, c)
        if self.check:
            self.out(f"{{ real x = {value}; REACH(x); "
                     f"out{i}[{plus(times(r, node.cols), str(c))}] = x; }}")  # fmt: skip
        else:
            self.out(f"out{i}[{plus(times(r, node.cols), str(c))}] = {value};")
