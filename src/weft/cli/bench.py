"""`weft bench`: weft beside hand-written code."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from weft.cli.sources import optional
from weft.errors import InputError


def bench(
    *words: Annotated[str, Parameter(allow_leading_hyphen=True, show=False)],
) -> int:
    """Measure weft beside hand-written code, as ratios in one run.

    The benchmark is a part of weft's source tree, not of the installed package; run it there. All
    further words are handed to it.

    For example:

        weft bench

        make bench
    """
    module = optional("benchmarks.__main__")
    if module is None or not hasattr(module, "main"):
        raise InputError(
            "no benchmark here: it is a part of weft's source tree; run `make bench` there"
        )
    return int(module.main(list(words)) or 0)
