"""One row per thread: the threads of a prompt hold a row each, and a block some prompts.

Where all that a loop carries goes round by a row in every step, rows stay where they are and
threads change theirs.
"""

from __future__ import annotations

from inweave.run.kernel.indices import ZERO, Index, plus, through, times
from inweave.run.kernel.rows import LANE
from inweave.run.kernel.shared import Place, extent
from inweave.run.kernel.staging import StagedRows
from inweave.run.kernel.text import Refused
from inweave.run.values.node import LoopBody, Node

BLOCK = 128  # threads of a block
SHARED = 64 << 10  # bytes of shared memory of a block, where it holds several prompts
SAVED = 0.9  # of it, at most, for buffers to stand one above another
MOST_SHARED = 200 << 10  # where it holds one


class RowPerThread(StagedRows):
    """A kernel in which every thread has a row."""

    # -- the whole --------------------------------------------------------------------------------
    def body(self) -> str:
        """Written twice, first to see what is read of other rows; again where memory is short."""
        super().body()
        self.restart()
        super().body()
        wanted = self._asked or max(1, BLOCK // self.group)
        above, self.places = self.one_above_another(), self.side_by_side()
        apart, size = self._bytes(self.places), self._bytes(above)
        if wanted * apart > SHARED and size <= SAVED * apart:
            self.restart(above)
            super().body()
        size = self._bytes(self.places)
        if size > MOST_SHARED:
            raise Refused(f"a prompt takes {size >> 10} KB of shared memory, "
                          f"a block has {MOST_SHARED >> 10}")  # fmt: skip
        self.prompts = max(1, min(wanted, SHARED // size))
        return str(self.out)

    def _bytes(self, places: dict[str, Place]) -> int:
        return max(1, extent(places) * self.numbers.bytes)

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
        stacks, results = self.collected(node)
        for i, (place, _) in stacks.items():
            if results[i] not in self.direct:
                self.buffer(f"s{results[i].order}", place.size)
        moved = [i for i in carried if body.nexts[i] is not body.phis[i]]
        name = f"t{len(self.counters)}"
        turn = self.turn(node)
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

    def _next(self, phi: Node, after: Node, turns: bool) -> None:
        """What a carried value will be: where rows go round, the own one but for its columns."""
        self.declare(phi, f"n{phi.order}")
        move = self.values.moves[after] if turns and not phi.is_scalar else None
        with self.statement(), self.each(phi) as (r, c):
            at = self.register(phi, r if self.axis(phi) else c, f"n{phi.order}")
            if move is None:
                value = self.entry(after, r, c)
            else:
                value = self.entry(move.base, r, through(c, move.cols))
            self.out(f"{at} = {value};")

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
        rows, at = place.args
        self.out(f"// row {self.at(at)} of {self.title(result)}")
        for i in range(rows.rows):
            self._collect_row(result, place, ZERO + i, Index(self.at(at), known=False) + i)

    def _collect_row(self, result: Node, place: Node, row: Index, where: Index) -> None:
        rows, direct = place.args[0], result in self.direct
        with self.statement(*([] if direct else [f"s{result.order}"])):
            if place.cols == 1:
                value, j = self.entry(rows, row, ZERO), ZERO
                head = "if (lane == 0)"
            elif place.cols <= self.group:
                value, j = self.entry(rows, row, LANE), LANE
                head = f"if (lane < {place.cols})"
            else:
                j = Index("j", known=False)
                value = self.entry(rows, row, j)
                head = f"for (int j = lane; j < {place.cols}; j += {self.group})"
            with self.out.block(head):
                if direct:
                    target = f"out{self.direct[result]}[{self.place_in_answer(result, where, j)}]"
                    if self.check:
                        self.out(f"REACH({value});")
                else:
                    target = f"s{result.order}[{plus(times(where, place.cols), str(j))}]"
                self.out(f"{target} = {value};")

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
            elif self.length(node) <= self.group or node.op == "phi" or self.is_written(node):
                with self.each(node) as (r, c):
                    self._answer(i, node, r, c)
            else:
                with self.out.block(f"for (int q = lane; q < {node.size}; q += {self.group})"):
                    r = Index(f"(q / {node.cols})", known=False)
                    self._answer(i, node, r, Index(f"(q % {node.cols})", known=False))
