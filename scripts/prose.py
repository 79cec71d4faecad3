"""Where the numbers in the prose of README.md and docs/ come from.

    python -m scripts.prose        # writes those that have changed; a test compares all of them

A claim is a text as it stands on its page, with a field for every number, and what computes the
numbers: a constant of the code, a network that is compiled, a stored result. Code cells are
executed when the documentation is built or by tests, and what stands between markers is written by
the script that it names; neither is looked at here. What is left are numbers that claim nothing:
examples, notation, years. They are listed too, so that no number can be written without saying
which of the two it is. A row of a table that names a test is left to the test.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from scripts.claims import CLAIMS, EXAMPLES, ROOT, notebooks

# Headings and lists are numbered; years stand in citations; 0 and 1 are mostly notation.
NOTATION = re.compile(
    r"^#+ .*$|^\d\. |\bPython 3\.12 on|\([^()]*\b(19|20)[0-39]\d[ab]?\)|\bet al\. (19|20)\d\d"
    r"|1/[xs√]\S*|\[\d, \d\]|\b[01] x 1\b|\b1 ±|\(1 [+−]|float(32|64)",
    re.MULTILINE,
)
# Pages that scripts write, whole or, of the open questions, what is measured; a test compares each.
ELSEWHERE = ("gallery", "lab-results", "open-questions", "paper-map")


def read(page: str) -> str:
    """A page as it stands; of a notebook, what it says beside its code."""
    text = (ROOT / page).read_text("utf-8")
    if not page.endswith(".ipynb"):
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def pages() -> Iterator[str]:
    """The pages whose prose is looked at."""
    yield from (path.relative_to(ROOT).as_posix() for path in notebooks())
    yield from ("README.md", "CONTRIBUTING.md")
    for path in sorted((ROOT / "docs").rglob("*.md")):
        if "_build" not in path.parts and path.stem not in ELSEWHERE:
            yield path.relative_to(ROOT).as_posix()


def prose(text: str) -> str:
    """A page without code, formulas, link targets, what scripts write and what tests show."""
    for left_out in (
        r"^\|[^\n]*`test_\w+`[^\n]*\|$",
        r"^```.*?^```$", r"<!-- ([\w -]+?)(: \w+.*?)? -->.*?<!-- (\1: )?end.*?-->", r"`[^`]*`",
        r"\$\$.*?\$\$", r"\$[^$]*\$", r"\]\([^)]*\)",
    ):  # fmt: skip
        text = re.sub(left_out, " ", text, flags=re.MULTILINE | re.DOTALL)
    return text


def unexplained(page: str) -> list[str]:
    """The lines of a page with numbers that nothing here speaks of."""
    text = read(page)
    for claim in CLAIMS.get(page, ()):
        text = claim.pattern.sub(" ", text)
    text = prose(text)
    for example in EXAMPLES.get(page, ()):
        text = re.sub(r"\s+".join(map(re.escape, example.split(" "))), " ", text)
    text = NOTATION.sub(" ", text)
    return [line.strip() for line in text.splitlines() if re.search(r"(?<![\w₀-₉_])\d", line)]


def main() -> None:
    for page, claims in CLAIMS.items():
        before = text = (ROOT / page).read_text("utf-8")
        for claim in claims:
            text = claim.filled(text)
        if text != before:
            (ROOT / page).write_text(text, encoding="utf-8")
            print(f"wrote {page}")


if __name__ == "__main__":
    main()
