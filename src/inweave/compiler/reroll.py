"""Pass, for least depth: Python loops that collapse become loops again.

A loop is only put in where, collapsed, it is less deep than its copies are as they stand. To know
that, the passes that follow are asked what they would make of both. Long ones, and loops over rows,
are recorded as loops already; so are short ones where digits count more than layers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from inweave.compiler.collapse import collapse
from inweave.compiler.expand import Expander
from inweave.compiler.forms import Form, ResultLeaf
from inweave.compiler.normalize import normalize
from inweave.compiler.options import Options
from inweave.compiler.symmetry import symmetry
from inweave.language import expressions as ex
from inweave.language.expressions import Expr
from inweave.language.program import Traced
from inweave.language.repeats import repeats, substituted


def reroll(traced: Traced, options: Options) -> Traced:
    if traced.flat is not None and not options.steady:
        traced = traced.flat
    for varying in (False, True):  # steps that are alike; then those with coefficients of their own
        traced = _rerolled(traced, options, varying)
    return traced


def _rerolled(traced: Traced, options: Options, varying: bool) -> Traced:
    became: dict[Expr, Expr] = {}
    depth = Expander(options.forms, hoist=True).depth

    def forms(roots: Iterable[Expr]) -> list[Form]:
        numbered = {str(i): x for i, x in enumerate(roots)}
        written = normalize(replace(traced, outputs=numbered), options)
        return list(collapse(symmetry(written, options), options).outputs.values())

    for found in repeats(traced.operations, varying):
        results = substituted(found.results, became)
        short = forms(results)
        if any(f.sole and isinstance(f.sole[0], ResultLeaf) for f in short):
            continue  # it does not collapse
        if max(map(depth, short)) < max(map(depth, forms(substituted(found.ends, became)))):
            became.update(zip(found.ends, results, strict=True))
    if not became:
        return traced
    outputs = substituted(traced.outputs.values(), became)
    named = dict(zip(traced.outputs, outputs, strict=True))
    return replace(traced, outputs=named, operations=tuple(ex.ordered(outputs)))
