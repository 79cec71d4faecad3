"""Computes again what trained networks are held beside, in the results of studies.

    python -m scripts.lab_references results --device cuda

Problems of a study are those of a device's generator, so it must be the device that trained.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from inweave.lab.checkpoint import write_json
from inweave.lab.experiments import construction, noise
from inweave.lab.study import problems, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cuda")
    asked = parser.parse_args()
    for module in (construction, noise):
        study = module.study(False, 0)
        for arm in study.arms:
            found = result(study, arm, asked.folder / study.name)
            if found is None:
                continue
            batch = problems(study, arm, "eval", asked.device)
            known = module.references(arm, batch)
            kept = {k: v for k, v in found["measures"].items() if isinstance(v, list)}
            found["measures"] = known | kept
            write_json(asked.folder / study.name / f"{arm.name}.json", found)
            print(arm.name, known)


if __name__ == "__main__":
    main()
