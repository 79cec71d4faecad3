"""The benchmark measures what it says: no seconds are asserted here, only what is computed."""

import json
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from benchmarks import __main__ as bench
from benchmarks import (
    calls,
    compiling,
    dense,
    digits,
    direct,
    docs,
    growth,
    importing,
    jobs,
    measure,
    memory,
    modes,
    others,
    printing,
    problem,
    proving,
    ridge,
    show,
)  # fmt: skip
from benchmarks import gallery as by_entry
from benchmarks.__main__ import FAMILIES, summaries
from benchmarks.row import Row, from_json
from benchmarks.stored import Stored, machine
from inweave import gallery

pytestmark = pytest.mark.usefixtures("unchecked_passes")

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
TINY = {"seconds": 0.0, "sizes": ((6, 3),)}


def well_formed(rows):
    rows = list(rows)
    assert rows
    for row in rows:
        assert row.family
        assert row.name
        assert np.isfinite([row.low, row.value, row.high]).all()
        assert row.low <= row.value <= row.high
        assert show.cells(row)[0] == row.name
    assert from_json(json.loads(json.dumps([row.to_json() for row in rows]))) == rows
    return rows


@pytest.mark.parametrize("library", ridge.LIBRARIES)
def test_ridge_rows_compare_the_network_with_the_better_loop(library):
    pytest.importorskip(library)
    found = well_formed(ridge.rows(library, 1, **TINY, batches=(1, 3), steps=4))
    assert [row.name for row in found] == ["n=6 d=3 batch=1", "n=6 d=3 batch=3"]
    for row in found:
        hand = {name: t for name, t in row.seconds.items() if name != "inweave"}
        assert row.against == f"{library}, {min(hand, key=hand.get)}"
        assert row.bar == ridge.WORST


@pytest.mark.parametrize(("library", "batch"), list(product(ridge.LIBRARIES, (1, 3))))
def test_the_network_and_the_hand_written_loops_compute_the_same(library, batch):
    pytest.importorskip(library)
    net, given = problem.network(12, 4, 20), problem.data(12, 4, batch)
    calls = ridge.candidates(library, net, given)
    expected = [
        problem.ridge_gd(**{k: v if np.ndim(v) == 0 or batch == 1 else v[i]
                            for k, v in given.items()}, steps=20)
        for i in range(batch)
    ]  # fmt: skip
    for name, call in calls.items():
        found = np.asarray(call(20)).reshape(-1)
        assert np.allclose(found, expected, rtol=1e-10), name


def agrees(entry, library, batch=1):
    """Whether the hand-written code of an entry gives what its reference does."""
    sizes = by_entry.grown(entry, 1)
    given = by_entry.data(entry, sizes, batch)
    call = by_entry.candidates(library, entry, None, given)["by hand"]
    found = by_entry.as_numpy(call())
    problems = [{name: x if np.ndim(x) == 0 or batch == 1 else x[i] for name, x in given.items()}
                for i in range(batch)]  # fmt: skip
    expected = [by_entry.as_numpy(entry.reference(**one)) for one in problems]
    if isinstance(found, dict):
        parts = {name: np.concatenate([one[name] for one in expected]) for name in found}
        return gallery.difference(found, parts) <= 2 * entry.tolerance
    return gallery.difference(found, np.concatenate(expected)) <= 2 * entry.tolerance


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_the_code_written_by_hand_computes_every_entry_of_the_gallery(library):
    pytest.importorskip(library)
    wrong = [e.name for e in gallery.entries() if not agrees(e, library)]
    assert not wrong


@pytest.mark.parametrize("name", ["ridge_gd", "gauss_jordan", "kalman_filter", "sinkhorn"])
@pytest.mark.parametrize("library", by_entry.LIBRARIES)
def test_the_code_written_by_hand_takes_batches_and_runs_in_every_library(name, library):
    pytest.importorskip(library)
    assert agrees(gallery.get(name), library, batch=3)


def test_gallery_rows_have_a_bar_where_it_counts_and_stand_beside_lapack():
    entries = [gallery.get("gauss_jordan"), gallery.get("soft_extraction")]
    rows = well_formed(by_entry.rows("numpy", 1, 0.0, entries, (1, 10), (1, 2)))
    assert {row.against for row in rows} == {"numpy, by hand", "numpy, LAPACK"}
    for row in rows:
        hand = row.seconds.get("by hand", 0.0)
        assert (row.bar == by_entry.WORST) == (hand >= by_entry.COUNTS)


TABLED = ("softmax_regression", "functional_gd", "gaussian_mixture", "regression_mixture",
          "sinkhorn", "logistic_gd")  # fmt: skip


@pytest.mark.parametrize("library", by_entry.LIBRARIES)
@pytest.mark.parametrize("name", TABLED)
def test_beside_a_network_with_tables_stands_the_same_algorithm_with_the_same_tables(name, library):
    pytest.importorskip(library)
    entry = gallery.get(name)
    net, given = entry.compile(verify=False), by_entry.data(entry, entry.sizes, 3)
    calls = by_entry.candidates(library, entry, net, given)
    answers = {name: by_entry.as_numpy(call()) for name, call in calls.items()}
    assert set(answers) == {"inweave", "by hand", "by hand, no tables"}
    tabled, true = (gallery.difference(answers["inweave"], answers[f"by hand{rest}"])
                    for rest in ("", ", no tables"))  # fmt: skip
    assert tabled <= 1e-11
    assert 1e-9 < true <= 10 * entry.tolerance


def test_a_batch_that_shares_its_x_stands_beside_one_product_of_matrices():
    rows = well_formed(by_entry.rows("numpy", 1, 0.0, [gallery.get("ridge_gd")], (1,), (1, 3)))
    names = [row.name.partition(" ")[2] for row in rows]
    assert names == ["×1 batch=1", "×1 batch=3", "×1 batch=3, the rest shared"]


def kept(family, out, value=1.0):
    """What a worker does that measures nothing."""
    _, entry, factor = family.split("/")
    row = Row("gallery, numpy", f"{entry} ×{factor}", value, value, value)
    jobs.keep([row], out)


def test_entries_are_measured_side_by_side_and_what_is_there_is_not_measured_again(
    tmp_path, monkeypatch
):
    asked = []

    def measured(family, out, _core):
        asked.append(family)
        kept(family, out)

    monkeypatch.setattr(bench, "_measure", measured)
    names = [f"{e.name} ×{factor}" for e in gallery.entries() for factor in by_entry.FACTORS]
    for _ in range(2):
        found = bench.run_gallery(["numpy"], 3, tmp_path / "kept")
        assert [row.name for row in found.rows] == names
    families = [f"gallery-numpy/{name.replace(' ×', '/')}" for name in names]
    assert sorted(asked) == sorted(families)
    sooner = [family for family in asked[: len(asked) // 3] if not family.endswith("/100")]
    assert len(sooner) < 3, "of three at work, two may be overtaken"


def test_a_job_that_fails_is_named_and_leaves_its_rows_and_the_other_jobs(tmp_path):
    small, large = (jobs.Job("numpy", "a", factor) for factor in (1, 100))

    def measure(family, out, _core):
        if family != large.family:
            return kept(family, out)
        jobs.part_of(out).write_text(json.dumps([Row("gallery, numpy", "b", 1, 1, 1).to_json()]))
        raise subprocess.TimeoutExpired("b", 1)

    found = jobs.run([small, large], measure, tmp_path, 1, 10.0)
    assert [row.name for row in found.rows] == ["a ×1", "b"]
    assert len(found.failed) == 1
    assert found.failed[0].startswith(large.family)
    assert not large.kept(tmp_path).is_file(), "the next run measures it again"


def test_no_job_is_begun_after_its_time_and_what_is_there_is_found(tmp_path):
    one, other = (jobs.Job("numpy", name, 1) for name in "ab")
    kept(one.family, one.kept(tmp_path))
    found = jobs.run([one, other], lambda *_: pytest.fail("begun"), tmp_path, 1, 0.0)
    assert [row.name for row in found.rows] == ["a ×1"]
    assert (found.failed, found.waiting) == ([], 1)


def test_a_batch_that_is_too_large_or_too_slow_is_left_out_and_says_so(monkeypatch):
    entries = [gallery.get("soft_extraction")]
    monkeypatch.setattr(by_entry, "PATIENCE", 0.0)
    first, second = by_entry.rows("numpy", 1, 0.0, entries, (1,), (1, 2))
    assert (first.unit, second.unit, second.note) == ("×", "s", "left out: more than 0 s")
    monkeypatch.setattr(by_entry, "MEMORY", 1e3)
    (row,) = well_formed(by_entry.rows("numpy", 1, 0.0, entries, (1,), (64,)))
    assert (row.unit, row.note, row.bar) == ("MB", "left out: more than 0.001 MB", None)
    assert "- 1 left out: more than 0.001 MB" in show.by_entry([row], "gallery, numpy")


def test_the_gallery_is_shown_by_entry_and_summed_up_with_and_without_short_rows():
    rows = [
        Row("gallery, numpy", "a ×1 batch=1", 3.0, 3, 3, against="numpy, by hand"),
        Row("gallery, numpy", "a ×1 batch=64", 1.2, 1.2, 1.2, against="numpy, by hand", bar=1.5),
        Row("gallery, numpy", "b ×1 batch=64", 2.0, 2, 2, against="numpy, by hand", bar=1.5),
        Row("gallery, numpy", "b ×1 batch=64", 9.0, 9, 9, against="numpy, LAPACK"),
        Row("gallery, jax", "b ×1 batch=64", 7.0, 7, 7, against="jax, by hand", bar=1.5),
    ]
    told = show.by_entry(rows, "gallery, numpy")
    counted, every = told.splitlines()[:2]
    assert counted.startswith("- 2 rows count")
    assert "median 1.6, 50% at most 1.5; worst b ×1 batch=64 2, a ×1 batch=64 1.2" in counted
    assert "3 rows in all: median 2, 33% at most 1.5; worst a ×1 batch=1 3, b" in every
    assert "| a | by hand | (3) | 1.2 |" in told
    assert "| b | LAPACK |  | 9 |" in told
    assert "7" not in told


def test_ten_times_an_entry_is_ten_times_as_many_numbers_and_as_many_steps():
    entry = gallery.get("ridge_gd")
    sizes = by_entry.grown(entry, 100)
    assert sizes == {"n": 400, "d": 80, "steps": 81}


def test_code_that_computes_something_else_is_not_timed(monkeypatch):
    monkeypatch.setattr(by_entry, "by_hand", lambda _: lambda _, **given: 2 * given["B"])
    with pytest.raises(ArithmeticError, match="gauss_jordan"):
        next(by_entry.rows("numpy", 1, 0.0, [gallery.get("gauss_jordan")], (1,), (1,)))


def test_double_precision_in_jax_is_not_left_on():
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    calls = ridge.candidates("jax", problem.network(6, 3, 4), problem.data(6, 3, 1))
    assert all(call(4).dtype == np.float64 for call in calls.values())
    assert jax.config.jax_enable_x64 == before


def test_gradient_descent_converges_on_the_data_of_every_row():
    for (n, d), batch in product(ridge.SIZES[:2], (1, 40)):
        given = problem.data(n, d, batch)
        X = given["X"].reshape(-1, n, d)
        largest = np.linalg.eigvalsh(X.mT @ X)[:, -1]
        assert (given["eta"] * (largest + given["lam"]) < 2).all()
        assert len(np.unique(X.reshape(len(X), -1), axis=0)) == batch


def test_a_loop_a_hundred_times_slower_is_left_out():
    calls = {name: (lambda _: sum(range(1000))) for name in ("inweave", "plain", "gram")}
    slow = {**calls, "plain": lambda steps: sum(range(2000 * steps))}
    assert set(ridge.compare(slow, 50, 1, 0.0).samples) == {"inweave", "gram"}


def test_dense_rows_count_and_time_the_same_network():
    rows = well_formed(dense.rows(1, 0.0, timed=((6, 3),), counted=((6, 3),)))
    assert [row.against for row in rows] == ["plan", "plan"]
    net, given = problem.network(6, 3), problem.data(6, 3)
    torch = pytest.importorskip("torch")  # as on a GPU
    tensors = {k: v if isinstance(v, float) else torch.from_numpy(v) for k, v in given.items()}
    for taken in (given, tensors):
        calls = dense.calls(net, taken)
        assert np.allclose(calls["dense"](), calls["plan"](), rtol=1e-12)


def test_programs_beside_the_gallery_compute_what_is_written_by_hand(monkeypatch):
    """`rows` refuses to time what differs; a wrong line by hand is such a difference."""
    small = [x for x in others.OTHERS if x.program.name in ("admm", "nonnegative")]
    monkeypatch.setattr(others, "OTHERS", small)
    names = [row.name for row in well_formed(others.rows(1, 0.0, (1, 2)))]
    assert names == [
        f"{x} batch={b}" for x in ("admm n=40", "nonnegative n=60 d=10") for b in (1, 2)
    ]
    wrong = small[1]._replace(by_hand=lambda X, y: others._nonnegative(X, -y))
    monkeypatch.setattr(others, "OTHERS", [wrong])
    with pytest.raises(ArithmeticError, match="nonnegative"):
        list(others.rows(1, 0.0, (1,)))


def test_solvers_and_the_depth_network_agree_to_ten_digits():
    pytest.importorskip("sklearn")
    rows = well_formed(direct.rows(1, 0.0, size=(60, 5)))
    assert {row.against for row in rows} == {"sklearn Ridge(cholesky)", "scipy.linalg.solve"}
    given = problem.data(60, 5)
    net, _ = direct.deep_enough(60, 5, given)
    for name, solver in direct.solvers(given).items():
        assert abs(net(**given) - solver()) <= 2 * direct.DIGITS * abs(solver()), name


def test_estimators_are_compared_in_time_memory_and_first_fit():
    pytest.importorskip("sklearn")
    from benchmarks import estimators

    rows = well_formed(estimators.rows(1, sizes=((30, 3),), pairs=estimators.PAIRS[:1]))
    assert [row.name.rpartition(": ")[2] for row in rows] == ["time", "memory", "first fit"]


def test_the_other_families_make_well_formed_rows():
    told = {"a * b": (compiling.products, {"n": 3})}
    entry = (gallery.get("ridge_gd"),)
    found = well_formed(compiling.rows(1, **TINY, modes=("speed",), programs=told, entries=entry))
    assert [row.name for row in found][1:] == ["a * b, speed", "slowest of the gallery, speed"]
    well_formed(memory.rows(1, sizes=((6, 3, 2),), steps=3))
    one, many = well_formed(
        modes.rows(1, 0.0, times=(1,), names=("neumann_series",), batches=(1, 3))
    )
    assert one.note == many.note == "as written"
    assert set(one.seconds) == {"speed", "depth"}  # faithful is as written, too
    assert [row.name.rpartition(" ")[2] for row in (one, many)] == ["batch=1", "batch=3"]
    lost = well_formed(digits.rows(1, 0.0, batches=(1, 3)))
    assert len(lost) == 2 * len(digits.LOOPS) * len(digits.MATRICES)
    assert all(row.note.startswith("errors: speed ") for row in lost)
    well_formed(importing.rows(1, times=1))
    one = (gallery.get("ridge_gd"),)
    proofs = well_formed(proving.rows(1, entries=one, collapsed={(6, 3): (100,)}))
    assert [row.name for row in proofs][-2:] == ["the paper's networks", "n=6 d=3, T up to 100"]
    prints = well_formed(printing.rows(1, entries=one, steps=1000))
    assert [row.name for row in prints][-2:] == ["1,000 steps", "DeltaNet"]
    start = {"n": 8, "d": 3, "T": 4, "batch": 1}
    sweeps = dict.fromkeys(("n", "d", "T", "batch"), (start, (4, 8, 16)))
    for row in well_formed(growth.rows(1, 0.0, sweeps)):
        assert len(row.curve["inweave"]) == len(row.curve["by hand"]) == 3


def test_reading_a_table_is_compared_with_pyarrow():
    pytest.importorskip("pyarrow")
    from benchmarks import tables

    (row,) = well_formed(tables.rows(1, 0.0, size=10))
    assert set(row.seconds) == {"inweave", "pyarrow"}


@pytest.mark.parametrize("library", calls.BARS)
def test_the_smallest_call_and_its_line_by_hand_compute_the_same(library):
    pytest.importorskip(library)
    ours, theirs = (float(call()) for call in calls.candidates(library).values())
    assert ours == pytest.approx(theirs, rel=1e-5)


def test_a_call_is_compared_with_hand_written_code_by_difference():
    pytest.importorskip("torch")
    told = measure.Timing({"a": [3.0, 5.0, 4.0], "b": [1.0, 1.0, 1.0]})
    assert told.difference("a", "b").median == 3.0
    found = well_formed(calls.rows(1, 0.0))
    assert [row.bar for row in found] == list(calls.BARS.values())
    assert {row.unit for row in found} == {"µs"}


def test_peak_memory_counts_what_a_call_allocates_and_stays_near_its_inputs():
    for row in memory.rows(1, sizes=((2000, 20, 1), (200, 10, 16))):
        assert 1 < row.value <= row.bar, row


def test_an_exponent_is_the_slope_on_log_axes():
    values = (10, 20, 40, 80)
    slope, error = growth.exponent(values, [3e-6 * v**2 for v in values])
    assert slope == pytest.approx(2)
    assert error == pytest.approx(0, abs=1e-9)


def test_importing_inweave_does_not_load_numpy_or_anything_larger():
    loaded = set(importing.profile("import inweave"))
    assert not {name.partition(".")[0] for name in loaded} & {"numpy", "scipy", "torch", "jax"}
    assert "inweave" in loaded
    with_numpy = importing.profile("import inweave; inweave.compile")
    assert not [name for name in with_numpy if name.startswith("numpy.linalg")]


def test_timing_takes_turns_and_the_ratio_is_taken_within_a_turn():
    turns = []
    calls = {name: (lambda name=name: turns.append(name)) for name in "ab"}
    timing = measure.interleaved(calls, seconds=0.0, least=4)
    assert len(timing.samples["a"]) == len(timing.samples["b"]) == 4
    told = measure.Timing({"a": [1.0, 20.0, 3.0], "b": [1.0, 10.0, 1.0]})
    assert told.ratio("a", "b").median == 2.0
    assert told.quickest(["a", "b"]) == "b"


def test_what_was_called_before_and_fills_a_sample_is_measured_from_the_first_call_on(monkeypatch):
    monkeypatch.setattr(measure, "SAMPLE", 0.0)
    turns = []
    for called, times in ((True, 2), (False, 3)):
        turns.clear()
        timing = measure.interleaved({"a": lambda: turns.append("a")}, 0.0, 2, called=called)
        assert len(timing.samples["a"]) == 2
        assert len(turns) == times


def test_a_row_outside_its_quartiles_is_refused():
    with pytest.raises(ValueError, match="quartiles"):
        Row("family", "name", 2.0, 0.0, 1.0)


def test_summaries_hold_the_median_of_a_library_against_its_own_bar():
    rows = [Row("ridge, numpy", str(i), x, x, x, bar=1.5) for i, x in enumerate((1.0, 1.2, 1.4))]
    rows.append(Row("ridge, numpy", "too quick to count", 9.0, 9.0, 9.0))
    (found,) = summaries(rows)
    assert (found.low, found.value, found.high, found.bar) == (1.0, 1.2, 1.4, ridge.MEDIAN)
    assert found.met is False


def test_a_partial_run_replaces_only_its_own_families_and_says_where_they_were_measured():
    a, b, c = (Row(family, "x", 1, 1, 1) for family in ("a", "b", "c"))
    new = Row("b", "y", 2, 2, 2)
    then, now = ({"date": f"2026-11-{day}", "cores": 2, "architecture": "x", "load": 3.0}
                 for day in ("05", "16"))  # fmt: skip
    found = Stored([a, b], {"a": then, "b": then}).replaced([new, c], now)
    assert found.rows == [a, new, c]
    assert found.where().splitlines() == [
        "- 5 November 2026, 2 cores (x), a load of 3: a",
        "- 16 November 2026, 2 cores (x), a load of 3: b; c",
    ]


def test_the_machine_is_named_in_general_terms_only():
    assert set(machine()) <= {"date", "cores", "architecture", "python", "load", "numpy", "scipy",
                              "torch", "jax", "scikit-learn"}  # fmt: skip


def test_rows_above_the_bar_are_those_that_count_and_miss_it():
    rows = [
        Row("gallery, torch", "gauss_jordan ×1 batch=64", 1.8, 1, 2, against="torch, by hand",
            bar=1.5),
        Row("gallery, torch", "gauss_jordan ×10 batch=1", 1.4, 1, 2, against="torch, by hand",
            bar=1.5),
        Row("gallery, torch", "pca ×1 batch=1", 9, 9, 9, against="torch, by hand"),
        Row("gallery, jax", "pca ×1 batch=1", 3, 3, 3, against="jax, by hand", bar=1.5),
        Row("gallery, jax", "median of these (least, worst)", 3, 3, 3, bar=1.15),
    ]  # fmt: skip
    assert show.above(rows).splitlines()[2:] == [
        "| gauss_jordan | torch | 1.8 (×1 by 64) |",
        "| pca | jax | 3 (×1 by 1) |",
    ]
    assert show.above(rows[1:3]) == "No row is."


def test_rows_are_shown_as_a_table_and_a_plot(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    curve = {"variable": "n", "values": [1, 2], "inweave": [1.0, 2.0], "by hand": [1.0, 2.0]}
    rows = [Row("ridge, numpy", "n=1", 1.1, 1, 1.2, bar=1.5, seconds={"inweave": 0.1}),
            Row("growth", "in n", 1, 1, 1, "exponent", curve=curve, bar=0.5)]  # fmt: skip
    show.table(rows)
    told = capsys.readouterr().out
    assert "met" in told
    assert "missed" in told
    show.plot(rows, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000
    assert show.markdown(rows, "growth").count("\n") == 2


APART = {RESULTS / "kernel.json", RESULTS / "peers.json"}  # which have tables of their own
STORED = sorted(set(RESULTS.glob("*.json")) - APART)


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_stored_results_can_be_read(path):
    found = Stored.read(path)
    assert set(found.machines) == {row.family for row in well_formed(found.rows)}


@pytest.mark.parametrize("page", docs.PAGES, ids=lambda page: page.stem)
def test_the_pages_show_the_stored_results(page):
    text = page.read_text()
    assert docs.TABLE.search(text)
    assert docs.filled(text) == text, "run `python -m benchmarks.docs`"


def test_every_family_has_a_module():
    assert {module for module, _ in FAMILIES.values()} >= {"ridge", "direct", "growth", "precision"}


def test_results_are_stored_only_when_asked(tmp_path, monkeypatch):
    row = Row("direct", "one", 1.0, 1.0, 1.0)
    monkeypatch.setattr(bench, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(bench, "run", lambda _: [row])
    monkeypatch.setattr(bench, "plot", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--only", "direct"])
    assert bench.main() == 0
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--only", "direct", "--store"])
    assert bench.main() == 0
    assert Stored.read(tmp_path / "results" / "cpu.json").rows == [row]
