"""What commands say: answers on standard output, progress and complaints on standard error.

Standard output is for answers alone. Whatever else prints while a command runs, such as a user's
file, is heard on standard error, so that an answer can be handed on. What a stream cannot write,
such as `Xᵀ` in ASCII, is replaced; JSON is escaped instead, so that it can be read back.

On a terminal, long work shows a bar; elsewhere each stage is one plain line, so that a log stays
readable. Answers of a command with `--json` are one JSON document and nothing else.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

LOG_WIDTH = 120  # where there is no terminal to fit


class Screen(Console):
    """A console whose reader may go away: a command goes on, and ends as it would have."""

    def on_broken_pipe(self) -> None:
        hush(self.file)


def hush(stream: Any) -> None:
    """Nobody listens to a stream any more; what is still said to it is dropped."""
    with suppress(OSError, ValueError):  # it is no file's
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def prepare() -> None:
    """Streams that take every character; one that the caller has closed says nothing."""
    for name, errors in (("stdout", "replace"), ("stderr", "backslashreplace")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=errors)


_answers: ContextVar[TextIO | None] = ContextVar("answers", default=None)


@contextmanager
def answers_alone() -> Iterator[None]:
    """Standard output for what is said here, standard error for all that is printed meanwhile."""
    token = _answers.set(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _answers.reset(token)


def answers() -> TextIO:
    """Where answers go."""
    return _answers.get() or sys.stdout


@contextmanager
def spoken() -> Iterator[TextIO]:
    """Where answers go, to be written to; whoever stops reading them stops nothing else."""
    stream = answers()
    try:
        yield stream
        stream.flush()
    except BrokenPipeError:
        hush(stream)


def console() -> Console:
    """Where answers go, as a console: made anew, so that a caller may have redirected it."""
    return _console(answers())


def errors() -> Console:
    return _console(sys.stderr)


def _console(stream: Any) -> Console:
    terminal = Screen(file=stream, highlight=False, emoji=False, soft_wrap=False)
    if terminal.is_terminal:
        return terminal
    return Screen(file=stream, highlight=False, emoji=False, width=LOG_WIDTH, soft_wrap=True)


def say(text: object = "") -> None:
    """Plain text, as it is: no markup, no rewrapping."""
    console().print(str(text), markup=False, soft_wrap=True)


def note(text: str) -> None:
    """A remark beside the answer."""
    errors().print(escape(text), style="dim")


def complain(text: str) -> None:
    errors().print(f"[bold red]error:[/] {escape(text)}")


def warn(text: str) -> None:
    errors().print(f"[bold yellow]warning:[/] {escape(text)}")


def say_json(data: Any) -> None:
    """One JSON document; numpy's numbers and arrays become plain ones."""
    dumps = partial(json.dumps, data, indent=2, default=_plain, allow_nan=False)
    with spoken() as stream:
        try:
            text = dumps(ensure_ascii=False)
            text.encode(getattr(stream, "encoding", None) or "utf-8")
        except UnicodeEncodeError:
            text = dumps(ensure_ascii=True)
        print(text, file=stream)


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def table(title: str = "", *columns: str, left: int = 1) -> Table:
    """A table whose first `left` columns hold text and whose others hold numbers."""
    made = Table(title=title or None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for i, name in enumerate(columns):
        made.add_column(name, justify="left" if i < left else "right")
    return made


def bar(out: Console, *columns: Any) -> Any:
    """A bar that is gone in the end, with columns between it and what is said of the work."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    said = TextColumn("{task.description}", markup=False)
    parts = (SpinnerColumn(), BarColumn(bar_width=24), *columns, said)
    return Progress(*parts, console=out, transient=True)


@contextmanager
def stages(total: int) -> Iterator[Callable[[str], None]]:
    """Announce each of `total` stages as it begins: a bar on a terminal, lines elsewhere."""
    out = errors()
    if not out.is_terminal:
        yield lambda text: out.print(f"{text} ...", markup=False, soft_wrap=True)
        return
    from rich.progress import MofNCompleteColumn

    with bar(out, MofNCompleteColumn()) as shown:
        task = shown.add_task("", total=total, completed=-1)

        def begin(text: str) -> None:
            shown.update(task, advance=1, description=text)

        yield begin
