"""What print(net) shows: every layer under the number that it has everywhere, and no empty line."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import inweave
from inweave import Matrix, Network, Scalar, Vector, paper
from inweave.gallery.fast_weights import delta_net
from inweave.gallery.least_squares import ridge_gd
from inweave.text.network import describe


@inweave.program
def inverse(X: Matrix["n", "d"], y: Vector["n"], p: Scalar, *, steps: int) -> Vector["d"]:
    def step(w):
        return w + inweave.reciprocal(inweave.hold(p * p), domain=(1e-3, 10.0)) * (X.T @ y)

    return inweave.iterate(step, inweave.zeros(X.shape[1]), steps)


NETWORKS = {
    "loop": inweave.compile(ridge_gd, n=4, d=3, steps=2),
    "collapsed": inweave.compile(ridge_gd, n=4, d=3, steps=9, optimize="depth"),
    "paper": paper.ridge_elsa(n=4, d=3, steps=2),
    "function": inweave.compile(inverse, n=4, d=3, steps=2),
}


def listed(net: Network) -> list[str]:
    """The names of the layers that print(net) lists, spelled as a trace does."""
    names, module = [], ""
    for line in str(net).partition("\n\n")[2].splitlines():
        if head := re.match(r"module \d+", line):
            module = head[0]
        elif layer := re.match(r" +(\d+)  ", line):
            names.append(f"{module}, layer {layer[1]}")
    return names


@pytest.mark.parametrize("name", NETWORKS)
def test_layers_have_the_numbers_that_a_trace_gives_them(name: str) -> None:
    net = NETWORKS[name]
    rng = np.random.default_rng(0)
    inputs = {spec.name: 1 + 0.1 * rng.random(spec.shape) for spec in net.inputs}
    traced = [re.sub(r", step \d+", "", at) for at in net.trace(**inputs).states if "layer" in at]
    assert listed(net) == list(dict.fromkeys(traced))


def test_an_error_names_a_layer_that_print_shows() -> None:
    net = NETWORKS["function"]
    with pytest.raises(inweave.DomainError) as refused:
        net(X=np.ones((4, 3)), y=np.ones(4), p=99.0)
    at = re.search(r"module \d+(, step \d+)?, layer \d+", str(refused.value))
    assert at is not None
    assert re.sub(r", step \d+", "", at[0]) in listed(net)


@pytest.mark.parametrize("name", NETWORKS)
def test_heads_of_zeros_are_counted_and_leave_no_empty_line(name: str) -> None:
    net = NETWORKS[name]
    _, layers = str(net).split("\n\n")
    rows = [line for line in layers.splitlines() if not line.startswith("module")]
    assert all(re.search(r"\w", re.sub(r"\(.*?\)", "", row)) for row in rows)
    zeros = sum(map(int, re.findall(r"heads of zeros: (\d+)", layers)))
    functions = sum("units" in row for row in rows)
    assert len(rows) - functions + zeros == net.heads


def test_every_size_that_may_change_is_named() -> None:
    net = NETWORKS["loop"]
    said = describe(net, net.origin, free=("n", "d"))
    said = said.replace("\n", " ")
    assert "weights do not depend on n, d as far as seen (net.resize(n=..., d=...) checks)" in said


def test_a_network_from_a_file_has_its_name_and_once_checked_its_degree(tmp_path: Path) -> None:
    net = NETWORKS["loop"]
    net.save(tmp_path / "net.inweave")
    found = inweave.load(tmp_path / "net.inweave")
    title = str(net).splitlines()[0]
    assert str(found).splitlines()[0] == title == "ridge_gd: ELSA, faithful"
    assert "lower bound" not in str(found)  # it would follow from what nobody has checked here
    with pytest.raises(inweave.InputError, match=r"call net\.verify\(\) first"):
        _ = found.degree
    found.verify()
    assert (found.degree, found.depth_lower_bound) == (net.degree, net.depth_lower_bound)
    assert str(found).splitlines()[1] == str(net).splitlines()[1]


@pytest.mark.parametrize("mode", ["faithful", "speed", "depth"])
def test_nothing_is_compiled_planned_or_run_to_be_printed(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a million steps: their degree is a recurrence, and sizes are read off the weights."""
    scan = inweave.compile(delta_net, n=5, d=3, k=2, optimize=mode, verify=False)
    loop = inweave.compile(ridge_gd, n=4, d=3, steps=10**6, optimize=mode, verify=False)

    def refused(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("inweave.compiler.candidates.run", refused)
    monkeypatch.setattr("inweave.run.plan.Plan.__init__", refused)
    assert "weights follow n in the size of the shift and the number of steps" in str(scan)
    assert "(degree 16: lower bound 3 on prompts affine in the inputs)" in str(scan)
    assert "(degree 3000002: lower bound 14 on prompts affine in the inputs)" in str(loop)
