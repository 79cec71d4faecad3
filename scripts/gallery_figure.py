"""docs/figures/gallery.png: attention layers of every gallery entry, as written and at least depth.

The lower bound is ⌈log₃ degree⌉, on prompts affine in the inputs, and exists for polynomials only.
Made by `python scripts/gallery_figure.py`.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

import inweave
from inweave import gallery

OUT = Path(__file__).parent.parent / "docs/figures/gallery.png"
BLUE, ORANGE, GREY = "#0b5fa5", "#d95f02", "#57606a"


def main() -> None:
    names = list(gallery.names())
    figure, axes = plt.subplots(figsize=(8.2, 0.27 * len(names) + 1.2), layout="constrained")
    for row, name in enumerate(names):
        entry = gallery.get(name)
        program, sizes = entry.program, {**entry.sizes, **entry.options}
        written = inweave.compile(program, verify=False, **sizes)
        short = inweave.compile(program, optimize="depth", verify=False, **sizes)
        axes.plot([short.depth, written.depth], [row, row], color="#d0d7de", lw=3, zorder=1)
        axes.scatter(written.depth, row, marker="s", s=34, color=GREY, zorder=3)
        axes.scatter(short.depth, row, marker="o", s=38, color=ORANGE, zorder=4)
        try:
            bound = max(written.depth_lower_bound, 1)
            axes.plot([bound, bound], [row - 0.36, row + 0.36], color=BLUE, lw=2.4, zorder=5)
        except inweave.InweaveError:
            pass  # pointwise functions: no degree, no bound
    axes.set_xscale("log")
    axes.set_xticks([1, 3, 10, 30, 100, 300, 1000], ["1", "3", "10", "30", "100", "300", "1000"])
    axes.set_yticks(range(len(names)), names, fontsize=8.5)
    axes.invert_yaxis()
    axes.set_xlabel("attention layers executed")
    axes.grid(axis="x", color="#eaeef2")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    handles = [
        plt.Line2D([], [], marker="s", ls="", color=GREY, label="as written"),
        plt.Line2D([], [], marker="o", ls="", color=ORANGE, label='optimize="depth"'),
        plt.Line2D([], [], marker="|", ms=11, mew=2.4, ls="", color=BLUE, label="lower bound"),
    ]
    axes.legend(handles=handles, loc="lower right", frameon=False, fontsize=9)
    figure.savefig(OUT, dpi=150)


if __name__ == "__main__":
    main()
