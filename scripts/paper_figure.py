"""A figure like the paper's Figure 1: r⁺, r⁻ and their sum against f, drawn from the code itself.

Blue, orange and grey are told apart by colour-blind readers; f is also dashed, and every curve has
its name beside it.

    .venv/bin/python scripts/paper_figure.py
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from inweave.atomic import atomically
from inweave.exact.constants import Array
from inweave.paper.division import Function, Sigma, inverse_square, sigma

BLUE, ORANGE, GREY = "#0072B2", "#C24E00", "#555555"
KNOTS = (0.6, 1.0, 1.7, 2.6, 3.6)


def figure1(
    path: str | Path | None = None,
    knots: Sequence[float] = KNOTS,
    f: Function = inverse_square,
    label: str = "1/x²",
) -> Figure:
    """Three panels: r⁺ with f, r⁻ with f - y₁, and σ_f = r⁺ + r⁻ with f; saved if a path is given.

    The dots are the knots ±x_k. The last of them, x_{n+1}, is where σ_f reaches 0 and leaves f.
    """
    s = sigma(f, knots)
    figure = Figure(figsize=(10.5, 3.5), layout="constrained", dpi=160)
    plus, minus, both = figure.subplots(1, 3, width_ratios=[1, 1, 1.4])
    _panel_plus(plus, s, f, label)
    _panel_minus(minus, s, f)
    _panel_both(both, s, f, label)
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with atomically(path) as file:
            figure.savefig(file, format=Path(path).suffix[1:])
    return figure


def _panel_plus(axes: Any, s: Sigma, f: Function, label: str) -> None:
    y1, edge, whole, right, _ = _grid(s)
    axes.plot(right, f(right), "--", color=GREY)
    axes.plot(whole, s.r_plus(whole), color=BLUE, linewidth=2.2)
    _dots(axes, s.knots, s.r_plus(s.knots), BLUE)
    _name(axes, 0.2 * edge, 1.13 * y1, f"f(x) = {label}", GREY)
    _name(axes, -0.95 * edge, 0.93 * y1, "r⁺(x)", BLUE)
    axes.set(title="(a)  r⁺ follows f for x > 0", ylim=(-0.12 * y1, 1.25 * y1))
    _scales(axes, s, [1], ["0", "y₁"], [0, y1])


def _panel_minus(axes: Any, s: Sigma, f: Function) -> None:
    y1, edge, whole, _, left = _grid(s)
    axes.plot(left, f(left) - y1, "--", color=GREY)
    axes.plot(whole, s.r_minus(whole), color=ORANGE, linewidth=2.2)
    _dots(axes, -s.knots, s.r_minus(-s.knots), ORANGE)
    _name(axes, -0.2 * edge, 0.13 * y1, "f(x) − y₁", GREY, "right")
    _name(axes, 0.95 * edge, -0.07 * y1, "r⁻(x)", ORANGE, "right")
    axes.set(title="(b)  r⁻ follows f − y₁ for x < 0", ylim=(-1.12 * y1, 0.25 * y1))
    _scales(axes, s, [-1], ["−y₁", "0"], [-y1, 0])


def _panel_both(axes: Any, s: Sigma, f: Function, label: str) -> None:
    y1, edge, whole, right, left = _grid(s)
    axes.plot(right, f(right), "--", color=GREY)
    axes.plot(left, f(left), "--", color=GREY)
    for sign, colour in ((-1, ORANGE), (1, BLUE)):
        half = whole[whole * sign >= 0]
        axes.plot(half, s(half), color=colour, linewidth=2.2)
        _dots(axes, sign * s.knots, s(sign * s.knots), colour)
    _name(axes, 0.2 * edge, 1.13 * y1, f"f(x) = {label}", GREY)
    _name(axes, -0.25 * edge, 0.55 * y1, "$\\sigma_f$ = y₁ + r⁻", ORANGE, "right")
    _name(axes, 0.25 * edge, 0.55 * y1, "$\\sigma_f$ = r⁺ + 0", BLUE)
    axes.set(title="(c)  $\\sigma_f$ = r⁺ + r⁻ follows f", ylim=(-0.12 * y1, 1.25 * y1))
    _scales(axes, s, [-1, 1], ["0", "y₁"], [0, y1])


def _grid(s: Sigma) -> tuple[float, float, Array, Array, Array]:
    """y₁, the edge of the panel, and x on all of it, right of 0.85 x₁ and left of -0.85 x₁."""
    edge = 1.25 * float(s.knots[-1])
    right = np.linspace(0.85 * float(s.knots[0]), edge, 400)
    return float(s.values[0]), edge, np.linspace(-edge, edge, 2001), right, -right


def _dots(axes: Any, x: Array, y: Array, colour: str) -> None:
    axes.plot(x, y, "o", color=colour, markersize=5.5, markeredgecolor="white", zorder=4)


def _name(axes: Any, x: float, y: float, text: str, colour: str, align: str = "left") -> None:
    axes.text(x, y, text, color=colour, fontsize=10.5, ha=align, va="center")


def _scales(axes: Any, s: Sigma, signs: list[int], names: list[str], at: list[float]) -> None:
    x1, end = float(s.knots[0]), float(s.knots[-1])
    ticks = [(sign * x, ("−" if sign < 0 else "") + name)
             for sign in signs for x, name in ((x1, "x₁"), (end, "xₙ₊₁"))]  # fmt: skip
    axes.set_xlim(-1.25 * end, 1.25 * end)
    axes.set_xticks([x for x, _ in ticks], [name for _, name in ticks], fontsize=10.5)
    axes.set_yticks(at, names, fontsize=10.5)
    axes.axhline(0, color="black", linewidth=0.6, zorder=1)
    axes.axvline(0, color="black", linewidth=0.6, zorder=1)
    axes.title.set_fontsize(11)
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    figure1(sys.argv[1] if len(sys.argv) > 1 else "docs/figures/figure1.png")
