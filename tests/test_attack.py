"""The attacks can be made; `make attack` makes them in earnest."""

import random
import subprocess
import sys
from pathlib import Path

from tests.attack import commands

ROOT = Path(__file__).parents[1]


def test_random_command_lines_are_answered_or_refused():
    found = commands.attack(4, random.Random(0))
    assert sum(found.values()) == 4


def test_every_door_can_be_named_and_says_its_seed():
    line = [sys.executable, "-m", "tests.attack", "--only", "files", "--count", "20", "--seed", "5"]
    told = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert told.startswith("files: 20 tries, seed 5 ...")
    modules = {path.stem for path in (ROOT / "tests" / "attack").glob("[a-z]*.py")}
    doors = subprocess.run([*line[:3], "--help"], cwd=ROOT, capture_output=True, text=True).stdout
    assert all(name in doors for name in modules - {"forked"})
