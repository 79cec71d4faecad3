"""Writes the table of docs/explanation/numerics.md: `python -m scripts.conditions`.

What the program as written, its network and its network by least depth lose in float64, on data of
given condition numbers. A minute or two; with names as arguments, these are printed and nothing is
written.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import inweave
from inweave.compiler.driver import checked_by
from inweave.gallery.examples import Array, positive_definite
from scripts.least_depth import PROGRAMS, USUAL, sizes

PAGE = Path(__file__).parent.parent / "docs" / "explanation" / "numerics.md"
BEGIN, END = "<!-- conditions: begin -->", "<!-- conditions: end -->"
CONDITIONS = (1.0, 10.0, 100.0, 1e4)
STEPS = {"chebyshev": 40, "newton_schulz": 8, "hyperpower": 5}  # 81 of all others
DRAWS = 30
LARGEST = 100.0  # eigenvalue of XᵀX: with a step of 0.01 nothing diverges, and nothing stands still


def problem(name: str, condition: float, rng: np.random.Generator) -> dict[str, Any]:
    """Inputs of a program whose matrix has a condition number."""
    n, d, m = (USUAL[size] for size in ("n", "d", "m"))
    if name == "neumann_series":  # I − A has it
        basis = np.linalg.qr(rng.normal(size=(m, m)))[0]
        A = np.eye(m) - basis * np.geomspace(1 / condition, 1, m) @ basis.T
        return {"A": A, "b": rng.normal(size=m)}
    if name in ("newton_schulz", "hyperpower"):
        A = positive_definite(rng, m, condition)
        return {"A": A, "alpha": 1 / np.linalg.norm(A) ** 2}
    X = _data(rng, n, d, condition)
    root = np.sqrt(condition)
    data = {
        "X": X, "Phi": X, "After": 0.5 * X[rng.permutation(n)], "y": rng.normal(size=n),
        "r": rng.normal(size=n), "u": rng.normal(size=d), "w0": rng.normal(size=d),
        "D": np.diag(rng.uniform(0.5, 1, n)), "lam": 0.0, "gamma": 0.5, "eta": 1 / LARGEST,
        "beta": (root - 1) / (root + 1),
    }  # fmt: skip
    recorded = PROGRAMS[name].trace(**sizes(PROGRAMS[name], USUAL, 1))
    return {taken.name: data[taken.name] for taken in recorded.inputs}


def _data(rng: np.random.Generator, n: int, d: int, condition: float) -> Array:
    """X for which XᵀX has a condition number."""
    left, right = (np.linalg.qr(rng.normal(size=(size, d)))[0] for size in (n, d))
    values = LARGEST * np.geomspace(1 / condition, 1, d)
    return np.asarray(left * np.sqrt(values) @ right.T)


def losses(name: str, condition: float) -> list[float]:
    """Median errors of the program, of its network and of that by least depth.

    In machine precisions, in the norm of the answer, against the program in extended precision.
    """
    program, steps = PROGRAMS[name], STEPS.get(name, 81)
    at: dict[str, Any] = dict(sizes(program, USUAL, steps))
    fixed: dict[str, Any] = {"steps": steps}
    if name == "chebyshev":
        fixed |= {"low": LARGEST / condition, "high": LARGEST}
    with checked_by(None):
        networks = [
            inweave.compile(program, optimize=mode, verify=False, **{**at, **fixed})
            for mode in ("faithful", "depth")
        ]
    found = []
    for seed in range(DRAWS):
        inputs = problem(name, condition, np.random.default_rng(seed))
        wide = {key: np.asarray(value, np.longdouble) for key, value in inputs.items()}
        exact = np.asarray(program(**wide, **fixed))
        answers = [program(**inputs, **fixed), *(network(**inputs) for network in networks)]
        gaps = [np.asarray(x, np.longdouble).reshape(exact.shape) - exact for x in answers]
        size = np.linalg.norm(exact.astype(float))
        found.append([float(np.linalg.norm(gap.astype(float)) / size) for gap in gaps])
    return [float(x) for x in np.median(found, axis=0) / np.finfo(float).eps]


def row(name: str) -> str:
    cells = [" / ".join(f"{x:.2g}" for x in losses(name, c)) for c in CONDITIONS]
    return f"| {name}, {STEPS.get(name, 81)} steps | {' | '.join(cells)} |"


def table() -> str:
    heads = " | ".join(f"condition {c:g}" for c in CONDITIONS)
    return "\n".join(
        [f"| | {heads} |", "| --- |" + " --- |" * len(CONDITIONS), *map(row, PROGRAMS)]
    )


def main(arguments: list[str]) -> None:
    if arguments:
        print(*map(row, arguments), sep="\n")
        return
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    text = f"{before}{BEGIN}\n{table()}\n{END}{after}"
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
