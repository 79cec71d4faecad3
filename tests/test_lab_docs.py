"""What the documentation shows of the lab is what was run, and what it tells to type works."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from inweave.lab.config import Config, from_toml
from inweave.lab.experiments import EXPERIMENTS
from inweave.lab.results import read_result
from scripts import open_questions

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def lab_page():
    spec = importlib.util.spec_from_file_location("lab_page", ROOT / "scripts" / "lab_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_results_is_current(lab_page):
    assert lab_page.PAGE.read_text() == lab_page.page(), "run python scripts/lab_page.py"


def test_the_stored_results_are_of_full_forms_and_the_page_says_what_they_lack(lab_page):
    page = open_questions.PAGE.read_text("utf-8")
    for result in lab_page.results():
        name = result["name"]
        if name not in EXPERIMENTS:
            continue
        if missing := result.get("missing"):
            of = result["settings"]["arms"]
            assert f"{name} --device cuda" in page
            assert f"**{len(missing)} of the {of} arms are missing**" in page
        assert result["complete"] == (not missing)
        assert not result["quick"]
        assert result["question"] == EXPERIMENTS[name].question
        assert EXPERIMENTS[name].full == round(result["seconds"]), "what `lab list` says"
        assert (ROOT / "docs" / "figures" / f"lab-{name}.png").exists()


def test_every_stored_result_can_be_reported(lab_page):
    for result in lab_page.results():
        assert read_result(ROOT / "docs" / "lab" / f"{result['name']}.json")["rows"]


def test_known_values_are_reached(lab_page):
    """One-step 0.2062 and two-step about 0.114 in half-MSE, d(d+1)/(n+d+1) on normal inputs."""
    found = {r["name"]: r["rows"][0]["loss"]["mean"] for r in lab_page.results()}
    assert found["one-step"] == pytest.approx(0.2062, rel=0.01)
    assert found["two-step"] == pytest.approx(0.114, rel=0.05)
    assert found["gaussian-one-layer"] == pytest.approx(5 * 6 / (20 + 5 + 1), rel=0.01)


def test_what_the_answers_say_is_written_from_the_stored_results():
    page = open_questions.PAGE.read_text("utf-8")
    assert open_questions.written(page) == page, "run python -m scripts.open_questions"


def test_the_config_file_of_the_guide_is_the_config_of_its_code(tmp_path):
    guide = (ROOT / "docs" / "howto" / "training.md").read_text()
    (tmp_path / "one-layer.toml").write_text(re.search(r"```toml\n(.*?)```", guide, re.DOTALL)[1])
    code = re.search(r"^config = (Config\(.*?^\))", guide, re.DOTALL | re.MULTILINE)[1]
    names = vars(importlib.import_module("inweave.lab.config"))
    written: Config = eval(code, dict(names))
    read = from_toml(tmp_path / "one-layer.toml")
    assert (read.task, read.form, read.model, read.train) == (
        written.task,
        written.form,
        written.model,
        written.train,
    )
