"""What a user writes passes type checkers and linters, and what does not fit is found by them.

mypy in its strict mode, pyright in its standard one (as basedpyright, which brings the node that it
runs on) and ruff with its defaults come with the tools of development. One run of each reads all
files.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_readme import blocks

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"

GOOD = '''
from typing import Literal, TypeVar

import inweave
import numpy as np
from inweave import Matrix, Scalar, Vector

n = TypeVar("n")
d = TypeVar("d")


@inweave.program
def every(
    X: Matrix[n, d], y: Vector[n], u: Vector[d], s: Scalar, F: Matrix[Literal[3], d]
) -> tuple[Matrix[d, d], Vector[d], Scalar]:
    """Every operator, with the shape that it has."""
    rows, cols = X.shape
    Z = X - X.mean(axis=0) + 1 - s
    S = Z.T @ Z / rows + s * inweave.eye(cols)
    column: Vector[n] = X[:, 0]
    row: Vector[d] = X[0]
    entry: Scalar = X[0, -1] + y[1] ** 2
    part: Vector[Literal[3]] = F @ u
    r = u @ S @ u + u.T @ S @ row + (y - X @ u + column).sum() + entry + part @ part
    for each in X:
        r = r + each @ u
    r = sum((each @ u for each in X), start=r)
    both = inweave.vstack([X[1:, :], X[[0, 1]]])
    r = r + inweave.trace(both.T @ both) + inweave.squared_norm(y[::-1]) - X[0, :] @ u
    a, b = inweave.iterate(lambda a, b: (b, a + b), (y, 2 * y), 4)
    t, count = inweave.iterate(counted, (s, 0.0), 4)
    r = r + a @ b + inweave.relu(r) * inweave.reciprocal(2 + s * s, domain=(1, 9)) - t * count
    fixed = np.eye(3) @ part
    r = r + fixed @ part + inweave.outer(u, y)[0, 0] + (2.0 * X)[0, 0] + X.sum(1) @ y

    def learned(v: Vector[d], x: Vector[d], t: Scalar) -> tuple[Vector[d], Scalar]:
        return v - s * (x @ v - t) * x, x @ v

    v, guesses = inweave.scan(learned, inweave.zeros(cols), X, y)
    r = r + guesses @ y + v @ u
    w = inweave.iterate(lambda w: w - s * (X.T @ (X @ w - y)), inweave.zeros(cols), 2)
    return inweave.matrix_power(S, 2), w, r


def counted(t: Scalar, k: Scalar) -> tuple[Scalar, Scalar]:
    return 2 * t, k + 1


net = inweave.compile(every, n=4, d=3)
data = {name: np.ones(shape) for name, shape in {"X": (4, 3), "y": (4,), "u": (3,)}.items()}
print(len(net(**data, s=0.5, F=np.ones((3, 3)))), every.function is not None)
'''

# Each line does not fit: the sizes of the signature say so.
BAD = {
    "X @ y": "operator",
    "X.T @ u": "operator",
    "u @ y": "operator",
    "y - u": "operator",
    "X + X.T": "operator",
    "X[0] @ y": "operator",
    "X.sum(0) @ y": "operator",
    "u.T @ y": "operator",
    "inweave.trace(X)": "misc",
    "X.cumsum()": "attr-defined",
}
HEAD = """
from typing import TypeVar

import inweave
from inweave import Matrix, Vector

n = TypeVar("n")
d = TypeVar("d")


def program(X: Matrix[n, d], y: Vector[n], u: Vector[d]) -> None:
"""

NEW_SYNTAX = """
import inweave
from inweave import Matrix, Vector


@inweave.program
def gram[n, d](X: Matrix[n, d], y: Vector[n]) -> Vector[d]:
    def twice(w: Vector[d]) -> Vector[d]:
        return 2 * w

    return twice(X.T @ y)


print(inweave.compile(gram, n=3, d=2).depth)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder: what type checks, what does not, and the example of the README."""
    made = tmp_path_factory.mktemp("user")
    (readme,) = blocks("python")
    files = {"good": GOOD.lstrip(), "readme": readme, "new": NEW_SYNTAX.lstrip()}
    files["bad"] = HEAD.lstrip() + "".join(f"    {line}\n" for line in BAD)
    for name, text in files.items():
        (made / f"{name}.py").write_text(text, encoding="utf-8")
    return made


# The user's own files are checked: inweave itself is where it is written, and these not at all.
MYPY = """
[mypy]
strict = True
python_version = 3.13

[mypy-inweave.*]
ignore_errors = True

[mypy-anywidget.*,dask.*,distributed.*,huggingface_hub.*,IPython.*,jax.*,matplotlib.*,torch.*]
follow_imports = skip
"""


@pytest.fixture(scope="module")
def mypy(folder: Path) -> list[str]:
    pytest.importorskip("mypy")
    (folder / "mypy.ini").write_text(MYPY, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini"]
    command += ["--cache-dir", str(folder / "cache"), "good.py", "readme.py", "new.py", "bad.py"]
    environment = os.environ | {"MYPYPATH": str(SOURCE)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", ["good", "readme", "new"])
def test_a_users_file_passes_mypy_in_its_strict_mode(mypy: list[str], name: str) -> None:
    assert [line for line in mypy if line.startswith(f"{name}.py")] == []


@pytest.mark.parametrize("wrong", BAD)
def test_what_does_not_fit_is_an_error_to_mypy(mypy: list[str], wrong: str) -> None:
    at = len(HEAD.lstrip().splitlines()) + list(BAD).index(wrong) + 1
    found = [line for line in mypy if line.startswith(f"bad.py:{at}: error")]
    assert found
    assert found[0].endswith(f"[{BAD[wrong]}]")


@pytest.mark.parametrize("name", ["good", "readme"])
def test_a_users_file_runs(folder: Path, name: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-W", "error", f"{name}.py"]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax is that of Python 3.12")
def test_a_file_in_the_syntax_of_python_3_12_runs(folder: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    subprocess.run([sys.executable, "new.py"], cwd=folder, env=environment, check=True)


def test_a_users_file_passes_ruff_with_its_defaults(folder: Path) -> None:
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent)) or shutil.which("ruff")
    if ruff is None:
        pytest.skip("ruff is not installed")
    command = [ruff, "check", "--isolated", "--target-version=py311", "good.py", "readme.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def pyright(folder: Path) -> dict[str, set[int]]:
    """The lines at which pyright finds errors, by file."""
    beside = str(Path(sys.executable).parent)
    command = shutil.which("basedpyright", path=beside) or shutil.which("pyright")
    if command is None:
        pytest.skip("pyright is not installed")
    settings = {"typeCheckingMode": "standard", "extraPaths": [str(SOURCE)], "include": ["*.py"]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    options = ["--outputjson", "--pythonpath", sys.executable, "--pythonversion", "3.13"]
    done = subprocess.run(
        [command, *options], cwd=folder, capture_output=True, text=True, check=False
    )
    found: dict[str, set[int]] = {}
    for each in json.loads(done.stdout)["generalDiagnostics"]:
        if each["severity"] == "error":
            lines = found.setdefault(Path(each["file"]).stem, set())
            lines.add(each["range"]["start"]["line"] + 1)
    return found


@pytest.mark.parametrize("name", ["good", "readme", "new"])
def test_a_users_file_passes_pyright(pyright: dict[str, set[int]], name: str) -> None:
    assert pyright.get(name, set()) == set()


@pytest.mark.parametrize("wrong", BAD)
def test_what_does_not_fit_is_an_error_to_pyright(pyright: dict[str, set[int]], wrong: str) -> None:
    assert len(HEAD.lstrip().splitlines()) + list(BAD).index(wrong) + 1 in pyright["bad"]


def test_nothing_of_the_package_is_left_out_of_type_checking() -> None:
    blanket = re.compile(r"^# mypy: ", re.MULTILINE)
    left_out = [p.name for p in SOURCE.rglob("*.py") if blanket.search(p.read_text("utf-8"))]
    assert left_out == []
