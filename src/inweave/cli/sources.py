"""What a command works on: a program of the user's file, one of the gallery, or a `.inweave` file.

`FILE.py:name` runs that Python file, as importing it from its own folder would; what it prints goes
to standard error, where remarks belong. A `.inweave` file is data and runs nothing.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import inweave
from inweave.cli.output import stages
from inweave.errors import InputError, InweaveError, ProgramError, did_you_mean
from inweave.files import regular

if TYPE_CHECKING:
    from inweave.language.program import Program
    from inweave.network import Network

KINDS = "a .inweave file, FILE.py:program, or a name from `inweave gallery`"


def find(text: str) -> Program | Network:
    """The program or network that a user named."""
    if text.endswith(".inweave"):
        return inweave.load(text)
    path, colon, name = text.rpartition(":")
    if colon and path.endswith(".py"):
        return from_file(Path(path), name)
    if text.endswith(".py"):
        return from_file(Path(text), None)
    found = from_gallery(text)
    if found is None:
        names = inweave.gallery.names()
        raise InputError(
            f"{text!r} is not {KINDS}; {did_you_mean(text, names)}the gallery has "
            f"{', '.join(names)}"
        )
    return found


def find_program(text: str) -> Program:
    """The program that a user named, and nothing but a program."""
    found = find(text)
    if isinstance(found, inweave.Network):
        raise InputError(f"{text} is a network already; name a program: FILE.py:program")
    return found


def from_gallery(name: str) -> Program | None:
    return inweave.gallery.get(name).program if name in inweave.gallery.names() else None


def from_file(path: Path, name: str | None) -> Program:
    """A program of a Python file; the only one, if no name is given."""
    regular.opened(path).close()  # whoever cannot read it says so, and not that its code failed
    found = {k: v for k, v in vars(_execute(path)).items() if isinstance(v, inweave.Program)}
    programs = ", ".join(found) or "none"
    if name is None:
        if len(found) != 1:
            raise InputError(f"{path}: say which program as {path}:NAME; it has {programs}")
        return next(iter(found.values()))
    if name not in found:
        meant = did_you_mean(name, found)
        raise InputError(f"{path} has no program {name!r}; {meant}its programs are: {programs}")
    return found[name]


def _execute(path: Path) -> Any:
    """The module of a user's file; its folder stays importable until the command has ended."""
    spec = importlib.util.spec_from_file_location(f"_inweave_user_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.resolve().parent))
    with users_code(path):
        spec.loader.exec_module(module)
    return module


@contextmanager
def users_code(code: Path | Program) -> Iterator[None]:
    """Errors of what a user wrote become messages, with the file and the line.

    An error of a program that did not pass through its file is none of the user's.
    """
    if isinstance(code, Path):
        path, called = code, f"{code}"
    else:
        path = Path(code.function.__code__.co_filename)
        called = f"program {code.name!r}, {path}"
    try:
        yield
    except InweaveError:
        raise
    except SyntaxError as error:
        line = "" if error.lineno is None else f", line {error.lineno}"
        raise ProgramError(f"{called}{line}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        line = _where(error, path)
        if not line and isinstance(code, inweave.Program):
            raise
        raise ProgramError(f"{called}{line}: {type(error).__name__}: {error}") from error


def _where(error: BaseException, path: Path) -> str:
    """`, line 7` if the error passed through a file."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f.lineno for f in frames if Path(f.filename).resolve() == path.resolve()]
    return f", line {lines[-1]}" if lines else ""


# -- settings: n=40 lam=0.1 ------------------------------------------------------------------------
def settings(words: Iterable[str]) -> dict[str, Any]:
    """`name=value` words; a value is a Python literal where it reads as one, otherwise text."""
    found: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier() or not value:
            raise InputError(f"{word!r} is not of the form name=value, such as n=40")
        if name in found:
            raise InputError(f"{name} is set twice: {found[name]!r} and {value}")
        try:
            found[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError, TypeError):  # TypeError: {[]: 1} cannot be a dict
            found[name] = value
    return found


# -- compiling -------------------------------------------------------------------------------------
def chosen(**options: int | str | None) -> dict[str, Any]:
    """Those options of compiling that the user gave; `compile` knows what the others are."""
    return {name: value for name, value in options.items() if value is not None}


def only_for_programs(source: str, options: Mapping[str, Any]) -> None:
    """Refuse options of compiling beside a network that was compiled already."""
    for name, value in options.items():
        raise InputError(f"{source} is a network already; leave out --{name} {value}")


def compiled(program: Program, sizes: Mapping[str, Any], options: Mapping[str, Any]) -> Network:
    """The network of a program, with its certificate, telling what is being done."""
    with stages(2) as begin, users_code(program):
        begin(f"compiling {program.name}")
        network = inweave.compile(program, verify=False, **options, **sizes)
        begin("verifying")
        return replace(network, certificate=network.verify())
