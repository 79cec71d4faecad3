"""Why rows of the gallery are above the bar: told of an entry, where somebody has looked.

Which rows are above it is read from the stored results; a reason is shown only beside such a row.
"""

from __future__ import annotations

from benchmarks.row import Row
from benchmarks.show import number

CALL = ("a call costs its inputs, its shapes, the arrays of its loop and a look at its domains and "
        "its answer, and by hand there is little else to do")  # fmt: skip
LENT = ("tensors are lent to numpy, and torch broadcasts a column and a row of a few numbers "
        "quicker (`P -= c * r`)")  # fmt: skip
UNTIED = ("its layers are not tied, so it is a long straight line: back substitution joins each "
          "row to those below it, in a new array")  # fmt: skip
TWICE = ("by hand `A (w + β (w - v))` reads one matrix; the network has multiplied that out, and "
         "reads `A` twice, in two multiples")  # fmt: skip
SPLIT = ("η multiplies two products and not the one factor they share; the last, shorter batch of "
         "rows is apart")  # fmt: skip
ADDED = "steps of a few numbers: `baddbmm` adds while it multiplies, numpy adds afterwards"
ROUTINE = ("XLA calls a routine for each small matrix of a batch, and these are too large to be "
           "written out: in a chain of products that would be slower")  # fmt: skip

REASONS = {
    ("numpy", "sinkhorn"): CALL,
    ("numpy", "gaussian_mixture"): CALL,
    ("numpy", "conjugate_gradient"): CALL,
    ("numpy", "gauss_jordan"): CALL,
    ("torch", "gauss_jordan"): LENT,
    ("torch", "gaussian_elimination"): UNTIED,
    ("numpy", "nesterov"): TWICE,
    ("torch", "nesterov"): TWICE,
    ("numpy", "ttt_linear"): SPLIT,
    ("torch", "covariate_shift"): ADDED,
    ("jax", "kalman_filter"): ROUTINE,
}
"""By library and entry."""


def told(rows: list[Row]) -> str:
    """The rows of the gallery that miss their bar, an entry of a library on a line."""
    entries: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.family.startswith("gallery, ") and row.met is False and row.against:
            library, entry = row.family.removeprefix("gallery, "), row.name.partition(" ")[0]
            entries.setdefault((library, entry), []).append(row)
    if not entries:
        return "No row is."
    lines = ["| entry | library | rows | why |", "| --- | --- | --- | --- |"]
    for (library, entry), missed in entries.items():
        sizes = ", ".join(
            f"{number(row.value)} ({row.name.partition(' ')[2].replace('batch=', 'by ')})"
            for row in missed
        )
        lines.append(f"| {entry} | {library} | {sizes} | {REASONS.get((library, entry), '')} |")
    return "\n".join(lines)
