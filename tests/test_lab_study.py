"""The method of studies: searched alike, paired by seed, stored by arm, resumed, divided."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from inweave.cli import main
from inweave.errors import InputError
from inweave.lab import baselines, study
from inweave.lab.ensemble import Try, assemble, tries
from inweave.lab.experiments import bias, construction, noise, perturb
from inweave.lab.forms import form
from inweave.lab.optimizers import muon, orthogonal
from inweave.lab.spectral import Spectrum, nearest
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


def test_an_arm_is_known_again_on_a_machine_that_rounds_otherwise(tmp_path):
    """A step size that is computed has other last digits elsewhere; another step size is not it."""
    made = tiny(replace(arm(), factors={"eta": 0.07895435372303872}))
    study.run(made, tmp_path)
    for eta, missing in ((0.07895435372303873, []), (0.0789543537, ["a"])):
        assert Results.read(tiny(replace(arm(), factors={"eta": eta})), tmp_path).missing == missing


def test_seeds_apart_are_evaluated_each_on_problems_of_its_own(tmp_path):
    """What a seed's loss is then: its own member on its own block, and no other."""
    made = replace(tiny(arm(bias=False)), apart=True, keep_weights=False)
    batch = study.problems(made, made.arms[0], "eval", "cpu")
    assert len(batch) == 2 * made.problems
    assert len(study.problems(made, made.arms[0], "tune", "cpu")) == made.problems
    ensemble = assemble(made.arms[0].make, made.seeds, (Try(1e-2, 0.5),))
    found = study._errors(made, made.arms[0], ensemble, batch)
    for k, model in enumerate(ensemble.predictors(FORM, [0, 1])):
        own = batch.rows(slice(k * made.problems, (k + 1) * made.problems))
        torch.testing.assert_close(found[k], (model(own) - own.clean).square())
    assert study.run(made, tmp_path) == []


def test_an_arm_may_have_tries_of_its_own_as_many_as_the_others(tmp_path):
    own = tries(3e-3, 3e-2)
    made = tiny(replace(arm("own"), grid=own), arm("common"))
    assert study.run(made, tmp_path) == []
    found = json.loads((tmp_path / "own.json").read_text())
    assert [it["lr"] for it in found["search"]["tries"]] == [3e-3, 3e-2]
    with pytest.raises(InputError, match="another number of tries"):
        tiny(replace(arm("own"), grid=tries(1e-3)))


def test_reading_beside_y_is_what_lets_lsa_without_constants_predict():
    """In the first row its covariance with the answer is zero, whatever its weights."""
    signs = torch.ones(3, dtype=torch.float64)
    signs[0] = -1  # of the first row of the prompt
    for answer, is_odd in ((None, True), (bias.BESIDE, False)):
        one = bias.arm(False, True, False, 2, 16, answer=answer)
        batch = draw(one.task, 40, stream(0, "signs"), torch.float64)
        flipped = replace(batch, X=batch.X * signs, u=batch.u * signs)
        model = one.make(0)
        there, back = (model(one.form.prompt(b)) for b in (batch, flipped))
        torch.testing.assert_close(there, -back if is_odd else back)


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
    square = torch.Size((5, 1, 2, 5))
    between = torch.randn(4, square.numel(), generator=generator, dtype=torch.float64)
    several = muon(torch.cat([direction, between, -direction], 1), [shape, square, shape])
    apart = [muon(direction, [shape]), muon(between, [square]), muon(-direction, [shape])]
    torch.testing.assert_close(several, torch.cat(apart, 1))
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
    torch.testing.assert_close((batch.w * batch.u).sum(1), batch.clean)
    steps = batch.eta * (task.n * task.variance + batch.lam)
    assert 0.2 <= float(steps.min()) < float(steps.max()) <= 0.6
    noise = (batch.noisy - batch.clean) / (batch.sigma * task.output_scale)
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
        if a.factors.get("heads", bias.HEADS) != bias.HEADS:
            of[a.factors["layers"], a.factors["bias"], a.factors["heads"]] = a
    for layers in bias.LAYERS:
        elsa = of[layers, True, 7]
        assert of[layers, False, 8].model["parameters"] == elsa.model["parameters"]
        products = of[layers, False, 10].model["products"] / elsa.model["products"]
        assert products == pytest.approx(1.0, abs=0.01)
        counted = sum(p.numel() for p in elsa.make(0).parameters())
        assert counted == elsa.model["parameters"]


STUDIES = {"bias": bias, "construction": construction, "noise": noise, "perturb": perturb}


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_is_answered_from_whatever_arms_there_are(name, tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    made = STUDIES[name].study(True, 0)
    assert STUDIES[name].answer(Results(made, {}))["rows"] == []
    arms = tuple(replace(a, steps=2) for a in made.arms[:: max(1, len(made.arms) // 3)])
    small = replace(made, arms=arms, search_steps=2, grid=made.grid[:1], seeds=(0, 1), problems=60,
                    batch=4)  # fmt: skip
    monkeypatch.setattr(STUDIES[name], "study", lambda *_: small)
    assert main(["lab", "run", name, "--quick", "--out", str(tmp_path)]) == 0
    result = json.loads((tmp_path / f"{name}.json").read_text())
    assert result["complete"]
    assert "cannot" in result["supports"]
    assert len(result["rows"]) >= len(arms)
    assert all(row["loss"]["low"] <= row["loss"]["high"] for row in result["rows"])
    assert {p.stem for p in (tmp_path / name).glob("*.json")} >= {a.name for a in arms}
    assert (tmp_path / f"lab-{name}.png").read_bytes().startswith(b"\x89PNG")
    assert result["rows"][0]["label"] in capsys.readouterr().out


@pytest.mark.parametrize("name", STUDIES)
def test_every_full_study_has_20_seeds_two_optimizers_and_one_budget_of_search(name):
    made = STUDIES[name].study(False, 0)
    assert len(made.seeds) == 20
    assert {one.optimizer for one in made.grid} == {"adamw", "muon"}
    assert 1e-16 in {one.epsilon for one in made.grid}
    assert STUDIES[name].answer(Results(made, {}))["rows"] == []


def test_the_construction_is_descent_step_by_step():
    """What step-wise supervision asks for is what the paper's networks do."""
    for name in ("enumerated", "designed"):
        task = bias.ridge_task(2)
        made = form(name, task.n, task.d)
        batch = draw(task, 30, stream(0), torch.float64)
        built = construction.construction(made, 3)
        (stage,) = construction.stages(3, "steps", False)(built)
        goal = stage.goal(batch)
        torch.testing.assert_close(stage.template(made.prompt(batch)).detach(), goal)
        descent = Spectrum(batch, task).descent(3)
        torch.testing.assert_close(goal[:, -1], descent)
        exact = assemble(perturb.perturbed(made, 0.0), (0,), (Try(0.0),))
        torch.testing.assert_close(
            exact.predict(made.prompt(batch))[0].detach(), Spectrum(batch, task).descent(2)
        )
    shorter = construction.stages(3, "end", True)(built)
    assert [stage.template.parts[0].repeat for stage in shorter] == [1, 2, 3]


def test_the_measures_know_the_construction(monkeypatch):
    """The construction itself: at no distance, and it responds to η as descent does."""
    monkeypatch.setattr(construction, "PROBLEMS", 100)
    arm = construction.arm("enumerated", 2, 2, "end", False)
    ensemble = assemble(lambda _: construction.construction(arm.form, 2), (0, 1), (Try(0.0),))
    batch = draw(arm.task, 400, stream(0), torch.float64)
    batch = replace(batch, clean=baselines.bayes(arm.task)(batch))
    found = construction.measure(arm, ensemble, batch)
    assert max(found["to_construction"]) < -20
    assert min(found["to_chebyshev"]) > -4
    assert found["descent_steps"] == [2, 2]
    assert found["response_eta"] == pytest.approx([1.0, 1.0])
    assert max(max(layers) for layers in found["gauge"]) < 1e-6
    losses = found["references"]
    unit = study.zero_loss(batch)
    own = study.summary(ensemble.errors(arm.form, batch), unit)["log_loss"][0]
    assert losses["construction"] == pytest.approx(own), "on all problems, as networks are"
    assert losses["polynomial"] < losses["construction"]
    assert losses["chebyshev"] < losses["construction"]


def test_methods_of_the_spectrum_are_those_computed_step_by_step():
    task = bias.ridge_task(3)
    batch = draw(task, 50, stream(0), torch.float64)
    spectrum = Spectrum(batch, task)
    torch.testing.assert_close(spectrum.ridge(), baselines.ridge(batch.lam)(batch))
    torch.testing.assert_close(spectrum.descent(2**20), spectrum.ridge(), rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(spectrum.newton(30), spectrum.ridge(), rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(spectrum.chebyshev(3), spectrum.ridge(), rtol=0.5, atol=0.5)
    middle = (spectrum.s.amin(1) + spectrum.s.amax(1))[:, None] / 2
    torch.testing.assert_close(
        spectrum.chebyshev(1), spectrum.predict((1 / middle).expand_as(spectrum.s))
    )
    gaps = [float((spectrum.best_polynomial(k) - spectrum.ridge()).square().mean())
            for k in (1, 2, 3, 4)]  # fmt: skip
    assert gaps == sorted(gaps, reverse=True)
    own = torch.stack([spectrum.descent(5), spectrum.descent(64)])
    assert nearest(own, spectrum.descent) == [5, 64], "no cap at 8"
    with pytest.raises(InputError, match="no λ and η of their own"):
        Spectrum(draw(TASK, 5, stream(0)), TASK)
