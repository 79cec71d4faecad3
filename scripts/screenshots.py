"""Every page of inweave in a real Chromium, light and dark, wide and narrow: docs/figures/page-*.

`make figures` runs it, in the environment of `make test-browser` and `make docs`:

    .venv/bin/python -m scripts.screenshots [--only NAME ...] [--out FOLDER] [--pages FOLDER]

The landing page of the documentation is built here, without executing notebooks. Pictures are kept
in a palette: pages are flat, and it takes a third of the bytes.
"""

from __future__ import annotations

import argparse
import io
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright

import inweave
import inweave.explore
from inweave.circuits import disguise
from inweave.cli import main
from tests.browser.conftest import FLAGS

ROOT = Path(__file__).resolve().parent.parent
SIZES = {"wide": (1440, 900), "narrow": (560, 900)}
# Colours that cover all of a picture, so that a thin line keeps its own, and then move to where
# most pixels are, so that a wide plane does, too.
PALETTE: dict[str, Any] = {
    "colors": 256, "method": Image.Quantize.MAXCOVERAGE, "kmeans": 1, "dither": Image.Dither.NONE,
}  # fmt: skip
ridge: inweave.Program = runpy.run_path(str(ROOT / "examples" / "ridge.py"))["ridge"]


def data(n: int, d: int, lam: float, eta: float) -> dict[str, Any]:
    """Rows as in the README."""
    rng = np.random.default_rng(0)
    arrays = {"X": rng.normal(size=(n, d)), "y": rng.normal(size=n), "u": rng.normal(size=d)}
    return {**arrays, "lam": lam, "eta": eta}


SMALL = data(12, 4, 0.1, 0.04)


def small(optimize: str = "faithful") -> inweave.Network:
    return inweave.compile(ridge, n=12, d=4, steps=81, optimize=optimize)


def readme(path: Path) -> None:
    net = inweave.compile(ridge, n=40, d=10, steps=100)
    net.explore(path, **data(40, 10, 1.0, 0.01))


def loop(path: Path) -> None:
    small().explore(path, **SMALL)


def collapsed(path: Path) -> None:
    small("depth").explore(path, **SMALL)


def compare(path: Path) -> None:
    both = {"gradient descent, 81 steps": small(), "the same, collapsed": small("depth")}
    inweave.explore.compare(path, both, SMALL)


def disguised(path: Path) -> None:
    net = inweave.compile(ridge, n=6, d=3, steps=9)
    hidden = disguise(net, dial=1, seed=0)
    hidden.verify()
    hidden.explore(path, **data(6, 3, 0.1, 0.04))


def trained(path: Path) -> None:
    inweave.load(ROOT / "docs" / "lab" / "two-step.inweave").explore(path)


def demo(path: Path) -> None:
    if main(["demo", "--steps", "9", "--page", str(path)]):
        raise SystemExit("the demo failed")


def documentation(folder: Path) -> None:
    """Build the documentation; its cells are not executed, and the gallery's pages are left out."""
    quick = ["nb_execution_mode=off", "extensions=myst_nb,offline,sphinx.ext.autodoc"]
    settings = [word for setting in quick for word in ("-D", setting)]
    command = [sys.executable, "-m", "sphinx", "-q", *settings, ROOT / "docs", folder]
    subprocess.run(command, check=True)


def built(path: Path, page: str) -> None:
    """A page of the documentation, which is built the first time."""
    folder = path.parent / "docs"
    if not folder.is_dir():
        documentation(folder)
    path.symlink_to(folder / page)


def landing(path: Path) -> None:
    built(path, "index.html")


def lab(path: Path) -> None:
    built(path, "lab-results.html")


# page: how it is made, and what of it is looked at
PAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "readme": (readme, "#layer=21&head=0"),
    "loop": (loop, "#layer=21&head=0"),
    "collapsed": (collapsed, "#layer=2&head=1"),
    "compare": (compare, "#layer=4&head=0&net=1"),
    "demo": (demo, "#chapter=4"),
    "disguised": (disguised, "#layer=3&head=0"),
    "trained": (trained, "#layer=1&head=0"),
    "docs": (landing, ""),
    "lab": (lab, ""),
}


def draw() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=PAGES, default=list(PAGES))
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "figures")
    parser.add_argument("--pages", type=Path, help="keep the pages in this folder")
    said = parser.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        print("there is no chromium here: scripts/system-packages chromium", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as driver:
        pages = said.pages or Path(scratch) / "pages"
        pages.mkdir(exist_ok=True)
        context = driver.chromium.launch_persistent_context(
            f"{scratch}/profile", executable_path=chromium, args=FLAGS
        )
        tab = context.new_page()
        for name in said.only:
            make, view = PAGES[name]
            path = pages.resolve() / f"{name}.html"
            path.unlink(missing_ok=True)
            make(path)
            for size, (width, height) in SIZES.items():
                for colours in ("light", "dark"):
                    tab.set_viewport_size({"width": width, "height": height})
                    tab.emulate_media(color_scheme=colours)
                    tab.goto("about:blank")
                    tab.goto(path.resolve().as_uri() + view)
                    tab.wait_for_timeout(400)
                    picture = Image.open(io.BytesIO(tab.screenshot())).convert("RGB")
                    found = picture.quantize(**PALETTE)
                    found.save(said.out / f"page-{name}-{size}-{colours}.png", optimize=True)
            print(f"page-{name}-*.png from a page of {path.stat().st_size / 1e6:.2f} MB")
        context.close()
    return 0


if __name__ == "__main__":
    sys.exit(draw())
