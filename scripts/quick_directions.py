"""Records whether quick forms of studies point where the full ones do: docs/lab-quick.json.

    for s in 0 100 200 300 400; do
        python -m scripts.lab_studies all --quick --device cpu --seed $s --out quick/$s
    done
    python -m scripts.quick_directions quick

Of a quick result the claims are kept that it says it can support (`QUICK` of each experiment), with
what each seed says of them, as a log₁₀ ratio of losses.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from inweave.lab.experiments import named
from inweave.lab.results import stored

SUPPORTED = {
    "bias": r"equal layers, .*no constants.*",
    "construction": r".*nearer to the construction than if asked for the answer",
    "perturb": r".*noise (0|0\.01): after training less loss than the construction",
    "noise": r"2 LSA layers: less loss than 1 LSA layer",
    "nonlinearity": r"tree, depth \d: .*softmax scores",
    "extraction": r"0 or 1, .*with a hard mask than without extraction",
    "explained": r"LSA, 2 layers: less loss than 2 gradient steps",
}
KEPT = Path(__file__).parent.parent / "docs" / "lab-quick.json"


def collected(folder: Path) -> dict[str, dict[str, dict[str, float]]]:
    """By study and claim, what every seed says."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for path in sorted(folder.glob("*/*.json")):
        result = stored(path)
        if path.stem in named("all") and result["complete"]:
            own = SUPPORTED[path.stem]
            for claim in (c for c in result["claims"] if re.fullmatch(own, c["claim"])):
                by_seed = found.setdefault(path.stem, {}).setdefault(claim["claim"], {})
                by_seed[path.parent.name] = round(claim["value"], 4)
    return found


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__)
        return 1
    KEPT.write_text(json.dumps(collected(Path(sys.argv[1])), indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
