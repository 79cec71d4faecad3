"""Where a network came from: the program as it was, and nothing of it said of a changed network."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import inweave
from inweave import InputError, Matrix, Vector
from inweave.model.layers import AttentionLayer
from inweave.text.program import spelled

FACTOR = 2.0


@inweave.program
def scaled(X: Matrix["n", "d"], w: Vector["d"]):
    return FACTOR * (X.T @ (X @ w))


def test_a_file_holds_the_program_as_it_was_compiled(tmp_path, monkeypatch):
    network = inweave.compile(scaled, n=4, d=2)
    before = spelled(network.origin.traced)
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    network.save(tmp_path / "net.inweave")
    back = inweave.load(tmp_path / "net.inweave")
    assert spelled(back.stored_program) == before
    assert back.verify().is_proof
    with pytest.raises(inweave.VerificationError):  # the program is another one now
        inweave.verify(scaled, network)


def without_layers(network):
    return replace(network, modules=network.modules[:0])


def without_skips(network):
    def change(layer, _):
        return replace(layer, skip=False) if isinstance(layer, AttentionLayer) else layer

    return replace(network, modules=tuple(m.map(change) for m in network.modules))


def with_other_inputs(network):
    first, *rest = network.inputs
    return replace(network, inputs=(replace(first, sign="nonnegative"), *rest))


@pytest.mark.parametrize("change", [without_layers, without_skips, with_other_inputs])
def test_nothing_of_the_program_is_said_of_a_changed_network(change):
    network = inweave.compile(scaled, n=4, d=2)
    other = change(network)
    assert other != network
    for told in ("degree", "depth_lower_bound"):
        with pytest.raises(InputError, match="this one was changed"):
            getattr(other, told)
    with pytest.raises(InputError, match="this one was changed"):
        other.resize(n=5)
    assert other.free_sizes() == ()
    assert not any(word in str(other) for word in ("degree", "lower bound", "scaled", "depend"))
    assert "degree 3" in str(network)
    same = change(replace(network, modules=network.modules))
    assert same == other


def test_the_same_network_put_together_again_is_no_changed_one():
    network = inweave.compile(scaled, n=4, d=2)
    again = replace(
        network, modules=tuple(module.map(lambda x, _: x) for module in network.modules)
    )
    assert again.degree == network.degree == 3
    assert again.resize(d=3)(X=np.ones((4, 3)), w=np.ones(3)).shape == (3,)


@inweave.program
def jumps(x: Vector["n"]):
    return x * 2 if len(x) > 100 else x * 3


def test_a_size_that_is_called_free_is_checked_where_it_is_asked_for():
    network = inweave.compile(jumps, n=4)
    assert network.free_sizes() == ("n",)
    assert "as far as seen (net.resize(n=...) checks)" in str(network)
    assert network.resize(n=90)(x=np.ones(90)).tolist() == [3.0] * 90
    with pytest.raises(inweave.CompileError, match="depend on the size"):
        network.resize(n=101)
