"""Words at a random point: what is proved where a loop was collapsed, whatever its sizes.

A collapsed loop of T steps is a sum of so many words that nobody can write them down, but nearly
all of them are alike: `(XᵀX)ᵏ Xᵀy` for every k. So scalars become random numbers modulo a prime,
and of a run `Xᵀ X Xᵀ X ...` two or three letters are left: every pair that is taken out is worth a
random number g. A word that has no more than one such run can be told from what is left of it and
the power of g. So two sums of such words are different polynomials in the scalars and in g, unless
they are the same sum, and are compared as polynomials are. A word with two runs is refused.

Nothing here is as large as the matrices are. Sums that are found equal are equal for matrices of
every size, so of the one at hand too; their degree and their coefficients are at most those of the
difference of all entries (`heights`), where paths through sizes are counted that are none here.

A step of the program is affine if what it makes of symbols for what is carried has one of them, at
the end, in every word. Then it is a matrix of sums, and is squared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod

import numpy as np

from inweave.exact.constants import Dense, Shift
from inweave.exact.field import Field
from inweave.language import expressions as ex
from inweave.language.program import Traced
from inweave.model.modules import loops_of
from inweave.model.network import Network
from inweave.model.relunet import Function
from inweave.proof.affine import NotAffine, columns_of
from inweave.proof.algebra import Prover, Scope
from inweave.proof.merged import is_dense
from inweave.proof.states import NotProved
from inweave.proof.words import Alphabet, Chain, Letter, Number, Symbol, TooManyWords, Word, Words

FEW = 2  # pieces of identities in a step, by which what it carries is moved once
Short = tuple[int, Chain, int]  # what a chain is worth, what is left, in how many places it is cut


def are_readable(traced: Traced, network: Network) -> bool:
    """Whether there are loops, none of them in the network, and nothing but products and sums."""
    every = list(ex.every(traced.outputs.values()))
    return (
        network.is_polynomial
        and not is_dense(network)
        and not loops_of(network.modules)
        and not any(isinstance(x, ex.Applied) for x in every)
        and any(isinstance(x, ex.LoopResult) for x in every)
    )


def are_long(traced: Traced) -> bool:
    """Whether loops multiply by matrices of numbers, of which words hold the powers, exactly.

    Of parts that are moved up and down, the pieces of identities are as many as those numbers.
    """
    loops = {x.loop for x in ex.every(traced.outputs.values()) if isinstance(x, ex.LoopResult)}
    return any(
        any(map(_is_numbers, loop.outer)) or sum(map(_moves, loop.outer)) > FEW for loop in loops
    )


def _moves(x: ex.Expr) -> bool:
    """Whether an expression is a piece of an identity that takes or puts several rows."""
    return isinstance(x, ex.ConstantExpr) and isinstance(k := x.constant, Shift) and k.size > 1


def _is_numbers(x: ex.Expr) -> bool:
    """Whether an expression is a matrix of numbers, as it is written or turned."""
    x = x.x if isinstance(x, ex.Transposed) else x
    return isinstance(x, ex.ConstantExpr) and isinstance(x.constant, Dense) and min(x.shape) > 1


def compare(traced: Traced, network: Network, field: Field, rng: np.random.Generator) -> None:
    """Raise NotProved unless program and network are the same sum of words at a random point."""
    try:
        AtPoint(traced, network, Runs(field, rng)).proof()
    except TooManyWords:
        raise NotProved("even so, it has too many words") from None


class Runs(Alphabet):
    """Letters of which scalars are numbers, and runs are short."""

    def __init__(self, field: Field, rng: np.random.Generator) -> None:
        super().__init__()
        self.field, self.rng = field, rng
        self._drawn: dict[int, int] = {}
        self._shorter: dict[Word, tuple[int, Word]] = {}
        self._scalars: dict[Chain, Short] = {}

    # -- numbers ----------------------------------------------------------------------------------
    def residue(self, c: Number) -> int:
        return c % self.field.prime if isinstance(c, int) else self.field.rational(c)

    def is_nothing(self, c: Number) -> bool:
        return not self.residue(c)

    def total(self, rows: int, cols: int, parts: Iterable[tuple[Number, Words]]) -> Words:
        found = super().total(rows, cols, ((self.residue(c), words) for c, words in parts))
        terms: dict[Word, Number] = {word: self.residue(c) for word, c in found.terms.items()}
        return Words(self, rows, cols, {word: c for word, c in terms.items() if c})

    def _put(self, terms: dict[Word, Number], word: Word, c: Number) -> None:
        worth, word = self._short(word)
        if total := self.residue(terms.pop(word, 0) + self.residue(c) * worth):
            terms[word] = total

    def _worth(self, letter: Letter) -> int:
        """The random number that a scalar is, or what a pair of letters is worth."""
        if letter[0] not in self._drawn:
            self._drawn[letter[0]] = int(self.rng.integers(self.field.prime))
        return self._drawn[letter[0]]

    # -- runs -------------------------------------------------------------------------------------
    def _short(self, word: Word) -> tuple[int, Word]:
        """A word as a number times what is left of it."""
        if word not in self._shorter:
            numbers = [chain for chain in word[0] if self._is_number(chain)]
            chains = [chain for chain in word[0] if not self._is_number(chain)]
            *short, last = (*map(self._scalar, chains), self._shortened(word[1]))
            if sum(runs for _, _, runs in (*short, last)) > 1:
                raise NotProved("products of matrices are repeated in several places of a word")
            worth = prod(self._worth(chain[0]) for chain in numbers)
            worth *= prod(worth for worth, _, _ in (*short, last))
            scalars = sorted(chain for _, chain, _ in short)
            self._shorter[word] = self.residue(worth), (tuple(scalars), last[1])
        return self._shorter[word]

    def _is_number(self, chain: Chain) -> bool:
        """Whether a scalar is a symbol: none that a step is looked at with."""
        return len(chain) == 1 and not self._is_carried(self.letters[chain[0][0]])

    def _is_carried(self, letter: object) -> bool:
        return isinstance(letter, Symbol) and isinstance(letter.key, Carried)

    def _scalar(self, chain: Chain) -> Short:
        """A chain that is a scalar, of which words have many and few are different."""
        if chain not in self._scalars:
            worth, left, places = self._shortened(chain)
            self._scalars[chain] = worth, self._least(left), places
        return self._scalars[chain]

    def _shortened(self, chain: Chain) -> Short:
        worth, left, places = 1, list[Letter](), 0
        for number, group in groupby(chain, key=lambda letter: letter[0]):
            run, symbol = list(group), self.letters[number]
            cut, pair = 0, 1
            if (
                isinstance(symbol, Symbol)
                and min(symbol.shape) > 1
                and not self._is_carried(symbol)
            ):
                if symbol.rows == symbol.cols:  # M M M ...
                    if len({flipped for _, flipped in run}) > 1:
                        raise NotProved("a square matrix meets its transpose")
                    cut = len(run) - 1
                    places += 1
                elif len(run) > 1:  # X Xᵀ X ...
                    cut, pair = (len(run) - 2) // 2, 2
                    places += 1
            worth *= pow(self._worth(run[0]), cut, self.field.prime) if cut else 1
            left += run[cut * pair :]
        return worth, tuple(left), places

    def _least(self, chain: Chain) -> Chain:
        """A scalar, which is its own transpose, read in one direction."""
        return min(chain, tuple(self._upright((n, not flip)) for n, flip in reversed(chain)))


# -- the program's loops --------------------------------------------------------------------------
@dataclass(frozen=True)
class Carried:
    """The key of a column that a loop carries."""

    symbol: ex.Expr


class AtPoint(Prover):
    """Program and network in words at one point; the program's loops are powers."""

    def check_loops(self, roots: Sequence[ex.Expr]) -> None:
        """Loops may be as long as they like."""

    def applied(self, function: Function, x: Words) -> Words:
        raise NotProved("arguments of a function that are equal at a point may be different ones")

    def steps(self, loop: ex.Loop, scope: Scope) -> list[Words]:
        try:
            step = Step(self.alphabet, loop, scope)
        except NotAffine:
            return scope.unrolled(loop)
        return step.repeated(scope.values(loop.init), loop.times)


class Step:
    """A step z ← A z + c of a loop: sums of words for every block of A, and for those of c."""

    def __init__(self, alphabet: Alphabet, loop: ex.Loop, scope: Scope) -> None:
        self.alphabet = alphabet
        self.turned, shapes = columns_of(loop)
        columns = [
            alphabet.symbol(Carried(x), *shape)
            for x, shape in zip(loop.carried, shapes, strict=True)
        ]
        names = {_letter(x): j for j, x in enumerate(columns)}
        after = self._turn(scope.inside(loop, self._turn(columns)).values(loop.step))
        parts = [_split(x, names) for x in after]
        self.c = [
            Words(alphabet, *x.shape, part.pop(None, {}))
            for x, part in zip(after, parts, strict=True)
        ]
        self.A = [
            [Words(alphabet, rows, other, part.get(j, {})) for j, (other, _) in enumerate(shapes)]
            for (rows, _), part in zip(shapes, parts, strict=True)
        ]

    def _turn(self, values: Sequence[Words]) -> list[Words]:
        """Columns as they are carried, or back."""
        return [x.T if turned else x for x, turned in zip(values, self.turned, strict=True)]

    def repeated(self, start: Sequence[Words], times: int) -> list[Words]:
        """What is carried after so many steps."""
        A, c, z = self.A, self.c, self._turn(start)
        while times:
            if times % 2:
                z = self._added(self._times(A, z), c)
            if times := times // 2:
                c = self._added(self._times(A, c), c)
                A = _transposed([self._times(A, column) for column in _transposed(A)])
        return self._turn(z)

    def _times(self, A: Sequence[Sequence[Words]], z: Sequence[Words]) -> list[Words]:
        return [
            self.alphabet.sum(row[0].rows, z[0].cols, [a @ x for a, x in zip(row, z, strict=True)])
            for row in A
        ]

    def _added(self, a: Sequence[Words], b: Sequence[Words]) -> list[Words]:
        return [x + y for x, y in zip(a, b, strict=True)]


def _transposed(A: Sequence[Sequence[Words]]) -> list[list[Words]]:
    """Rows of blocks as columns of them."""
    return [list(column) for column in zip(*A, strict=True)]


def _letter(x: Words) -> Letter:
    """The letter that a symbol is."""
    ((scalars, chain),) = x.terms
    return (*scalars, chain)[0][0]


def _split(x: Words, names: Mapping[Letter, int]) -> dict[int | None, dict[Word, Number]]:
    """What stands before each of some columns, and what has none of them; else NotAffine."""
    parts: dict[int | None, dict[Word, Number]] = {}
    for (scalars, chain), c in x.terms.items():
        found = [
            letter for each in (*scalars, chain) for letter in each if (letter[0], False) in names
        ]
        if not found:
            parts.setdefault(None, {})[scalars, chain] = c
            continue
        if len(found) > 1:
            raise NotAffine
        (letter,) = found
        if chain[-1:] == (letter,):
            chain = chain[:-1]
        elif (letter,) in scalars:
            scalars = tuple(each for each in scalars if each != (letter,))
        if any(letter in each for each in (*scalars, chain)) or letter not in names:
            raise NotAffine
        parts.setdefault(names[letter], {})[scalars, chain] = c
    return parts
