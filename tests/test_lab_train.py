"""Training: it learns, resumes bit for bit after kill -9, stops on divergence, agrees across
processes; sweeps survive failures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from inweave.errors import DivergenceError, FileFormatError, InputError
from inweave.lab import checkpoint
from inweave.lab.baselines import one_step_loss
from inweave.lab.config import Config, FormConfig, ModelConfig, TrainConfig, from_dict, from_toml
from inweave.lab.evaluate import evaluate
from inweave.lab.optimizers import adamw
from inweave.lab.sweep import sweep
from inweave.lab.tasks import Task
from inweave.lab.train import METRICS, Run, Schedule, load_run, train

SMALL = Config(
    task=Task(d=3, n=6),
    model=ModelConfig(depth=2, scale=0.3),
    train=TrainConfig(steps=60, batch=64, log_every=10, checkpoint_every=20, eval_size=500),
)
TOML = """
[task]
preset = "linear-gaussian"
d = 3
n = 6
[model]
depth = 2
scale = 0.3
[train]
preset = "plateau"
steps = {steps}
batch = 64
log_every = 10
checkpoint_every = 20
eval_size = 500
patience = 2
fallen = 10.0
"""


def curve(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]


def environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "TORCH_NUM_THREADS": "1"}


def test_training_learns_and_leaves_a_model_that_loads(tmp_path):
    config = replace(
        SMALL,
        task=Task(d=3, n=6, inputs="uniform"),
        model=ModelConfig(merged=True, scale=1.0),
        train=replace(SMALL.train, steps=400, batch=256, lr=0.03),
    )
    result = train(config, tmp_path / "run")
    losses = [entry["loss"] for entry in curve(tmp_path / "run")]
    assert len(losses) == 40
    assert losses[-1] == pytest.approx(one_step_loss(config.task), rel=0.25)
    loaded, model = load_run(tmp_path / "run")
    assert loaded == config
    net = model.to_network()
    assert (net.depth, net.target) == (1, "lsa")
    table = evaluate(tmp_path / "run", size=2000)["table"]
    assert table["trained"]["loss"]["mean"] == pytest.approx(result["evaluation"], rel=0.2)
    assert table["Bayes"]["loss"]["mean"] < 1e-6
    assert table["trained"]["loss"]["mean"] < table["zero"]["loss"]["mean"]


@pytest.mark.parametrize("inputs", ["uniform", "gaussian"])
@pytest.mark.parametrize("merged", [True, False], ids=["merged", "apart"])
def test_the_written_out_step_is_the_general_one(inputs, merged):
    """Same data, same loss and same weights with and without automatic differentiation."""
    config = replace(
        SMALL,
        task=Task(d=3, n=5, inputs=inputs, input_scale=2.0),
        model=ModelConfig(merged=merged, scale=0.5),
    )
    fast, general = Run(config), Run(config)
    assert fast.trainer.direct is not None
    general.trainer.direct = None
    for t in range(5):
        assert float(fast.step(t)) == pytest.approx(float(general.step(t)), rel=1e-5)
    torch.testing.assert_close(fast.ensemble.rows, general.ensemble.rows, rtol=1e-4, atol=1e-6)
    noisy = replace(config, task=Task(d=3, n=5, noise=0.1))
    assert Run(noisy).trainer.direct is None
    assert Run(replace(config, model=ModelConfig(depth=2))).trainer.direct is None


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_the_written_out_update_is_that_of_adamw(decay):
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(5, 3, generator=generator, dtype=torch.float64)
    lrs, betas = (0.01, 0.003, 0.1, 0.02, 0.0), (0.8, 0.95)
    ours, moments = start.clone(), (torch.zeros_like(start), torch.zeros_like(start))
    rate = torch.tensor(lrs, dtype=torch.float64).unsqueeze(1)
    theirs = [nn.Parameter(row.clone()) for row in start]
    groups = [{"params": [p], "lr": lr} for p, lr in zip(theirs, lrs, strict=True)]
    optimizer = torch.optim.AdamW(groups, betas=betas, weight_decay=decay)
    for k in range(1, 31):
        gradient = torch.randn(5, 3, generator=generator, dtype=torch.float64)
        for p, row in zip(theirs, gradient, strict=True):
            p.grad = row.clone()
        first, second = (1 - beta**k for beta in betas)
        adamw(ours, gradient, moments, betas, rate / first, second, decay * rate if decay else None)
        optimizer.step()
    torch.testing.assert_close(ours, torch.stack(theirs), rtol=1e-12, atol=1e-14)
    for name, value in zip(("exp_avg", "exp_avg_sq"), moments, strict=True):
        kept = torch.stack([optimizer.state[p][name] for p in theirs])
        torch.testing.assert_close(value, kept, rtol=1e-12, atol=1e-14)


def test_a_run_killed_at_any_time_resumes_to_bit_identical_weights(tmp_path):
    (tmp_path / "c.toml").write_text(TOML.format(steps=400))
    command = [sys.executable, "-m", "inweave", "lab", "train", str(tmp_path / "c.toml")]
    victim = subprocess.Popen([*command, "--out", str(tmp_path / "killed")], env=environment())
    metrics = tmp_path / "killed" / METRICS
    while not metrics.exists() or metrics.read_text().count("\n") < 5:
        assert victim.poll() is None, "the run ended before it could be killed"
        time.sleep(0.005)
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    stopped = json.loads((tmp_path / "killed" / checkpoint.CURRENT).read_text())["step"]
    assert 0 < stopped < 400
    config = from_toml(tmp_path / "c.toml")
    train(config, tmp_path / "killed", resume=True)
    train(config, tmp_path / "whole")
    one, _ = checkpoint.load(tmp_path / "killed")
    other, _ = checkpoint.load(tmp_path / "whole")
    assert set(one) == set(other)
    for name in one:
        assert torch.equal(one[name], other[name]), name
    assert curve(tmp_path / "killed") == curve(tmp_path / "whole")
    assert len({entry["lr"] for entry in curve(tmp_path / "whole")}) > 2, "the schedule never acted"


def test_divergence_stops_with_a_message_and_the_last_good_checkpoint(tmp_path):
    config = replace(SMALL, train=replace(SMALL.train, lr=30.0, steps=200))
    with pytest.raises(DivergenceError, match=r"at step \d+ .* last good checkpoint, of step \d+"):
        train(config, tmp_path)
    tensors, _ = checkpoint.load(tmp_path)
    assert all(bool(t.isfinite().all()) for t in tensors.values())


@pytest.mark.parametrize("steps", [1, 30])
def test_no_checkpoint_is_kept_whose_own_loss_has_diverged(tmp_path, steps):
    """A loss is logged before its update: the update that ruins the weights looks fine in it."""
    settings = replace(SMALL.train, lr=1000.0, steps=steps, log_every=1, checkpoint_every=1)
    config = replace(SMALL, train=settings)
    with pytest.raises(DivergenceError, match="last good checkpoint, of step 0"):
        train(config, tmp_path)
    assert evaluate(tmp_path, size=200)["table"]["trained"]["loss"]["mean"] < 1e3


def test_resuming_a_finished_run_changes_nothing(tmp_path):
    first = train(SMALL, tmp_path)
    assert train(SMALL, tmp_path, resume=True) == first
    assert json.loads((tmp_path / "result.json").read_text())["loss"] == first["loss"]


def test_a_damaged_checkpoint_is_refused(tmp_path):
    train(SMALL, tmp_path)
    (file,) = tmp_path.glob("*.safetensors")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(FileFormatError, match="damaged"):
        load_run(tmp_path)
    with pytest.raises(FileFormatError, match="no readable checkpoint"):
        load_run(tmp_path / "nowhere")


def test_a_folder_is_not_overwritten_nor_resumed_with_other_settings(tmp_path):
    train(SMALL, tmp_path)
    with pytest.raises(InputError, match="already holds a run"):
        train(SMALL, tmp_path)
    other = replace(SMALL, train=replace(SMALL.train, lr=0.5))
    with pytest.raises(InputError, match="other settings"):
        train(other, tmp_path, resume=True)


TWO = {
    "elsa": (FormConfig("enumerated", eta=0.1), ModelConfig(depth=2, bias=True, scale=0.5)),
    "one plain layer": (FormConfig(), ModelConfig(scale=0.5)),
    "masked": (FormConfig(), ModelConfig(depth=2, queries=1, scale=0.5)),
}
IN_TWO = """
import json, sys
import torch.distributed as dist
from inweave.cli import main
from inweave.lab.config import from_dict
from inweave.lab.train import train

meet, part = dist.init_process_group, dist.destroy_process_group  # once, not for every run
dist.init_process_group = lambda *how: dist.is_initialized() or meet(*how)
dist.destroy_process_group = lambda: None
for name, config in json.loads(sys.argv[1]).items():
    train(from_dict(config), f"{sys.argv[2]}/{name}")
main(["lab", "train", f"{sys.argv[2]}/c.toml", "--out", f"{sys.argv[2]}/told"])
part()
"""


def of_two(which: str) -> Config:
    form, model = TWO[which]
    settings = replace(SMALL.train, clip=1.0, dtype="float64")
    return replace(SMALL, form=form, model=model, train=settings)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The runs of two processes, and what was printed; starting them takes longer than the runs."""
    folder = tmp_path_factory.mktemp("two")
    (folder / "go.py").write_text(IN_TWO)
    (folder / "c.toml").write_text(TOML.format(steps=20))
    configs = json.dumps({which: of_two(which).asdict() for which in TWO})
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
         str(folder / "go.py"), configs, str(folder)],
        check=True, timeout=120, env=environment(), capture_output=True, text=True,
    )  # fmt: skip
    return folder, done.stdout


@pytest.mark.parametrize("which", TWO)
def test_two_processes_have_the_loss_curve_of_one(tmp_path, two, which):
    train(of_two(which), tmp_path)
    for a, b in zip(curve(tmp_path), curve(two[0] / which), strict=True):
        assert a["step"] == b["step"]
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-6)


def test_of_several_processes_one_speaks(two):
    assert two[1].count("at the end") == 1
    assert two[1].count("held out") == 1


def test_the_step_size_waits_for_the_plateau_to_end():
    config = Config(train=TrainConfig(schedule="plateau", lr=1.0, patience=2, warmup=4))
    schedule = Schedule(config)
    assert [schedule.lr(t) for t in range(5)] == [0.25, 0.5, 0.75, 1.0, 1.0]
    for _ in range(50):
        schedule.logged(1.0, zero_loss=1.0)
    assert schedule.lr(99) == 1.0
    for loss in (0.5, 0.6, 0.6):
        schedule.logged(loss, zero_loss=1.0)
    assert schedule.lr(99) == 0.5


def test_settings_are_refused_by_name(tmp_path):
    cases = {
        "[train]\nstepps = 3": r"\[train\] unknown setting 'stepps'; did you mean 'steps'",
        "[train]\nsteps = 'x'": r"\[train\] steps must be int, got 'x'",
        "[train]\npreset = 'x'": "preset 'x' is not one of one-layer, plateau, deep",
        "[task]\npreset = 'x'": "preset 'x' is not one of linear-uniform",
        "[form]\nname = 'x'": "is not one of 'examples'",
        "[train]\nlog_every = 3": "multiple of log_every",
        "[model]\nbias = 1": "bias must be bool",
        "[modell]": "unknown entry 'modell'; did you mean 'model'",
        "[task": "Expected ']'",
    }
    for text, message in cases.items():
        (tmp_path / "c.toml").write_text(text)
        with pytest.raises(InputError, match=message):
            from_toml(tmp_path / "c.toml")


def test_a_config_survives_json():
    config = replace(SMALL, task=Task(d=3, eigenvalues=(1.0, 0.5, 0.25), rotation=1))
    assert from_dict(json.loads(json.dumps(config.asdict()))) == config
    assert config.digest != SMALL.digest


def test_a_sweep_records_failures_and_does_not_repeat_what_is_done(tmp_path):
    runs = [
        replace(SMALL, name="good"),
        replace(SMALL, name="bad", train=replace(SMALL.train, lr=30.0, steps=200)),
        replace(SMALL, name="other", train=replace(SMALL.train, seed=1)),
    ]
    with ThreadPoolExecutor(1) as pool:
        first = sweep(runs, tmp_path, executor=pool)
        assert "DivergenceError" in first["bad"]["failed"]
        assert (tmp_path / "bad" / "failure.json").exists()
        assert first["good"]["loss"] != first["other"]["loss"]
        before = (tmp_path / "good" / "result.json").stat().st_mtime_ns
        again = sweep(runs, tmp_path, executor=pool)
    assert again["good"] == first["good"]
    assert (tmp_path / "good" / "result.json").stat().st_mtime_ns == before
    with pytest.raises(InputError, match="named 'good'"):
        sweep([runs[0], runs[0]], tmp_path)


class Fragile:
    """An executor that loses one run, as a pool does when a process is killed."""

    def submit(self, function, *arguments):
        future = Future()
        if "dies" in arguments[1]:
            future.set_exception(BrokenExecutor("a process was killed"))
        else:
            future.set_result(function(*arguments))
        return future


def test_a_lost_process_is_a_recorded_failure(tmp_path):
    runs = [replace(SMALL, name="dies"), replace(SMALL, name="good")]
    results = sweep(runs, tmp_path, executor=Fragile())
    assert results["dies"]["failed"] == "BrokenExecutor: a process was killed"
    assert json.loads((tmp_path / "dies" / "failure.json").read_text())["lost"]
    assert results["good"]["evaluation"] > 0


def test_a_sweep_runs_in_local_processes(tmp_path):
    results = sweep([SMALL], tmp_path, workers=1)
    assert results["run"]["loss"] == pytest.approx(train(SMALL, tmp_path / "here")["loss"])


def test_a_sweep_runs_on_dask(tmp_path):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        pool = client.get_executor()
        results = sweep([SMALL, replace(SMALL, name="b")], tmp_path, executor=pool)
    assert results["run"]["loss"] == results["b"]["loss"]
