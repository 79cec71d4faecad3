"""Affine steps letter by letter: a chain of factors each of which is read and not computed.

A step `x ← A x + c` is a sum of words: `w − η Xᵀ(X w − y)` is `1`, `−η Xᵀ X` and `η Xᵀ y`, whose
letters are matrices and scalars that stand in the prompt. So many steps are the sum of all paths
through an automaton. Between two letters stands a state, and a state is what is still to come: for
each carried value (and for the end, where a constant part leads) the rest of the words. States
that differ by a number are one, so that common parts of words are found wherever they are: in a
step of Nesterov's method `w + β (w − v)` becomes a state of its own.

Every step has as many letters as its longest word; in shorter words the state waits (its letter is
the identity). Words that lead to the end do not wait, they may take longer or less long than a
step. At the end stands the start of the loop, letter by letter.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from inweave.compiler.affine import Parts
from inweave.compiler.forms import (
    ONE,
    DefinedLeaf,
    Form,
    Forms,
    GivenLeaf,
    InputLeaf,
    Node,
    Product,
)

END = -1  # where the words of c and of the start lead to, as in `Parts`
MOST = 64  # words of a step


class Letter(NamedTuple):
    """A factor of a word; a scalar may stand anywhere in it."""

    form: Form
    scalar: bool


class Word(NamedTuple):
    """Scalars times a chain."""

    scalars: tuple[Form, ...]
    chain: tuple[Form, ...]

    @property
    def length(self) -> int:
        return len(self.scalars) + len(self.chain)

    @property
    def letters(self) -> list[Letter]:
        """The letters that it may begin with."""
        return [Letter(s, True) for s in dict.fromkeys(self.scalars)] + [
            Letter(f, False) for f in self.chain[:1]
        ]

    def after(self, letter: Letter) -> Word:
        if not letter.scalar:
            return Word(self.scalars, self.chain[1:])
        at = self.scalars.index(letter.form)
        return Word(self.scalars[:at] + self.scalars[at + 1 :], self.chain)

    @property
    def order(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(f.serial for f in part) for part in self)


NOTHING = Word((), ())
Words = dict[Word, Fraction]
Rest = dict[tuple[int, Word], Fraction]  # where to, by which word
State = frozenset[tuple[tuple[int, Word], Fraction]]
LAST: State = frozenset({((END, NOTHING), ONE)})


class Edge(NamedTuple):
    """A way from a state to another: a number times a letter, or the number alone."""

    times: Fraction
    letter: Letter | None
    to: State


class TooMany(Exception):
    """A step has too many words."""


class Letters:
    """Steps and the start of a loop as a chain of factors.

    `steps` are in the order of the chain, the last one first; one alone stands for all of them.
    Stored values that are `opened` are no letters, but what they are made of.
    """

    def __init__(
        self,
        steps: Sequence[Sequence[Parts]],
        times: int,
        start: Sequence[Form],
        forms: Forms,
        level: Callable[[Form], int],
        opened: Container[Node] = (),
    ) -> None:
        self.forms, self.times, self.of_form, self.opened = forms, times, level, opened
        self.periodic = len(steps) == 1
        self.sizes = {j: f.rows for j, f in enumerate(start)} | {END: start[0].cols}
        self._steps = [[self._rest(parts) for parts in step] for step in steps]
        self._start = [self._rest({END: f}) for f in start]
        longest = [w.length for step in self._steps for rest in step for j, w in rest if j != END]
        self.each = max([1, *longest])
        self.whole = self.each * times  # letters of all steps
        self.length = max(self._lengths(), default=0)
        self._edges: dict[tuple[int, State], list[Edge]] = {}
        self._factors: dict[tuple[int, State, State], tuple[Form, ...]] = {}
        self._states = [sorted([LAST, *map(carried, range(len(start)))], key=_order)]
        self._again: int | None = None  # where a step begins after which all are like it

    @cached_property
    def added(self) -> int:
        """The letters of what a step adds."""
        return max((n for t in range(len(self._steps)) for n in self.ends(t)), default=0)

    def ends(self, step: int) -> list[int]:
        """The letters of the words of what a step adds; after the last step, of the start."""
        rows = self._start if step == self.times else self._steps[0 if self.periodic else step]
        return [max(w.length, 1) for rest in rows for j, w in rest if j == END]

    def _lengths(self) -> Iterable[int]:
        """Where the longest words of every step and of the start end."""
        for t, step in enumerate([*self._steps, self._start]):
            at = self.whole if t == len(self._steps) else self.each * t
            if self.periodic and t < len(self._steps):
                at = self.each * (self.times - 1)
            yield from (at + max(w.length, 1) for rest in step for j, w in rest if j == END)

    @property
    def steady(self) -> bool:
        """Whether steps differ by numbers only, not by the letters that they have."""
        found = [{f for rest in step for _, word in rest for f in (*word.scalars, *word.chain)}
                 for step in self._steps]  # fmt: skip
        return len(set().union(*found)) == max(map(len, found))

    # -- words ------------------------------------------------------------------------------------
    def _rest(self, parts: Parts) -> Rest:
        return {(j, word): c for j, f in parts.items() for word, c in self._words(f).items()}

    def _words(self, form: Form) -> Words:
        """A form as a sum of words; what is stored is a letter, and so is what can be read."""
        out: Words = {}
        for v, t, c in form.terms:
            if isinstance(v, Product):
                found = self._product(v, t)
            elif isinstance(v, DefinedLeaf) and v in self.opened:
                inner = v.definition
                found = self._words(self.forms.transpose(inner) if t else inner)
            else:
                found = {Word((), (self.forms.form(form.rows, form.cols, [(v, t, ONE)]),)): ONE}
            for word, d in found.items():
                out[word] = out.get(word, Fraction(0)) + c * d
        fixed = [(k, c) for k, c in form.constants if not k.is_identity()]
        alone = sum((c for k, c in form.constants if k.is_identity()), Fraction(0))
        out[NOTHING] = out.get(NOTHING, Fraction(0)) + alone
        if fixed:
            out[Word((), (self.forms.form(form.rows, form.cols, consts=fixed),))] = ONE
        if len(out) > MOST:
            raise TooMany
        return {word: c for word, c in out.items() if c}

    def _product(self, p: Product, turned: bool) -> Words:
        out: Words = {Word(p.scalars, ()): ONE}
        for f in self.forms.factors(p, turned):
            opens = f.products or f.is_identity or any(v in self.opened for v in f.parts)
            parts = self._words(f) if opens else {Word((), (f,)): ONE}
            if len(out) * len(parts) > MOST:
                raise TooMany
            joined: Words = {}
            for a, c in out.items():
                for b, d in parts.items():
                    scalars = sorted((*a.scalars, *b.scalars), key=lambda s: s.serial)
                    word = Word(tuple(scalars), (*a.chain, *b.chain))
                    joined[word] = joined.get(word, Fraction(0)) + c * d
            out = joined
        return out

    # -- states -----------------------------------------------------------------------------------
    def like(self, i: int) -> int:
        """The first position that is like this one."""
        return i % self.each if self.periodic and i < self.whole else i

    def states(self, i: int) -> list[State]:
        """The states between the factors before and after a position."""
        while self._again is None and len(self._states) <= min(i, self.whole):
            self._states.append(self._after(len(self._states) - 1))
            end, at = len(self._states) - 1, len(self._states) - 1 - self.each
            if self.periodic and end % self.each == 0 and self._states[end] == self._states[at]:
                self._again = at
        if i > self.whole:
            return self._after(i - 1)
        if i < len(self._states) or self._again is None:
            return self._states[i]
        return self._states[self._again + i % self.each]

    def _after(self, i: int) -> list[State]:
        edges = (edge for s in self.states(i) for edge in self.edges(i, s))
        return sorted({edge.to for edge in edges}, key=_order)

    def size(self, state: State) -> int:
        """The rows of all that is still to come."""
        ((end, word), _) = next(iter(state))
        return word.chain[0].rows if word.chain else self.sizes[end]

    def edges(self, i: int, state: State) -> list[Edge]:
        """Where a state leads to by the factor at a position."""
        key = (self.like(i), state)
        if key not in self._edges:
            self._edges[key] = self._emitted(i, state)
        return self._edges[key]

    def _emitted(self, i: int, state: State) -> list[Edge]:
        rest = dict(sorted(state, key=place))
        step, phase = divmod(i, self.each)
        (j, word), *_ = rest
        if phase == 0 and j != END and word == NOTHING:  # a carried value: what a step makes of it
            rows = self._start if i >= self.whole else self._steps[0 if self.periodic else step]
            rest = dict(rows[j])
        left = self.each - phase
        out = [Edge(c, None, LAST) for key, c in rest.items() if key == (END, NOTHING)]
        rest.pop((END, NOTHING), None)
        while due := [(j, word) for j, word in rest if j == END or word.length >= left]:
            offers: dict[Letter, int] = {}
            for _, word in rest:
                for letter in word.letters:
                    offers[letter] = offers.get(letter, 0) + 1
            # A letter that many words may begin with makes few states.
            letter = max((x for _, word in due for x in word.letters), key=offers.__getitem__)
            going = [key for key in rest if letter in key[1].letters]
            after = {(j, word.after(letter)): rest.pop((j, word)) for j, word in going}
            out += self._reached(letter, after, left)
        return out + (self._reached(None, rest, left) if rest else [])

    def _reached(self, letter: Letter | None, rest: Rest, left: int) -> list[Edge]:
        """Edges to the states of a rest; at the end of a step to each carried value."""
        out = []
        for (j, word), c in list(rest.items()):
            if word == NOTHING and (j == END or left == 1):
                out.append(Edge(c, letter, LAST if j == END else carried(j)))
                del rest[j, word]
        if rest:
            _, scale = min(rest.items(), key=place)
            state = frozenset((key, c / scale) for key, c in rest.items())
            out.append(Edge(scale, letter, state))
        return out

    # -- factors ----------------------------------------------------------------------------------
    def factor(self, i: int, s: State, t: State) -> tuple[Form, ...]:
        """What stands in the factor at a position between two states: a sum, in parts.

        Scalars have a part of their own: `η I + B` would have to be stored to be read.
        """
        key = (self.like(i), s, t)
        if key not in self._factors:
            edges = [edge for edge in self.edges(i, s) if edge.to == t]
            self._factors[key] = tuple(self._joined(edges, self.size(s))) if edges else ()
        return self._factors[key]

    def _joined(self, edges: Sequence[Edge], size: int) -> Iterable[Form]:
        forms = self.forms
        scalars = [(e.times, e.letter.form) for e in edges if e.letter and e.letter.scalar]
        matrices = [(e.times, e.letter.form) for e in edges if e.letter and not e.letter.scalar]
        alone = sum((e.times for e in edges if e.letter is None), Fraction(0))
        if scalars:
            total = forms.combine([*scalars, (alone, forms.identity(1))])
            yield forms.scale(total, forms.identity(size))
        elif alone:
            matrices.append((alone, forms.identity(size)))
        if matrices:
            yield forms.combine(matrices)

    def level(self, i: int) -> int:
        """After how many layers the factor at a position can be read."""
        letters = [edge.letter for s in self.states(i) for edge in self.edges(i, s)]
        return max((self._level(x) for x in letters if x is not None), default=0)

    def _level(self, letter: Letter) -> int:
        found = self.of_form(letter.form)
        leaves = (v for v, _, _ in letter.form.terms)
        given = all(isinstance(v, (InputLeaf, GivenLeaf)) for v in leaves)
        return found + (letter.scalar and not given)  # to have it as s I takes a layer


def carried(j: int) -> State:
    return frozenset({((j, NOTHING), ONE)})


def place(item: tuple[tuple[int, Word], Fraction]) -> tuple[Any, ...]:
    """An order of words that depends on nothing but the program."""
    (end, word), c = item
    return end, word.order, c


def _order(state: State) -> list[tuple[Any, ...]]:
    return sorted(map(place, state))
