"""The README is executed: its example prints what it shows, and what it names exists.

`python -m tests.test_readme` writes the example's present output into the README.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from inweave.cli import main

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [body for found, body in FENCE.findall(README.read_text("utf-8")) if found == language]


def printed(folder: Path) -> str:
    """What the example prints in a fresh interpreter, warnings being errors."""
    (code,) = blocks("python")
    script = folder / "example.py"
    script.write_text(code, encoding="utf-8")
    command = [sys.executable, "-W", "error", str(script)]
    environment = os.environ | {"PYTHONIOENCODING": "utf-8", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode("utf-8")


def without_rounding(text: str) -> str:
    """The last two digits of a long decimal depend on the machine's order of summation."""
    return re.sub(r"(\d\.\d{10})\d\d\b", r"\1", text)


def test_the_example_prints_what_the_readme_shows(tmp_path: Path) -> None:
    (shown,) = blocks("text")
    assert without_rounding(printed(tmp_path)) == without_rounding(shown), (
        "if the change is meant, `python -m tests.test_readme` brings the README up to date"
    )


def test_the_two_answers_in_the_readme_agree() -> None:
    (shown,) = blocks("text")
    first, second = re.findall(r"by [\w ]+: +(-?[\d.]+)", shown)
    assert abs(float(first) - float(second)) < 1e-11


def test_every_file_the_readme_links_to_exists() -> None:
    text = README.read_text("utf-8")
    links = re.findall(r"\]\(([^)#]+)\)", text) + re.findall(r'(?:src|srcset)="([^"]+)"', text)
    assert links
    missing = [link for link in links if "://" not in link and not (ROOT / link).is_file()]
    assert not missing


def test_every_make_target_and_inweave_command_the_readme_names_exists() -> None:
    from inweave.cli.app import COMMANDS

    shell = "\n".join(blocks("sh"))
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^make ([\w-]+)", shell, re.MULTILINE))
    assert targets >= {"demo", "test"}
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
    assert set(re.findall(r"^inweave ([\w-]+)", shell, re.MULTILINE)) <= set(COMMANDS)


def test_the_commands_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = blocks("python")
    (tmp_path / "ridge.py").write_text(code, encoding="utf-8")
    table = np.random.default_rng(0).normal(size=(12, 4))
    for name, rows in (("table.csv", table[:8]), ("new.csv", table[8:])):
        np.savetxt(tmp_path / name, rows, delimiter=",", header="a,b,c,y", comments="")
    monkeypatch.chdir(tmp_path)
    (block,) = (b for b in blocks("sh") if "inweave compile" in b)
    for line in block.replace("\\\n", " ").splitlines():
        program, *words = shlex.split(line)
        assert program == "inweave"
        assert main(words) == 0, line
    assert len((tmp_path / "predictions.csv").read_text("utf-8").splitlines()) == 5


def update() -> None:
    """Write the example's output into the README."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        out = printed(Path(folder))
    text = README.read_text("utf-8")
    shown = re.compile(r"^```text\n.*?^```$", re.MULTILINE | re.DOTALL)
    new = shown.sub(lambda _: f"```text\n{out}```", text)
    README.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    update()
