"""What a head multiplies, as parts of blocks and of identities that stand at places.

Every matrix here goes on with zeros, as blocks do in a prompt, so factors of any sizes multiply; a
scalar is that multiple of I. A text says which part of a block is meant, if not all of it, and
where that is put, if not at the top left: `X[:, 1:2]`, `I2@(2,0)`, `(X y)@(0,1)`. What stands side
by side is `[v | w]`, one above the other `[v; w]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

from inweave.compiler.forms import number
from inweave.exact.names import compound

ONE = Fraction(1)


@dataclass(frozen=True)
class Rectangle:
    """Some rows and columns of a matrix that has a name."""

    name: str
    turned: str  # its transpose's
    shape: tuple[int, int]
    down: range
    across: range
    row: int = 0
    col: int = 0
    coefficient: Fraction = ONE

    @property
    def height(self) -> int:
        return len(self.down)

    @property
    def width(self) -> int:
        return len(self.across)

    @property
    def T(self) -> Rectangle:
        return replace(self, name=self.turned, turned=self.name, shape=self.shape[::-1],
                       down=self.across, across=self.down, row=self.col, col=self.row)  # fmt: skip

    def columns(self, start: int, stop: int) -> Rectangle | None:
        """What stands in some columns, counted from the first of them."""
        if start == 0 and self.col + self.width <= stop:
            return self
        first, end = max(start, self.col), min(stop, self.col + self.width)
        taken = self.across[first - self.col : max(end - self.col, 0)]
        return replace(self, across=taken, col=first - start) if first < end else None

    @property
    def text(self) -> str:
        spans = [
            ":" if len(span) == size else f"{span.start}:{span.stop}"
            for span, size in zip((self.down, self.across), self.shape, strict=True)
        ]
        return self.name if spans == [":", ":"] else f"{atom(self.name)}[{', '.join(spans)}]"


@dataclass(frozen=True)
class Diagonal:
    """A product of scalars along a diagonal, as in s t I; without any, ones."""

    scalars: tuple[str, ...]
    size: int
    row: int = 0
    col: int = 0
    coefficient: Fraction = ONE

    @property
    def height(self) -> int:
        return self.size

    width = height

    @property
    def T(self) -> Diagonal:
        return replace(self, row=self.col, col=self.row)

    def columns(self, start: int, stop: int) -> Diagonal | None:
        """What stands in some columns, counted from the first of them."""
        if start == 0 and self.col + self.size <= stop:
            return self
        first, end = max(start, self.col), min(stop, self.col + self.size)
        row = self.row + first - self.col
        return replace(self, size=end - first, row=row, col=first - start) if first < end else None


Part = Rectangle | Diagonal


def columns(parts: Iterable[Part], start: int, stop: int) -> list[Part]:
    cut = (part.columns(start, stop) for part in parts)
    return [part for part in cut if part is not None]


def rows(parts: list[Part], start: int, stop: int) -> list[Part]:
    if start == 0 and bottom(parts) <= stop:
        return parts
    return turned(columns(turned(parts), start, stop))


def turned(parts: Iterable[Part]) -> list[Part]:
    return [part.T for part in parts]


def right(parts: Iterable[Part]) -> int:
    """Where the last column ends."""
    return max((part.col + part.width for part in parts), default=0)


def bottom(parts: Iterable[Part]) -> int:
    """Where the last row ends."""
    return max((part.row + part.height for part in parts), default=0)


@dataclass(frozen=True)
class Term:
    """A product, its factors spelled, at a place of what it is added to."""

    coefficient: Fraction
    factors: tuple[str, ...]
    row: int = 0
    col: int = 0
    size: tuple[int, int] | None = None  # None: a scalar that is that multiple of I
    diagonal: bool = False  # an identity, the last factor, times scalars

    @property
    def text(self) -> str:
        """The product without its coefficient."""
        return beside(self.factors)


def spelled(part: Part, seen: int | None = None) -> Term:
    """A part by itself, of whose rows and columns so many are looked at."""
    size = part.height, part.width
    if isinstance(part, Rectangle):
        return Term(part.coefficient, (part.text,), part.row, part.col, size)
    whole = part.scalars and seen is not None and part.size >= seen
    if whole and (seen == 1 or not (part.row or part.col)):
        return Term(part.coefficient, part.scalars, part.row, part.col, None)
    words = *part.scalars, f"I{part.size}"
    return Term(part.coefficient, words, part.row, part.col, size, diagonal=True)


def product(query: list[Part], keys: list[Part], value: Part, shape: tuple[int, int]) -> list[Term]:
    """Q times transposed keys times V, added to a block of some shape, without factors of one."""
    sides = [query, keys, [value]]
    sums: list[list[Part]] = []
    diagonals: list[Diagonal] = [EVERYTHING]  # before, between and after the sums
    for side in sides:
        if len(side) == 1 and isinstance(side[0], Diagonal):
            found = _along(diagonals[-1], side[0])
            if found is None:
                return []
            diagonals[-1] = found
        else:
            sums.append(side)
            diagonals.append(EVERYTHING)
    if not sums:
        return [spelled(diagonals[0], _seen(diagonals[0], shape))]
    for i, diagonal in enumerate(diagonals):  # each moves what stands beside it, and cuts it off
        if i and diagonal is not EVERYTHING:
            end = diagonal.row + diagonal.size
            sums[i - 1] = columns(sums[i - 1], diagonal.row, end)
        if i < len(sums) and diagonal is not EVERYTHING:
            end = diagonal.col + diagonal.size
            sums[i] = rows(sums[i], diagonal.col, end)
        if 0 < i < len(sums):
            width, height = right(sums[i - 1]), bottom(sums[i])
            if width > height:
                sums[i - 1] = columns(sums[i - 1], 0, height)
            elif height > width:
                sums[i] = rows(sums[i], 0, width)
    if not all(sums):
        return []
    if len(sums) == 1:
        return [_alone(part, diagonals[0], diagonals[1], shape) for part in sums[0]]
    return [_multiplied(sums, diagonals, shape)]


EVERYTHING = Diagonal((), 1 << 62)


def _along(left: Diagonal, right: Diagonal) -> Diagonal | None:
    """The product of two diagonals."""
    if left is EVERYTHING:
        return right
    first = max(left.col, right.row)
    end = min(left.col + left.size, right.row + right.size)
    return None if first >= end else Diagonal(
        left.scalars + right.scalars,
        end - first,
        left.row + first - left.col,
        right.col + first - right.row,
        left.coefficient * right.coefficient,
    )  # fmt: skip


def _alone(part: Part, before: Diagonal, after: Diagonal, shape: tuple[int, int]) -> Term:
    """One part between two diagonals that have cut it."""
    c = part.coefficient
    for diagonal in (before, after):
        c = c if diagonal is EVERYTHING else c * diagonal.coefficient
    part = replace(part, coefficient=c, row=part.row + before.row, col=part.col + after.col)
    if isinstance(part, Diagonal):
        part = replace(part, scalars=before.scalars + part.scalars + after.scalars)
        return spelled(part, _seen(part, shape))
    said = spelled(part)
    return replace(said, factors=before.scalars + said.factors + after.scalars)


def _seen(part: Part, shape: tuple[int, int]) -> int:
    """How far a diagonal would reach in a block."""
    return min(shape[0] - part.row, shape[1] - part.col)


def _multiplied(sums: list[list[Part]], diagonals: list[Diagonal], shape: tuple[int, int]) -> Term:
    """A product of sums, with the scalars that stand between them."""
    row, col = min(p.row for p in sums[0]), min(p.col for p in sums[-1])
    if row:
        sums[0] = rows(sums[0], row, bottom(sums[0]))
    if col:
        sums[-1] = columns(sums[-1], col, right(sums[-1]))
    row, col = row + diagonals[0].row, col + diagonals[-1].col
    c, factors = diagonals[0].coefficient, [*diagonals[0].scalars]
    for i, (side, diagonal) in enumerate(zip(sums, diagonals[1:], strict=True)):
        top = shape[0] - row if i == 0 else right(sums[i - 1])
        end = shape[1] - col if i == len(sums) - 1 else bottom(sums[i + 1])
        if len(side) == 1 and side[0].coefficient != 1:
            c *= side[0].coefficient
            side = [replace(side[0], coefficient=ONE)]
        text = combined([spelled(part, min(top, end)) for part in side])
        factors += [text, *diagonal.scalars]
        c = c if diagonal is EVERYTHING else c * diagonal.coefficient
    return Term(c, tuple(factors), row, col, (bottom(sums[0]), right(sums[-1])))


# -- texts -----------------------------------------------------------------------------------------
def combined(terms: Sequence[Term], above: bool = False) -> str:
    """A sum, or what stands side by side, or one above the other."""
    if (text := _tiled(terms, above)) is not None:
        return text
    return total([(term.coefficient, _placed(term)) for term in terms])


def _tiled(terms: Sequence[Term], above: bool) -> str | None:
    """Terms that fill places side by side without gaps; None if they do not."""
    along, across = (0, 1) if above else (1, 0)
    if any(term.size is None or (term.row, term.col)[across] for term in terms):
        return None
    groups: dict[tuple[int, int], list[Term]] = {}
    for term in terms:
        assert term.size is not None
        groups.setdefault(((term.row, term.col)[along], term.size[along]), []).append(term)
    ordered, end = sorted(groups), 0
    for start, size in ordered:
        if start != end:
            return None
        end += size
    if len(ordered) < 2:
        return None
    texts = [total([(t.coefficient, t.text) for t in groups[key]]) for key in ordered]
    return f"[{('; ' if above else ' | ').join(texts)}]"


def _placed(term: Term) -> str:
    if not (term.row or term.col):
        return term.text
    place = f"@({term.row},{term.col})"
    if term.diagonal:
        return beside([*term.factors[:-1], term.factors[-1] + place])
    return atom(term.text) + place


def total(parts: Sequence[tuple[Fraction, str]]) -> str:
    """Numbers times texts, added."""
    out = ""
    for c, text in parts:
        negative = c.numerator < 0
        if c.denominator != 1 or abs(c.numerator) != 1:
            text = f"{number(abs(c))} {factor(text)}"
        elif negative or (out and text.startswith("−")):
            text = factor(text)
        sign = " − " if negative else " + "
        out += sign + text if out else sign.lstrip() * negative + text
    return out or "0"


def beside(words: Sequence[str]) -> str:
    """A product of texts."""
    return words[0] if len(words) == 1 else " ".join(map(factor, words))


def factor(text: str) -> str:
    """A text as a factor: in brackets, if it is a sum or begins with a sign."""
    return f"({text})" if is_sum(text) else text


def atom(text: str) -> str:
    """A text of which a part is taken: in brackets, if it is more than a word."""
    inside = text.removesuffix("ᵀ")
    depths = list(accumulate({"(": 1, ")": -1}.get(c, 0) for c in inside))
    enclosed = inside[:1] == "(" and depths.index(0) == len(inside) - 1
    return f"({text})" if compound(text) and not enclosed else text


@lru_cache(maxsize=10_000)
def is_sum(text: str) -> bool:
    """Whether a text is to stand in brackets beside a factor.

    >>> [is_sum(text) for text in ("X y", "X + y", "−t·v", "(A−B)C", "1e+05 X", "[a | b − c]")]
    [False, True, True, False, False, False]
    """
    return re.search(r"(?<!e)\+|−", _without_brackets(text)) is not None


def _without_brackets(text: str) -> str:
    while text != (text := re.sub(r"\([^()]*\)|\[[^\[\]]*\]", "", text)):
        pass
    return text
