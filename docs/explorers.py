"""One explorer page for every entry of the gallery, on its own data, linked from its section, and
the demo's, which tells a story.

They are made when the documentation is built, and linked only there: Markdown read elsewhere, as on
a code host, would link to what is not.
"""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.display import status_iterator

import inweave
from inweave.cli.demo_report import Problem, write_page

FOLDER = "explorer-pages"


def link(app: Sphinx, page: nodes.document) -> None:
    for section in page.findall(nodes.section):
        name = section[0].astext()
        if app.env.docname == "gallery" and name in inweave.gallery.names():
            to = nodes.reference("", "See it at work", refuri=f"{FOLDER}/{name}.html")
            section += nodes.paragraph("", "", to, nodes.Text(", layer by layer, on its example."))
        elif app.env.docname == "explorer" and name == "A story":
            to = nodes.reference("", "Read the demo's story", refuri=f"{FOLDER}/story.html")
            section += nodes.paragraph("", "", to, nodes.Text("."))


def write(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir, FOLDER)
    folder.mkdir(exist_ok=True)
    entries = inweave.gallery.entries()
    for entry in status_iterator(
        entries, "writing explorer pages... ", length=len(entries), stringify_func=lambda e: e.name
    ):
        entry.compile().explore(folder / f"{entry.name}.html", **entry.example())
    write_page(Problem.shipped(), folder / "story.html")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", link)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True}
