"""Matrix polynomials in the shape that heads like: sums of products of sums.

A `Form` is an affine combination: exact coefficients times leaves, products and constants. A
`Product` is scalars times a chain of forms. Nothing is multiplied out here, because a projection
can hold any affine form for free: `(A + B)(C + D)` is one head, not four.

All of it is frozen and made by `Forms`, which keeps one object of equals: `is` is equality, and a
value that is computed twice is found by looking. A pass that wants other values makes other forms.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np

from inweave.errors import ShapeError
from inweave.exact import constants
from inweave.exact.constants import Constant, Ones, Shift, identity
from inweave.exact.schema import rational_text
from inweave.language.expressions import parts_first, shortened
from inweave.model.layout import Block
from inweave.model.prompt import Fill

ONE = Fraction(1)
NOTHING = 1e-9  # beside the sizes of what is added up
MANY = 8  # terms of a sum, more than which are looked at for common factors
TEXT = 1000  # characters: values nest, and a whole text may be longer than any memory
ANY = "any"  # the family of multiples of the identity, which commute with everything
Family = Any  # None, ANY or the root of a family, see `Leaf.family`


@dataclass(frozen=True, eq=False)
class Scope:
    """The identity of a loop, whatever becomes of its step; inner ones have larger serials."""

    serial: int


Scopes = frozenset[Scope]


def innermost(scopes: Scopes) -> Scope | None:
    return max(scopes, key=lambda scope: scope.serial, default=None)


class Node:
    """A form, a product or a leaf."""

    rows: int
    cols: int

    @property
    def parts(self) -> Sequence[Node]:
        """What it is made of, not looking into loops."""
        return ()

    @cached_property
    def loops(self) -> Scopes:
        """The loops that change it: those whose carried values it is made of."""
        return frozenset[Scope]().union(*(part.loops for part in self.parts))

    @property
    def is_scalar(self) -> bool:
        return self.rows == self.cols == 1

    @cached_property
    def text(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        for part in ordered([self], _Worded()):
            part.text  # noqa: B018  (parts first, so that none has to ask deep down)
        return self.text


class _Worded:
    """All that was put into words already."""

    def __contains__(self, x: object) -> bool:
        return "text" in x.__dict__


# -- leaves ---------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False, repr=False)
class Leaf(Node):
    """A stored value; what it holds is said by its class."""

    name: str
    rows: int
    cols: int

    @cached_property
    def family(self) -> Family:
        """None for a matrix that is not known to be symmetric.

        Otherwise the matrix is a polynomial in one symmetric matrix, the family's root, and
        commutes with its relatives.
        """
        return ANY if self.is_scalar else None

    @cached_property
    def text(self) -> str:
        return self.name


class InputLeaf(Leaf):
    """An input of the program."""


@dataclass(frozen=True, eq=False, repr=False)
class GivenLeaf(Leaf):
    """A block of a user's layout as it stands, filled from an input; s I_q has the capacity q."""

    block: Block
    fill: Fill
    capacity: int
    both_ways: bool  # whether the layout holds it transposed as well


@dataclass(frozen=True, eq=False, repr=False)
class CarriedLeaf(Leaf):
    """A value that a loop carries, as its step sees it."""

    scope: Scope
    index: int
    symmetry: Family

    @cached_property
    def loops(self) -> Scopes:
        return frozenset([self.scope])

    @cached_property
    def family(self) -> Family:
        return ANY if self.is_scalar else self.symmetry


@dataclass(frozen=True, eq=False, repr=False)
class ResultLeaf(Leaf):
    """What a carried value is after its loop."""

    loop: LoopForm
    index: int

    @property
    def carried(self) -> CarriedLeaf:
        return self.loop.carried[self.index]

    @cached_property
    def loops(self) -> Scopes:
        return self.loop.around

    @cached_property
    def family(self) -> Family:
        return self.carried.family


@dataclass(frozen=True, eq=False, repr=False)
class DefinedLeaf(Leaf):
    """A form, stored; products do not reach through it.

    It is as symmetric as it was when it was first stored, though the form may be another since.
    """

    definition: Form
    symmetry: Family

    @property
    def parts(self) -> Sequence[Node]:
        return (self.definition,)

    @cached_property
    def family(self) -> Family:
        return ANY if self.is_scalar else self.symmetry

    @cached_property
    def text(self) -> str:
        return self.name or f"[{shortened(repr(self.definition), 60)}]"


class AnswerLeaf(DefinedLeaf):
    """An answer of the program."""


@dataclass(frozen=True, eq=False, repr=False)
class AppliedLeaf(DefinedLeaf):
    """A function of every entry of a form."""

    function: Any

    @cached_property
    def family(self) -> Family:
        """A function of every entry keeps symmetry, but not a polynomial family."""
        if self.is_scalar:
            return ANY
        return None if self.symmetry is None else ("leaf", self)


# -- products and sums ----------------------------------------------------------------------------
@dataclass(frozen=True, eq=False, repr=False)
class Product(Node):
    """Scalars times a chain of forms."""

    scalars: tuple[Form, ...]
    chain: tuple[Form, ...]
    mirrored: bool  # whether the chain reads the same backwards, each factor transposed
    rows: int
    cols: int

    @property
    def parts(self) -> Sequence[Form]:
        return (*self.scalars, *self.chain)

    @cached_property
    def factors(self) -> int:
        return sum(f.factors for f in self.parts)

    @cached_property
    def family(self) -> Family:
        if self.rows != self.cols:
            return None
        own = ("product", self) if self.mirrored else None
        return ANY if self.rows == 1 else join([f.family for f in self.chain], own, strict=True)

    @cached_property
    def text(self) -> str:
        words = [f"({part!r})" if part.is_sum else repr(part) for part in self.parts]
        return shortened(" ".join(words), TEXT)


Value = Leaf | Product
Term = tuple[Value, bool, Fraction]  # a value, whether it is transposed, its coefficient


@dataclass(frozen=True, eq=False, repr=False)
class Form(Node):
    """An affine combination of values and constants; with `diagonal = q`, a scalar as `s I_q`."""

    rows: int
    cols: int
    terms: tuple[Term, ...]
    constants: tuple[tuple[Constant, Fraction], ...]
    diagonal: int
    serial: int  # the order of creation: what a sort may depend on

    @property
    def parts(self) -> Sequence[Value]:
        return [v for v, _, _ in self.terms]

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @property
    def is_zero(self) -> bool:
        return not self.terms and not self.constants

    @property
    def is_sum(self) -> bool:
        return len(self.terms) + len(self.constants) > 1

    @property
    def is_identity(self) -> bool:
        if self.terms or self.diagonal or len(self.constants) != 1:
            return False
        ((constant, coefficient),) = self.constants
        return coefficient == 1 and constant.is_identity()

    @cached_property
    def products(self) -> list[tuple[Product, bool, Fraction]]:
        return [(v, t, c) for v, t, c in self.terms if isinstance(v, Product)]

    @cached_property
    def leaves(self) -> list[tuple[Leaf, bool, Fraction]]:
        return [(v, t, c) for v, t, c in self.terms if isinstance(v, Leaf)]

    @cached_property
    def sole(self) -> Term | None:
        """The only term, if the form is a multiple of one value."""
        return self.terms[0] if len(self.terms) == 1 and not self.constants else None

    @cached_property
    def factors(self) -> int:
        """How many factors a product gets that takes this form in: a sum stays one factor."""
        return self.sole[0].factors if self.sole and isinstance(self.sole[0], Product) else 1

    @cached_property
    def family(self) -> Family:
        if self.rows != self.cols:
            return None
        if self.diagonal or self.rows == 1:
            return ANY
        families = [v.family for v, _, _ in self.terms]
        return join([*families, *(_constant_family(k) for k, _ in self.constants)], ("sum", self))

    @cached_property
    def text(self) -> str:
        out = ""
        words = [(c, f"({v!r})ᵀ" if t and isinstance(v, Product) else f"{v!r}{'ᵀ' * t}")
                 for v, t, c in self.terms]  # fmt: skip
        words += [(c, repr(k)) for k, c in self.constants]
        for c, text in words:
            sign = ("− " if c < 0 else "") if not out else (" − " if c < 0 else " + ")
            out += sign + (text if abs(c) == 1 else f"{number(abs(c))} {text}")
        return shortened(out, TEXT) or "0"


def number(c: Fraction) -> str:
    """A coefficient for people: exact when short, otherwise to six digits."""
    text = rational_text(c)
    try:
        return text if len(text) <= 7 else f"{float(c):.6g}"
    except OverflowError:  # refused where it would be used, by name
        return f"{Decimal(c.numerator) / Decimal(c.denominator):.6g}"


def join(families: Sequence[Family], own: Family, strict: bool = False) -> Family:
    """The family of a sum or product, given those of its parts.

    All parts of one family (or multiples of the identity): that family. Otherwise a sum of
    symmetric parts is a root of its own; a product (`strict`) is one only if it reads the same
    backwards.
    """
    roots = {f for f in families if f is not ANY}
    if None not in roots and len(roots) <= 1:
        return next(iter(roots), ANY)
    return own if strict or None not in roots else None


def _constant_family(k: Constant) -> Family:
    if k.is_identity():
        return ANY
    if k.rows == k.cols and (isinstance(k, Ones) or k == k.T):
        return ("constant", k)
    return None


# -- programs -------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class LoopForm:
    """A loop: what it carries, where that starts, and what one step makes of it."""

    scope: Scope
    times: int
    carried: tuple[CarriedLeaf, ...]
    init: tuple[Form, ...]
    step: tuple[Form, ...]

    @cached_property
    def around(self) -> Scopes:
        """The loops around this one."""
        found = frozenset[Scope]().union(*(f.loops for f in (*self.init, *self.step)))
        return found - {self.scope}

    @property
    def parent(self) -> Scope | None:
        return innermost(self.around)


def by_parent(loops: Iterable[LoopForm]) -> dict[Scope | None, list[LoopForm]]:
    """Loops by the one right inside of which they are."""
    inside: dict[Scope | None, list[LoopForm]] = {}
    for loop in loops:
        inside.setdefault(loop.parent, []).append(loop)
    return inside


@dataclass(frozen=True)
class Written:
    """A program in forms: its loops in the order in which they run, inner ones first; its answers.

    A loop is listed once however many results are read, and even if none is.
    """

    loops: tuple[LoopForm, ...]
    outputs: Mapping[str, Form]

    def reachable(self) -> list[Form]:
        """Every form that the answers need, through products, stored values and loops."""
        seen: dict[Form, None] = {}
        loops = {loop.scope: loop for loop in self.loops}
        stack = list(self.outputs.values())
        while stack:
            form = stack.pop()
            if form in seen:
                continue
            seen[form] = None
            for value, _, _ in form.terms:
                if isinstance(value, (CarriedLeaf, ResultLeaf)):
                    loop = loops[value.scope] if isinstance(value, CarriedLeaf) else value.loop
                    stack += [loop.init[value.index], loop.step[value.index]]
                else:
                    stack += value.parts  # type: ignore[arg-type]
        return list(seen)


def ordered(roots: Iterable[Node], known: Container[Node] = ()) -> list[Node]:
    """All that roots are made of and is not known, parts first. Not recursive: forms may be deep.

    Loops are not looked into.
    """
    return parts_first(roots, known)


Interned = TypeVar("Interned")


class Forms:
    """Makes forms, products, leaves and loops, one object of equals.

    What is kept here are tables of what was made, never a choice of some pass.
    """

    def __init__(self) -> None:
        self._forms: dict[Any, Form] = {}
        self._others: dict[Any, Any] = {}
        self._twins: dict[Form, Form] = {}
        self._parts: dict[tuple[Form, ...], Form] = {}
        self._multiplied: dict[tuple[Constant, Constant], tuple[Fraction, Constant]] = {}
        self.called: dict[str, str] = {}  # names for people of sums, by what they are in words

    def intern(self, kind: type[Interned], *fields: Any) -> Interned:
        """The one object of a class with these fields."""
        key = (kind, *fields)
        if key not in self._others:
            self._others[key] = kind(*fields)
        return self._others[key]  # type: ignore[no-any-return]

    # -- forms ------------------------------------------------------------------------------------
    def form(
        self,
        rows: int,
        cols: int,
        terms: Iterable[Term] = (),
        consts: Iterable[tuple[Constant, Fraction]] = (),
        diagonal: int = 0,
    ) -> Form:
        collected: dict[tuple[Value, bool], Fraction] = {}
        for v, t, c in terms:
            term = (v, t and v.family is None)
            collected[term] = collected[term] + c if term in collected else c
        fixed: dict[Constant, Fraction] = {}
        for k, c in consts:
            if not constants.is_zero(k):
                fixed[k] = fixed[k] + c if k in fixed else c
        found = tuple((v, t, c) for (v, t), c in collected.items() if c)
        added = tuple((k, c) for k, c in fixed.items() if c)
        key = (rows, cols, frozenset(found), frozenset(added), diagonal)
        form = self._forms.get(key)
        if form is None:
            form = self._forms[key] = Form(rows, cols, found, added, diagonal, len(self._forms))
            form.loops  # noqa: B018  (asked from below, so that nobody has to ask deep down)
        return form

    def of(self, value: Value) -> Form:
        """The form that is one value."""
        return self.form(value.rows, value.cols, [(value, False, ONE)])

    def leaf(self, kind: type[Leaf], *fields: Any) -> Form:
        """The form that is one stored value."""
        return self.of(self.intern(kind, *fields))

    def bind(self, form: Form, name: str = "") -> Form:
        """A form as a stored value, unless it is one."""
        sole = form.sole
        if form.is_constant or (sole and isinstance(sole[0], Leaf) and sole[2] == 1):
            return form
        return self.leaf(DefinedLeaf, name, form.rows, form.cols, form, form.family)

    def result(self, loop: LoopForm, index: int) -> Form:
        carried = loop.carried[index]
        return self.leaf(ResultLeaf, carried.name, carried.rows, carried.cols, loop, index)

    def constant(self, constant: Constant, c: Fraction = ONE) -> Form:
        return self.form(constant.rows, constant.cols, consts=[(constant, c)])

    def total(self, *parts: Form) -> Form:
        """Constants added up to one."""
        pieces = [(c, k) for f in parts for k, c in f.constants]
        return self.constant(constants.added(pieces)) if pieces else parts[0]

    def identity(self, size: int) -> Form:
        return self.constant(identity(size))

    def apart(self, f: Form) -> list[tuple[Fraction, Form]]:
        """The summands of a form, each with its coefficient."""
        values = [(c, self.form(f.rows, f.cols, [(v, t, ONE)])) for v, t, c in f.terms]
        return values + [(c, self.constant(k)) for k, c in f.constants]

    def combine(self, parts: Sequence[tuple[Fraction, Form]]) -> Form:
        """A linear combination of forms of one size."""
        rows, cols = parts[0][1].rows, parts[0][1].cols
        for _, f in parts:
            if (f.rows, f.cols) != (rows, cols):
                raise ShapeError(f"cannot add forms of {rows} x {cols} and {f.rows} x {f.cols}")
        terms = [(v, t, a if c == 1 else c * a) for c, f in parts for v, t, a in f.terms]
        fixed = [(k, a if c == 1 else c * a) for c, f in parts for k, a in f.constants]
        if len(parts) > MANY:
            terms = [term for f in self._factored(terms) for term in f]
        return self.form(rows, cols, terms, fixed)

    def _factored(self, terms: Sequence[Term]) -> Iterator[Sequence[Term]]:
        """Terms; many constants times one product are added up.

        The sum of all rows of X is a row of ones times X.
        """
        alike: dict[Any, list[tuple[Fraction, Product]]] = {}
        for v, t, c in terms:
            if isinstance(v, Product) and not v.scalars and v.chain[0].is_constant:
                alike.setdefault((t, v.chain[1:]), []).append((c, v))
            else:
                yield [(v, t, c)]
        for (t, rest), group in alike.items():
            if len(group) <= MANY:
                yield [(v, t, c) for c, v in group]
                continue
            parts = [(c * a, k) for c, v in group for k, a in v.chain[0].constants]
            whole = self.product((), [self.constant(constants.added(parts)), *rest])
            yield (self.transpose(whole) if t else whole).terms

    def transpose(self, f: Form) -> Form:
        if f.family is not None:
            return f
        twin = self._twins.get(f)
        if twin is None:
            turned = [(v, not t, c) for v, t, c in f.terms]
            fixed = [(k.T, c) for k, c in f.constants]
            twin = self._twins[f] = self.form(f.cols, f.rows, turned, fixed, f.diagonal)
            self._twins[twin] = f
        return twin

    # -- products ---------------------------------------------------------------------------------
    def mirrored(self, chain: Sequence[Form]) -> tuple[Form, ...]:
        """The factors of the transpose of a chain."""
        return tuple(self.transpose(f) for f in reversed(chain))

    def factors(self, p: Product, turned: bool) -> tuple[Form, ...]:
        """The matrices that a product multiplies, or those of its transpose."""
        return self.mirrored(p.chain) if turned else p.chain

    def product(self, scalars: Sequence[Form], chain: Sequence[Form]) -> Form:
        """Scalars times a chain, flattened: coefficients out, constants folded, zeros dropped."""
        rows = chain[0].rows if chain else 1
        cols = chain[-1].cols if chain else 1
        coefficient, left = ONE, []
        for s in scalars:
            c, rest = self._open_scalar(s)
            coefficient *= c
            left += rest
        flat: list[Form] = []
        for f in chain:
            sole = None if f.diagonal else f.sole
            if sole is None:
                flat.append(f)
                continue
            value, t, c = sole
            coefficient = c if coefficient == 1 else coefficient * c
            if isinstance(value, Product):
                left += value.scalars
                flat += self.factors(value, t)
            else:
                flat.append(f if c == 1 else self.form(f.rows, f.cols, [(value, t, ONE)]))
        folded: list[Form] = []
        for f in flat:
            if f.is_constant and not f.diagonal and folded and folded[-1].is_constant:
                folded[-1] = self._multiply_constants(folded[-1], f)
            else:
                folded.append(f)
        for i, f in enumerate(folded):
            if f.is_constant and len(f.constants) == 1:
                ((k, c),) = f.constants
                if c != 1:
                    coefficient, folded[i] = coefficient * c, self.constant(k)
        kept = [f for f in folded if not f.is_identity]
        if any(f.is_zero for f in (*kept, *left)):
            return self.form(rows, cols)
        if not left and len(kept) == 1:
            return self.combine([(coefficient, kept[0])])
        if not kept and not left:
            return self.combine([(coefficient, self.identity(rows))])
        if not kept and folded and rows > 1:
            kept = [self.identity(rows)]
        if not kept and len(left) == 1:
            return self.combine([(coefficient, left[0])])
        p, t = self._interned(tuple(sorted(left, key=lambda f: f.serial)), tuple(kept))
        return self.form(rows, cols, [(p, t, coefficient)])

    def part(self, chain: tuple[Form, ...]) -> Form:
        """The product of a piece of a chain; asked for often, so remembered."""
        if len(chain) == 1:
            return chain[0]
        if chain not in self._parts:
            self._parts[chain] = self.product((), chain)
        return self._parts[chain]

    def _open_scalar(self, s: Form) -> tuple[Fraction, list[Form]]:
        """A scalar as (coefficient, scalars): products of scalars are taken apart."""
        if s.is_constant:
            return _constant_number(s), []
        if s.sole is None:
            return ONE, [s]
        value, t, c = s.sole
        if isinstance(value, Product) and not value.chain:
            return c, list(value.scalars)
        return c, [self.form(1, 1, [(value, t, ONE)])]

    def _interned(self, scalars: tuple[Form, ...], chain: tuple[Form, ...]) -> tuple[Product, bool]:
        """A product, or the one that it is the transpose of."""
        key = (Product, scalars, chain)
        if key in self._others:
            return self._others[key], False
        mirrored = self.mirrored(chain)
        if (Product, scalars, mirrored) in self._others:
            return self._others[Product, scalars, mirrored], True
        rows, cols = (chain[0].rows, chain[-1].cols) if chain else (1, 1)
        p = self._others[key] = Product(scalars, chain, mirrored == chain, rows, cols)
        return p, False

    def _multiply_constants(self, a: Form, b: Form) -> Form:
        """The product of two constant forms, exactly."""
        parts = []
        for k, c in a.constants:
            for m, d in b.constants:
                e, both = self.multiplied(k, m)
                scale, both = constants.balanced(both)
                parts.append((both, c * d * e * scale))
        return self.form(a.rows, b.cols, consts=parts)

    def multiplied(self, k: Constant, m: Constant) -> tuple[Fraction, Constant]:
        """The product of two constants; remembered where one has to be written out."""
        if isinstance(k, Shift) and isinstance(m, Shift):
            return constants.product(k, m)
        if (k, m) not in self._multiplied:
            self._multiplied[k, m] = constants.product(k, m)
        return self._multiplied[k, m]

    def matmul(self, a: Form, b: Form) -> Form:
        if a.is_zero or b.is_zero:
            return self.form(a.rows, b.cols)
        return self.product((), (a, b))

    def scale(self, s: Form, f: Form) -> Form:
        if s.is_zero or f.is_zero:
            return self.form(f.rows, f.cols)
        if s.is_constant:
            return self.combine([(_constant_number(s), f)])
        if f.sole and f.sole[1]:  # the product stays the way round that it is
            return self.transpose(self.scale(s, self.transpose(f)))
        return self.product((s, f), ()) if f.is_scalar else self.product((s,), (f,))

    def diagonal(self, s: Form, q: int) -> Form:
        """The scalar form s as the matrix `s I_q`."""
        if q == 1:
            return s
        fixed = [(identity(q), _constant_number(s))] if s.constants else []
        return self.form(q, q, s.terms, fixed, q)


def takes_differences(f: Form) -> bool:
    """Whether a form is a product with a constant at an end that leaves nothing of what is equal.

    That is so where the rows of a matrix on the left, or the columns of one on the right, add up to
    nothing: all that is common to what they multiply is lost, and was the most of it perhaps.
    """
    if f.sole is None or not isinstance(f.sole[0], Product):
        return False
    chain = f.sole[0].chain
    return bool(chain) and (
        _adds_up_to_nothing(chain[0], rows=True) or _adds_up_to_nothing(chain[-1], rows=False)
    )


def _adds_up_to_nothing(f: Form, rows: bool) -> bool:
    if not f.is_constant or f.diagonal or not f.constants:
        return False
    if len(f.constants) == 1 and isinstance(f.constants[0][0], (Ones, Shift)):
        return False
    sums = [(float(c), *_sums(k, rows)) for k, c in f.constants]
    total, size = sum(c * x for c, x, _ in sums), sum(abs(c) * x for c, _, x in sums)
    return bool(np.any(size) and np.all(abs(total) <= NOTHING * size))


@lru_cache(maxsize=256)
def _sums(k: Constant, rows: bool) -> tuple[Any, Any]:
    """What the rows or the columns of a constant add up to, with and without signs."""
    entries, axis = k.entries().astype(np.float64), 1 if rows else 0
    return entries.sum(axis=axis), abs(entries).sum(axis=axis)


def _constant_number(s: Form) -> Fraction:
    """The constant part of a scalar form."""
    numbers = (c * constants.exact(k.entries()[0, 0]) for k, c in s.constants)
    return Fraction(sum(numbers, 0))
