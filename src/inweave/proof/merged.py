"""The same network of fewer heads, in exact numbers: one that is easier to prove.

With the prompt and its biases side by side, `G = [H  I]`, a head is

    Q Kᵀ V = (G q)(G k)ᵀ(G v) = G A Gᵀ G v,      A = q kᵀ,

so a layer is known by the sum of `A ⊗ v` over its heads. Heads with one A, or one v, up to a number
are therefore one head, and what adds up to nothing is none. The columns between q and k are
nobody's business: A is written as a product again, of as few columns as its rank. And what stands
in columns that no answer is made of may be left out.

A network that was taken apart by such sums and such changes of basis (`inweave.circuits` does it to
hide how it computes) is put together again, whoever did it. Nothing is believed: every sum is
formed from the stored weights, in rational numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from inweave.exact.constants import Dense, Shift
from inweave.exact.rational import Whole, fractions, multiplied, whole
from inweave.model.embedding import in_pieces, simple, weights
from inweave.model.layers import AttentionLayer, BlockPointwiseLayer, Head, Layer, heads_of
from inweave.model.layout import Layout
from inweave.model.modules import loops_of
from inweave.model.network import Network
from inweave.model.projection import AnyProjection, DenseProjection, Piece, Projection
from inweave.model.prompt import Place
from inweave.proof.states import NotProved

Matrix = np.ndarray[Any, Any]
Entries = dict[tuple[int, int], Fraction]  # those of a matrix that are not zero
Term = tuple[Entries, Entries]  # A and v of a head
LONG = 8  # times what it takes to multiply numbers, where one float is not enough
MOST = 8 * 10**10  # multiplications of all heads: some ten seconds
MOST_BITS = 200_000  # of one A


def is_dense(network: Network) -> bool:
    """Whether a network has an embedding or projections that are given in full."""
    parts = (part for head in heads_of(network.layers) for part in head.projections)
    return network.embedding is not None or any(isinstance(p, DenseProjection) for p in parts)


def merged(network: Network) -> Network:
    """The network without an embedding that gives the same answers, heads put together.

    NotProved if that would take long: matrices whose numbers have many digits, as trained ones do.
    """
    terms = _terms(network)
    live = _live(network, itertools.chain(*terms))
    seen = [
        [(A, {at: x for at, x in v.items() if at[1] in live}) for A, v in layer] for layer in terms
    ]
    return _of_terms(network, map(gathered, seen))


def factored(network: Network) -> Network:
    """The network without an embedding, every head for itself of as few inner columns as it needs.

    NotProved as by `merged`.
    """
    return _of_terms(network, _terms(network))


def _terms(network: Network) -> list[list[Term]]:
    """What the heads of every layer are known by, in the basis of the blocks."""
    _check_work(network)
    ahead, back = _basis(network)
    found = list[list[Term]]()
    for layer in network.layers:
        heads = layer.heads if isinstance(layer, AttentionLayer) else ()
        parts = [[_stacked(p, network.layout) for p in head.projections] for head in heads]
        scores = [multiplied(*ahead, q, k.T, *(x.T for x in ahead)) for q, k, _ in parts]
        values = [multiplied(*ahead, v, *back) for *_, v in parts]
        found.append([(_entries(A), _entries(v)) for A, v in zip(scores, values, strict=True)])
    return found


def _of_terms(network: Network, terms: Iterable[Iterable[Term]]) -> Network:
    """The network without an embedding whose layers have heads of these terms."""
    here = iter(terms)

    def changed(layer: Layer, _: str) -> Layer:
        heads = (head for term in next(here) for head in _heads(term, network.layout))
        return replace(layer, heads=tuple(heads)) if isinstance(layer, AttentionLayer) else layer

    modules = tuple(module.map(changed) for module in network.modules)
    return Network(network.layout, modules, network.inputs, network.fills, network.outputs)


def _check_work(network: Network) -> None:
    parts = [part for head in heads_of(network.layers) for part in head.projections]
    size = network.layout.width + network.layout.tokens
    work = len(parts) * size**3
    matrices = [p.W for p in parts if isinstance(p, DenseProjection)]
    if work * LONG > MOST and not all(map(_is_short, matrices)):
        work *= LONG
    if work > MOST:
        raise NotProved("full matrices are too large to be put together")


def _is_short(matrix: Matrix) -> bool:
    return matrix.dtype == np.float64 and not (matrix * 2.0**20 % 1).any()


# -- heads as terms --------------------------------------------------------------------------------
def _basis(network: Network) -> tuple[list[Whole], list[Whole]]:
    """What brings `[W; B]` to the basis of the blocks, and from the right what it writes."""
    embedding, width = network.embedding, network.layout.width
    if embedding is None:
        return [], []
    ahead = fractions(np.eye(width + network.layout.tokens))
    if embedding.columns is not None:
        ahead[:width, :width] = embedding.columns
    if embedding.tokens is not None:
        ahead[width:, width:] = embedding.tokens.T
    back = embedding.inverse.whole[1]
    return [whole(ahead)], [] if back is None else [back]


def _stacked(projection: AnyProjection, layout: Layout) -> Matrix:
    """The weights, and below them the biases: what is multiplied by `[H  I]`."""
    W, B = weights(projection, layout)
    zero = Fraction(0) if W.dtype == object else 0.0
    return np.concatenate([W, np.full((layout.tokens, layout.width), zero) if B is None else B])


def _entries(matrix: Whole) -> Entries:
    at = np.nonzero(matrix.top)
    places = zip(*(indices.tolist() for indices in at), strict=True)
    return {
        place: Fraction(int(number), matrix.bottom)
        for place, number in zip(places, matrix.top[at].tolist(), strict=True)
    }


def gathered(terms: Iterable[Term]) -> list[Term]:
    """Terms with the same sum, as few as come of adding those that have a factor in common."""
    found = list(terms)
    while True:
        fewer = _by_factor(_by_factor(found, 0), 1)
        if len(fewer) == len(found):
            return fewer
        found = fewer


def _by_factor(terms: list[Term], which: int) -> list[Term]:
    """Terms that have a factor in common, up to a number, as one."""
    sums: dict[frozenset[tuple[tuple[int, int], Fraction]], Entries] = {}
    for term in terms:
        common, other = term[which], term[1 - which]
        if not common:
            continue
        size = common[min(common)]
        total = sums.setdefault(frozenset((at, x / size) for at, x in common.items()), {})
        for at, x in other.items():
            total[at] = total.get(at, Fraction(0)) + size * x
    found = [(dict(key), {at: x for at, x in sum_.items() if x}) for key, sum_ in sums.items()]
    return [(a, b) if which == 0 else (b, a) for a, b in found if b]


def _live(network: Network, every: Iterable[Term]) -> set[int]:
    """The columns that answers and what loops carry are made of.

    Where a function is applied, all or none: words know it by the whole of its argument.
    """
    layout, terms = network.layout, list(every)

    def columns(place: Place) -> set[int]:
        return set(range(layout.width)[place.region(layout)[1]])

    carries = [x for loop in loops_of(network.modules) for x in loop.carries]
    places = [*(output.place for output in network.outputs), *itertools.chain(*carries)]
    pointwise = (x for x in network.layers if isinstance(x, BlockPointwiseLayer))
    applied = [columns(place) for layer in pointwise for place, _ in layer.applied]
    live = set[int]().union(*map(columns, places))
    while True:
        read = set[int]()
        for A, v in terms:
            rows = {i for i, j in v if j in live}
            if rows:
                read |= rows | {index for at in A for index in at}
        read = {index for index in read if index < layout.width}
        read.update(*(whole for whole in applied if whole & (read | live)))
        if read <= live:
            return live
        live |= read


# -- terms as heads --------------------------------------------------------------------------------
def _heads(term: Term, layout: Layout) -> Iterator[Head]:
    """The heads of a term: more than one only if the rank of A is more than the prompt is wide."""
    A, v = term
    some, rows = echelon(A)
    for first in range(0, max(len(some), 1), layout.width):
        here = range(first, min(first + layout.width, len(some)))
        slots = {some[k]: k - first for k in here}
        query = {(i, slots[j]): x for (i, j), x in A.items() if j in slots}
        key = {(j, k - first): x for k in here for j, x in rows[k].items()}
        yield Head(*(_projection(entries, layout) for entries in (query, key, v)))


def echelon(A: Entries) -> tuple[list[int], list[dict[int, Fraction]]]:
    """Independent columns of A, and the rows E with `A = A[:, columns] E`."""
    bits = sum(x.numerator.bit_length() + x.denominator.bit_length() for x in A.values())
    if bits > MOST_BITS:
        raise NotProved("full matrices of so many digits have no words")
    rows: dict[int, dict[int, Fraction]] = {}
    for (i, j), x in sorted(A.items()):
        rows.setdefault(i, {})[j] = x
    found: dict[int, dict[int, Fraction]] = {}  # by the column in which each begins
    for row in rows.values():
        for begin, other in found.items():
            row = _without(row, begin, other)
        if not row:
            continue
        begin = min(row)
        row = {j: x / row[begin] for j, x in row.items()}
        found = {b: _without(other, begin, row) for b, other in found.items()}
        found[begin] = row
    order = sorted(found)
    return order, [found[begin] for begin in order]


def _without(
    row: dict[int, Fraction], begin: int, other: dict[int, Fraction]
) -> dict[int, Fraction]:
    """A row less so much of another, which has a 1 in a column, that it is zero there."""
    if begin not in row:
        return row
    size, left = row[begin], dict(row)
    for j, x in other.items():
        left[j] = left.get(j, Fraction(0)) - size * x
    return {j: x for j, x in left.items() if x}


def _projection(entries: Entries, layout: Layout) -> Projection:
    if not entries:
        return Projection(())
    kept = simple(np.array([*entries.values(), None], dtype=object)[:-1])
    zero = 0.0 if kept.dtype == np.float64 else Fraction(0)
    stacked = np.full((layout.width + layout.tokens, layout.width), zero, kept.dtype)
    rows, cols = zip(*entries, strict=True)
    stacked[list(rows), list(cols)] = kept
    W, B = stacked[: layout.width], stacked[layout.width :]
    return in_pieces(DenseProjection(W, B if B.any() else None), layout)


# -- matrices that have no name --------------------------------------------------------------------
def in_runs(network: Network) -> Network:
    """The same network, matrices without a name written as sums of pieces of identities, if few.

    Those that a network was compiled with may have come back as one.
    """

    def written(projection: AnyProjection) -> AnyProjection:
        if not isinstance(projection, Projection):
            return projection
        return Projection(tuple(run for piece in projection.pieces for run in _runs(piece)))

    def changed(layer: Layer, _: str) -> Layer:
        if not isinstance(layer, AttentionLayer):
            return layer
        heads = (Head(*map(written, head.projections)) for head in layer.heads)
        return replace(layer, heads=tuple(heads))

    return replace(network, modules=tuple(module.map(changed) for module in network.modules))


def _runs(piece: Piece) -> list[Piece]:
    rows, cols = piece.matrix.shape
    left = _entries(whole(piece.matrix.array)) if isinstance(piece.matrix, Dense) else {}
    found = []
    while left:
        i, j = min(left)
        x, size = left[i, j], 0
        while left.get((i + size, j + size)) == x:
            del left[i + size, j + size]
            size += 1
        run = Shift(rows, cols, i, j, size)
        found.append(replace(piece, matrix=run, coefficient=piece.coefficient * x))
    return found if 0 < len(found) <= rows + cols else [piece]
