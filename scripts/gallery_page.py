"""Writes docs/gallery.md from the gallery itself: `python scripts/gallery_page.py`."""

from __future__ import annotations

import inspect
import math
from pathlib import Path
from typing import Any

from inweave import gallery
from inweave.gallery.higher_order import layers_needed
from inweave.gallery.papers import PAPERS
from inweave.language.inverses import TABLE_UNITS, _newton_steps
from inweave.language.tables import reciprocal_table

PAGE = Path(__file__).parent.parent / "docs" / "gallery.md"

OPENING = """\
# The gallery

In-context algorithms of the literature, each a program of ten to thirty lines, each compiled into
an attention network that is proved equal to it. This page is written by
`python scripts/gallery_page.py`; a test keeps it current.

```python
import inweave

net = inweave.compile(inweave.gallery.ridge_closed_form, n=60, d=12)   # a program like any other
entry = inweave.gallery.get("ridge_closed_form")
entry.source, entry.sizes                                        # where it comes from, its sizes
inputs = entry.example()                                         # data to try it on
net(**inputs), entry.reference(**inputs)                         # the network, and plain numpy
```

`inweave gallery` prints the table below, `inweave gallery NAME` one entry with its network, its
certificate and a run on its example beside the reference.

Layers are attention layers executed, at the entry's own sizes and as the program is written
(`optimize="faithful"`); heads are heads stored, those of a tied loop once. The degree is that of
the answer as a polynomial in the inputs; the bound, ⌈log₃ degree⌉, holds for every exact network of
linear attention whose prompt is affine in the inputs. Programs with pointwise functions (division,
ReLU) are no polynomials and have neither. All entries compile for both targets: for LSA, the
constants of a program stand in the prompt.

![Layers of every entry as written, at least depth, and the bound](figures/gallery.png)

The picture (`python scripts/gallery_figure.py`) shows what `optimize="depth"` gains: affine
recurrences and geometric sums collapse to the bound, other loops keep their length.
"""

DEPTHS = """\
## How deep: second order against collapsed first order

Layers until ‖I − MS‖ is below an error, for the inverse of S with eigenvalues in [1, κ] (the worst
case over such S, each method with its best constant). Newton–Schulz squares its error in one layer,
the cubic hyperpower iteration cubes it in two. Gradient descent is the slowest of them step by
step, and the shallowest once `optimize="depth"` has folded its steps: an affine recurrence of T
steps takes ⌈log₃ T⌉ layers and its first one. (Newton–Schulz and hyperpower are counted as written
here; `optimize="depth"` folds them too.)
"""

DIVISION = """\
## Division: units and layers

`inweave.reciprocal` of a scalar is a table of {units} ReLU units, then Newton's r ← 2r − r x r, one
layer each. Beside it, the units that a table alone would need for a relative error of 1e-12.
"""


def text() -> str:
    """The page."""
    parts = [OPENING, table(gallery.table())]
    for family, title in gallery.FAMILIES.items():
        parts.append(f"## {title}\n")
        parts += [section(entry) for entry in gallery.entries() if entry.family == family]
    parts += [DEPTHS, depths(), DIVISION.format(units=TABLE_UNITS - 1), division(), papers()]
    return "\n".join(parts)


def lines(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """A Markdown table; the first column is text, the others are numbers."""
    marks = ["---", *("---:" for _ in head[1:])]
    made = [head, marks, *rows]
    return "\n".join("| " + " | ".join(str(x) for x in row) + " |" for row in made) + "\n"


def table(rows: list[dict[str, Any]]) -> str:
    names = ("depth", "bound", "degree", "heads", "width")
    said = [
        (f"[`{row['name']}`](#{row['name']})", row["source"],
         *("–" if row[name] is None else f"{row[name]:,}" for name in names),
         "yes" if row["verified"] else "no")
        for row in rows
    ]  # fmt: skip
    made = lines(
        ("name", "source", "layers", "bound", "degree", "heads", "width", "verified"), said
    )
    return made.replace("| --- | ---: |", "| --- | --- |", 1)


def section(entry: gallery.Entry) -> str:
    doc = inspect.cleandoc(entry.program.__doc__ or "")
    first, _, rest = doc.partition("\n\n")
    sizes = ", ".join(f"{name}={value!r}" for name, value in entry.sizes.items())
    options = "".join(f", {name}={value!r}" for name, value in entry.options.items())
    call = f"inweave.compile(inweave.gallery.{entry.name}, {sizes}{options})"
    return f"### {entry.name}\n\n{first}\n\n{rest}\n\n```python\n{call}\n```\n"


def depths() -> str:
    methods = list(layers_needed(10, 1e-3))
    rows = [
        (f"κ = {condition}, error {error:.0e}", *layers_needed(condition, error).values())
        for condition in (10, 100, 1000)
        for error in (1e-3, 1e-6, 1e-10)
    ]
    return lines(("", *methods), rows)


def division() -> str:
    rows = []
    for decades in (2, 5, 10, 20):
        coarse = reciprocal_table(1.0, 10.0**decades, TABLE_UNITS - 2)
        fine = reciprocal_table(1.0, 10.0**decades, 4096)
        alone = math.ceil(4096 * math.sqrt(fine.error / 1e-12))
        newton = _newton_steps(coarse.error, 1e-12, 1.0)
        rows.append((f"{decades} decades", coarse.net.units, f"{coarse.error:.0e}", newton,
                     f"{alone:,}"))  # fmt: skip
    return lines(("domain", "units", "error of the table", "Newton layers", "table alone"), rows)


def papers() -> str:
    return (
        "## Papers\n\n" + "\n".join(f"- **{name}**: {full}" for name, full in PAPERS.items()) + "\n"
    )


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
    print(f"wrote {PAGE}")
