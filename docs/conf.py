"""Sphinx: every code cell is executed, and a warning fails the build."""

import sys
from importlib.resources import files
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "inweave"
author = "inweave authors"
copyright = "2026, inweave authors"

extensions = [
    "explorers",
    "myst_nb",
    "offline",
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.napoleon",
]
html_math_renderer = "mathml"
html_static_path = ["_static", str(files("ziamath") / "fonts" / "STIXTwoMath-Regular.ttf")]
html_css_files = ["math.css"]
html_theme = "furo"
html_title = "inweave"
exclude_patterns = ["_build"]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
# The sources spell sums and shapes in their docstrings as plain text, not as reStructuredText, and
# two classes of different rooms may have one name (ref.python).
suppress_warnings = ["docutils", "ref.python", "mystnb.unknown_mime_type", "myst.xref_missing"]
