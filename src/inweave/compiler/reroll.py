"""Pass, for least depth: Python loops that collapse become loops again.

A loop is only put in where, collapsed, it is less deep than its copies are as they stand. To know
that, the passes that follow are asked what they would make of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from inweave.compiler.collapse import collapse
from inweave.compiler.expand import Expander
from inweave.compiler.forms import Form, ResultLeaf
from inweave.compiler.normalize import normalize
from inweave.compiler.options import Options
from inweave.compiler.repeats import again, opened, repeats
from inweave.compiler.symmetry import symmetry
from inweave.language import expressions as ex
from inweave.language.expressions import Expr
from inweave.language.program import Traced


def reroll(traced: Traced, options: Options) -> Traced:
    became: dict[Expr, Expr] = {}
    depth = Expander(options.forms, hoist=True).depth

    def forms(roots: Iterable[Expr]) -> list[Form]:
        numbered = {str(i): x for i, x in enumerate(roots)}
        written = normalize(replace(traced, outputs=numbered), options)
        return list(collapse(symmetry(written, options), options).outputs.values())

    for loop, ends in repeats(traced):
        results = substituted([ex.LoopResult(loop, i) for i in range(len(ends))], became)
        short = forms(results)
        if any(f.sole and isinstance(f.sole[0], ResultLeaf) for f in short):
            continue  # it does not collapse
        if max(map(depth, short)) < max(map(depth, forms(substituted(ends, became)))):
            became.update(zip(ends, results, strict=True))
    if not became:
        return traced
    outputs = substituted(traced.outputs.values(), became)
    named = dict(zip(traced.outputs, outputs, strict=True))
    return replace(traced, outputs=named, operations=tuple(ex.ordered(outputs)))


def substituted(roots: Iterable[Expr], became: Mapping[Expr, Expr]) -> list[Expr]:
    """Expressions made again wherever some part of them has become another.

    A sum that was copied into a longer sum is a part of that one.
    """
    known, loops = dict(became), dict[ex.Loop, ex.Loop]()
    sums: dict[Any, list[ex.Sum]] = {}
    for x in became:
        opened(x, sums)

    def one(x: Expr) -> Expr:
        if isinstance(x, ex.LoopResult):
            if x.loop not in loops:
                loops[x.loop] = inside(x.loop)
            return x if loops[x.loop] is x.loop else ex.LoopResult(loops[x.loop], x.index)
        what, parts = opened(x, sums)
        if isinstance(x, ex.Sum) and any(part not in known for part in parts):
            what, parts = tuple(c for c, _ in x.terms), x.parts
        new = [known[part] for part in parts]
        return x if new == list(parts) else again(x, what, new)

    def inside(loop: ex.Loop) -> ex.Loop:
        init, step = fill(loop.init), fill(loop.step)
        if (init, step) == (list(loop.init), list(loop.step)):
            return loop
        return ex.Loop(loop.carried, tuple(init), tuple(step), loop.times)

    def fill(roots: Iterable[Expr]) -> list[Expr]:
        roots = list(roots)
        for x in ex.ordered(roots):
            if x not in known:
                known[x] = one(x)
        return [known[x] for x in roots]

    return fill(roots)
