"""The list of commands, and the one place where an error becomes a message and an exit code.

A command is loaded when the command line names it, so that `inweave --help` loads none: in the list
it stands with its line below, which is the first of its own help.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from importlib import import_module
from typing import Any

from cyclopts import App, CycloptsError

from inweave.cli import output
from inweave.errors import InweaveError, VerificationError
from inweave.version import __version__

DONE, CHECK_FAILED, BAD_USAGE, INTERRUPTED = 0, 1, 2, 130

# inweave.cli.NAME has the command NAME: a function, or an app with commands of its own
COMMANDS = {
    "demo": "Run the main example: one regression as seven attention networks, each verified.",
    "compile": "Compile a program into a network and verify it.",
    "show": "Print a network: its prompt, its layers as matrix products, and its certificate.",
    "verify": "Check a network against its program, by algebra or at random points of a field.",
    "run": "Run a network on your own table: rows to learn from, and rows to predict.",
    "explore": "Write a web page that shows a network's prompt and heads, layer by layer.",
    "gallery": "List the in-context algorithms that come with inweave, or show one of them.",
    "bench": "Measure inweave beside hand-written code, as ratios in one run.",
    "lab": "Train networks of the compiled shape and compare them with the constructed.",
}

EPILOGUE = """Every command takes --help, and --debug to see the traceback behind an error.

Exit codes: 0 done, 1 a check failed, 2 bad usage or bad input, 130 interrupted."""


def build(argv: list[str]) -> App:
    """Every command, to read this command line with."""
    named = next((word for word in argv if not word.startswith("-")), None)
    app = App(
        name="inweave",
        help="Compile matrix algorithms into attention networks, with proof.",
        help_epilogue=EPILOGUE,
        help_format="markdown" if named else "plaintext",  # what reads markdown takes long to load
        version=__version__,
        result_action="return_value",
        suppress_keyboard_interrupt=False,
        console=output.console(),  # help, too, may be read by one who goes away
    )
    for place, (name, line) in enumerate(COMMANDS.items()):
        if name == named:
            app.command(getattr(import_module(f"inweave.cli.{name}"), name), name=name)
        else:
            app.command(App(name=name, help=line, sort_key=place))
    return app


def run(argv: list[str]) -> int:
    """Run a command line; the exit code."""
    debug = "--debug" in argv
    argv = [word for word in argv if word != "--debug"]
    before, path = _interrupt_on_terminate(), list(sys.path)
    try:
        with output.answers_alone(), warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", RuntimeWarning)  # numpy; answers are checked instead
            warnings.showwarning = _show_warning
            code = build(argv)(argv, exit_on_error=False, print_error=False)
            output.answers().flush()
        return int(code or DONE)
    except CycloptsError as error:
        command = " ".join(("inweave", *(error.command_chain or ())))
        output.complain(f"{error}\nsee {command} --help")
        return BAD_USAGE
    except KeyboardInterrupt:
        output.errors().print("interrupted; nothing was left half-written")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone, as in `inweave gallery | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except (InweaveError, OSError, RecursionError, MemoryError) as error:
        if debug:
            traceback.print_exc()
        output.complain(_message(error))
        return CHECK_FAILED if isinstance(error, VerificationError) else BAD_USAGE
    finally:
        sys.path[:] = path  # a user's file may have added its folder
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        match error:
            case FileNotFoundError():
                return f"there is no file {error.filename}"
            case IsADirectoryError():
                return f"{error.filename} is a folder; name a file"
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, MemoryError):
        return f"not enough memory{f': {error}' if str(error) else ''}"
    return str(error) or type(error).__name__


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    output.warn(str(message))


def _interrupt_on_terminate() -> Any:
    """Let a termination request clean up like Ctrl-C does."""

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    try:
        return signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not in the main thread: leave signals alone
        return None
