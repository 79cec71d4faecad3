"""A proof without a probability: program and network written out as sums of words, and compared.

Both are read as data and computed with `inweave.proof.words`, where a value is what it is for all
inputs at once. A loop is proved by induction, whatever its number of steps: the module that repeats
it starts with the loop's start, one repetition on symbols for what is carried equals one step and
leaves all else as it was, and what follows is computed with symbols for the results. Blocks besides
that a step changes are symbols too, before and after: it is proved whatever stands in them.
Functions are symbols of their own, one for every table and argument.

No code of the compiler is used, and none that runs networks. Where words would be too many, or
where the network does not have the program's loops, nothing is claimed and the check over the
finite field stands.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from inweave.exact.constants import Constant, select
from inweave.exact.masks import Diagonal, separated
from inweave.language import expressions as ex
from inweave.language.program import Traced
from inweave.model.modules import Module, Part, loops_of
from inweave.model.network import Network
from inweave.model.relunet import Function
from inweave.proof.reading import Reading
from inweave.proof.states import NotProved as NotProved
from inweave.proof.states import State, States
from inweave.proof.words import MOST_WORDS, Alphabet, TooManyWords, Words

Known = dict[ex.Expr, Words]
MOST_STEPS = 64  # of a loop that the network does not repeat, before it is given up


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


class Prover(States):
    """One proof: the alphabet, the program's values, and the network's state in words."""

    def __init__(self, traced: Traced, network: Network, alphabet: Alphabet | None = None) -> None:
        super().__init__(network, alphabet or Alphabet(Reading.of(traced)))
        self.traced = traced
        self.often = ex.read_often(traced.outputs.values())
        self._applied: dict[tuple[str, tuple[int, int]], list[tuple[Words, Words]]] = {}
        self.by_induction = True

    def proof(self) -> Proof:
        roots = list(self.traced.outputs.values())
        self.check_loops(roots)
        inputs = [x for x in ex.ordered(roots) if isinstance(x, ex.InputExpr)]
        known: Known = {x: self.given(x.name, *x.shape) for x in inputs}
        products = [x for x in ex.every(roots) if isinstance(x, ex.Entrywise)]
        for x in products:  # so it is from the start that their sizes are fixed
            self.alphabet.fix(*x.shape)
        if products:
            check_entries(roots, self.often)
        if not self.alphabet.is_free:
            self.alphabet.reading = Reading({})  # there is no size left to ask about
        state = self.follow(self.network.modules, self.filled(), Scope(self, roots, known))
        for output in self.network.outputs:
            expected = known[self.traced.outputs[output.name]]
            self.same(self.read(state, output.place), expected, f"output {output.name!r}")
        return Proof(self.by_induction, self._generic_sizes(), self.alphabet.written_letters)

    def check_loops(self, roots: Sequence[ex.Expr]) -> None:
        """Give up at once if a loop is not repeated that is too long to be written out."""
        repeated = {loop.repeat for loop in loops_of(self.network.modules)}
        times = {x.loop.times for x in ex.ordered(roots) if isinstance(x, ex.LoopResult)}
        if any(steps > MOST_STEPS for steps in times - repeated):
            raise NotProved("a loop of many steps is not repeated by the network")

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

    # -- layers -----------------------------------------------------------------------------------
    def follow(self, parts: Sequence[Part], state: State, scope: Scope) -> State:
        """The state after some parts; the loops that they repeat are proved on the way."""
        for part in parts:
            state = self._part(part, state, scope)
        scope.values(scope.roots)
        return state

    def _part(self, part: Part, state: State, scope: Scope) -> State:
        if not isinstance(part, Module):
            return self.layer(part, state)
        if part.carries:
            return self._loop(part, state, scope)
        self.alphabet.fix(part.repeat)
        for _ in range(part.repeat):
            before = state
            for inner in part.body:
                state = self._part(inner, state, scope)
            state = self.skipped(part, before, state)
        return state

    def applied(self, function: Function, x: Words) -> Words:
        """A function of every entry: the same symbol for equal arguments.

        Of the transpose it is the transpose, so an argument is looked for both ways round.
        """
        digest = function.digest
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
    def steps(self, loop: ex.Loop, scope: Scope) -> list[Words]:
        """What a loop ends with that the network does not repeat, step by step."""
        if loop.times > MOST_STEPS:
            raise NotProved("a loop of many steps is not repeated by the network")
        return scope.unrolled(loop)

    def _loop(self, module: Module, state: State, scope: Scope) -> State:
        """Prove one step of a loop for all states, and go on with symbols for its results."""
        loop = scope.next_loop(module)
        start = scope.values(loop.init)
        for places, value in zip(module.carries, start, strict=True):
            for place in places:
                self.stands(state, place, value, "the start of a loop")
        symmetric = [x.rows == x.cols > 1 and (x - x.T).is_zero() for x in start]
        for assumed in dict.fromkeys((tuple(False for _ in start), tuple(symmetric))):
            fixed = set(self.alphabet.fixed)
            try:
                loose = self._steps(loop, module, state, scope, assumed)
                break
            except NotProved as failed:
                self.alphabet.fixed, reason = fixed, failed
        else:
            raise reason
        results = self._symbols(loop, "result", assumed)
        scope.results[loop] = results
        return self.carrying(self._unknown(state, loop, "after", loose), module, results)

    def _steps(
        self, loop: ex.Loop, module: Module, state: State, scope: Scope, symmetric: Sequence[bool]
    ) -> set[str]:
        """Prove a step; gives the blocks that it changes besides, whatever stands in them."""
        carrying = {place.block for places in module.carries for place in places}
        loose = set[str]()
        while True:
            before = self._symbols(loop, "carried", symmetric)
            entered = self.carrying(self._unknown(state, loop, "before", loose), module, before)
            inner = scope.inside(loop, before)
            left = self.skipped(module, entered, self.follow(module.body, entered, inner))
            after = inner.values(loop.step)
            for kept, value in zip(symmetric, after, strict=True):
                if kept:
                    self.same(value, value.T, "a carried value that begins symmetric")
            expected, changed = self.carrying(entered, module, after), set[str]()
            for name in (x for x in state if x not in loose):
                try:
                    self.same(left[name], expected[name], f"block {name!r} after one step")
                except NotProved:
                    if name in carrying:
                        raise
                    changed.add(name)
            if not changed:
                return loose
            loose |= changed

    def _unknown(self, state: State, loop: ex.Loop, when: str, blocks: set[str]) -> State:
        """The state with symbols for all that stands in some blocks."""
        symbol = self.alphabet.symbol
        fresh = {x: symbol((when, loop.carried[0], x), *state[x].shape) for x in sorted(blocks)}
        return {**state, **fresh}

    def _symbols(self, loop: ex.Loop, what: str, symmetric: Sequence[bool]) -> list[Words]:
        return [
            self.alphabet.symbol((what, loop.carried[i], kept), *x.shape, kept)
            for i, (x, kept) in enumerate(zip(loop.carried, symmetric, strict=True))
        ]


def check_entries(roots: Sequence[ex.Expr], often: Collection[ex.Expr]) -> None:
    """Give up at once where products entry by entry have too many words.

    An entry of a matrix has as many as any other, so one is written out, in symbols for all that
    is not multiplied entry by entry.
    """
    alphabet, products, order = Alphabet(), Known(), ex.ordered(roots)
    inner = ex.only_summed(order, often)

    def entry(x: ex.Expr) -> Words:
        return products[x] if x in products else alphabet.symbol(x, 1, 1)

    for x in order:
        if isinstance(x, ex.Sum) and x not in inner:
            parts = ex.summands(x, often)
            if any(part in products for _, part in parts):
                products[x] = alphabet.total(1, 1, [(c, entry(part)) for c, part in parts])
        elif isinstance(x, ex.Held):
            products[x] = entry(x.x)
        elif isinstance(x, ex.Entrywise):
            if not any(isinstance(part, ex.ConstantExpr) for part in x.parts):
                products[x] = entry(x.a) @ entry(x.b)
                if len(products[x].terms) * x.rows * x.cols > MOST_WORDS:
                    raise TooManyWords


class Scope:
    """One body of the program: what is known in it, and the loops that are still ahead."""

    def __init__(self, prover: Prover, roots: Sequence[ex.Expr], known: Known) -> None:
        self.prover, self.roots, self.known = prover, list(roots), known
        found = {x.loop for x in ex.ordered(self.roots, stop=known) if isinstance(x, ex.LoopResult)}
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

    def inside(self, loop: ex.Loop, carried: Sequence[Words]) -> Scope:
        """The body of a loop, with symbols for what it carries."""
        self.values(loop.outer)
        known: Known = dict(self.known)
        known.update(zip(loop.carried, carried, strict=True))
        return Scope(self.prover, loop.step, known)

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
            return self.prover.applied(x.function, known[x.x])
        if isinstance(x, ex.LoopResult):
            if x.loop not in self.results:
                self.results[x.loop] = self.prover.steps(x.loop, self)
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

    def unrolled(self, loop: ex.Loop) -> list[Words]:
        """What a loop ends with, step by step."""
        if loop in self.ahead:
            self.ahead.remove(loop)
        self.prover.by_induction = False
        self.prover.alphabet.fix(loop.times)
        state = self.values(loop.init)
        for _ in range(loop.times):
            state = [x.gathered() for x in self.inside(loop, state).values(loop.step)]
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
