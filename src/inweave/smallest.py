"""What is small: bounds of every network of a program, and the networks that no other one beats.

Depth, heads, columns and arithmetic are bought with one another. A loop as it is written has few
heads and many layers; collapsed, it has few layers and many heads; a prompt whose long side runs
along the tokens has few columns and needs more heads to turn things round. None of them is the
smallest: `frontier` compiles them all, verifies each, and keeps those that no other beats in all
four at once. What is proved to be least is marked, and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from inweave.compiler.given import input_form
from inweave.compiler.options import AS_WRITTEN, COLLAPSED, FACTORED, HOISTED, TARGETS
from inweave.compiler.origin import Origin
from inweave.errors import CompileError, InputError
from inweave.language.program import Program
from inweave.network import Network, verified
from inweave.proof.bounds import Bounds
from inweave.proof.bounds import bounds as bounds_of
from inweave.proof.check import Unsure

# The candidates of `inweave.compiler.options`, and the mode whose network each one is
WAYS = {AS_WRITTEN: "faithful", FACTORED: "speed", HOISTED: "speed", COLLAPSED: "depth"}
MEASURES = ("depth", "heads", "width", "flops")


@dataclass(frozen=True, eq=False)
class Point:
    """A network and how it was compiled."""

    name: str
    network: Network

    @cached_property
    def size(self) -> dict[str, int]:
        """Attention layers, heads stored, columns, and arithmetic of one call."""
        net = self.network
        return dict(zip(MEASURES, (net.depth, net.heads, net.width, net.plan.flops), strict=True))

    def beats(self, other: Point) -> bool:
        """Whether this is no larger than another one in anything, and smaller in something.

        A network with biases beats none without them: it takes more for granted.
        """
        if self.network.target == "elsa" and other.network.target == "lsa":
            return False
        pairs = [(self.size[name], other.size[name]) for name in MEASURES]
        return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)

    def least(self, bounds: Bounds) -> dict[str, bool]:
        """Which of its sizes are proved to be least."""
        width = bounds.width(self.network.tokens)
        known = {"depth": bounds.depth, "heads": bounds.heads, "width": width}
        polynomial = bounds.degree is not None
        proved = {"depth": polynomial, "heads": polynomial, "width": True}
        return {
            name: proved.get(name, False) and self.size[name] == known[name] for name in MEASURES
        }


@dataclass(frozen=True, eq=False)
class Frontier:
    """The networks of a program that no other one beats, fewest layers first.

    `len(found)`, `found[0].network` and `for point in found` look at them; `print(found)` shows a
    table, `found.rows` is the same as data and `found.figure("sizes.svg")` draws it.
    """

    program: Program
    sizes: Mapping[str, Any]
    points: tuple[Point, ...]
    bounds: Bounds
    compared: int  # networks of different sizes, those that are beaten among them
    left_out: Mapping[str, str]  # why a candidate is none of them

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, index: int) -> Point:
        return self.points[index]

    def __iter__(self) -> Iterator[Point]:
        return iter(self.points)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Each network's sizes, and which of them are proved least, for other programs."""
        return [
            {
                "network": point.name,
                "target": point.network.target,
                **point.size,
                "tokens": point.network.tokens,
                "proved_least": [name for name, yes in point.least(self.bounds).items() if yes],
                "fingerprint": point.network.fingerprint,
            }
            for point in self.points
        ]

    @property
    def data(self) -> dict[str, Any]:
        """All of it for other programs."""
        degree = self.bounds.degree
        return {
            "program": self.program.name,
            "sizes": dict(self.sizes),
            "networks": self.rows,
            "beaten": self.compared - len(self),
            "left_out": dict(self.left_out),
            "depth_lower_bound": None if degree is None else self.bounds.depth,
            "depth_lower_bound_holds": None if degree is None else degree.holds,
            "entries": self.bounds.entries,
        }

    @property
    def title(self) -> str:
        """The program and its sizes."""
        said = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        return f"{self.program.name}, {said}" if said else self.program.name

    def __str__(self) -> str:
        from inweave.text.frontier import describe

        beaten, left = self.compared - len(self), self.left_out
        return describe(self.title, self.rows, self.bounds, beaten, left)

    def __repr__(self) -> str:
        return f"Frontier({self.title}: {len(self)} of {self.compared} networks)"

    def svg(self) -> str:
        """The table as a picture: a bar for each size, and the bound of the depth."""
        from inweave.text.frontier import drawn

        return drawn(self.title, self.rows, self.bounds)

    def figure(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to an SVG file."""
        from inweave.atomic import write

        check_figure(path)
        write(path, self.svg())

    def _repr_svg_(self) -> str:
        return self.svg()


def check_figure(path: str | os.PathLike[str]) -> None:
    """Refuse a name that is none of a figure."""
    if Path(path).suffix != ".svg":
        raise InputError(f"a figure is an .svg file, got {os.fspath(path)!r}")


def frontier(
    program: Program,
    *,
    target: str | None = None,
    tokens: int | str | None = None,
    layout: Any = None,
    **sizes: Any,
) -> Frontier:
    """The networks of a program that no other one beats in depth, heads, width and flops at once.

    Every candidate of the compiler is compiled for both targets, or for the `target` that is
    given, with the prompt as it comes and with each size along the tokens, or with `tokens` or
    `layout` as they are given to `inweave.compile`. Each is verified; one that cannot be, or not
    within seconds, is left out, and `left_out` says why.

    >>> import inweave
    >>> from inweave import Matrix, Vector
    >>> @inweave.program
    ... def gram(X: Matrix["n", "d"], w: Vector["d"]):
    ...     return X.T @ (X @ w)
    >>> inweave.frontier(gram, n=4, d=2)[0].size
    {'depth': 1, 'heads': 1, 'width': 6, 'flops': 28}
    """
    if target is not None and target not in TARGETS:
        raise InputError(f"target must be one of {', '.join(TARGETS)}, or None, got {target!r}")
    limits = bounds(program, layout=layout, **sizes)
    found: dict[tuple[Any, ...], Point] = {}
    left: dict[str, str] = {}
    for name, origin in _asked(program, sizes, target, tokens, layout):
        try:
            network = verified(origin)
        except (CompileError, Unsure) as error:
            left[f"{origin.target.upper()}, {name}"] = str(error)
        else:  # what needs no biases has none, whichever target is asked for
            point = Point(f"{network.target.upper()}, {name}", network)
            found.setdefault((network.target, *point.size.values()), point)
    if not found:
        name, why = next(iter(left.items()))
        raise CompileError(f"no candidate could be compiled and verified; {name}: {why}")
    kept = [p for p in found.values() if not any(other.beats(p) for other in found.values())]
    kept.sort(key=lambda point: (point.network.target, *point.size.values()))
    return Frontier(program, dict(sizes), tuple(kept), limits, len(found), left)


def _asked(
    program: Program, sizes: dict[str, Any], target: str | None, tokens: Any, layout: Any
) -> Iterator[tuple[str, Origin]]:
    """Every candidate, by name."""
    alone = tokens is not None or layout is not None
    along = (tokens,) if alone else (None, *program.size_names)
    for kind in TARGETS if target is None else (target,):
        for stand in along:
            for candidate, optimize in WAYS.items():
                where = "" if stand is None else f", tokens={stand!r}"
                chosen = candidate if optimize == "speed" else ""
                asked = (program, dict(sizes), kind, optimize, stand, layout, chosen)
                yield f"{candidate}{where}", Origin(*asked)


def bounds(program: Program, *, layout: Any = None, **sizes: Any) -> Bounds:
    """What every exact network of attention layers for a program has at least.

    With a `layout` (as `inweave.compile` takes it), on that prompt; otherwise on every prompt whose
    entries are affine in the inputs.

    >>> import inweave
    >>> from inweave.paper import ridge_lsa
    >>> from inweave.gallery import ridge_gd
    >>> inweave.bounds(ridge_gd, n=40, d=10, steps=100).depth
    6
    >>> inweave.bounds(ridge_gd, layout=ridge_lsa(40, 10, 100), n=40, d=10, steps=100).depth
    5
    """
    if not isinstance(program, Program):
        raise InputError(f"expected a program made by @inweave.program, got {program!r}")
    traced = program.trace(**sizes)
    fills = () if layout is None else input_form(layout, traced)[1]
    held = {name for fill in fills for name in (fill.source, *(name for name, _ in fill.scale))}
    used = [spec.name for spec in traced.inputs if spec.name not in traced.unused]
    missing = [name for name in used if name not in held]
    if layout is not None and missing:
        raise InputError(
            f"the layout does not give the inputs {', '.join(missing)}, which program "
            f"{program.name!r} reads: no network computes it there; add a block for each"
        )
    return bounds_of(traced, fills)
