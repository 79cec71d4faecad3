"""Following a repeated module: what must a loop carry from step to step?

The body is followed with every span assumed unchanged by it. Spans that turn out to change become
carried values, in the narrowest form that holds them before and after, until the assumption agrees
with what happens. So scratch that is zero before and after a step is not carried, and constants
stay constants inside loops. A value that the network stores twice, perhaps once transposed, is
carried once: values that begin alike are assumed to stay alike, and parted where they do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from weft.network import Module
from weft.run.graph import Graph, Node
from weft.run.terms import (
    Box,
    Matrix,
    Term,
    assemble,
    bounding,
    on_diagonal,
    same_diagonal,
    standing,
)

if TYPE_CHECKING:
    from weft.run.build import Builder, State


class Form(NamedTuple):
    """How a span is carried: as the matrix inside a box, or as the scalar of a diagonal."""

    box: Box
    diagonal: bool

    @property
    def shape(self) -> tuple[int, int]:
        return (1, 1) if self.diagonal else (self.box.rows, self.box.cols)

    def node(self, graph: Graph, matrix: Matrix) -> Node:
        """What is carried of a matrix."""
        return on_diagonal(graph, matrix) if self.diagonal else assemble(graph, matrix, self.box)

    def term(self, graph: Graph, node: Node) -> Term:
        """The matrix of what is carried."""
        place = standing(graph, node, self.box.top, self.box.left)
        return place._replace(core=self.box.rows) if self.diagonal else place


Twin = tuple[int, bool]
"""The span that a span is equal to, and whether transposed."""


def follow_loop(builder: Builder, module: Module, state: State) -> State:
    """The state after a repeated module."""
    graph = builder.graph
    forms: dict[int, Form] = {}
    twins: dict[int, Twin] = {}
    guesses = 0
    while True:
        mark = graph.mark()
        graph.open(module.repeat)
        inside, phis = list(state), dict[int, Node]()
        for i, form in forms.items():
            first, flip = twins.get(i, (i, False))
            if first == i:
                phis[i] = builder.name(i, graph.phi(*form.shape))
            node = graph.flip(phis[first]) if flip else phis[first]
            inside[i] = (form.term(graph, node),)
        end = builder.body(module, tuple(inside))
        wider = {
            i: form
            for i in range(len(state))
            if end[i] != inside[i]
            and (form := _wide_enough(forms.get(i), (*state[i], *end[i]))) != forms.get(i)
        }
        if wider:
            graph.abandon(mark)
            forms, twins = dict(sorted((forms | wider).items())), {}
            continue
        inits = {i: form.node(graph, state[i]) for i, form in forms.items()}
        nexts = {i: form.node(graph, end[i]) for i, form in forms.items()}
        alone = {i: (i, False) for i in forms}
        if twins:
            found = _twins(graph, inits, nexts, twins)
        else:
            found = _twins(graph, inits, inits, dict.fromkeys(forms, (0, False)))
        if found == (twins or alone):
            twins = found
            break
        guesses += 1
        graph.abandon(mark)
        twins = found if guesses <= len(forms) else alone
    if not forms:
        graph.abandon(mark)
        return state
    results = graph.close([inits[i] for i in phis], [nexts[i] for i in phis])
    last = {i: builder.name(i, node) for i, node in zip(phis, results, strict=True)}
    after = list(state)
    for i, form in forms.items():
        first, flip = twins[i]
        node = graph.flip(last[first]) if flip else last[first]
        after[i] = (form.term(graph, node),)
    return tuple(after)


def _wide_enough(form: Form | None, terms: Matrix) -> Form:
    """The narrowest form that holds these terms and what the form before held."""
    if form is not None and not terms:
        return form
    box = bounding(terms)
    if same_diagonal(terms) and (form is None or form == Form(box, True)):
        return Form(box, True)
    return Form(box if form is None else box.join(form.box), False)


def _twins(
    graph: Graph, inits: dict[int, Node], values: dict[int, Node], before: dict[int, Twin]
) -> dict[int, Twin]:
    """Which spans stay twins: those that were until now, begin as twins and have twin values."""
    found: dict[int, Twin] = {}
    turned = {i: _turned(graph, value) for i, value in values.items()}
    for i, (node, flip) in turned.items():
        for j in found:
            differ = flip != turned[j][1]
            if (
                found[j][0] == j
                and turned[j][0] is node
                and before[i][0] == before[j][0]
                and (graph.flip(inits[j]) if differ else inits[j]) is inits[i]
            ):
                found[i] = (j, differ)
                break
        else:
            found[i] = (i, False)
    return found


def _turned(graph: Graph, node: Node) -> tuple[Node, bool]:
    """A node as another one, the same for it and its transpose, and whether that is transposed."""
    lying = node.turns and node.rows < node.cols
    return (graph.flip(node), True) if node.flipped or lying else (node, False)
