"""Writes the table of docs/circuits.md from docs/circuits.json.

The JSON file is what `inweave circuits baselines dial0 dial0.5 dial1 -o docs/circuits.json` wrote,
of suites that `inweave circuits build` made with the default seed and count.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from inweave.circuits.results import Results, table

DOCS = Path(__file__).parent.parent / "docs"
PAGE, STORED = DOCS / "circuits.md", DOCS / "circuits.json"
BETWEEN = re.compile(r"(?<=<!-- table -->\n).*?(?=<!-- end of table -->)", re.DOTALL)


def page() -> str:
    """The page with the table of the stored results."""
    results = Results.read(STORED)
    count = results.suites[0].models
    proved = ", ".join(f"{suite.proved} at dial {suite.dial}" for suite in results.suites)
    said = (
        f"{len(results.models)} models: those of {count} that have at most {results.most:,} "
        f"possible edges at every dial. Of all {count}\nmodels, these are proved by algebra: "
        f"{proved}; the others are compared with their programs\nat random points modulo primes.\n"
    )
    found = f"{table(results)}\n{said}"
    return BETWEEN.sub(lambda _: found, PAGE.read_text(encoding="utf-8"))


def main() -> int:
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
