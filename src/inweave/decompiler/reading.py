"""From a network to statements: what its layers compute, named as soon as it is more than a word.

The network is followed once over sums of words (`inweave.proof.states`). Whatever a layer leaves in
a block becomes a symbol, and its words become the symbol's definition, so that words stay short
however deep the network is. A repeated module is read once: it begins with symbols for what it
carries, and what it leaves of them is the step. `carries` says where they stand; without it, a
module carries the blocks that it does not leave as they were.

A prompt may hold `√η X`, and no program does. Roots are therefore kept outside of symbols: each is
in every word of a sum or in none, or the sum is taken apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import cast

from inweave.decompiler.statements import Body, Key, Let, Letters, Loop, Read, letters_of
from inweave.decompiler.tidy import tidy
from inweave.errors import DecompileError
from inweave.exact.constants import (
    Dense,
    select,
)
from inweave.model.embedding import in_pieces
from inweave.model.layers import AttentionLayer, Head, Layer, PointwiseLayer
from inweave.model.modules import Module, Part, named
from inweave.model.network import Network
from inweave.model.projection import AnyProjection, Projection
from inweave.model.relunet import Function
from inweave.proof.states import NotProved, State, States
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

    def read_all(self) -> Read:
        body = self._body = Body()
        try:
            state = self._follow(self.network.modules, self.filled(), "")
            answers = {o.name: self._even(self.read(state, o.place)) for o in self.network.outputs}
        except NotProved as error:
            raise DecompileError(f"{error}: no program says that") from None
        except TooManyWords:
            raise DecompileError(
                "a layer of this network has more products than a program of readable length"
            ) from None
        return Read(self.alphabet, body, answers)

    # -- symbols ----------------------------------------------------------------------------------
    def root(self, name: str) -> Words:
        return self.alphabet.symbol(("root", name), 1, 1)

    def _new(self, name: str, rows: int, cols: int, symmetric: bool = False) -> Words:
        key = ("value", name, str(next(self._numbers)))
        return self.alphabet.symbol(key, rows, cols, symmetric)

    def _name(self, name: str, words: Words) -> Words:
        """The same value as a symbol, unless it is hardly more than one."""
        words = self._tidy(words)
        if len(words.terms) <= 1 and self._symbols(words) <= SIMPLE:
            return words
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
            self._body.statements.append(Let(self.alphabet.number_of(symbol), part))
            value = symbol if scalar is None else scalar[1].scaled(symbol)
            for root in odd:
                value = value.scaled(self.root(root))
            total += value
        return total

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
        let = Let(self.alphabet.number_of(symbol), self._even(x), function)
        self._body.statements.append(let)
        return symbol

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
        after = self.layer(layer, state)
        for block in self.layout:
            if after[block.name].terms != state[block.name].terms:
                name = self.spelling.name(block.name, then=True)
                after[block.name] = self._name(name, after[block.name])
        return after

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
        outside, numbers = self._body, self._numbers
        if module.carries:
            start = [self._tidy(self.read(state, places[0])) for places in module.carries]
            symmetric = tuple(x.rows == x.cols > 1 and (x - x.T).is_zero() for x in start)
            for assumed in dict.fromkeys((tuple(False for _ in start), symmetric)):
                try:
                    return self._declared(module, state, start, assumed, where)
                except NotProved:
                    self._body, self._numbers = outside, numbers
        return self._found(module, state, where)

    def _stepped(self, module: Module, entered: State, where: str) -> tuple[Body, State]:
        """One step from a state of symbols: its statements, and what it leaves."""
        outside, self._body = self._body, Body()
        try:
            left = self._follow(module.body, entered, where)
            return self._body, self._skipped(module, entered, left)
        finally:
            self._body = outside

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
        body, left = self._stepped(module, entered, where)
        after = [self._tidy(self.read(left, places[0])) for places in module.carries]
        expected = self.carrying(entered, module, after)
        for block in self.layout:
            self.same(left[block.name], expected[block.name], f"{where}: block {block.name!r}")
        results = [self._new(name, *shape) for name, shape in zip(names, shapes, strict=True)]
        self._add(module, carried, start, body, after, results, declared=True)
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
            body, left = self._stepped(module, entered, where)
            after = core(left)
            ends = placed(after)
            more = [name for name in state if not _equal(left[name], ends[name])]
            if not more:
                break
            moving |= {n: self._around(state[n], entered[n], left[n]) for n in more}
        results = [self._new(name, *x.shape) for name, x in zip(moving, start, strict=True)]
        self._add(module, carried, start, body, after, results, declared=False)
        return placed(results)

    def _add(
        self,
        module: Module,
        carried: Sequence[Words],
        start: Sequence[Words],
        body: Body,
        after: Sequence[Words],
        results: Sequence[Words],
        declared: bool,
    ) -> None:
        number = self.alphabet.number_of
        self._body.statements.append(
            Loop(
                module.repeat,
                tuple(map(number, carried)),
                tuple(map(self._even, start)),
                body,
                tuple(map(self._even, after)),
                tuple(map(number, results)),
                declared,
            )
        )


def _equal(a: Words, b: Words) -> bool:
    return (a - b).is_zero()


def _names(parts: Iterable[Part], outside: str = "") -> Iterator[str]:
    """The names of layers, in the order in which they are stored."""
    for name, part in named(parts, outside):
        if isinstance(part, Module):
            yield from _names(part.body, name)
        else:
            yield name
