"""`inweave completion`: the command line, completed by a shell."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Literal

from cyclopts import App, Parameter

from inweave.cli import output


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="The shell.")], /
) -> None:
    """Print a script that completes commands and options in a shell.

    It belongs where the shell looks for it: for bash in
    ~/.local/share/bash-completion/completions/inweave, for zsh in the file _inweave of a folder of
    its fpath, for fish in ~/.config/fish/completions/inweave.fish.

    For example:

        inweave completion bash
    """
    from inweave.cli.app import COMMANDS

    every = App(name="inweave")
    for name in COMMANDS:
        every.command(getattr(import_module(f"inweave.cli.{name}"), name), name=name)
    output.say(every.generate_completion(shell=shell).rstrip("\n"))
