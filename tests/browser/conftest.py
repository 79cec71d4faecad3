"""A real Chromium, driven by playwright, that records what pages do behind the reader's back."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


class Watched:
    """A page, every message on its console, every error in it and every request it made."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.console: list[str] = []
        self.errors: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.console.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("dialog", lambda dialog: (self.errors.append(dialog.message), dialog.dismiss()))

    def open(self, path: Path, link: str = "") -> Watched:
        self.page.goto("about:blank")
        self.requests.clear()
        self.page.goto(path.as_uri() + link)
        self.page.wait_for_selector("table.numbers tbody td")
        return self

    # -- what a reader does and sees ---------------------------------------------------------------
    def layer(self, k: int) -> None:
        """Move the scrubber, as a hand would."""
        self.page.eval_on_selector(
            "input.scrubber",
            "(s, k) => { s.value = k; s.dispatchEvent(new Event('input', {bubbles: true})); }",
            k,
        )

    def settled(self, layer: int | str) -> None:
        """Wait until the numbers are those after a layer."""
        self.page.wait_for_selector(f'table.numbers[data-layer="{layer}"]')

    def table(self) -> list[list[float]]:
        """The numbers on the page, from its accessible table."""
        rows = self.page.eval_on_selector_all(
            "table.numbers tbody tr",
            "rows => rows.map(r => [...r.querySelectorAll('td')].map(d => d.textContent))",
        )
        return [[float(text) for text in row] for row in rows]

    def linked(self, text: str) -> None:
        """Wait until the address contains a text (the policy forbids playwright's own way)."""
        for _ in range(100):
            if text in self.page.evaluate("location.hash"):
                return
            self.page.wait_for_timeout(20)
        raise AssertionError(f"{text!r} is not in {self.page.url}")

    def where(self) -> str:
        return str(self.page.text_content(".where"))


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.fail("there is no chromium here; `make test-browser` installs it")
    with sync_api.sync_playwright() as driver:
        context = driver.chromium.launch_persistent_context(
            str(tmp_path_factory.mktemp("profile")),
            executable_path=chromium,
            args=FLAGS,
            viewport={"width": 1440, "height": 900},
            accept_downloads=True,
        )
        yield context
        context.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Watched]]:
    """Open a page; afterwards it must have raised nothing and asked for nothing but itself."""
    page = browser.new_page()
    watched = Watched(page)
    opened: list[str] = []

    def go(path: Path, link: str = "") -> Watched:
        opened.append(path.as_uri())
        return watched.open(path, link)

    yield go
    page.close()
    assert watched.errors == []
    assert watched.console == []
    foreign = [url for url in watched.requests if url.split("#")[0] not in opened]
    assert [url for url in foreign if not url.startswith("blob:")] == []
