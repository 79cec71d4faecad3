"""Names of stored values that a reader understands: the user's own, or the expression itself.

What a program or a pass named keeps its name. Any other value is called what it is, written like
one word: `XᵀXw−Xᵀy+λw`, `ηXᵀy`. Factors stand side by side where that cannot be taken for one name,
and with a dot where it could; a long sum is cut after a summand. A block that holds one value after
the other is called after all of them in turn: `A›A³›A⁹`. What would be longer than it is helpful
has a number: `part1`. A name may say little, but nothing false.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Mapping, Sequence
from fractions import Fraction
from typing import Any

from inweave.compiler.forms import (
    AnswerLeaf,
    AppliedLeaf,
    DefinedLeaf,
    Form,
    Leaf,
    Node,
    Product,
    number,
)
from inweave.compiler.layers import DiagonalLeaf, Key
from inweave.exact.constants import Constant, Ones
from inweave.exact.names import GREEK, OTHERS, THEN, compound

LONG = 24  # characters of one value's name
TOTAL = 48  # of a block's, which holds several in turn
DEEP = 12  # values inside values; what is made of more is long
CUT = "…"
SYMBOL = re.compile(r"\w[⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉‥′]*I?ᵀ?")  # one letter, as X, A³ or w₉ᵀ
INTERNAL = re.compile(r"[cM]\(")  # what `gather` takes out of a loop is called what it is


class TooLong(Exception):
    """What a value is called would not be read."""


def block_name(keys: Sequence[Key], used: set[str], called: Mapping[str, str]) -> str:
    """The name of a block after what stands in it in turn; `part1` is something too long to say.

    What another block is `used` to hold gets a prime. Some sums are `called` something shorter.
    """
    names = [_spelled(key, called) for key in keys]
    if not any(names):
        names = [""]
    parts = (f"part{n}" for n in itertools.count(1) if f"part{n}" not in used)
    while len(THEN.join(names)) > TOTAL or names[-2:] in (["", ""], ["", OTHERS]):
        names = [*names[:-2], OTHERS]
    if names == [OTHERS]:
        names = [""]
    names = [name if name == OTHERS else unused(name, used) or next(parts) for name in names]
    used.update(names)
    return THEN.join(names)


def unused(name: str, used: Container[str]) -> str:
    """The name, with as many primes as make it a new one."""
    base, n = name, 2
    while name in used:
        name, n = f"{base}′{n if n > 2 else ''}", n + 1
    return name


def _spelled(key: Key, called: Mapping[str, str]) -> str:
    """The name of one value; nothing if it would be long."""
    value = key.value
    if isinstance(value, Form) and repr(value) in called:
        return transposed(called[repr(value)]) if key.flipped else called[repr(value)]
    try:
        return _alone(_parts(value, key.flipped, DEEP, {}))
    except TooLong:
        name = value.name if isinstance(value, DefinedLeaf) else ""
        return transposed(name) if name and key.flipped else name


Parts = tuple[str, Sequence[str]]  # what stands between them
Known = dict[tuple[Node, bool, int], Parts | None]  # None: too long; values share most parts


def _alone(parts: Parts, room: int = LONG) -> str:
    """A name by itself, cut after a summand where it grows long."""
    joint, words = parts
    if not joint and len(words) > 1 and not compound("".join(words)):
        joint = "·"
    for many in range(len(words), 0, -1):
        whole = many == len(words)
        if not whole and joint != "+":
            break
        text = joint.join([*words[:many], *([] if whole else [CUT])]).replace("+−", "−")
        if len(text) <= room:
            return text
    raise TooLong


def factors(form: Form) -> list[str]:
    """A form as words of a product."""
    return _factor(form, _parts(form, False, DEEP, {}))


def in_sum(terms: Sequence[tuple[Fraction, Sequence[str]]]) -> str:
    """Numbers times words, all of them."""
    summands = (_signed(_alone((_joint(words), words)), False, c) for c, words in terms)
    text = "+".join(summands).replace("+−", "−")
    if len(text) > LONG:
        raise TooLong
    return text


def _joint(words: Sequence[str]) -> str:
    """What stands between factors: nothing, where no two can be taken for one name."""
    return "" if all(SYMBOL.fullmatch(word) or compound(word) for word in words) else "·"


def _factor(form: Node, parts: Parts) -> list[str]:
    """What stands in a product; sums are in brackets, and so are scalars such as (yᵀy)."""
    joint, words = parts
    if joint != "+" and not (form.is_scalar and words[1:]):
        return list(words)
    if CUT in words:  # that would say too little
        raise TooLong
    return [f"({joint.join(words)})".replace("+−", "−")]


def _parts(value: Node, turned: bool, depth: int, known: Known) -> Parts:
    key = (value, turned, depth)
    if key not in known:
        try:
            known[key] = _found(value, turned, depth, known)
        except TooLong:
            known[key] = None
    found = known[key]
    if found is None:
        raise TooLong
    return found


def _found(value: Node, turned: bool, depth: int, known: Known) -> Parts:
    if depth == 0:
        raise TooLong
    if isinstance(value, DiagonalLeaf):
        scalar = _alone(_parts(value.scalar.value, False, depth - 1, known))
        return "", [f"({scalar})·I" if compound(scalar) else f"{scalar}·I"]
    if isinstance(value, AppliedLeaf):
        return "", [_applied(value, turned, depth, known)]
    if isinstance(value, DefinedLeaf) and not isinstance(value, AnswerLeaf):
        if not value.name or INTERNAL.match(value.name):
            return _parts(value.definition, turned, depth - 1, known)
    if isinstance(value, Leaf):
        name = GREEK.get(value.name, value.name)
        name = transposed(name) if turned and not value.is_scalar else name
        return "+" if _is_sum(name) else "", [name]
    if isinstance(value, Product):
        return _product(value, turned, depth, known)
    assert isinstance(value, Form)
    return _sum(value, turned, depth, known)


def _applied(value: AppliedLeaf, turned: bool, depth: int, known: Known) -> str:
    name = value.function.name.partition("(")[0]
    try:
        inside = _alone(_parts(value.definition, turned, depth - 1, known), LONG - len(name) - 2)
    except TooLong:
        inside = CUT
    return f"{name}({inside})"


def transposed(name: str) -> str:
    """The name of a value's transpose.

    >>> [transposed(name) for name in ("X", "Xᵀ", "XᵀX", "(XᵀX)ᵀ", "(A+B)(C)ᵀ")]
    ['Xᵀ', 'X', '(XᵀX)ᵀ', 'XᵀX', '((A+B)(C)ᵀ)ᵀ']
    """
    if not compound(name):
        return name[:-1] if name.endswith("ᵀ") else f"{name}ᵀ"
    inside = name.removeprefix("(").removesuffix(")ᵀ")
    depths = itertools.accumulate({"(": 1, ")": -1}.get(c, 0) for c in inside)
    return inside if len(inside) == len(name) - 3 and min(depths) >= 0 else f"({name})ᵀ"


def _product(product: Product, turned: bool, depth: int, known: Known) -> Parts:
    chain = product.chain[::-1] if turned else product.chain
    factors = [(s, False) for s in product.scalars] + [(f, turned) for f in chain]
    words: list[str] = []
    for form, flipped in factors:
        if form.is_identity and chain[1:]:
            continue
        joint, parts = _parts(form, flipped, depth - 1, known)
        if form.diagonal and chain[1:] and joint != "+":
            parts = [*parts[:-1], parts[-1].removesuffix("I")]
        words += _factor(form, (joint, parts))
        if sum(map(len, words)) > LONG:
            raise TooLong
    if len(words) > 1 and words[-1] == "I":
        words[-2:] = [f"{words[-2]}I"]
    return _joint(words), words or ["I"]


def _sum(form: Form, turned: bool, depth: int, known: Known) -> Parts:
    """A sum, up to what cannot be spelled; of a scalar as `s I`, with the I."""
    fixed: list[Any] = [(k, False, c) for k, c in form.constants]
    terms = [*fixed, *form.terms] if all(c > 0 for _, _, c in fixed) else [*form.terms, *fixed]
    words: list[str] = []
    for value, flipped, c in terms:
        try:
            joint, parts = (
                ("", [_constant(value)])
                if isinstance(value, Constant)
                else _parts(value, flipped != turned, depth - 1, known)
            )
            if CUT in parts and (c != 1 or terms[1:]):  # nothing stands behind a cut
                raise TooLong
        except TooLong:
            if not words:
                raise
            return "+", [*words, CUT]
        if form.diagonal and not isinstance(value, Constant):
            *parts, last = _factor(value, (joint, parts))
            joint, parts = "" if joint == "+" else joint, [*parts, f"{last}I"]
        if len(terms) == 1 and c == 1:
            return joint, parts
        words.append(_signed(joint.join(parts), joint == "+", c))
    return "+", words or ["0"]


def _constant(k: Constant) -> str:
    if k.rows == k.cols == 1 and k.is_identity():
        return "1"
    if k.is_identity():
        return "I"
    if isinstance(k, Ones):
        return "ones"
    raise TooLong  # its shape, and where its entries stand


def _is_sum(name: str) -> bool:
    """Whether a name is to stand in brackets beside a factor.

    >>> [_is_sum(name) for name in ("X", "y−X·w", "−AᵀA", "2·X", "(A+B)C", "1e+05·X")]
    [False, True, True, True, False, True]
    """
    while name != (name := re.sub(r"\([^()]*\)", "", name)):
        pass
    return re.search(r"^[\d−]|\+|−", name) is not None


def _signed(text: str, is_sum: bool, c: Fraction) -> str:
    if is_sum and c != 1:
        text = f"({text})".replace("+−", "−")
    if abs(c) != 1:
        text = f"{number(abs(c))}{'' if text.startswith('(') else '·'}{text}"
    return f"−{text}" if c < 0 else text
