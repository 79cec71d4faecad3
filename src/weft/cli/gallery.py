"""`weft gallery`: the algorithms that come with weft."""

from __future__ import annotations

from weft.cli.options import Json
from weft.errors import InputError


def gallery(
    name: str | None = None,
    *,
    json: Json = False,
) -> None:
    """List the in-context algorithms that come with weft, or show one of them.

    For example:

        weft gallery

        weft gallery ridge_gd

    Parameters
    ----------
    name
        One entry: its network, its certificate and a run on its example data.
    json
        Print one JSON document instead of text.
    """
    said = f", so there is no {name!r} to show" if name and not json else ""
    raise InputError(f"this version of weft has no gallery{said}")
