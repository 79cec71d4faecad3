"""Experiments: ensembles train as single runs do, restricted layers are LSA, results are whole."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from io import StringIO

import pytest
import torch
from rich.console import Console

from inweave.cli import main, output
from inweave.cli.training import watched
from inweave.errors import InputError
from inweave.lab import baselines, measures
from inweave.lab.ensemble import assemble, tries
from inweave.lab.experiments import EXPERIMENTS, common, preconditioner, run
from inweave.lab.forms import form
from inweave.lab.progress import LOGGER, tell
from inweave.lab.report import markdown, report
from inweave.lab.tasks import Task, draw, stream
from inweave.lab.trainer import Settings, train_ensemble
from inweave.nn import build

TASK = Task(d=3, n=6, inputs="uniform", input_scale=2.0)


def test_an_ensemble_member_is_trained_as_if_alone():
    """One member by itself gets the same weights as inside an ensemble with another step size."""
    made = form("examples", 6, 3)
    start = common.random_start(made, bias=False, depth=2, scale=0.3, dtype=torch.float64)

    def trained(lrs, scales=(1.0,), start=start):
        every = tries(*lrs, scales=scales)
        settings = Settings(steps=20, batch=32, tries=every, warmup=2, log_every=10)
        return train_ensemble(assemble(start, (7,), every), TASK, made, settings)

    together, alone = trained((0.003, 0.02)), trained((0.02,))
    halved = common.random_start(made, bias=False, depth=2, scale=0.15, dtype=torch.float64)
    scaled, smaller = trained((0.003, 0.02), (1.0, 0.5)), trained((0.02,), start=halved)
    for name, weights in alone.weights.items():
        torch.testing.assert_close(together.weights[name][1], weights[0], rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(scaled.weights[name][1], weights[0], rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(
            scaled.weights[name][3], smaller.weights[name][0], rtol=1e-6, atol=1e-9
        )
    assert [step for step, _ in alone.curve] == [10, 20]
    batch = draw(TASK, 50, stream(0), torch.float64)
    member = alone.member(0)
    torch.testing.assert_close(
        alone.predict(made.prompt(batch))[0], member(made.prompt(batch)), rtol=1e-9, atol=1e-12
    )


def test_a_member_that_diverges_is_never_the_best_and_spoils_no_other():
    made = form("examples", 6, 3)
    start = common.random_start(made, bias=False, depth=3, scale=0.5)
    every = tries(1e-3, 100.0)
    settings = Settings(steps=60, batch=32, tries=every, warmup=1, clip=0.0)
    ensemble = train_ensemble(assemble(start, (0, 1), every), TASK, made, settings)
    tuning = draw(TASK, 200, stream(0, "tune"))
    assert ensemble.best(made, tuning) == [0, 2]
    assert all(bool(w[0].isfinite().all()) for w in ensemble.weights.values())


def test_an_ensemble_reaches_the_closed_form_of_one_step():
    task = Task(d=3, n=6, inputs="uniform")
    made = form("examples", 6, 3)
    settings = Settings(steps=1000, batch=256, tries=tries(0.03), warmup=20)
    start = common.random_start(made, bias=False, merged=True)
    ensemble = train_ensemble(assemble(start, (0,), settings.tries), task, made, settings)
    batch = draw(task, 20_000, stream(0, "eval"))
    step = baselines.gradient_descent(1, baselines.one_step_eta(task))
    best = baselines.one_step_loss(task)
    excess = (ensemble.errors(made, batch)[0] - measures.squared_errors(step, batch)).mean()
    assert float(excess) / best == pytest.approx(0.0, abs=0.03)
    (predict,) = ensemble.predictors(made, [0])
    cosine = measures.sensitivity_cosine(predict, step, batch.rows(slice(0, 500)))
    assert float(cosine.mean()) > 0.99


def test_the_restricted_layers_are_lsa_layers_with_the_query_masked():
    """Layer by layer: scores X A Xᵀ among examples, values and output in the last column."""
    model = preconditioner.Preconditioned(3, 5, 0.2, stream(0)).double()
    batch = draw(preconditioner.TASK, 20, stream(0), torch.float64)
    H = form("examples", 20, 5).prompt(batch)
    state = H
    mask = torch.ones(21, 1, dtype=torch.float64)
    mask[-1] = 0.0
    for A in model.A.detach():
        scores = torch.block_diag(A, torch.zeros(1, 1, dtype=torch.float64))
        values = torch.zeros(6, 6, dtype=torch.float64)
        values[-1, -1] = -1 / 20
        state = state + (state @ scores) @ (mask * state).mT @ (mask * state @ values)
    torch.testing.assert_close(state[:, -1, -1], model(H).detach())
    with torch.no_grad():
        model.A.copy_(0.3 * torch.eye(5).expand(3, 5, 5))
    torch.testing.assert_close(model(H).detach(), baselines.gradient_descent(3, 0.3)(batch))


@pytest.mark.parametrize("queries", [1, 0])
def test_tied_layers_can_be_gd_plus_plus_if_nobody_attends_to_the_query(queries):
    """One layer, repeated: residuals and prediction in one column, inputs transformed beside it."""
    eta, gamma, n, d = 0.7, 0.2, 6, 3
    made = form("examples", n, d)
    model = build(
        made.layout, depth=2, tied=True, bias=False, merged=True, queries=queries,
        outputs=made.outputs, dtype=torch.float64,
    )  # fmt: skip
    layer = model.stack[0].body[0]
    with torch.no_grad():
        layer.weight.zero_()
        layer.weight[:d, 0, 0, :d] = torch.eye(d)
        layer.weight[:d, 0, 1, :d] = -gamma / n * torch.eye(d, dtype=torch.float64)
        layer.weight[d, 0, 1, d] = -eta / n
    batch = draw(TASK, 40, stream(0), torch.float64)
    difference = model(made.prompt(batch)) - baselines.gd_plus_plus(2, eta, gamma)(batch)
    assert bool(difference.detach().abs().max() < 1e-12) == (queries == 1)


def test_without_constants_lsa_cannot_tell_the_rows_apart():
    """Swapping two features that are not the last swaps the rows of the state: LSA has no names.

    So the entry in row 0 of `answer` is that of row 1 for the swapped problem, and the mean of the
    two is all that an LSA network can know; a bias breaks the tie.
    """
    made = form("enumerated", TASK.n, TASK.d)
    batch = draw(TASK, 10, stream(0), torch.float64)
    H = made.prompt(batch)
    swapped = H[:, [1, 0, 2]]
    for bias in (False, True):
        start = common.random_start(
            made, bias=bias, heads=2, depth=2, tied=True, init="random", dtype=torch.float64
        )
        model = start(0)
        same = torch.allclose(model.final(H)[:, [1, 0, 2]], model.final(swapped))
        assert same is (not bias)


def tiny(monkeypatch):
    """The quick form of an experiment with almost no training."""

    def fit(make, task, made, settings, seeds, device, watch=None):
        small = replace(settings, steps=4, batch=8, log_every=2)
        ensemble = assemble(make, seeds[:2], small.tries)
        return train_ensemble(ensemble, task, made, small, device, watch)

    def held_out(task, _, seed, stream_name, device):
        return draw(task, 300, stream(seed, stream_name, device=device))

    monkeypatch.setattr(common, "fit", fit)
    monkeypatch.setattr(common, "held_out", held_out)


REPRODUCTIONS = ("one-step", "two-step", "gaussian-one-layer", "preconditioner")


@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_every_experiment_writes_a_whole_result_and_its_figure(name, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    tiny(monkeypatch)
    path = run(name, tmp_path, quick=True)
    result = json.loads(path.read_text())
    assert result["command"].startswith(f"inweave lab run {name} --quick")
    for row in result["rows"]:
        assert row["loss"]["low"] <= row["loss"]["mean"] <= row["loss"]["high"]
        assert row["label"] in result["table"]
    assert result["claims"]
    text, picture = report([path], tmp_path / "out")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert result["claims"][0]["claim"] in text.read_text()


def test_a_report_says_what_did_not_hold():
    result = {
        "name": "x", "command": "c", "rows": [], "axes": {"y": "MSE"},
        "claims": [{"claim": "it works", "value": 0.5, "holds": False}],
    }  # fmt: skip
    assert "it works: **does not hold** (0.5)" in markdown(result)


def test_a_run_from_the_command_line_leaves_table_and_figure(tmp_path, monkeypatch, capsys):
    tiny(monkeypatch)
    assert main(["lab", "run", "two-step", "--quick", "--out", str(tmp_path)]) == 0
    assert "GD++" in capsys.readouterr().out
    made = sorted(p.name for p in tmp_path.iterdir())
    assert made == ["lab-two-step.md", "lab-two-step.png", "two-step.json"]


def test_on_a_terminal_training_shows_a_bar_with_loss_rate_and_time(monkeypatch):
    told = StringIO()
    screen = Console(file=told, force_terminal=True, width=120)
    monkeypatch.setattr(output, "errors", lambda: screen)
    with watched("two-step"):
        tell(0, 10, math.nan)
        tell(5, 10, 0.25)
        (listener,) = LOGGER.handlers
        listener.bar.refresh()
    assert re.search(r"two-step, training 1: step 5 of 10, loss 0.25, .* steps/s", told.getvalue())


def test_the_command_line_says_what_went_wrong(tmp_path, capsys):
    assert main(["lab", "run", "nothing", "--out", str(tmp_path)]) == 2
    assert "no experiment 'nothing'; there are one-step" in capsys.readouterr().err
    assert main(["lab", "report", str(tmp_path / "none.json")]) == 2
    assert main(["lab", "list"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert all(f"{name} {it.question} " in said for name, it in EXPERIMENTS.items())
    with pytest.raises(InputError, match="holds no training run"):
        report([tmp_path])


def test_the_command_line_trains_evaluates_and_reports(tmp_path, capsys):
    (tmp_path / "a.toml").write_text(
        "[task]\nd = 2\nn = 4\n[model]\ndepth = 2\nqueries = 1\n[train]\nsteps = 20\n"
        "batch = 16\nlog_every = 10\n"
        "checkpoint_every = 10\neval_size = 100\n"
    )
    out = str(tmp_path / "a")
    assert main(["lab", "train", str(tmp_path / "a.toml"), "--out", out]) == 0
    told = capsys.readouterr().err
    assert re.search(
        r"^training 1: step 20 of 20, loss \S+, \S+ steps/s, 0 s left$", told, re.MULTILINE
    )
    assert "\r" not in told, "a bar is for terminals"
    assert not LOGGER.handlers
    assert main(["lab", "evaluate", out, "--size", "500", "--half"]) == 0
    said = capsys.readouterr().out
    assert "half-MSE (clean)" in said
    assert "least squares" in said
    assert "2 GD++ steps" in said
    assert "read after every step, from the prompt on: " in said
    assert "with fewer examples: 1: " in said
    assert main(["lab", "report", out]) == 0
    assert (tmp_path / "a" / "lab-a.png").exists()
