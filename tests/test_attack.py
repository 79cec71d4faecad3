"""The attacks can be made; `make attack` makes them in earnest."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.attack import commands
from tests.attack.__main__ import DOORS

ROOT = Path(__file__).parents[1]


@pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning")  # of jax
def test_random_command_lines_are_answered_or_refused():
    found = commands.attack(4, random.Random(0))
    assert sum(found.values()) == 4


def test_every_door_can_be_named_and_says_its_seed():
    line = [sys.executable, "-m", "tests.attack", "--only", "files", "--count", "20", "--seed", "5"]
    told = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert told.startswith("files: 20 tries, seed 5 ...")
    modules = {path.stem for path in (ROOT / "tests" / "attack").glob("[a-z]*.py")}
    assert modules - {"forked"} <= DOORS.keys()
