"""Reads the networks of the study `explained` as programs, and keeps what was found.

    python -m scripts.explained_programs FOLDER

FOLDER is where the study's weights are (`lsa-2.npz` and so on, of the seed in the middle). What
`inweave.lab.algorithm` makes of each, and how much of its gain over gradient descent that program
has, goes to docs/lab-programs.json, from which docs/open-questions.md is written.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from inweave.lab.algorithm import algorithm
from inweave.lab.experiments import explained
from inweave.lab.study import CAP
from inweave.lab.tasks import Batch, draw, stream

KEPT = Path(__file__).parent.parent / "docs" / "lab-programs.json"
FITTED, FRESH = 400, 4000  # problems
TOLERATED = 0.05  # of the network's own loss, for every product that is left out


def program(layers: int, path: Path) -> dict[str, Any]:
    """What one network is read as."""
    arm = explained.lsa(layers, 1)
    model = arm.make(0)
    with np.load(path) as weights, torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.as_tensor(weights[name]))
    net = model.to_network()
    fit, fresh = (draw(arm.task, size, stream(0, f"program {size}"), torch.float64)
                  for size in (FITTED, FRESH))  # fmt: skip
    _, descended = explained.descent(fit, fresh, layers)
    own = _loss(net, fresh)
    read = algorithm(net, _named(fit), _named(fresh), tolerance=TOLERATED * own)
    before, found = _relative(descended.numpy(), fresh), _loss(read.network, fresh)
    return {
        "layers": layers, "source": read.source, "difference": read.difference.asdict(),
        "descent": before, "network": own, "program": found,
        "gain": (before - found) / (before - own), "left_out": list(read.left_out),
    }  # fmt: skip


def _named(batch: Batch) -> dict[str, Any]:
    return {"X": batch.X.numpy(), "y": batch.y.numpy(), "u": batch.u.numpy()}


def _loss(net: Any, batch: Batch) -> float:
    return _relative(np.asarray(net(check=False, **_named(batch))), batch)


def _relative(prediction: Any, batch: Batch) -> float:
    """The capped loss, in units of the zero predictor's."""
    clean = batch.clean.numpy()
    unit = np.mean(clean**2)
    return float(
        np.minimum(np.nan_to_num((prediction - clean) ** 2, nan=np.inf) / unit, CAP).mean()
    )


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__)
        return 1
    found = []
    for layers in explained.LAYERS[1:]:
        path = Path(sys.argv[1]) / f"lsa-{layers}.npz"
        if path.exists():
            found.append(program(layers, path))
            print(f"{layers} layers: {100 * found[-1]['gain']:.1f} % of the gain")
    KEPT.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
