"""The README is executed: its example prints what it shows, and what it names exists.

`python -m tests.test_readme` writes the example and its present output into the README.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import inweave
from inweave.cli import main

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
EXAMPLE = ROOT / "examples" / "ridge.py"
TABLE = ROOT / "src" / "inweave" / "data" / "diabetes.csv"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [body for found, body in FENCE.findall(README.read_text("utf-8")) if found == language]


def printed() -> str:
    """What the example prints in a fresh interpreter, warnings being errors."""
    command = [sys.executable, "-W", "error", str(EXAMPLE)]
    environment = os.environ | {"PYTHONIOENCODING": "utf-8", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode("utf-8")


def without_rounding(text: str) -> str:
    """The last two digits of a long decimal depend on the machine's order of summation."""
    return re.sub(r"(\d\.\d{10})\d\d\b", r"\1", text)


def test_the_readme_shows_the_example_as_it_stands_in_its_file() -> None:
    assert blocks("python") == [EXAMPLE.read_text("utf-8")]


def test_the_example_prints_what_the_readme_shows() -> None:
    (shown,) = blocks("text")
    assert without_rounding(printed()) == without_rounding(shown), (
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


def test_the_commands_of_the_readme_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a folder that has of the clone only what they name."""
    for path in (EXAMPLE, TABLE):
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True)
        shutil.copy(path, copy)
    monkeypatch.chdir(tmp_path)
    (block,) = (b for b in blocks("sh") if "inweave compile" in b)
    for line in block.replace("\\\n", " ").splitlines():
        program, *words = shlex.split(line)
        assert program == "inweave"
        assert main(words) == 0, line
    rows = [len(path.read_text("utf-8").splitlines()) for path in (Path("predictions.csv"), TABLE)]
    assert rows[0] == rows[1]
    assert "by attention" not in capsys.readouterr().err, "a file that is imported prints nothing"


def test_what_is_to_be_cited_is_this_version_and_the_paper_of_the_readme() -> None:
    cited = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {inweave.__version__}\n" in cited
    (paper,) = re.findall(r"https://arxiv\.org/abs/[\d.]+", README.read_text("utf-8"))
    assert f"url: {paper}\n" in cited


def update() -> None:
    """Write the example and its output into the README."""
    text = README.read_text("utf-8")
    for language, body in (("python", EXAMPLE.read_text("utf-8")), ("text", printed())):
        shown = re.compile(rf"^```{language}\n.*?^```$", re.MULTILINE | re.DOTALL)
        text = shown.sub(lambda _, new=f"```{language}\n{body}```": new, text)
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    update()
