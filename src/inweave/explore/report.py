"""What the page says about a network: its size, its lower bound, its certificate."""

from __future__ import annotations

from typing import Any

from inweave.explore.shown import Made, Shown
from inweave.proof.certificate import as_data
from inweave.proof.degree import degree_text
from inweave.text.network import facts


def report(shown: Shown) -> dict[str, Any]:
    """Sizes, and depth beside its lower bound where that is known, and for which prompts it is."""
    made, known = shown.made, facts(shown.network, degree=shown.degree)
    return {
        **{name: known[name] for name in ("depth", "heads", "tokens", "width", "fingerprint")},
        "target": known["target"].upper(),
        "optimize": made.optimize if made else None,
        "program": made.program if made else None,
        "statics": _counts(made) if made else {},
        "sizes": {str(k): str(v) for k, v in made.sizes.items()} if made else {},
        "numbers": known["stored_numbers"],
        "degree": None if shown.degree is None else str(shown.degree).removeprefix("degree "),
        "bound": known["depth_lower_bound"],
        "holds": known["depth_lower_bound_holds"],
    }


def _counts(made: Made) -> dict[str, int]:
    """The whole numbers that a program was recorded with, sizes of its inputs left out."""
    sizes = made.traced.sizes if made.traced else {}
    return {k: v for k, v in made.sizes.items() if k not in sizes and isinstance(v, int)}


def proof(shown: Shown) -> dict[str, Any]:
    """The certificate, or what a file claims to be one."""
    said = as_data(shown.network, shown.proved)
    return {name: _written(said[name]) for name in ("certificate", "claim")}


def _written(data: dict[str, Any] | None) -> dict[str, Any] | None:
    if data is None:
        return None
    notes = {name: list(data[name]) for name in ("functions", "conditions", "beyond")}
    return {**data, "degree": degree_text(data["degree"]), **notes}
