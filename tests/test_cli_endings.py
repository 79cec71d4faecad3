"""How commands end: in every encoding, whoever listens, whatever they are told to write over."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import inweave
from inweave.cli import main, sources
from inweave.cli.app import EPILOGUE
from inweave.cli.endings import CRASHED
from inweave.gallery import get

pytestmark = pytest.mark.usefixtures("unchecked_passes")
ROOT = Path(__file__).parent.parent
posix = pytest.mark.skipif(os.name != "posix", reason="signals and links as POSIX has them")
FILL = ("lam=1", "eta=0.01", "w0=0", "--data", "t.csv", "--response", "größe", "--query", "t.csv")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("endings")
    get("ridge_gd").compile(n=4, d=2, steps=3).save(made / "net.inweave")
    return made


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(folder)
    (folder / "t.csv").write_text("a,b,größe\n1,2,3\n4,5,6\n7,8,10\n0,1,1\n", encoding="utf-8")
    yield
    for path in folder.iterdir():
        if path.name != "net.inweave":
            path.unlink()


def said(encoding: str, argv: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """The exit code and what stands on a standard output of this encoding."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2)]
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", streams[0])
        patch.setattr(sys, "stderr", streams[1])
        code = main(argv)
    for stream in streams:
        stream.flush()
    out, err = (stream.buffer.getvalue().decode(encoding) for stream in streams)  # type: ignore[attr-defined]
    assert "Traceback" not in err
    return code, out


# -- encodings -------------------------------------------------------------------------------------
ENDINGS: list[tuple[tuple[str, ...], int]] = [
    (("show", "net.inweave"), 0),
    (("show", "net.inweave", "--json"), 0),
    (("verify", "net.inweave"), 0),
    (("explore", "net.inweave", "-o", "page.html"), 0),
    (("run", "net.inweave", *FILL), 0),
    (("run", "net.inweave", *FILL, "--standardize", "--json"), 0),
    (("gallery", "größe"), 2),
    (("gallery", "ridge_gd"), 0),
    (("show", "Größe→ᵀ.inweave"), 2),
    (("run", "net.inweave", "ᵀ=1", *FILL), 2),
    (("--help",), 0),
    (("lab", "--help"), 0),
    (("lab", "list"), 0),
]


@pytest.mark.parametrize(("argv", "code"), ENDINGS, ids=[" ".join(argv[:2]) for argv, _ in ENDINGS])
def test_every_command_ends_alike_in_every_encoding(
    argv: tuple[str, ...], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be written is replaced, character by character; JSON loses nothing."""
    whole = said("utf-8", argv, monkeypatch)
    assert whole[0] == code
    for encoding in ("ascii", "latin-1", "cp1252"):
        found = said(encoding, argv, monkeypatch)
        assert found[0] == code
        if "--json" in argv:
            assert json.loads(found[1]) == json.loads(whole[1])
        elif not any(edge in whole[1] for edge in "─━"):  # frames are drawn with other lines
            replaced = whole[1].encode(encoding, "replace").decode(encoding)
            assert found[1].split() == replaced.split()


# -- exit codes ------------------------------------------------------------------------------------
def test_the_exit_codes_are_documented_where_commands_are() -> None:
    [line] = [line for line in EPILOGUE.splitlines() if line.startswith("Exit codes: ")]
    for place in ("README.md", "docs/howto/own-data.md"):
        assert line.removeprefix("Exit codes: ").rstrip(".") in " ".join(
            (ROOT / place).read_text(encoding="utf-8").replace("`", "").split()
        )


def test_a_crash_is_told_from_a_refusal_and_from_a_failed_check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(text: str) -> Any:
        raise KeyError(text)

    monkeypatch.setattr(sources.inweave, "load", broken)
    assert main(["show", "net.inweave"]) == CRASHED
    err = capsys.readouterr().err
    assert "Traceback" in err, "what a report needs"
    assert err.splitlines()[-1].startswith("error: KeyError: a defect of inweave; please report")


# -- writing over what is read ---------------------------------------------------------------------
OVER = [
    ("t.csv", ("run", "net.inweave", *FILL, "-o")),
    ("other.csv", ("run", "net.inweave", *FILL[:-1], "other.csv", "-o")),
    ("t.npz", ("run", "net.inweave", *FILL[:2], "--data", "t.npz", "-o")),
    ("net.html.py", ("explore", "net.html.py:ridge", "n=4", "d=2", "steps=1", "-o")),
    ("net.py", ("compile", "net.py:ridge", "n=4", "d=2", "steps=1", "-o")),
]


@posix
@pytest.mark.parametrize("how", ["itself", "symlink", "hardlink", "roundabout"])
@pytest.mark.parametrize(("name", "argv"), OVER, ids=[name for name, _ in OVER])
def test_no_command_writes_over_a_file_that_it_reads(
    folder: Path, name: str, argv: tuple[str, ...], how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(folder / "t.npz", X=np.ones((4, 2)))
    for path in ("other.csv", "net.py", "net.html.py"):
        (folder / path).write_text("a,b,größe\n", encoding="utf-8")
    suffix = {"run": Path(name).suffix, "explore": ".html", "compile": ".inweave"}[argv[0]]
    written = folder / f"written{suffix}"
    if how == "symlink":
        written.symlink_to(name)
    elif how == "hardlink":
        written.hardlink_to(folder / name)
    elif how == "roundabout":
        written = Path("..", folder.name, name)
    else:
        written = Path(name)
    before = (folder / name).read_bytes()
    assert main([*argv, str(written)]) == 2
    err = capsys.readouterr().err
    assert f"{name} is read here; write to another file than {written}" in err
    assert (folder / name).read_bytes() == before


def test_a_file_that_is_not_read_may_be_written_over(folder: Path) -> None:
    (folder / "out.csv").write_text("old")
    assert main(["run", "net.inweave", *FILL, "-o", "out.csv"]) == 0
    assert (folder / "out.csv").read_text(encoding="utf-8").startswith("größe\n")


def test_the_lab_does_not_write_over_what_it_reads(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    for name in ("metrics.jsonl", "checkpoint.json", "result.json"):
        (folder / name).write_text("[train]\nsteps = 10\n")
        assert main(["lab", "train", name, "--out", "."]) == 2
        assert f"{name} is read here" in capsys.readouterr().err
        assert (folder / name).read_text() == "[train]\nsteps = 10\n"
    result = {"name": "x", "command": "c", "claims": [], "lines": [], "rows": [], "series": [],
              "axes": {"x": "x", "y": "y"}}  # fmt: skip
    (folder / "lab-x.md").write_text(json.dumps(result))
    assert main(["lab", "report", "lab-x.md"]) == 2
    assert json.loads((folder / "lab-x.md").read_text()) == result


# -- interrupted, or heard by nobody ---------------------------------------------------------------
AT = """
import os, signal, sys
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), {signal})
sys.meta_path.insert(0, Interrupts())
from inweave.cli import main
sys.exit(main(["show", "net.inweave"]))
"""


@posix
@pytest.mark.parametrize("name", ["inweave.cli.app", "cyclopts", "numpy._core.multiarray", "rich"])
def test_an_interrupt_while_libraries_load_is_no_traceback(folder: Path, name: str) -> None:
    code = AT.format(name=name, signal="signal.SIGINT")
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (130, "")
    assert re.fullmatch(r"interrupted(; nothing was left half-written)?\n", done.stderr)


@posix
def test_a_signal_that_is_ignored_stays_so(folder: Path) -> None:
    """As of a command that `nohup` or a script has put into the background."""
    ignored = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    code = ignored + AT.format(name="cyclopts", signal="signal.SIGINT")
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0
    assert "attention layers" in done.stdout


@posix
@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_closed_streams_are_no_error_and_nothing_is_said_elsewhere(
    folder: Path, closed: str
) -> None:
    command = f'exec "{sys.executable}" -m inweave show net.inweave {closed}'
    done = subprocess.run(["/bin/sh", "-c", command], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr == ""
    assert ("attention layers" in done.stdout) == (closed == "2>&-")


@posix
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("compile ridge_gd n=4 d=2 steps=3 -o made.inweave 2>&1 >&-", 0),
        ("run ridge_gd steps=3 lam=1 eta=1 w0=0 --data t.csv --response größe --query t.csv", 0),
        ("show absent.inweave 2>&1", 2),
        ("verify net.inweave --program ridge_gd steps=4 2>&1", 1),
        ("verify net.inweave --program ridge_gd steps=4 --json", 1),
    ],
)
def test_a_reader_that_goes_away_changes_neither_the_work_nor_the_exit_code(
    folder: Path, command: str, code: int
) -> None:
    line = f"set -o pipefail; '{sys.executable}' -m inweave {command} | true"
    done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert (folder / "made.inweave").exists() == ("-o" in command)


def test_a_pipe_that_breaks_elsewhere_is_not_a_reader_that_goes_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such as that to a worker of a pool: the command has not done its work."""

    def broken(_: str) -> Any:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(sources.inweave, "load", broken)
    assert main(["show", "net.inweave"]) == 2


def test_importing_the_command_line_leaves_signals_alone() -> None:
    import signal

    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert main(["--version"]) == 0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert inweave.__version__
