"""Writes the stored results into the tables of docs/benchmarks.md: `python -m benchmarks.docs`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from benchmarks.row import Row, from_json
from benchmarks.show import by_entry, markdown

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
TABLE = re.compile(r"(<!-- (\w+): (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def stored(name: str) -> list[Row]:
    """The rows of results/NAME.json, or none."""
    path = ROOT / "benchmarks" / "results" / f"{name}.json"
    return from_json(json.loads(path.read_text())["rows"]) if path.is_file() else []


def filled(text: str) -> str:
    """A page with the table of each `<!-- file: family -->` ... `<!-- end -->` written anew."""

    def table(found: re.Match[str]) -> str:
        told = by_entry if found[2] == "gallery" else markdown
        return f"{found[1]}\n{told(stored(found[2]), found[3])}\n\n{found[4]}"

    return TABLE.sub(table, text)


def main() -> int:
    PAGE.write_text(filled(PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
