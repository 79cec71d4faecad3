"""Hostile pages: whatever a network, its names and its prompt hold, a page shows it and runs none.

Names come from a list of what breaks pages (tags, comments, entities, other directions of writing,
very long ones), prompts hold numbers at the ends of their range. A page must raise nothing, ask
for nothing but itself, and have the two scripts that it was written with.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import inweave
from inweave import BlockPointwiseLayer, Layout, Module, Network, Place
from inweave.errors import InweaveError
from inweave.model.relunet import Function, ReluNet
from tests.browser.conftest import FLAGS, Watched

HOSTILE = ("<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", "<!--<script>",
           "<svg onload=alert(4)>", "&lt;b&gt;", "&#x3c;script>", "\u202egnp.exe", "{{ script }}",
           "${alert(1)}", "`", "'\"><a href=javascript:alert(1)>", "x" * 300, "\u2028", "😀" * 20,
           "constructor", "__proto__", "toString", "]]>", "%3Cscript%3E", "\x7f", "A", "ﷺ",
           "a\u0300" * 50)  # fmt: skip
LINKS = ("", "#layer=1", "#layer=99", "#<script>", "#layer=%00&x=1")
FOREIGN = "body img, body iframe, body a[href^=javascript]"
NUMBERS = (0.0, -0.0, 1.0, 1e308, -1e308, 5e-324, 1e-300, np.pi, 1 / 3, 1e16, 123456789.123456789)


def drawn(rng: random.Random) -> tuple[str, Network, np.ndarray[Any, Any]]:
    """A title, a network with hostile names, and a prompt of extreme numbers."""
    names = rng.sample(HOSTILE, rng.randrange(1, 4))
    rows = rng.randrange(1, 4)
    layout = Layout.of({name: (rows, rng.randrange(1, 4)) for name in names})
    curve = Function(rng.choice(HOSTILE), ReluNet((1.0,), (0.0,), (1.0,)))
    where = [Place(b.name, b.rows, b.cols) for b in layout]
    layers = tuple(BlockPointwiseLayer(((place, curve),)) for place in where[: rng.randrange(1, 4)])
    net = Network(layout, (Module(layers, repeat=rng.choice((1, 1, 2, 50))),))
    H = np.array([[rng.choice(NUMBERS) for _ in range(layout.width)] for _ in range(rows)])
    return rng.choice(HOSTILE), net, H


def attack(count: int, rng: random.Random) -> Counter[str]:
    """Open pages in a real browser."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    assert chromium, "there is no chromium here; `make test-browser` installs it"
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place, sync_playwright() as driver:
        context = driver.chromium.launch_persistent_context(
            str(Path(place, "profile")), executable_path=chromium, args=FLAGS
        )
        path = Path(place, "page.html")
        page = context.new_page()
        seen = Watched(page)
        for _ in range(count):
            try:
                title, net, H = drawn(rng)
                inweave.explore.write(path, {title: net}, {"H": H})
            except InweaveError:
                found["refused"] += 1
                continue
            seen.open(path, rng.choice(LINKS))
            told = f"{title!r}, {net.layout!r}, {H!r}"
            assert [*seen.errors, *seen.console] == [], f"{told}: {seen.errors} {seen.console}"
            assert all(url.startswith((path.as_uri(), "blob:")) for url in seen.requests), told
            assert page.locator("script").count() == 2, told
            assert page.locator(FOREIGN).count() == 0, told
            found["shown"] += 1
        context.close()
    return found
