"""The explorer: a page, or a notebook widget, that shows a network while it runs.

`page` makes one HTML file with everything inside: it asks the network for nothing and opens from
disk. `Widget` shows the same module, made of `static/*.js`, in a notebook.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from inweave.explore.document import html
from inweave.explore.payload import payload as contents
from inweave.explore.shown import Several, named
from inweave.explore.story import Chapter

__all__ = ["Chapter", "Widget", "compare", "page", "write"]


def page(
    networks: Several,
    inputs: Mapping[str, Any] | None = None,
    *,
    reference: Any = None,
    story: Sequence[Chapter] = (),
) -> str:
    """The page of one network, or of several on the same data, as text.

    Without inputs, random ones are drawn, or a random prompt where no inputs are named. `H` instead
    of named inputs is the prompt itself. `reference` is the answer that the networks' answers are
    compared with, or a mapping from outputs to answers; if it is not given, the program that a
    network was compiled from says. `story` are chapters that the page tells.
    """
    return html(contents(named(networks), {} if inputs is None else inputs, reference, story))


def write(
    path: str | os.PathLike[str],
    networks: Several,
    inputs: Mapping[str, Any] | None = None,
    *,
    reference: Any = None,
    story: Sequence[Chapter] = (),
) -> None:
    """Write the page to a file, whole or not at all; several networks are scrubbed together."""
    from inweave import atomic

    atomic.write(path, page(networks, inputs, reference=reference, story=story))


compare = write


def __getattr__(name: str) -> Any:
    if name == "Widget":
        from inweave.explore.widget import Widget

        return Widget
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
