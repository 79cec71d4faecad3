"""`inweave lab`: handed on to the lab's own commands, which are loaded only when asked for."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated, Any

from cyclopts import App, Parameter

from inweave.errors import needs_extra


def available() -> bool:
    """Whether this installation has the lab's commands; looks, and loads no torch."""
    return find_spec("inweave.lab") is not None and find_spec("inweave.lab.cli") is not None


def build(place: int) -> App:
    """A command that passes every word on, `--help` too."""
    app = App(
        name="lab",
        help="Train networks of the compiled shape and compare them with the constructed.",
        help_flags=[],
        version_flags=[],
        sort_key=place,
        result_action="return_value",
    )
    app.default(lab)
    return app


def lab(*words: Annotated[str, Parameter(allow_leading_hyphen=True)]) -> Any:
    """Run a command of the lab."""
    with needs_extra("the lab", "lab"):
        from inweave.lab.cli import app

        return app(
            list(words), exit_on_error=False, print_error=False, result_action="return_value"
        )
