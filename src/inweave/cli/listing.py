"""What `inweave gallery` prints: a table of all entries, or one of them on its own data."""

from __future__ import annotations

from inspect import cleandoc
from typing import Any

import numpy as np
from rich.markup import escape

from inweave.cli import output
from inweave.cli.show import report, tell
from inweave.gallery import difference, entries, get
from inweave.model.prompt import by_name
from inweave.proof.entries import AFFINE

SHOWN = 4  # entries of an answer that are printed


def tell_all(json: bool) -> int:
    """Every entry; the exit code."""
    shown = entries()
    found: dict[str, dict[str, Any]] = {}
    with output.stages(len(shown)) as begin:
        for entry in shown:
            begin(f"compiling and verifying {entry.name}")
            found[entry.name] = {
                "source": entry.source,
                "summary": entry.summary,
                "sizes": dict(entry.sizes),
                **report(entry.compile()),
            }
    if json:
        output.say_json(found)
    else:
        out = output.console()
        out.print(_table(found, narrow=out.width < 100))
        output.say(f"bound: the fewest layers of an exact network {AFFINE}")
    return int(any(row["certificate"] is None for row in found.values()))


def _table(found: dict[str, dict[str, Any]], narrow: bool) -> Any:
    """One row per entry; on a narrow screen the source stands below the name."""
    columns = ("layers", "bound", "heads", "width", "degree", "verified")
    text = ("name",) if narrow else ("name", "source")
    shown = output.table("", *text, *columns, left=len(text))
    shown.collapse_padding = narrow
    for name, row in found.items():
        numbers = (row["depth"], row["depth_lower_bound"], row["heads"], row["width"])
        said = ["-" if n is None else str(n) for n in (*numbers, row["degree"])]
        source = escape(row["source"])
        named = [f"{name}\n[dim]{source}[/]"] if narrow else [name, source]
        shown.add_row(*named, *said, "no" if row["certificate"] is None else "yes")
    return shown


def tell_one(name: str, json: bool) -> int:
    """One entry; the exit code."""
    entry = get(name)
    with output.stages(2) as begin:
        begin(f"compiling and verifying {entry.name}")
        network = entry.compile()
        begin("running its example")
        inputs = entry.example()
        answer, reference = network(**inputs), entry.reference(**inputs)
    gap = difference(answer, reference)
    agrees = gap <= entry.tolerance
    if json:
        said = {"source": entry.source, "sizes": dict(entry.sizes), **report(network)}
        output.say_json(said | {"answer": answer, "reference": reference, "difference": gap})
        return int(not agrees)
    output.say(cleandoc(entry.program.__doc__ or entry.name))
    output.say(f"\nSource: {entry.source}\n")
    tell(network)
    shown = output.table("\nOn its example data", "answer", "network", "reference")
    for title, ours, theirs in _rows(answer, reference):
        shown.add_row(title, ours, theirs)
    output.console().print(shown)
    bound = f"(allowed: {entry.tolerance:.0e})"
    output.say(f"largest relative difference from the reference: {gap:.1e} {bound}")
    if not agrees:
        output.complain("the network and its reference disagree")
    return int(not agrees)


def _rows(answer: Any, reference: Any) -> list[tuple[str, str, str]]:
    """The first entries of each answer, side by side."""
    found, expected = by_name(answer), by_name(reference)
    pairs = {name: (found[name], value) for name, value in expected.items()}
    rows = []
    for name, pair in pairs.items():
        ours, theirs = (np.asarray(x) for x in pair)
        for at in list(np.ndindex(theirs.shape))[:SHOWN]:
            place = f"[{', '.join(map(str, at))}]" if at else ""
            rows.append((f"{name}{place}" or "value", f"{ours[at]:.10g}", f"{theirs[at]:.10g}"))
        if theirs.size > SHOWN:
            rows.append(("...", "", ""))
    return rows
