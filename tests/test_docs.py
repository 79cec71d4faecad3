"""Pages whose code the documentation's own build does not execute are executed here."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import re
import shlex
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inweave import network
from inweave.cli import main
from inweave.model import network as data
from scripts import paper_map

DOCS = Path(__file__).resolve().parent.parent / "docs"
FENCE = re.compile(r"^```(\{?[\w-]+\}?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text("utf-8")
    return [body for found, body in FENCE.findall(text) if found == language]


def commands(page: str) -> list[list[str]]:
    lines = "\n".join(blocks(page, "sh")).replace("\\\n", " ").splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("inweave ")]


def test_the_code_on_the_page_of_the_explorer_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("anywidget")
    monkeypatch.chdir(tmp_path)
    first, *others = blocks("explorer.md", "python")
    (tmp_path / "ridge.py").write_text(first, encoding="utf-8")
    names: dict[str, object] = {"__name__": "page"}
    for code in (first, *others):
        exec(compile(code, "explorer.md", "exec", dont_inherit=True), names)
    assert len(others) == 3
    for page in ("ridge.html", "story.html", "both.html"):
        assert (tmp_path / page).is_file()
    rng = np.random.default_rng(0)
    for name in ("table", "new"):
        np.savetxt(f"{name}.csv", rng.normal(size=(8, 3)), "%f", ",", header="a,b,y", comments="")
    found = commands("explorer.md")
    assert len(found) == 2
    for command in found:
        assert main(command) == 0, command


def test_the_page_about_disguises_is_true() -> None:
    (code,) = blocks("explanation/disguises.md", "python")
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(code, "disguises.md", "exec", dont_inherit=True), names)
    net, hidden, made = names["net"], names["hidden"], names["made"]
    assert names["certificate"].network == hidden.fingerprint != net.fingerprint
    assert len(names["parts"]) in (2, 3)
    assert names["where"].shape == (net.layout["Xᵀ"].cols, hidden.width)
    assert made.decoys
    assert made.unused


def test_what_the_page_about_numerics_says_of_sums_is_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (code,) = blocks("explanation/numerics.md", "python")
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(code, "numerics.md", "exec", dont_inherit=True), names)
    assert names["short"].depth == 1 < names["long"].depth == 2
    assert names["lost"] > 1e-5
    assert names["kept"] < 1e-14
    assert capsys.readouterr().out.startswith("1 layer, wrong by ")


def test_the_commands_on_the_page_about_data_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = blocks("howto/own-data.md", "{code-cell}")[0].partition("\nrng = ")[0]
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    rng = np.random.default_rng(0)
    for name, width in (("train", 5), ("new", 5), ("wider", 6)):
        header = ",".join([*(f"x{i}" for i in range(width)), "y"])
        rows = rng.normal(size=(30, width + 1))
        np.savetxt(tmp_path / f"{name}.csv", rows, delimiter=",", header=header, comments="")
    found = commands("howto/own-data.md")
    assert len(found) == 3
    for command in found:
        assert main(command) == 0, command


def test_every_public_name_stands_in_the_reference() -> None:
    import inweave

    text = (DOCS / "api.md").read_text("utf-8")
    apart = {"__version__", "lab", "nn"}  # theirs are listed one by one; errors as a module
    names = [n for n in inweave.__all__ if n not in apart and not n.endswith("Error")]
    assert [n for n in names if not re.search(rf":: inweave\.{n}\n", text)] == []
    assert ":: inweave.estimators\n" in text
    assert ":: inweave.errors\n" in text


@pytest.mark.parametrize("module", ["circuits", "estimators", "explore", "nn"])
def test_every_function_and_class_of_a_public_module_stands_in_the_reference(module: str) -> None:
    found = importlib.import_module(f"inweave.{module}")
    text = (DOCS / "api.md").read_text("utf-8")
    listed = set(re.findall(rf":: inweave\.{module}\.(\w+)\n", text))
    members = re.findall(rf":: inweave\.{module}\n   :members: (.*)\n", text)
    listed |= {name for line in members for name in line.split(", ")}
    defined = [n for n in found.__all__ if inspect.isroutine(getattr(found, n))
               or inspect.isclass(getattr(found, n))]  # fmt: skip
    assert defined
    assert [name for name in defined if name not in listed] == []


def test_every_file_of_the_lab_that_is_for_users_stands_in_the_reference() -> None:
    from inweave import lab

    text = (DOCS / "api.md").read_text("utf-8")
    named = re.findall(r"^    ([\w, ]+?)   ?", inspect.cleandoc(lab.__doc__ or ""), re.MULTILINE)
    modules = [name for line in named for name in line.split(", ")]
    assert len(modules) > 8
    assert [name for name in modules if f":: inweave.lab.{name}" not in text] == []


def test_every_public_attribute_of_a_network_is_described() -> None:
    for kind in (network.Network, data.Network):
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        assert isinstance(tree, ast.ClassDef)
        for this, after in itertools.pairwise([*tree.body, ast.Pass()]):
            if isinstance(this, ast.FunctionDef) and not this.name.startswith("_"):
                assert ast.get_docstring(this), this.name
            if isinstance(this, ast.AnnAssign) and kind is network.Network:
                text = after.value if isinstance(after, ast.Expr) else None
                assert isinstance(text, ast.Constant), ast.unparse(this.target)


def test_the_map_of_the_paper_is_current_and_every_place_has_a_test() -> None:
    assert paper_map.PAGE.read_text("utf-8") == paper_map.page(), "run python -m scripts.paper_map"
    rows = re.findall(r"^\| ([(P][^|]+) \| ([^|]+) \| ([^|]+) \|$", paper_map.page(), re.MULTILINE)
    assert len(rows) > 50
    assert [place for place, _, tests in rows if tests == "—"] == []
