"""Stores what studies found: docs/lab/NAME.json, docs/lab/NAME.zip and docs/figures/lab-NAME.png.

    python -m scripts.lab_store results --processes 12
    python -m scripts.lab_page && python -m scripts.open_questions

`results` is the folder that `scripts.lab_studies` wrote, `processes` how many it ran. Nothing is
trained; what is missing is said. The zip holds the file of every arm and of every search: settings,
all tries, all seeds, training curves.
"""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

from inweave.lab.experiments import named, run
from inweave.lab.report import figure
from inweave.lab.results import stored

DOCS = Path(__file__).parent.parent / "docs"


def main() -> int:
    if len(sys.argv) != 4 or sys.argv[2] != "--processes":
        print(__doc__)
        return 1
    folder, processes = Path(sys.argv[1]), int(sys.argv[3])
    for name in named("all"):
        if not (folder / name).is_dir():
            print(f"{name}: no arms")
            continue
        path = run(name, folder, device="cpu", within=0.0, part=(1, processes))
        result = stored(path)
        shutil.copy(path, DOCS / "lab" / path.name)
        _zip(folder / name, DOCS / "lab" / f"{name}.zip")
        figure(result, DOCS / "figures" / f"lab-{name}.png")
        missing = ", ".join(result["missing"]) or "nothing"
        print(f"{name}: {result['seconds']:.0f} s in full; missing: {missing}")
    return 0


def _zip(folder: Path, path: Path) -> None:
    """The JSON files of a folder, the same bytes for the same files."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for file in sorted(folder.glob("*.json")):
            entry = zipfile.ZipInfo(file.name)  # of no time
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, file.read_bytes())


if __name__ == "__main__":
    sys.exit(main())
