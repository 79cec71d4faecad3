"""What a certificate claims of other sizes is known: it was looked at there, or is not claimed."""

from __future__ import annotations

import numpy as np
import pytest

import inweave
from inweave import Matrix, Scalar, Vector, gallery
from inweave.proof.sizes import alike_networks, alike_programs
from tests.changed import built, mutants

EVERY = "for all n and d that leave program and weights as they are"
ONLY_D = ("at n = 7 only", "for all d that leave program and weights as they are")
AGAIN = "however often its loops repeat"


@inweave.program
def ridge(X: Matrix["n", "d"], y: Vector["n"], eta: Scalar, *, steps: int) -> Vector["d"]:
    return inweave.iterate(lambda w: w - eta * X.T @ (X @ w - y), 0 * (X.T @ y), steps)


@inweave.program
def mean(X: Matrix["n", "d"]):
    return X.T @ X / X.shape[0]


@inweave.program
def row_by_row(X: Matrix["n", "d"], u: Vector["d"]):
    return sum((X[i : i + 1] @ u for i in range(1, X.shape[0])), X[:1] @ u)


@inweave.program
def constant_of_length_n(X: Matrix["n", "d"]):
    return np.polynomial.chebyshev.chebpts1(X.shape[0])[None, :] @ X


@inweave.program
def literal(X: Matrix["n", "d"], W: Matrix[7, 2]):
    return X @ np.ones((X.shape[1], 7)) @ W


@inweave.program
def only_seven(X: Matrix["n", "d"]):
    if X.shape[0] != 7:
        raise RuntimeError("not made for this")
    return X.T @ X


@inweave.program
def both_or_neither(X: Matrix["n", "d"]):
    return X.T @ X if X.shape[0] - X.shape[1] == 4 else 2 * X.T @ X


def claims(program, **sizes):
    return inweave.compile(program, **sizes).certificate.beyond


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (mean, ONLY_D),
        (row_by_row, ONLY_D),
        (constant_of_length_n, ONLY_D),
        (literal, ("at n = 7 and d = 3 only",)),
        (only_seven, ONLY_D),
        (both_or_neither, ("at n = 7 and d = 3 only",)),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_only_sizes_at_which_the_program_reads_the_same_are_claimed(program, said):
    assert claims(program, n=7, d=3) == said


def test_the_claim_names_all_sizes_where_program_and_proof_have_no_size_in_them():
    assert claims(ridge, n=7, d=3, steps=5) == (EVERY, AGAIN)
    assert claims(ridge, n=3, d=3, steps=5) == ("at n = 3 and d = 3 only", AGAIN)
    assert claims(gallery.chebyshev, n=7, d=3, steps=4)[0] == "at n = 7 and d = 3 only"


def test_a_program_read_from_a_file_is_proved_at_the_sizes_it_was_saved_with(tmp_path):
    inweave.compile(ridge, n=7, d=3, steps=5).save(tmp_path / "ridge.inweave")
    certificate = inweave.load(tmp_path / "ridge.inweave").verify()
    assert certificate.beyond == ("at n = 7 and d = 3 only", AGAIN)
    assert certificate.free == ()


# -- what is proved of a network holds at other sizes ----------------------------------------------
def checks(monkeypatch):
    """A list that grows whenever a network is checked."""
    seen, check = [], inweave.proof.check.verify

    def counting(*args, **kwargs):
        seen.append(args[0])
        return check(*args, **kwargs)

    monkeypatch.setattr(inweave.proof.check, "verify", counting)
    return seen


@pytest.mark.parametrize("tokens", [None, "n", "d", 40])
@pytest.mark.parametrize("size", [1, 3, 5, 30])
def test_a_resized_network_is_not_checked_again_where_that_size_was_proved(
    tokens, size, monkeypatch
):
    net = inweave.compile(ridge, n=7, d=5, steps=5, tokens=tokens)
    (name,) = net.free_sizes()
    checked = checks(monkeypatch)
    other = net.resize(**{name: size})
    assert checked == []
    assert other.certificate.is_proof
    assert other.certificate.network == other.fingerprint
    again = other.verify()
    assert checked == ["ridge"]
    assert again.is_proof


@pytest.mark.parametrize("why", ["at random points", "not at all", "sizes alike"])
def test_a_resized_network_is_checked_where_that_size_was_not_proved(why, monkeypatch):
    n = 5 if why == "sizes alike" else 7
    net = inweave.compile(ridge, n=n, d=5, steps=5, verify=why != "not at all")
    if why == "at random points":
        assert not net.verify(trials=2).is_proof
    checked = checks(monkeypatch)
    other = net.resize(n=9)
    assert checked == ["ridge"]
    assert other.certificate.network == other.fingerprint


def test_a_program_that_is_another_one_at_the_new_size_is_checked_there(monkeypatch):
    """It reads the same near by, and not far away, where the same weights still serve."""

    @inweave.program
    def kinked(X: Matrix["n", "d"], w: Vector["d"]):
        return X @ w if X.shape[0] < 20 else (X @ w) / 2 + (X @ w) / 2

    net = inweave.compile(kinked, n=7, d=3)
    assert net.certificate.free == ("n", "d")
    checked = checks(monkeypatch)
    assert net.resize(n=12).certificate.is_proof
    assert checked == []
    assert net.resize(n=30).certificate.is_proof
    assert checked == ["kinked"]


def test_a_network_that_differs_in_more_than_sizes_does_not_read_the_same():
    net = inweave.compile(ridge, n=7, d=5, steps=2)
    there = net.resize(n=9)
    assert alike_networks(net, there, {7: 9})
    assert not alike_networks(net, there, {})
    changed = [found for one in mutants(there) if (found := built(there, one)) is not None]
    assert len(changed) > 100
    assert not any(alike_networks(net, one, {7: 9}) for one in changed if one != there)


def test_programs_that_differ_in_more_than_sizes_do_not_read_the_same():
    here = ridge.trace(n=7, d=5, steps=2)
    assert alike_programs(here, ridge.trace(n=9, d=6, steps=2))
    assert not alike_programs(here, ridge.trace(n=9, d=5, steps=3))
    assert not alike_programs(mean.trace(n=7, d=5), mean.trace(n=9, d=5))
