"""Matrix polynomials in the shape that heads like: sums of products of sums.

A `Form` is an affine combination: exact coefficients times leaves, products and constants. A
`Product` is scalars times a chain of forms. Nothing is expanded here, because a projection can hold
any affine form for free: `(A + B)(C + D)` is one head, not four. Everything is interned, so equal
values are the same object and common products are found by identity.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

from inweave.errors import ShapeError
from inweave.exact import constants
from inweave.exact.constants import Constant, Ones, Shift, identity
from inweave.exact.schema import rational_text
from inweave.language.expressions import shortened
from inweave.model.layout import Block

ONE = Fraction(1)
TEXT = 1000  # characters: values nest, and a whole text may be longer than any memory
ANY = "any"  # the family of multiples of the identity, which commute with everything


class LoopItem:
    """A loop: what it carries, where it starts, what one step computes."""

    def __init__(self, times: int, serial: int) -> None:
        self.times, self.serial = times, serial
        self.carried: tuple[Leaf, ...] = ()
        self.init: tuple[Form, ...] = ()
        self.step: tuple[Form, ...] = ()
        self.results: tuple[Leaf, ...] = ()
        self.loops: frozenset[LoopItem] = frozenset()

    @property
    def parent(self) -> LoopItem | None:
        """The innermost loop around this one."""
        return max(self.loops, key=lambda loop: loop.serial, default=None)

    def __repr__(self) -> str:
        return f"loop({', '.join(leaf.name for leaf in self.carried)}; {self.times} times)"


class Leaf:
    """A stored value: an input, a carried value, a loop's result, or a bound form.

    `family` is None for a matrix that is not known to be symmetric. Otherwise the matrix is a
    polynomial in one symmetric matrix, the family's root, and commutes with its relatives.
    """

    def __init__(
        self,
        name: str,
        rows: int,
        cols: int,
        *,
        role: str,
        loops: frozenset[LoopItem] = frozenset(),
        family: Any = None,
        definition: Form | None = None,
        function: Any = None,
        item: LoopItem | None = None,
        index: int = 0,
        block: Block | None = None,
        capacity: int = 0,
    ) -> None:
        self.name, self.rows, self.cols, self.role = name, rows, cols, role
        self.loops, self.family = loops, ANY if rows == cols == 1 else family
        self.definition, self.function, self.item, self.index = definition, function, item, index
        self.block, self.capacity = block, capacity  # of a user's layout; s I_q gives q
        self.both_ways = False  # whether a user's layout holds it transposed as well

    @property
    def is_scalar(self) -> bool:
        return self.rows == self.cols == 1

    @cached_property
    def _text(self) -> str:
        return f"[{shortened(repr(self.definition), 60)}]"

    def __repr__(self) -> str:
        return self.name or self._text


class Product:
    """Scalars times a chain of forms."""

    def __init__(self, scalars: tuple[Form, ...], chain: tuple[Form, ...]) -> None:
        self.scalars, self.chain = scalars, chain
        self.rows = chain[0].rows if chain else 1
        self.cols = chain[-1].cols if chain else 1
        self.loops: frozenset[LoopItem] = frozenset().union(*(f.loops for f in (*scalars, *chain)))
        self.family: Any = None
        self.twin: Product | None = None  # its transpose, where that is another product
        self.factors: int = sum(f.factors for f in (*scalars, *chain))

    @cached_property
    def _text(self) -> str:
        words = [f"({s!r})" if s.is_sum else repr(s) for s in (*self.scalars, *self.chain)]
        return shortened(" ".join(words), TEXT)

    def __repr__(self) -> str:
        return self._text


Value = Leaf | Product


class Form:
    """An affine combination: {(value, transposed): coefficient} and {constant: coefficient}."""

    def __init__(
        self,
        rows: int,
        cols: int,
        terms: dict[tuple[Value, bool], Fraction],
        constants: dict[Constant, Fraction],
        spread: int = 0,
    ) -> None:
        self.rows, self.cols, self.terms, self.constants = rows, cols, terms, constants
        self.serial = 0  # the order of creation: what a sort may depend on
        self.spread = spread  # a scalar standing as s I_q: the q
        self.loops: frozenset[LoopItem] = frozenset().union(*(v.loops for v, _ in terms))
        self.family: Any = None
        self.twin: Form = self

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @property
    def is_zero(self) -> bool:
        return not self.terms and not self.constants

    @property
    def is_sum(self) -> bool:
        return len(self.terms) + len(self.constants) > 1

    @cached_property
    def products(self) -> list[tuple[Product, bool, Fraction]]:
        return [(v, t, c) for (v, t), c in self.terms.items() if isinstance(v, Product)]

    @cached_property
    def leaves(self) -> list[tuple[Leaf, bool, Fraction]]:
        return [(v, t, c) for (v, t), c in self.terms.items() if isinstance(v, Leaf)]

    @cached_property
    def sole(self) -> tuple[Value, bool, Fraction] | None:
        """The only term, if the form is a multiple of one value."""
        if len(self.terms) == 1 and not self.constants:
            ((v, t), c) = next(iter(self.terms.items()))
            return v, t, c
        return None

    @cached_property
    def factors(self) -> int:
        """How many factors a product gets that takes this form in: a sum stays one factor."""
        sole = self.sole
        return sole[0].factors if sole and isinstance(sole[0], Product) else 1

    @cached_property
    def _text(self) -> str:
        out = ""
        words = [(c, f"({v!r})ᵀ" if t and isinstance(v, Product) else f"{v!r}{'ᵀ' * t}")
                 for (v, t), c in self.terms.items()]  # fmt: skip
        words += [(c, repr(k)) for k, c in self.constants.items()]
        for c, text in words:
            sign = ("− " if c < 0 else "") if not out else (" − " if c < 0 else " + ")
            out += sign + (text if abs(c) == 1 else f"{number(abs(c))} {text}")
        return shortened(out, TEXT) or "0"

    def __repr__(self) -> str:
        return self._text


def number(c: Fraction) -> str:
    """A coefficient for people: exact when short, otherwise to six digits."""
    text = rational_text(c)
    return text if len(text) <= 7 else f"{float(c):.6g}"


class Forms:
    """Builds and interns forms and products."""

    def __init__(self) -> None:
        self._forms: dict[Any, Form] = {}
        self._products: dict[Any, Product] = {}
        self._parts: dict[tuple[Form, ...], Form] = {}
        self.placements: dict[Product, list[tuple[Form, ...]]] = {}  # the scheduler's own notes,
        self.splits: dict[tuple[Form, bool], Any] = {}  # kept from one try to the next

    # -- forms ------------------------------------------------------------------------------------
    def form(
        self,
        rows: int,
        cols: int,
        terms: Iterable[tuple[Fraction, Value, bool]] = (),
        consts: Iterable[tuple[Fraction, Constant]] = (),
        spread: int = 0,
    ) -> Form:
        collected: dict[tuple[Value, bool], Fraction] = {}
        for c, v, t in terms:
            term = (v, bool(t) and v.family is None)
            collected[term] = collected[term] + c if term in collected else c
        fixed: dict[Constant, Fraction] = {}
        for c, k in consts:
            if not (isinstance(k, Shift) and k.size == 0):
                fixed[k] = fixed[k] + c if k in fixed else c
        collected = {k: c for k, c in collected.items() if c}
        fixed = {k: c for k, c in fixed.items() if c}
        key = (
            rows,
            cols,
            frozenset((id(v), t, c) for (v, t), c in collected.items()),
            frozenset(fixed.items()),
            spread,
        )
        if key not in self._forms:
            form = Form(rows, cols, collected, fixed, spread)
            form.family = self._form_family(form)
            form.serial = len(self._forms)
            self._forms[key] = form
        return self._forms[key]

    def _form_family(self, form: Form) -> Any:
        if form.rows != form.cols:
            return None
        if form.spread or form.rows == 1:
            return ANY
        families = [v.family for v, _ in form.terms]
        families += [_constant_family(k) for k in form.constants]
        return join(families, ("sum", form))

    def leaf(self, leaf: Leaf) -> Form:
        return self.form(leaf.rows, leaf.cols, [(ONE, leaf, False)])

    def constant(self, constant: Constant, c: Fraction = ONE) -> Form:
        return self.form(constant.rows, constant.cols, consts=[(c, constant)])

    def identity(self, size: int) -> Form:
        return self.constant(identity(size))

    def combine(self, parts: Sequence[tuple[Fraction, Form]]) -> Form:
        """A linear combination of forms of one size."""
        rows, cols = parts[0][1].rows, parts[0][1].cols
        for _, f in parts:
            if (f.rows, f.cols) != (rows, cols):
                raise ShapeError(f"cannot add forms of {rows} x {cols} and {f.rows} x {f.cols}")
        return self.form(
            rows,
            cols,
            [(a if c == 1 else c * a, v, t) for c, f in parts for (v, t), a in f.terms.items()],
            [(a if c == 1 else c * a, k) for c, f in parts for k, a in f.constants.items()],
        )

    def transpose(self, f: Form) -> Form:
        if f.family is not None:
            return f
        if f.twin is f:
            f.twin = self.form(
                f.cols,
                f.rows,
                [(c, *self.flip(v, not t)) for (v, t), c in f.terms.items()],
                [(c, k.T) for k, c in f.constants.items()],
                f.spread,
            )
            f.twin.twin = f
        return f.twin

    def flip(self, v: Value, t: bool) -> tuple[Value, bool]:
        """A value, transposed or not, in its canonical spelling."""
        return v, t and v.family is None

    # -- products ---------------------------------------------------------------------------------
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
            sole = f.sole
            if sole and isinstance(sole[0], Product) and not f.spread:
                inner, t, c = sole[0], sole[1], sole[2]
                coefficient *= c
                left += inner.scalars
                flat += [self.transpose(g) for g in reversed(inner.chain)] if t else inner.chain
            else:
                if sole and not f.spread:
                    coefficient *= sole[2]
                    f = self.form(f.rows, f.cols, [(ONE, sole[0], sole[1])])
                flat.append(f)
        folded: list[Form] = []
        for f in flat:
            if f.is_constant and not f.spread and folded and folded[-1].is_constant:
                folded[-1] = self.multiply_constants(folded[-1], f)
            else:
                folded.append(f)
        for i, f in enumerate(folded):
            if f.is_constant and len(f.constants) == 1:
                ((k, c),) = f.constants.items()
                coefficient *= c
                folded[i] = self.constant(k)
        kept = [f for f in folded if not _is_identity(f)]
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
        p, t = self._intern(tuple(sorted(left, key=lambda f: f.serial)), tuple(kept))
        return self.form(rows, cols, [(coefficient, p, t)])

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
            total = sum((c * constants.exact(k.entries()[0, 0]) for k, c in s.constants.items()), 0)
            return Fraction(total), []
        sole = s.sole
        if sole and isinstance(sole[0], Product) and not sole[0].chain:
            return sole[2], list(sole[0].scalars)
        if sole:
            return sole[2], [self.form(1, 1, [(ONE, sole[0], sole[1])])]
        return ONE, [s]

    def _intern(self, scalars: tuple[Form, ...], chain: tuple[Form, ...]) -> tuple[Product, bool]:
        key = (scalars, chain)
        if key in self._products:
            return self._products[key], False
        mirrored = tuple(self.transpose(f) for f in reversed(chain))
        if (scalars, mirrored) in self._products:
            return self._products[scalars, mirrored], True
        p = Product(scalars, chain)
        if p.rows == p.cols:
            if p.rows == 1:
                p.family = ANY
            else:
                own = ("product", p) if mirrored == chain else None
                p.family = join([f.family for f in chain], own, strict=True)
        self._products[key] = p
        return p, False

    def multiply_constants(self, a: Form, b: Form) -> Form:
        """The product of two constant forms, exactly."""
        parts = []
        for k, c in a.constants.items():
            for m, d in b.constants.items():
                e, both = constants.product(k, m)
                parts.append((c * d * e, both))
        return self.form(a.rows, b.cols, consts=parts)

    def matmul(self, a: Form, b: Form) -> Form:
        if a.is_zero or b.is_zero:
            return self.form(a.rows, b.cols)
        return self.product((), (a, b))

    def scale(self, s: Form, f: Form) -> Form:
        if s.is_zero or f.is_zero:
            return self.form(f.rows, f.cols)
        if s.is_constant:
            c, _ = self._open_scalar(s)
            return self.combine([(c, f)])
        if f.rows == f.cols == 1:
            return self.product((s, f), ())
        return self.product((s,), (f,))

    def spread(self, s: Form, q: int) -> Form:
        """The scalar form s as the matrix `s I_q`."""
        if q == 1:
            return s
        terms = [(c, v, t) for (v, t), c in s.terms.items()]
        consts = [
            (c * constants.exact(k.entries()[0, 0]), identity(q)) for k, c in s.constants.items()
        ]
        return self.form(q, q, terms, consts, spread=q)


def _is_identity(f: Form) -> bool:
    return f.is_constant and not f.spread and len(f.constants) == 1 and all(
        k.is_identity() and c == 1 for k, c in f.constants.items()
    )  # fmt: skip


def _constant_family(k: Constant) -> Any:
    if k.is_identity():
        return ANY
    if k.rows == k.cols and (isinstance(k, Ones) or k == k.T):
        return ("constant", k)
    return None


def join(families: Sequence[Any], own: Any, strict: bool = False) -> Any:
    """The family of a sum or product, given those of its parts.

    All parts of one family (or multiples of the identity): that family. Otherwise a sum of
    symmetric parts is a root of its own; a product (`strict`) is one only if it reads the same
    backwards.
    """
    roots = {f for f in families if f is not ANY}
    if None not in roots and len(roots) <= 1:
        return next(iter(roots), ANY)
    return own if strict or None not in roots else None
