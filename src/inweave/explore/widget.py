"""The explorer in a notebook: the page's own module behind anywidget's model."""

from __future__ import annotations

from typing import Any

from inweave.errors import needs_extra
from inweave.explore.document import asset, module
from inweave.explore.payload import payload
from inweave.explore.shown import Explorable, named

with needs_extra("inweave.explore.Widget", "widget"):
    import anywidget
    import traitlets


class Widget(anywidget.AnyWidget):
    """Shows a network, or several on the same data, in a notebook cell.

    `layer` and `head` follow what the reader selects, and can be set from Python.
    """

    _esm = module()
    _css = asset("explorer.css")
    payload = traitlets.Dict().tag(sync=True)
    layer = traitlets.Int(0).tag(sync=True)
    head = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        network: Explorable,
        *,
        compare: Explorable | None = None,
        reference: Any = None,
        **inputs: Any,
    ) -> None:
        networks = named(network if compare is None else [network, compare])
        super().__init__(payload=payload(networks, inputs, reference))
