"""`optimize="speed"` keeps the candidate that costs least: by counted cost, never by the clock."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import inweave
from inweave import Matrix, Vector, gallery
from inweave.compiler import candidates
from inweave.compiler import costs as compiler_costs
from inweave.compiler.candidates import ALIKE, chosen
from inweave.compiler.options import CANDIDATES
from inweave.compiler.origin import Origin
from inweave.errors import CompileError
from inweave.run.cost import LOOP, Cost, cost, counted
from inweave.run.values import node
from inweave.text.explain import candidates as words
from tests.cases import CASES
from tests.ways import WAYS, compiled

pytestmark = pytest.mark.usefixtures("unchecked_passes")


@inweave.program
def normal(X: Matrix["n", "d"], w: Vector["d"]):
    return X.T @ (X @ w)


@inweave.program
def powers(A: Matrix["n", "n"], x: Vector["n"], *, steps: int):
    return inweave.iterate(lambda x: A @ x, x, steps)


@inweave.program
def symmetric(A: Matrix["n", "n"], x: Vector["n"], *, steps: int):
    return inweave.iterate(lambda x: A.T @ (A @ x), x, steps)


@inweave.program
def descent(X: Matrix["n", "d"], y: Vector["n"], *, steps: int):
    start = inweave.zeros(X.shape[1])
    return inweave.iterate(lambda w: w - X.T @ (X @ w - y), start, steps)


# -- the cost -------------------------------------------------------------------------------------
def test_a_cost_counts_calls_entries_and_multiplications():
    found = cost(inweave.compile(normal, n=50, d=4, verify=False).plan)
    assert found[2:] == (2, 2 * (200 + 50 + 4), 400)
    nanoseconds = 2 * node.CALL + 508 * node.ENTRY + 400 * node.MULTIPLY
    assert found.seconds == pytest.approx(1e-9 * nanoseconds)
    assert found.batched == pytest.approx(1e-9 * node.BATCHED.of(node.Work(2, 508, 400)))


def test_what_a_loop_does_counts_in_every_step_and_the_loop_itself_once():
    found = counted(inweave.compile(powers, n=3, steps=7, verify=False).plan.from_inputs)
    assert found == (7 + LOOP, 7 * (9 + 3 + 3), 7 * 9, 0)


def test_a_plan_that_goes_about_one_prompt_in_another_way_has_the_cost_of_that():
    plan = inweave.compile(symmetric, n=40, steps=25, verify=False).plan
    looped = counted(plan.from_inputs)
    found = cost(plan)
    assert found.calls < looped.calls
    assert found.seconds == pytest.approx(1e-9 * node.ALONE.of(node.Work(*found[2:])))
    assert found.batched == pytest.approx(1e-9 * node.BATCHED.of(looped))


def test_schedules_weigh_reading_and_multiplying_as_plans_do():
    assert pytest.approx(2 * node.ENTRY / node.MULTIPLY) == compiler_costs.ENTRY


# -- the choice -----------------------------------------------------------------------------------
LOOPED = {"as written", "factored", "hoisted"}  # whose plans have powers where they are quicker


@pytest.mark.parametrize(
    ("name", "sizes", "kept"),
    [
        ("ridge_gd", {"n": 40, "d": 10, "steps": 1000}, LOOPED),
        ("ridge_gd", {"n": 400, "d": 50, "steps": 1000}, LOOPED),
        ("ridge_gd", {"n": 400, "d": 80, "steps": 81}, LOOPED),
        ("ridge_gd", {"n": 4000, "d": 200, "steps": 2}, {"factored"}),
        ("ridge_gd", {"n": 4000, "d": 200, "steps": 5}, {"factored"}),
        ("lasso_ista", {"n": 64, "d": 2000, "steps": 10}, {"as written", "factored"}),
        ("lasso_ista", {"n": 400, "d": 80, "steps": 100}, {"hoisted"}),
        ("nesterov", {"n": 4000, "d": 200, "steps": 5}, {"factored"}),
        ("heavy_ball", {"n": 126, "d": 25, "steps": 30}, LOOPED),
        ("weighted_least_squares", {"n": 1000, "d": 200, "steps": 3}, {"factored"}),
        ("gated_delta_net", {}, {"factored"}),
        ("ridge_selection", {}, LOOPED),  # each column by itself
    ],
)
def test_the_sizes_decide_which_candidate_is_kept(name, sizes, kept):
    network = gallery.get(name).compile(optimize="speed", verify=False, **sizes)
    assert network.origin.candidate in kept


@inweave.program
def six_factors(A: Matrix["n", "n"], B: Matrix["n", "n"], v: Vector["n"]):
    return A @ (B @ (A @ (B @ (A @ (B @ v)))))


def test_no_matrices_are_multiplied_for_one_layer_less():
    network = inweave.compile(six_factors, n=50, optimize="speed")
    assert network.plan.flops < 2 * 6 * 2 * 50**2  # twice six products with a vector


@inweave.program
def series(A: Matrix["n", "n"], v: Vector["n"]):
    term = total = v
    for j in range(1, 31):
        term = (A @ term) / j
        total = total + term
    return total


@inweave.program
def krylov(A: Matrix["n", "n"], v: Vector["n"]):
    found = [v]
    for _ in range(20):
        found.append(A.T @ found[-1])
    return inweave.hstack(found)


@inweave.program
def across(A: Matrix["n", "n"], v: Vector["n"]):
    left, right = v.T, v
    for _ in range(12):
        left, right = left @ A, A @ right
    return inweave.outer(right, left.T)


@pytest.mark.parametrize(("program", "products"), [(series, 30), (krylov, 20), (across, 24)])
def test_vectors_are_multiplied_one_after_another_and_no_powers_of_their_matrix(program, products):
    """As the program does. So are those that it reads on the way, each once."""
    n = 40
    net = inweave.compile(program, optimize="speed", n=n, verify=False)
    assert net.plan.flops < 1.2 * products * 2 * n * n
    rng = np.random.default_rng(0)
    given = {"A": rng.normal(size=(n, n)) / n, "v": rng.normal(size=n)}
    np.testing.assert_allclose(net(**given), program(**given), rtol=1e-9)


def test_no_gram_matrix_is_formed_for_a_few_steps():
    sizes = {"n": 4000, "d": 200, "steps": 2}
    network = gallery.get("ridge_gd").compile(optimize="speed", verify=False, **sizes)
    assert network.plan.flops < 10 * sizes["n"] * sizes["d"] * sizes["steps"]


@pytest.mark.parametrize(
    ("name", "times"),
    [("ridge_gd", 1), ("chebyshev", 1), ("heavy_ball", 10), ("lasso_ista", 10), ("td0", 10)],
)
def test_speed_costs_no_more_than_another_mode(name, times):
    entry = gallery.get(name)
    sizes = {size: times * entry.sizes[size] for size in entry.program.size_names}
    found = {
        mode: cost(entry.compile(optimize=mode, verify=False, **sizes).plan).seconds
        for mode in ("faithful", "speed", "depth")
    }
    assert found["speed"] <= ALIKE * min(found.values()), found


@inweave.program
def dependence(X: Matrix["n", "d"], Y: Matrix["n", "q"]):
    A, B = X - X.mean(axis=0), Y - Y.mean(axis=0)
    return inweave.squared_norm(A.T @ B) / X.shape[0] ** 2


def test_drafts_cut_products_of_centred_factors_as_they_are_built():
    """Cut in thirds, the program as it is written would seem to take three times as long."""
    sizes = {"n": 1000, "d": 60, "q": 20}
    found = {
        mode: cost(inweave.compile(dependence, optimize=mode, verify=False, **sizes).plan)
        for mode in ("faithful", "speed")
    }
    assert found["speed"].seconds <= ALIKE * found["faithful"].seconds
    assert found["speed"].batched <= ALIKE * found["faithful"].batched


def test_what_is_kept_is_the_candidate_that_was_compared():
    for case in CASES[::6]:
        network = inweave.compile(case.program, optimize="speed", verify=False, **case.sizes)
        kept = network.origin.candidate
        assert network == compiled(case.program, kept, verify=False, **case.sizes)


def origin(**sizes):
    """Of a program whose candidates are four different networks."""
    entry = gallery.get("ridge_gd")
    return Origin(entry.program, {**entry.sizes, **sizes}, optimize="speed")


def priced(*seconds):
    """A cost that is so many seconds for one candidate after the other; None for no candidate."""
    left = iter(seconds)

    def found(_):
        price = next(left)
        if price is None:
            raise CompileError("it does not compile")
        return Cost(price, price, 0, 0, 0)

    return found


def test_of_candidates_that_cost_about_the_same_the_first_is_kept():
    assert list(CANDIDATES)[-1] == "collapsed"
    for seconds, kept in (
        ((1.0, 1.0, 1.0, 1.0), 0),
        ((1.04, 2.0, 2.0, 1.0), 0),
        ((1.06, 2.0, 2.0, 1.0), 3),
        ((3.0, 1.0, 2.0, 4.0), 1),
        ((None, 3.0, None, 2.0), 3),
    ):
        assert chosen(origin(), priced(*seconds))[0].candidate == WAYS[kept]


def test_candidates_that_are_one_network_are_not_priced():
    asked = Origin(normal, {"n": 2, "d": 3}, optimize="speed")
    kept, costs = chosen(asked, priced())
    assert (kept.candidate, costs) == ("as written", {})


def test_what_is_slower_by_least_alone_and_in_a_batch_is_kept():
    few = Cost(1.0, 3.0, 10, 10_000, 0)
    for seconds, better in ((2.8, True), (3.2, False)):
        many = Cost(seconds, 1.0, 100, 1_000, 0)
        for first, then, kept in ((many, few, 1 - better), (few, many, int(better))):
            found = iter((first, then, few, few))
            assert chosen(origin(), lambda _, found=found: next(found))[0].candidate == WAYS[kept]


def test_what_would_take_long_to_verify_does_not_say_what_is_fastest():
    long, known = Cost(float("inf"), 1.0, 1, 1, 1), Cost(1.0, 2.0, 10, 10_000, 0)
    found = iter((long, known, known, known))
    assert chosen(origin(), lambda _: next(found))[0].candidate == WAYS[1]


def test_a_program_that_no_candidate_compiles_is_refused_as_in_any_mode():
    undecided, costs = chosen(origin(), priced(None, None, None, None))
    assert undecided.candidate == ""
    assert costs == {}
    with pytest.raises(CompileError, match="tokens=1 is too few"):
        inweave.compile(normal, n=4, d=2, tokens=1, optimize="speed")


def test_a_candidate_that_would_take_long_to_verify_is_not_kept(monkeypatch):
    lasso = gallery.get("lasso_ista")
    assert lasso.compile(optimize="speed", verify=False).origin.candidate == "hoisted"
    monkeypatch.setattr("inweave.network.PATIENCE", 1e-6)
    assert lasso.compile(optimize="speed", verify=False).origin.candidate == "as written"


def test_other_modes_have_no_choice():
    for mode in ("faithful", "depth"):
        asked = replace(origin(), optimize=mode)
        assert chosen(asked, priced()) == (asked, {})


@pytest.mark.usefixtures("stepped")  # with powers, loops are best at both sizes
def test_other_sizes_are_served_by_the_candidate_that_was_kept():
    wide = inweave.compile(descent, optimize="speed", n=30, d=2000, steps=20)
    kept = wide.origin.candidate
    narrow = wide.resize(d=4)
    assert narrow.origin.candidate == kept
    assert list(narrow.layers) == list(wide.layers)
    fresh = inweave.compile(descent, optimize="speed", n=30, d=4, steps=20)
    assert fresh.origin.candidate == "collapsed"


# -- in words -------------------------------------------------------------------------------------
def test_explain_shows_the_candidates_and_what_they_cost():
    lines = inweave.explain(powers, optimize="speed", n=3, steps=81).splitlines()
    said = [
        line.split(":")[0].strip() for line in lines if line.startswith(("   kept", "   rejected"))
    ]
    assert said[0] == "kept as written"
    assert set(said[1:]) == {f"rejected {way}" for way in WAYS if way != "as written"}
    at = lines.index(f"   kept as written: {CANDIDATES['as written']}")
    assert "µs:" in lines[at + 1]
    assert "multiplications in products" in lines[at + 1]


def test_a_candidate_is_said_to_take_long_to_verify():
    costs = {
        "as written": Cost(1e-6, 1e-7, 1, 2, 3),
        "collapsed": Cost(float("inf"), 1e-7, 4, 5, 6),
    }
    *_, title, work = words(costs, "as written")
    assert title.startswith("   rejected collapsed: ")
    assert work.startswith("      would take long to verify: 4 calls, ")


def test_explain_of_another_mode_has_no_candidates():
    assert "candidates" not in inweave.explain(powers, n=3, steps=2)


@pytest.mark.parametrize("optimize", ["faithful", "speed", "depth"])
def test_a_way_to_stand_that_cannot_be_built_does_not_sink_the_others(optimize):
    @inweave.program
    def stretched(X: Matrix["n", "d"], w: Vector["d"]):
        return inweave.iterate(lambda Z: (w @ w) * Z, X, 4)

    net = inweave.compile(stretched, tokens="n", n=5, d=4, optimize=optimize)
    assert net.certificate is not None


def test_a_size_that_runs_along_the_tokens_is_tried_at_others_that_the_program_may_refuse():
    recorded = []

    @inweave.program
    def particular(X: Matrix["n", "d"], S: Matrix["d", "d"]):
        d = X.shape[1]
        recorded.append(d)
        if d not in (4, 5):
            raise ValueError("it is not written for this")
        return X @ S @ np.eye(d) @ S

    net = inweave.compile(particular, tokens="d", n=700, d=4, verify=False)
    assert (net.inputs[0].rows, net.inputs[0].cols) == (700, 4)
    assert max(recorded) <= 2 * 700, "what is held at a size by far the longest may be its square"


def test_a_program_stays_as_written_where_another_candidate_cannot_be_built(monkeypatch):
    run = candidates.run

    def unable(*args, candidate, **asked):
        if candidate != "as written":
            raise CompileError(f"{candidate} cannot be built")
        return run(*args, candidate=candidate, **asked)

    monkeypatch.setattr(candidates, "run", unable)
    for optimize in ("speed", "depth"):
        net = inweave.compile(normal, n=4, d=2, optimize=optimize, verify=False)
        assert net.fingerprint == inweave.compile(normal, n=4, d=2, verify=False).fingerprint
