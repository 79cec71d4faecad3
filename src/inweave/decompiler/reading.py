"""From a network to statements: what its layers compute, named as soon as it is more than a word.

The network is followed once over sums of words (`inweave.proof.states`). Whatever a layer leaves in
a block becomes a symbol, and its words become the symbol's definition, so that words stay short
however deep the network is. A repeated module is read once: it begins with symbols for what it
carries, and what it leaves of them is the step. `carries` says where they stand; without it, a
module carries the blocks that it does not leave as they were.

A prompt may hold `√η X`, and no program does. Roots are therefore kept outside of symbols: each is
in every word of a sum or in none, or the sum is taken apart.

Which heads compute a symbol is noted beside it. A head that only moves a value, so that what it
leaves needs no name, waits with the block that it wrote for the next symbol that is made of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import NamedTuple, cast

from inweave.decompiler.statements import (
    Body,
    HeadAt,
    Heads,
    Key,
    Let,
    Letters,
    Loop,
    Read,
    letters_of,
)
from inweave.decompiler.tidy import tidy
from inweave.errors import DecompileError
from inweave.exact.constants import Dense, select
from inweave.model.embedding import in_pieces
from inweave.model.layers import AttentionLayer, Head, Layer, PointwiseLayer
from inweave.model.modules import Module, Part, named
from inweave.model.network import Network
from inweave.model.projection import AnyProjection, Projection
from inweave.model.relunet import Function
from inweave.proof.states import NotProved, Reads, State, States
from inweave.proof.words import (
    FIRST,
    LAST,
    Chain,
    Number,
    TooManyWords,
    Word,
    Words,
)
from inweave.text.network import Words as Spelling

SIMPLE = 1  # symbols in a word that needs no name of its own
NOBODY: Heads = frozenset()


class Step(NamedTuple):
    """One step of a loop: its statements, what it leaves, and the heads of what it carries.

    The `rest` are heads that clear what is to be as it was before the next step.
    """

    body: Body
    left: State
    by: tuple[Heads, ...]
    rest: Heads


def read(network: Network) -> Read:
    """What a plain network computes."""
    return Reader(network).read_all()


class Reader(States):
    """One reading."""

    alphabet: Letters

    def __init__(self, network: Network) -> None:
        super().__init__(network, Letters())
        self.spelling = Spelling(network)
        self._numbers = count()
        self._body = Body()
        self._layers = {name: i for i, name in enumerate(_names(network.modules))}
        self._by: dict[int | str, Heads] = {}
        self._waiting = dict.fromkeys((block.name for block in network.layout), NOBODY)
        self._wrote: dict[str, list[tuple[Words, Heads]]] = {}  # by the heads of a layer
        self._here: Iterator[HeadAt] = iter(())  # the heads of that layer, in order
        self._now = NOBODY  # the heads of what is being named

    def read_all(self) -> Read:
        body = self._body = Body()
        try:
            state = self._follow(self.network.modules, self.filled(), "")
            answers = {o.name: self._even(self.read(state, o.place)) for o in self.network.outputs}
            self._by |= {o.name: self._waiting[o.place.block] for o in self.network.outputs}
        except NotProved as error:
            raise DecompileError(f"{error}: no program says that") from None
        except TooManyWords:
            raise DecompileError(
                "a layer of this network has more products than a program of readable length"
            ) from None
        return Read(self.alphabet, body, answers, self._by)

    # -- symbols ----------------------------------------------------------------------------------
    def root(self, name: str) -> Words:
        return self.alphabet.symbol(("root", name), 1, 1)

    def _new(self, name: str, rows: int, cols: int, symmetric: bool = False) -> Words:
        key = ("value", name, str(next(self._numbers)))
        return self.alphabet.symbol(key, rows, cols, symmetric)

    def _name(self, name: str, words: Words) -> Words:
        """The same value as a symbol."""
        down, right = self._around(words)
        return down @ self._named(name, self._tidy(down.T @ words @ right)) @ right.T

    def _around(self, words: Words, *others: Words) -> tuple[Words, Words]:
        """The columns of identities that leave of sums the rows and columns that are not zero.

        A block holds values of several heights in turn, and what they are depends on it.
        """
        found = []
        for end, size in zip((FIRST, LAST), words.shape, strict=True):
            chains = [chain for x in (words, *others) for _, chain in x.terms]
            spans = [self.alphabet.reach(chain, end) or range(size) for chain in chains]
            start = min((at.start for at in spans), default=0)
            stop = max((at.stop for at in spans), default=1)
            found.append(self.alphabet.constant(select(size, start, stop)))
        return found[0], found[1]

    def _tidy(self, words: Words) -> Words:
        return tidy(self.alphabet, words)

    def _named(self, name: str, words: Words) -> Words:
        total = self.alphabet.zero(*words.shape)
        for odd, part in self._by_roots(words):
            scalar = self._scalar(part)
            part = part if scalar is None else scalar[0]
            symbol = self._new(name, *part.shape)
            self._let(symbol, part)
            value = symbol if scalar is None else scalar[1].scaled(symbol)
            for root in odd:
                value = value.scaled(self.root(root))
            total += value
        return total

    def _is_simple(self, words: Words) -> bool:
        """Whether a value is hardly more than a symbol, and needs no name."""
        return len(words.terms) <= 1 and self._symbols(words) <= SIMPLE

    def _symbols(self, words: Words) -> int:
        kinds = {n: self.alphabet.key(n) for n in letters_of(words)}
        return sum(
            times
            for n, times in letters_of(words).items()
            if (key := kinds[n]) is not None and key[0] != "root"
        )

    def _scalar(self, words: Words) -> tuple[Words, Words] | None:
        """A scalar times one constant matrix, as both, if that is what all words are."""
        chains = {chain for _, chain in words.terms}
        if words.shape == (1, 1) or len(chains) != 1:
            return None
        (chain,) = chains
        if any(self.alphabet.key(n) is not None for n, _ in chain):
            return None
        terms: dict[Word, Number] = {(scalars, ()): c for (scalars, _), c in words.terms.items()}
        one = Words(self.alphabet, *words.shape, {((), chain): 1})
        return Words(self.alphabet, 1, 1, terms), one

    def _by_roots(self, words: Words) -> list[tuple[frozenset[str], Words]]:
        """Words with the same roots to odd powers together, those roots left out."""
        found: dict[frozenset[str], dict[Word, Number]] = {}
        for (scalars, chain), c in words.terms.items():
            roots = Counter(s for s in scalars if self._is_root(s))
            odd = [s for s, times in roots.items() if times % 2]
            rest = list(scalars)
            for s in odd:
                rest.remove(s)
            names = frozenset(cast(Key, self.alphabet.key(s[0][0]))[1] for s in odd)
            found.setdefault(names, {})[tuple(rest), chain] = c
        return [(odd, Words(self.alphabet, *words.shape, part)) for odd, part in found.items()]

    def _is_root(self, scalar: Chain) -> bool:
        key = self.alphabet.key(scalar[0][0])
        return len(scalar) == 1 and key is not None and key[0] == "root"

    def _even(self, words: Words) -> Words:
        """Words without a lone root; others are refused."""
        words = self._tidy(words)
        for odd, _ in self._by_roots(words):
            if odd:
                raise DecompileError(
                    f"the square root of {', '.join(sorted(odd))} stands alone in a value that is "
                    "carried, answered or a function's argument: no program has it"
                )
        return words

    def applied(self, function: Function, x: Words) -> Words:
        symbol = self._new(function.name, *x.shape)
        self._let(symbol, self._even(x), function)
        return symbol

    def _let(self, symbol: Words, words: Words, function: Function | None = None) -> None:
        number = self.alphabet.number_of(symbol)
        self._by[number] = self._now
        self._body.statements.append(Let(number, words, function))

    # -- parts ------------------------------------------------------------------------------------
    def _follow(self, parts: Iterable[Part], state: State, where: str) -> State:
        for name, part in named(parts, where):
            self.alphabet.written_letters = 0
            if not isinstance(part, Module):
                state = self._layered(part, state, name)
            elif part.repeat == 1 and not part.carries:
                after = self._follow(part.body, state, name)
                state = self._skipped(part, state, after)
            elif part.repeat:
                state = self._loop(part, state, name)
        return state

    def _skipped(self, module: Module, before: State, after: State) -> State:
        if not module.skip:
            return after
        return {name: before[name] + words for name, words in after.items()}

    def _layered(self, layer: Layer, state: State, where: str) -> State:
        """The state after a layer, all that is new in it named."""
        if isinstance(layer, PointwiseLayer):
            raise DecompileError(
                f"{where} is a pointwise layer of dense weights, which say of no block what "
                "function of it they compute; hold it as a BlockPointwiseLayer"
            )
        self.spelling.layer(self._layers[where])
        if isinstance(layer, AttentionLayer):
            layer = replace(layer, heads=tuple(self._pieces(h, where) for h in layer.heads))
        at = self._layers[where]
        self._here, self._wrote = (HeadAt(at, k) for k in count()), {}
        if not isinstance(layer, AttentionLayer):
            blocks = [place.block for place, _ in layer.applied]
            self._now = NOBODY.union({HeadAt(at, None)}, *(self._waiting[b] for b in blocks))
        after = self.layer(layer, state)
        for name in state:
            if after[name].terms != state[name].terms:
                after[name] = self._changed(layer, name, self._tidy(after[name]))
        return after

    def _changed(self, layer: Layer, block: str, words: Words) -> Words:
        """What a layer leaves in a block, named where it needs a name."""
        moved = NOBODY
        if isinstance(layer, AttentionLayer):
            before = self._waiting[block] if layer.skip else NOBODY
            moved = self._now = self._writers(block) | before
        if not self._is_simple(words):
            words, moved = self._name(self.spelling.name(block, then=True), words), NOBODY
        self._waiting = {**self._waiting, block: moved}
        return words

    def _writers(self, block: str) -> Heads:
        """The heads that change a block, without those that add up to nothing."""
        wrote = self._wrote.get(block, [])
        shape = self.layout.tokens, self.layout[block].cols
        total = self.alphabet.sum(*shape, (words for words, _ in wrote))
        return NOBODY.union(*(who for x, who in wrote if x.terms.keys() & total.terms.keys()))

    def head(self, head: Head, state: State, read: Reads) -> Iterator[tuple[str, Words]]:
        pieces = (p for part in head.projections for p in cast(Projection, part).pieces)
        sources = {p.block for p in pieces if p.block is not None and self._waiting[p.block]}
        at = next(self._here)
        for block, words in super().head(head, state, read):
            if words.terms:
                here = letters_of(words).keys()
                before = (self._waiting[s] for s in sources if letters_of(state[s]).keys() & here)
                who = frozenset({at}).union(*before)
                self._wrote.setdefault(block, []).append((words, who))
            yield block, words

    def _pieces(self, head: Head, where: str) -> Head:
        """A head whose projections say which blocks they read."""
        return Head(*(self._piecewise(projection, where) for projection in head.projections))

    def _piecewise(self, projection: AnyProjection, where: str) -> AnyProjection:
        if isinstance(projection, Projection):
            return projection
        pieces = in_pieces(projection, self.layout)
        if any(isinstance(piece.matrix, Dense) for piece in pieces.pieces):
            raise DecompileError(
                f"{where} has a head of dense weights, which mix the entries of blocks: a program "
                "is read from blocks, so this network lacks the embedding that says where they are"
            )
        return pieces

    # -- loops ------------------------------------------------------------------------------------
    def _loop(self, module: Module, state: State, where: str) -> State:
        if module.carries:
            start = [self._tidy(self.read(state, places[0])) for places in module.carries]
            symmetric = tuple(x.rows == x.cols > 1 and (x - x.T).is_zero() for x in start)
            for assumed in dict.fromkeys((tuple(False for _ in start), symmetric)):
                with suppress(NotProved):
                    return self._declared(module, state, start, assumed, where)
        return self._found(module, state, where)

    def _stepped(self, module: Module, entered: State, blocks: Sequence[str], where: str) -> Step:
        """One step from a state of symbols, which stand in `blocks`."""
        outside, self._body = self._body, Body()
        waiting, self._waiting = self._waiting, self._taken(blocks)
        try:
            left = self._follow(module.body, entered, where)
            by = tuple(self._waiting[block] for block in blocks)
            rest = (self._waiting[block] for block in self._waiting if block not in blocks)
            left = self._skipped(module, entered, left)
            return Step(self._body, left, by, NOBODY.union(*rest))
        finally:
            self._body, self._waiting = outside, waiting

    def _taken(self, blocks: Sequence[str]) -> dict[str, Heads]:
        """The heads that wait, when those of some blocks have what they waited for."""
        return {**self._waiting, **dict.fromkeys(blocks, NOBODY)}

    def _declared(
        self,
        module: Module,
        state: State,
        start: Sequence[Words],
        symmetric: Sequence[bool],
        where: str,
    ) -> State:
        """A loop that carries what the module says, or NotProved."""
        for places, value in zip(module.carries, start, strict=True):
            for place in places:
                self.stands(state, place, value, "the start of a loop")
        names = [places[0].block for places in module.carries]
        shapes = [(*x.shape, kept) for x, kept in zip(start, symmetric, strict=True)]
        carried = [self._new(name, *shape) for name, shape in zip(names, shapes, strict=True)]
        entered = self.carrying(state, module, carried)
        step = self._stepped(module, entered, names, where)
        after = [self._tidy(self.read(step.left, places[0])) for places in module.carries]
        expected = self.carrying(entered, module, after)
        for block in self.layout:
            self.same(step.left[block.name], expected[block.name], f"{where}: block {block.name!r}")
        results = [self._new(name, *shape) for name, shape in zip(names, shapes, strict=True)]
        self._add(module, names, carried, start, step, after, results, declared=True)
        return self.carrying(state, module, results)

    def _found(self, module: Module, state: State, where: str) -> State:
        """A loop that carries the blocks which one step does not leave as they were."""
        moving: dict[str, tuple[Words, Words]] = {}  # rows and columns of blocks

        def core(of: State) -> list[Words]:
            return [self._tidy(down.T @ of[n] @ right) for n, (down, right) in moving.items()]

        def placed(values: Sequence[Words]) -> State:
            pairs = zip(moving.items(), values, strict=True)
            return {**state, **{n: down @ x @ right.T for (n, (down, right)), x in pairs}}

        while True:
            start = core(state)
            carried = [self._new(n, *x.shape) for n, x in zip(moving, start, strict=True)]
            entered = placed(carried)
            step = self._stepped(module, entered, [*moving], where)
            after = core(step.left)
            ends = placed(after)
            more = [name for name in state if not _equal(step.left[name], ends[name])]
            if not more:
                break
            moving |= {n: self._around(state[n], entered[n], step.left[n]) for n in more}
        results = [self._new(name, *x.shape) for name, x in zip(moving, start, strict=True)]
        self._add(module, [*moving], carried, start, step, after, results, declared=False)
        return placed(results)

    def _add(
        self,
        module: Module,
        blocks: Sequence[str],
        carried: Sequence[Words],
        start: Sequence[Words],
        step: Step,
        after: Sequence[Words],
        results: Sequence[Words],
        declared: bool,
    ) -> None:
        number = self.alphabet.number_of
        loop = Loop(
            module.repeat,
            tuple(map(number, carried)),
            tuple(map(self._even, start)),
            step.body,
            tuple(map(self._even, after)),
            tuple(map(number, results)),
            declared,
        )
        self._by |= zip(loop.carried, step.by, strict=True)
        self._by |= {
            number: self._waiting[block] | step.rest
            for number, block in zip(loop.results, blocks, strict=True)
        }
        self._waiting = self._taken(blocks)
        self._body.statements.append(loop)


def _equal(a: Words, b: Words) -> bool:
    return (a - b).is_zero()


def _names(parts: Iterable[Part], outside: str = "") -> Iterator[str]:
    """The names of layers, in the order in which they are stored."""
    for name, part in named(parts, outside):
        if isinstance(part, Module):
            yield from _names(part.body, name)
        else:
            yield name
