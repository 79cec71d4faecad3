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
from tests.test_rooms import ROOMS, SOURCE, edges, modules, room

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
PICTURE = ROOT / "docs" / "figures" / "rooms.svg"
FACE = "__init__"
FONT = 'font-family="sans-serif"'
DEEPEST = 6  # calls within calls that the walk follows


# -- the picture ----------------------------------------------------------------------------------
def picture() -> str:
    """The rooms from top to bottom, with a line from each to the rooms that it looks into."""
    rows = [line.split() for line in ROOMS.strip().split("\n")]
    rows = [[name for name in row if name not in ("version", "__main__")] for row in rows]
    rows = [row for row in rows if row]
    count = Counter(
        (room(e.importer), room(e.imported))
        for e in edges()
        if room(e.importer) != room(e.imported)
    )
    width, high, wide = 760, 30, 96
    where: dict[str, tuple[float, float]] = {}
    for y, row in enumerate(rows):
        for x, name in enumerate(row):
            left = width / 2 + (x - (len(row) - 1) / 2) * (wide + 24)
            where[name] = (left, 24 + y * 52)
    view = f"0 0 {width} {52 * len(rows) + 16}"
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view}" font-size="13" {FONT}>']
    for (lower, upper), n in sorted(count.items()):
        if lower not in where or upper not in where:
            continue
        (x1, y1), (x2, y2) = where[lower], where[upper]
        far = (y1 - y2) / 52
        side = -1 if (rank(lower) + rank(upper)) % 2 else 1
        bend = side * (18 + 26 * far) if far > 1 else 0
        middle = f"{(x1 + x2) / 2 + 2 * bend:.0f} {(y1 + y2) / 2:.0f}"
        parts.append(
            f'<path d="M{x1:.0f} {y1 - high / 2:.0f} Q{middle} {x2:.0f} {y2 + high / 2:.0f}" '
            f'fill="none" stroke="#7a8aa0" stroke-opacity="0.55" '
            f'stroke-width="{min(0.6 + n / 12, 4):.1f}"><title>{lower} imports {upper}: {n}'
            "</title></path>"
        )
    for name, (x, y) in where.items():
        shown = "inweave" if name == FACE else name
        parts.append(
            f'<rect x="{x - wide / 2:.0f}" y="{y - high / 2:.0f}" width="{wide}" height="{high}" '
            'rx="6" fill="#eef3fa" stroke="#4a6a95"/>'
            f'<text x="{x:.0f}" y="{y + 4:.0f}" text-anchor="middle" fill="#1d2b40">{shown}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def rank(name: str) -> int:
    return next(i for i, line in enumerate(ROOMS.split("\n")) if name in line.split())


# -- the table ------------------------------------------------------------------------------------
def table() -> str:
    """Every room, what it is for, its files and its lines."""
    lines = ["| room | what it owns | files | lines |", "| --- | --- | --- | --- |"]
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
        size = sum(len(path.read_text().splitlines()) for path in paths)
        lines.append(f"| `{name}` | {first} | {len(paths)} | {size:,} |")
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


def told(call: Call, above: str = "", depth: int = 0) -> Iterator[str]:
    """A line for every call that enters another file, with what its function says of itself."""
    seen: set[CodeType] = set()
    for inner in call.inner:
        if inner.code in seen:
            continue
        seen.add(inner.code)
        said = summary(inner)
        public = not inner.code.co_name.startswith("_") or inner.code.co_name == "__call__"
        if depth < DEEPEST and public and said and inner.module != above:
            name = inner.code.co_qualname
            yield f"{'  ' * depth}- `{inner.module}.{name}`: {said}"
            yield from told(inner, inner.module, depth + 1)
        else:
            yield from told(inner, above, depth)


def summary(call: Call) -> str:
    """The first sentence of a function's docstring, where it has one."""
    path = SOURCE / Path(*call.module.split(".")).with_suffix(".py")
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef) and node.name == call.code.co_name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == call.code.co_firstlineno:
                text = ast.get_docstring(node) or ""
                return text.partition("\n\n")[0].replace("\n", " ")
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
