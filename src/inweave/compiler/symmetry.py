"""Pass: which matrices that a loop carries are symmetric.

A carried matrix is taken for symmetric if its start is, and that is kept only if one step preserves
it (induction). Then it needs no transposes: it is stored once, and its products with its relatives
read the same both ways.
"""

from __future__ import annotations

from collections.abc import Sequence

from inweave.compiler.forms import (
    CarriedLeaf,
    Family,
    Form,
    Forms,
    LoopForm,
    Scope,
    Written,
    by_parent,
    join,
)
from inweave.compiler.options import Options
from inweave.compiler.rewrite import Rewriter

TRIES = 4  # how often an assumption is corrected before nothing is assumed any more


def symmetry(written: Written, options: Options) -> Written:
    return Symmetry(options.forms, written.loops).program(written)


class Symmetry(Rewriter):
    """Loops whose carried values know their families."""

    def __init__(self, forms: Forms, loops: Sequence[LoopForm]) -> None:
        super().__init__(forms)
        self._inside = by_parent(loops)
        self._decided: dict[LoopForm, LoopForm] = {}

    def program(self, old: Written) -> Written:
        self._decide(None)
        loops = tuple(self._decided[loop] for loop in old.loops)
        return Written(loops, {name: self(form) for name, form in old.outputs.items()})

    def _decide(self, scope: Scope | None) -> None:
        """Decide on the loops right inside a scope: theirs hold under what it assumes."""
        for loop in self._inside.get(scope, ()):
            new = self._decided[loop] = self._loop(loop)
            self.ends(loop, [self.forms.result(new, i) for i in range(len(new.carried))])

    def _loop(self, loop: LoopForm) -> LoopForm:
        init = [self(f) for f in loop.init]
        families = [f.family for f in init]
        for _ in range(TRIES):
            found = self._assuming(loop, init, families)
            # Symmetric before and after, but in different families: the root of its own.
            kept = [
                None if before is None or step.family is None else
                join([before, step.family], ("carried", loop.scope, i), strict=True)
                for i, (before, step) in enumerate(zip(families, found.step, strict=True))
            ]  # fmt: skip
            if kept == families:
                return found
            families = kept
            self.forget(loop.scope)
        return self._assuming(loop, init, [None] * len(init))

    def _assuming(
        self, loop: LoopForm, init: Sequence[Form], families: Sequence[Family]
    ) -> LoopForm:
        carried = []
        for old, family in zip(loop.carried, families, strict=True):
            known = None if old.is_scalar else family
            fields = (old.name, old.rows, old.cols, old.scope, old.index, known)
            carried.append(new := self.forms.intern(CarriedLeaf, *fields))
            if new is not old:
                self.become(self.forms.of(old), self.forms.of(new))
        self._decide(loop.scope)
        step = tuple(map(self, loop.step))
        fixed = (loop.scope, loop.times, tuple(carried), tuple(init), step)
        return self.forms.intern(LoopForm, *fixed)
