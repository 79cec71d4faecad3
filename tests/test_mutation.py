"""Verification refuses every changed network that computes something else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from inweave.network import Network
from tests.mutate import CHOSEN, Judge, check, mutants, networks

NETWORKS: dict[str, Network] = {}


def network(i: int) -> Network:
    if not NETWORKS:
        NETWORKS.update(networks())
    return list(NETWORKS.values())[i]


@pytest.mark.parametrize("i", range(len(CHOSEN)), ids=lambda i: " ".join(CHOSEN[i]))
def test_no_mutant_that_changes_the_function_survives(i):
    counts, survivors = check(network(i), most=50, seed=i)
    assert survivors == []
    assert counts["killed"] >= 20


def test_there_are_ten_networks_of_both_targets_and_all_modes():
    assert len(CHOSEN) == 10
    assert {target for _, target, _ in CHOSEN} == {"elsa", "lsa"}
    assert {mode for _, _, mode in CHOSEN} == {"faithful", "speed", "depth"}


def test_the_judge_can_tell_networks_apart():
    net = network(0)
    known = Judge(net)
    assert known.same(net)
    assert not known.same(replace(net, modules=()))


def test_every_kind_of_stored_number_is_mutated():
    kinds = {
        mutant.text.split(":")[0] for i in range(len(CHOSEN)) for mutant in mutants(network(i))
    }
    assert kinds >= {
        "Piece.coefficient", "Piece.at", "Piece.block", "Piece.matrix", "Shift.row", "Shift.col",
        "Shift.size", "Place.transpose", "Place.block", "Fill.source", "Fill.coefficient",
        "Module.repeat", "Module.skip", "AttentionLayer.skip", "Head.query", "Head.key",
    }  # fmt: skip
