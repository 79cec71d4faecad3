"""What a certificate claims of other sizes is known: it was looked at there, or is not claimed."""

from __future__ import annotations

from itertools import product as product_of

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import inweave
from inweave import Matrix, Scalar, Vector, gallery
from inweave.exact.constants import Shift, product
from inweave.proof.algebra import prove
from inweave.proof.reading import Reading
from inweave.proof.sizes import (
    AS_THEY_ARE,
    Moved,
    alike_networks,
    alike_programs,
    carried_over,
)
from tests.changed import built, mutants

EVERY = "for all n and d at which program and weights read the same"
ONLY_D = ("at n = 7 only", "for all d at which program and weights read the same")
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
        (literal, ONLY_D),
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
    assert claims(gallery.chebyshev, n=7, d=3, steps=4)[0] == "at d = 3 only"


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
    moved = Moved.of(net.origin.traced, there.origin.traced)
    assert alike_networks(net, there, moved)
    assert not alike_networks(net, there, AS_THEY_ARE)
    changed = [found for one in mutants(there) if (found := built(there, one)) is not None]
    assert len(changed) > 100
    assert not any(alike_networks(net, one, moved) for one in changed if one != there)


def test_programs_that_differ_in_more_than_sizes_do_not_read_the_same():
    here = ridge.trace(n=7, d=5, steps=2)
    assert alike_programs(here, ridge.trace(n=9, d=6, steps=2))
    assert not alike_programs(here, ridge.trace(n=9, d=5, steps=3))
    assert not alike_programs(mean.trace(n=7, d=5), mean.trace(n=9, d=5))


# -- loops over rows -------------------------------------------------------------------------------
SCANS = ("delta_net", "causal_linear_attention", "recursive_least_squares", "retention")


@inweave.program
def averaged(X: Matrix["n", "d"]):
    return inweave.scan(lambda s, x: (s + x / X.shape[0], None), 0 * X[0], X)[0]


@inweave.program
def from_row_3(X: Matrix["n", "d"]):
    return inweave.scan(lambda s, x: (2 * s + x - X[3], None), X[3], X)[0]


@inweave.program
def two_rows_on(X: Matrix["n", "d"]):
    later = inweave.vstack([X[2:], X[:2]])
    return inweave.scan(lambda s, x: (s + x, None), 0 * X[0], later)[0]


@inweave.program
def as_often_as_it_is_wide(A: Matrix["d", "d"], x: Vector["d"], *, steps: int):
    return inweave.iterate(lambda x: A @ x, x, steps)


def named(name):
    return next(entry for entry in gallery.entries() if entry.name == name)


@pytest.mark.usefixtures("unchecked_passes")
@pytest.mark.parametrize("target", ["elsa", "lsa"])
@pytest.mark.parametrize("name", SCANS)
def test_a_scan_is_proved_for_every_number_of_rows(name, target, monkeypatch):
    entry = named(name)
    net, n = entry.compile(target=target), entry.sizes["n"] + 1
    assert "n" in net.certificate.free
    checked = checks(monkeypatch)
    other = net.resize(n=n)
    assert checked == []
    assert other.certificate.is_proof
    assert other.certificate.beyond == net.certificate.beyond
    assert prove(other.origin.traced, other)  # which is true
    inputs = entry.example(n=n)
    assert gallery.entry.difference(other(**inputs), entry.reference(**inputs)) < 1e-6


@pytest.mark.usefixtures("unchecked_passes")
@pytest.mark.parametrize(("name", "n"), [("delta_net", 2), ("mesa_layer", 50)])
def test_a_scan_whose_values_stand_in_another_way_elsewhere_is_proved_there(name, n, monkeypatch):
    entry = named(name)
    net = entry.compile()
    checked = checks(monkeypatch)
    other = net.resize(n=n)
    assert checked == [name]
    assert not alike_networks(net, other, Moved.of(net.origin.traced, other.origin.traced))
    assert other.certificate.network == other.fingerprint
    inputs = entry.example(n=n)
    assert gallery.entry.difference(other(**inputs), entry.reference(**inputs)) < 1e-6


@pytest.mark.usefixtures("unchecked_passes")
def test_sizes_may_be_changed_in_any_order():
    net = named("chain_of_thought_gd").compile()
    both = net.resize(n=9, t=5)
    assert both == net.resize(n=9).resize(t=5) == net.resize(t=5).resize(n=9)
    assert both.resize(n=20, t=16) == net
    net = named("delta_net").compile()
    for first, then in (({"n": 14}, {"d": 6}), ({"d": 6}, {"n": 14}), ({}, {"n": 14, "d": 6})):
        with pytest.raises(inweave.CompileError, match=r"d=6.* needs a new compilation"):
            net.resize(**first).resize(**then)


@pytest.mark.parametrize(
    ("program", "sizes", "free"),
    [
        (averaged, {"n": 7, "d": 3}, {"d"}),
        (from_row_3, {"n": 7, "d": 3}, {"n", "d"}),
        (two_rows_on, {"n": 7, "d": 3}, {"n", "d"}),
        (as_often_as_it_is_wide, {"d": 5, "steps": 5}, {"d"}),
        (literal, {"n": 7, "d": 3}, {"d"}),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_what_is_claimed_of_loops_is_true_elsewhere(program, sizes, free):
    net = inweave.compile(program, **sizes)
    assert set(net.certificate.free) <= free
    for name in program.size_names:
        for size in (2, 4, 6, 8, 19):
            there = {**sizes, name: size}
            try:
                other = inweave.compile(program, verify=False, **there)
            except inweave.InweaveError:  # there is no row 3
                continue
            pairs = [(net.origin.traced, net), (other.origin.traced, other)]
            if carried_over(net.certificate, *pairs) is not None:
                assert prove(*pairs[1])
            else:
                inweave.verify(program, other, **{k: v for k, v in there.items() if k == "steps"})


def test_a_loop_that_the_network_writes_out_is_proved_for_its_number_of_steps():
    @inweave.program
    def power(A: Matrix["d", "d"], x: Vector["d"], y: Vector["n"]):
        return {"x": inweave.iterate(lambda x: A @ x, x, y.shape[0]), "y": 2 * y}

    net = inweave.compile(power, n=4, d=3, optimize="depth")
    assert net.certificate.is_proof
    assert not any(module.carries for module in net.modules)
    assert net.certificate.free == ("d",)


# -- the reading of numbers ------------------------------------------------------------------------
@st.composite
def shifts(draw, rows, cols):
    row, col = draw(st.integers(0, rows)), draw(st.integers(0, cols))
    size = draw(st.integers(0, min(rows - row, cols - col)))
    return Shift(rows, cols, row, col, size)


@given(st.data())
def test_products_that_are_said_to_hold_for_all_sizes_do(data):
    n, d = data.draw(st.permutations(range(2, 9)).map(lambda p: p[:2]))
    reading = Reading({"n": n, "d": d}, {n - 1, d - 1})
    rows, inner, cols = (data.draw(st.sampled_from([1, n, d, n - 1, 4])) for _ in range(3))
    a, b = data.draw(shifts(rows, inner)), data.draw(shifts(inner, cols))
    _, both = product(a, b)
    fixed = reading.depends(a, b, both)
    for sizes in product_of(range(1, 10), range(1, 10)):
        there = dict(zip("nd", sizes, strict=True))
        if any(there[name] != {"n": n, "d": d}[name] for name in fixed):
            continue
        moved = Moved(reading, there, steps=False)
        try:
            left, right = moved.constant(a), moved.constant(b)
        except inweave.ShapeError:  # which do not exist there
            continue
        expected = left.entries() @ right.entries()
        np.testing.assert_array_equal(moved.constant(both).entries(), expected)
