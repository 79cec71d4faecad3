"""All checks refuse every changed network that computes something else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from inweave.network import Network
from tests.changed import built, mutants, pairs
from tests.mutants import MUTANTS, stale
from tests.mutate import CHECKS, CHOSEN, FUNCTIONS, Judge, check, judge, networks, passes

NETWORKS: dict[str, Network] = {}


def network(i: int) -> Network:
    if not NETWORKS:
        NETWORKS.update(networks())
    return list(NETWORKS.values())[i]


NAMES = [" ".join(chosen) for chosen in CHOSEN] + [program.name for program, _ in FUNCTIONS]


@pytest.mark.parametrize("i", range(len(NAMES)), ids=lambda i: NAMES[i])
def test_no_mutant_that_changes_the_function_survives_a_check(i):
    count = check(network(i), most=40, seed=i, doubled=10)
    assert count.survivors == []
    looped = any(module.carries for module in network(i).modules)
    in_words = network(i).is_polynomial and not looped
    assert list(count.words) == ["field", "algebra", *["words"] * in_words]
    assert all(words["killed"] >= 20 for words in count.words.values())


@pytest.mark.parametrize("i", range(len(NAMES)), ids=lambda i: NAMES[i])
def test_no_changed_network_is_proved_unless_it_still_computes_the_program(i):
    """The algebra is quick enough for every mutant."""
    net = network(i)
    known = Judge(net, points=2)
    for mutant in mutants(net):
        changed = built(net, mutant)
        if changed is not None and passes("algebra", changed, known.traced):
            assert known.same(changed), f"{mutant.text} was proved"


def test_there_are_ten_networks_of_both_targets_and_all_modes():
    assert len(CHOSEN) == 10
    assert {target for _, target, _ in CHOSEN} == {"elsa", "lsa"}
    assert {mode for _, _, mode in CHOSEN} == {"faithful", "speed", "depth"}


def test_every_table_that_is_changed_is_refused():
    """Two hundred and more single changes of every number of a reciprocal's table."""
    net = network(len(CHOSEN) + 1)
    known = Judge(net)
    tables = [m for m in mutants(net) if m.text.startswith(("ReluNet", "Function"))]
    for mutant in tables[::5]:
        changed = built(net, mutant)
        assert changed is None or "survived" not in judge(changed, known).values(), mutant.text
    assert len(tables) > 200


def test_the_judge_can_tell_networks_apart():
    net = network(0)
    known = Judge(net)
    assert known.same(net)
    assert not known.same(replace(net, modules=()))


def test_every_kind_of_stored_number_is_mutated():
    kinds = {mutant.text.split(":")[0] for i in range(len(NAMES)) for mutant in mutants(network(i))}
    assert kinds >= {
        "Piece.coefficient", "Piece.at", "Piece.block", "Piece.matrix", "Shift.row", "Shift.col",
        "Shift.size", "Place.transpose", "Place.block", "Fill.source", "Fill.coefficient",
        "Module.repeat", "Module.skip", "AttentionLayer.skip", "Head.query", "Head.key",
        "Input.name", "Input.kind", "Input.sign", "Input.rows", "Output.name", "Output.kind",
        "Place.rows", "Place.cols", "Fill.scale", "ReluNet.weights", "ReluNet.biases",
        "ReluNet.outputs", "ReluNet.constant", "Function.net", "Function.domain",
        "Function.is_reciprocal", "Network.modules", "Network.fills", "Network.inputs",
        "Network.outputs", "Head.value", "Layout.tokens", "Layout.blocks", "Block.name",
        "Block.rows", "Block.cols", "Block.start", "Module.body", "Module.carries",
        "AttentionLayer.heads", "Projection.pieces", "BlockPointwiseLayer.applied",
        "Fill.constant", "Place.diagonal",
    }  # fmt: skip


def test_there_are_thousands_of_changes():
    assert sum(1 for i in range(len(NAMES)) for _ in mutants(network(i))) > 6000
    assert all(len(one.changes) == 2 for one in pairs(network(0), 20))


def test_a_check_that_passes_everything_is_seen(monkeypatch):
    monkeypatch.setitem(CHECKS, "algebra", lambda _network, _traced: None)
    count = check(network(0), most=40)
    assert count.survivors
    assert all(text.startswith("algebra: ") for text in count.survivors)
    assert count.words["field"]["survived"] == 0


def test_the_list_of_defects_follows_the_code():
    assert [why for why in map(stale, MUTANTS) if why] == []
