"""`inweave gallery`: the algorithms that come with inweave."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from inweave.cli.options import Json


def gallery(
    name: Annotated[
        str | None, Parameter(help="One entry: its network, certificate and a run on its data.")
    ] = None,
    /,
    *,
    json: Json = False,
) -> int:
    """List the in-context algorithms that come with inweave, or show one of them.

    Every entry is compiled and verified as it is listed. Exit code 1 if one fails its check, or if
    an entry's network and its reference, which is written without inweave, disagree.

    For example:

        inweave gallery

        inweave gallery ridge_gd
    """
    from inweave.cli.listing import tell_all, tell_one

    return tell_all(json) if name is None else tell_one(name, json)
