"""The command line: exit codes, messages without tracebacks, JSON, and files that are whole."""

from __future__ import annotations

import base64
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from inweave import load
from inweave.atomic import atomically
from inweave.cli import main, sources
from inweave.cli.app import COMMANDS, build
from inweave.data import diabetes
from inweave.files import network_file
from inweave.gallery import get
from tests import without_extras

pytestmark = pytest.mark.usefixtures("unchecked_passes")

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = """
import inweave
from inweave import Matrix, Scalar, Vector


@inweave.program
def ridge(
    X: Matrix["n", "d"], y: Vector["n"], u: Vector["d"], lam: Scalar, eta: Scalar, *, steps: int
) -> Scalar:
    def step(w):
        return w - eta * (X.T @ (X @ w - y) + lam * w)

    return u.T @ inweave.iterate(step, inweave.zeros(X.shape[1]), steps)


@inweave.program
def coefficients(X: Matrix["n", "d"], y: Vector["n"], s: Vector["n"]) -> Vector["d"]:
    return X.T @ (y + s)


@inweave.program
def broken(X: Matrix["n", "d"]) -> Matrix["n", "d"]:
    return X + undefined_name


@inweave.program
def wrong_shapes(X: Matrix["n", "d"]) -> Matrix["n", "n"]:
    return X @ X
"""
SIZES = ("n=6", "d=2", "steps=3")


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def inweave(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Any:
    """Run a command in a folder that holds some programs and tables."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "programs.py").write_text(PROGRAMS, encoding="utf-8")
    rng = np.random.default_rng(0)
    table = rng.normal(size=(6, 3))
    write(tmp_path / "train.csv", ["a", "b", "y"], table)
    write(tmp_path / "new.csv", ["b", "a"], rng.normal(size=(4, 2)))

    def run(*argv: str) -> Result:
        code = main(argv)
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return Result(code, said.out, said.err)

    return run


def write(path: Path, header: list[str], rows: Any) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])


def read(path: Path) -> dict[str, Any]:
    with path.open(encoding="utf-8", newline="") as stream:
        header, *rows = csv.reader(stream)
    return dict(zip(header, np.array(rows, dtype=float).T, strict=True))


RUN = ("--data", "train.csv", "--response", "y", "--query", "new.csv")


# -- every command ---------------------------------------------------------------------------------
@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_shows_an_example(inweave: Any, command: str) -> None:
    result = inweave(command, "--help")
    assert result.code == 0
    assert "For example:" in result.out
    assert f"inweave {command}" in result.out


@pytest.mark.parametrize("command", COMMANDS)
def test_the_list_of_commands_has_the_first_line_of_each(inweave: Any, command: str) -> None:
    line = COMMANDS[command]
    assert line in inweave("--help").out
    assert line in inweave(command, "--help").out


def test_the_bare_command_and_its_version_are_not_errors(inweave: Any) -> None:
    assert inweave().code == 0
    assert inweave("--version").code == 0


@pytest.mark.parametrize(
    "argv",
    [
        ("nonsense",),
        ("compile",),
        ("compile", "programs.py:ridge", *SIZES, "--optimize", "best"),
        ("compile", "programs.py:ridge", *SIZES, "--target", "softmax"),
        ("run", "programs.py:ridge"),
        ("show", "programs.py:ridge", *SIZES, "--bogus"),
        ("demo", "--steps", "many"),
        ("demo", "--steps", "0"),
    ],
)
def test_bad_usage_exits_with_2(inweave: Any, argv: tuple[str, ...]) -> None:
    assert inweave(*argv).code == 2


# -- programs --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("programs.py:ridge", "n=6"), "missing: d, steps"),
        (("programs.py:ridge", "n=6", "d=2", "steps=x"), "steps must be an int, got 'x'"),
        (("programs.py:ridge", "n"), "'n' is not of the form name=value"),
        (("programs.py:ridge", "n=1", "n=2"), "n is set twice"),
        (("programs.py:ridge", "n=0", "d=2", "steps=1"), "size n must be a positive int"),
        (("programs.py:ridge", "n={[]: 1}", "d=2", "steps=1"), "size n must be a positive int"),
        (("programs.py:absent", *SIZES), "no program 'absent'; its programs are: ridge"),
        (("programs.py:rdige", *SIZES), "no program 'rdige'; did you mean 'ridge'? its programs"),
        (("rdige_gd", *SIZES), "did you mean 'ridge_gd'? the gallery has"),
        (("programs.py", *SIZES), "say which program as programs.py:NAME"),
        (("absent.py:ridge", *SIZES), "there is no file absent.py"),
        (("folder.py:ridge", *SIZES), "folder.py is a folder; name a file"),
        (("no_such_name", *SIZES), "'no_such_name' is not a .inweave file, FILE.py:program"),
        (("programs.py:broken", "n=2", "d=2"), "programs.py, line 23: NameError"),
        (("programs.py:wrong_shapes", "n=2", "d=3"), "2 x 3"),
        (("programs.py:ridge", *SIZES, "-o", "net.txt"), "stored in .inweave files"),
        (("programs.py:ridge", *SIZES, "-o", "absent/net.inweave"), "absent is not a folder"),
    ],
)
def test_a_mistake_in_compile_is_named(
    inweave: Any, tmp_path: Path, argv: tuple[str, ...], said: str
) -> None:
    (tmp_path / "folder.py").mkdir()
    result = inweave("compile", *argv)
    assert result.code == 2
    assert said in result.err.replace("\n", " ")


def test_a_file_that_is_not_python_is_refused_with_its_line(inweave: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("x = 1\nx ==== 2\n", encoding="utf-8")
    result = inweave("compile", "bad.py:x")
    assert result.code == 2
    assert "bad.py, line 2: invalid syntax" in result.err
    (tmp_path / "bad.py").write_bytes(b"x = 1\0")
    assert "bad.py: source code string cannot contain null bytes" in inweave("show", "bad.py").err


@pytest.mark.parametrize("place", ["file", "program"])
def test_a_file_that_exits_is_refused_with_its_line(
    inweave: Any, tmp_path: Path, place: str
) -> None:
    last = "sys.exit(3)" if place == "file" else "broken.function = lambda X: sys.exit(3)"
    (tmp_path / "exits.py").write_text(f"{PROGRAMS}\nimport sys\n{last}\n", encoding="utf-8")
    result = inweave("compile", "exits.py:broken", "n=2", "d=2")
    assert result.code == 2
    assert "exits.py, line 31: SystemExit: 3" in result.err


def test_what_a_file_prints_is_not_the_answer(inweave: Any, tmp_path: Path) -> None:
    text = PROGRAMS.replace("    def step(w):", "    print('recorded')\n    def step(w):")
    (tmp_path / "talks.py").write_text(f"{text}\nprint('read')\n", encoding="utf-8")
    for command in ("compile", "show", "verify"):
        result = inweave(command, "talks.py:ridge", *SIZES, "--json")
        assert isinstance(json.loads(result.out), dict)
        assert {"read", "recorded"} <= {*result.err.split()}


def test_a_program_may_import_from_its_own_folder_when_it_is_recorded(
    inweave: Any, tmp_path: Path
) -> None:
    (tmp_path / "beside_it.py").write_text("two = 2\n", encoding="utf-8")
    text = PROGRAMS.replace("X + undefined_name", "__import__('beside_it').two * X")
    (tmp_path / "imports.py").write_text(text, encoding="utf-8")
    before = list(sys.path)
    assert inweave("compile", "imports.py:broken", "n=2", "d=2").code == 0
    assert sys.path == before


def test_debug_shows_the_traceback_beside_the_message_and_keeps_the_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(("--debug", "show", "absent.inweave")) == 2
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert said.endswith("error: there is no file absent.inweave\n")


# -- networks and their files ----------------------------------------------------------------------
def test_a_network_can_be_compiled_shown_and_verified(inweave: Any, tmp_path: Path) -> None:
    made = inweave("compile", "programs.py:ridge", *SIZES, "--target", "lsa", "-o", "net.inweave")
    assert made.code == 0
    assert "proved" in made.out
    assert {p.name for p in tmp_path.iterdir() if "net" in p.name} == {"net.inweave"}
    shown = inweave("show", "net.inweave")
    assert shown.code == 0
    assert "repeat 3 times" in shown.out
    assert inweave("verify", "net.inweave").code == 0
    again = inweave("verify", "net.inweave", "--program", "programs.py:ridge", "--seed", "7")
    assert again.code == 0
    assert "seed 7" in again.out


def test_a_network_of_another_program_fails_the_check_with_1(inweave: Any) -> None:
    inweave("compile", "programs.py:ridge", *SIZES, "-o", "net.inweave")
    result = inweave("verify", "net.inweave", "--program", "programs.py:ridge", "steps=4")
    assert result.code == 1
    assert "differ" in result.err
    as_json = inweave(
        "verify", "net.inweave", "--program", "programs.py:ridge", "steps=4", "--json"
    )
    assert as_json.code == 1
    assert json.loads(as_json.out)["verified"] is False


@pytest.mark.parametrize("kept", [200, 0])
@pytest.mark.parametrize("command", ["verify", "show", "explore"])
def test_a_damaged_file_is_bad_input(inweave: Any, tmp_path: Path, kept: int, command: str) -> None:
    inweave("compile", "programs.py:ridge", *SIZES, "-o", "net.inweave")
    path = tmp_path / "net.inweave"
    path.write_bytes(path.read_bytes()[:kept])
    result = inweave(command, "net.inweave")
    assert result.code == 2
    assert "net.inweave: this is no .inweave file, or its end is missing" in result.err


def test_json_of_compile_show_and_verify_can_be_read(inweave: Any) -> None:
    argv = ("programs.py:ridge", *SIZES, "--optimize", "depth", "--json")
    for command in ("compile", "show"):
        data = json.loads(inweave(command, *argv).out)
        assert data["depth"] == data["depth_lower_bound"] == 3
        assert data["degree"] == 10
        assert data["inputs"]["X"] == [6, 2]
        assert data["certificate"]["network"] == data["fingerprint"]
    data = json.loads(inweave("verify", *argv).out)
    assert data["verified"] is True


@pytest.mark.parametrize("option", [("--target", "lsa"), ("--optimize", "depth")])
@pytest.mark.parametrize("command", ["show", "verify", "explore", "run"])
def test_options_of_compiling_are_refused_for_a_network(
    inweave: Any, command: str, option: tuple[str, str]
) -> None:
    inweave("compile", "programs.py:ridge", *SIZES, "-o", "net.inweave")
    result = inweave(command, "net.inweave", *option, *(RUN if command == "run" else ()))
    assert result.code == 2
    assert f"net.inweave is a network already; leave out {' '.join(option)}" in result.err


def test_a_seed_or_a_number_of_trials_asks_for_random_points(inweave: Any) -> None:
    argv = ("verify", "programs.py:ridge", *SIZES, "--json")
    algebra = json.loads(inweave(*argv).out)["certificate"]
    assert algebra["method"] == "algebra"
    for option, least in (("--seed", 1), ("--trials", 9)):
        found = json.loads(inweave(*argv, option, "9").out)["certificate"]
        assert found["method"] != "algebra"
        assert found["trials"] >= least
        assert found["probability"] < 1e-12


@pytest.mark.parametrize(
    "argv",
    [
        ("compile", "programs.py:ridge", *SIZES, "-o", "absent/net.inweave"),
        ("explore", "programs.py:ridge", *SIZES, "-o", "absent/net.html"),
        ("run", "programs.py:ridge", "lam=1", "eta=1", "steps=1", *RUN, "-o", "absent/out.csv"),
        ("demo", "--page", "absent/page.html"),
    ],
)
def test_a_place_for_output_is_refused_before_any_work(inweave: Any, argv: tuple[str, ...]) -> None:
    result = inweave(*argv)
    assert result.code == 2
    assert result.err == "error: absent is not a folder; make it first\n"


# -- running on tables -----------------------------------------------------------------------------
def expected(path: Path, lam: float, eta: float, steps: int) -> Any:
    """Gradient descent as a textbook has it."""
    train, new = read(path / "train.csv"), read(path / "new.csv")
    X, y = np.stack([train["a"], train["b"]], axis=1), train["y"]
    w = np.zeros(2)
    for _ in range(steps):
        w -= eta * (X.T @ (X @ w - y) + lam * w)
    return np.stack([new["a"], new["b"]], axis=1) @ w


def test_predictions_are_those_of_gradient_descent_and_columns_go_by_name(
    inweave: Any, tmp_path: Path
) -> None:
    result = inweave(
        "run", "programs.py:ridge", "lam=0.5", "eta=0.1", "steps=3", *RUN, "-o", "out.csv"
    )
    assert result.code == 0
    found = read(tmp_path / "out.csv")["y"]
    np.testing.assert_allclose(found, expected(tmp_path, 0.5, 0.1, 3), rtol=1e-12)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".npz", ".parquet"])
def test_a_saved_network_runs_and_writes_every_kind_of_table(
    inweave: Any, tmp_path: Path, suffix: str
) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    inweave("compile", "programs.py:ridge", *SIZES, "-o", "net.inweave")
    result = inweave("run", "net.inweave", "lam=0.5", "eta=0.1", *RUN, "-o", f"out{suffix}")
    assert result.code == 0, result.err
    from inweave.cli import tables

    found = tables.read(tmp_path / f"out{suffix}").numbers(["y"])[:, 0]
    np.testing.assert_allclose(found, expected(tmp_path, 0.5, 0.1, 3), rtol=1e-12)


def test_without_an_output_file_predictions_go_to_standard_output(inweave: Any) -> None:
    result = inweave("run", "programs.py:ridge", "lam=0.5", "eta=0.1", "steps=3", *RUN)
    header, *rows = result.out.splitlines()
    assert header == "y"
    assert len(rows) == 4


def test_json_of_run_holds_the_answers(inweave: Any, tmp_path: Path) -> None:
    result = inweave("run", "programs.py:ridge", "lam=0.5", "eta=0.1", "steps=3", *RUN, "--json")
    found = json.loads(result.out)["answers"]["y"]
    np.testing.assert_allclose(found, expected(tmp_path, 0.5, 0.1, 3), rtol=1e-12)


def test_target_is_the_architecture_in_run_as_in_every_command(inweave: Any) -> None:
    argv = ("programs.py:ridge", "lam=0.5", "eta=0.1", "steps=3", *RUN, "--json")
    for target in ("elsa", "lsa"):
        result = inweave("run", *argv, "--target", target)
        assert json.loads(result.out)["network"]["target"] == target


def test_arrays_by_name_need_no_table(inweave: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    X, y, u = rng.normal(size=(6, 2)), rng.normal(size=6), rng.normal(size=2)
    np.savez(tmp_path / "in.npz", X=X, y=y, u=u)
    argv = ("programs.py:ridge", "lam=0", "eta=0.1", "steps=1", "--data", "in.npz")
    result = inweave("run", *argv)
    assert result.code == 0
    assert float(result.out.split()[1]) == pytest.approx(float(u @ (0.1 * X.T @ y)))


def test_a_file_that_is_no_npz_is_refused_in_its_own_terms(inweave: Any, tmp_path: Path) -> None:
    def said() -> str:
        argv = ("programs.py:ridge", "lam=0", "eta=0.1", "steps=1", "--data", "in.npz")
        result = inweave("run", *argv)
        assert result.code == 2
        assert "pickle" not in result.err
        return str(result.err)

    path = tmp_path / "in.npz"
    with path.open("wb") as stream:
        np.save(stream, np.ones(3))
    assert "in.npz is not an .npz file; np.savez('in.npz', X=X) writes one" in said()
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    assert "in.npz is not an .npz file" in said()
    np.savez(path, X=np.array([[], 1], dtype=object))
    assert "in.npz: 'X' is no plain array: damaged, or made of objects" in said()
    with zipfile.ZipFile(path, "w") as stream:
        stream.writestr("letter.txt", "Dear reader")
    assert "in.npz: 'letter.txt' is no plain array" in said()


def test_a_column_may_fill_a_vector_and_coefficients_carry_the_names_of_features(
    inweave: Any, tmp_path: Path
) -> None:
    table = np.random.default_rng(2).normal(size=(5, 4))
    write(tmp_path / "four.csv", ["a", "b", "y", "extra"], table)
    argv = ("programs.py:coefficients", "s=extra", "--data", "four.csv", "--response", "y")
    rows = [line.split(",") for line in inweave("run", *argv).out.splitlines()]
    assert [row[0] for row in rows] == ["entry", "a", "b"]
    expected = table[:, :2].T @ (table[:, 2] + table[:, 3])
    np.testing.assert_allclose([float(row[1]) for row in rows[1:]], expected)


def test_standardized_predictions_come_back_in_the_units_of_the_response(
    inweave: Any, tmp_path: Path
) -> None:
    data = diabetes()
    names = [*data.features, data.response]
    write(tmp_path / "all.csv", names, np.column_stack([data.X, data.y]))
    argv = ("lam=40", "eta=0.001", "steps=729", "--optimize", "depth", "--standardize")
    tables = ("--data", "all.csv", "--response", "progression", "--query", "all.csv")
    result = inweave("run", "programs.py:ridge", *argv, *tables, "-o", "out.csv")
    assert result.code == 0, result.err
    X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    w = np.linalg.solve(X.T @ X + 40 * np.eye(10), X.T @ (data.y - data.y.mean()))
    found = read(tmp_path / "out.csv")["progression"]
    np.testing.assert_allclose(found, X @ w + data.y.mean(), rtol=1e-8)
    assert "units" not in result.err


def test_answers_that_stay_standardized_say_so(inweave: Any) -> None:
    argv = ("run", "programs.py:coefficients", "s=0", "--data", "train.csv", "--response", "y")
    assert "in units of the standardized data" in inweave(*argv, "--standardize").err
    assert "units" not in inweave(*argv).err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b,y\n1,2,3\n4,,6\n", "column 'b', row 2: the value is missing"),
        ("a,b,y\n1,2,3\n4,NA,6\n", "column 'b', row 2: the value is missing"),
        ("a,b,y\n1,2,3\n4,red,6\n", "column 'b', row 2: 'red' is not a number"),
        ("a,b,y\n1,2,3\n4,inf,6\n", "column 'b', row 2: inf is not a finite number"),
        ("a,b,y\n1,2,3\n4,5\n", "row 2: 2 values, but the header names 3 columns"),
        ("a,b,b\n1,2,3\n", "column name 'b' is used twice"),
        ("1,2,3\n4,5,6\n", "the first line must name the columns"),
        ("a,b,z\n1,2,3\n", "no column 'y'; its columns are a, b, z"),
        ("a,b,y\n", "a header but no rows"),
        ("", "is empty"),
    ],
)
def test_a_bad_table_is_refused_with_column_and_row(
    inweave: Any, tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "train.csv").write_text(text, encoding="utf-8")
    argv = ("run", "programs.py:ridge", "lam=1", "eta=0.1", "steps=2", *RUN, "-o", "out.csv")
    result = inweave(*argv)
    assert result.code == 2
    assert "train.csv" in result.err
    assert said in result.err
    assert not (tmp_path / "out.csv").exists()


def test_a_parquet_file_whose_columns_share_a_name_is_refused(inweave: Any, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table([[1.0], [2.0], [3.0]], names=["a", "a", "y"])
    parquet.write_table(table, tmp_path / "train.parquet")
    argv = ("programs.py:ridge", "lam=1", "eta=0.1", "steps=2", "--data", "train.parquet")
    result = inweave("run", *argv, "--response", "y")
    assert result.code == 2
    assert "train.parquet: column name 'a' is used twice" in result.err


def test_a_quoted_cell_may_hold_a_comma_and_a_line_break(inweave: Any, tmp_path: Path) -> None:
    text = '\ufeffname;a;b;y\n"p; q, r";1;2;3\n\n"r\ns";4;5;6\n'
    (tmp_path / "train.csv").write_text(text, encoding="utf-8")
    argv = ("run", "programs.py:ridge", "lam=1", "eta=0.01", "steps=2", *RUN)
    assert inweave(*argv, "--columns", "a,b").code == 0


def test_text_columns_may_be_left_out(inweave: Any, tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("id,a,b,y\np,1,2,3\nq,4,5,6\n", encoding="utf-8")
    argv = ("run", "programs.py:ridge", "lam=1", "eta=0.01", "steps=2", *RUN)
    assert "column 'id', row 1: 'p' is not a number" in inweave(*argv).err
    assert inweave(*argv, "--columns", "a,b").code == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("n=5", "d=2", "steps=3"), "train.csv has 6 rows, this network is for 5: row 6 is"),
        (("n=7", "d=2", "steps=3"), "train.csv has 6 rows, this network is for 7"),
        (("n=6", "d=3", "steps=3"), "gives 2 feature columns (a, b), this network is for 3"),
    ],
)
def test_a_table_that_does_not_fit_the_network_is_refused(
    inweave: Any, change: tuple[str, ...], said: str
) -> None:
    inweave("compile", "programs.py:ridge", *change, "-o", "net.inweave")
    result = inweave("run", "net.inweave", "lam=1", "eta=0.1", *RUN)
    assert result.code == 2
    assert said in result.err


@pytest.fixture
def wider(tmp_path: Path) -> tuple[str, ...]:
    """A table with one column more than the networks below are compiled for."""
    rng = np.random.default_rng(3)
    write(tmp_path / "wider.csv", ["a", "b", "c", "y"], rng.normal(size=(6, 4)))
    write(tmp_path / "asked.csv", ["a", "b", "c"], rng.normal(size=(4, 3)))
    return ("--data", "wider.csv", "--response", "y", "--query", "asked.csv")


def test_a_saved_network_is_resized_to_the_table_where_its_weights_allow_it(
    inweave: Any, wider: tuple[str, ...]
) -> None:
    inweave("compile", "programs.py:ridge", *SIZES, "-o", "net.inweave")
    given = ("lam=0.5", "eta=0.1", *wider)
    result = inweave("run", "net.inweave", *given, "--program", "programs.py:ridge", "--json")
    assert result.code == 0, result.err
    assert "resized net.inweave from d=2 to d=3: same weights" in result.err
    found, fresh = (
        json.loads(ran.out)
        for ran in (result, inweave("run", "programs.py:ridge", "steps=3", *given, "--json"))
    )
    np.testing.assert_allclose(found["answers"]["y"], fresh["answers"]["y"], rtol=1e-12)
    assert found["network"]["inputs"]["X"] == [6, 3]
    assert found["network"]["certificate"]["network"] == found["network"]["fingerprint"]


def test_a_saved_network_of_the_gallery_is_resized_without_naming_its_program(
    inweave: Any, wider: tuple[str, ...]
) -> None:
    inweave("compile", "ridge_gd", *SIZES, "-o", "net.inweave")
    given = ("lam=0.5", "eta=0.1", "w0=0", *wider)
    result = inweave("run", "net.inweave", *given)
    assert result.code == 0, result.err
    assert "resized net.inweave from d=2 to d=3" in result.err
    assert result.out == inweave("run", "ridge_gd", "steps=3", *given).out


def test_a_program_that_is_not_the_files_is_refused_at_any_size(inweave: Any) -> None:
    inweave("compile", "programs.py:ridge", *SIZES, "-o", "net.inweave")
    argv = ("net.inweave", "lam=1", "eta=0.1", "w0=0", "--program", "ridge_gd", *RUN)
    result = inweave("run", *argv)
    assert result.code == 2
    assert "ridge_gd is not the program of net.inweave, which is 'ridge'" in result.err


def test_weights_that_the_program_does_not_compile_to_are_not_resized(
    inweave: Any, tmp_path: Path, wider: tuple[str, ...]
) -> None:
    inweave("compile", "programs.py:ridge", *SIZES, "-o", "net.inweave")
    inweave("compile", "programs.py:ridge", *SIZES, "--optimize", "depth", "-o", "deep.inweave")
    _, record, _ = network_file.load(tmp_path / "net.inweave")
    network_file.save(tmp_path / "mixed.inweave", load(tmp_path / "deep.inweave"), record)
    argv = ("mixed.inweave", "lam=0.5", "eta=0.1", *wider, "--program", "programs.py:ridge")
    result = inweave("run", *argv)
    assert result.code == 2
    assert "'ridge' does not compile to this network, so it cannot be resized" in result.err


def test_a_network_that_fits_its_table_is_not_resized(inweave: Any) -> None:
    inweave("compile", "programs.py:ridge", *SIZES, "-o", "net.inweave")
    argv = ("run", "net.inweave", "lam=0.5", "eta=0.1", *RUN)
    named = inweave(*argv, "--program", "programs.py:ridge")
    assert named.code == 0
    assert "resized" not in named.err
    assert named.out == inweave(*argv).out


def test_a_file_that_only_claims_to_be_of_the_gallery_is_not_resized(
    inweave: Any, wider: tuple[str, ...], tmp_path: Path
) -> None:
    text = PROGRAMS.replace("def ridge(", "def ridge_gd(")
    (tmp_path / "programs.py").write_text(text, encoding="utf-8")
    inweave("compile", "programs.py:ridge_gd", *SIZES, "-o", "net.inweave")
    result = inweave("run", "net.inweave", "lam=1", "eta=0.1", *wider)
    assert result.code == 2
    assert "this network is for 2" in result.err


@pytest.mark.parametrize(
    ("compiled", "program", "said"),
    [
        (
            ("ridge", "n=5", "d=2"),
            ("ridge",),
            "the data has n=6, net.inweave is for n=5, and its wei",
        ),
        (
            ("ridge", "n=5", "d=2"),
            ("ridge",),
            "compiled for any size: inweave run programs.py:ridge",
        ),
        (("ridge", "n=6", "d=3"), ("other",), "other.py:other is not the program of net.inweave"),
        (("ridge", "n=6", "d=3"), (), "to resize it where its weights allow that, add --program"),
    ],
)
def test_a_network_that_cannot_be_resized_says_why_and_what_to_do(
    inweave: Any, tmp_path: Path, compiled: tuple[str, ...], program: tuple[str, ...], said: str
) -> None:
    other = PROGRAMS.replace("def ridge(", "def other(").replace("lam * w", "2 * lam * w")
    (tmp_path / "other.py").write_text(other, encoding="utf-8")
    name, *sizes = compiled
    inweave("compile", f"programs.py:{name}", *sizes, "steps=3", "-o", "net.inweave")
    argv = ["run", "net.inweave", "lam=1", "eta=0.1", *RUN]
    for named in program:
        argv += ["--program", f"{'other' if named == 'other' else 'programs'}.py:{named}"]
    result = inweave(*argv)
    assert result.code == 2
    assert said in result.err


def test_naming_the_program_of_a_program_is_refused(inweave: Any) -> None:
    argv = ("programs.py:ridge", "lam=1", "eta=0.1", "steps=1", *RUN)
    result = inweave("run", *argv, "--program", "programs.py:ridge")
    assert result.code == 2
    assert "--program goes with a .inweave file" in result.err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("lam=1", "steps=2", *RUN), "no value for eta (scalar)"),
        (("lam=1", "eta=1", "mu=2", "steps=2", *RUN), "mu: no such input"),
        (("lam=1", "eta=1", "steps=2", "--data", "train.csv"), "with --response"),
        (("lam=1", "eta=1", "steps=2", *RUN[:4]), "no value for u (vector)"),
        (("lam=1", "eta=1", "steps=2", *RUN[:4]), "--query TABLE fills u from its rows"),
        (("lam=1", "eta=1", "steps=2", "u=1", *RUN), "no vector for --query: u is given as u=1"),
        (("lam=1", "eta=1", "steps=2", "y=1", *RUN), "for --response: y is given as y=1"),
        (("lam=1", "eta=1", "steps=2", *RUN, "--columns", "a,a"), "--columns names 'a' twice"),
        (("lam=1", "eta=1", "steps=2", "--data", "."), ". is a folder; name a file"),
        (("lam=1", "eta=1", "steps=2", "n=9", *RUN), "n=9, but the data has n = 6"),
        (("lam=1", "eta=99", "steps=999", *RUN), "diverged"),
        (("lam=1", "eta=1", "steps=2", *RUN, "-o", "out.xls"), "can write .csv"),
        (("lam=1", "eta=1", "steps=2", "--data", "gone.csv"), "there is no file gone.csv"),
    ],
)
def test_a_mistake_in_run_is_named(inweave: Any, argv: tuple[str, ...], said: str) -> None:
    result = inweave("run", "programs.py:ridge", *argv)
    assert result.code == 2
    assert said in result.err


# -- the demo --------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "inweave", "demo", "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=True)
    return json.loads(done.stdout)


def test_every_network_of_the_demo_is_proved_and_agrees_with_numpy(demo: Any) -> None:
    assert len(demo["networks"]) == 7
    for name, network in demo["networks"].items():
        assert network["certificate"]["probability"] < 1e-11
        assert network["certificate"]["network"] == network["fingerprint"]
        assert demo["largest_difference"][name]["gradient_descent"] < 1e-10
        assert demo["largest_difference"][name]["closed_form"] < 1e-10


def test_the_demo_shows_that_depth_mode_reaches_the_bound(demo: Any) -> None:
    assert demo["depth_lower_bound"] == 8
    assert demo["networks"]["ELSA, depth"]["depth"] == 8
    assert demo["networks"]["LSA, depth"]["depth"] == 8


def test_the_demo_fits_80_columns(inweave: Any) -> None:
    result = inweave("demo", "--steps", "3")
    assert result.code == 0
    assert max(map(len, result.out.splitlines())) <= 80


def test_the_shipped_data_is_the_diabetes_data_of_scikit_learn() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    reference = datasets.load_diabetes(scaled=False)
    data = diabetes()
    assert data.features == tuple(reference.feature_names)
    np.testing.assert_array_equal(data.X, reference.data)
    np.testing.assert_array_equal(data.y, reference.target)


# -- whole files, light imports --------------------------------------------------------------------
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_failure_while_writing_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, error: type[BaseException]
) -> None:
    path = tmp_path / "kept.csv"
    path.write_text("old", encoding="utf-8")

    def half() -> None:
        with atomically(path) as file:
            file.write(b"new, but only hal")
            raise error

    with pytest.raises(error):
        half()
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name != "posix", reason="signals are sent as POSIX has them")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_exits_with_130_and_leaves_no_file(tmp_path: Path, how: int) -> None:
    (tmp_path / "slow.py").write_text(
        PROGRAMS + "\nimport time\nprint('ready', flush=True)\ntime.sleep(30)\n", encoding="utf-8"
    )
    command = [sys.executable, "-m", "inweave", "compile", "slow.py:ridge", *SIZES]
    running = subprocess.Popen(
        [*command, "-o", "net.inweave"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    assert running.stderr.readline() == "ready\n"
    start = time.monotonic()
    running.send_signal(how)
    _, err = running.communicate(timeout=20)
    assert running.returncode == 130
    assert time.monotonic() - start < 20
    assert "interrupted" in err
    assert "Traceback" not in err
    assert [p.name for p in tmp_path.iterdir() if "net" in p.name] == []


def test_importing_inweave_loads_no_command_line(tmp_path: Path) -> None:
    heavy = "('rich', 'cyclopts', 'safetensors', 'torch', 'matplotlib', 'pyarrow', 'sklearn')"
    code = f"import sys, inweave; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "argv", [["--help"], ["lab", "run", "--help"], *([name, "--help"] for name in COMMANDS)]
)
def test_help_loads_nothing_that_computes(tmp_path: Path, argv: list[str]) -> None:
    heavy = "('inweave.network', 'numpy', 'torch')"
    code = (
        "import sys; from inweave.cli import main; "
        f"main({argv}); print([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_output_that_is_not_a_terminal_has_plain_progress_lines_and_no_colour(inweave: Any) -> None:
    result = inweave("compile", "programs.py:ridge", *SIZES)
    assert result.err.splitlines() == ["compiling ridge ...", "verifying ..."]
    assert "\x1b" not in result.out + result.err


# -- parts that have tests of their own ------------------------------------------------------------
def test_explore_writes_one_page(inweave: Any, tmp_path: Path) -> None:
    result = inweave("explore", "programs.py:ridge", *SIZES, "-o", "net.html")
    assert "data: random numbers, seed 0; --data shows your own" in result.err
    assert result.code == 0
    assert "<html" in (tmp_path / "net.html").read_text(encoding="utf-8")
    assert inweave("explore", "programs.py:ridge", *SIZES, "-o", "net.txt").code == 2


def explored(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a page holds: itself, and its first blocks by name."""
    page = re.search(r'id="inweave-data">(.*?)</script>', path.read_text("utf-8"), re.DOTALL)
    assert page is not None
    data = json.loads(page[1])
    (net,) = data["networks"]
    H = np.frombuffer(base64.b64decode(net["first"]["data"])).reshape(net["first"]["shape"])
    blocks = {
        b["name"]: H[: b["rows"], b["start"] :][:, : b["cols"]] for b in net["layout"]["blocks"]
    }
    return data, blocks


def test_explore_shows_a_table_and_the_first_query(inweave: Any, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(6, 3)).round(3)
    np.savetxt(tmp_path / "t.csv", rows, delimiter=",", header="a,b,y", comments="")
    result = inweave("explore", "ridge_gd", "steps=2", "w0=0", "lam=1", "eta=0.1", "--data",
                     "t.csv", "--response", "y", "--query", "t.csv", "-o", "net.html")  # fmt: skip
    assert result.code == 0, result.err
    assert "u: the first of 6 rows of t.csv" in result.err
    data, blocks = explored(tmp_path / "net.html")
    assert data["inputs"] == "the data that were given"
    assert np.array_equal(blocks["Xᵀ"], rows[:, :2].T)
    assert np.array_equal(blocks["u"][:, 0], rows[0, :2])
    assert "warning" not in result.err
    wild = inweave("explore", "ridge_gd", "steps=400", "w0=0", "lam=1", "eta=1e3", "--data",
                   "t.csv", "--response", "y", "--query", "t.csv", "-o", "net.html")  # fmt: skip
    assert wild.code == 0, wild.err
    assert "warning: the iteration diverged" in wild.err
    refused = inweave("explore", "ridge_gd", "--response", "y")
    assert refused.code == 2
    assert "--response is about the table of --data, and there is none" in refused.err


def test_explore_shows_an_entry_of_the_gallery_at_its_own_sizes(
    inweave: Any, tmp_path: Path
) -> None:
    entry = get("ridge_gd")
    result = inweave("explore", "ridge_gd", "steps=2", "-o", "net.html")
    assert result.code == 0
    assert "data: the gallery's example of ridge_gd, seed 0; --data shows your own" in result.err
    data, blocks = explored(tmp_path / "net.html")
    sizes = {name: str(size) for name, size in {**entry.sizes, "steps": 2}.items()}
    assert data["networks"][0]["report"]["sizes"] == sizes
    assert np.array_equal(blocks["Xᵀ"], entry.example(steps=2)["X"].T)


LAB = ("train", "evaluate", "run", "report", "sweep", "list")


@pytest.mark.parametrize("command", LAB)
def test_help_of_the_lab_names_its_commands_as_they_are_typed(inweave: Any, command: str) -> None:
    typed = f"inweave lab {command}"
    result = inweave("lab", command, "--help")
    assert result.code == 0
    assert result.out.startswith(f"Usage: {typed}")
    assert typed in result.out.partition("For example:")[2]
    assert f" {command} " in inweave("lab", "--help").out


def test_a_mistake_in_a_command_of_the_lab_points_to_its_help(inweave: Any) -> None:
    for argv, said in ((("nonsense",), "see inweave lab --help"),
                       (("train",), "see inweave lab train --help")):  # fmt: skip
        result = inweave("lab", *argv)
        assert result.code == 2
        assert result.err.strip().endswith(said)


def test_a_folder_without_a_run_is_named_in_words(inweave: Any) -> None:
    pytest.importorskip("torch")
    result = inweave("lab", "evaluate", "nope")
    assert result.code == 2
    assert "nope holds no readable checkpoint: nope/checkpoint.json: No such file" in result.err


def test_what_needs_an_extra_says_which() -> None:
    done = subprocess.run(
        [sys.executable, without_extras.__file__], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "inweave.nn needs torch, which the extra 'torch' installs" in done.stdout


def without_torch(*argv: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; sys.modules['torch'] = None; from inweave.cli import main; sys.exit(main())"
    words = [sys.executable, "-c", code, *argv]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_the_experiments_are_listed_without_torch() -> None:
    done = without_torch("lab", "list")
    assert done.returncode == 0
    assert "one-step" in done.stdout.split()


def test_the_lab_says_which_extra_it_needs() -> None:
    done = without_torch("lab", "run", "one-step")
    assert done.returncode == 2
    assert done.stderr.startswith("error: the lab needs torch, which the extra 'lab' installs")


CIRCUITS = ("build", "baselines")


@pytest.mark.parametrize(
    "command",
    [
        *((c,) for c in COMMANDS),
        *(("lab", c) for c in LAB),
        *(("circuits", c) for c in CIRCUITS),
    ],
)
def test_the_examples_in_help_are_commands_that_are_taken(
    inweave: Any, command: tuple[str, ...]
) -> None:
    """Every example is read by the parser, which refuses unknown words and options."""
    examples = shown_examples(inweave, *command)
    assert examples
    for example in examples:
        assert example[: len(command)] == list(command)
        build(example).parse_args(example, exit_on_error=False, print_error=False)


def shown_examples(inweave: Any, *command: str) -> list[list[str]]:
    """The command lines that a command's help shows, without the first word."""
    shown = inweave(*command, "--help").out.partition("For example:")[2].partition("╭")[0]
    words = [line.split() for line in re.sub(r"\\\s*\n", "", shown).splitlines()]
    return [line[line.index("inweave") + 1 :] for line in words if "inweave" in line]


def test_what_the_examples_in_help_work_on_is_there(inweave: Any, tmp_path: Path) -> None:
    """The gallery's, the example of the source tree, or what `compile` is shown to write."""
    (tmp_path / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "ridge.py", tmp_path / "examples")
    _, saving = shown_examples(inweave, "compile")
    assert inweave(*saving).code == 0
    for command in ("compile", "show", "frontier", "verify", "run", "explore", "decompile"):
        for _, source, *more in shown_examples(inweave, command):
            sources.find(source)
            if "--program" in more:
                sources.find_program(more[more.index("--program") + 1])


def test_bash_completes_commands_options_and_values(inweave: Any, tmp_path: Path) -> None:
    (tmp_path / "script").write_text(inweave("completion", "bash").out, encoding="utf-8")
    for words, expected in (("lab r", "report run"), ("run net --resp", "--response"),
                            ("compile net --target l", "lsa")):  # fmt: skip
        asked = f"COMP_WORDS=(inweave {words}); COMP_CWORD={len(words.split())}"
        line = f'source ./script; {asked}; _inweave; echo "${{COMPREPLY[@]}}"'
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
        assert sorted(done.stdout.split()) == expected.split()


def test_the_benchmark_is_found_in_the_source_tree_only(inweave: Any) -> None:
    result = inweave("bench")
    assert result.code == 2
    assert "make bench" in result.err


def test_the_benchmark_is_run_where_it_is_and_its_exit_code_is_kept(
    inweave: Any, tmp_path: Path
) -> None:
    (tmp_path / "benchmarks").mkdir()
    code = "import sys; sys.exit(sys.argv[1:] != ['--store', '--only', 'a', 'b'])"
    (tmp_path / "benchmarks" / "__main__.py").write_text(code, encoding="utf-8")
    assert inweave("bench", "--only", "a", "b", "--store").code == 0
    assert inweave("bench").code == 1
    assert "--store" in inweave("bench", "--help").out


@pytest.mark.skipif(os.name != "posix", reason="pipes are closed as POSIX has them")
def test_a_reader_that_goes_away_is_not_an_error(tmp_path: Path) -> None:
    (tmp_path / "programs.py").write_text(PROGRAMS, encoding="utf-8")
    shown = f"{sys.executable} -m inweave show programs.py:ridge {' '.join(SIZES)}"
    for command in (shown, f"{shown} --json", f"{sys.executable} -m inweave --help"):
        line = f"set -o pipefail; {command} | true"
        done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        assert b"Traceback" not in done.stderr
        assert b"Exception" not in done.stderr


def test_a_gallery_entry_is_shown_with_its_reference_and_can_be_named_as_a_program(
    inweave: Any,
) -> None:
    shown = inweave("gallery", "ridge_gd")
    assert shown.code == 0
    assert "largest relative difference from the reference" in shown.out
    data = json.loads(inweave("gallery", "ridge_gd", "--json").out)
    assert data["difference"] < 1e-10
    assert inweave("gallery", "nonsense").code == 2
    ran = inweave("run", "ridge_gd", "lam=0.5", "eta=0.1", "steps=3", "w0=0", *RUN)
    assert ran.code == 0


def test_the_gallery_is_listed_as_a_table_and_as_json(
    inweave: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inweave.cli.listing.entries", lambda: [get("ridge_gd")])
    listed = inweave("gallery")
    assert listed.code == 0
    assert "ridge_gd" in listed.out
    assert json.loads(inweave("gallery", "--json").out)["ridge_gd"]["certificate"] is not None


def test_a_network_is_read_back_as_a_program(inweave: Any) -> None:
    inweave("compile", "programs.py:ridge", *SIZES, "-o", "net.inweave")
    shown = inweave("decompile", "net.inweave")
    assert shown.code == 0
    Path("again.py").write_text(shown.out, encoding="utf-8")
    checked = inweave("verify", "net.inweave", "--program", "again.py:algorithm")
    assert checked.code == 0  # although its sizes, which the file knows, are no arguments of it
    again = inweave("compile", "again.py:algorithm")
    assert again.code == 0
    assert "proved" in again.out
    late = inweave("decompile", "net.inweave", "--seconds", "0")
    assert late.code == 2
    assert "the time for reading is over" in late.err
    assert "--seconds must be 0 or more" in inweave("decompile", "net.inweave", "--seconds=-1").err
