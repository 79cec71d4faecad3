"""Names are shown beside what was proved, so no name may look like more than one: a line of text.

A name with line breaks or control codes in it, of a block, an input, an answer, a function or a
program, could add lines to a certificate or overwrite them on a terminal.
"""

from __future__ import annotations

from typing import Any

from inweave.errors import BlockError, InweaveError


def is_line(text: Any) -> bool:
    """Whether something is a text that prints as one line and as nothing else."""
    return isinstance(text, str) and text.isprintable()


def check_line(what: str, name: Any, error: type[InweaveError] = BlockError) -> None:
    """Refuse a name that is not one line of printable text."""
    if not is_line(name):
        raise error(f"the name of {what} must be one line of printable text, got {name!r}")
