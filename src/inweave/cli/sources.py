"""What a command works on: a program of the user's file, one of the gallery, or a `.inweave` file.

`FILE.py:name` runs that Python file, as `python FILE.py` would. A `.inweave` file is data and runs
nothing.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import inweave
from inweave import gallery
from inweave.cli.output import stages
from inweave.errors import InputError, InweaveError, ProgramError
from inweave.language.program import Program
from inweave.network import Network

KINDS = "a .inweave file, FILE.py:program, or a name from `inweave gallery`"


def find(text: str) -> Program | Network:
    """The program or network that a user named."""
    if text.endswith(".inweave"):
        return load(text)
    path, colon, name = text.rpartition(":")
    if colon and path.endswith(".py"):
        return from_file(Path(path), name)
    if text.endswith(".py"):
        return from_file(Path(text), None)
    found = from_gallery(text)
    if found is None:
        raise InputError(f"{text!r} is not {KINDS}; the gallery has {', '.join(gallery.names())}")
    return found


def find_program(text: str) -> Program:
    """The program that a user named, and nothing but a program."""
    found = find(text)
    if isinstance(found, Network):
        raise InputError(f"{text} is a network already; name a program: FILE.py:program")
    return found


def load(path: str) -> Network:
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}")
    return inweave.load(path)


def from_gallery(name: str) -> Program | None:
    return gallery.get(name).program if name in gallery.names() else None


def from_file(path: Path, name: str | None) -> Program:
    """A program of a Python file; the only one, if no name is given."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    found = {k: v for k, v in vars(_execute(path)).items() if isinstance(v, Program)}
    programs = ", ".join(found) or "none"
    if name is None:
        if len(found) != 1:
            raise InputError(f"{path}: say which program as {path}:NAME; it has {programs}")
        return next(iter(found.values()))
    if name not in found:
        raise InputError(f"{path} has no program {name!r}; its programs are: {programs}")
    return found[name]


def _execute(path: Path) -> Any:
    """The module of a user's file, its own folder importable while it runs."""
    spec = importlib.util.spec_from_file_location(f"_inweave_user_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except InweaveError:
        raise
    except SyntaxError as error:
        raise ProgramError(f"{path}, line {error.lineno}: {error.msg}") from error
    except Exception as error:
        raise ProgramError(f"{path}{where(error, path)}: {_said(error)}") from error
    finally:
        sys.path.remove(str(path.resolve().parent))
    return module


def where(error: BaseException, path: Path | None = None) -> str:
    """`, line 7` if the error passed through a given file."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f.lineno for f in frames if path and Path(f.filename).resolve() == path.resolve()]
    return f", line {lines[-1]}" if lines else ""


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


@contextmanager
def users_code(program: Program) -> Iterator[None]:
    """Errors that a user's program raises by itself become messages with file and line."""
    try:
        yield
    except (InweaveError, KeyboardInterrupt):
        raise
    except Exception as error:
        path = Path(program.function.__code__.co_filename)
        line = where(error, path)
        if not line:
            raise
        raise ProgramError(f"program {program.name!r}, {path}{line}: {_said(error)}") from error


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
        except (ValueError, SyntaxError):
            found[name] = value
    return found


def compiled(program: Program, *, target: str, optimize: str, sizes: dict[str, Any]) -> Network:
    """The network of a program, with its certificate, telling what is being done."""
    with stages(2) as begin, users_code(program):
        begin(f"compiling {program.name}")
        network = inweave.compile(program, target=target, optimize=optimize, verify=False, **sizes)
        begin("verifying")
        return replace(network, certificate=network.verify())
