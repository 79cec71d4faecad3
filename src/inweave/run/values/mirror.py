"""Which matrices are symmetric because they read the same backwards: `Pᵀ diag(s) P`, `P S Pᵀ`.

A product is written as numbers times a word of matrices, however its factors were multiplied: first
with first, or with numbers between them. Its transpose is the word backwards, every letter turned.
Equal words are equal matrices; of others nothing is known, and a long one stays one letter.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from inweave.run.values.node import Node

LONGEST = 16  # letters and numbers of a word


class Word(NamedTuple):
    """A product; letters are values or diagonals, and whether each is turned."""

    coefficient: Fraction
    numbers: tuple[int, ...]
    letters: tuple[Any, ...]


def is_palindrome(x: Node) -> bool:
    """Whether a value is the same backwards."""
    return x.rows == x.cols and word(x) == word(x, turned=True)


def word(x: Node, turned: bool = False) -> Word:
    """The word of a value, or of its transpose."""
    coefficient, numbers, letters = Fraction(1), list[int](), list[Any]()
    left: list[tuple[Node | str, Any]] = [(x, turned)]
    while left:
        top, turn = left.pop()
        if isinstance(top, str):
            letters.append((top, turn))
        elif top.flipped and top.args[0].shape == top.shape[::-1]:
            left.append((top.args[0], not turn))
        elif top.symmetric:
            letters.append((top, False))
        elif top.op == "scale":
            coefficient *= top.data
            left.append((top.args[0], turn))
        elif top.op == "mul" and (by := next((a for a in top.args if a.is_scalar), None)):
            numbers.append(by.order)
            left.append((top.args[by is top.args[0]], turn))
        else:
            found = _factors(top)
            ordered = [(part, turn) if isinstance(part, Node) else part for part in found or ()]
            left += ordered if turn else ordered[::-1]
            if not found:
                letters.append(_letter(top, turn))
        if len(numbers) + len(letters) + len(left) > LONGEST:
            return Word(Fraction(1), (), (_letter(x, turned),))
    return Word(coefficient, tuple(sorted(numbers)), tuple(letters))


def _factors(x: Node) -> Sequence[Node | tuple[str, Node]]:
    """What a product is made of; a column times every column stands on a diagonal."""
    if x.op == "matmul":
        return x.args
    if x.op != "mul":
        return ()
    a, b = x.args
    if a.cols == b.rows == 1:
        return a, b
    for by, of in ((a, b), (b, a)):
        if 1 in by.shape and 1 not in of.shape:
            base = by.args[0] if by.flipped and by.args[0].shape == by.shape[::-1] else by
            diagonal = ("diagonal", base)
            if of.op == "const" and of.data.is_identity():
                return (diagonal,)
            return (diagonal, of) if by.cols == 1 else (of, diagonal)
    return ()


def _letter(x: Node, turned: bool) -> Any:
    """A value that is no product, turned or not; a slice is known by what it is a slice of."""
    if x.turns:
        return x.data.T if turned else x.data
    if x.is_scalar or x.symmetric:
        return x, False
    if x.op != "view":
        return x, turned
    base, (row, col, rows, cols, flip) = x.args[0], x.data
    turned = turned != flip
    if turned and base.symmetric:
        return (base, col, row, cols, rows), False
    return (base, row, col, rows, cols), turned
