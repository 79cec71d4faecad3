"""Where no extra is installed the commands work, and every door that needs one says which.

Run as a program, outside the tests' own process: what is hidden here is hidden for good. `make
wheel` runs it in an environment that holds a wheel and nothing else, a test runs it in this one.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from contextlib import chdir, redirect_stdout, suppress
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.resources import files
from pathlib import Path
from pkgutil import walk_packages
from tempfile import TemporaryDirectory
from typing import Any

# what only extras install; the core must do without
EXTRA = ("anywidget", "cupy", "dask", "distributed", "huggingface_hub", "jax", "matplotlib", "onnx",
         "onnxruntime", "pyarrow", "scipy", "sklearn", "torch", "transformer_lens")  # fmt: skip


class Missing(MetaPathFinder):
    """Finds no extra. (`None` in sys.modules would be taken for a module by array_api_compat.)"""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in EXTRA:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def doors() -> dict[str, tuple[str, Callable[[], Any]]]:
    """What a user may open, with the extra that it needs."""
    import inweave
    from inweave.cli.tables import write
    from inweave.gallery.least_squares import ridge_gd
    from inweave.lab.experiments import run

    net = inweave.compile(ridge_gd, n=4, d=2, steps=3)
    assert net.certificate is not None
    assert "<html" in inweave.explore.page(net)
    return {
        "net.to_torch": ("torch", net.to_torch),
        "net.to_lens": ("lens", net.to_lens),
        "net.to_jax": ("jax", net.to_jax),
        "net.to_onnx": ("onnx", lambda: net.to_onnx("never.onnx")),
        "inweave.nn": ("torch", lambda: inweave.nn),
        "the lab": ("lab", lambda: run("one-step", Path("never"))),
        "inweave.estimators": ("sklearn", lambda: import_module("inweave.estimators")),
        "inweave.explore.Widget": ("widget", lambda: inweave.explore.Widget),
        "never.parquet: Parquet": ("table", lambda: write(Path("never.parquet"), {"x": [1.0]})),
    }


RIDGE = (
    "ridge_gd steps=3 w0=0 lam=1 eta=0.0005 --standardize "
    "--data TABLE --response progression --query TABLE"
)
COMMANDS = (
    "compile ridge_gd n=4 d=2 steps=3 -o ridge.inweave",
    "show ridge.inweave",
    "verify ridge.inweave",
    "explore ridge.inweave -o ridge.html",
    "gallery ridge_gd",
    "demo --steps 3",
    "decompile ridge.inweave",
    f"run {RIDGE} -o predictions.csv",
    f"explore {RIDGE} -o rows.html",
)


def commands() -> None:
    """What an installation alone is enough for."""
    from inweave.cli import main

    table = str(files("inweave.data") / "diabetes.csv")
    with TemporaryDirectory() as folder, chdir(folder), redirect_stdout(io.StringIO()):
        for line in COMMANDS:
            words = [table if word == "TABLE" else word for word in line.split()]
            assert main(words) == 0, line


def main() -> None:
    """Refused by name, each with the extra that installs what is missing."""
    sys.meta_path.insert(0, Missing())
    from inweave import InweaveError

    for door, (extra, opened) in doors().items():
        try:
            opened()
        except InweaveError as error:
            said = str(error)
        else:
            raise AssertionError(f"{door} opened without the extra {extra!r}")
        print(said)
        assert said.startswith(f"{door} needs ")
        assert f"the extra {extra!r} installs" in said
    commands()
    import_lab()


def import_lab() -> None:
    """Each file of the lab can do without torch, or says what it needs."""
    from inweave import MissingExtraError, lab

    for file in walk_packages(lab.__path__, "inweave.lab."):
        with suppress(MissingExtraError):
            import_module(file.name)


if __name__ == "__main__":
    main()
