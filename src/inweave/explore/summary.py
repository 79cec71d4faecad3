"""What a notebook shows of a network: its size, its prompt and its proof, as static HTML.

No script and no style sheet, so that it looks the same in a notebook that is not trusted, or read
elsewhere. Colours are mixed into whatever the notebook's own are.
"""

from __future__ import annotations

from typing import Any

from inweave.explore.document import escaped
from inweave.explore.report import report
from inweave.explore.shown import Shown, title
from inweave.text.network import pretty

FRAME = (
    "font: 13px/1.5 system-ui, sans-serif; border: 1px solid #8886; border-radius: 8px; "
    "padding: 10px 14px; max-width: 760px"
)
BLOCK = "border: 1px solid #8886; border-radius: 4px; padding: 0 7px; white-space: nowrap"
RAIL = "display: inline-block; vertical-align: middle; height: 8px; border-radius: 4px"
LONGEST = 260  # pixels of a bar
MOST = 60  # blocks that are named


def summary(shown: Shown, text: str) -> str:
    """A network in a few lines, with `text`, all that can be said of it, folded below."""
    known, net = report(shown), shown.network
    size = (
        f"{known['depth']} attention layers · {known['heads']} heads stored · "
        f"{known['tokens']} tokens × {known['width']} columns"
    )
    blocks = " ".join(
        f'<span style="{BLOCK}">{escaped(pretty(b.name))} '
        f'<span style="opacity: 0.65">{b.rows}×{b.cols}</span></span>'
        for b in net.layout.blocks[:MOST]
    ) + (f" and {len(net.layout) - MOST} more" if len(net.layout) > MOST else "")
    return "".join([
        f'<div class="inweave-summary" style="{FRAME}">',
        f"<div><b>{escaped(title(shown))}</b> &nbsp; {size}</div>",
        *_bars(known),
        f'<div style="margin: 6px 0; line-height: 2">{blocks}</div>',
        _proof(shown),
        f"<details><summary>every layer</summary><pre>{escaped(text)}</pre></details>",
        "</div>",
    ])  # fmt: skip


def _bars(known: dict[str, Any]) -> list[str]:
    """Depth, and its lower bound where that is known."""
    depth, bound = known["depth"], known["bound"]
    if not bound:
        return []
    most = max(depth, bound)
    bars = {"depth": (depth, "#0b66c3"), "lower bound": (bound, "#888")}
    lines = [
        f'<div><span style="display: inline-block; width: 90px">{name}</span>'
        f'<span style="{RAIL}; width: {max(3, round(LONGEST * value / most))}px; '
        f'background: {colour}"></span> {value}</div>'
        for name, (value, colour) in bars.items()
    ]
    why = f"degree {known['degree']}; {known['holds']}"
    return [*lines, f'<div style="opacity: 0.75">{escaped(why)}</div>']


def _proof(shown: Shown) -> str:
    """What the certificate says first, or what there is in its place."""
    lines = ["not verified"] if shown.proved is None else str(shown.proved).splitlines()
    first = lines[:2] if lines[0].endswith(":") else lines[:1]
    return f"<div>{escaped(' '.join(line.strip() for line in first))}</div>"
