"""Studies of the lab: every arm is one of its own, and answers say what arms found."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from inweave.lab import study as method
from inweave.lab.ensemble import tries
from inweave.lab.experiments import explained, extraction, nonlinearity
from inweave.lab.report import figure
from inweave.lab.tasks import draw, stream
from scripts import open_questions, quick_directions


def tiny(whole, *names):
    """A few arms of a study with almost no training."""
    arms = tuple(replace(arm, steps=2) for arm in whole.arms if arm.name in names)
    assert len(arms) == len(names)
    return replace(
        whole, arms=arms, batch=8, search_steps=2, search_seeds=1, seeds=(0, 1, 2),
        grid=tries(1e-3), problems=200, keep_weights=False,
    )  # fmt: skip


def answered(module, folder, *names):
    """The answer that those arms give, its results, and the study they are of."""
    made = tiny(module.study(False, 0), *names)
    assert method.run(made, folder) == []
    results = method.Results.read(made, folder)
    return module.answer(results), results


def test_the_studies_have_every_arm_once():
    assert len(nonlinearity.study(False, 0).arms) == 5 * 5 * 6
    assert len(extraction.study(False, 0).arms) == 2 * 12 * 3
    assert len(explained.study(False, 0).arms) == 4 + 2
    for module in (nonlinearity, extraction, explained):
        full = {arm.name for arm in module.study(False, 0).arms}
        assert {arm.name for arm in module.study(True, 0).arms} <= full


def test_nonlinear_scores_are_held_against_linear_ones_seed_by_seed(tmp_path):
    names = ("tree-linear-1", "tree-softmax-1", "tree-linear-2", "tree-softmax-2")
    found, results = answered(nonlinearity, tmp_path, *names)
    logs = {name: results.by_arm[name]["log_loss"] for name in names}
    one, two = ([s - p for s, p in zip(logs[f"tree-softmax-{k}"], logs[f"tree-linear-{k}"],
                                       strict=True)] for k in (1, 2))  # fmt: skip
    means = [sum(one) / 3, sum(two) / 3]
    claims = {c["claim"]: c["value"] for c in found["claims"]}
    assert claims["tree, depth 1: less loss with softmax scores"] == pytest.approx(means[0])
    assert claims["tree, depths 1, 2: less loss with softmax scores"] == pytest.approx(
        sum(means) / 2
    )
    (curve,) = (s for s in found["series"] if s["group"] == "softmax")
    assert (curve["panel"], curve["x"]) == ("tree", [1, 2])
    assert [line["panel"] for line in found["lines"]] == ["tree"]
    said = open_questions.nonlinearity(found)
    assert all(open_questions.loss(row) in said for row in found["rows"] if "factors" in row)
    assert open_questions.ratio(next(c for c in found["claims"] if "depth 2" in c["claim"])) in said
    pytest.importorskip("matplotlib")
    assert figure(found, tmp_path / "figure.png").stat().st_size > 5000


def test_extraction_holds_all_arms_against_what_knows_every_relevance(tmp_path):
    masks = [f"graded-hard-mask-{k}-1" for k in (4, 8, 12)]
    found, results = answered(extraction, tmp_path, *masks, "graded-free-W-1")
    units = {result["unit"] for result in results.by_arm.values()}
    assert len(units) == 1, "arms that hide examples have the same problems, and the same goal"
    (claim,) = found["claims"]
    hard = min((results.by_arm[name]["log_loss"] for name in masks), key=sum)
    free = results.by_arm["graded-free-W-1"]["log_loss"]
    assert claim["value"] == pytest.approx((sum(free) - sum(hard)) / 3)
    said = open_questions.extraction(found)
    assert all(open_questions.loss(row) in said for row in found["rows"])
    del results.by_arm[masks[1]]
    assert extraction.answer(results)["claims"] == [], "which mask is best is not known"


def test_a_network_that_is_a_polynomial_is_explained_by_it(tmp_path, monkeypatch):
    """Predictions of a polynomial of degree 2 stand in for those of trained networks."""
    task = explained.TASKS["LSA"]
    tuned = draw(task, 500, stream(0), explained.torch.float64)

    def predictions(ensemble, _, batch):
        best = explained.fitted(explained.Basis.of(tuned, 2), tuned, tuned.clean)
        return best(batch)[:, None].expand(-1, ensemble.members)

    monkeypatch.setattr(explained, "_predictions", predictions)
    found, results = answered(explained, tmp_path, "lsa-2")
    (row,) = found["rows"]
    assert (row["degree"], row["factors"]["degree"]) == (3, 3)
    assert row["share"]["mean"] == pytest.approx(1.0, abs=1e-6)
    near = results.by_arm["lsa-2"]["measures"]["near"]
    assert near[3] == pytest.approx(near[2], abs=1e-6)  # the polynomial itself, and no nearer one
    assert near[1][0] > near[2][0] + 0.1
    assert 0.2 < row["share_of_descent"] < 0.98
    shares = results.by_arm["lsa-2"]["measures"]["share"]
    assert shares[1][0] < 0.99 < shares[2][0] + 1e-9


def claimed(text, value, p):
    return {"claim": text, "value": value, "low": value, "high": value, "p": p}


def test_a_claim_is_decided_by_its_direction_and_by_holms_p():
    claims = [claimed("less", -0.3, 0.01), claimed("more", 0.3, 0.01), claimed("?", -0.3, 0.2)]
    assert open_questions.decided(claims) == (["less"], ["more"], ["?"])
    assert [open_questions.ratio(c) for c in claims[::2]] == [
        "**0.501 [0.501, 0.501]**",
        "0.501 [0.501, 0.501]",
    ]


def test_quick_forms_are_counted_where_the_full_one_is_sure(tmp_path, monkeypatch):
    full = {"claims": [claimed("a", -0.3, 0.01), claimed("b", 0.2, 0.01), claimed("c", -1.0, 0.3)]}
    quick = {"bias": {"a": {"0": -0.1, "1": -0.2}, "b": {"0": 0.1, "1": -0.1}, "c": {"0": 1.0}}}
    (tmp_path / "bias.json").write_text(json.dumps(full))
    monkeypatch.setattr(quick_directions, "KEPT", tmp_path / "quick.json")
    quick_directions.KEPT.write_text(json.dumps(quick))
    assert "| bias | 3 | 2 | 1 of 2 |" in open_questions.directions(tmp_path)


def test_the_construction_is_where_its_training_begins():
    """Without noise it takes the steps of gradient descent that the gain is counted from."""
    task = explained.TASKS["ELSA"]
    batch = draw(task, 50, stream(1), explained.torch.float64)
    for arm, count in ((explained.elsa(k, 1), k) for k in (1, 2)):
        model = explained.shaken(task, count, noise=0.0)(0)
        eta = arm.form.eta * task.n
        expected = explained._descended(batch, count, eta)
        explained.torch.testing.assert_close(model(arm.form.prompt(batch)), expected)
