"""Batch axes: which slots have which, before anything is computed.

Arrays and carried values of a loop are made in advance, so their full shapes must be known. A value
that a loop carries may begin without the batch axes that its steps give it.
"""

from __future__ import annotations

import numpy as np

from inweave.run.lower import Code, Line

Lead = tuple[int, ...]


def broadcast(*leads: Lead) -> Lead:
    """The batch axes of a result; nearly always those of its parts are equal or empty."""
    out: Lead = ()
    for lead in leads:
        if lead and lead != out:
            out = np.broadcast_shapes(out, lead) if out else lead
    return out


def spread(code: Code, leads: dict[int, Lead]) -> None:
    """The batch axes of every slot after the code has run, from those before; () if not named."""
    for line in code:
        if isinstance(line, Line):
            leads[line.out] = broadcast(leads.get(line.a, ()), leads.get(line.b, ()))
            continue
        for phi, init in zip(line.phis, line.inits, strict=True):
            leads[phi] = leads.get(init, ())
        settled = False
        while not settled:
            before = [leads[phi] for phi in line.phis]
            spread(line.body, leads)
            pairs = zip(before, line.nexts, strict=True)
            after = [broadcast(lead, leads.get(slot, ())) for lead, slot in pairs]
            settled = before == after
            leads.update(zip(line.phis, after, strict=True))
