"""Identifiers: the names of blocks, made fit for Python and told apart."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from keyword import iskeyword
from unicodedata import normalize

from inweave.exact.names import THEN

LONGEST = 24  # characters of a name that is taken from a block
SPELLED = {"ᵀ": "t", "·I": "", "·": "_", "+": "_plus_", "−": "_minus_", "-": "_minus_", "'": "_"}


def identifier(name: str) -> str:
    """A name that Python takes, as near to a block's as it can be; `v` if that is not near.

    >>> [identifier(name) for name in ("XᵀX", "w₉", "X·w", "eta·I", "A+B", "(A B)ᵀ", "A+…")]
    ['XtX', 'w9', 'X_w', 'eta', 'A_plus_B', 'A_B_t', 'v']
    """
    name = name.split(THEN)[0]
    if name.endswith("…"):
        return "v"
    for sign, spelled in SPELLED.items():
        name = name.replace(sign, spelled)
    name = normalize("NFKC", name)
    words = "".join(c if c.isalnum() or c == "_" else " " for c in name).split()
    found = "_".join(words).strip("_")
    found = found if found.isascii() or found.isidentifier() else ""
    if found[:1].isdigit():
        found = f"v{found}"
    return found if found.isidentifier() and len(found) <= LONGEST else "v"


class Names:
    """Identifiers of one program, no two alike."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = {"inweave", "np", "Fraction", *dir(builtins), *taken}

    def new(self, wanted: str) -> str:
        """A name that nothing else has."""
        name = found = identifier(wanted)
        number = 1
        while found in self._taken or iskeyword(found):
            number += 1
            found = f"{name}{'_' if name[-1].isdigit() else ''}{number}"
        self._taken.add(found)
        return found
