"""The list of commands, and the one place where an error becomes a message and an exit code."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from typing import Any

from cyclopts import App, CycloptsError

import inweave
from inweave.cli import lab, output
from inweave.cli.bench import bench
from inweave.cli.compile import compile_command
from inweave.cli.demo import demo
from inweave.cli.explore import explore
from inweave.cli.gallery import gallery
from inweave.cli.run import run_command
from inweave.cli.show import show
from inweave.cli.verify import verify
from inweave.errors import InweaveError, VerificationError

DONE, CHECK_FAILED, BAD_USAGE, INTERRUPTED = 0, 1, 2, 130

COMMANDS: dict[str, Any] = {
    "demo": demo,
    "compile": compile_command,
    "show": show,
    "verify": verify,
    "run": run_command,
    "explore": explore,
    "gallery": gallery,
    "bench": bench,
}

EPILOGUE = """Every command takes --help, and --debug to see the traceback behind an error.

Exit codes: 0 done, 1 a check failed, 2 bad usage or bad input, 130 interrupted."""


def build() -> App:
    """The commands that this installation has."""
    app = App(
        name="inweave",
        help="Compile matrix algorithms into attention networks, with proof.",
        help_epilogue=EPILOGUE,
        version=inweave.__version__,
        result_action="return_value",
        suppress_keyboard_interrupt=False,
    )
    for place, (name, command) in enumerate(COMMANDS.items()):
        app.command(command, name=name, sort_key=place)
    if lab.available():
        app.command(lab.build(len(COMMANDS)))
    return app


def run(argv: list[str]) -> int:
    """Run a command line; the exit code."""
    debug = "--debug" in argv
    argv = [word for word in argv if word != "--debug"]
    before = _interrupt_on_terminate()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", RuntimeWarning)  # numpy; answers are checked instead
            warnings.showwarning = _show_warning
            code = build()(argv, exit_on_error=False, print_error=False)
        return int(code or DONE)
    except CycloptsError as error:
        output.complain(f"{error}\n{_hint(argv)}")
        return BAD_USAGE
    except KeyboardInterrupt:
        output.errors().print("interrupted; nothing was left half-written")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone, as in `inweave gallery | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except (InweaveError, OSError, RecursionError, MemoryError) as error:
        if debug:
            raise
        output.complain(_message(error))
        return CHECK_FAILED if isinstance(error, VerificationError) else BAD_USAGE
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _hint(argv: list[str]) -> str:
    command = f"inweave {argv[0]}" if argv and argv[0] in (*COMMANDS, "lab") else "inweave"
    return f"see {command} --help"


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
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
