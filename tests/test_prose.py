"""Numbers in prose, of README.md, docs/ and the demo's story, are what code and results say."""

from __future__ import annotations

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("torch")

from scripts import prose
from scripts.claims import CLAIMS, EXAMPLES, ROOT, Claim

pytestmark = pytest.mark.usefixtures("unchecked_passes")


@pytest.mark.parametrize("page", CLAIMS)
def test_every_claim_is_so(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    for claim in CLAIMS[page]:
        found = claim.pattern.findall(text)
        assert len(found) == 1, f"{claim.text!r} is not once on {page}"
        assert claim.filled(text) == text, (
            f"{page} says {found[0]}, it is {claim.wanted()}: python -m scripts.prose"
        )


def test_every_number_says_where_it_comes_from_or_that_it_claims_nothing() -> None:
    assert {page: lines for page in prose.pages() if (lines := prose.unexplained(page))} == {}, (
        "new numbers in prose belong into CLAIMS or EXAMPLES of scripts/claims.py"
    )


def test_what_is_listed_is_on_its_page() -> None:
    for page, examples in EXAMPLES.items():
        text = " ".join(prose.prose(prose.read(page)).split())
        assert [example for example in examples if example not in text] == [], page


def test_a_wrong_number_is_seen_and_written_right() -> None:
    page = "Newton's iteration\ntakes 8 layers, and 7 are needed."
    claim = Claim("iteration takes {} layers, and {:.1f} are", lambda: (9, 2.25))
    assert claim.filled(page) == "Newton's iteration\ntakes 9 layers, and 2.2 are needed."
    with pytest.raises(LookupError, match="nowhere on the page"):
        claim.filled("nothing of the kind")
