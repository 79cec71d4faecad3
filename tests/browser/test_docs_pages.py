"""The documentation in a real browser: no page asks for anything that does not lie beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

LIBRARIES = ("furo", "latex2mathml", "myst_nb", "sphinx", "ziamath")
pytestmark = pytest.mark.browser


def test_every_page_asks_for_local_files_only(browser: Any, tmp_path: Path) -> None:
    for library in LIBRARIES:
        pytest.importorskip(library)
    from scripts.screenshots import documentation

    documentation(tmp_path)
    pages = sorted(tmp_path.rglob("*.html"))
    assert len(pages) > 30
    page = browser.new_page()
    asked: list[tuple[str, str]] = []
    page.on("request", lambda request: asked.append((Path(page.url).name, request.url)))
    for path in pages:
        page.goto(path.as_uri())
    page.close()
    assert len(asked) > len(pages)
    assert [ask for ask in asked if not ask[1].startswith(("file:", "data:", "blob:"))] == []
