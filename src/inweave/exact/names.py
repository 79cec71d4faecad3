"""Names are shown beside what was proved, so no name may look like more than one: a line of text.

A name with line breaks or control codes in it, of a block, an input, an answer, a function or a
program, could add lines to a certificate or overwrite them on a terminal.
"""

from __future__ import annotations

from typing import Any

from inweave.errors import BlockError, InweaveError

GREEK = {"eta": "η", "lam": "λ", "lambda": "λ", "beta": "β", "alpha": "α", "gamma": "γ",
         "sigma": "σ", "rho": "ρ", "mu": "μ", "tau": "τ"}  # fmt: skip
THEN = "›"  # between the names of values that one block holds in turn
OTHERS = "⋯"  # in place of the last of them, if they are too many to be named
FACTOR = "~"  # before the name of a block that holds a multiple of a value


def in_turn(name: str) -> list[str]:
    """The values that a block holds in turn, if it is called after several and after all of them.

    >>> in_turn("A›A³›A⁹"), in_turn("A"), in_turn("A›⋯")
    (['A', 'A³', 'A⁹'], [], [])
    """
    names = name.split(THEN)
    return names if len(names) > 1 and names[-1] != OTHERS else []


def compound(name: str) -> bool:
    """Whether a name is that of an expression: no letter of it is to be read by itself.

    >>> [compound(name) for name in ("X", "Xᵀ", "weights", "XᵀX", "X·w", "A+B", "uᵀXᵀ")]
    [False, False, False, True, True, True, True]
    """
    return "ᵀ" in name[:-1] or any(sign in name for sign in " ·+−()…")


def is_line(text: Any) -> bool:
    """Whether something is a text that prints as one line and as nothing else."""
    return isinstance(text, str) and text.isprintable()


def check_line(what: str, name: Any, error: type[InweaveError] = BlockError) -> None:
    """Refuse a name that is not one line of printable text."""
    if not is_line(name):
        raise error(f"the name of {what} must be one line of printable text, got {name!r}")
