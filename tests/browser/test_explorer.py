"""The explorer in a real browser: what a reader sees is what the network computed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import inweave
import inweave.explore
from inweave import (
    AttentionLayer,
    BlockPointwiseLayer,
    DenseProjection,
    Head,
    Layout,
    Matrix,
    Module,
    Network,
    Place,
    Scalar,
    Vector,
)
from inweave.explore.document import asset, inert, module
from inweave.explore.payload import payload as contents
from inweave.explore.shown import named
from inweave.model.dense import trace
from inweave.model.relunet import Function, ReluNet
from inweave.paper.ridge import ridge_elsa
from tests.browser.conftest import Watched

pytestmark = pytest.mark.browser
Visit = Callable[..., Watched]


@inweave.program
def ridge(X: Matrix["n", "d"], y: Vector["n"], lam: Scalar, eta: Scalar, *, steps: int):
    return inweave.iterate(
        lambda w: w - eta * (X.T @ (X @ w - y) + lam * w), inweave.zeros(X.shape[1]), steps
    )


def data(n: int, d: int, eta: float = 0.04) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, d))
    return {"X": X, "y": X @ rng.normal(size=d), "lam": 0.1, "eta": eta}


INPUTS = data(6, 3)
LOOP = inweave.compile(ridge, n=6, d=3, steps=9)
SHALLOW = inweave.compile(ridge, n=6, d=3, steps=9, optimize="depth")


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    LOOP.explore(folder / "loop.html", **INPUTS)
    inweave.explore.compare(folder / "two.html", {"loop": LOOP, "shallow": SHALLOW}, INPUTS)
    return folder


def test_a_page_loads_from_disk_without_errors_or_requests(visit: Visit, pages: Path) -> None:
    seen = visit(pages / "loop.html")
    assert seen.page.title() == "ridge, ELSA, faithful · inweave explorer"
    assert len(seen.requests) == 1
    policy = seen.page.get_attribute('meta[http-equiv="Content-Security-Policy"]', "content")
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_the_policy_forbids_the_network(browser: Any, pages: Path) -> None:
    page = browser.new_page()
    page.goto((pages / "loop.html").as_uri())
    sent = []
    page.on("requestfinished", lambda request: sent.append(request.url))
    outcome = page.evaluate(
        "fetch('https://example.com/').then(() => 'sent', error => 'refused: ' + error.name)"
    )
    page.close()
    assert outcome == "refused: TypeError"
    assert sent == []


def test_each_layer_shows_exactly_the_numbers_of_the_trace(visit: Visit, pages: Path) -> None:
    steps = LOOP.trace(**INPUTS).steps
    states = [steps[0].before, *(step.after for step in steps)]
    seen = visit(pages / "loop.html")
    for k in [0, 1, 2, len(states) - 1, 7, 6, 3]:
        seen.layer(k)
        seen.settled(k)
        assert np.array_equal(np.array(seen.table()), states[k]), f"layer {k}"


def test_a_skip_around_a_module_is_a_position_of_its_own(visit: Visit, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    layout = Layout.of({"A": (3, 2), "B": (2, 2)})
    head = Head(*(DenseProjection(0.3 * rng.normal(size=(4, 4))) for _ in range(3)))
    net = Network(layout, (Module((AttentionLayer((head,), skip=False),), repeat=3, skip=True),))
    H = rng.normal(size=(3, 4))
    net.explore(tmp_path / "skip.html", H=H)
    found = dict(trace(net, H).states)
    seen = visit(tmp_path / "skip.html", "#layer=2s")
    seen.settled("2s")
    assert np.array_equal(np.array(seen.table()), found["module 0, step 1"])
    seen.layer(3)
    seen.settled("2")
    assert np.array_equal(np.array(seen.table()), found["module 0, step 1, layer 0"])


PAPER = ridge_elsa(4, 2, 2)
CHARTS = """() => document.getElementById('inweave')
  .explorer.charts.filter(c => c.chart).map(c => ({
  owners: c.owners,
  ends: c.series.map(s => s.xs[s.values.length - 1]),
  labels: [...c.body.querySelectorAll('text')].map(t => t.textContent),
  curves: [...c.body.querySelectorAll('path.curve')].map(p => p.getBBox().x + p.getBBox().width),
  cursor: Number(c.body.querySelector('line[visibility=visible]').getAttribute('x1')),
  points: [...c.body.querySelectorAll('circle[visibility=visible]')].map(p => p.getAttribute('cx')),
}))"""


def trained(like: Network, depth: int) -> Network:
    """Random weights, as `inweave.nn` writes them: one skip around each layer."""
    rng = np.random.default_rng(2)
    width = like.width

    def module() -> Module:
        head = Head(*(DenseProjection(0.2 * rng.normal(size=(width, width))) for _ in range(3)))
        return Module((AttentionLayer((head,), skip=False),), skip=True)

    modules = tuple(module() for _ in range(depth))
    return Network(like.layout, modules, like.inputs, like.fills, like.outputs)


def test_curves_count_layers_and_skips_can_be_stepped_through(visit: Visit, tmp_path: Path) -> None:
    PAPER.explore(tmp_path / "paper.html")
    seen = visit(tmp_path / "paper.html")
    H = np.array(seen.table())
    states = [H]
    for state in trace(PAPER, H).states.values():
        if state is not states[-1]:
            states.append(state)
    names = ["0", "1", "2", "2s", "3", "4", "4s", "5", "6", "6s"]
    assert len(states) == len(names)
    assert PAPER.depth == 6
    cursors: list[set[float]] = []
    for k, (name, state) in enumerate(zip(names, states, strict=True)):
        seen.settled(name)
        assert np.array_equal(np.array(seen.table()), state), name
        cursors.append({round(chart["cursor"], 3) for chart in seen.page.evaluate(CHARTS)})
        if k:
            assert (cursors[-1] == cursors[-2]) == name.endswith("s")
        seen.page.keyboard.press("ArrowRight")
    assert seen.where() == "layer 6 of 6, skip added"
    for chart in seen.page.evaluate(CHARTS):
        assert set(chart["ends"]) == {6}
        assert "layers executed" in chart["labels"]
        whole = [int(text) for text in chart["labels"] if text.isdigit()]
        assert max(whole) == 6
        assert all(abs(end - chart["cursor"]) < 0.2 for end in chart["curves"])
    box = seen.page.locator(".panel-norms .chart svg").bounding_box()
    seen.page.mouse.click(box["x"] + 46 + (box["width"] - 56) / 3, box["y"] + 50)
    seen.settled("2s")  # a click goes to the end of what happens at its layer


PLACES = """() => {
  const e = document.getElementById('inweave').explorer;
  const {reader} = e;
  return Array.from({length: reader.times.last + 1}, (_, k) => {
    reader.k = k;
    const layer = reader.times.key(k);
    return {
      at: e.tracks.map((_, i) => reader.position(i)),
      depths: e.tracks.map((t, i) => t.depths[reader.position(i)]),
      layer,
      back: reader.times.fromKey(layer),
    };
  });
}"""


def test_networks_with_skips_are_compared_at_equal_depths(visit: Visit, tmp_path: Path) -> None:
    small = trained(PAPER, 2)
    page = tmp_path / "two.html"
    inweave.explore.compare(page, {"compiled": PAPER, "trained": small})
    seen = visit(page)
    for chart in seen.page.evaluate(CHARTS):
        for owner, end in zip(chart["owners"], chart["ends"], strict=True):
            assert end == [6, 2][owner]
        assert "layers executed" in chart["labels"]
    for align in ("layer", "share of depth"):
        seen.page.click(f".choice button:text-is('{align}')")
        places = seen.page.evaluate(PLACES)
        assert int(seen.page.get_attribute("input.scrubber", "max")) == len(places) - 1
        for i, positions in enumerate([10, 5]):
            stops = [place["at"][i] for place in places]
            assert stops == sorted(stops)  # never back,
            assert set(stops) == set(range(positions))  # and through every state
        for k, place in enumerate(places):
            first, second = place["depths"]
            assert second == (min(first, 2) if align == "layer" else round(first / 3))
            assert place["back"] == k
        assert places[-1]["at"] == [9, 4]
    seen = visit(page, "#layer=2.1&net=1")
    seen.settled("2s")
    titles = seen.page.eval_on_selector_all(".panel h2", "h => h.map(x => x.textContent)")
    assert "Prompt after layer 2 and skip" in titles
    assert "Prompt after layer 2 and skip (last)" in titles


def test_pointwise_layers_are_stepped_through_and_not_counted(visit: Visit, tmp_path: Path) -> None:
    relu = Function("relu", ReluNet((1.0,), (0.0,), (1.0,)))
    layout = Layout.of({"A": (2, 2)})
    point = BlockPointwiseLayer(((Place("A", 2, 2), relu),))
    attend = AttentionLayer((Head(*(DenseProjection(np.eye(2)) for _ in range(3))),))
    net = Network(layout, (Module((point, attend, point)), Module((attend, point), 2)))
    net.explore(tmp_path / "a.html")
    seen = visit(tmp_path / "a.html", "#layer=5")
    seen.settled(5)
    assert seen.where() == "layer 5 of 7 · 2 of 3 attention layers · step 1 of 2"
    [chart] = seen.page.evaluate(CHARTS)
    assert chart["ends"] == [net.depth]
    assert "attention layers executed" in chart["labels"]
    Network(layout, (Module((point,), 3),)).explore(tmp_path / "b.html")  # without any attention
    seen = visit(tmp_path / "b.html", "#layer=2")
    seen.settled(2)
    [chart] = seen.page.evaluate(CHARTS)
    assert chart["ends"] == [3]
    assert "layers executed" in chart["labels"]


@pytest.mark.parametrize("network", [LOOP, SHALLOW], ids=["loop", "shallow"])
def test_the_parts_of_a_head_are_those_of_the_trace(
    visit: Visit, tmp_path: Path, network: Network
) -> None:
    network.explore(tmp_path / "page.html", **INPUTS)
    steps = network.trace(**INPUTS).steps
    seen = visit(tmp_path / "page.html")
    for k, step in enumerate(steps[:4], start=1):
        for h, head in enumerate(step.heads):
            parts = seen.page.evaluate(
                """([k, h]) => {
                  const e = document.getElementById('inweave').explorer;
                  e.reader.head = h; e.reader.k = k; e.draw();
                  const get = (m) => ({rows: m.rows, cols: m.cols, values: [...m.values],
                                       names: m.names});
                  const named = Object.entries(e.parts).map(([n, m]) => [n, get(m)]);
                  return Object.fromEntries(named);
                }""",
                [k, h],
            )

            def full(part: dict[str, Any]) -> np.ndarray:
                return np.array(part["values"]).reshape(part["rows"], part["cols"])

            for name, wanted in [("Q", head.query), ("V", head.value), ("out", head.output)]:
                dense = np.zeros_like(wanted)
                dense[:, parts[name]["names"]] = full(parts[name])
                np.testing.assert_allclose(dense, wanted, rtol=1e-12, atol=1e-14)
            np.testing.assert_allclose(
                full(parts["QK"]), head.query @ head.key.T, rtol=1e-12, atol=1e-14
            )
            np.testing.assert_allclose(
                full(parts["KV"]),
                (head.key.T @ head.value)[np.ix_(parts["Q"]["names"], parts["V"]["names"])],
                rtol=1e-12, atol=1e-14,
            )  # fmt: skip


def test_keys_move_through_layers_steps_and_heads(visit: Visit, pages: Path) -> None:
    seen = visit(pages / "loop.html")
    press = seen.page.keyboard.press
    press("ArrowRight")
    press("ArrowRight")
    seen.settled(2)
    assert seen.where() == "layer 2 of 18 · step 1 of 9"
    press("Shift+ArrowRight")
    seen.settled(4)
    press("ArrowDown")
    seen.linked("#layer=4&head=1")
    assert seen.page.text_content(".panel-head h2") == "Layer 4, head 1 of 2"
    press("End")
    seen.settled(18)
    press("ArrowRight")
    press("ArrowLeft")
    seen.settled(17)
    press("Home")
    seen.settled(0)
    press("t")
    assert seen.page.get_attribute(".inweave", "data-theme") == "dark"
    press("?")
    assert seen.page.is_visible("dialog.help")


def test_play_runs_to_the_last_layer_and_stops(visit: Visit, pages: Path) -> None:
    seen = visit(pages / "loop.html")
    seen.page.select_option("select[aria-label='Layers per second']", "60")
    seen.page.keyboard.press("Space")
    assert seen.page.is_visible("button[aria-label='Pause (space)']")
    seen.settled(18)
    seen.page.wait_for_selector("button[aria-label='Play (space)']")


def test_a_link_restores_the_view_and_the_view_writes_a_link(visit: Visit, pages: Path) -> None:
    seen = visit(pages / "loop.html", "#layer=3&head=1&scale=global")
    seen.settled(3)
    assert seen.page.text_content(".panel-head h2") == "Layer 3, head 1 of 3"
    assert seen.page.get_attribute(".head.chosen", "aria-label").startswith("Head 1: − Xᵀ y")
    pressed = seen.page.eval_on_selector_all(
        ".choice button[aria-pressed=true]", "b => b.map(x => x.textContent)"
    )
    assert "global" in pressed
    seen.layer(5)
    seen.linked("#layer=5&head=1")
    seen.page.evaluate("location.hash = '#layer=2&head=0'")
    seen.settled(2)
    for odd in ["#layer=999", "#layer=-1&head=99", "#layer=x&head=y&net=7", "#%00&&=&layer"]:
        visit(pages / "loop.html", odd)


def test_every_control_can_be_reached_by_keyboard_and_has_a_name(visit: Visit, pages: Path) -> None:
    seen = visit(pages / "two.html", "#layer=2")
    unnamed = seen.page.evaluate(
        """[...document.querySelectorAll('button, select, input, summary, canvas[tabindex]')]
            .filter(x => !(x.getAttribute('aria-label') || x.textContent.trim()))
            .map(x => x.outerHTML.slice(0, 80))"""
    )
    assert unnamed == []
    unreachable = seen.page.evaluate(
        "[...document.querySelectorAll('button, select, input')].filter(x => x.tabIndex < 0).length"
    )
    assert unreachable == 0
    slider = seen.page.locator("input.scrubber")
    slider.focus()
    seen.page.keyboard.press("ArrowRight")
    seen.settled(3)
    assert slider.get_attribute("aria-valuetext") == seen.where()


def test_two_networks_are_scrubbed_by_layer_or_by_share_of_depth(visit: Visit, pages: Path) -> None:
    loop, shallow = LOOP.trace(**INPUTS), SHALLOW.trace(**INPUTS)
    seen = visit(pages / "two.html", "#layer=2&net=0")
    seen.settled(2)
    assert np.array_equal(np.array(seen.table()), loop.steps[1].after)
    seen.page.keyboard.press("n")
    seen.linked("net=1")
    seen.settled(2)
    assert np.array_equal(np.array(seen.table()), shallow.steps[1].after)
    seen.layer(18)
    seen.settled(len(shallow))
    assert np.array_equal(np.array(seen.table()), shallow.final)
    seen.page.click("text=share of depth")
    seen.layer(9)
    seen.page.keyboard.press("n")
    seen.settled(9)
    half = round(9 / 18 * len(shallow))
    titles = seen.page.eval_on_selector_all(".panel h2", "h => h.map(x => x.textContent)")
    assert "Prompt after layer 9" in titles
    assert f"Prompt after layer {half}" in titles


def test_both_reach_the_reference_answer(visit: Visit, pages: Path) -> None:
    seen = visit(pages / "two.html", "#layer=18")
    seen.page.wait_for_timeout(100)
    values = seen.page.eval_on_selector_all(
        ".panel-distance .keys .value", "v => v.map(x => x.textContent)"
    )
    assert len(values) == 2
    assert all(float(text.replace("−", "-")) < 1e-12 for text in values)


def test_hovering_tells_block_row_column_and_value(visit: Visit, pages: Path) -> None:
    after = LOOP.trace(**INPUTS).steps[1].after
    seen = visit(pages / "loop.html", "#layer=2")
    spot = seen.page.evaluate(
        """() => {
          const e = document.getElementById('inweave').explorer, p = e.prompts[0];
          const b = p.plan.boxes.find(b => e.reader.track.blocks[b.block].name === 'w');
          const r = p.canvas.getBoundingClientRect();
          return [r.left + b.x + b.cell / 2, r.top + b.y + 1.5 * b.cell];
        }"""
    )
    seen.page.mouse.move(*spot)
    tip = seen.page.inner_text(".tip")
    value = LOOP.layout.unpack(after)["w"][1, 0]
    assert "w" in tip.splitlines()[0]
    assert "row 1, column 0" in tip
    assert float(seen.page.inner_text(".tip .number")) == value
    assert "was 0 before this layer" in tip
    seen.page.mouse.click(*spot)  # and a click draws its curve
    keys = seen.page.eval_on_selector_all(".panel-values .key", "k => k.map(x => x.textContent)")
    assert "w[1, 0]" in keys


def test_hostile_names_are_shown_and_not_run(visit: Visit, tmp_path: Path) -> None:
    bad = ["<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", "<!--<script>"]
    curve = Function("<svg onload=alert(4)>", ReluNet((1.0,), (0.0,), (1.0,)))
    net = Network(
        Layout.of(dict.fromkeys(bad, (2, 2))),
        (Module((BlockPointwiseLayer(((Place(bad[0], 2, 2), curve),)),)),),
    )
    page = tmp_path / "bad.html"
    title = "</title><script>alert(3)</script>"
    inweave.explore.write(page, {title: net}, {"H": np.ones((2, 6))})
    seen = visit(page, "#layer=1")
    text = seen.page.inner_text("body")
    for name in [*bad, title]:
        assert name in text
    assert seen.page.title() == f"{title} · inweave explorer"
    assert seen.page.locator("body img").count() == 0
    assert seen.page.locator("script").count() == 2  # the data and the module
    seen.page.hover("canvas.map")


def test_a_wide_prompt_is_drawn_in_bins_and_opens_on_a_click(visit: Visit, tmp_path: Path) -> None:
    net = inweave.compile(ridge, n=150, d=12, steps=3)
    net.explore(tmp_path / "wide.html", **data(150, 12, 0.005))
    seen = visit(tmp_path / "wide.html", "#layer=1")
    assert seen.page.is_visible("text=shows the one of largest magnitude")
    spot = """() => {
      const e = document.getElementById('inweave').explorer, p = e.prompts[0];
      const b = p.plan.boxes.find(b => e.reader.track.blocks[b.block].cols > 100);
      const r = p.canvas.getBoundingClientRect();
      return {bins: b.binR * b.binC, at: [r.left + b.x + 4, r.top + b.y + 4]};
    }"""
    before = seen.page.evaluate(spot)
    assert before["bins"] > 1
    seen.page.mouse.click(*before["at"])
    assert seen.page.evaluate(spot)["bins"] == 1


@pytest.mark.parametrize(
    "panel", ["prompt-0", "head", "distance", "norms", "network-0", "report-0"]
)
def test_any_panel_can_be_saved_as_svg_and_png(visit: Visit, pages: Path, panel: str) -> None:
    seen = visit(pages / "loop.html", "#layer=3")
    for kind, start in [("SVG", b"<svg"), ("PNG", b"\x89PNG")]:
        seen.page.click(f".panel-{panel} .save summary")
        with seen.page.expect_download() as waiting:
            seen.page.click(f".panel-{panel} .save button:text-is('{kind}')")
        content = Path(waiting.value.path()).read_bytes()
        assert content.startswith(start)
        assert len(content) > 300


def test_the_page_prints_on_white(visit: Visit, pages: Path) -> None:
    seen = visit(pages / "loop.html", "#layer=3")
    seen.page.emulate_media(media="print", color_scheme="dark")
    assert not seen.page.is_visible("button.play")
    assert seen.page.is_visible("canvas.map")
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    colour = seen.page.evaluate(
        "getComputedStyle(document.querySelector('.inweave')).backgroundColor"
    )
    assert colour == "rgb(255, 255, 255)"


def test_the_module_renders_with_a_notebooks_model(browser: Any, tmp_path: Path) -> None:
    """The widget's side: the same module, and a model that talks back."""
    payload = contents(named({"net": LOOP}), INPUTS)
    script = (
        module()
        + """
    const payload = JSON.parse(document.getElementById("data").textContent);
    const values = {payload, layer: 0, head: 0};
    const listeners = {};
    const model = {
      get: (name) => values[name],
      set: (name, value) => { values[name] = value; },
      on: (event, action) => { listeners[event] = action; },
      save_changes: () => { window.saved = {...values, payload: null}; },
    };
    window.fromPython = (name, value) => { values[name] = value; listeners[`change:${name}`](); };
    const done = render({ model, el: document.getElementById("cell") });
    window.leave = () => done();
    """
    )
    page = tmp_path / "notebook.html"
    page.write_text(
        f'<!doctype html><meta charset="utf-8"><style>{asset("explorer.css")}</style>'
        f'<div id="cell"></div><script type="application/json" id="data">{inert(payload)}</script>'
        f'<script type="module">{script}</script>',
        encoding="utf-8",
    )
    tab = browser.new_page()
    seen = Watched(tab)
    seen.open(page)
    tab.evaluate("fromPython('layer', 5)")
    seen.settled(5)
    assert np.array_equal(np.array(seen.table()), LOOP.trace(**INPUTS).steps[4].after)
    seen.layer(7)
    tab.wait_for_function("() => window.saved && window.saved.layer === 7")
    assert "#" not in tab.url
    tab.evaluate("leave()")
    tab.close()
    assert seen.errors == []
    assert seen.console == []


@pytest.mark.parametrize("kind", ["compiled", "every entry changes"])
def test_two_hundred_layers_of_a_wide_prompt_stay_small(
    visit: Visit, tmp_path: Path, kind: str
) -> None:
    page = tmp_path / "large.html"
    if kind == "compiled":
        net = inweave.compile(ridge, n=97, d=20, steps=100)
        net.explore(page, **data(97, 20, 0.004))
    else:
        rng = np.random.default_rng(0)
        head = Head(*(DenseProjection(0.004 * rng.normal(size=(200, 200))) for _ in range(3)))
        net = Network(
            Layout.of({"A": (20, 120), "B": (20, 80)}),
            (Module((AttentionLayer((head,)),), repeat=200),),
        )
        net.explore(page, H=0.5 * rng.normal(size=(20, 200)))
    assert (net.tokens, net.depth) == (20, 200)
    assert net.width >= 198
    assert page.stat().st_size < 5e6
    seen = visit(page)
    seen.layer(150)
    seen.settled(150)


def test_the_module_mentions_no_address_but_the_svg_namespace() -> None:
    text = module() + asset("explorer.css") + asset("page.html")
    assert set(re.findall(r"https?://[^\s\"']+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)


@inweave.program
def predicted(
    X: Matrix["n", "d"], y: Vector["n"], u: Vector["d"], lam: Scalar, eta: Scalar, *, steps: int
):
    return u @ ridge.function(X, y, lam, eta, steps=steps)


def test_an_answer_read_after_a_loop_comes_with_what_the_loop_carries(
    visit: Visit, tmp_path: Path
) -> None:
    net = inweave.compile(predicted, n=6, d=3, steps=9)
    net.explore(tmp_path / "net.html", **INPUTS, u=np.ones(3))
    seen = visit(tmp_path / "net.html")
    found = seen.page.evaluate(
        """() => document.getElementById('inweave').explorer.charts
          .find(c => c.node.matches('.panel-distance')).series.map(s => [s.name, [...s.values]])"""
    )
    answer, w = found
    assert (answer[0], w[0]) == ("answer", "w")
    assert len(set(answer[1][:-1])) == 1  # says nothing before the last layer
    trace = net.trace(**INPUTS, u=np.ones(3))
    states = [net.prompt(**INPUTS, u=np.ones(3)), *(step.after for step in trace.steps)]
    held = [H[:, net.layout["w"].columns] for H in states]
    np.testing.assert_allclose(w[1], [np.linalg.norm(h - held[-1]) for h in held], atol=1e-12)
    assert w[1][0] > w[1][9] > w[1][17] > w[1][18] == 0


def test_comparing_leaves_nothing_to_scroll_below_the_panels(visit: Visit, pages: Path) -> None:
    seen = visit(pages / "two.html", "#layer=3")
    assert seen.page.evaluate("document.documentElement.scrollHeight <= innerHeight")


@pytest.mark.parametrize("width", [500, 540, 580])
def test_controls_stand_in_lines_where_there_is_little_room(
    visit: Visit, pages: Path, width: int
) -> None:
    seen = visit(pages / "two.html", "#layer=3")
    seen.page.set_viewport_size({"width": width, "height": 900})
    boxes = [seen.page.locator(name).bounding_box() for name in (".where", ".transport")]
    seen.page.set_viewport_size({"width": 1440, "height": 900})
    where, bar = boxes
    assert where["height"] < 30
    assert bar["x"] + bar["width"] <= width
    assert where["x"] + where["width"] <= bar["x"] + bar["width"]


LABELS = """() => [...document.querySelectorAll('.chart svg')].flatMap(svg => {
  const whole = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()])
    .filter(([, box]) => box.left < whole.left - 0.5 || box.right > whole.right + 0.5)
    .map(([said]) => said);
})"""


@pytest.mark.parametrize(("steps", "scale"), [(9, -1e-12), (9, 1e9), (5000, 1.0)])
def test_no_number_at_an_axis_is_cut_off(
    visit: Visit, tmp_path: Path, steps: int, scale: float
) -> None:
    net = inweave.compile(ridge, n=2, d=1, steps=steps, verify=False)
    inputs = data(2, 1, eta=0.001)
    net.explore(tmp_path / "net.html", **{**inputs, "y": scale * inputs["y"]})
    seen = visit(tmp_path / "net.html")
    assert seen.page.evaluate(LABELS) == []
    seen.page.click(".panel-distance button:text-is('log')")
    assert seen.page.evaluate(LABELS) == []


def test_saved_pictures_say_what_their_colours_mean(visit: Visit, pages: Path) -> None:
    seen = visit(pages / "two.html", "#layer=3")
    wanted = {
        "norms": ["Block norms", "w, loop"],
        "distance": ["Distance to reference", "answer, loop", "answer, shallow"],
        "prompt-0": ["−max", "max: each block’s own, over all layers"],
    }
    for panel, words in wanted.items():
        seen.page.click(f".panel-{panel} .save summary")
        with seen.page.expect_download() as waiting:
            seen.page.click(f".panel-{panel} .save button:text-is('SVG')")
        text = Path(waiting.value.path()).read_text("utf-8")
        assert [word for word in words if word not in text] == []


LINKED = """(what) => [...document.querySelectorAll(`.${what}.linked`)].map(n => n.dataset.heads)"""


def test_lines_and_heads_show_each_other(visit: Visit, pages: Path) -> None:
    from inweave.decompiler import lines

    of_line = {line.text.strip(): line.heads for line in lines(LOOP) if line.heads}
    step = next(text for text in of_line if text.startswith("return w - eta"))
    heads = [f"{layer}.{head}" for layer, head in of_line[step]]
    assert len(heads) == 4
    seen = visit(pages / "loop.html")
    page = seen.page
    page.hover(f".source .code:text-is('{step}')")
    assert page.evaluate(LINKED, "head") == heads
    assert page.evaluate(LINKED, "code") == []
    page.hover('.head[data-heads="1.0"]')
    assert page.evaluate(LINKED, "code") == [" ".join(heads)]
    assert page.evaluate(LINKED, "head") == []
    for layer, head in [*of_line[step], of_line[step][0]]:  # a click goes to one after the other
        page.click(f".source .code:text-is('{step}')")
        page.wait_for_selector(f'.head.chosen[data-heads="{layer}.{head}"]')
        assert page.text_content(".code[aria-current]") == step


def test_pointing_at_a_block_says_what_stands_in_it(visit: Visit, pages: Path) -> None:
    seen = visit(pages / "loop.html", "#layer=3")
    spot = """(name) => {
      const e = document.getElementById('inweave').explorer, p = e.prompts[0];
      const b = p.plan.boxes.find(b => e.reader.track.blocks[b.block].name === name);
      const r = p.canvas.getBoundingClientRect();
      return [r.left + b.x + 4, r.top + b.y + 4];
    }"""

    def said(name: str) -> str:
        seen.page.mouse.move(*seen.page.evaluate(spot, name))
        return str(seen.page.eval_on_selector(".tip", "tip => tip.lastChild.textContent"))

    assert said("Xᵀ") == "from the input"
    assert said("XᵀXw−Xᵀy+λw") == "set by layer 3: Xᵀ X w − Xᵀ y + w λ"
    assert said("w") == "set by layer 2: − (XᵀXw−Xᵀy+λw) η"
    seen.layer(4)
    seen.settled(4)
    assert said("w") == "added by layer 4: − (XᵀXw−Xᵀy+λw) η"


def test_a_network_that_cannot_be_read_says_why(visit: Visit, tmp_path: Path) -> None:
    trained(PAPER, 2).explore(tmp_path / "net.html")
    seen = visit(tmp_path / "net.html")
    assert "None can be read: module 0" in seen.page.text_content(".panel-source-0")
