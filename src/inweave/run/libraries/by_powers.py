"""Loops by powers where they keep the digits of steps, and by steps where they may not.

Code that looks at powers says of every problem whether they may have lost digits (`trusted`). Such
problems are computed again by steps, of a batch only these. Of many problems some are asked first:
where powers lose the digits of most of them, all take steps at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from inweave.exact.arithmetic import Arithmetic
from inweave.exact.constants import Array
from inweave.run.domains import OutOfDomain
from inweave.run.libraries.execute import Bound
from inweave.run.libraries.numpy import Look
from inweave.run.libraries.trusted import all_kept
from inweave.run.lines.code import Code

ASKED = 16  # problems that are asked first
MANY = 16 * ASKED  # problems, from which on a batch is asked
MOST = 0.5  # of them may lose digits: powers are taken where they take less than half of the time

Sources = Mapping[Any, Array]


class ByPowers(Bound):
    """Code that looks at powers, and the code that takes steps."""

    def __init__(self, code: Code, arithmetic: Arithmetic, steps: Bound) -> None:
        super().__init__(code, arithmetic)
        self.steps, self.answers = steps, len(code.outputs) - code.looks

    def through(
        self, slots: list[Any], batched: bool, look: Look | None = None, piece: int = 0
    ) -> list[Array]:
        given = slots.copy()
        many = batched and any(len(slots[slot]) >= MANY for slot in self.code.sources.values())
        if many and self._rather_steps(self._sources(given)):
            return self._by_steps(self._sources(given), look)
        outs, grown = self._by_powers(slots, batched, look, piece)
        if grown is all_kept(grown.shape[:-2]) or not np.count_nonzero(grown):
            return outs
        sources, some = self._sources(given), grown[..., 0, 0]
        if some.all() or not _is_lead(some.shape, sources):
            return self._by_steps(sources, look)
        found = self._by_steps(_picked(sources, some), look)
        for i, (out, part) in enumerate(zip(outs, found, strict=True)):
            if out.ndim > 2:
                outs[i] = out.copy()  # it may be what a user handed in
                outs[i][some] = part
        return outs

    def _sources(self, slots: Sequence[Any]) -> Sources:
        return {name: slots[slot] for name, slot in self.code.sources.items()}

    def grown(self, sources: Sources) -> Array:
        """Of which problems powers may lose digits."""
        slots = self.slots.copy()
        for name, slot in self.code.sources.items():
            slots[slot] = sources[name]
        return self._by_powers(slots, any(x.ndim > 2 for x in sources.values()))[1]

    def _by_powers(
        self, slots: list[Any], batched: bool, look: Look | None = None, piece: int = 0
    ) -> tuple[list[Array], Array]:
        """The outputs, and of which problems they may have lost digits."""
        try:
            outs = Bound.through(self, slots, batched, look, piece)
        except OutOfDomain:  # which steps may not leave
            return [], np.ones((1, 1), bool)
        grown = outs.pop()
        while len(outs) > self.answers:
            grown = grown | outs.pop()
        return outs, grown

    def _by_steps(self, sources: Sources, look: Look | None) -> list[Array]:
        """The outputs; the look at what is given is at all that answers do not show."""
        code, arrays = self.steps.code, [sources[name] for name in self.steps.code.sources]
        if look is not None and not any(x.ndim > 2 for x in arrays):
            for slot, x in zip(code.sources.values(), arrays, strict=True):
                if slot not in self.steps.shown:
                    look(x)
        return self.steps.straight(arrays, look)

    def _rather_steps(self, sources: Sources) -> bool:
        """Whether powers lose the digits of most problems, as far as some of many tell."""
        lead = max((x.shape[:-2] for x in sources.values()), key=len)
        if not lead or lead[0] < MANY or not _is_lead(lead, sources):
            return False
        some = slice(None, None, lead[0] // ASKED)
        return bool(self.grown(_picked(sources, some)).mean() > MOST)


def _is_lead(lead: tuple[int, ...], sources: Sources) -> bool:
    """Whether all that is given has these batch axes, or none."""
    return bool(lead) and all(x.shape[:-2] in ((), lead) for x in sources.values())


def _picked(sources: Sources, some: Any) -> Sources:
    """What is given of some problems."""
    return {name: x[some] if x.ndim > 2 else x for name, x in sources.items()}
