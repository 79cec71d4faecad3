"""Writes docs/lab-results.md, and with --figures docs/figures/lab-*.png, from docs/lab/*.json.

The JSON files are what `inweave lab run NAME --device cuda` wrote, in the full form.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from inweave.lab.experiments import EXPERIMENTS
from inweave.lab.report import EXTRA, figure, markdown
from inweave.lab.results import stored

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "lab-results.md"

OPENING = """\
# Results of the lab, in full

Every row of every experiment that comes with the lab, in its full form. [Open
questions](open-questions.md) says what they mean. This page is written by
`python scripts/lab_page.py` from the files that the commands below wrote (`docs/lab/*.json`, which
also hold settings, seeds and training curves); a test keeps it current. Losses of the first four
are means over seeds and held-out problems, those of studies the mean over seeds of log₁₀ of a loss,
taken back to a loss; intervals are over seeds, and over problems for what was
not trained. Times are sums over runs that were side by side on one GPU. Further columns:

"""


def results() -> list[dict[str, Any]]:
    """The stored results, those of experiments first and in their order."""
    there = sorted(path.stem for path in (DOCS / "lab").glob("*.json"))
    ordered = [name for name in EXPERIMENTS if name in there]
    names = ordered + [name for name in there if name not in ordered]
    return [stored(DOCS / "lab" / f"{name}.json") for name in names]


def page() -> str:
    shown = {name for result in results() for row in result["rows"] for name in row}
    meanings = {name: meaning for name, meaning in EXTRA.items() if name in shown}
    text = OPENING + "".join(f"- `{name}`: {meaning};\n" for name, meaning in meanings.items())
    text = text.removesuffix(";\n") + ".\n"
    for result in results():
        seconds = result.get("arm_seconds", result["seconds"])
        seeds = len(result["settings"]["seeds"])
        where = f"{result['device']}, torch {result['torch']}"
        text += f"\n{markdown(result)}\n{seeds} seeds, {seconds:.0f} s on one {where}.\n"
    return text


def main() -> int:
    PAGE.write_text(page(), encoding="utf-8")
    if "--figures" in sys.argv:
        for result in results():
            print(figure(result, DOCS / "figures" / f"lab-{result['name']}.png"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
