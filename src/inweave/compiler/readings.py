"""What a head reads of a form, before anything is known of where values stand.

A projection reads leaves, constants, and a constant's product with a value on its left; other
products have to be stored. The scalars of a product can stand at any place of its chain.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Sequence
from fractions import Fraction

from inweave.compiler.forms import ONE, Form, Forms, Product, Term
from inweave.compiler.units import Units
from inweave.exact.constants import Shift

Light = tuple[Form, Form | None, bool, Fraction]  # factor, constant on its right, turned, times
Group = tuple[Form, bool, Fraction]  # a sum of products that is stored, turned, times


class Readings:
    """How `needed` forms are read.

    Products that several of them read are stored for all who read them: alone, or together with
    those that the same ones read alike, as the heads of one product entry by entry are.
    """

    def __init__(self, forms: Forms, needed: Iterable[Form], units: Units) -> None:
        self.forms, self.units = forms, units
        self._readers: dict[Product, list[tuple[Form, bool, Fraction]]] = {}
        for form in needed:
            for p, t, c in form.products:
                self._readers.setdefault(p, []).append((form, t, c))
        self._placements: dict[Product, list[tuple[Form, ...]]] = {}
        self._splits: dict[tuple[Form, bool], tuple[list[Light], list[Group]]] = {}
        self._patterns: dict[tuple[Form, ...], Hashable] = {}

    def is_read(self, chain: tuple[Form, ...]) -> bool:
        """Whether the product of a chain is a value of the program."""
        sole = self.forms.part(chain).sole
        return sole is not None and sole[0] in self._readers

    def placements(self, p: Product) -> list[tuple[Form, ...]]:
        """The chain with its scalars put in: where they are smallest, and the other places."""
        found = self._placements.get(p)
        if found is None:
            found = self._placements[p] = self._place_scalars(p)
        return found

    def _place_scalars(self, p: Product) -> list[tuple[Form, ...]]:
        if not p.scalars:
            return [p.chain]
        if not p.chain:
            return [p.scalars]
        sizes = [f.rows for f in p.chain] + [p.chain[-1].cols]
        beside = self._beside(p) if len(p.scalars) > 2 else [-1] * len(p.scalars)
        smallest = min(sizes)
        options = []
        for s, spot in zip(p.scalars, beside, strict=True):
            spots = list(range(len(sizes)))
            if spot >= 0 and not s.products:
                spots = [spot]
            elif s.products or len(p.scalars) > 2 or len(p.chain) > 4:
                spots = [i for i in spots if sizes[i] == smallest]
                spots = spots[:1] if smallest > 1 else spots
            options.append(spots)
        out = []
        for choice in itertools.islice(itertools.product(*options), 64):
            chain: list[Form] = []
            for i in range(len(sizes)):
                for s, spot in zip(p.scalars, choice, strict=True):
                    if spot == i:
                        chain += self._scalar(s, sizes[i])
                if i < len(p.chain):
                    chain.append(p.chain[i])
            kept = [f for f in chain if not f.is_identity]
            out.append(tuple(kept) if kept else tuple(chain))
        return list(dict.fromkeys(out))

    def _beside(self, p: Product) -> list[int]:
        """For each scalar the place behind the factors that it makes up for; -1 if there is none.

        Scalars that the program multiplies in one by one would leave the range of floats if they
        were multiplied with each other first.
        """
        size = self.units.other
        at, reached = [-1] * len(p.scalars), 0.0
        for i, f in enumerate(p.chain):
            reached += size(f)
            while waiting := [j for j, spot in enumerate(at) if spot < 0]:
                j = min(waiting, key=lambda j: abs(reached + size(p.scalars[j])))
                after = reached + size(p.scalars[j])
                if abs(after) >= abs(reached) - 1e-3:
                    break
                at[j], reached = i + 1, after
        return at

    def _scalar(self, s: Form, q: int) -> tuple[Form, ...]:
        """A scalar as factors at a place of size q; a contraction is spliced in where q = 1."""
        sole = s.sole
        if q == 1 and sole and isinstance(sole[0], Product) and sole[0].chain:
            return self.placements(sole[0])[0]
        return (self.forms.diagonal(s, q),)

    def pattern(self, chain: tuple[Form, ...]) -> Hashable:
        """What a chain's cost depends on: its factors, but of a constant only how it is read.

        So the heads of a product entry by entry, which differ in the entry that they pick, are
        all alike.
        """
        if chain not in self._patterns:
            numbers: dict[Form, int] = {}
            self._patterns[chain] = tuple(
                self._constant(f, numbers) if f.is_constant else f for f in chain
            )
        return self._patterns[chain]

    def _constant(self, f: Form, numbers: dict[Form, int]) -> Hashable:
        """A constant by its size, by how it is read, and by the constants before that it equals."""
        turned = self.forms.transpose(f)
        own = numbers.setdefault(f, len(numbers))
        return f.rows, f.cols, own, numbers.get(turned), _embeds(f), _embeds(turned), f.diagonal

    def split(self, f: Form, flip: bool) -> tuple[list[Light], list[Group]]:
        """A form's products: those that are free to read, and stored groups of the others.

        A product of one factor and a constant is free where the constant acts on columns.
        """
        found = self._splits.get((f, flip))
        if found is None:
            found = self._splits[f, flip] = self._divide(f, flip)
        return found

    def _divide(self, f: Form, flip: bool) -> tuple[list[Light], list[Group]]:
        light: list[Light] = []
        own, shared = list[Term](), dict[Hashable, list[Term]]()
        for p, t, c in f.products:
            free = None if f.diagonal > 1 else self._light(p, t != flip)  # s I_q is stored
            if free is not None:
                light.append((free[0], free[1], free[2], c))
            elif len(readers := self._readers.get(p, [])) > 1:
                shared.setdefault((*readers, t, c), []).append((p, t, c))
            else:
                own.append((p, t, c))
        groups = [self._alike(terms) for terms in shared.values()]
        if len(own) == 1:
            groups.append(self._alike(own))
        elif own:
            groups.append(self.group(self.forms.form(f.rows, f.cols, own), False, ONE))
        return light, groups

    def _alike(self, terms: Sequence[Term]) -> Group:
        """A sum of products that stand the same way round, as often as each other."""
        (p, t, c), *_ = terms
        products = [(q, False, ONE) for q, _, _ in terms]
        return self.group(self.forms.form(p.rows, p.cols, products), t, c)

    def group(self, form: Form, turned: bool, c: Fraction) -> Group:
        """A sum of products as it is stored: in range."""
        scale = self.units.scale(form)
        if scale == 1:
            return form, turned, c
        return self.forms.combine([(scale, form)]), turned, c / scale

    def _light(self, p: Product, flip: bool) -> tuple[Form, Form | None, bool] | None:
        """(factor, constant on its right, flipped): p read in an orientation without storing it.

        A constant on the left is free too if it only puts zeros below: blocks start at row 0, and
        the prompt holds zeros under them.
        """
        if p.scalars or len(p.chain) != 2:
            return None
        a, b = p.chain
        if not a.is_constant and b.is_constant:
            if not flip or p.is_scalar:  # a scalar is its own transpose
                return a, b, False
            return (a, None, True) if _embeds(self.forms.transpose(b)) else None
        if a.is_constant and not b.is_constant:
            if flip:
                return b, self.forms.transpose(a), True
            return (b, None, False) if _embeds(a) else None
        return None


def _embeds(f: Form) -> bool:
    """Whether a constant form is [I; 0]: it adds rows of zeros below and nothing else."""
    if len(f.constants) != 1:
        return False
    ((k, c),) = f.constants
    return isinstance(k, Shift) and c == 1 and k.row == k.col == 0 and k.size == k.cols
