"""Sphinx: every code cell is executed, and a warning fails the build."""

project = "inweave"
author = "inweave authors"
copyright = "2026, inweave authors"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.doctest"]
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
autodoc_typehints = "none"
# The sources spell sums and shapes in their docstrings as plain text, not as reStructuredText.
suppress_warnings = ["docutils", "mystnb.unknown_mime_type", "myst.xref_missing"]
