"""The degree of a program's answers in the entries of a prompt, from which its depth follows.

An attention layer at most triples degrees in the entries of the prompt, whatever stands there. If
every entry is affine in the inputs, that is the degree in the inputs. A prompt may hold products,
though: the paper's designed form holds √η Xᵀ and √η yᵀ, where one head computes η yᵀXu, of degree 4
in the inputs and 3 in the entries.

So inputs are weighed. Give each a weight of zero or more such that no entry of the prompt weighs
more than one: a product weighs what its factors weigh together, and √η half of η. Then no answer of
degree D in the entries weighs more than D, and whatever the answers weigh, a network needs at least
⌈log₃⌉ of it. The weighings that are allowed are a polytope, the weight of the answers is a largest
of linear functions of it, and none falls when a weight rises: so the best one is a corner that no
other corner tops. With every entry affine there is one corner, in which each input weighs one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, product

from inweave.language.program import Traced
from inweave.model.prompt import Fill
from inweave.proof.degree import degree, degree_text, has_functions, least_degree, lower_bound
from inweave.proof.degree_bound import degree_bound

CORNERS = 5_000  # sets of constraints that are tried; of more inputs in products, weights are even
AFFINE = "on prompts affine in the inputs"
OWN = "on this prompt"

Weights = Mapping[str, Fraction]
Monomial = Mapping[str, Fraction]  # the power of each input
Measure = Callable[[Traced, Mapping[str, int]], tuple[int, bool]]


@dataclass(frozen=True)
class Degree:
    """A degree of answers: of what `holds` says, exact or at most so much.

    With `more` it is one that they reach for certain, and they may have a higher one.
    """

    number: int
    exact: bool
    holds: str = AFFINE
    more: bool = False

    @property
    def layers(self) -> int | None:
        """At least so many attention layers; None if nothing is known, as of an upper bound."""
        return lower_bound(self.number) if self.exact else None

    def __str__(self) -> str:
        said = degree_text(self.number) if self.exact else f"at most {degree_text(self.number)}"
        return f"degree {said}" + " or more" * self.more + " in its entries" * (self.holds == OWN)


def is_affine(fills: Iterable[Fill]) -> bool:
    """Whether every entry of a prompt is affine in the inputs."""
    return all(not powers or [*powers.values()] == [1] for powers in map(_monomial, fills))


def in_entries(traced: Traced, fills: Sequence[Fill], measure: Measure) -> Degree:
    """The degree in the entries of a prompt; at least this, where the measured degree is exact."""
    if is_affine(fills) or has_functions(traced):
        return Degree(*measure(traced, {}))
    found = [_weighed(traced, weights, measure) for weights in weighings(fills)]
    proved = [number for number, exact in found if exact]
    if proved:
        return Degree(max(proved), True, OWN, more=True)
    return Degree(measure(traced, {})[0], False)


def reached(traced: Traced, fills: Sequence[Fill]) -> Degree:
    """The degree in the entries of a prompt or, where that is not known, one that is reached."""
    found = in_entries(traced, fills, degree)
    if found.exact:
        return found
    return replace(in_entries(traced, fills, lambda *of: (least_degree(*of), True)), more=True)


def _weighed(traced: Traced, weights: Weights, measure: Measure) -> tuple[int, bool]:
    """What the answers weigh, rounded up: degrees are whole.

    Inputs that weigh nothing are counted below all others, where degrees of zero would be taken for
    those of constants: K is more than their degree, and so the answers weigh the K-th part.
    """
    light = {name: int(not weight) for name, weight in weights.items()}
    K = 1
    if any(light.values()):
        others = {spec.name: light.get(spec.name, 0) for spec in traced.inputs}
        K += degree_bound(traced, others)
    scale = math.lcm(*(weight.denominator for weight in weights.values()))
    whole = {name: int(K * scale * weight) + light[name] for name, weight in weights.items()}
    rest = {spec.name: K * scale for spec in traced.inputs if spec.name not in weights}
    number, exact = measure(traced, whole | rest)
    return -(-(number // K) // scale), exact


# -- weighings ------------------------------------------------------------------------------------
def weighings(fills: Iterable[Fill]) -> Iterator[Weights]:
    """The corners that no other tops: weights of inputs with which no entry weighs more than 1."""
    entries = [powers for powers in map(_monomial, fills) if powers]
    parts = [_corners(group, entries) for group in _tied(entries)]
    for choice in product(*parts):
        yield {name: weight for corner in choice for name, weight in corner.items()}


def _monomial(fill: Fill) -> Monomial:
    """The powers of the inputs in what a fill puts into the prompt."""
    powers: Counter[str] = Counter()
    if fill.coefficient:
        for name, power in ((fill.source, Fraction(1)), *fill.scale):
            if name is not None:
                powers[name] += power  # type: ignore[assignment]
    return powers  # type: ignore[return-value]


def _tied(entries: Sequence[Monomial]) -> list[list[str]]:
    """Inputs in groups: those that stand together in some entry, or with a common third."""
    groups: list[set[str]] = []
    for powers in entries:
        met = [group for group in groups if group & powers.keys()]
        groups = [group for group in groups if group not in met]
        groups.append(set(powers).union(*met))
    return [sorted(group) for group in groups]


def _corners(names: Sequence[str], entries: Sequence[Monomial]) -> list[Weights]:
    """The corners, of these inputs alone, that no other tops."""
    rows = {tuple(powers.get(name, Fraction(0)) for name in names) for powers in entries}
    rows = {row for row in rows if any(row)}
    many = len(names)
    if math.comb(len(rows) + many, many) > CORNERS:
        most = [max(sum(row, Fraction(0)) for row in rows if row[i]) for i in range(many)]
        return [{name: 1 / total for name, total in zip(names, most, strict=True)}]
    planes = [(row, Fraction(1)) for row in sorted(rows)]
    planes += [(tuple(Fraction(i == j) for j in range(many)), Fraction(0)) for i in range(many)]
    found = set()
    for chosen in combinations(planes, many):
        point = _solved(chosen)
        if point is not None and min(point) >= 0 and all(_dot(row, point) <= 1 for row in rows):
            found.add(point)
    best = [p for p in sorted(found) if not any(_tops(other, p) for other in found)]
    return [dict(zip(names, point, strict=True)) for point in best]


def _tops(a: tuple[Fraction, ...], b: tuple[Fraction, ...]) -> bool:
    return a != b and all(x >= y for x, y in zip(a, b, strict=True))


def _dot(row: Sequence[Fraction], point: Sequence[Fraction]) -> Fraction:
    return sum((a * x for a, x in zip(row, point, strict=True)), Fraction(0))


def _solved(planes: Sequence[tuple[Sequence[Fraction], Fraction]]) -> tuple[Fraction, ...] | None:
    """The point in which planes meet, by elimination; None if that is none, or not one."""
    table = [[*row, right] for row, right in planes]
    for i in range(len(table)):
        pivot = next((j for j in range(i, len(table)) if table[j][i]), None)
        if pivot is None:
            return None
        table[i], table[pivot] = table[pivot], table[i]
        table[i] = [x / table[i][i] for x in table[i]]
        for j, line in enumerate(table):
            if j != i and line[i]:
                table[j] = [x - line[i] * y for x, y in zip(line, table[i], strict=True)]
    return tuple(line[-1] for line in table)
