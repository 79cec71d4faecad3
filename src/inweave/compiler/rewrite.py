"""Forms with other values in them: the one way in which passes change forms.

A pass says what becomes of a leaf (`become`), perhaps of a product (by overriding `product`), and
every form above is made anew, parts first and each value once. What does not change stays the same
object. Nothing is written into: the forms that a pass was given mean what they meant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from inweave.compiler.forms import (
    ONE,
    AppliedLeaf,
    DefinedLeaf,
    Form,
    Forms,
    LoopForm,
    Node,
    Product,
    Scope,
    Term,
    Written,
    ordered,
)


class Rewriter:
    """What has become of forms and values so far; None stands for what stays as it is."""

    def __init__(self, forms: Forms) -> None:
        self.forms = forms
        self._known: dict[Node, Form | None] = {}

    def __call__(self, form: Form) -> Form:
        for x in ordered([form], self._known):
            self._known[x] = self._one(x)
        return self._new(form)

    def _new(self, form: Form) -> Form:
        return self._known[form] or form

    def _one(self, x: Node) -> Form | None:
        if isinstance(x, Form):
            return self._sum(x)
        if isinstance(x, Product):
            return self.product(x, list(map(self._new, x.scalars)), list(map(self._new, x.chain)))
        if isinstance(x, DefinedLeaf):
            return self._stored(x, self._new(x.definition))
        return None

    def _sum(self, f: Form) -> Form | None:
        if all(self._known[v] is None for v, _, _ in f.terms):
            return None
        terms: list[Term] = [*f.leaves, *f.products]
        parts = []
        for v, t, c in terms:
            new = self._known[v] or self.forms.of(v)
            parts.append((c, self.forms.transpose(new) if t else new))
        if f.constants:
            parts.append((ONE, self.forms.form(f.rows, f.cols, consts=f.constants)))
        return self.forms.combine(parts)

    def product(self, p: Product, scalars: list[Form], chain: list[Form]) -> Form | None:
        """What becomes of a product whose factors have become these."""
        return None if (*scalars, *chain) == p.parts else self.forms.product(scalars, chain)

    def _stored(self, leaf: DefinedLeaf, definition: Form) -> Form | None:
        if definition is leaf.definition:
            return None
        symmetry = definition.family if leaf.symmetry is None else leaf.symmetry
        fields = (leaf.name, leaf.rows, leaf.cols, definition, symmetry)
        if isinstance(leaf, AppliedLeaf):
            return self.forms.leaf(AppliedLeaf, *fields, leaf.function)
        return self.forms.leaf(DefinedLeaf, *fields)

    # -- loops and programs -----------------------------------------------------------------------
    def become(self, old: Form, new: Form) -> None:
        """Put a form in the place of a stored value, wherever that is met."""
        assert old.sole is not None
        self._known[old.sole[0]] = new
        self._known[old] = new

    def forget(self, scope: Scope) -> None:
        """Forget what has become of all that a loop changes."""
        self._known = {x: form for x, form in self._known.items() if scope not in x.loops}

    def loop(self, old: LoopForm) -> LoopForm:
        """A loop whose start and step have become others."""
        init, step = (tuple(map(self, forms)) for forms in (old.init, old.step))
        return self.forms.intern(LoopForm, old.scope, old.times, old.carried, init, step)

    def ends(self, old: LoopForm, results: Sequence[Form]) -> None:
        """Put forms in the place of what a loop ends with."""
        for i, form in enumerate(results):
            self.become(self.forms.result(old, i), form)

    def written(
        self, old: Written, each: Callable[[LoopForm], LoopForm | Sequence[Form]] | None = None
    ) -> Written:
        """A program in which `each` loop has become another, or forms in place of its results."""
        loops = []
        for loop in old.loops:
            new = self.loop(loop) if each is None else each(loop)
            if isinstance(new, LoopForm):
                loops.append(new)
                new = [self.forms.result(new, i) for i in range(len(new.carried))]
            self.ends(loop, new)
        return Written(tuple(loops), {name: self(form) for name, form in old.outputs.items()})
