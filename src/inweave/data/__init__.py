"""The small real data set of the demo; `NOTICE.md` beside it states source and licence."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Regression:
    """Features X (rows x columns), a response y, and their names."""

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    features: tuple[str, ...]
    response: str


def diabetes() -> Regression:
    """442 patients: ten baseline variables and the disease's progression a year later."""
    text = files(__package__).joinpath("diabetes.csv").read_text(encoding="utf-8")
    names, *rows = csv.reader(text.splitlines())
    table = np.array(rows, dtype=np.float64)
    return Regression(table[:, :-1], table[:, -1], tuple(names[:-1]), names[-1])
