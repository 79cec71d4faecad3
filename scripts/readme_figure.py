"""Draw the README's picture: docs/figures/overview-light.png and overview-dark.png.

Left, every state of a real network on real rows: 27 steps of ridge regression in 5 attention
layers. What the picture says stands in each state is checked against numpy before it is drawn.
Right, layers against steps for compiled networks, beside the lower bound.

    .venv/bin/python scripts/readme_figure.py
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import inweave
from inweave.cli.demo_report import ridge
from inweave.data import diabetes

mpl.use("Agg")
HERE = Path(__file__).resolve().parent.parent / "docs" / "figures"
N, D, STEPS, LAM = 8, 3, 27, 1.0
FEATURES = ("bmi", "bp", "s5")
# Powers of 3, where the bound goes up, and counts in between.
COUNTS = (1, 2, 3, 5, 8, 9, 15, 24, 27, 45, 70, 81, 140, 210, 243, 420, 650, 729, 1260, 1950, 2187)


@dataclass(frozen=True)
class Theme:
    """Colours: blue and orange stay apart for every kind of colour vision."""

    name: str
    ground: str
    ink: str
    faint: str
    grid: str
    low: str
    middle: str
    high: str
    accent: str


LIGHT = Theme(
    "light", "#ffffff", "#1f2328", "#59636e", "#d1d9e0", "#0b5fa5", "#f6f8fa", "#d95f02", "#1f2328"
)
DARK = Theme(
    "dark", "#0d1117", "#f0f6fc", "#9198a1", "#3d444d", "#58a6ff", "#161b22", "#ff9f45", "#f0f6fc"
)


@dataclass(frozen=True)
class Story:
    """The states of the network, which blocks each layer changed, and what then stands there."""

    blocks: list[tuple[str, int, int, int]]  # label, rows, start, columns
    states: list[Any]
    changed: list[set[int]]
    said: list[str]


def problem() -> dict[str, Any]:
    data = diabetes()
    X = data.X[:, [data.features.index(f) for f in FEATURES]]
    X = ((X - X.mean(axis=0)) / X.std(axis=0))[: N + 1]
    y = ((data.y - data.y.mean()) / data.y.std())[:N]
    curvature = np.linalg.eigvalsh(X[:N].T @ X[:N]) + LAM
    eta = float(1 / (curvature[0] + curvature[-1]))
    return {"X": X[:N], "y": y, "u": X[N], "lam": LAM, "eta": eta}


def story() -> Story:
    inputs = problem()
    net = inweave.compile(ridge, n=N, d=D, steps=STEPS, optimize="depth")
    states = [net.prompt(**inputs), *(step.after for step in net.trace(**inputs).steps)]
    layout = net.layout
    A_block, z_block, rest = unnamed(net)
    label = {"eta·I": "η", "lam·I": "λ", A_block: "A", z_block: "w", rest: "δ", "answer": "answer"}
    blocks = [(label.get(b.name, b.name), b.rows, b.start, b.cols) for b in layout]
    changed: list[set[int]] = [set()]
    for before, after in pairwise(states):
        new = np.any(before != after, axis=0)
        changed.append({i for i, b in enumerate(layout) if new[b.columns].any()})
    check(net, inputs, states, A_block, z_block, rest)
    said = [
        "the prompt: data, a query\n$u$, and empty columns",
        "$A = I - \\eta\\,(X^T X + \\lambda I)$\n$w_1 = \\eta\\,X^T y$",
        "$A^3$, and $w_3$:\nthree steps of descent",
        "$A^9$, and $w_9$:\nnine steps",
        "$\\delta = w_{27} - w_9$",
        "the answer, $u^T w_{27}$",
    ]
    return Story(blocks, states, changed, said)


def unnamed(net: inweave.Network) -> tuple[str, str, str]:
    """The blocks that hold A, w and δ: those that no input fills, by shape and order of use."""
    filled = {fill.place.block for fill in net.fills}
    free = [b for b in net.layout if b.name not in filled and b.name != "answer"]
    (square,) = (b.name for b in free if b.cols == D)
    first, second = (b.name for b in free if b.cols == 1)
    return square, first, second


def check(net: inweave.Network, inputs: Any, states: Any, A: str, z: str, rest: str) -> None:
    """What the picture says is true: compared with numpy's gradient descent."""
    X, y, u, lam, eta = (inputs[k] for k in ("X", "y", "u", "lam", "eta"))
    step = np.eye(D) - eta * (X.T @ X + lam * np.eye(D))
    w = [np.zeros(D)]
    for _ in range(STEPS):
        w.append(w[-1] - eta * (X.T @ (X @ w[-1] - y) + lam * w[-1]))

    def holds(state: int, block: str, value: Any) -> None:
        found = net.layout.unpack(states[state])[block]
        np.testing.assert_allclose(found.squeeze(), value, rtol=1e-9, atol=1e-12)

    for state, power in ((1, 1), (2, 3), (3, 9)):
        holds(state, A, np.linalg.matrix_power(step, power))
        holds(state, z, w[power])
    holds(4, rest, w[27] - w[9])
    holds(5, "answer", u @ w[27])


def draw(theme: Theme, told: Story, curves: dict[str, list[int]]) -> None:
    mpl.rcParams.update(
        {
            "font.family": "DejaVu Sans",
            "mathtext.fontset": "cm",
            "text.color": theme.ink,
            "axes.labelcolor": theme.ink,
            "xtick.color": theme.faint,
            "ytick.color": theme.faint,
        }
    )
    figure = Figure(figsize=(12.8, 5.6), facecolor=theme.ground)
    draw_states(figure, theme, told)
    draw_depth(figure, theme, curves)
    HERE.mkdir(parents=True, exist_ok=True)
    figure.savefig(HERE / f"overview-{theme.name}.png", dpi=150, facecolor=theme.ground)


def draw_states(figure: Figure, theme: Theme, told: Story) -> None:
    cmap = LinearSegmentedColormap.from_list("inweave", [theme.low, theme.middle, theme.high])
    axes = figure.add_axes((0.012, 0.055, 0.66, 0.875))
    axes.set_axis_off()
    gap, pitch, middle = 0.55, D + 1.75, D / 2
    largest = [
        max(np.abs(H[:, start : start + cols]).max() for H in told.states) or 1.0
        for _, _, start, cols in told.blocks
    ]
    right, small = 0.0, {"ha": "right", "va": "center", "fontsize": 10.5, "color": theme.faint}
    for t, (H, changed, said) in enumerate(zip(told.states, told.changed, told.said, strict=True)):
        top = t * pitch
        for i, (name, rows, start, cols) in enumerate(told.blocks):
            left = start + i * gap + (1.3 if name == "answer" else 0)
            shown = H[:rows, start : start + cols] / largest[i]
            axes.imshow(
                np.sign(shown) * np.sqrt(np.abs(shown)),
                cmap=cmap,
                vmin=-1,
                vmax=1,
                extent=(left, left + cols, top + rows, top),
                aspect="equal",
                interpolation="nearest",
            )
            new = i in changed
            frame = Rectangle((left, top), cols, rows, fill=False, clip_on=False)
            frame.set(edgecolor=theme.accent if new else theme.grid, lw=1.8 if new else 0.8)
            frame.set_zorder(3 if new else 2)
            axes.add_patch(frame)
            if t == 0:
                axes.text(left + cols / 2, -0.45, pretty(name), ha="center", fontsize=13)
            right = max(right, left + cols)
        axes.text(-0.9, top + middle, f"layer {t}" if t else "input", **small)
        axes.text(right + 0.9, top + middle, said, va="center", fontsize=11.5, linespacing=1.45)
    axes.set_xlim(-4.6, right + 11.8)
    axes.set_ylim((len(told.states) - 1) * pitch + D + 0.4, -2.2)
    title = f"{STEPS} steps of ridge regression in {len(told.states) - 1} attention layers"
    figure.text(0.02, 0.945, title, fontsize=14.5, fontweight="bold")
    key = (
        "Colour is the value, blue below zero and orange above, scaled per block. "
        "Heavy outline: written by this layer."
    )
    figure.text(0.02, 0.022, key, fontsize=9.5, color=theme.faint)


def pretty(name: str) -> str:
    """A block's name in mathematical type."""
    if name == "answer":
        return name
    for sign, spelled in (("ᵀ", "^T"), ("η", r"\eta"), ("λ", r"\lambda"), ("δ", r"\delta")):
        name = name.replace(sign, spelled)
    return f"${name}$"


def draw_depth(figure: Figure, theme: Theme, curves: dict[str, list[int]]) -> None:
    axes = figure.add_axes((0.728, 0.115, 0.255, 0.775), facecolor=theme.ground)
    axes.set_xscale("log", base=3)
    axes.set_yscale("log", base=2)
    ticks = [1, 3, 9, 27, 81, 243, 729, 2187]
    axes.set_xticks(ticks, [str(t) for t in ticks], fontsize=9.5)
    axes.minorticks_off()
    layers = [2, 4, 8, 32, 128, 512, 2048]
    axes.set_yticks(layers, [str(v) for v in layers], fontsize=9.5)
    axes.grid(color=theme.grid, lw=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(theme.grid)
    axes.tick_params(length=0)
    axes.plot(COUNTS, curves["faithful"], color=theme.faint, marker="s", ms=3.5, lw=1.2)
    every = range(1, max(COUNTS) + 1)
    axes.plot(every, [bound(T) for T in every], color=theme.ink, lw=1.2, ls=(0, (2, 2)), zorder=2)
    axes.plot(COUNTS, curves["depth"], color=theme.high, marker="o", ms=5.5, lw=0, zorder=3)
    axes.text(40, 300, "as written", color=theme.faint, fontsize=11, ha="right")
    axes.text(20, 6.8, "depth", color=theme.high, fontsize=11, fontweight="bold", ha="center")
    axes.text(
        2187,
        2.75,
        "dashed: lower bound\n$\\lceil\\log_3(3T+1)\\rceil$",
        fontsize=10,
        ha="right",
        va="center",
    )
    there = (729, curves["depth"][COUNTS.index(729)])
    line = {"arrowstyle": "-", "color": theme.ink, "lw": 0.8}
    said = f"{there[0]} steps,\n{there[1]} layers"
    axes.annotate(said, there, (560, 19), fontsize=10.5, ha="center", arrowprops=line)
    axes.set_xlabel("steps $T$ of gradient descent", fontsize=11)
    axes.set_ylim(1.8, 6000)
    figure.text(0.706, 0.945, "Attention layers, by steps", fontsize=14.5, fontweight="bold")


def bound(steps: int) -> int:
    """⌈log₃ degree⌉; the answer has degree 3T + 1 in the inputs."""
    layers, reach = 0, 1
    while reach < 3 * steps + 1:
        layers, reach = layers + 1, 3 * reach
    return layers


def depths() -> dict[str, list[int]]:
    """Layers of compiled networks, and the bound of exact networks on affine prompts."""
    curves: dict[str, list[int]] = {"faithful": [], "depth": []}
    for steps in COUNTS:
        for mode in curves:
            net = inweave.compile(ridge, n=N, d=D, steps=steps, optimize=mode)
            curves[mode].append(net.depth)
        assert net.depth_lower_bound == bound(steps)
    return curves


def main() -> None:
    told, curves = story(), depths()
    for theme in (LIGHT, DARK):
        draw(theme, told, curves)


if __name__ == "__main__":
    main()
