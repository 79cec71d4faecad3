"""The demo's story: what each chapter says is what the page shows, for eyes, keyboard and ears."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import inweave
from inweave.cli.demo_report import LAM, PAGE, STORY, Problem, ridge, write_page
from tests.browser.conftest import Watched

pytestmark = pytest.mark.browser
Visit = Callable[..., Watched]
CHAPTERS = json.loads(STORY.read_text(encoding="utf-8"))
TITLES = [chapter["title"] for chapter in CHAPTERS]
PROBLEM = Problem.shipped()
X, Y, U = PROBLEM.X[: PAGE[0]], PROBLEM.y[: PAGE[0]], PROBLEM.queries[0]
ETA = 1 / (np.linalg.norm(X, 2) ** 2 + LAM)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("story") / "demo.html"
    write_page(PROBLEM, path)
    return path


def descent(steps: int, eta: float = ETA) -> np.ndarray:
    w = np.zeros(X.shape[1])
    for _ in range(steps):
        w = w - eta * (X.T @ (X @ w - Y) + LAM * w)
    return w


def told(visit: Visit, page: Path, title: str) -> Watched:
    """The page at a chapter."""
    return visit(page, f"#chapter={TITLES.index(title) + 1}")


def state(seen: Watched, network: int) -> dict[str, np.ndarray]:
    """The blocks of a network as the page shows them."""
    return {
        name: np.array(values)
        for name, values in seen.page.evaluate(
            """(i) => {
              const t = document.getElementById('inweave').explorer.tracks[i];
              return t.blocks.map((b) => [b.name, Array.from({length: b.rows}, (_, r) => {
                const from = r * t.width + b.start;
                return [...t.now.slice(from, from + b.cols)];
              })]);
            }""",
            network,
        )
    }


def test_there_are_six_to_ten_short_chapters() -> None:
    assert 6 <= len(CHAPTERS) <= 10
    assert all(len(chapter["text"]) < 450 for chapter in CHAPTERS)


def test_every_chapter_shows_the_panel_that_it_is_about(visit: Visit, page: Path) -> None:
    seen = visit(page)
    for n, chapter in enumerate(CHAPTERS, start=1):
        seen.linked(f"#chapter={n}&")
        assert seen.page.inner_text(".words h2") == chapter["title"]
        assert seen.page.inner_text(".words p") == chapter["text"]
        panel = seen.page.locator(".panel.told")
        assert f"panel-{chapter['show']}" in panel.get_attribute("class").split()
        assert panel.evaluate("p => p.getBoundingClientRect().top < innerHeight - 60")
        if n < len(CHAPTERS):
            seen.page.click(".story .next")
    assert seen.page.is_disabled(".story .next")


def test_a_prompt_is_the_data_and_zeros(visit: Visit, page: Path) -> None:
    found = state(told(visit, page, "A prompt"), 0)
    assert np.array_equal(found["Xᵀ"], X.T)
    assert np.array_equal(found["y"][:, 0], Y)
    assert np.array_equal(found["u"][:, 0], U)
    assert not found["w"].any()
    assert not found["answer"].any()


def test_the_heads_that_are_spoken_of_are_the_ones_that_are_shown(visit: Visit, page: Path) -> None:
    seen = told(visit, page, "A head")
    assert seen.page.inner_text(".panel-head .formula").startswith("Xᵀ X w →")
    seen = told(visit, page, "Mask and move")
    assert seen.page.inner_text(".panel-head .formula").startswith("− Xᵀ y →")
    texts = seen.page.eval_on_selector_all(
        ".panel-head .expr", "parts => parts.map((p) => p.textContent)"
    )
    assert texts[:3] == ["Xᵀ", "I12", "− y"]


def test_two_layers_are_one_step_and_a_hundred_steps_are_descent(visit: Visit, page: Path) -> None:
    found = state(told(visit, page, "One step"), 0)
    np.testing.assert_allclose(found["w"][:, 0], descent(1), rtol=1e-12)
    assert not found["XᵀXw−Xᵀy+λw"].any()
    seen = told(visit, page, "A hundred steps")
    found = state(seen, 0)
    np.testing.assert_allclose(found["answer"], U @ descent(100), rtol=1e-12)
    assert seen.where() == "layer 201 of 201"
    [distances] = seen.page.evaluate(
        """() => document.getElementById('inweave').explorer.tracks[0].carried
          .map(c => [...c.distances])"""
    )
    assert all(b < a for a, b in zip(distances[2:100:2], distances[4:102:2], strict=True))


def test_too_large_a_step_diverges_as_descent_does(visit: Visit, page: Path) -> None:
    [chapter] = [c for c in CHAPTERS if c["title"] == "Too large a step"]
    eta = chapter["inputs"]["eta"]
    assert eta / ETA == pytest.approx(2.5, abs=0.02)
    found = state(told(visit, page, "Too large a step"), 0)
    wanted = descent(chapter["steps"], eta)
    np.testing.assert_allclose(found["w"][:, 0], wanted, rtol=1e-9)
    ratio = np.linalg.norm(wanted) / np.linalg.norm(descent(chapter["steps"] - 1, eta))
    assert ratio == pytest.approx(1.5, abs=0.05)  # "grows by half in every step"


def test_without_the_head_that_reads_y_nothing_is_learned(visit: Visit, page: Path) -> None:
    seen = told(visit, page, "Without one head")
    found = state(seen, 0)
    assert not found["w"].any()
    assert not found["answer"].any()
    assert "− Xᵀ y" in seen.page.inner_text(".ablated")


def test_the_shallow_network_computes_powers(visit: Visit, page: Path) -> None:
    [chapter] = [c for c in CHAPTERS if c["title"] == "729 steps in 8 layers"]
    found = state(told(visit, page, chapter["title"]), 1)
    A = np.eye(10) - ETA * (X.T @ X + LAM * np.eye(10))
    np.testing.assert_allclose(found["A›A³"], A @ A @ A, rtol=1e-12, atol=1e-15)
    w = found["w₁›w₃"] + found["w₉−w₃"]
    np.testing.assert_allclose(w[:, 0], descent(9), rtol=1e-11)
    for steps, depth in ((9, 4), (27, 5), (729, 8)):
        sizes = {"n": 12, "d": 10, "steps": steps}
        net = inweave.compile(ridge, optimize="depth", verify=False, **sizes)
        assert (net.depth, net.depth_lower_bound) == (depth, depth)
    assert str(net.degree) == "2188"
    assert 3**7 < 2188


def test_the_certificate_is_a_proof(visit: Visit, page: Path) -> None:
    seen = told(visit, page, "What the certificate says")
    for i in (0, 1):
        said = seen.page.inner_text(f".panel-report-{i} .proof")
        assert "Proved equal to the program" in said
        assert "no chance of error" in said
        assert "Fingerprint" in said


# -- moving through it -----------------------------------------------------------------------------
def test_keys_turn_the_pages(visit: Visit, page: Path) -> None:
    seen = visit(page)
    words = seen.page.locator(".words")
    assert words.get_attribute("aria-live") == "polite"
    press = seen.page.keyboard.press
    press("c")
    seen.linked("#chapter=2&")
    press("Shift+C")
    seen.linked("#chapter=1&")
    seen.page.focus(".story .next")
    press("ArrowRight")
    press("ArrowRight")
    seen.linked("#chapter=3&")
    assert seen.page.get_attribute(".marks button:nth-child(3)", "aria-current") == "step"
    press("ArrowLeft")
    seen.linked("#chapter=2&")
    seen.page.focus(".story .next")
    for _ in range(len(CHAPTERS)):
        press("Enter")
    seen.linked(f"#chapter={len(CHAPTERS)}&")
    at = seen.page.evaluate("document.activeElement.textContent")
    assert at == TITLES[-1]  # the button went out of reach: whoever stood on it hears the title
    assert words.inner_text().startswith(TITLES[-1])


def test_the_story_comes_first_and_its_controls_have_names(visit: Visit, page: Path) -> None:
    seen = visit(page)
    names = seen.page.eval_on_selector_all(
        ".story button", "b => b.map(x => x.getAttribute('aria-label') || x.textContent)"
    )
    assert names[0] == "Chapter 1: A prompt"
    assert names[-3:] == ["Back", "Next", "Close the story"]
    order = seen.page.evaluate(
        """() => {
          const all = [...document.querySelectorAll('button, input, select')];
          return all.findIndex(x => x.closest('.story')) < all.findIndex(x => x.closest('.body'));
        }"""
    )
    assert order


def test_a_chapter_begins_from_the_page_as_it_was_made(visit: Visit, page: Path) -> None:
    seen = told(visit, page, "Too large a step")
    seen.page.fill("input[aria-label='λ, as a number']", "1")
    seen.page.click(".marks button:nth-child(4)")
    found = state(seen, 0)
    assert found["lam"].item() == LAM
    assert found["eta"].item() == ETA


def test_the_story_can_be_closed_and_opened_again(visit: Visit, page: Path) -> None:
    seen = told(visit, page, "One step")
    seen.page.click("button[aria-label='Close the story']")
    assert not seen.page.is_visible(".story")
    assert seen.page.locator(".told").count() == 0
    seen.page.click("header .begin")
    assert seen.page.inner_text(".words h2") == TITLES[0]
    visit(page, "#layer=2")
    assert not seen.page.is_visible(".story")  # a link to a layer is not a link to the story


@pytest.mark.parametrize("width", [1400, 540])
def test_nothing_is_wider_than_the_window(visit: Visit, page: Path, width: int) -> None:
    seen: Any = visit(page, "#chapter=7")
    seen.page.set_viewport_size({"width": width, "height": 900})
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
