"""The page about the architecture says what the code does."""

from __future__ import annotations

from scripts import architecture


def test_the_page_and_the_picture_are_what_the_script_would_write():
    advice = "run `python -m scripts.architecture`"
    assert architecture.PAGE.read_text(encoding="utf-8") == architecture.page(), advice
    assert architecture.PICTURE.read_text(encoding="utf-8") == architecture.picture(), advice
