"""Tasks and prompt forms: seeded, distributed as they say, and laid out as networks are."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
import torch

from inweave import Network
from inweave.errors import InputError
from inweave.lab.forms import FormName, form
from inweave.lab.tasks import TASKS, Task, draw, mse, stream
from inweave.nn import Architecture
from inweave.paper.properties import V_J


@pytest.mark.parametrize("name", TASKS)
def test_every_task_is_fixed_by_its_seed(name):
    task = TASKS[name]
    one, again, other = (draw(task, 5, stream(seed, "test", 3)) for seed in (0, 0, 1))
    assert one.X.shape == (5, task.n, task.d)
    assert one.y.shape == (5, task.n)
    assert one.u.shape == (5, task.d)
    assert torch.equal(one.X, again.X)
    assert torch.equal(one.noisy, again.noisy)
    assert not torch.equal(one.X, other.X)


def test_streams_of_different_names_differ():
    drawn = {
        float(torch.rand(1, generator=stream(0, name, 1))) for name in ("train", "tune", "eval")
    }
    drawn.add(float(torch.rand(1, generator=stream(0, "train", 2))))
    assert len(drawn) == 4


@pytest.mark.parametrize("inputs", ["gaussian", "uniform"])
def test_stated_moments_are_the_drawn_ones(inputs):
    task = Task(inputs=inputs, input_scale=2.0)
    X = draw(task, 20_000, stream(0), torch.float64).X
    assert float(X.square().mean()) == pytest.approx(task.variance, rel=0.01)
    assert float(X.pow(4).mean()) == pytest.approx(task.kurtosis * task.variance**2, rel=0.02)


def test_anisotropic_inputs_have_the_stated_covariance_and_whitened_weights_undo_it():
    task = TASKS["anisotropic"]
    batch = draw(task, 20_000, stream(0), torch.float64)
    points = batch.X.flatten(0, 1)
    torch.testing.assert_close(
        points.T @ points / len(points), task.covariance(), atol=0.02, rtol=0
    )
    assert float(batch.clean.var()) == pytest.approx(task.d, rel=0.05)
    values = torch.linalg.eigvalsh(task.covariance())
    torch.testing.assert_close(values, torch.tensor(sorted(task.eigenvalues), dtype=torch.float64))


def test_noise_has_the_level_of_each_prompt():
    batch = draw(replace(TASKS["mixed-noise"], n=400), 300, stream(0), torch.float64)
    residual = batch.y - (batch.X @ batch.w.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(residual.std(1), batch.sigma, rtol=0.25, atol=1e-9)
    assert set(batch.sigma.tolist()) == {0.0, 1.0, 3.0}
    clean = draw(Task(), 5, stream(0))
    assert torch.equal(clean.clean, clean.noisy)


def test_sparse_weights_have_that_many_entries_and_a_pool_that_many_functions():
    assert (draw(TASKS["sparse"], 50, stream(0)).w != 0).sum(1).tolist() == [3] * 50
    assert len(draw(TASKS["task-pool"], 2000, stream(0)).w.unique(dim=0)) == 32


def test_a_tree_is_constant_on_orthants_and_takes_every_leaf():
    task = Task(d=3, n=4000, function="tree", levels=2)
    batch = draw(task, 3, stream(1))
    for X, y in zip(batch.X, batch.y, strict=True):
        orthant = ((X > 0) * torch.tensor([1, 2, 4])).sum(1)
        for which in range(8):
            assert len(y[orthant == which].unique()) == 1
        assert 2 <= len(y.unique()) <= 4


def test_shifts_touch_the_query_only():
    plain, shifted = (draw(t, 8, stream(0)) for t in (Task(), Task(query_scale=3.0)))
    torch.testing.assert_close(shifted.u, 3 * plain.u)
    torch.testing.assert_close(shifted.X, plain.X)
    torch.testing.assert_close(shifted.clean, 3 * plain.clean)


def test_the_loss_is_the_mse_on_the_named_target():
    batch = draw(TASKS["noisy"], 100, stream(0))
    zero = torch.zeros(100)
    assert float(mse(zero, batch, "clean")) == pytest.approx(float(batch.clean.square().mean()))
    assert float(mse(zero, batch, "noisy")) == pytest.approx(float(batch.noisy.square().mean()))
    assert float(mse(zero, batch)) != float(mse(zero, batch, "noisy"))
    with pytest.raises(InputError, match="not 'clean' or 'noisy'"):
        mse(zero, batch, "half")


@pytest.mark.parametrize("name", get_args(FormName))
def test_a_form_fills_the_prompt_that_its_network_would(name):
    relevance = "graded" if name == "keyed" else "all"
    batch = draw(Task(d=3, n=5, relevance=relevance), 4, stream(0), torch.float64)
    made = form(name, 5, 3, eta=0.2, lam=0.3)
    net = Network(made.layout, (), made.inputs, made.fills, made.outputs)
    given = {"X": batch.X, "y": batch.y, "u": batch.u}
    if name == "keyed":
        given |= {"keys": batch.keys, "key": batch.key}
    if name in ("designed", "enumerated"):
        zeros = torch.zeros(4, 3, dtype=torch.float64)
        given |= {"w0": zeros, "eta": 0.2, "lam": 0.3}
    torch.testing.assert_close(made.prompt(batch), net.prompt(**given))
    assert torch.equal(net.readout(made.prompt(batch)), torch.zeros(4, dtype=torch.float64))


def test_a_form_refuses_a_batch_of_another_size():
    batch = draw(Task(d=3, n=5), 4, stream(0))
    with pytest.raises(InputError, match="is for n = 6, d = 3; the batch has n = 5"):
        form("enumerated", 6, 3).prompt(batch)
    assert form("examples", 9, 3).prompt(batch).shape == (4, 6, 4)
    with pytest.raises(InputError, match="'keyed' is for tasks whose examples have a relevance"):
        form("keyed", 5, 3).prompt(batch)


def test_mask_and_move_on_the_features_form_is_selecting_examples_by_hand():
    """Weights between the columns that Property 1 keeps, and zeros: the others are not read."""
    n, kept, d = 6, 4, 3
    whole = draw(Task(d=d, n=n, relevance="binary"), 5, stream(0), torch.float64)
    few, many = form("features", kept, d, first_of=n), form("features", n, d)
    small, large = (
        made.build(Architecture(depth=2, heads=2, bias=False), stream(1), torch.float64)
        for made in (few, many)
    )
    pairs = [*((i, i) for i in range(kept)), (n, kept)]
    mover = torch.as_tensor(V_J(n + 1, pairs))[:, : kept + 1]
    with torch.no_grad():
        for one, other in zip(small.parameters(), large.parameters(), strict=True):
            other.copy_(torch.einsum("af,fhpg,bg->ahpb", mover, one, mover))
    by_hand = small(form("features", kept, d).prompt(whole.context(kept)))
    torch.testing.assert_close(large(many.prompt(whole)), by_hand)
    torch.testing.assert_close(small(few.prompt(whole)), by_hand)
    torch.testing.assert_close(many.prompt(whole) @ mover, few.prompt(whole))
    with pytest.raises(InputError, match="first_of must be at least n = 4, got 3"):
        form("features", kept, d, first_of=3)


def test_a_task_refuses_what_makes_no_sense():
    with pytest.raises(InputError, match="3 eigenvalues given for d = 5"):
        Task(d=5, eigenvalues=(1.0, 1.0, 1.0))
    with pytest.raises(InputError, match="one of noise"):
        Task(noise=1.0, noise_max=2.0)


@pytest.mark.parametrize("name", ["linear-uniform", "anisotropic", "noisy-per-prompt", "sparse"])
def test_problems_drawn_with_the_batch_innermost_are_problems_of_the_same_kind(name):
    task = TASKS[name]
    batch = draw(task, 3000, stream(0), torch.float64, batch_last=True)
    assert batch.X.shape == (3000, task.n, task.d)
    clean = (batch.u * batch.w).sum(-1)
    torch.testing.assert_close(batch.clean, clean)
    points = batch.X.flatten(0, 1)
    torch.testing.assert_close(
        points.T @ points / len(points), task.covariance(), atol=0.05, rtol=0
    )
    made = form("examples", task.n, task.d)
    again = replace(batch, X=batch.X.contiguous(), u=batch.u.contiguous())
    torch.testing.assert_close(made.prompt(batch), made.prompt(again))


def test_uniform_numbers_fill_the_interval_evenly():
    for dtype in (torch.float32, torch.float64):
        X = draw(Task(inputs="uniform"), 3000, stream(0), dtype).X.flatten()
        assert -0.5 <= float(X.min()) < -0.499
        assert 0.499 < float(X.max()) <= 0.5
        counts = torch.histc(X, bins=20, min=-0.5, max=0.5) / len(X)
        torch.testing.assert_close(counts, torch.full_like(counts, 0.05), atol=0.003, rtol=0)
