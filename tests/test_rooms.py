"""The rooms of the house, and that imports go one way.

The graph is read off the source, so that imports inside functions and under TYPE_CHECKING count
like any other: a room that is only sometimes looked into is looked into.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import inweave

SOURCE = Path(inweave.__file__).parent

# A room imports only from its own and from rooms in lines above it. Rooms in one line do not know
# each other. `__init__` is the face that users import; what is written as a user would write it
# (the gallery, the lab) may import it.
ROOMS = """
version errors
atomic
exact
model
language
compiler
run
proof
text
files
decompiler
export explore stack circuit
network
smallest
__init__
nn paper gallery data
estimators circuits
lab
cli
__main__
"""
# The same inside a room that has rooms of its own; what stands beside these may import them all.
INSIDE = {"run": "values lines rules libraries backward kernel"}
RANK = {room: i for i, line in enumerate(ROOMS.split("\n")) for room in line.split()}


class Edge(NamedTuple):
    """One import: who imports what, and where that is written."""

    importer: str
    imported: str
    line: str


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name, without the package's own."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        found[name] = path
    return found


def edges() -> Iterator[Edge]:
    """Every import of one module of the package by another."""
    known = modules()
    for importer, path in known.items():
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            for name in names:
                imported = owner(name, known)
                if imported is not None and imported != importer:
                    where = f"{path.relative_to(SOURCE)}:{node.lineno}"
                    yield Edge(importer, imported, f"{where}: {lines[node.lineno - 1].strip()}")


def owner(name: str, known: dict[str, Path]) -> str | None:
    """The module that an imported name belongs to; None if it is not ours."""
    parts = name.split(".")
    if parts[0] != "inweave":
        return None
    for end in range(len(parts), 1, -1):
        if ".".join(parts[1:end]) in known:
            return ".".join(parts[1:end])
    return "__init__"


def room(module: str) -> str:
    return module.split(".")[0]


def test_every_room_has_its_place():
    assert {room(module) for module in modules()} == set(RANK)


def test_a_room_imports_only_from_rooms_above_it():
    upwards = [
        edge.line
        for edge in edges()
        if room(edge.importer) != room(edge.imported)
        and RANK[room(edge.importer)] <= RANK[room(edge.imported)]
    ]
    assert not upwards, "imports against the order of the rooms:\n" + "\n".join(upwards)


def test_a_room_inside_a_room_imports_only_from_those_before_it():
    upwards = []
    for outer, named in INSIDE.items():
        order = named.split()
        assert {path.name for path in (SOURCE / outer).iterdir() if path.is_dir()} - {
            "__pycache__"
        } == set(order)
        for edge in edges():
            here, there = (name.split(".")[:2] for name in (edge.importer, edge.imported))
            if here[0] == there[0] == outer and here[1] in order and there[1] in order:
                if order.index(here[1]) < order.index(there[1]):
                    upwards.append(edge.line)
    assert not upwards, "imports against the order of the rooms:\n" + "\n".join(upwards)


def test_no_module_imports_itself_through_others():
    graph: dict[str, set[str]] = {}
    lines = {}
    for edge in edges():
        graph.setdefault(edge.importer, set()).add(edge.imported)
        lines[edge.importer, edge.imported] = edge.line
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = error.args[1]
        said = [lines[b, a] for a, b in pairwise(circle)]
        raise AssertionError("a circle of imports:\n" + "\n".join(said)) from None
