"""What the lab cannot use is refused in one line that names it, before anything is trained."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from inweave.cli import main
from inweave.errors import FileFormatError, InputError, InweaveError
from inweave.exact.schema import loads, numbers
from inweave.lab import checkpoint, tasks
from inweave.lab.config import Config, FormConfig, ModelConfig, TrainConfig, from_dict, from_toml
from inweave.lab.devices import check_device
from inweave.lab.evaluate import evaluate
from inweave.lab.forms import form
from inweave.lab.report import report
from inweave.lab.sweep import sweep
from inweave.lab.tasks import Task
from inweave.lab.train import METRICS, Run, load_run, train

ROOT = Path(__file__).parent.parent
RUN = (
    "[task]\nd = 2\nn = 4\n[train]\nsteps = 20\nbatch = 16\nlog_every = 10\n"
    "checkpoint_every = 10\neval_size = 100\n"
)
RESULT = {
    "name": "x", "command": "c", "claims": [], "lines": [], "axes": {"x": "step", "y": "MSE"},
    "rows": [{"label": "a", "loss": {"mean": 1.0, "low": 0.5, "high": math.inf}}],
    "series": [{"group": "a", "x": [1, 2, 3], "y": [3.0, math.nan, 1.0]}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("section", "setting", "value", "expected"),
    [
        ("form", "eta", -0.1, "at least 0"),
        ("form", "lam", -1, "at least 0"),
        ("form", "lam", math.inf, "finite"),
        ("model", "mlp_units", -1, "at least 0"),
        ("model", "heads", 0, "at least 1"),
        ("model", "init", "x", "one of"),
        ("model", "scale", math.nan, "finite"),
        ("train", "steps", 0, "at least 1"),
        ("train", "clip", -1.0, "at least 0"),
        ("train", "warmup", -1, "at least 0"),
        ("train", "factor", 0.0, "above 0 and below 1"),
        ("train", "factor", 1.0, "above 0 and below 1"),
        ("train", "patience", 0, "at least 1"),
        ("train", "fallen", 0.0, "positive"),
        ("train", "eval_size", 0, "at least 1"),
        ("train", "lr", 0.0, "positive"),
        ("train", "lr", math.inf, "finite"),
        ("train", "lr", math.nan, "finite"),
        ("train", "lr", 10**400, "finite"),
        ("train", "beta1", 1.0, "at least 0 and below 1"),
        ("train", "beta2", -0.1, "at least 0 and below 1"),
        ("train", "weight_decay", -0.1, "at least 0"),
        ("task", "noise", -1.0, "at least 0"),
        ("task", "noise_max", -1.0, "at least 0"),
        ("task", "noise_levels", [0.0, -1.0], "at least 0"),
        ("task", "noise_levels", [0.0, math.nan], "finite"),
        ("task", "pool", -1, "at least 0"),
        ("task", "hidden", 0, "at least 1"),
        ("task", "levels", 0, "at least 1"),
        ("task", "eigenvalues", [1.0] * 9 + [0.0], "positive"),
        ("task", "input_scale", 0.0, "positive"),
        ("task", "query_shift", math.inf, "finite"),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(section, setting, value, expected):
    with pytest.raises(InputError, match=rf"^\[{section}\] {setting} must be {expected}.*, got "):
        from_dict({section: {setting: value}})


def test_settings_are_refused_in_python_too():
    for make in (
        lambda: Task(noise=-1.0),
        lambda: TrainConfig(clip=-1.0),
        lambda: ModelConfig(mlp_units=-1),
        lambda: FormConfig(eta=-1.0),
        lambda: form("designed", 4, 2, eta=-1.0),
        lambda: form("designed", 4, 2, lam=math.nan),
        lambda: form("examples", 0, 2),
    ):
        with pytest.raises(InputError, match=r"must be .*, got"):
            make()


@pytest.mark.parametrize(
    "name", [5, "", " ", "a/b", "/a", "a\\b", "..", ".", ".hidden", "../a", "a\nb", ["a"], None]
)
def test_a_name_that_is_no_folder_is_refused(name):
    with pytest.raises(InputError, match="name must be the name of a folder"):
        from_dict({"name": name})


@pytest.mark.parametrize("name", ["run", "run 2", "größe", "a.b", "1e-3", "a..b"])
def test_a_plain_name_is_taken(name):
    assert from_dict({"name": name}).name == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task = 5", r"task must be one table, written \[task\], got 5"),
        ("form = 'examples'", r"form must be one table, written \[form\], got 'examples'"),
        ("model = [1]", r"model must be one table, written \[model\], got \[1\]"),
        ("[[task]]\nd = 3", r"task must be one table, written \[task\], got"),
        ("[[train]]", "train must be one table"),
        ("[task]\npreset = ['a']", r"\[task\] preset \['a'\] is not one of linear-uniform"),
        ("[train]\npreset = ['a']", r"\[train\] preset \['a'\] is not one of one-layer"),
        ("[form]\npreset = 'a'", r"\[form\] unknown setting 'preset'"),
        ("[form]\nname = ['a']", "is not one of 'examples'"),
        ("[task]\nnoise_levels = 1", "must be a list of numbers"),
        ("name = 5", "name must be"),
    ],
)
def test_values_of_the_wrong_type_are_refused(text, message, tmp_path):
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(InputError, match=message):
        from_toml(tmp_path / "c.toml")


def test_a_config_that_is_no_table_is_refused():
    with pytest.raises(InputError, match=r"a config must be a table, got \[1\]"):
        from_dict([1])


def test_a_file_that_is_no_toml_is_refused(tmp_path):
    (tmp_path / "latin.toml").write_bytes("name = 'größe'".encode("latin-1"))
    (tmp_path / "deep.toml").write_text("name = " + "[" * 10_000)
    with pytest.raises(InputError, match="UTF-8"):
        from_toml(tmp_path / "latin.toml")
    with pytest.raises(InputError, match="cannot read the config"):
        from_toml(tmp_path)
    with pytest.raises(InputError, match="no config file"):
        from_toml(tmp_path / "none.toml")
    with pytest.raises(InputError, match="deep"):
        from_toml(tmp_path / "deep.toml")


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """Run a command of the lab that is refused; returns the one line that it says."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    (tmp_path / "a.toml").write_text(RUN)

    def run(*arguments: str) -> str:
        assert main(["lab", *arguments]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.strip().count("\n") == 0, said.err
        return said.err

    return run


COMMANDS = (("train", "a.toml"), ("evaluate", "a"), ("run", "one-step"), ("sweep", "a.toml"))


@pytest.mark.parametrize("command", COMMANDS, ids=[c[0] for c in COMMANDS])
def test_a_device_that_is_not_there_is_refused(command, refused, monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "finds no GPU; use cpu" in refused(*command, "--device", "cuda")
    assert "device must be cpu, cuda or" in refused(*command, "--device", "foo")
    assert [p.name for p in tmp_path.iterdir()] == ["a.toml"]


def test_a_gpu_is_refused_by_its_number_only_where_the_work_is_done(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    check_device("cuda")
    check_device("cuda:1")
    check_device("cuda:7", here=False)
    with pytest.raises(InputError, match="there are 2 GPUs"):
        check_device("cuda:2")
    for odd in ("mps", "cpu:0", "cuda:", "", "cuda:-1"):
        with pytest.raises(InputError, match="device must be"):
            check_device(odd, here=False)


def test_sizes_that_make_no_sense_are_refused(refused):
    assert "size must be at least 1, got -5" in refused("evaluate", "a", "--size", "-5")
    assert "workers must be at least 1, got 0" in refused("sweep", "a.toml", "--workers", "0")


def test_a_file_in_the_way_is_one_line(refused):
    for command in (["train", "a.toml"], ["run", "one-step", "--quick"]):
        assert "a.toml is a file; name a folder" in refused(*command, "--out", "a.toml")
    assert "cannot read the config" in refused("train", ".")


def test_what_is_no_study_has_no_parts_and_no_share(refused, tmp_path):
    for option in (["--part", "2/4"], ["--share", "0.5"]):
        said = refused("run", "noise", "one-step", "--quick", "--out", "made", *option)
        assert "one-step is no study, it is run whole: leave out --part and --share" in said
    assert not (tmp_path / "made").exists(), "nothing is trained before that is seen"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1, 2], "it must be an object, is list"),
        ([["name", "x"]], "it must be an object, is list"),
        ({}, "it lacks 'name'"),
        ({"name": "x", "version": 1}, "it lacks 'command'"),
        (RESULT | {"rows": 5}, "it has a wrong 'rows'"),
        (RESULT | {"rows": [{"label": "a"}]}, r"rows\[0\] lacks 'loss'"),
        (RESULT | {"rows": [{"label": "a", "loss": {}}]}, r"rows\[0\].loss lacks 'mean'"),
        (RESULT | {"claims": [1]}, r"claims\[0\] must be an object, is int"),
        (RESULT | {"series": [{"group": "a", "x": [1], "y": ["b"]}]}, "must hold numbers only"),
        (RESULT | {"name": "../x"}, "its name is"),
        (RESULT | {"axes": {}}, "axes lacks 'x'"),
    ],
)
def test_a_report_on_another_file_says_what_is_missing(content, message, tmp_path):
    path = tmp_path / "other.json"
    path.write_text(json.dumps(content))
    with pytest.raises(FileFormatError, match=f"is no result of the lab: .*{message}"):
        report([path])
    assert list(tmp_path.iterdir()) == [path]


def test_a_report_on_other_files_is_one_line(refused, tmp_path):
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    (tmp_path / "text.json").write_text("{")
    for name in ("list.json", "bytes.json", "text.json", "none.json"):
        assert name in refused("report", name)


def test_a_report_shows_what_is_not_finite(tmp_path):
    pytest.importorskip("matplotlib")
    lines = [{"label": "b", "y": math.inf}]
    nothing = {"lines": [], "series": []}
    for i, more in enumerate(({}, {"lines": lines}, {"lines": lines, "series": []}, nothing)):
        path = tmp_path / f"{i}.json"
        checkpoint.write_json(path, RESULT | more)
        text, picture = report([path], tmp_path / "out")
        assert "| a | 1.0000 | 0.5000 to inf |" in text.read_text()
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_report_skips_the_line_that_a_kill_cut_off(tmp_path):
    pytest.importorskip("matplotlib")
    from inweave.lab.results import read_result

    metrics = tmp_path / "metrics.jsonl"
    whole = '{"step": 10, "loss": 0.5, "lr": 0.1}\n'
    metrics.write_text(whole + '{"step": 20, "lo')
    assert read_result(tmp_path)["series"][0]["y"] == [0.5]
    assert len(report([tmp_path], tmp_path / "out")) == 2
    metrics.write_text(whole + '{"step": 20, "lo\n' + whole)
    with pytest.raises(FileFormatError, match="line 2"):
        report([tmp_path])
    metrics.write_text("[1]\n")
    with pytest.raises(FileFormatError, match="line 1 must be an object"):
        report([tmp_path])
    for start in ("", '{"st'):
        metrics.write_text(start)
        with pytest.raises(InputError, match="has logged no loss yet"):
            report([tmp_path])
    metrics.write_text(whole)
    (tmp_path / "evaluation.json").write_text('{"table": {"zero": 1}}')
    with pytest.raises(FileFormatError, match=r"'zero'\] must be an object"):
        report([tmp_path])


def test_a_checkpoint_of_another_kind_is_refused(tmp_path):
    for text in ("[]", "{}", '{"file": "x"}', '{"file": 5, "sha256": ""}', "{"):
        (tmp_path / checkpoint.CURRENT).write_text(text)
        with pytest.raises(FileFormatError, match="no readable checkpoint"):
            checkpoint.load(tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that has ended, so that resuming it does nothing but read it."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "run.toml").write_text(RUN)
    config = from_toml(folder / "run.toml")
    train(config, folder / "run")
    return config, folder / "run"


NASTY = [None, True, -1, 10**9, 2**63, 0.5, math.nan, "", "x", "../run.toml", [], {}, [1], {"a": 1}]


def test_whatever_a_checkpoint_says_it_is_taken_or_refused_in_words(finished, tmp_path):
    """Every field in turn is removed or becomes something else; only InweaveError comes of it."""
    config, folder = finished
    run = Run(config)
    shutil.copytree(folder, tmp_path / "run")
    path = tmp_path / "run" / checkpoint.CURRENT
    whole = json.loads(path.read_text())
    del whole[checkpoint.CHECKSUM]  # as it once was, so that every other check is reached
    fields = [(), *((name,) for name in whole), *(("schedule", n) for n in whole["schedule"])]
    refused = 0
    for field, value in itertools.product(fields, [..., *NASTY]):
        changed = json.loads(json.dumps(whole))
        place = changed["schedule"] if len(field) > 1 else changed
        if not field:
            changed = value
        elif value is ...:
            del place[field[-1]]
        else:
            place[field[-1]] = value
        path.write_text(json.dumps(None if changed is ... else changed))
        for read in (load_run, run.resume):
            try:
                read(tmp_path / "run")
            except InweaveError:
                refused += 1
    assert refused > 200
    path.write_text(json.dumps(whole))
    assert run.resume(tmp_path / "run") == config.train.steps


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"mean": None}, "has no tensor 'mean'"),
        (
            {"mean": torch.zeros(2)},
            r"tensor 'mean' is \(2,\) of torch.float32, its settings ask for",
        ),
        ({"square": torch.zeros(1, 1, dtype=torch.int8)}, "tensor 'square' is .* of torch.int8"),
    ],
)
def test_tensors_of_another_run_are_refused_by_name(finished, tmp_path, change, said):
    config, folder = finished
    tensors, current = checkpoint.load(folder)
    changed = {name: t for name, t in (tensors | change).items() if t is not None}
    state = checkpoint.State(config=current["config"], schedule=current["schedule"])
    checkpoint.save(tmp_path, current["step"], changed, state)
    with pytest.raises(FileFormatError, match=said):
        Run(config).resume(tmp_path)
    renamed = {name.replace("model.", "other."): t for name, t in tensors.items()}
    checkpoint.save(tmp_path, current["step"], renamed, state)
    for read in (load_run, Run(config).resume):
        with pytest.raises(FileFormatError, match=r"has no tensor 'model\."):
            read(tmp_path)


def test_tensors_that_are_no_tensors_are_refused(finished, tmp_path):
    config, folder = finished
    shutil.copytree(folder, tmp_path / "run")
    path = tmp_path / "run" / checkpoint.CURRENT
    current = json.loads(path.read_text())
    (tmp_path / "run" / current["file"]).write_bytes(b"no tensors")
    mark = hashlib.sha256(b"no tensors").hexdigest()
    del current[checkpoint.CHECKSUM]
    path.write_text(json.dumps(current | {"sha256": mark}))
    with pytest.raises(FileFormatError, match="no readable checkpoint"):
        Run(config).resume(tmp_path / "run")


@pytest.mark.parametrize("step", [0, 7, 19])
def test_a_checkpoint_is_of_the_step_that_its_tensors_are_of(finished, tmp_path, step):
    """Weights of step 20 that are trained on from step 7 would be another run's result."""
    config, folder = finished
    shutil.copytree(folder, tmp_path / "run")
    path = tmp_path / "run" / checkpoint.CURRENT
    whole = json.loads(path.read_text())
    path.write_text(json.dumps(whole | {"step": step}))
    with pytest.raises(FileFormatError, match="damaged: it does not have the checksum"):
        train(config, tmp_path / "run", resume=True)
    del whole[checkpoint.CHECKSUM]
    path.write_text(json.dumps(whole | {"step": step}))
    with pytest.raises(FileFormatError, match=f"it is of step {step}, its tensors are step-0+20"):
        train(config, tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (None, "metrics.jsonl is missing"),
        ([], "it has those of 0 steps"),
        ([0], "it has those of 1 steps"),
        ([1], "it has those of 1 steps"),
        ([0, 0, 1], "it has those of 3 steps"),
        ([0, b'{"step": '], "it has those of 1 steps"),
        ([0, b'{"step": 20, "loss": NaN}\n'], "it has those of 1 steps"),
        ([b"hello\n", 0, 1], "line 1: damaged JSON"),
        ([b'{"a": 1}\n', 1], "line 1 lacks 'step'"),
        ([b"\xff\x00"], "is not UTF-8 text"),
    ],
)
def test_a_log_that_lacks_what_was_logged_is_refused(finished, tmp_path, parts, said):
    """The loss at the end is read from it: without the line it would be NaN, or another step's."""
    config, folder = finished
    shutil.copytree(folder, tmp_path / "run")
    path = tmp_path / "run" / METRICS
    lines = path.read_bytes().splitlines(keepends=True)
    path.unlink()
    if parts is not None:
        path.write_bytes(b"".join(lines[p] if isinstance(p, int) else p for p in parts))
    with pytest.raises(InweaveError, match=said):
        train(config, tmp_path / "run", resume=True)


def test_what_was_logged_after_the_checkpoint_is_dropped(finished, tmp_path):
    config, folder = finished
    shutil.copytree(folder, tmp_path / "run")
    path = tmp_path / "run" / METRICS
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"step": 30, "loss": 1.0, "lr": 0.1}\n{"st')
    train(config, tmp_path / "run", resume=True)
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("section", "name", "value", "said"),
    [
        ("model", "depth", 10**30, "depth must be at most"),
        ("model", "blocks", 10**30, "blocks must be at most"),
        ("model", "heads", 10**30, "heads must be at most"),
        ("model", "mlp_units", 10**30, "mlp_units must be at most"),
        ("task", "d", 10**30, "d must be at most"),
        ("task", "n", 10**30, "n must be at most"),
        ("model", "depth", 10**8, "depth x blocks must be at most 10,000 layers"),
        ("model", "depth", 2, r"has no tensor 'model\."),
        ("model", "heads", 10**9, "tensor 'model.* its settings ask for"),
        ("task", "d", 10**6, "tensor 'model.* its settings ask for"),
        ("task", "d", 2**31 - 1, "not enough memory|its settings ask for"),
    ],
)
def test_a_model_is_built_only_if_its_tensors_are_there(
    finished, tmp_path, monkeypatch, section, name, value, said
):
    _, folder = finished
    tensors, current = checkpoint.load(folder)
    config = json.loads(json.dumps(current["config"]))
    config[section][name] = value
    state = checkpoint.State(config=config, schedule=current["schedule"])
    checkpoint.save(tmp_path, current["step"], tensors, state)
    monkeypatch.setattr(torch, "randn", None)  # nothing is drawn
    for read in (load_run, evaluate):
        with pytest.raises(InweaveError, match=said):
            read(tmp_path)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("[task]\nn = 2000000000", "bytes; lower .*n"),
        ("[task]\nn = 1000000000000", "n must be at most 2147483647"),
        ("[train]\nbatch = 1000000000000", "batch must be at most 2147483647"),
        ("[model]\nheads = 2000000000\n[task]\nd = 300\nn = 300", "bytes; lower .*heads"),
        ("[task]\nd = 2147483646", "not enough memory"),
        ("[task]\nlevels = 64", "levels must be at most 31"),
        ("[model]\ndepth = 1000000000", "at most 10,000 layers"),
    ],
)
def test_what_no_memory_can_hold_is_refused(refused, tmp_path, table, said):
    (tmp_path / "big.toml").write_text(table)
    assert re.search(said, refused("train", "big.toml"))


def test_what_does_not_fit_is_refused_before_the_folder_is_made(refused, tmp_path, monkeypatch):
    """A run that trains first and cannot be evaluated then would be lost."""

    def draw(task, size, *more):
        if size == 100:  # eval_size
            raise RuntimeError("CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total")
        return drawn(task, size, *more)

    drawn = tasks.draw
    monkeypatch.setattr("inweave.lab.config.draw", draw)
    assert "not enough memory for 3.00 GiB; lower" in refused("train", "a.toml", "--out", "out")
    assert not (tmp_path / "out").exists()


def refuse_word(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")


def test_json_has_no_bare_words_and_reads_back(tmp_path):
    content = {"a": [math.nan, math.inf, -math.inf, 1.5], "b": {"c": (math.inf, None, "x")}}
    checkpoint.write_json(tmp_path / "x.json", content)
    text = (tmp_path / "x.json").read_text()
    stored = json.loads(text, parse_constant=refuse_word)
    assert stored["a"] == ["NaN", "Infinity", "-Infinity", 1.5]
    assert repr(numbers(loads(text))) == repr(content | {"b": {"c": [math.inf, None, "x"]}})
    assert numbers(loads("[Infinity]")) == [math.inf], "files written before are read"


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs" / "lab").glob("*.json")), ids=lambda p: p.stem
)
def test_the_stored_results_are_strict_json(path):
    json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse_word)


def test_a_sweep_finds_a_run_whose_held_out_loss_is_infinite(tmp_path):
    config = replace(Config(), name="wild")
    (tmp_path / "wild").mkdir()
    result = {"digest": config.digest, "loss": 1.0, "evaluation": math.inf}
    checkpoint.write_json(tmp_path / "wild" / "result.json", result)
    assert sweep([config], tmp_path)["wild"] == result
    assert json.loads((tmp_path / "sweep.json").read_text(), parse_constant=refuse_word)
