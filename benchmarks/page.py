"""The explorer's page in Chromium: milliseconds of an edit, and of a move to another layer.

An edit runs the whole network again, a move draws another layer, and every panel follows. What is
counted is the processor time of the page's own thread in scripts, styles and layout, which stands
still while another process has the core. What it takes with painting, here without a GPU, is said
beside it.
"""

from __future__ import annotations

import importlib.util
import runpy
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import inweave
from benchmarks import problem
from benchmarks.measure import Spread
from benchmarks.row import Row
from inweave import AttentionLayer, DenseProjection, Head, Layout, Module, Network

BAR = 16.0  # a frame of a screen
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")

EDITS = """async (times) => {
  const e = document.getElementById('inweave').explorer;
  const value = e.live.values.get('eta')[0];
  for (let i = 0; i < times; i++) {
    e.live.set('eta', 0, value * (1 + i / 1000));
    e.rerun();
    while (e.running) await new Promise(requestAnimationFrame);
  }
}"""
MOVES = """async (times) => {
  const slider = document.querySelector('input.scrubber');
  for (let i = 0; i < times; i++) {
    slider.value = (i * 7) % slider.max;
    slider.dispatchEvent(new Event('input', {bubbles: true}));
    await new Promise(requestAnimationFrame);
  }
}"""
OWN = ("ScriptDuration", "RecalcStyleDuration", "LayoutDuration")  # as Chromium calls them
ALL = "TaskDuration"


def readme(path: Path) -> Network:
    """The README's network, on data of its size."""
    example = Path(__file__).parents[1] / "examples" / "ridge.py"
    ridge: inweave.Program = runpy.run_path(str(example))["ridge"]
    net = inweave.compile(ridge, n=40, d=10, steps=problem.STEPS)
    net.explore(path, **problem.data(40, 10))
    return net


def dense(path: Path) -> Network:
    """A network all of whose prompt changes in every layer."""
    rng = np.random.default_rng(0)
    head = Head(*(DenseProjection(0.004 * rng.normal(size=(200, 200))) for _ in range(3)))
    blocks = Layout.of({"A": (20, 120), "B": (20, 80)})
    net = inweave.Network(blocks, (Module((AttentionLayer((head,)),), repeat=200),))
    net.explore(path, H=0.5 * rng.normal(size=(20, 200)))
    return net


CASES = (("an edit of the README's network", readme, EDITS),
         ("a move in the README's network", readme, MOVES),
         ("a move where every entry changes", dense, MOVES))  # fmt: skip


def rows(threads: int) -> Iterator[Row]:
    """One row for each case, and none where there is no Chromium."""
    chromium = shutil.which("chromium")
    if chromium is None or importlib.util.find_spec("playwright") is None:
        print("no Chromium or no playwright here: make test-browser installs both", file=sys.stderr)
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
        yield from in_browser(browser, threads)
        browser.close()


def in_browser(browser: Any, threads: int, rounds: int = 7, times: int = 40) -> Iterator[Row]:
    """The rows, from so many edits or moves in every round."""
    for name, make, script in CASES:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "page.html")
            net = make(path)
            found = list(_rounds(browser, path, script, rounds + 1, times))[1:]  # one to warm up
        own = Spread.of([sum(one[part] for part in OWN) for one in found])
        whole = Spread.of([one[ALL] for one in found])
        yield Row.of(
            "page",
            name,
            own,
            unit="ms",
            threads=threads,
            bar=BAR,
            note=f"{net.depth} layers, prompt {net.tokens} x {net.width}; "
            f"{whole.median:.1f} ms with painting",
        )


def _rounds(
    browser: Any, path: Path, script: str, rounds: int, times: int
) -> Iterator[dict[str, float]]:
    """What Chromium counts for one of `times` edits or moves, round by round, in milliseconds."""
    tab = browser.new_page()
    tab.set_viewport_size({"width": 1440, "height": 900})
    tab.goto(path.as_uri() + "#layer=41")
    tab.wait_for_selector("table.numbers tbody td")
    protocol = tab.context.new_cdp_session(tab)
    protocol.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent() -> dict[str, float]:
        metrics = protocol.send("Performance.getMetrics")["metrics"]
        return {one["name"]: one["value"] for one in metrics if one["name"] in (*OWN, ALL)}

    for _ in range(rounds):
        before = spent()
        tab.evaluate(script, times)
        yield {name: 1e3 * (now - before[name]) / times for name, now in spent().items()}
    tab.close()
