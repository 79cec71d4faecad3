"""Every door that needs an extra, opened where none is installed.

Run as a program, outside the tests' own process: what is hidden here is hidden for good. `make
wheel` runs it in an environment that holds a wheel and nothing else, a test runs it in this one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

# what only extras install; the core must do without
EXTRA = ("anywidget", "cupy", "dask", "distributed", "huggingface_hub", "jax", "matplotlib", "onnx",
         "onnxruntime", "pyarrow", "scipy", "sklearn", "torch", "transformer_lens")  # fmt: skip


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


def main() -> None:
    """Refused by name, each with the extra that installs what is missing."""
    sys.modules.update(dict.fromkeys(EXTRA))  # type: ignore[arg-type]
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
    import_lab()


def import_lab() -> None:
    """Each file of the lab can do without torch, or says what it needs."""
    from inweave import MissingExtraError, lab

    for file in walk_packages(lab.__path__, "inweave.lab."):
        with suppress(MissingExtraError):
            import_module(file.name)


if __name__ == "__main__":
    main()
