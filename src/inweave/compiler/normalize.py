"""Expressions to forms: the program as matrix polynomials, with its loops found and placed.

Symmetry is found here too. A loop's carried matrix is assumed symmetric if its start is, and the
assumption is kept only if one step preserves it (induction); a wrong guess could not pass
verification anyway.
"""

from __future__ import annotations

import itertools
from collections import ChainMap
from collections.abc import Iterable, MutableMapping, Sequence
from fractions import Fraction
from typing import Any

from inweave.compiler.collapse import Reader, collapse, gather
from inweave.compiler.expand import Expander, innermost
from inweave.compiler.forms import ANY, ONE, Form, Forms, Leaf, LoopItem, Product, join
from inweave.compiler.given import Given
from inweave.compiler.reroll import opened, reroll
from inweave.compiler.storing import is_stored, read_often
from inweave.errors import ProgramError
from inweave.language import expressions as ex
from inweave.language.expressions import Expr
from inweave.language.program import Traced

Values = MutableMapping[Any, Any]  # the form of an expression, the forms that a loop ends with


class Normalizer:
    """Turns one traced program into forms. `mode` is the optimize mode."""

    def __init__(self, forms: Forms, mode: str, given: Given | None = None) -> None:
        self.forms, self.mode, self.given = forms, mode, given
        self.inputs: dict[str, Leaf] = {}
        self.loops: list[LoopItem] = []
        self._serial = 0
        self._applied: dict[Any, Leaf] = {}
        self._readers: dict[Form, Reader] = {}  # what collapsed loops end with
        self._often: set[Expr] = set()  # what is read more than once
        self._stored: dict[Form, Form] = {}
        self._sums: dict[Any, list[ex.Sum]] = {}  # by their first and last terms

    def program(self, traced: Traced) -> dict[str, Form]:
        """The forms of a program's answers."""
        known: Values = {}
        self._often = read_often(traced.outputs.values())
        if self.mode == "depth":
            self._reroll(traced, known)
        self.fill(ex.ordered(traced.outputs.values(), stop=known), known)
        return {name: known[x] for name, x in traced.outputs.items()}

    def fill(self, order: Sequence[Expr], known: Values) -> None:
        for x in order:
            if x not in known:
                form = self.one(x, known)
                known[x] = self._kept(form) if is_stored(form, x in self._often) else form

    def _kept(self, form: Form) -> Form:
        """The form as a stored value, the same one for equal forms."""
        if form not in self._stored:
            self._stored[form] = self.bind(form)
        return self._stored[form]

    def one(self, x: Expr, known: Values) -> Form:
        forms = self.forms
        if isinstance(x, ex.InputExpr):
            if self.given is not None:
                return self.given.input(x.name)
            if x.name not in self.inputs:
                self.inputs[x.name] = Leaf(x.name, x.rows, x.cols, role="input")
            return forms.leaf(self.inputs[x.name])
        if isinstance(x, ex.ConstantExpr):
            return forms.constant(x.constant)
        if isinstance(x, ex.Sum):
            return forms.combine([(c, known[y]) for c, y in self._terms(x, known)])
        if isinstance(x, ex.Product):
            return self.product(known[x.a], known[x.b])
        if isinstance(x, ex.Scaled):
            return forms.scale(known[x.s], known[x.x])
        if isinstance(x, ex.Transposed):
            return forms.transpose(known[x.x])
        if isinstance(x, ex.Held):
            return self.bind(known[x.x])
        if isinstance(x, ex.Applied):
            return self.apply(x.function, known[x.x])
        if isinstance(x, ex.LoopResult):
            if x.loop not in known:
                known[x.loop] = self.loop(x.loop, known)
            result: Form = known[x.loop][x.index]
            return result
        raise ProgramError(f"cannot compile {x!r}")

    def _terms(self, x: ex.Sum, known: Values) -> Iterable[tuple[Fraction, Expr]]:
        """A sum's terms; a sum that it continues is one of them, because that one may be stored.

        `w = w - g` in a Python loop records longer and longer sums, each a copy of the last.
        """
        coefficients, parts = opened(x, self._sums)
        if any(y not in known for y in parts):
            return x.terms
        return zip(coefficients, parts, strict=True)

    def product(self, a: Form, b: Form) -> Form:
        """a b. What a collapsed loop ends with is read out by its own way if that is less deep."""
        out, turned = self.forms.matmul(a, b), self.forms.transpose(a)
        if b in self._readers:
            short = self._readers[b](a)
        elif turned in self._readers:
            short = self.forms.transpose(self._readers[turned](self.forms.transpose(b)))
        else:
            return out
        return min(out, short, key=self._level)

    def _level(self, form: Form) -> int:
        """The estimated depth of a form."""
        estimate = Expander(self.forms, hoist=True)
        return estimate.level(estimate.form(form), innermost(form.loops))

    def bind(self, form: Form, name: str = "") -> Form:
        """A stored value that holds the form; products do not reach through it."""
        if form.is_constant or (form.sole and isinstance(form.sole[0], Leaf) and form.sole[2] == 1):
            return form
        leaf = Leaf(
            name,
            form.rows,
            form.cols,
            role="bound",
            loops=form.loops,
            family=form.family,
            definition=form,
        )
        return self.forms.leaf(leaf)

    def apply(self, function: Any, form: Form) -> Form:
        key = (function, form)
        if key not in self._applied:
            # A function of every entry keeps symmetry, but not a polynomial family.
            self._applied[key] = leaf = Leaf(
                f"{function.name}({form!r})"[:24],
                form.rows,
                form.cols,
                role="applied",
                loops=form.loops,
                definition=form,
                function=function,
            )
            leaf.family = None if form.family is None else ("leaf", leaf)
            if leaf.is_scalar:
                leaf.family = ANY
        return self.forms.leaf(self._applied[key])

    # -- loops ------------------------------------------------------------------------------------
    def loop(self, loop: ex.Loop, known: Values) -> list[Form]:
        init = [known[x] for x in loop.init]
        families = [f.family for f in init]
        for _ in range(4):
            mark = len(self.loops)
            item = self.body(loop, init, families, known)
            after = [f.family for f in item.step]
            kept = [
                # Symmetric before and after, but in different families: the root of its own.
                None if a is None or b is None else join([b, a], ("carried", symbol), strict=True)
                for symbol, b, a in zip(loop.carried, families, after, strict=True)
            ]
            if kept == families:
                break
            families = kept
            del self.loops[mark:]
        else:
            families = [ANY if f.rows == f.cols == 1 else None for f in init]
            del self.loops[mark:]
            item = self.body(loop, init, families, known)
        if self.mode == "depth":
            found = collapse(item, self.forms, self.bind)
            if found is not None and self._shallower(found[0], item):
                self._readers |= found[1]
                return found[0]
        if self.mode == "speed":
            item.step = gather(item, self.forms, self.bind)
        self.loops.append(item)
        item.results = tuple(
            Leaf(leaf.name, leaf.rows, leaf.cols, role="result", loops=item.loops,
                 family=leaf.family, item=item, index=i)
            for i, leaf in enumerate(item.carried)
        )  # fmt: skip
        return [self.forms.leaf(leaf) for leaf in item.results]

    def _reroll(self, traced: Traced, known: Values) -> None:
        """Know what Python loops end with, where a collapsed loop is less deep."""
        for loop, ends in reroll(traced):
            around = [*loop.init, *loop.outer]
            self._often |= read_often(loop.step)
            self.fill(ex.ordered(around, stop=known), known)
            mark = len(self.loops)
            short = self.loop(loop, known)
            if len(self.loops) > mark:  # not collapsed
                del self.loops[mark:]
                continue
            written = dict(known)
            self.fill(ex.ordered(ends, stop=known), written)
            if max(map(self._level, short)) < max(self._level(written[x]) for x in ends):
                known.update(zip(ends, short, strict=True))

    def _shallower(self, short: Sequence[Form], item: LoopItem) -> bool:
        """Whether a collapsed loop is no deeper than the loop itself.

        If they are equally deep, collapsing still wins: a loop shares no layer with what surrounds
        it.
        """
        estimate = Expander(self.forms, hoist=True)
        loop = innermost(item.loops)
        collapsed = max(estimate.level(estimate.form(f), loop) for f in short)
        steps = [estimate.form(f) for f in item.step]
        each = max(estimate.level(f, item) for f in steps)
        # Before the loop: what it does not change. Inside another loop: its start and its result.
        before = any(_takes_out(p, item) for f in steps for p, _, _ in f.products)
        around = int(before) + int(loop is not None)
        return item.times == 1 or collapsed <= item.times * max(each, 1) + around

    def body(
        self, loop: ex.Loop, init: Sequence[Form], families: Sequence[Any], known: Values
    ) -> LoopItem:
        """One step of a loop, traced into forms under assumed families of the carried values."""
        self._serial += 1
        item = LoopItem(loop.times, self._serial)
        item.init = tuple(init)
        item.carried = tuple(
            Leaf(s.name, s.rows, s.cols, role="carried", loops=frozenset([item]), family=family,
                 item=item, index=i)
            for i, (s, family) in enumerate(zip(loop.carried, families, strict=True))
        )  # fmt: skip
        inside = ChainMap[Any, Any]({}, known)
        if self.mode == "faithful":
            for x in loop.given:  # what was computed before the loop stays before the loop
                if not isinstance(x, ex.InputExpr) and known[x].products:
                    inside[x] = self.bind(known[x])
        for symbol, leaf in zip(loop.carried, item.carried, strict=True):
            inside[symbol] = self.forms.leaf(leaf)
        self.fill(loop.body, inside)
        item.step = tuple(inside[x] for x in loop.step)
        around: frozenset[LoopItem] = frozenset().union(*(f.loops for f in (*init, *item.step)))
        item.loops = around - {item}
        return item


def _takes_out(p: Product, item: LoopItem) -> bool:
    """Whether a product has a part that is computed before the loop."""
    fixed = [item not in f.loops for f in (*p.chain, *p.scalars) if not f.is_constant]
    pairs = any(a and b for a, b in itertools.pairwise(fixed))
    return all(fixed) or pairs


def reachable(outputs: Sequence[Form]) -> list[Form]:
    """Every form that the outputs need, through products, bound values and loops."""
    seen: dict[int, Form] = {}
    stack = list(outputs)
    while stack:
        form = stack.pop()
        if id(form) in seen:
            continue
        seen[id(form)] = form
        for value, _ in form.terms:
            if isinstance(value, Leaf):
                if value.definition is not None:
                    stack.append(value.definition)
                if value.item is not None:
                    stack += [value.item.init[value.index], value.item.step[value.index]]
            else:
                stack += [*value.scalars, *value.chain]
    return list(seen.values())


__all__ = ["ONE", "Normalizer", "reachable"]
