"""Pass: expressions become forms, the program as matrix polynomials with its loops.

Products are flattened, equal values become one, and what would grow without bound is stored on the
way (see `store`, which cannot wait until the forms are there).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from inweave.compiler.forms import (
    AppliedLeaf,
    CarriedLeaf,
    Form,
    InputLeaf,
    LoopForm,
    Scope,
    Written,
)
from inweave.compiler.options import Options
from inweave.compiler.store import is_stored
from inweave.errors import ProgramError
from inweave.language import expressions as ex
from inweave.language.expressions import Expr
from inweave.language.program import Traced


class Known(dict[Expr, Form]):
    """The forms of expressions; inside a loop, also those outside."""

    def __init__(self, outside: Known | None = None) -> None:
        super().__init__()
        self.outside = outside

    def __missing__(self, x: Expr) -> Form:
        if self.outside is None:
            raise KeyError(x)
        return self.outside[x]

    def __contains__(self, x: object) -> bool:
        return super().__contains__(x) or (self.outside is not None and x in self.outside)


def normalize(traced: Traced, options: Options) -> Written:
    normalizer = Normalizer(options, ex.read_often(traced.outputs.values()))
    known = Known()
    normalizer.fill(ex.ordered(traced.outputs.values()), known)
    outputs = {name: known[x] for name, x in traced.outputs.items()}
    return Written(tuple(normalizer.loops.values()), outputs)


class Normalizer:
    """Turns expressions into forms; `often` are those that are read more than once."""

    def __init__(self, options: Options, often: set[Expr]) -> None:
        self.options, self.forms, self.often = options, options.forms, often
        self.loops: dict[ex.Loop, LoopForm] = {}  # an inner one stands before the one around it
        self._scopes = 0

    def fill(self, order: Iterable[Expr], known: Known) -> None:
        """Know the forms of expressions, given parts first."""
        order = list(order)
        inner = ex.only_summed(order, self.often)
        for x in order:
            if x not in known and x not in inner:
                if type(x) not in RULES:
                    raise ProgramError(f"cannot compile {x!r}")
                form = RULES[type(x)](self, x, known)
                stored = is_stored(form, x in self.often)
                known[x] = self.forms.bind(form) if stored else form

    # -- one rule for each kind of expression -----------------------------------------------------
    def input(self, x: ex.InputExpr, _: Known) -> Form:
        if self.options.given is not None:
            return self.options.given.input(x.name)
        return self.forms.leaf(InputLeaf, x.name, x.rows, x.cols)

    def constant(self, x: ex.ConstantExpr, _: Known) -> Form:
        return self.forms.constant(x.constant)

    def sum(self, x: ex.Sum, known: Known) -> Form:
        return self.forms.combine([(c, known[y]) for c, y in ex.summands(x, self.often)])

    def product(self, x: ex.Product, known: Known) -> Form:
        return self.forms.matmul(known[x.a], known[x.b])

    def scaled(self, x: ex.Scaled, known: Known) -> Form:
        return self.forms.scale(known[x.s], known[x.x])

    def transposed(self, x: ex.Transposed, known: Known) -> Form:
        return self.forms.transpose(known[x.x])

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
        inside = Known(known)
        if not self.options.hoists:
            for x in loop.given:  # what was computed before the loop stays before the loop
                if not isinstance(x, ex.InputExpr) and known[x].products:
                    inside[x] = self.forms.bind(known[x])
        for symbol, leaf in zip(loop.carried, carried, strict=True):
            inside[symbol] = self.forms.of(leaf)
        self.fill(loop.body, inside)
        init, step = tuple(known[x] for x in loop.init), tuple(inside[x] for x in loop.step)
        return self.forms.intern(LoopForm, scope, loop.times, carried, init, step)


RULES: dict[type[Expr], Callable[[Normalizer, Any, Known], Form]] = {
    ex.InputExpr: Normalizer.input,
    ex.ConstantExpr: Normalizer.constant,
    ex.Sum: Normalizer.sum,
    ex.Product: Normalizer.product,
    ex.Scaled: Normalizer.scaled,
    ex.Transposed: Normalizer.transposed,
    ex.Held: Normalizer.held,
    ex.Applied: Normalizer.applied,
    ex.LoopResult: Normalizer.result,
}
