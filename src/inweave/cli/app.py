"""The list of commands, and the one place where an error becomes a message and an exit code.

A command is loaded when the command line names it, so that `inweave --help` loads none: in the list
it stands with its line below, which is the first of its own help. Its file loads what computes only
when the command runs, so that its own help is quick, too.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from importlib import import_module
from typing import Any

from cyclopts import App, CycloptsError

from inweave.cli import options, output
from inweave.cli.endings import CHECK_FAILED, CRASHED, DONE, INTERRUPTED, REFUSED, when_stopped
from inweave.errors import InweaveError, VerificationError
from inweave.version import __version__

# inweave.cli.NAME has the command NAME: a function, or an app with commands of its own
COMMANDS = {
    "demo": "Run the main example: one regression as seven attention networks, each verified.",
    "compile": "Compile a program into a network and verify it.",
    "show": "Print a network: its prompt, its layers as matrix products, and its certificate.",
    "decompile": "Read a network back as a program: Python source, proved equal to the network.",
    "frontier": "Compare every way to compile a program: layers, heads, columns and flops.",
    "verify": "Check a network against its program, by algebra or at random points of a field.",
    "run": "Run a network on your own table: rows to learn from, and rows to predict.",
    "explore": "Write a web page that shows a network's prompt and heads, layer by layer.",
    "gallery": "List the in-context algorithms that come with inweave, or show one of them.",
    "circuits": "Build networks whose circuits are known, and measure what simple methods find.",
    "bench": "Measure inweave beside hand-written code, as ratios in one run.",
    "lab": "Train networks of the compiled shape and compare them with the constructed.",
    "completion": "Print a script that completes commands and options in a shell.",
}

EPILOGUE = """Every command takes --help, and --debug to see the traceback behind an error. \
examples/ridge.py, which their examples name, is a file of inweave's source tree.

Exit codes: 0 done, 1 a check failed, 2 refused (bad usage or bad input), 3 crashed (a defect of \
inweave), 130 interrupted."""


def build(argv: list[str]) -> App:
    """Every command, to read this command line with."""
    named = next((word for word in argv if not word.startswith("-")), None)
    app = App(
        name="inweave",
        help="Compile matrix algorithms into attention networks, with proof.",
        help_epilogue=EPILOGUE,
        help_format="plaintext",  # what reads markdown takes long to load
        version=__version__,
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
    path = list(sys.path)
    output.prepare()
    try:
        with output.answers_alone(), warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", RuntimeWarning)  # numpy; answers are checked instead
            warnings.showwarning = _show_warning
            app = build(argv)
            with when_stopped(_interrupt):
                command, given, *_ = app.parse_args(argv, exit_on_error=False, print_error=False)
                options.refuse_overwriting(command, given)
                code = command(*given.args, **given.kwargs)
            with output.spoken():
                return int(code or DONE)
    except CycloptsError as error:
        named = " ".join(("inweave", *(error.command_chain or ())))
        output.complain(f"{error}\nsee {named} --help")
        return REFUSED
    except KeyboardInterrupt:
        output.errors().print("interrupted; nothing was left half-written")
        return INTERRUPTED
    except (InweaveError, OSError, RecursionError, MemoryError) as error:
        if debug:
            traceback.print_exc()
        output.complain(_message(error))
        return CHECK_FAILED if isinstance(error, VerificationError) else REFUSED
    except Exception as error:
        traceback.print_exc()
        output.complain(f"{type(error).__name__}: a defect of inweave; please report what is above")
        return CRASHED
    finally:
        sys.path[:] = path  # a user's file may have added its folder


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        match error:
            case FileNotFoundError():
                return f"there is no file {error.filename}"
            case IsADirectoryError():
                return f"{error.filename} is a folder; name a file"
            case FileExistsError():
                return f"{error.filename} is a file; name a folder"
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, MemoryError):
        return f"not enough memory{f': {error}' if str(error) else ''}"
    return str(error) or type(error).__name__


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    output.warn(str(message))


def _interrupt(*_: Any) -> None:
    """A request to terminate cleans up like Ctrl-C does."""
    raise KeyboardInterrupt
