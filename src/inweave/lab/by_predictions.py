"""A trained network as a program that predicts what it predicts, its weights not looked at.

Where intermediate results stand in a basis of the network's own, as with biases and columns that
nothing fills, weights say little of blocks. What a network of linear attention can predict on tasks
without special directions is known all the same: uᵀ p(XᵀX) Xᵀy for a polynomial p, up to factors
that depend on the problem through its invariants (`inweave.lab.polynomials`). So the least degree
is looked for that predicts as well as the next one, and the polynomial is a program of a few lines.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.decompiler import decompile
from inweave.errors import InputError
from inweave.gallery.sizes import d, n
from inweave.lab.algorithm import Algorithm, Problems, difference, predictions, rounded
from inweave.lab.rounding import Array
from inweave.model.network import Network as Data

HIGHEST = 8  # degree of the polynomial that is tried


@inweave.program
def polynomial(X: Matrix[n, d], y: Vector[n], u: Vector[d], *, numbers: Sequence[float]) -> Scalar:
    power = X.T @ y
    w = numbers[0] * power
    for number in numbers[1:]:
        power = X.T @ (X @ power)
        w = w + number * power
    return u.T @ w


def by_predictions(
    network: Data, problems: Problems, fresh: Problems, tolerance: float = 0.002
) -> Algorithm:
    """The polynomial of least degree that predicts what a network does, as a program.

    It is fitted on `problems`, named arrays with one problem per row, and the difference is
    measured on `fresh` ones. A degree more is left out if predictions then change by no more than
    `tolerance` of their mean square.
    """
    sizes = {spec.name: (spec.rows, spec.cols) for spec in network.inputs}
    if missing := {"X", "y", "u"} - sizes.keys():
        raise InputError(f"a prediction is made from X, y and u; {', '.join(sorted(missing))} is "
                         "no input of this network")  # fmt: skip
    target = predictions(network, problems)
    features = _features(problems, HIGHEST)
    (numbers, left), *higher = [
        _fitted(features[:, : degree + 1], target) for degree in range(HIGHEST + 1)
    ]
    for more, then in higher:
        gain = left - then
        if gain <= tolerance:
            break
        numbers, left = more, then
    rows, cols = sizes["X"]
    made = inweave.compile(polynomial, n=rows, d=cols, numbers=rounded(numbers), verify=False)
    few = {name: fresh[name] for name in ("X", "y", "u")}
    wanted, got = predictions(network, fresh), predictions(made, few)
    left_out = (
        f"the next power of XᵀX, which costs {100 * max(gain, 0.0):.2g} %",
        "the weights: this was read from predictions alone",
    )
    return Algorithm(decompile(made), made, difference(wanted, got), len(wanted), left_out)


def _features(problems: Problems, degree: int) -> Array:
    """uᵀ (XᵀX)ᵏ Xᵀy for every power up to a degree, (problems, degree + 1)."""
    X, y, u = (np.asarray(problems[name], dtype=np.float64) for name in ("X", "y", "u"))
    power = X.mT @ y[..., None]
    found = []
    for _ in range(degree + 1):
        found.append(np.sum(u * power[..., 0], axis=-1))
        power = X.mT @ (X @ power)
    return np.stack(found, axis=1)


def _fitted(features: Array, target: Array) -> tuple[Array, float]:
    """The best combination of features, and what it leaves of the mean square."""
    sizes = np.linalg.norm(features, axis=0)
    numbers = np.linalg.lstsq(features / sizes, target, rcond=None)[0] / sizes
    off = features @ numbers - target
    return numbers, float(np.mean(off**2) / (np.mean(target**2) or 1.0))


__all__ = ["by_predictions", "polynomial"]
