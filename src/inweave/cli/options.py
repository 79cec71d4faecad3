"""Arguments that several commands share, so that one word means one thing in all of them."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

Source = Annotated[
    str,
    Parameter(
        help="A .inweave file; or FILE.py:NAME or a name from `inweave gallery`, compiled first."
    ),
]
Sizes = Annotated[str, Parameter(help="Sizes and static arguments of the program, as name=value.")]
Target = Annotated[
    Literal["elsa", "lsa"] | None,
    Parameter(
        help="elsa, the default: heads may have biases. lsa: none, constants stand in the prompt."
    ),
]
Mode = Annotated[
    Literal["faithful", "speed", "depth"] | None,
    Parameter(help="faithful, the default: as written. speed: least work. depth: fewest layers."),
]
FLAG = Parameter(negative="", show_default=False)
Json = Annotated[bool, FLAG, Parameter(help="Print one JSON document instead of text.")]
OUTPUT = Parameter(name=["--output", "-o"])
