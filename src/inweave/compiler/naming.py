"""What the pieces of a collapsed loop are called: `A³`, `w₉`, `X·A³`, `w₂₇−w₉`.

`A` is what a step multiplies by and `w` what the loop carries: `w₉` is w after nine steps, and `z₉`
is that from zero, where the loop starts elsewhere. Of several values carried together, `A³[w,v]`
and `z₉[w]` are parts. Where steps differ, `A₄‥₆` is what steps 4 to 6 multiply by and `w₄‥₆` what
they make of zero. No two loops share a letter: another loop's w is `w′`.

A name is an equation that a reader may rely on, so what has no short true name gets none here, and
is called after its parts. Nothing that a pass does depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from inweave.compiler.forms import ONE, CarriedLeaf, Form, InputLeaf, LoopForm, Written
from inweave.compiler.letters import END, LAST, Letters, State, carried, place
from inweave.compiler.names import TooLong, factors, in_sum, transposed, unused

MATRICES = ("A", "B", "M", "P", "S")
SUMS = ("z", "s", "q", "r")
SHOWN = 3  # terms of a sum in its name
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
LOWERED = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")

Term = tuple[Fraction, list[Form | str]]  # a number times factors


def below(steps: int) -> str:
    return str(steps).translate(LOWERED)


@dataclass(frozen=True)
class Names:
    """The names of what a loop comes to: of its matrix, of what it carries, of that from zero."""

    matrix: str
    carried: tuple[str, ...]
    zero: str
    from_zero: bool
    alike: bool = True  # all steps multiply by the same
    row: bool = False  # values are the transposes of what is carried
    turned: bool = False  # steps multiply by the transpose of what the matrix is called

    def power(self, steps: int, before: int = 0, at: tuple[int, int] | None = None) -> str:
        """`A³`; A alone is A. Of steps that differ, those after so many others."""
        text = self.matrix
        if not self.alike:
            first, last = below(before + 1), below(before + steps)
            text += last if steps == 1 else f"{first}‥{last}"
        elif steps > 1:
            text += str(steps).translate(RAISED)
        if at and len(self.carried) > 1:
            rows = at[::-1] if self.row else at
            text += f"[{','.join(self.carried[i] for i in rows)}]"
        return f"{text}ᵀ" if self.row != self.turned else text

    def state(self, steps: int, index: int = 0) -> str:
        """What is carried after so many steps."""
        return self._turned(f"{self.carried[index]}{below(steps)}")

    def sum(self, steps: int, index: int = 0, before: int = 0) -> str:
        """What would be carried after so many steps from zero."""
        if before and not self.alike:
            span = f"{below(before + 1)}‥{below(before + steps)}"
            return self._turned(self.carried[index] + span)
        if self.from_zero:
            return self.state(steps, index)
        part = f"[{self.carried[index]}]" if len(self.carried) > 1 else ""
        return self._turned(f"{self.zero}{below(steps)}{part}")

    def gain(self, steps: int, first: int) -> str:
        """What is carried after so many steps, less what the last ones of them make of zero."""
        plain = replace(self, row=False)
        return self._turned(f"{plain.state(steps)}−{plain.sum(first)}")

    def _turned(self, text: str) -> str:
        return transposed(text) if self.row else text


@dataclass
class Alphabet:
    """The letters of all loops of a program, none of them twice, and none an input's."""

    taken: set[str]
    carried: set[str] = field(default_factory=set)
    _known: dict[tuple[CarriedLeaf, ...], tuple[str, tuple[str, ...], str]] = field(
        default_factory=dict
    )

    @classmethod
    def of(cls, written: Written, inputs: Iterable[str]) -> Alphabet:
        """What is named in a program is taken, and so are inputs that nothing reads any more."""
        read = {leaf.name for form in written.reachable() for leaf, _, _ in form.leaves}
        return cls(read.union(inputs))

    def names(
        self, matrices: Sequence[Form], loop: LoopForm, start: Sequence[Form], row: bool
    ) -> Names:
        """The names in a loop; its matrix has its own, or a letter that nothing else has."""
        if loop.carried not in self._known:
            states = tuple(self._carried(leaf.name) for leaf in loop.carried)
            self._known[loop.carried] = self._letter(MATRICES), states, self._letter(SUMS)
        matrix, states, zero = self._known[loop.carried]
        from_zero = all(f.is_zero for f in start)
        sole = matrices[0].sole if len(matrices) == len(states) == 1 else None
        if sole and isinstance(sole[0], InputLeaf) and sole[2] == 1:
            return Names(sole[0].name, states, zero, from_zero, row=row, turned=row != sole[1])
        return Names(matrix, states, zero, from_zero, row=row)

    def sums(self) -> str:
        """A letter for sums that no loop carries."""
        return self._letter(("S", "T", "R"))

    def _letter(self, wanted: Sequence[str]) -> str:
        free = (letter for letter in wanted if letter not in self.taken)
        found = next(free, unused(wanted[0], self.taken))
        self.taken.add(found)
        return found

    def _carried(self, name: str) -> str:
        found = unused(name, self.carried)
        self.carried.add(found)
        return found


def joined(words: Sequence[Form | str]) -> str:
    """A product as one word; nothing if that is long."""
    return spelled([(ONE, list(words))])


def spelled(terms: Iterable[Term]) -> str:
    """A sum as one word, what is added first; nothing if that is long."""
    ordered = sorted(terms, key=lambda term: term[0] < 0)
    try:
        return in_sum([(c, _words(product)) for c, product in ordered])
    except TooLong:
        return ""


def _words(product: Sequence[Form | str]) -> list[str]:
    """The words of a product, scalars first; alone they are multiples of I."""
    scalars = [x for x in product if isinstance(x, Form) and x.is_scalar]
    others = [x for x in product if x not in scalars]
    ordered = (*scalars, *others)
    words = [w for x in ordered for w in ([x] if isinstance(x, str) else factors(x))]
    if others:
        return words
    return [*words[:-1], f"{words[-1]}I"] if words else ["I"]


class PieceNames:
    """The names of pieces of a chain: sums of words in letters, powers and states, if few."""

    def __init__(self, letters: Letters, names: Names) -> None:
        self.letters, self.names = letters, names

    def of(self, i: int, j: int, s: State, t: State) -> list[Term] | None:
        """What stands in a piece between two states; None if that is long."""
        try:
            return self._terms(i, j, s, t)
        except TooLong:
            return None

    def _terms(self, i: int, j: int, s: State, t: State) -> list[Term]:
        each, whole = self.letters.each, self.letters.whole
        first, last = -(-i // each) * each, min(j, whole) // each * each
        if t == LAST:
            found = self._ending(i, first, j, s)
        elif last < first:
            found = self._paths(i, j, s, t)
        else:
            found = self._through(first, last, j, s, t)
        terms: list[Term] = []
        for term in found:
            terms.append(term)
            if len(terms) > SHOWN:
                raise TooLong
        return terms

    def _ending(self, i: int, first: int, j: int, s: State) -> Iterator[Term]:
        """What a state is worth at the end of a piece: its words, times what is carried then."""
        for (at, word), c in sorted(s, key=place):
            if at != END:
                if value := self._value(at, first, j):
                    yield c, [*word.scalars, *word.chain, value]
            elif max(word.length, 1) <= j - i:
                yield c, [*word.scalars, *word.chain]

    def _value(self, row: int, first: int, j: int) -> str:
        """What is carried, of which so much is there: what some steps make of zero, or all."""
        letters = self.letters
        at = first // letters.each
        left = letters.times - at
        if j >= letters.length:
            return self.names.state(left, row) if left or not self.names.from_zero else ""
        steps = min(max((j - first - letters.added) // letters.each, 0), left)  # surely whole
        for k in range(steps, left + 1):
            begin = first + k * letters.each
            ends = {begin + n <= j for n in letters.ends(at + k)}
            if ends == {True} and steps == k < left:
                steps = k + 1
            elif True in ends:
                raise TooLong  # some of what it adds
            if begin >= j:
                break
        return self.names.sum(steps, row, left - steps) if steps else ""

    def _through(self, first: int, last: int, j: int, s: State, t: State) -> Iterator[Term]:
        """Words to a whole step, times steps, times words from there."""
        letters, names = self.letters, self.names
        steps, before = (last - first) // letters.each, letters.times - last // letters.each
        rows = [carried(a) for a in range(len(names.carried))]
        tails = {x: list(self._paths(last, j, x, t)) for x in letters.states(last)}
        if any(tails[x] for x in tails if x not in rows):
            raise TooLong  # a word that began before
        for (a, word), c in sorted(s, key=place):
            for b, row in enumerate(rows):
                for d, tail in tails.get(row, ()) if a == b or (steps and a != END) else ():
                    power = [names.power(steps, before, (a, b))] if steps else []
                    yield c * d, [*word.scalars, *word.chain, *power, *tail]

    def _paths(self, i: int, j: int, s: State, t: State) -> Iterator[Term]:
        """The words between two states less than two steps apart."""
        if i == j:
            yield from [(ONE, [])] if s == t else []
            return
        for edge in self.letters.edges(i, s):
            here = [edge.letter.form] if edge.letter else []
            for c, words in self._paths(i + 1, j, edge.to, t):
                yield edge.times * c, [*here, *words]
