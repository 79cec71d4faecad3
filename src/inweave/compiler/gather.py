"""Pass, for speed: the matrices of an affine step are computed before the loop.

`x + M x + c` with M and c computed once costs one small product per step; left as it is, the step
costs its products each time. The least work decides. Only a step that keeps about all of x is
written so: as `x + (P - I) x`, a step `P x` would lose all of a small P.
"""

from __future__ import annotations

from inweave.compiler.affine import affine_step
from inweave.compiler.costs import work
from inweave.compiler.forms import ONE, Form, Forms, LoopForm, Written, ordered
from inweave.compiler.options import Options
from inweave.compiler.rewrite import Rewriter


def gather(written: Written, options: Options) -> Written:
    rewriter = Rewriter(options.forms)

    def each(old: LoopForm) -> LoopForm:
        loop = rewriter.loop(old)
        fields = (loop.scope, loop.times, loop.carried, loop.init, gathered(loop, options.forms))
        return options.forms.intern(LoopForm, *fields)

    return rewriter.written(written, each)


def gathered(loop: LoopForm, forms: Forms) -> tuple[Form, ...]:
    """The step of a loop, with its matrices taken out where that saves work."""
    found = affine_step(loop, forms)
    if found is None or not any(a.products for parts in found for a in parts.values()):
        return loop.step
    if len({leaf.cols for leaf in loop.carried}) != 1:
        return loop.step
    step, once, each = [], 0.0, 0.0
    for i, parts in enumerate(found):
        name = loop.carried[i].name
        terms = [(ONE, forms.bind(parts[-1], f"c({name})"))] if -1 in parts else []
        once += total(parts[-1]) if -1 in parts else 0.0
        for j, a in parts.items():
            if j < 0:
                continue
            x = forms.of(loop.carried[j])
            if i == j and any(k.is_identity() and 2 * c >= 1 for k, c in a.constants):
                a = forms.combine([(ONE, a), (-ONE, forms.identity(a.rows))])
                terms.append((ONE, x))
            if a.is_zero:
                continue
            other = loop.carried[j].name if i != j else ""
            terms.append((ONE, forms.matmul(forms.bind(a, f"M({name}{other})"), x)))
            once += total(a)
            each += 0.0 if a.is_constant else work(a.rows, a.cols, x.cols)
        step.append(forms.combine(terms) if terms else loop.step[i])
    before = sum(total(f, loop) for f in loop.step)
    return tuple(step) if once / loop.times + each <= before else loop.step


def total(form: Form, loop: LoopForm | None = None) -> float:
    """The work that a form takes, read from left to right or right to left as is cheaper.

    In a loop, what it does not change counts once for all steps.
    """
    known: dict[Form, float] = {}
    for f in ordered([form]):
        if not isinstance(f, Form):
            continue
        known[f] = 0.0
        for p, _, _ in f.products:
            chain = p.chain
            inner = sum(known[g] for g in chain)
            ahead = sum(work(chain[0].rows, g.rows, g.cols) for g in chain[1:])
            back = sum(work(g.rows, g.cols, chain[-1].cols) for g in chain[:-1])
            fixed = loop is not None and loop.scope not in p.loops
            known[f] += (inner + min(ahead, back)) / (loop.times if fixed and loop else 1)
    return known[form]
