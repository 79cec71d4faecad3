"""What a step reads from around it, written down: whether it is the same before and after a call.

Python runs a loop's step as often as the loop repeats; a network repeats what the step recorded. So
a step must not have memory, and two equal recordings do not show that it has none: a counter may be
read every tenth time only. But where nothing that the step reads has changed by a call, the next
call cannot be another one. What a function reads is what it closes over, the globals that its code
names, its defaults and attributes, the same of functions and classes that are found there, and the
random numbers of Python, numpy and torch if it names them. Pickle knows how to write most of that
down. What libraries keep to themselves is not looked into.
"""

from __future__ import annotations

import copyreg
import io
import itertools
import os
import pickle
import random
import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

_PATHS = sysconfig.get_paths()
_INSTALLED = [_PATHS[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
_LIBRARIES = tuple(path + os.sep for path in (str(Path(__file__).parent.parent), *_INSTALLED))
_unknown = itertools.count()


class State:
    """What a step reads, by name. The objects are kept, so that none takes another one's id."""

    def __init__(self, step: Callable[..., Any]) -> None:
        self.kept: list[Any] = []
        own = _around(step) if isinstance(step, FunctionType) else {"its own attributes": step}
        self.read = {name: self._written(value) for name, value in own.items()}

    def changed(self, before: State) -> list[str]:
        """The names of what is another one than before, or cannot be looked into."""
        names = {**before.read, **self.read}
        return [name for name in names if before.read.get(name) != self.read.get(name)]

    def _written(self, value: Any) -> bytes:
        out = io.BytesIO()
        try:
            _Writer(out, self.kept).dump(value)
        except Exception:  # whatever a user's object may raise; also RecursionError
            return b"unknown %d" % next(_unknown)
        return out.getvalue()


def _around(function: FunctionType) -> dict[str, Any]:
    """What a function finds outside of its arguments, by name."""
    code, found = function.__code__, dict[str, Any]()
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # still empty
            found[name] = None
    names = _names(code)
    for name in names & function.__globals__.keys():
        found[name] = function.__globals__[name]
    for name, value in list(found.items()):
        if isinstance(value, ModuleType):
            found |= {f"{name}.{inside}": x for inside, x in _inside(value, names).items()}
    kept = (function.__defaults__, function.__kwdefaults__, vars(function))
    return found | {"its defaults or attributes": kept} if any(kept) else found


def _inside(module: ModuleType, names: set[str]) -> dict[str, Any]:
    """What some names stand for in a user's module; of a library, its random numbers."""
    if not _is_library(getattr(module, "__file__", None)):
        return {name: vars(module)[name] for name in names & vars(module).keys()}
    if module is random:
        return {"getstate": random.getstate()}
    if module is np.random or (module is np and "random" in names):
        return {"get_state": np.random.get_state()}  # noqa: NPY002
    if module is sys.modules.get("torch"):
        return {"get_rng_state": module.get_rng_state().numpy()}
    return {}


def _names(code: CodeType) -> set[str]:
    """The names of globals and attributes in some code, and in the functions that it makes."""
    inner = (_names(part) for part in code.co_consts if isinstance(part, CodeType))
    return set(code.co_names).union(*inner)


def _is_library(file: str | None) -> bool:
    return file is None or file.startswith(_LIBRARIES)


def _as_it_is() -> None:
    """Stands in the text for an object that pickle does not write down; nothing is read back."""


class _Writer(pickle.Pickler):
    """Pickle, but for what it refuses or takes for constant, and what never changes."""

    def __init__(self, out: io.BytesIO, kept: list[Any]) -> None:
        super().__init__(out, protocol=5)
        self.kept = kept
        self.opened: set[int] = set()

    def _named(self, x: Any, *parts: Any) -> Any:
        self.kept.append(x)
        return _as_it_is, (id(x), *parts)

    def reducer_override(self, x: Any) -> Any:
        if x is _as_it_is:
            return NotImplemented
        if type(x) is np.ndarray and x.dtype != object:
            return _as_it_is, (x.dtype.str, x.shape, x.tobytes())
        if id(x) in self.opened:  # a function that reads itself
            return self._named(x)
        if isinstance(x, FunctionType):
            if _is_library(x.__code__.co_filename):
                return self._named(x)
            self.opened.add(id(x))
            return self._named(x.__code__, _around(x))
        if isinstance(x, type):
            module = sys.modules.get(x.__module__)
            is_own = x.__module__ == "__main__"  # of a notebook, which is no file
            if not is_own and _is_library(getattr(module, "__file__", None)):
                return self._named(x)
            self.opened.add(id(x))
            return self._named(x, {k: v for k, v in vars(x).items() if not k.startswith("__")})
        if isinstance(x, ModuleType) or type(x).__module__.partition(".")[0] == "inweave":
            return self._named(getattr(x, "_node", x))  # values are handles on interned nodes
        if isinstance(x, BuiltinFunctionType) and isinstance(x.__self__, ModuleType | None):
            return self._named(x)
        if type(x) in copyreg.dispatch_table:
            return NotImplemented
        return self._reduced(x)

    def _reduced(self, x: Any) -> Any:
        """What pickle would write, else an object with its attributes; of an iterator, its state.

        Where that is kept to itself (of a generator), it is taken for changed.
        """
        try:
            if type(x).__module__ != "itertools":
                reduced = x.__reduce_ex__(5)
            else:
                with warnings.catch_warnings():  # they will not be pickled for ever
                    warnings.simplefilter("ignore", DeprecationWarning)
                    reduced = x.__reduce_ex__(5)
        except Exception:
            reduced = ""
        if not isinstance(reduced, str):
            return reduced
        state = next(_unknown) if isinstance(x, Iterator) else getattr(x, "__dict__", None)
        return self._named(x, state)
