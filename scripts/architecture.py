"""Writes what docs/explanation/architecture.md shows of the code: `python -m scripts.architecture`.

The picture of the rooms is drawn from the imports in the source, the table of what they own from
their docstrings, and the walk of one prompt from a recorded run, so that none of them can say
something that the code does not do. A test compares the page with what this script would write.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.compiler.driver import checked_by
from tests.test_rooms import ROOMS, SOURCE, edges, modules, room

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
PICTURE = ROOT / "docs" / "figures" / "rooms.svg"
FACE = "__init__"
FONT = 'font-family="sans-serif"'
PAPER, INK, FAINT, RULE, DOT = "#ffffff", "#1d2b40", "#8494aa", "#dfe6ef", "#4a6a95"
DEEPEST = 5  # calls within calls that the walk follows
LEAST = 12  # calls that a call makes, to be worth a line

Lines = Iterator[str]


# -- the picture ----------------------------------------------------------------------------------
def picture() -> str:
    """Who imports whom: a row looks into the columns where it has a dot, all of them above it.

    The dot is larger where more is imported. The names stand on the diagonal, so that one direction
    of imports is one side of it.
    """
    names = [name for name in ROOMS.split() if name not in ("version", "__main__")]
    count = Counter((room(e.importer), room(e.imported)) for e in edges())
    cell, left, top = 30, 100, 12
    side = cell * len(names)
    view = f"0 0 {left + side + 110} {top + side + 12}"
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view}" font-size="13" {FONT}>',
             f'<rect width="100%" height="100%" fill="{PAPER}"/>']  # fmt: skip
    for i, lower in enumerate(names):
        y = top + cell * (i + 0.5)
        shown = "inweave" if lower == FACE else lower
        parts.append(
            f'<line x1="{left}" x2="{left + cell * (i + 0.5)}" y1="{y}" y2="{y}" stroke="{RULE}"/>'
            f'<text x="{left - 10}" y="{y + 4}" text-anchor="end" fill="{INK}">{shown}</text>'
            f'<text x="{left + cell * (i + 0.5) + 8}" y="{y + 4}" fill="{FAINT}">{shown}</text>'
        )
        for j, upper in enumerate(names[:i]):
            n, x = count[lower, upper], left + cell * (j + 0.5)
            if n:
                parts.append(
                    f'<circle cx="{x}" cy="{y}" r="{min(2.5 + n**0.5, 12):.1f}" fill="{DOT}">'
                    f"<title>{lower} imports {upper}: {n} names</title></circle>"
                )
        x = left + cell * (i + 0.5)
        parts.append(
            f'<line x1="{x}" x2="{x}" y1="{y + 8}" y2="{top + side}" stroke="{RULE}"/>'
            f'<circle cx="{x}" cy="{y}" r="3" fill="none" stroke="{INK}"/>'
        )
    return "\n".join([*parts, "</svg>", ""])


# -- the table ------------------------------------------------------------------------------------
def table() -> str:
    """Every room and what it is for."""
    lines = ["| room | what it owns |", "| --- | --- |"]
    found: dict[str, list[Path]] = {}
    for module, path in modules().items():
        found.setdefault(room(module), []).append(path)
    for name in ROOMS.split():
        if name in ("version", "__main__", FACE):
            continue
        paths = found[name]
        whole = SOURCE / name / "__init__.py"
        text = ast.get_docstring(ast.parse((whole if whole.exists() else paths[0]).read_text()))
        first = str(text).partition("\n\n")[0].replace("\n", " ")
        lines.append(f"| `{name}` | {first} |")
    return "\n".join(lines)


# -- the walk -------------------------------------------------------------------------------------
@dataclass
class Call:
    """A function that was called, and what it called in turn."""

    code: CodeType
    module: str
    inner: list[Call] = field(default_factory=list)


def recorded(run: Callable[[], Any]) -> Call:
    """The calls of functions of the package during a run."""
    root = Call(recorded.__code__, "")
    stack: list[Call | None] = [root]
    inside = str(SOURCE)

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            code = frame.f_code
            here = next(call for call in reversed(stack) if call is not None)
            if code.co_filename.startswith(inside) and not code.co_name.startswith("<"):
                module = Path(code.co_filename).relative_to(SOURCE).with_suffix("")
                call = Call(code, ".".join(module.parts))
                here.inner.append(call)
                stack.append(call)
            else:
                stack.append(None)
        elif event == "return" and len(stack) > 1:
            stack.pop()

    sys.setprofile(watch)
    try:
        run()
    finally:
        sys.setprofile(None)
    return root


def told(call: Call, above: str = "", depth: int = 0, seen: set[CodeType] | None = None) -> Lines:
    """A line for every function that is entered from another file, the first time it is.

    What calls little else is a detail and left out.
    """
    seen = set() if seen is None else seen
    for inner in call.inner:
        entered = inner.module != above and inner.code not in seen
        if entered and depth < DEEPEST and size(inner) >= LEAST and (said := summary(inner)):
            seen.add(inner.code)
            yield f"{'  ' * depth}- `{inner.module}.{inner.code.co_qualname}`: {said}"
            yield from told(inner, inner.module, depth + 1, seen)
        elif inner.code not in seen:
            yield from told(inner, above, depth, seen)


def size(call: Call) -> int:
    """How many calls a call makes, those of its calls included."""
    return 1 + sum(map(size, call.inner))


def summary(call: Call) -> str:
    """The first sentence of a function's docstring, where it has one."""
    path = SOURCE / Path(*call.module.split(".")).with_suffix(".py")
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef) and node.name == call.code.co_name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == call.code.co_firstlineno:
                text = (ast.get_docstring(node) or "").partition("\n\n")[0]
                return "" if node.name.startswith("_") else text.replace("\n", " ")
    return ""


def parsed(path: Path, _known: dict[Path, ast.Module] = {}) -> ast.Module:  # noqa: B006
    if path not in _known:
        _known[path] = ast.parse(path.read_text(encoding="utf-8"))
    return _known[path]


def walk() -> str:
    """The walk of one prompt, as a list."""

    @inweave.program
    def ridge(X: Matrix["n", "d"], y: Vector["n"], lam: Scalar, eta: Scalar, *, steps: int):
        def step(w: Any) -> Any:
            return w - eta * (X.T @ (X @ w - y) + lam * w)

        return inweave.iterate(step, inweave.zeros(X.shape[1]), steps)

    rng = np.random.default_rng(0)
    data = {"X": rng.normal(size=(6, 3)), "y": rng.normal(size=6), "lam": 1.0, "eta": 0.01}
    kept: list[inweave.Network] = []
    with checked_by(None):
        compiling = recorded(lambda: kept.append(inweave.compile(ridge, n=6, d=3, steps=10)))
        calling = recorded(lambda: kept[0](**data))
    lines = ["`net = inweave.compile(ridge, n=6, d=3, steps=10)`", "", *told(compiling)]
    lines += ["", "`net(X=X, y=y, lam=1.0, eta=0.01)`", "", *told(calling)]
    return "\n".join(lines)


def page() -> str:
    """The page with its generated parts written anew."""
    text = PAGE.read_text(encoding="utf-8")
    for name, made in (("rooms", table()), ("walk", walk())):
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = text.partition(start)
        text = f"{before}{start}{made}\n{end}{rest.partition(end)[2]}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    PICTURE.write_text(picture(), encoding="utf-8")
