"""What the page says about a network: its size, its lower bound, its certificate."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from inweave.explore.shown import Shown
from inweave.proof.certificate import about
from inweave.proof.degree import degree_text
from inweave.text.network import facts


def report(shown: Shown) -> dict[str, Any]:
    """Sizes, and depth beside its lower bound where that is known."""
    origin, known = shown.origin, facts(shown.network, degree=shown.degree)
    degree = None
    if shown.degree is not None:
        said = degree_text(shown.degree[0])
        degree = said if shown.degree[1] else f"at most {said}"
    return {
        **{name: known[name] for name in ("depth", "heads", "tokens", "width", "fingerprint")},
        "target": known["target"].upper(),
        "optimize": origin.optimize if origin else None,
        "program": origin.program.name if origin else None,
        "sizes": {str(k): str(v) for k, v in origin.sizes.items()} if origin else {},
        "numbers": known["stored_numbers"],
        "degree": degree,
        "bound": known["depth_lower_bound"],
    }


def certificate(shown: Shown) -> dict[str, Any] | None:
    found = about(shown.network, shown.certificate)
    if found is None:
        return None
    data = asdict(found)
    notes = {name: list(data[name]) for name in ("functions", "conditions", "beyond")}
    return {**data, "degree": degree_text(data["degree"]), **notes}
