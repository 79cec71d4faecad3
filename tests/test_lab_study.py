"""The method of studies: searched alike, paired by seed, stored by arm, resumed, divided."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from inweave.errors import InputError
from inweave.lab import baselines, study
from inweave.lab.ensemble import Try, assemble, tries
from inweave.lab.experiments import bias
from inweave.lab.forms import form
from inweave.lab.optimizers import muon, orthogonal
from inweave.lab.study import Arm, Results, Study
from inweave.lab.tasks import Task, draw, stream
from inweave.lab.trainer import Settings, Stage, Trainer, train_ensemble

TASK = Task(d=2, n=4, inputs="uniform", input_scale=2.0)
FORM = form("examples", TASK.n, TASK.d)


def arm(name="a", steps=3, search="", **model):
    return Arm(name, {"name": name}, TASK, FORM, model, study.start(FORM, **model), steps,
               search=search)  # fmt: skip


def tiny(*arms):
    return Study("tiny", arms, 8, 2, (0, 1), 1, tries(1e-3, 1e-2), 50)


def test_arms_that_differ_in_biases_start_from_the_same_weights():
    lsa, elsa = (study.start(FORM, bias=bias, depth=2)(3) for bias in (False, True))
    theirs = dict(elsa.named_parameters())
    for name, p in lsa.named_parameters():
        assert torch.equal(p, theirs[name])
    assert not torch.equal(theirs["stack.0.body.0.weight"], theirs["stack.1.body.0.weight"])


def test_a_study_stores_every_arm_and_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    made = tiny(arm("one", bias=False), arm("two", bias=True))
    assert study.run(made, tmp_path, within=0.0) == ["one", "two"]
    assert Results.read(made, tmp_path).missing == ["one", "two"]
    assert study.run(made, tmp_path) == []
    found = json.loads((tmp_path / "two.json").read_text())
    assert len(found["log_loss"]) == len(found["failed"]) == len(found["dropped"]) == 2
    assert len(found["search"]["tries"]) == 2
    assert found["chosen"] in found["config"]["search"]["grid"]
    assert len(found["curve"]["loss"][0]) == 2
    monkeypatch.setattr(study, "_run_arm", lambda *_: pytest.fail("trained again"))
    assert study.run(made, tmp_path) == []
    other = replace(made, batch=4)
    assert Results.read(other, tmp_path).missing == ["one", "two"]


def test_the_try_with_the_best_score_on_tuning_seeds_is_taken(tmp_path):
    made = replace(tiny(arm(bias=False)), grid=(Try(1e-3), Try(1e9)), search_steps=5)
    found = study.search(made, made.arms[0], tmp_path, "cpu")
    assert found["chosen"]["lr"] == 1e-3
    assert found["tries"][1]["score"] <= 1.0, "bounded by the cap, however it diverges"
    assert not set(found["seeds"]) & set(made.seeds)


def test_processes_divide_the_searches_among_them():
    arms = [arm(f"{key}{i}", search=key, bias=False) for key in "abc" for i in range(2)]
    parts = [study._part(arms, (k, 2)) for k in (1, 2)]
    assert [[a.name for a in part] for part in parts] == [["a0", "a1", "c0", "c1"], ["b0", "b1"]]
    with pytest.raises(InputError, match="k from 1 to n, got 3/2"):
        study._part(arms, (3, 2))


def test_arms_are_trained_on_the_same_problems():
    seen = []

    def noted(made):
        class Noting(type(made)):
            def prompt(self, batch):
                seen.append(batch.X)
                return super().prompt(batch)

        return Noting(**{name: getattr(made, name) for name in made.__dataclass_fields__})

    for biased in (False, True):
        settings = Settings(2, 4, (Try(1e-3),))
        ensemble = assemble(study.start(FORM, bias=biased), (0, 1), settings.tries)
        train_ensemble(ensemble, TASK, noted(FORM), settings)
    assert torch.equal(seen[0], seen[2])
    assert torch.equal(seen[1], seen[3])
    assert not torch.equal(seen[0], seen[1])


def test_a_loss_counts_no_error_for_more_than_the_cap():
    errors = torch.tensor([[0.0, 1.0, torch.nan], [2.0, 2.0, 1e300]])
    found = study.summary(errors, 2.0)
    assert 10 ** found["log_loss"][0] == pytest.approx((0 + 0.5 + study.CAP) / 3)
    assert found["failed"] == pytest.approx([1 / 3, 1 / 3])
    assert found["median"] == [0.5, 1.0]


def overflowing(guard):
    """Two members of which one overflows on one problem of four; both after one step."""
    task = Task(d=2, n=4)
    settings = Settings(1, 4, (Try(0.1),), warmup=1, guard=guard)
    start = study.start(FORM, bias=False, depth=2)
    ensemble = assemble(start, (0, 1), settings.tries)
    before = ensemble.rows.clone()
    trainer = Trainer(ensemble, task, FORM, settings)
    trainer._draw(stream(0))
    trainer.problems[0][1, 2] = 1e40
    trainer.size.fill_(0.1)
    trainer.correction.fill_(0.01)
    trainer.pace.fill_(0.1)
    trainer._update()
    return before, ensemble.rows.detach(), trainer


def test_a_problem_that_overflows_is_left_out_and_counted_and_the_batch_is_not():
    before, after, trainer = overflowing(guard=True)
    assert trainer.dropped.tolist() == [0.0, 1.0]
    assert not trainer.stuck.any()
    assert ((after - before).abs().amax(1) > 0).all()
    before, after, trainer = overflowing(guard=False)
    assert trainer.stuck[:, 0].tolist() == [0.0, 1.0]
    assert torch.equal(after[1], before[1])


def test_under_guard_nothing_changes_where_nothing_overflows():
    ends = []
    for guard in (True, False):
        settings = Settings(5, 8, (Try(1e-2), Try(1e-2, optimizer="muon")), guard=guard)
        ensemble = assemble(study.start(FORM, depth=2), (0,), settings.tries)
        trainer = Trainer(ensemble, TASK, FORM, settings)
        if guard:  # as on a GPU, where it is always two passes
            trainer._update = trainer.update = lambda t=trainer: t._update_guarded(*t.problems)
        for t in range(5):
            trainer.step(t, 1.0)
        ends.append(ensemble.rows.detach())
    torch.testing.assert_close(*ends, rtol=1e-10, atol=1e-12)


def test_muon_steps_by_orthogonal_matrices_head_by_head():
    generator = torch.Generator().manual_seed(0)
    shape = torch.Size((3, 2, 3, 5))  # rows, heads, parts, columns
    direction = torch.randn(4, shape.numel(), generator=generator, dtype=torch.float64)
    step = muon(direction, [shape]).reshape(4, *shape)
    one = step[1, :, 1, 2]
    values = torch.linalg.svdvals(one) / (0.2 * 5**0.5)
    assert 0.6 < float(values.min()) <= float(values.max()) < 1.3
    U, _, Vt = torch.linalg.svd(direction.reshape(4, *shape)[1, :, 1, 2], full_matrices=False)
    assert torch.cosine_similarity(one.flatten(), (U @ Vt).flatten(), dim=0) > 0.97
    assert not orthogonal(torch.zeros(2, 2, 3)).any()
    with pytest.raises(InputError, match="use AdamW"):
        muon(direction, [torch.Size((shape.numel(),))])


def test_each_member_has_its_own_epsilon_and_optimizer():
    """A gradient of 1e-9 is stopped by ε = 1e-2, not by 1e-16; Muon knows no scale of gradients."""
    settings = Settings(1, 8, (Try(1e-3, epsilon=1e-2), Try(1e-3, epsilon=1e-16),
                               Try(1e-3, optimizer="muon")))  # fmt: skip
    ensemble = assemble(study.start(FORM, bias=False), (0,), settings.tries)
    before = ensemble.rows.clone()
    trainer = Trainer(ensemble, TASK, FORM, settings)
    trainer.size.fill_(1e-3)
    trainer.pace.fill_(1e-3)
    trainer.correction.fill_(1 - 0.99)
    losses = torch.zeros(3)
    gradient = torch.randn(before[0].shape, generator=stream(0)).to(before) * 1e-9
    trainer._descend(losses, losses[:, None], gradient.expand(3, -1).contiguous())
    moved = (ensemble.rows.detach() - before).square().mean(1).sqrt()
    assert moved[0] < 1e-8
    assert moved[1] == pytest.approx(1e-4, rel=0.01)  # lr (1 - β₁)
    assert moved[2] == pytest.approx(0.2e-3, rel=0.3)


def test_stages_share_the_steps_and_leave_the_model_its_own():
    seen = []

    def goal(name):
        return lambda batch: seen.append(name) or batch.clean

    settings = Settings(4, 4, (Try(1e-3),))
    ensemble = assemble(study.start(FORM), (0,), settings.tries)
    own, other = ensemble.template, study.start(FORM)(9)
    stages = [Stage(other, goal("first")), Stage(own, goal("second"))]
    train_ensemble(ensemble, TASK, FORM, settings, stages=stages)
    assert seen == ["first", "first", "second", "second"]
    assert ensemble.template is own


def test_a_prompt_may_hold_its_own_constants():
    task = bias.ridge_task(2)
    batch = draw(task, 500, stream(0), torch.float64)
    assert 0.01 <= float(batch.lam.min()) < 0.02
    assert 5 < float(batch.lam.max()) <= 10
    torch.testing.assert_close(batch.sigma.square(), batch.lam)
    steps = batch.eta * (task.n * task.variance + batch.lam)
    assert 0.2 <= float(steps.min()) < float(steps.max()) <= 0.6
    noise = (batch.noisy - batch.clean) / batch.sigma
    assert float(noise.square().mean()) == pytest.approx(1.0, abs=0.2)
    torch.testing.assert_close(
        baselines.bayes(task)(batch), baselines.ridge(batch.lam)(batch), rtol=1e-9, atol=1e-12
    )
    made = form("enumerated", task.n, task.d)
    H = made.prompt(batch)
    start = made.layout["λI"].start
    assert torch.equal(H[:, 1, start + 1], batch.lam)
    without = replace(made, constants=False).prompt(batch)
    assert not without[:, :, start : start + 2 * task.d].any()
    with pytest.raises(InputError, match="two numbers above 0"):
        Task(lam_range=(0.0, 1.0))


def test_the_three_comparisons_of_the_bias_are_what_they_are_called():
    of = {}
    for a in bias.study(False, 0).arms:
        if a.factors["heads"] != bias.HEADS:
            of[a.factors["layers"], a.factors["bias"], a.factors["heads"]] = a
    for layers in bias.LAYERS:
        elsa = of[layers, True, 7]
        assert of[layers, False, 8].model["parameters"] == elsa.model["parameters"]
        products = of[layers, False, 10].model["products"] / elsa.model["products"]
        assert products == pytest.approx(1.0, abs=0.01)
        counted = sum(p.numel() for p in elsa.make(0).parameters())
        assert counted == elsa.model["parameters"]


def test_a_study_is_answered_as_soon_as_there_are_arms():
    made = bias.study(True, 0)
    found = {"log_loss": [-1.0, -1.1], "median": [0.1, 0.1], "failed": [0.0, 0.0],
             "dropped": [0.0, 0.0], "parameters": 5,
             "curve": {"step": [1], "loss": [[0.5, 0.6]]}}  # fmt: skip
    assert bias.answer(Results(made, {}))["rows"] == []
    whole = bias.answer(Results(made, {a.name: found for a in made.arms}))
    assert len(whole["rows"]) == len(made.arms)
    assert any("bias x skip x constants" in claim["claim"] for claim in whole["claims"])
