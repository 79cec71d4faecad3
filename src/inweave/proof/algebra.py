"""A proof without a probability: program and network written out as sums of words, and compared.

Both are read as data and computed with `inweave.proof.words`, where a value is what it is for all
inputs at once. A loop is proved by induction, whatever its number of steps: the module that repeats
it starts with the loop's start, one repetition on symbols for what is carried equals one step and
leaves all else as it was, and what follows is computed with symbols for the results. Functions are
symbols of their own, one for every table and argument.

No code of the compiler is used, and none that runs networks. Where words would be too many, or
where the network does not have the program's loops, nothing is claimed and the check over the
finite field stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from inweave.exact.constants import Constant, Shift, identity, select
from inweave.exact.masks import Diagonal, separated
from inweave.language import expressions as ex
from inweave.language.program import Traced
from inweave.model.layers import AttentionLayer, BlockPointwiseLayer, Head, Layer
from inweave.model.modules import Module, Part
from inweave.model.network import Network
from inweave.model.projection import AnyProjection, Projection
from inweave.model.prompt import HALF, Fill, Place, rooted
from inweave.proof.reading import Reading
from inweave.proof.words import Alphabet, TooManyWords, Words

Known = dict[ex.Expr, Words]
State = dict[str, Words]  # every block as tokens x cols, zero below its own rows
Reads = dict[tuple[str | None, Constant, Fraction], Words]  # what heads of one layer read
MOST_STEPS = 64  # of a loop that the network does not repeat, before it is given up


class NotProved(Exception):
    """The algebra does not show equality; says why. It does not show a difference either."""


@dataclass(frozen=True)
class Proof:
    """What was proved: for all inputs; however often loops repeat; for which sizes."""

    every_step: bool  # every loop was proved by induction
    sizes: tuple[str, ...]  # of which nothing depended on how large they are
    letters: int  # that were written


def prove(traced: Traced, network: Network) -> Proof:
    """Prove that a network computes a recorded program, or raise NotProved.

    Their inputs and answers have the same names, kinds and shapes (`interface.compatible`).
    """
    try:
        return Prover(traced, network).proof()
    except TooManyWords:
        raise NotProved("written out, it has too many words") from None


class Prover:
    """One proof: the alphabet, the program's values, and the network's state in words."""

    def __init__(self, traced: Traced, network: Network) -> None:
        self.traced, self.network, self.layout = traced, network, network.layout
        self.alphabet = Alphabet(Reading.of(traced))
        self.often = ex.read_often(traced.outputs.values())
        self._applied: dict[tuple[str, tuple[int, int]], list[tuple[Words, Words]]] = {}
        self.by_induction = True

    def proof(self) -> Proof:
        roots = list(self.traced.outputs.values())
        self._check_loops(roots)
        known: Known = {}
        for x in ex.ordered(roots):
            if isinstance(x, ex.InputExpr):
                known[x] = self.given(x.name, x.rows, x.cols)
        for x in ex.every(roots):
            if isinstance(x, ex.Entrywise):  # so it is from the start that their sizes are fixed
                self.alphabet.fix(*x.shape)
        if not self.alphabet.is_free:
            self.alphabet.reading = Reading({})  # there is no size left to ask about
        state = self.follow(self.network.modules, self.filled(), Scope(self, roots, known))
        for output in self.network.outputs:
            expected = known[self.traced.outputs[output.name]]
            self.same(self.read(state, output.place), expected, f"output {output.name!r}")
        return Proof(self.by_induction, self._generic_sizes(), self.alphabet.written_letters)

    def _check_loops(self, roots: Sequence[ex.Expr]) -> None:
        """Give up at once if a loop is not repeated that is too long to be written out."""
        parts = [part for module in self.network.modules for part in module.walk()]
        repeated = {part.repeat for part in parts if isinstance(part, Module) and part.carries}
        times = {x.loop.times for x in ex.ordered(roots) if isinstance(x, ex.LoopResult)}
        if any(steps > MOST_STEPS for steps in times - repeated):
            raise NotProved("a loop of many steps is not repeated by the network")

    def same(self, got: Words, expected: Words, what: str) -> None:
        if got.shape != expected.shape or not (got - expected).is_zero():
            raise NotProved(f"{what} is written differently")

    def _generic_sizes(self) -> tuple[str, ...]:
        """The sizes that could be others: of none of them anything depended on how large it is.

        Nor of the numbers of rows and columns that are made of it, which only larger ones can be.
        """
        sizes, fixed = self.alphabet.reading.sizes, self.alphabet.fixed
        used = [block for block in self.layout if block.name in self.network.used_blocks]
        seen = {size for block in used for size in (block.rows, block.cols)}
        values = {1, *self.traced.sizes.values()}
        odd = {size for size in seen - values if not self.alphabet.reading.sizes_of(size)}
        return tuple(
            name for name, size in sizes.items() if name not in fixed and size > max(odd, default=0)
        )

    # -- the prompt -------------------------------------------------------------------------------
    def given(self, name: str, rows: int, cols: int) -> Words:
        """An input; one whose root stands in the prompt is the square of that root."""
        if name in rooted(self.network.fills):
            root = self.alphabet.symbol(("root", name), rows, cols)
            return root @ root
        return self.alphabet.symbol(("input", name), rows, cols)

    def filled(self) -> State:
        tokens = self.layout.tokens
        state = {block.name: self.alphabet.zero(tokens, block.cols) for block in self.layout}
        for fill in self.network.fills:
            state = self.write(state, fill.place, self._value(fill))
        return state

    def _value(self, fill: Fill) -> Words:
        if fill.constant is not None:
            value = self.alphabet.constant(fill.constant)
        else:
            spec = next(spec for spec in self.network.inputs if spec.name == fill.source)
            value = self.given(spec.name, spec.rows, spec.cols)
        for name, power in fill.scale:
            scalar = self.given(name, 1, 1)
            if power == HALF:
                scalar = self.alphabet.symbol(("root", name), 1, 1)
            value = value.scaled(scalar)
        return value.times(fill.coefficient)

    def read(self, state: State, place: Place) -> Words:
        """The value that stands at a place."""
        rows, cols = (1, 1) if place.diagonal else place.extent
        part = self._rows(place.row, rows).T @ state[place.block]
        block = self.layout[place.block]
        part = part @ self.alphabet.constant(select(block.cols, place.col, place.col + cols))
        return part.T if place.transpose else part

    def write(self, state: State, place: Place, value: Words) -> State:
        """The state with a value added at a place."""
        if place.diagonal:
            value = self.alphabet.constant(identity(place.diagonal)).scaled(value)
        elif place.transpose:
            value = value.T
        block, (rows, cols) = self.layout[place.block], place.extent
        right = self.alphabet.constant(select(block.cols, place.col, place.col + cols).T)
        added = self._rows(place.row, rows) @ value @ right
        return {**state, place.block: state[place.block] + added}

    def _rows(self, row: int, rows: int) -> Words:
        """The tokens x rows matrix that puts a value at a row of the prompt."""
        return self.alphabet.constant(Shift(self.layout.tokens, rows, row, 0, rows))

    def replaced(self, state: State, place: Place, value: Words) -> State:
        """The state with a value standing at a place instead of what stood there."""
        there = self.read(state, place)
        return self.write(self.write(state, place, there.times(Fraction(-1))), place, value)

    # -- layers -----------------------------------------------------------------------------------
    def follow(self, parts: Sequence[Part], state: State, scope: Scope) -> State:
        """The state after some parts; the loops that they repeat are proved on the way."""
        for part in parts:
            state = self._part(part, state, scope)
        scope.finish()
        return state

    def _part(self, part: Part, state: State, scope: Scope) -> State:
        if not isinstance(part, Module):
            return self._layer(part, state)
        if part.carries:
            return self._loop(part, state, scope)
        self.alphabet.fix(part.repeat)
        for _ in range(part.repeat):
            before = state
            for inner in part.body:
                state = self._part(inner, state, scope)
            if part.skip:
                state = {name: state[name] + before[name] for name in state}
        return state

    def _layer(self, layer: Layer, state: State) -> State:
        if isinstance(layer, BlockPointwiseLayer):
            after = state
            for place, function in layer.applied:
                if place.diagonal:
                    raise NotProved("a function is applied to a diagonal")
                value = self.applied(function.digest, self.read(state, place))
                after = self.replaced(after, place, value)
            return after
        if not isinstance(layer, AttentionLayer):
            raise NotProved("a dense pointwise layer has no words")
        written = {name: [value] if layer.skip else [] for name, value in state.items()}
        read: Reads = {}
        for head in layer.heads:
            for name, value in self._head(head, state, read):
                written[name].append(value)
        return {name: self.alphabet.sum(*state[name].shape, written[name]) for name in state}

    def _head(self, head: Head, state: State, read: Reads) -> Iterator[tuple[str, Words]]:
        """`Q Kᵀ V`: its columns, each with the block in which they stand."""
        parts = (head.query, head.key, head.value)
        query, key, values = (self._project(part, state, read) for part in parts)
        scores = self.alphabet.zero(self.layout.tokens, self.layout.tokens)
        for at, q in query:
            for other, k in key:
                low, high = max(at, other), min(at + q.cols, other + k.cols)
                if low < high:
                    scores += (
                        self._columns(q, low - at, high - at)
                        @ self._columns(k, low - other, high - other).T
                    )
        for at, v in values:
            out = scores @ v
            for block in self.layout:
                low, high = max(at, block.start), min(at + v.cols, block.stop)
                if low < high:
                    part = self._columns(out, low - at, high - at)
                    put = select(block.cols, low - block.start, high - block.start).T
                    yield block.name, part @ self.alphabet.constant(put)

    def _project(
        self, projection: AnyProjection, state: State, read: Reads
    ) -> list[tuple[int, Words]]:
        """The pieces of `H W + B`: from which column on, and what.

        What several heads of a layer read is computed once, and kept in `read`.
        """
        if not isinstance(projection, Projection):
            raise NotProved("a dense projection has no words")
        out = []
        for piece in projection.pieces:
            what = (piece.block, piece.matrix, piece.coefficient)
            if what not in read:
                matrix = self.alphabet.constant(piece.matrix)
                left = self._rows(0, matrix.rows) if piece.block is None else state[piece.block]
                read[what] = (left @ matrix).times(piece.coefficient)
            out.append((piece.at, read[what]))
        return out

    def _columns(self, x: Words, start: int, stop: int) -> Words:
        if (start, stop) == (0, x.cols):
            return x
        self.alphabet.fix(x.cols)  # which columns meet depends on how wide they are
        return x @ self.alphabet.constant(select(x.cols, start, stop))

    def applied(self, digest: str, x: Words) -> Words:
        """A function of every entry: the same symbol for equal arguments.

        Of the transpose it is the transpose, so an argument is looked for both ways round.
        """
        for turned in (False, True):
            wanted = x.T if turned else x
            for argument, value in self._applied.get((digest, wanted.shape), ()):
                if (wanted - argument).is_zero():
                    return value.T if turned else value
        symmetric = x.rows == x.cols and (x - x.T).is_zero()
        known = self._applied.setdefault((digest, x.shape), [])
        value = self.alphabet.symbol((digest, x.shape, len(known)), *x.shape, symmetric)
        known.append((x, value))
        return value

    # -- loops ------------------------------------------------------------------------------------
    def _loop(self, module: Module, state: State, scope: Scope) -> State:
        """Prove one step of a loop for all states, and go on with symbols for its results."""
        loop = scope.next_loop(module)
        start = scope.values(loop.init)
        for places, value in zip(module.carries, start, strict=True):
            for place in places:
                self._stands(state, place, value, "the start of a loop")
        symmetric = [x.rows == x.cols > 1 and (x - x.T).is_zero() for x in start]
        for assumed in dict.fromkeys((tuple(False for _ in start), tuple(symmetric))):
            fixed = set(self.alphabet.fixed)
            try:
                self._step(loop, module, state, scope, assumed)
                break
            except NotProved as failed:
                self.alphabet.fixed, reason = fixed, failed
        else:
            raise reason
        results = self._symbols(loop, "result", assumed)
        scope.finished(loop, results)
        return self._carrying(state, module, results)

    def _step(
        self, loop: ex.Loop, module: Module, state: State, scope: Scope, symmetric: Sequence[bool]
    ) -> None:
        before = self._symbols(loop, "carried", symmetric)
        entered = self._carrying(state, module, before)
        inner = scope.inside(loop, before)
        left = self.follow(module.body, entered, inner)
        if module.skip:
            left = {name: left[name] + entered[name] for name in left}
        after = inner.values(loop.step)
        for kept, value in zip(symmetric, after, strict=True):
            if kept:
                self.same(value, value.T, "a carried value that begins symmetric")
        expected = self._carrying(entered, module, after)
        for block in self.layout:
            name = block.name
            self.same(left[name], expected[name], f"block {name!r} after one step")

    def _symbols(self, loop: ex.Loop, what: str, symmetric: Sequence[bool]) -> list[Words]:
        return [
            self.alphabet.symbol((what, loop.carried[i], kept), *x.shape, kept)
            for i, (x, kept) in enumerate(zip(loop.carried, symmetric, strict=True))
        ]

    def _carrying(self, state: State, module: Module, values: Sequence[Words]) -> State:
        for places, value in zip(module.carries, values, strict=True):
            for place in places:
                if place.diagonal:
                    zero = self.alphabet.zero(1, 1)
                    whole = Place(place.block, place.diagonal, place.diagonal, place.row, place.col)
                    there = self.read(state, whole)
                    state = self.write(state, whole, there.times(Fraction(-1)))
                    state = self.write(state, place, value if value is not None else zero)
                else:
                    state = self.replaced(state, place, value)
        return state

    def _stands(self, state: State, place: Place, value: Words, what: str) -> None:
        if place.diagonal:
            whole = Place(place.block, place.diagonal, place.diagonal, place.row, place.col)
            got = self.read(state, whole)
            value = self.alphabet.constant(identity(place.diagonal)).scaled(value)
        else:
            got = self.read(state, place)
        self.same(got, value, f"{what}, block {place.block!r}")


class Scope:
    """One body of the program: what is known in it, and the loops that are still ahead."""

    def __init__(self, prover: Prover, roots: Sequence[ex.Expr], known: Known) -> None:
        self.prover, self.roots, self.known = prover, list(roots), known
        found: dict[ex.Loop, None] = {}
        for x in ex.ordered(self.roots, stop=known):
            if isinstance(x, ex.LoopResult) and x not in known:
                found.setdefault(x.loop)
        self.ahead = sorted(found, key=lambda loop: loop.carried[0].path)
        self.results: dict[ex.Loop, list[Words]] = {}

    def next_loop(self, module: Module) -> ex.Loop:
        """The loop that a module repeats: the next of the program, if it carries the same."""
        if not self.ahead:
            raise NotProved("the network repeats a module where the program has no loop")
        loop = self.ahead.pop(0)
        if loop.times != module.repeat or len(loop.carried) != len(module.carries):
            raise NotProved("the network does not repeat the program's loops")
        for symbol, places in zip(loop.carried, module.carries, strict=True):
            if any((place.rows, place.cols) != symbol.shape for place in places):
                raise NotProved("a loop carries values of other sizes")
        return loop

    def finished(self, loop: ex.Loop, results: list[Words]) -> None:
        self.results[loop] = results

    def inside(self, loop: ex.Loop, carried: Sequence[Words]) -> Scope:
        """The body of a loop, with symbols for what it carries."""
        self.values(loop.outer)
        known: Known = dict(self.known)
        known.update(zip(loop.carried, carried, strict=True))
        return Scope(self.prover, loop.step, known)

    def finish(self) -> None:
        self.values(self.roots)

    def values(self, roots: Sequence[ex.Expr]) -> list[Words]:
        order = ex.ordered(roots, stop=self.known)
        inner = ex.only_summed(order, self.prover.often)
        for x in order:
            if x not in self.known and x not in inner:
                self.known[x] = self._value(x)
        return [self.known[x] for x in roots]

    def _value(self, x: ex.Expr) -> Words:
        alphabet, known = self.prover.alphabet, self.known
        if isinstance(x, ex.ConstantExpr):
            return alphabet.constant(x.constant)
        if isinstance(x, ex.Sum):
            parts = [(c, known[part]) for c, part in ex.summands(x, self.prover.often)]
            return alphabet.total(x.rows, x.cols, parts)
        if isinstance(x, ex.Product):
            return known[x.a] @ known[x.b]
        if isinstance(x, ex.Scaled):
            return known[x.x].scaled(known[x.s])
        if isinstance(x, ex.Entrywise):
            return self._entrywise(x)
        if isinstance(x, ex.Transposed):
            return known[x.x].T
        if isinstance(x, ex.Held):
            return known[x.x]
        if isinstance(x, ex.Applied):
            return self.prover.applied(x.function.digest, known[x.x])
        if isinstance(x, ex.LoopResult):
            if x.loop not in self.results:
                self.results[x.loop] = self._unrolled(x.loop)
            return self.results[x.loop][x.index]
        raise NotProved(f"{type(x).__name__} has no words")

    def _entrywise(self, x: ex.Entrywise) -> Words:
        """A product entry by entry, which is written differently at every size."""
        alphabet, known = self.prover.alphabet, self.known
        alphabet.fix(*x.shape)
        for mask, y in ((x.a, x.b), (x.b, x.a)):
            if isinstance(mask, ex.ConstantExpr):
                return self._masked(mask.constant, known[y])
        factors = [known[y] for y in _factors(x)]
        entries = []
        columns = [alphabet.constant(select(x.cols, j, j + 1)) for j in range(x.cols)]
        for i in range(x.rows):
            row = alphabet.constant(select(x.rows, i, i + 1))
            rows = [row.T @ factor for factor in factors]
            for column in columns:
                entry = row @ column.T
                for factor in rows:
                    entry = entry.scaled(factor @ column)
                entries.append(entry)
        return alphabet.sum(*x.shape, entries)

    def _masked(self, mask: Constant, x: Words) -> Words:
        """A constant times a value, entry by entry."""
        parts = [
            self._diagonal(x.rows, left) @ x @ self._diagonal(x.cols, right)
            for left, right in separated(mask.entries())
        ]
        return self.prover.alphabet.sum(*x.shape, parts)

    def _diagonal(self, size: int, pieces: Diagonal) -> Words:
        alphabet = self.prover.alphabet
        return alphabet.total(size, size, [(c, alphabet.constant(piece)) for piece, c in pieces])

    def _unrolled(self, loop: ex.Loop) -> list[Words]:
        """A loop that the network does not repeat, step by step."""
        if loop.times > MOST_STEPS:
            raise NotProved("a loop of many steps is not repeated by the network")
        if loop in self.ahead:
            self.ahead.remove(loop)
        self.prover.by_induction = False
        self.prover.alphabet.fix(loop.times)
        state = self.values(loop.init)
        for _ in range(loop.times):
            state = self.inside(loop, state).values(loop.step)
        return state


def _factors(x: ex.Entrywise) -> list[ex.Expr]:
    """The values whose entries are multiplied, through products of products."""
    found: list[ex.Expr] = []
    waiting: list[ex.Expr] = [x]
    while waiting:
        y = waiting.pop()
        if isinstance(y, ex.Entrywise):
            waiting += y.parts
        else:
            found.append(y)
    return found
