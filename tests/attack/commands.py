"""Random command lines, most of them wrong: answered or refused in words, never with a traceback.

Sources, values, options, encodings of the screen and tables are drawn without looking whether they
fit. Whatever happens, what a command reads is afterwards what it was.
"""

from __future__ import annotations

import hashlib
import random
import shutil
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np

import inweave
from inweave import gallery
from inweave.cli import main
from tests.attack.forked import run

CODES = {0: "done", 1: "a check failed", 2: "refused"}
ENCODINGS = ("utf-8", "ascii", "latin-1", "cp1252", "utf-16")
VALUES = ("1", "0", "-1", "3", "1e3", "1e400", "nan", "inf", "1_000", "x", "", "=", "２", "0x10",
          "1,2", "[1]", "9" * 400, "steps", "\u202eabc", "'", "--json")  # fmt: skip
NAMES = ("n", "d", "steps", "lam", "eta", "w0", "", "n=", "X", "tokens")
WORDS = ("--json", "--help", "--target", "lsa", "--optimize", "speed", "--trials", "--seed", "-",
         "--seconds", "0", "-o", "--columns", "a,b", "--standardize", "--program", "--",
         "/dev/full")  # fmt: skip
PROGRAM = """
import inweave
from inweave import Matrix, Scalar, Vector
@inweave.program
def ridge(X: Matrix["n", "d"], y: Vector["n"], u: Vector["d"], lam: Scalar, eta: Scalar, *,
          steps: int):
    def step(w):
        return w - eta * (X.T @ (X @ w - y) + lam * w)
    return u @ inweave.iterate(step, inweave.zeros(X.shape[1]), steps)
"""  # fmt: skip


def stage(folder: Path, rng: random.Random) -> tuple[list[str], list[str]]:
    """Files to read: networks and programs, and tables, good ones and bad ones."""
    net = gallery.get("ridge_gd").compile(n=4, d=2, steps=3)
    net.save(folder / "good.inweave")
    good = (folder / "good.inweave").read_bytes()
    (folder / "cut.inweave").write_bytes(good[: len(good) // 2])
    (folder / "empty.inweave").write_bytes(b"")
    (folder / "ridge.py").write_text(PROGRAM)
    (folder / "wrong.py").write_text("import inweave\n1 / 0\n")
    (folder / "odd.py").write_bytes(b"\xff\xfe\x00")
    (folder / "folder.inweave").mkdir()
    rows = np.random.default_rng(rng.randrange(2**31)).normal(size=(4, 3))
    lines = ["a,b,y", *(",".join(map(str, row)) for row in rows)]
    tables = {
        "good.csv": "\n".join(lines), "empty.csv": "", "head.csv": "a,b,y",
        "short.csv": "a,b,y\n1,2\n", "words.csv": "a,b,y\none,two,three\n",
        "double.csv": "a,a,y\n1,2,3\n", "wide.csv": "a,b,y\n1,2,3,4\n",
        "under.csv": "a,b,y\n1_0,2,3\n", "nan.csv": "a,b,y\nnan,1,2\n",
        "quote.csv": 'a,"b,y\n1,2\n',
    }  # fmt: skip
    for name, text in tables.items():
        (folder / name).write_text(text)
    (folder / "bytes.csv").write_bytes(b"a,b,y\n\xff\xfe,1,2\n")
    np.savez(folder / "good.npz", X=rows[:, :2], y=rows[:, 2])
    (folder / "bad.npz").write_bytes(b"PK\x03\x04")
    there = [
        str(folder / name) for name in (*tables, "bytes.csv", "good.npz", "bad.npz", "none.csv")
    ]
    sources = [*gallery.names()[:4], "ridge", "nothing", "", ".", str(folder / "none.inweave"),
               *(str(folder / x) for x in (
                   "good.inweave", "cut.inweave", "empty.inweave", "folder.inweave", "ridge.py",
                   "ridge.py:ridge", "ridge.py:other", "wrong.py:x", "odd.py:x"))]  # fmt: skip
    return sources, there


def drawn(rng: random.Random, read: Path, sources: list[str], tables: list[str]) -> list[str]:
    """A command line that would do, with up to three words left out, replaced or added."""
    out = str(read.parent / "out" / "made")
    given = ["lam=1", "eta=0.01", "--data", str(read / "good.csv"), "--response", "y",
             "--query", str(read / "good.csv")]  # fmt: skip
    ridge, net = str(read / "ridge.py") + ":ridge", str(read / "good.inweave")
    sizes = ["n=4", "d=2", "steps=3"]
    line = list(rng.choice([
        ["compile", ridge, *sizes, "-o", out + ".inweave"],
        ["compile", "ridge_gd", *sizes, "--json"],
        ["show", net], ["show", ridge, *sizes, "--optimize", "depth"], ["verify", net, "--json"],
        ["verify", net, "--program", ridge], ["verify", ridge, *sizes, "--trials", "2"],
        ["run", net, *given], ["run", ridge, "steps=3", *given, "-o", out + ".csv"],
        ["run", ridge, "steps=3", *given, "--standardize", "--json"],
        ["explore", net, "-o", out + ".html"], ["gallery", "ridge_gd"],
        ["gallery", "pca", "--json"], ["--version"], ["lab", "list"],
        ["lab", "train", str(read / "good.csv")], ["lab", "report", out],
    ]))  # fmt: skip
    words = [*sources, *tables, *VALUES, *(f"{n}={v}" for n in NAMES for v in VALUES), *WORDS]
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        at = rng.randrange(len(line)) if line else 0
        change = rng.randrange(4)
        if change == 0:
            line.insert(at + 1, rng.choice(words))
        elif change == 1 and line:
            line.pop(at)
        elif line:
            line[at] = rng.choice([*sources, *tables]) if "/" in line[at] else rng.choice(words)
    return [word.replace("\0", "") for word in line if word not in ("demo", "bench")]


def digest(folder: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def attack(count: int, rng: random.Random) -> Counter[str]:
    """Run random command lines."""
    inweave.compile(gallery.ridge_gd, n=3, d=2, steps=2)  # loaded here, once
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        read, out = Path(place, "read"), Path(place, "out")
        read.mkdir()
        out.mkdir()
        sources, tables = stage(read, rng)
        before = digest(read)
        for _ in range(count):
            line, encoding = drawn(rng, read, sources, tables), rng.choice(ENCODINGS)
            ended = run(partial(main, line), encoding=encoding)
            told = f"{line} under {encoding}: exit code {ended.code}\n{ended.err!r}"
            assert ended.code in CODES, told
            assert b"Traceback" not in ended.err.replace(b"\x00", b""), told
            assert (ended.code == 0) or ended.err, told
            after = digest(read)
            changed = {p for p in before if after.get(p) != before[p]}
            given = {word for word in line if word in changed}
            once = all(sum(p in word for word in line) == 1 for p in given)
            assert changed <= given, f"{told}\nchanged {changed}"
            assert once, f"{told}\nwrote over what it reads: {changed}"
            if changed:  # asked to be written, and not read: as it was, for the next try
                shutil.rmtree(read)
                read.mkdir()
                sources, tables = stage(read, rng)
                before = digest(read)
            found[CODES[ended.code]] += 1
    return found
