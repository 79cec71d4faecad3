"""Writes the stored results into the tables of docs: `python -m benchmarks.docs`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from benchmarks import peers
from benchmarks.show import above, by_entry, markdown
from benchmarks.stored import RESULTS, Stored

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "docs" / f"{name}.md" for name in ("benchmarks", "comparison")]
TABLE = re.compile(r"(<!-- (\w+): (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def shown(name: str, what: str) -> str:
    """What a page shows of results/NAME.json."""
    if name == "peers":
        return peers.told(what, json.loads(peers.RESULTS.read_text()))
    stored = Stored.read(RESULTS / f"{name}.json")
    if what == "when and where":
        return stored.where()
    if what == "above the bar":
        return above(stored.rows)
    return (by_entry if name == "gallery" else markdown)(stored.rows, what)


def filled(text: str) -> str:
    """A page with the table of each `<!-- file: family -->` ... `<!-- end -->` written anew."""
    return TABLE.sub(lambda found: f"{found[1]}\n{shown(found[2], found[3])}\n\n{found[4]}", text)


def main() -> int:
    for page in PAGES:
        page.write_text(filled(page.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
