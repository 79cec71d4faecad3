"""From a network to statements: what its layers compute, named as soon as it is more than a word.

The network is followed once over sums of words (`inweave.proof.states`). Whatever a layer leaves in
a block becomes a symbol, and its words become the symbol's definition, so that words stay short
however deep the network is. A repeated module is read once: it begins with symbols for what it
carries, and what it leaves of them is the step. `carries` says where they stand; without it, a
module carries the blocks that it does not leave as they were.

Which heads compute a symbol is noted beside it. A head that only moves a value, so that what it
leaves needs no name, waits with the block that it wrote for the next symbol that is made of it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import NamedTuple

from inweave.decompiler.naming import NOBODY, Naming
from inweave.decompiler.needed import pruned
from inweave.decompiler.pieces import piecewise
from inweave.decompiler.statements import Body, Carried, HeadAt, Heads, Loop, Read, letters_of
from inweave.errors import DecompileError
from inweave.model.layers import AttentionLayer, Head, Layer, PointwiseLayer
from inweave.model.modules import Module, Part, named, named_layers
from inweave.model.network import Network
from inweave.proof.states import NotProved, Reads, State
from inweave.proof.words import TooManyWords, Words
from inweave.text.network import Words as Spelling


class Step(NamedTuple):
    """One step of a loop: its statements, what it leaves, and the heads of what it carries.

    The `rest` are heads that clear what is to be as it was before the next step.
    """

    body: Body
    left: State
    by: tuple[Heads, ...]
    rest: Heads


def read(network: Network, seconds: float = math.inf) -> Read:
    """What a plain network computes; refused at the first layer that comes after so many seconds.

    Besides what it says that it carries, a loop may change blocks that nothing reads. If something
    does read them, the loop carries them, too.
    """
    until = time.monotonic() + seconds
    reader = Reader(network, silent=True, until=until)
    found = reader.read_all()
    letters = {n for words in found.answers.values() for n in letters_of(words)}
    if pruned(found.body, letters)[1] & reader.unknown:
        return Reader(network, silent=False, until=until).read_all()
    return found


class Reader(Naming):
    """One reading."""

    def __init__(self, network: Network, silent: bool, until: float) -> None:
        super().__init__(network)
        self.silent = silent  # whether loops may change more than they are said to carry
        self.until = until  # on the monotonic clock
        self.unknown = set[int]()  # what then stands there
        self.spelling = Spelling(network)
        self._layers = {name: i for i, (name, _) in enumerate(named_layers(network.modules))}
        self._waiting = dict.fromkeys((block.name for block in network.layout), NOBODY)
        self._wrote: dict[str, list[tuple[Words, Heads]]] = {}  # by the heads of a layer
        self._here: Iterator[HeadAt] = iter(())  # the heads of that layer, in order

    def read_all(self) -> Read:
        try:
            state = self._follow(self.network.modules, self.filled(), "")
            answers = {o.name: self.even(self.read(state, o.place)) for o in self.network.outputs}
            self.by |= {o.name: self._waiting[o.place.block] for o in self.network.outputs}
        except NotProved as error:
            raise DecompileError(f"{error}: no program says that") from None
        except TooManyWords:
            raise DecompileError(
                "a layer of this network has more products than a program of readable length"
            ) from None
        return Read(self.alphabet, self.body, answers, self.by)

    # -- parts ------------------------------------------------------------------------------------
    def _follow(self, parts: Iterable[Part], state: State, where: str) -> State:
        for name, part in named(parts, where):
            self.alphabet.written_letters = 0
            if time.monotonic() > self.until:
                raise DecompileError(
                    f"the time for reading is over at {name}, before the end; `seconds` allows "
                    "more. Weights that were rounded after a disguise (in torch, say) fit their "
                    "embedding no longer, and have too many products for any time"
                )
            if not isinstance(part, Module):
                state = self._layered(part, state, name)
            elif part.repeat == 1 and not part.carries:
                state = self.skipped(part, state, self._follow(part.body, state, name))
            elif part.repeat:
                state = self._loop(part, state, name)
        return state

    def _layered(self, layer: Layer, state: State, where: str) -> State:
        """The state after a layer, all that is new in it named."""
        if isinstance(layer, PointwiseLayer):
            raise DecompileError(
                f"{where} is a pointwise layer of dense weights, which say of no block what "
                "function of it they compute; hold it as a BlockPointwiseLayer"
            )
        self.spelling.layer(self._layers[where])
        if isinstance(layer, AttentionLayer):
            layer = piecewise(layer, self.layout, where)
        at = self._layers[where]
        self._here, self._wrote = (HeadAt(at, k) for k in count()), {}
        if not isinstance(layer, AttentionLayer):
            blocks = [place.block for place, _ in layer.applied]
            self.now = NOBODY.union({HeadAt(at, None)}, *(self._waiting[b] for b in blocks))
        after = self.layer(layer, state)
        for name in state:
            if after[name].terms != state[name].terms:
                after[name] = self._changed(layer, name, self.tidied(after[name]))
        return after

    def _changed(self, layer: Layer, block: str, words: Words) -> Words:
        """What a layer leaves in a block, named where it needs a name."""
        moved = NOBODY
        if isinstance(layer, AttentionLayer):
            before = self._waiting[block] if layer.skip else NOBODY
            moved = self.now = self._writers(block) | before
        if not self.is_simple(words):
            words, moved = self.name(self.spelling.name(block, then=True), words), NOBODY
        self._waiting = {**self._waiting, block: moved}
        return words

    def _writers(self, block: str) -> Heads:
        """The heads that change a block, without those that add up to nothing."""
        wrote = self._wrote.get(block, [])
        shape = self.layout.tokens, self.layout[block].cols
        total = self.alphabet.sum(*shape, (words for words, _ in wrote))
        return NOBODY.union(*(who for x, who in wrote if x.terms.keys() & total.terms.keys()))

    def head(self, head: Head, state: State, read: Reads) -> Iterator[tuple[str, Words]]:
        pieces = (piece for part in head.pieces or () for piece in part)
        sources = {p.block for p in pieces if p.block is not None and self._waiting[p.block]}
        at = next(self._here)
        for block, words in super().head(head, state, read):
            if words.terms:
                here = letters_of(words).keys()
                before = (self._waiting[s] for s in sources if letters_of(state[s]).keys() & here)
                who = frozenset({at}).union(*before)
                self._wrote.setdefault(block, []).append((words, who))
            yield block, words

    # -- loops ------------------------------------------------------------------------------------
    def _loop(self, module: Module, state: State, where: str) -> State:
        if module.carries:
            start = [self.tidied(self.read(state, places[0])) for places in module.carries]
            symmetric = tuple(x.rows == x.cols > 1 and (x - x.T).is_zero() for x in start)
            for assumed in dict.fromkeys((tuple(False for _ in start), symmetric)):
                with suppress(NotProved):
                    return self._declared(module, state, start, assumed, where)
        return self._found(module, state, where)

    def _stepped(self, module: Module, entered: State, blocks: Sequence[str], where: str) -> Step:
        """One step from a state of symbols, which stand in `blocks`."""
        outside, self.body = self.body, Body()
        known, self.known = self.known, dict(self.known)
        waiting, self._waiting = self._waiting, self._taken(blocks)
        try:
            left = self._follow(module.body, entered, where)
            by = tuple(self._waiting[block] for block in blocks)
            rest = (self._waiting[block] for block in self._waiting if block not in blocks)
            left = self.skipped(module, entered, left)
            return Step(self.body, left, by, NOBODY.union(*rest))
        finally:
            self.body, self.known, self._waiting = outside, known, waiting

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
        carrying = {place.block for places in module.carries for place in places}
        loose = set[str]()
        while True:
            carried = [self.new(name, *shape) for name, shape in zip(names, shapes, strict=True)]
            entered = self.carrying(self._loose(state, loose), module, carried)
            step = self._stepped(module, entered, names, where)
            after = [self.tidied(self.read(step.left, places[0])) for places in module.carries]
            expected = self.carrying(entered, module, after)
            more = {n for n in state if not _equal(step.left[n], expected[n])} - loose
            if not more:
                break
            if more & carrying or not self.silent:
                raise NotProved(f"{where} changes more than it carries")
            loose |= more
        results = [self.new(name, *shape) for name, shape in zip(names, shapes, strict=True)]
        self._add(module, names, carried, start, step, after, results, declared=True)
        return self.carrying(self._loose(state, loose), module, results)

    def _loose(self, state: State, blocks: Iterable[str]) -> State:
        """The state with symbols for whatever stands in some blocks."""
        fresh = {block: self.new(block, *state[block].shape) for block in sorted(blocks)}
        self.unknown |= {self.alphabet.number_of(symbol) for symbol in fresh.values()}
        return {**state, **fresh}

    def _found(self, module: Module, state: State, where: str) -> State:
        """A loop that carries the blocks which one step does not leave as they were."""
        moving: dict[str, tuple[Words, Words]] = {}  # rows and columns of blocks

        def core(of: State) -> list[Words]:
            return [self.tidied(down.T @ of[n] @ right) for n, (down, right) in moving.items()]

        def placed(values: Sequence[Words]) -> State:
            pairs = zip(moving.items(), values, strict=True)
            return {**state, **{n: down @ x @ right.T for (n, (down, right)), x in pairs}}

        while True:
            start = core(state)
            carried = [self.new(n, *x.shape) for n, x in zip(moving, start, strict=True)]
            entered = placed(carried)
            step = self._stepped(module, entered, [*moving], where)
            after = core(step.left)
            ends = placed(after)
            more = [name for name in state if not _equal(step.left[name], ends[name])]
            if not more:
                break
            moving |= {n: self.around(state[n], entered[n], step.left[n]) for n in more}
        results = [self.new(name, *x.shape) for name, x in zip(moving, start, strict=True)]
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
        number, found = self.alphabet.number_of, list[Carried]()
        for symbol, begin, left, result in zip(carried, start, after, results, strict=True):
            ends = self.even(begin), self.even(left)
            found.append(Carried(number(symbol), *ends, number(result)))
        for x, by, block in zip(found, step.by, blocks, strict=True):
            self.by[x.symbol], self.by[x.result] = by, self._waiting[block] | step.rest
        self._waiting = self._taken(blocks)
        self.body.statements.append(Loop(module.repeat, tuple(found), step.body, declared))


def _equal(a: Words, b: Words) -> bool:
    return (a - b).is_zero()
