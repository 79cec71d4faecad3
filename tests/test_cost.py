"""What a small file may ask for: whoever follows it, or writes it out, refuses before any work."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import inweave
from inweave import InputError, Network
from inweave.cli import main
from inweave.exact.constants import identity
from inweave.explore import page
from inweave.explore import payload as payloads
from inweave.explore import record as records
from inweave.explore.shown import named
from inweave.gallery import get
from inweave.model import cost
from inweave.model.dense import trace
from inweave.model.modules import Executor
from inweave.run.plan import Plan, Variant

pytestmark = pytest.mark.usefixtures("unchecked_passes")


@pytest.fixture(scope="module")
def ridge() -> Network:
    return get("ridge_gd").compile(n=4, d=2, steps=3)


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever begins to run a network fails at once, instead of after hours."""

    def began(*_: Any) -> Any:
        raise AssertionError("work was begun")

    for kind, name in ((Executor, "step"), (Plan, "forward"), (Plan, "call"), (Variant, "run")):
        monkeypatch.setattr(kind, name, began)


def loaded(network: Network, folder: Path, **changes: Any) -> Network:
    """A network with other data, by way of a file."""
    replace(network, origin=None, certificate=None, **changes).save(folder / "net.inweave")
    assert (folder / "net.inweave").stat().st_size < 10_000
    return inweave.load(folder / "net.inweave")


def repeated(network: Network, steps: int, folder: Path) -> Network:
    first, *rest = network.modules
    return loaded(network, folder, modules=(replace(first, repeat=steps), *rest))


def given(network: Network) -> dict[str, Any]:
    return {spec.name: np.full(spec.shape, 0.1) for spec in network.inputs}


FOLLOWED: dict[str, Callable[[Network], Any]] = {
    "the explorer": page,
    "a trace": lambda net: net.trace(**given(net)),
    "a torch module": lambda net: net.to_torch(),
}


@pytest.mark.parametrize("steps", [200_000, 2**31 - 1])
@pytest.mark.parametrize("door", FOLLOWED)
@pytest.mark.usefixtures("idle")
def test_a_loop_without_end_is_not_followed(
    ridge: Network, tmp_path: Path, door: str, steps: int
) -> None:
    if door == "a torch module":
        pytest.importorskip("torch")
    net = repeated(ridge, steps, tmp_path)
    said = rf"{door} follows .* executes {2 * steps + 1:,}, too many: take fewer steps"
    with pytest.raises(InputError, match=said):
        FOLLOWED[door](net)


def test_a_loop_without_end_can_be_described_and_exported_as_one(
    ridge: Network, tmp_path: Path
) -> None:
    """What keeps a loop as a loop does not care how often it repeats."""
    net = repeated(ridge, 2**31 - 1, tmp_path)
    assert "repeat 2147483647 times" in str(net)
    pytest.importorskip("onnx")
    net.to_onnx(tmp_path / "net.onnx")


@pytest.mark.usefixtures("idle")
def test_the_command_line_does_not_begin_what_takes_hours(
    ridge: Network,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    net = repeated(ridge, 2**31 - 1, tmp_path)
    np.savez("in.npz", **given(net))
    assert main(["run", "net.inweave", "--data", "in.npz"]) == 2
    assert "hours or so: it executes 4,294,967,295 layers; take fewer" in capsys.readouterr().err
    assert main(["explore", "net.inweave"]) == 2
    assert "take fewer steps" in capsys.readouterr().err
    assert not (tmp_path / "inweave.html").exists()


WRITTEN: dict[str, tuple[str, Callable[[Network, Path], Any]]] = {
    "torch": ("torch", lambda net, _: net.to_torch()),
    "onnx": ("onnx", lambda net, folder: net.to_onnx(folder / "net.onnx")),
    "jax": ("jax", lambda net, _: net.to_jax()),
    "trace": ("numpy", lambda net, _: trace(net, np.broadcast_to(0.0, (net.tokens, net.width)))),
    "page": ("numpy", lambda net, _: page(net)),
}


@pytest.mark.parametrize("door", WRITTEN)
def test_full_matrices_of_a_wide_prompt_are_not_written_out(tmp_path: Path, door: str) -> None:
    """A head of a few numbers, on a prompt of 2²⁸: each of its full matrices has as many."""
    library, opened = WRITTEN[door]
    pytest.importorskip(library)
    wide = inweave.Layout.of({"A": (2**14, 2**14)})
    copied = inweave.Projection((inweave.Piece(identity(2**14), 0, block="A"),))
    layer = inweave.AttentionLayer((inweave.Head(copied, copied, copied),))
    net = inweave.Network(wide, (inweave.Module((layer,)),))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"at most 536,870,912 are allowed|a page can hold"):
            opened(net, tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()


def test_a_recording_ends_when_it_is_more_than_a_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The states of a loop are counted as they come, not when all of them are there."""
    made: list[Any] = []

    class Watched(records.Recording):
        def add(self, before: Any, after: Any) -> None:
            made.append(after)
            super().add(before, after)

    monkeypatch.setattr(records, "Recording", Watched)
    monkeypatch.setattr(payloads, "MOST_BYTES", 4_000)
    long = get("ridge_gd").compile(n=4, d=2, steps=500)
    with pytest.raises(InputError, match="explore fewer steps or a smaller prompt"):
        page(long)
    assert len(made) < 1000 == long.depth - 1


def test_a_program_without_end_is_not_run_for_a_reference() -> None:
    """Collapsed, it has few layers; beside them stands no value that would take days."""
    short, long = (
        inweave.compile(get("ridge_gd").program, optimize="depth", verify=False, n=4, d=2, steps=T)
        for T in (9, 10**9)
    )
    assert cost.executed(long) < 100
    assert [one["reference"] for one in payloads.payload(named(long), {})["networks"]] == [None]
    assert payloads.payload(named(short), {})["networks"][0]["reference"] is not None


def test_the_counts_are_those_of_what_runs(ridge: Network) -> None:
    traced = ridge.trace(**given(ridge))
    assert cost.executed(ridge) == len(traced)
    heads = [head for step in traced for head in step.heads]
    kept = [array for head in heads for array in vars(head).values()]
    kept += [array for step in traced for array in (step.output, step.after)]
    assert sum(map(cost.traced, ridge.modules)) == len(kept)
