"""Writing and reading files: whole or not at all, links followed, nothing left, nothing endless."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inweave
from inweave import FileFormatError, InputError
from inweave.atomic import atomically, write
from inweave.cli import tables
from inweave.files import regular
from inweave.lab.config import from_toml
from inweave.lab.results import read_result

posix = pytest.mark.skipif(os.name != "posix", reason="permissions and links as POSIX has them")


def held(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# -- writing ---------------------------------------------------------------------------------------
@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o755])
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "kept"
    path.write_bytes(b"old")
    path.chmod(mode)
    with atomically(path) as file:
        file.write(b"new")
        [draft] = set(held(tmp_path)) - {"kept"}
        unseen = stat.S_IMODE((tmp_path / draft).stat().st_mode)
    assert not unseen & ~mode  # what is private is so from its first byte on
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.read_bytes() == b"new"


def test_a_name_that_ends_like_a_folders_is_refused(tmp_path: Path) -> None:
    """`Path` would drop the end, and who reads by the same text would find no file."""
    for end in ("/", "//", "/.", os.sep):
        with pytest.raises(InputError, match="name a file, without a slash"):
            write(f"{tmp_path}/x.inweave{end}", b"")
    assert held(tmp_path) == []


@posix
def test_a_new_file_has_the_permissions_of_any_other(tmp_path: Path) -> None:
    write(tmp_path / "ours", b"")
    (tmp_path / "another").touch()
    assert len({path.stat().st_mode for path in tmp_path.iterdir()}) == 1


@posix
def test_a_link_stays_one_and_its_file_is_written(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    for name in ("old", "absent"):
        link = tmp_path / name
        link.symlink_to(Path("far", name))
    (tmp_path / "far" / "old").write_bytes(b"old")
    (tmp_path / "chain").symlink_to("old")
    for name in ("old", "absent", "chain"):
        write(tmp_path / name, name)
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / name).read_text() == name
    assert held(tmp_path / "far") == ["absent", "old"]


@posix
def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "null").symlink_to(os.devnull)
    (tmp_path / "loop").symlink_to("loop")
    for name in ("pipe", "null", "loop"):
        with pytest.raises(InputError, match=f"{name} is a device, a pipe or a link to nowhere"):
            write(tmp_path / name, b"new")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
    assert held(tmp_path) == ["loop", "null", "pipe"]


@settings(max_examples=20)
@given(st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1))
def test_every_name_that_a_file_can_have_can_be_written(tmp_path_factory: Any, name: str) -> None:
    folder = tmp_path_factory.mktemp("names")
    for long in (name, name * 255):
        while len(long.encode()) > 250:
            long = long[:-1]
        if long.strip("."):
            write(folder / long, b"new")
            assert held(folder) == [long]
            (folder / long).unlink()


@posix
def test_what_a_killed_process_left_is_removed_by_the_next_write_and_nothing_else_is(
    tmp_path: Path,
) -> None:
    """A draft in the hands of another process is left to it; one of another file, too."""
    code = """
import os, sys
from inweave.atomic import atomically
with atomically(sys.argv[1]) as file:
    file.write(b"half"); file.flush()
    if sys.argv[2] == "dies":
        os.kill(os.getpid(), 9)
    print("writing", flush=True)
    sys.stdin.read()
"""
    start = [sys.executable, "-c", code]
    for name in ("net", "other"):
        subprocess.run([*start, str(tmp_path / name), "dies"], check=False)
    (tmp_path / ".net.mine").touch()
    assert len(held(tmp_path)) == 3
    alive = subprocess.Popen(
        [*start, str(tmp_path / "net"), "lives"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert alive.stdout is not None
    assert alive.stdout.readline() == b"writing\n"
    assert len(held(tmp_path)) == 3  # the draft of the dead is gone, that of the living is there
    write(tmp_path / "net", b"whole")
    assert len(held(tmp_path)) == 4
    alive.communicate()
    assert alive.returncode == 0
    assert (tmp_path / "net").read_bytes() == b"half"
    write(tmp_path / "other", b"whole")
    assert held(tmp_path) == [".net.mine", "net", "other"]


@posix
def test_content_and_name_are_on_the_disk_before_a_write_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sync, replace = os.fsync, Path.replace

    def synced(number: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(number).st_mode)
        done.append("folder" if is_folder else f"{os.fstat(number).st_size} bytes")
        sync(number)

    def replaced(draft: Path, final: Path) -> Path:
        done.append("named")
        return replace(draft, final)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    write(tmp_path / "net", b"seven b")
    assert done == ["7 bytes", "named", "folder"]


def test_an_error_about_the_draft_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: Any, *_: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    for name in ("open", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, denied)
            with pytest.raises(PermissionError) as caught:
                write(tmp_path / "net.csv", b"")
        assert caught.value.filename == str(tmp_path / "net.csv")


def test_everything_that_is_written_goes_through_here() -> None:
    """No other line opens a file to write it, but for nobody's stream and the log that grows."""
    source = Path(inweave.__file__).parent
    writes = re.compile(r'open\(.*"([wax]b?|rb?\+)"|write_text\(|write_bytes\(|\.replace\(final\)')
    found = [
        f"{path.relative_to(source).as_posix()}: {match[0]}"
        for path in sorted(source.rglob("*.py"))
        for match in writes.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == [
        "atomic.py: .replace(final)",
        'atomic.py: open(draft, "xb"',
        'cli/output.py: open("w"',
        'lab/train.py: open("a"',
    ]


# -- reading ---------------------------------------------------------------------------------------
READERS: dict[str, Any] = {
    "x.inweave": inweave.load,
    "x.csv": tables.read,
    "x.npz": tables.read,
    "x.parquet": tables.read,
    "x.toml": from_toml,
    "x.json": read_result,
}


@posix
@pytest.mark.parametrize("name", READERS)
def test_a_pipe_or_a_device_is_refused_at_once_by_every_reader(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    os.mkfifo(path)
    with pytest.raises(inweave.InweaveError, match="is a device or a pipe"):
        READERS[name](path)
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(inweave.InweaveError, match="is a device or a pipe"):
        READERS[name](path)


def test_no_more_is_read_than_a_file_says_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "grows"
    path.write_bytes(b"x" * 100)
    assert regular.read(path, 100) == b"x" * 100
    with pytest.raises(FileFormatError, match="100 bytes, the limit is 99"):
        regular.read(path, 99)
    real = os.fstat

    def earlier(number: int) -> os.stat_result:
        known = real(number)
        return os.stat_result([*known[:6], 40, *known[7:10]])

    monkeypatch.setattr(os, "fstat", earlier)
    with pytest.raises(FileFormatError, match="holds more than its 40 bytes"):
        regular.read(path)


def test_a_folder_is_refused_as_one(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError), regular.opened(tmp_path):
        pass
    with suppress(OSError), regular.opened(tmp_path / "absent"):
        raise AssertionError("opened what is not there")
