"""Pages that ask nothing of the network.

Formulas become MathML when the documentation is built: every current browser draws it, with a font
that comes along, screen readers read it, and no script comes from elsewhere. A formula that the
converter does not know fails the build, and so does a page that would load something from another
place.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError


def mathml(formula: str, display: str) -> str:
    """A formula of LaTeX as MathML."""
    made = convert(formula, display=display)
    unknown = re.search(r"\\\w+", made)
    if unknown:
        raise ExtensionError(f"no MathML for {unknown[0]} of the formula {formula}")
    return made


def inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def block(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{mathml(node.astext(), "block")}</div>\n')
    raise nodes.SkipNode


class Requests(HTMLParser):
    """What a page makes a browser load, where that is not a file beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        loads = tag == "link" and given.get("rel") not in ("canonical", "next", "prev")
        asked = [given.get("src"), given.get("srcset"), given.get("href") if loads else None]
        self.found += [url for url in asked if url and re.match(r"(https?:)?//", url)]


def requests(page: str) -> list[str]:
    """The addresses that a page asks for when it is opened."""
    parser = Requests()
    parser.feed(page)
    return parser.found


def refuse_requests(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    for path in sorted(Path(app.outdir).rglob("*.html")):
        if found := requests(path.read_text(encoding="utf-8")):
            raise ExtensionError(f"{path.name} would load {', '.join(found)}")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.connect("build-finished", refuse_requests)
    return {"parallel_read_safe": True}
