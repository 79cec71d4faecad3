"""Writes docs/paper-map.md: every numbered equation and property, its code and its test.

The map is read off the docstrings of `inweave.paper` and the names and docstrings of its tests, so
it says what the code itself says. Equations are numbered in the order of the source.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/paper-map.md"
LAST = 157
RANGE = re.compile(r"\((\d+)\)(?: ?(?:to|–|-) ?\((\d+)\))?")
NAMED = re.compile(r"eq_((?:\d+_)+)(?:to_(\d+))?|equations?_(\d+)(?:_(?:to|and)_(\d+))?")


def numbers(text: str) -> set[int]:
    """The equation numbers that a docstring mentions, ranges included."""
    found: set[int] = set()
    for part in re.findall(r"[Ee]quations? ((?:\(\d+\)(?:, | and | to |–)?)+)", text):
        for low, high in RANGE.findall(part):
            found |= set(range(int(low), int(high or low) + 1))
    return {n for n in found if 1 <= n <= LAST}


def named(name: str) -> set[int]:
    """The equation numbers in a test's name."""
    found: set[int] = set()
    for several, to, one, until in NAMED.findall(name):
        if several:
            own = [int(n) for n in several.strip("_").split("_")]
            found |= set(own) | set(range(own[-1], int(to or own[-1]) + 1))
        else:
            found |= set(range(int(one), int(until or one) + 1))
    return {n for n in found if 1 <= n <= LAST}


def properties(text: str) -> set[str]:
    return {f"Property {n}" for n in re.findall(r"[Pp]roperty[ _](\d)", text)}


def functions(path: Path, prefix: str) -> list[tuple[str, str, str]]:
    """(name, docstring, dotted name) of every function and class of a file."""
    tree = ast.parse(path.read_text())
    out = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            out.append((node.name, ast.get_docstring(node) or "", f"{prefix}{node.name}"))
    return out


def mentions() -> dict[str, list[str]]:
    """For each name used in a test of the paper, the tests that use it."""
    out: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").glob("test_paper_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
                used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
                used |= {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
                for name in used:
                    out[name].append(f"{path.stem}::{node.name}")
    return out


def page() -> str:
    """The page, from what stands in the code and in the tests."""
    code: dict[object, list[str]] = defaultdict(list)
    tests: dict[object, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "src/inweave/paper").glob("*.py")):
        for _, doc, dotted in functions(path, f"paper.{path.stem}."):
            for key in numbers(doc) | properties(doc):
                code[key].append(dotted)
    for path in sorted((ROOT / "tests").glob("test_paper_*.py")):
        for name, doc, _ in functions(path, ""):
            if name.startswith("test"):
                for key in named(name) | numbers(doc) | properties(name):
                    tests[key].append(f"{path.stem}::{name}")
    lines = [
        "# From the paper to the code",
        "",
        "Every numbered equation and property of K. Hagiwara, *An extension of linear",
        "self-attention for in-context learning*, with its function and its test. Equations are",
        "counted in the order of the source. Regenerate with `python -m scripts.paper_map`.",
        "",
        "| place | code | test |",
        "| --- | --- | --- |",
    ]
    using = mentions()
    for key, names in code.items():
        if not tests[key]:
            tests[key] = [t for name in names for t in using[name.split(".")[-1]]]
    for key in range(2, LAST + 1):  # steps of a derivation belong to where it starts
        if not code[key] and not tests[key]:
            code[key], tests[key] = code[key - 1], tests[key - 1]
    keys: list[object] = [f"Property {n}" for n in range(1, 5)]
    keys += list(range(1, LAST + 1))
    rows: list[tuple[str, str, str]] = []
    for key in keys:
        row = (
            ", ".join(f"`{c}`" for c in dict.fromkeys(code[key])) or "—",
            "<br>".join(f"`{t}`" for t in list(dict.fromkeys(tests[key]))[:3]) or "—",
        )
        label = key if isinstance(key, str) else f"({key})"
        if rows and isinstance(key, int) and rows[-1][1:] == row and rows[-1][0].startswith("("):
            first = rows[-1][0].split(" to ")[0]
            rows[-1] = (f"{first} to {label}", *row)
        else:
            rows.append((str(label), *row))
    lines += [f"| {a} | {b} | {c} |" for a, b, c in rows]
    return "\n".join(lines) + "\n"


def main() -> None:
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
