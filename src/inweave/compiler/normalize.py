"""Pass: expressions become forms, the program as matrix polynomials with its loops.

Products are flattened, equal values become one, and what would grow without bound is stored on the
way (see `store`, which cannot wait until the forms are there).
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

from inweave.compiler.entrywise import FEW, entrywise, is_full
from inweave.compiler.forms import (
    ONE,
    AppliedLeaf,
    CarriedLeaf,
    Form,
    InputLeaf,
    LoopForm,
    Scope,
    Written,
    takes_differences,
)
from inweave.compiler.options import Options
from inweave.compiler.store import is_stored
from inweave.errors import ProgramError
from inweave.language import expressions as ex
from inweave.language.expressions import Expr
from inweave.language.program import Traced

Known = ChainMap[Expr, Form]  # the forms of expressions; inside a loop, also those outside


def normalize(traced: Traced, options: Options) -> Written:
    normalizer = Normalizer(options, ex.read_often(traced.outputs.values()))
    known: Known = ChainMap()
    normalizer.fill(ex.ordered(traced.outputs.values()), known)
    outputs = {name: normalizer.whole(x, known) for name, x in traced.outputs.items()}
    return Written(tuple(normalizer.loops.values()), outputs)


class Normalizer:
    """Turns expressions into forms; `often` are those that are read more than once."""

    def __init__(self, options: Options, often: set[Expr]) -> None:
        self.options, self.forms, self.often = options, options.forms, often
        self.loops: dict[ex.Loop, LoopForm] = {}  # an inner one stands before the one around it
        self._scopes = 0
        self._whole: dict[Expr, Form] = {}  # what may be stored, as it was before

    def fill(self, order: Iterable[Expr], known: Known) -> None:
        """Know the forms of expressions, given parts first."""
        order = list(order)
        inner = ex.only_summed(order, self.often)
        for x in order:
            if x not in known and x not in inner:
                if type(x) not in RULES:
                    raise ProgramError(f"cannot compile {x!r}")
                form = RULES[type(x)](self, x, known)
                # A product entry by entry of several heads is not multiplied out by any reader.
                many = isinstance(x, ex.Entrywise) and len(form.products) > 1
                stored = many or is_stored(form, x in self.often)
                known[x] = self.forms.bind(form) if stored else form
                if x not in self.often and self._is_entrywise(x, known):
                    self._whole[x] = form

    def _is_entrywise(self, x: Expr, known: Known) -> bool:
        """Whether this is a product entry by entry, or linear in one: its heads are as many."""
        read: Iterable[Expr] = ()
        match x:
            case ex.Entrywise():
                return True
            case ex.Sum():
                read = (y for _, y in ex.summands(x, self.often))
            case ex.Transposed() | ex.Scaled():
                read = (x.x,)
            case ex.Product():
                pairs = ((x.a, x.b), (x.b, x.a))
                read = (y for y, other in pairs if known[other].is_constant)
        return any(y in self._whole for y in read)

    def whole(self, x: Expr, known: Known) -> Form:
        """A value for those who read it linearly and alone: they join the heads of a product."""
        return self._whole.get(x, known[x])

    def _summands(self, x: Expr, known: Known) -> list[tuple[Fraction, Form]]:
        parts = self.forms.apart(self._whole[x]) if x in self._whole else []
        return parts or [(ONE, known[x])]

    # -- one rule for each kind of expression -----------------------------------------------------
    def input(self, x: ex.InputExpr, _: Known) -> Form:
        if self.options.given is not None:
            return self.options.given.input(x.name)
        return self.forms.leaf(InputLeaf, x.name, x.rows, x.cols)

    def constant(self, x: ex.ConstantExpr, _: Known) -> Form:
        return self.forms.constant(x.constant)

    def sum(self, x: ex.Sum, known: Known) -> Form:
        terms = ex.summands(x, self.often)
        return self.forms.combine([(c, self.whole(y, known)) for c, y in terms])

    def product(self, x: ex.Product, known: Known) -> Form:
        left, right = known[x.a], known[x.b]
        if left.is_constant and self._is_cheap(left, x.b):
            parts = [(c, self.forms.matmul(left, f)) for c, f in self._summands(x.b, known)]
        elif right.is_constant and self._is_cheap(right, x.a):
            parts = [(c, self.forms.matmul(f, right)) for c, f in self._summands(x.a, known)]
        else:
            return self.forms.matmul(self._kept(left), self._kept(right))
        return self.forms.combine(parts)

    def _kept(self, factor: Form) -> Form:
        """A factor of a product; what a constant takes differences of is stored for it.

        `Y = C X` with `C = I - 11ᵀ/n` is small where X is large: to multiply by C and then by X
        would lose the digits of X twice over. It costs a layer, as `x - x.mean()` does.
        """
        if factor.is_constant or self.options.least_depth or not takes_differences(factor):
            return factor
        return self.forms.bind(factor)

    def _is_cheap(self, constant: Form, x: Expr) -> bool:
        """Whether a constant may be written into every head of a product entry by entry."""
        heads = len(self._whole[x].products) if x in self._whole else 1
        if heads == 1 or not is_full(constant):
            return True
        return self.options.least_depth and heads * constant.rows * constant.cols <= FEW

    def scaled(self, x: ex.Scaled, known: Known) -> Form:
        scalar = known[x.s]
        parts = [(c, self.forms.scale(scalar, f)) for c, f in self._summands(x.x, known)]
        return self.forms.combine(parts)

    def entrywise(self, x: ex.Entrywise, known: Known) -> Form:
        factors = [known[y] for y in self._factors(x)]
        return entrywise(self.forms, factors, self.options.least_depth)

    def _factors(self, x: ex.Entrywise) -> list[Expr]:
        """What is multiplied entry by entry, through products that nothing else reads."""
        found: list[Expr] = []
        waiting: list[Expr] = [x]
        while waiting:
            y = waiting.pop()
            if isinstance(y, ex.Entrywise) and (y is x or y not in self.often):
                waiting += (y.b, y.a)
            else:
                found.append(y)
        return found

    def transposed(self, x: ex.Transposed, known: Known) -> Form:
        return self.forms.transpose(self.whole(x.x, known))

    def held(self, x: ex.Held, known: Known) -> Form:
        return self.forms.bind(known[x.x])

    def applied(self, x: ex.Applied, known: Known) -> Form:
        form = known[x.x]
        name = f"{x.function.name}({form!r})"[:24]
        fields = (name, form.rows, form.cols, form, form.family, x.function)
        return self.forms.leaf(AppliedLeaf, *fields)

    def result(self, x: ex.LoopResult, known: Known) -> Form:
        if x.loop not in self.loops:
            self.loops[x.loop] = self._loop(x.loop, known)
        return self.forms.result(self.loops[x.loop], x.index)

    def _loop(self, loop: ex.Loop, known: Known) -> LoopForm:
        self._scopes += 1
        scope = Scope(self._scopes)
        carried = tuple(
            self.forms.intern(CarriedLeaf, s.name, s.rows, s.cols, scope, i, None)
            for i, s in enumerate(loop.carried)
        )
        inside = known.new_child()
        if not self.options.hoists:
            for x in loop.given:  # what was computed before the loop stays before the loop
                if not isinstance(x, ex.InputExpr) and known[x].products:
                    inside[x] = self.forms.bind(known[x])
        for symbol, leaf in zip(loop.carried, carried, strict=True):
            inside[symbol] = self.forms.of(leaf)
        self.fill(loop.body, inside)
        init = tuple(self.whole(x, known) for x in loop.init)
        step = tuple(self.whole(x, inside) for x in loop.step)
        return self.forms.intern(LoopForm, scope, loop.times, carried, init, step)


RULES: dict[type[Expr], Callable[[Normalizer, Any, Known], Form]] = {
    ex.InputExpr: Normalizer.input,
    ex.ConstantExpr: Normalizer.constant,
    ex.Sum: Normalizer.sum,
    ex.Product: Normalizer.product,
    ex.Scaled: Normalizer.scaled,
    ex.Entrywise: Normalizer.entrywise,
    ex.Transposed: Normalizer.transposed,
    ex.Held: Normalizer.held,
    ex.Applied: Normalizer.applied,
    ex.LoopResult: Normalizer.result,
}
