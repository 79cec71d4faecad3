"""Sums of words as Python: products with `@`, constants as slices, common factors in front.

Every value is a matrix here and an array of its own kind in a program, so one rule holds for all
that is written: what has one column is a vector, what has one row is a vector's transpose, and what
is 1 x 1 is a factor of `*`. Then numpy's rules for shapes never come between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

from inweave.decompiler.constants import (
    ATOM,
    FRACTION,
    NUMBERS,
    PRODUCT,
    SUM,
    Shape,
    Slice,
    Text,
    number_text,
    shift,
    sliced,
    written,
    zero,
)
from inweave.decompiler.statements import Letters
from inweave.exact.constants import Constant, Ones, Shift, product
from inweave.proof.words import Chain, Letter, Symbol, Words


class Term(NamedTuple):
    """A number times scalars times a chain of letters."""

    number: Fraction
    scalars: tuple[Text, ...]
    chain: Chain


class Speller:
    """Spells sums over one alphabet; `names` are the texts of letters."""

    def __init__(
        self, alphabet: Letters, names: Mapping[int, Text], hoisted: Callable[[str, Constant], str]
    ) -> None:
        self.alphabet, self.names, self.hoisted = alphabet, names, hoisted

    def words(self, words: Words) -> Text:
        """A sum, with common factors in front."""
        terms = self._terms(words)
        return self._sum(self._grouped(terms, words.shape)) if terms else zero(words.shape)

    def refinement(self, words: Words) -> Text:
        """A step of Newton's, 2r − r p r, a product to a head: p may be a sum, r is no factor."""
        groups: dict[Text | None, list[Term]] = {}
        for term in self._terms(words):
            square = next((s for s, n in Counter(term.scalars).items() if n > 1), None)
            groups.setdefault(square, []).append(term)
        parts = []
        for r, terms in groups.items():
            if r is None or len(terms) == 1:
                parts += [self._term(term, words.shape) for term in terms]
                continue
            sign = -1 if terms[0].number < 0 else 1
            inner = [_without(_without(term, "scalar", r), "scalar", r) for term in terms]
            p = self._total([x._replace(number=sign * x.number) for x in inner], words.shape)
            parts.append((sign < 0, Text(" * ".join(x.inside(ATOM) for x in (p, r, r)), PRODUCT)))
        return self._sum(parts)

    def _terms(self, words: Words) -> list[Term]:
        """Numbers are those before constants as they came."""
        return [
            Term(
                Fraction(c) * prod(self._came(n)[1] for part in (*scalars, chain) for n, _ in part),
                self._scalars(scalars),
                chain,
            )
            for (scalars, chain), c in words.terms.items()
        ]

    def _came(self, letter: int) -> tuple[Symbol | Constant, Fraction]:
        """A letter as it is written, and what that is to be multiplied by."""
        return self.alphabet.came.get(letter, (self.alphabet.letters[letter], Fraction(1)))

    # -- sums -------------------------------------------------------------------------------------
    def _total(self, terms: Sequence[Term], shape: Shape) -> Text:
        return self._sum(self._grouped(terms, shape))

    def _sum(self, parts: Sequence[tuple[bool, Text]]) -> Text:
        if len(parts) == 1:
            negative, text = parts[0]
            return Text(f"-{text.inside(PRODUCT)}", SUM) if negative else text
        out = ""
        parts = [_unsigned(*part) for part in parts]
        for negative, text in sorted(parts, key=lambda part: part[0] and part is parts[0]):
            sign = ("-" if negative else "") if not out else (" - " if negative else " + ")
            out += sign + text.inside(PRODUCT)
        return Text(out, SUM)

    def _grouped(self, terms: Sequence[Term], shape: Shape) -> list[tuple[bool, Text]]:
        """Signs and summands; those with a factor in common are one."""
        if len(terms) == 1:
            return [self._term(terms[0], shape)]
        found = self._common(terms)
        if found is None:
            return [self._term(term, shape) for term in terms]
        kind, factor = found
        shared = [term for term in terms if _has(term, kind, factor)]
        at = terms.index(shared[0])
        before, rest = terms[:at], [x for x in terms[at:] if not _has(x, kind, factor)]
        group = self._factored(
            kind, factor, [_without(term, kind, factor) for term in shared], shape
        )
        out = self._grouped(before, shape) if before else []
        return [*out, group, *(self._grouped(rest, shape) if rest else [])]

    def _common(self, terms: Sequence[Term]) -> tuple[str, Any] | None:
        """The factor that most terms share, if two do."""
        found: Counter[tuple[str, Any]] = Counter()
        for number, scalars, chain in terms:
            del number
            found.update(("scalar", s) for s in set(scalars))
            if chain:
                found["chain", chain] += 1
            for at in range(1, len(chain)):
                between = [self.alphabet.key(n) is None for n, _ in chain[at - 1 : at + 1]]
                if between == [True, True] or (at == 1 and not any(between)):
                    found["first", chain[:at]] += 1
                if between == [True, True] or (at == len(chain) - 1 and not any(between)):
                    found["last", chain[at:]] += 1
        order = ("scalar", "first", "last", "chain")
        best = max(found, key=lambda key: (found[key], -order.index(key[0])), default=None)
        return best if best is not None and found[best] > 1 else None

    def _factored(
        self, kind: str, factor: Any, terms: list[Term], shape: Shape
    ) -> tuple[bool, Text]:
        """A factor and what it multiplies, with the sign in front of both."""
        negative = terms[0].number < 0
        size = abs(terms[0].number)
        size = size if all(abs(term.number) == size for term in terms) else Fraction(1)
        c = -size if negative else size
        terms = [term._replace(number=term.number / c) for term in terms]
        ahead = [] if size == 1 else [number_text(size)]
        if kind == "scalar":
            parts, joint = [factor.inside(ATOM), self._total(terms, shape).inside(ATOM)], " * "
        elif kind == "chain":
            chain = self._chain(factor, shape).inside(PRODUCT)
            parts, joint = [self._total(terms, (1, 1)).inside(ATOM), chain], " * "
        else:
            rows, cols = self.alphabet.shape(factor[0])[0], self.alphabet.shape(factor[-1])[1]
            text = self._chain(factor, (rows, cols)).inside(ATOM)
            if kind == "first":
                parts = [text, self._total(terms, (cols, shape[1])).inside(ATOM)]
            else:
                parts = [self._total(terms, (shape[0], rows)).inside(ATOM), text]
            joint = " @ "
        return negative, Text(_times([*ahead, joint.join(parts)]), PRODUCT)

    def _term(self, term: Term, shape: Shape) -> tuple[bool, Text]:
        number, scalars, chain = term
        parts = list(scalars)
        if chain or shape != (1, 1):
            parts.append(self._chain(chain, shape))
        if abs(number) != 1 or not parts:
            parts.insert(0, Text(number_text(abs(number))))
        if len(parts) == 1:
            return number < 0, parts[0]
        *before, last = parts
        texts = [
            *(scalar.inside(ATOM) for scalar in before),
            last.inside(PRODUCT if chain else ATOM),
        ]
        return number < 0, Text(_times(texts), PRODUCT)

    # -- products ---------------------------------------------------------------------------------
    def _scalars(self, scalars: Iterable[Chain]) -> tuple[Text, ...]:
        """The texts of scalars; of roots, which come in pairs, that of the input."""
        texts: list[Text] = []
        roots: Counter[int] = Counter()
        for chain in scalars:
            key = self.alphabet.key(chain[0][0])
            if len(chain) == 1 and key is not None and key[0] == "root":
                roots[chain[0][0]] += 1
            else:
                texts.append(self._chain(chain, (1, 1)))
        for number, times in roots.items():
            texts += [self.names[number]] * (times // 2)
        return tuple(sorted(texts, key=lambda text: len(text.text)))

    def _chain(self, chain: Chain, shape: Shape) -> Text:
        """A product of letters; what selects rows and columns is a slice of its neighbour."""
        if not chain:
            return Text(f"inweave.eye({shape[0]})")
        whole: list[_Taken | Constant] = []
        for number, flipped in chain:
            letter, _ = self._came(number)
            if not isinstance(letter, Constant):
                whole.append(_Taken((number, flipped), self.alphabet.shape((number, flipped))))
            elif whole and isinstance(whole[-1], Constant):
                whole[-1] = product(whole[-1], letter)[1]  # a column and a row, of rank one
            else:
                whole.append(letter)
        parts: list[_Taken | Constant] = []
        for part in whole:
            parts.append(part)
            if len(parts) > 1:
                taken = _taken_left if isinstance(part, Constant) else _taken_right
                parts[-2:] = taken(*parts[-2:])
        texts = [
            self.constant(part) if isinstance(part, Constant) else self._taken(part)
            for part in parts
        ]
        if len(texts) == 1:
            return texts[0]
        return Text(" @ ".join(text.inside(ATOM) for text in texts), PRODUCT)

    def _taken(self, part: _Taken) -> Text:
        """A symbol, or some of its rows and columns."""
        number, flipped = part.letter
        base = self.names[number]
        rows, cols = part.shape[::-1] if flipped else part.shape
        r, c = (part.cols, part.rows) if flipped else (part.rows, part.cols)
        turned = ".T" if flipped and (rows, cols) != (1, 1) else ""
        if r is None and c is None:
            if turned and base.level == ATOM and base.text.endswith(turned):
                return Text(base.text.removesuffix(turned))
            return Text(base.inside(ATOM) + turned) if turned else base
        one = [s is not None and s[1] - s[0] == 1 for s in (r, c)]
        if (one[0] or rows == 1) and (one[1] or cols == 1):
            turned = ""
        if cols == 1:
            index = sliced(r)
        elif c is None and one[0]:
            index, turned = (sliced(r), "") if turned else (f"{sliced(r)}, :", "")
        elif c is None:
            index = sliced(r)
        else:
            index = f"{sliced(r)}, {sliced(c)}"
        return Text(f"{base.inside(ATOM)}[{index}]{turned}")

    # -- constants --------------------------------------------------------------------------------
    def constant(self, k: Constant) -> Text:
        """A constant matrix, as a vector or its transpose where it is one."""
        rows, cols = k.shape
        if rows == 1 and cols > 1:
            column = self.constant(k.T)
            return Text(f"{column.inside(ATOM)}.T")
        size = f"{rows}" if cols == 1 else f"{rows}, {cols}"
        if isinstance(k, Ones):
            return Text(f"inweave.ones({size})")
        if isinstance(k, Shift):
            return shift(k)
        return Text(self.hoisted(written(k), k))


class _Taken(NamedTuple):
    """A letter, its shape, and which of its rows and columns are taken."""

    letter: Letter
    shape: Shape
    rows: Slice = None
    cols: Slice = None


def _taken_left(left: Any, k: Any) -> list[Any]:
    """A symbol and a constant after it that takes some of its columns."""
    if not isinstance(left, _Taken) or not isinstance(k, Shift) or left.cols is not None:
        return [left, k]
    span = (k.row, k.row + k.size)
    if span != (0, k.rows):
        left = left._replace(cols=span)
    rest = Shift(k.size, k.cols, 0, k.col, k.size)
    return [left] if rest.is_identity() else [left, rest]


def _taken_right(k: Any, right: Any) -> list[Any]:
    """A symbol and a constant before it that takes some of its rows."""
    if not isinstance(k, Shift):
        return [k, right]
    span = (k.col, k.col + k.size)
    if span != (0, k.cols):
        right = right._replace(rows=span)
    rest = Shift(k.rows, k.size, k.row, 0, k.size)
    return [right] if rest.is_identity() else [rest, right]


def _unsigned(negative: bool, text: Text) -> tuple[bool, Text]:
    """A summand with its sign taken out of what it holds."""
    if text.text.startswith("-") and len(summands(text.text)) == 1:
        return not negative, Text(text.text[1:], PRODUCT)
    return negative, text


def _times(factors: Sequence[str]) -> str:
    """A product, with brackets where Python would multiply numbers by themselves and round."""
    first, *rest = factors
    if rest and first.startswith(NUMBERS):
        rounded = (*NUMBERS, "np.") if first.startswith(FRACTION) else NUMBERS
        rest[0] = f"({rest[0]})" if rest[0].startswith(rounded) else rest[0]
    return " * ".join([first, *rest])


def summands(text: str) -> list[str]:
    """A sum cut before every sign that stands in no bracket."""
    cuts, depth = [0], 0
    for at, sign in enumerate(text):
        depth += (sign in "([{") - (sign in ")]}")
        if depth == 0 and text[at : at + 3] in (" + ", " - "):
            cuts.append(at + 1)
    return [text[start:stop].strip() for start, stop in pairwise([*cuts, len(text)])]


def _has(term: Term, kind: str, factor: Any) -> bool:
    if kind == "scalar":
        return factor in term.scalars
    if kind == "chain":
        return bool(term.chain == factor)
    size = len(factor)
    end = term.chain[:size] if kind == "first" else term.chain[-size:]
    return len(term.chain) > size and bool(end == factor)


def _without(term: Term, kind: str, factor: Any) -> Term:
    if kind == "scalar":
        rest = list(term.scalars)
        rest.remove(factor)
        return term._replace(scalars=tuple(rest))
    if kind == "chain":
        return term._replace(chain=())
    size = len(factor)
    return term._replace(chain=term.chain[size:] if kind == "first" else term.chain[:-size])
