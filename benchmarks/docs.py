"""Writes the stored results into the tables of docs: `python -m benchmarks.docs`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from benchmarks import peers
from benchmarks.row import Row, from_json
from benchmarks.show import by_entry, markdown

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "docs" / f"{name}.md" for name in ("benchmarks", "comparison")]
TABLE = re.compile(r"(<!-- (\w+): (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def stored(name: str) -> list[Row]:
    """The rows of results/NAME.json, or none."""
    path = ROOT / "benchmarks" / "results" / f"{name}.json"
    return from_json(json.loads(path.read_text())["rows"]) if path.is_file() else []


def filled(text: str) -> str:
    """A page with the table of each `<!-- file: family -->` ... `<!-- end -->` written anew."""

    def table(found: re.Match[str]) -> str:
        if found[2] == "peers":
            shown = peers.told(found[3], json.loads(peers.RESULTS.read_text()))
        else:
            told = by_entry if found[2] == "gallery" else markdown
            shown = told(stored(found[2]), found[3])
        return f"{found[1]}\n{shown}\n\n{found[4]}"

    return TABLE.sub(table, text)


def main() -> int:
    for page in PAGES:
        page.write_text(filled(page.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
