"""The errata page names a test in every row; those tests must exist."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "errata.md"


def test_every_test_that_the_errata_page_names_exists():
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text(encoding="utf-8")))
    written = "".join(path.read_text(encoding="utf-8") for path in TESTS.glob("test_*.py"))
    assert len(named) > 40
    assert not named - set(re.findall(r"^def (test_\w+)", written, re.MULTILINE))


def test_every_erratum_test_of_sections_2_and_3_is_on_the_page():
    page = PAGE.read_text(encoding="utf-8")
    for name in ("test_paper_section2.py", "test_paper_section3.py"):
        text = (TESTS / name).read_text(encoding="utf-8")
        shown = re.findall(r"^def (test_erratum_\w+)", text, re.MULTILINE)
        assert shown
        assert not [test for test in shown if f"`{test}`" not in page]
