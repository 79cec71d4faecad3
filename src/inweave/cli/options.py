"""Arguments that several commands share, so that one word means one thing in all of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from cyclopts import Parameter

from inweave.errors import InputError

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


def check_seconds(seconds: float) -> None:
    """Refuse a time that is none."""
    if not seconds >= 0:
        raise InputError(f"--seconds must be 0 or more, got {seconds:g}")


def refuse_overwriting(command: Callable[..., Any], given: inspect.BoundArguments) -> None:
    """Refuse to write a file that is named in the same command to be read."""
    if not inspect.isfunction(command):  # help, or the version
        return
    from inweave.atomic import check_apart

    hints = get_type_hints(command, include_extras=True)
    marked = [name for name, hint in hints.items() if OUTPUT in getattr(hint, "__metadata__", ())]
    written = [given.arguments[name] for name in marked if given.arguments.get(name) is not None]
    others = [value for name, value in given.arguments.items() if name not in marked]
    for path in written:
        check_apart(path, _files(others))


def _files(value: Any) -> Iterator[Path]:
    """What may name a file among the values of arguments; FILE.py:NAME names FILE.py."""
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from _files(one)
    elif isinstance(value, (str, Path)):
        file, colon, _ = str(value).rpartition(":")
        yield Path(file if colon and file.endswith(".py") else value)
