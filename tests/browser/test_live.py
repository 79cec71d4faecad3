"""The page answers: it runs networks itself, as numpy and torch run them, when it is asked to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import inweave
import inweave.explore
from benchmarks import page as benchmark
from inweave import (
    BlockPointwiseLayer,
    DenseProjection,
    Head,
    Layout,
    Matrix,
    Module,
    Network,
    Place,
    PointwiseLayer,
    Scalar,
    Vector,
)
from inweave.explore.document import module
from inweave.explore.payload import payload
from inweave.explore.shown import named
from inweave.model import dense
from inweave.model.relunet import Function, ReluNet
from tests.browser.conftest import Watched
from tests.browser.test_explorer import INPUTS, LOOP, SHALLOW, ridge
from tests.cases import CASES
from tests.random_networks import networks

pytestmark = pytest.mark.browser
Visit = Callable[..., Watched]
States = Callable[[Network, dict[str, Any]], list[np.ndarray]]

RUN = """
window.states = (data) => {
  const track = new Track(data);
  const live = new Live([track]);
  if (!live.able) return null;
  const first = filled(data, track.arrays, live.values);
  const run = live.machines[0].run(track.root, first);
  return Array.from({ length: run.positions }, (_, k) => {
    return Array.from(stateAt(run, k, track.width), (v) => (Object.is(v, -0) ? "-0" : String(v)));
  });
};
"""


@pytest.fixture(scope="module")
def states(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[States]:
    """Every state of a network as the page's own executor computes it."""
    path = tmp_path_factory.mktemp("bare") / "run.html"
    text = f'<!doctype html><meta charset="utf-8"><script type="module">{module()}{RUN}</script>'
    path.write_text(text, encoding="utf-8")
    tab = browser.new_page()
    tab.goto(path.as_uri())

    def run(network: Network, inputs: dict[str, Any]) -> list[np.ndarray]:
        written = payload(named({"net": network}), inputs)["networks"][0]
        found = tab.evaluate("data => states(JSON.parse(data))", json.dumps(written))
        texts = [[text.replace("Infinity", "inf") for text in state] for state in found]
        return [np.array(state, float).reshape(network.tokens, network.width) for state in texts]

    yield run
    tab.close()


def traced(network: Network, H: np.ndarray) -> list[np.ndarray]:
    found: list[np.ndarray] = [H]
    with np.errstate(all="ignore"):
        for state in dense.trace(network, H).states.values():
            if state is not found[-1]:
                found.append(state)
    return found


def same(found: list[np.ndarray], wanted: list[np.ndarray], most: float = 1e-12) -> None:
    """Equal at every position, up to so much of the largest entry there."""
    assert len(found) == len(wanted)
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        assert np.abs(a - b).max() <= most * np.abs(b).max(), f"position {k}"


# -- the executor ----------------------------------------------------------------------------------
def test_the_page_runs_every_case_as_numpy_does(states: States) -> None:
    for case in CASES:
        net = inweave.compile(case.program, verify=False, **case.sizes)
        inputs = case.inputs()
        found, H = states(net, inputs), net.prompt(**inputs)
        assert np.array_equal(found[0], H), case.name  # filled in the same order: bit for bit
        same(found, traced(net, H))


@settings(max_examples=40, deadline=None)
@given(networks())
def test_the_page_runs_any_network_as_numpy_does(states: States, network: Network) -> None:
    H = 0.3 * np.random.default_rng(1).normal(size=(network.tokens, network.width))
    wanted = traced(network.plain, network.in_blocks(H))
    if all(np.isfinite(state).all() and np.abs(state).max() < 1e6 for state in wanted):
        same(states(network, {"H": H}), wanted)


def test_pointwise_layers_are_the_same_bit_for_bit(states: States) -> None:
    rng = np.random.default_rng(3)
    net = ReluNet(*(tuple(rng.normal(size=5)) for _ in range(3)), constant=0.3)
    some = BlockPointwiseLayer(((Place("A", 2, 2), Function("f", net)),))
    V, W, B, C = rng.normal(size=(4, 3, 3, 5))
    layers = (
        some,
        PointwiseLayer(V, W, B, C, "relu", skip=True),
        PointwiseLayer(V, W, B, C, "identity"),
    )
    network = inweave.Network(
        Layout.of({"A": (2, 2), "B": (3, 3)}), (Module(layers, 2, skip=True),)
    )
    H = rng.normal(size=(3, 5))
    for found, wanted in zip(states(network, {"H": H}), traced(network, H), strict=True):
        assert np.array_equal(found, wanted)


# -- changing the data -----------------------------------------------------------------------------
@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("live")
    LOOP.explore(folder / "loop.html", **INPUTS)
    inweave.explore.compare(folder / "two.html", {"loop": LOOP, "shallow": SHALLOW}, INPUTS)
    return folder


def enter(seen: Watched, label: str, value: float | str) -> None:
    """Type a number, and wait for the run that follows."""
    seen.page.fill(f"input[aria-label='{label}, as a number']", str(value))
    ran(seen)


def ran(seen: Watched) -> None:
    """Let the page run what was asked of it, and come to rest."""
    rest = """() => new Promise((done) => {
      const e = document.getElementById('inweave').explorer;
      const look = () => {
        if (e.running || e.pending) requestAnimationFrame(look);
        else done(e.settle());
      };
      look();
    })"""
    seen.page.evaluate(rest)


def shown(seen: Watched) -> list[np.ndarray]:
    """All states of the first network that the page holds."""
    found = seen.page.evaluate(
        """() => {
          const { tracks: [t] } = document.getElementById('inweave').explorer;
          return Array.from({length: t.last + 1}, (_, k) => [...stateOf(t, k)]);
          function stateOf(t, k) { t.show(k); return t.now; }
        }"""
    )
    return [np.array(state).reshape(LOOP.tokens, LOOP.width) for state in found]


def inputs_of(seen: Watched, which: str, like: dict[str, Any] = INPUTS) -> dict[str, np.ndarray]:
    """Inputs that the page holds: `values`, or those of the `other` prompt."""
    found = seen.page.evaluate(
        """(which) => [...document.getElementById('inweave').explorer.live[which]]
          .map(([name, values]) => [name, [...values]])""",
        which,
    )
    return {name: np.array(v).reshape(np.shape(like[name])) for name, v in found}


def test_every_layer_follows_an_edit(visit: Visit, folder: Path) -> None:
    seen = visit(folder / "loop.html", "#layer=5")
    enter(seen, "λ", 0.7)
    enter(seen, "η", 0.02)
    X = INPUTS["X"].copy()
    X[0, 0] = -1.5
    enter(seen, "entry", -1.5)
    changed = INPUTS | {"X": X, "lam": 0.7, "eta": 0.02}
    same(shown(seen), traced(LOOP, LOOP.prompt(**changed)))
    seen.layer(18)
    seen.settled(18)
    table = np.array(seen.table())
    np.testing.assert_allclose(table, LOOP.trace(**changed).final, rtol=1e-12, atol=1e-15)
    assert "computed by this page" in seen.page.inner_text(".numbers-panel .bar")
    assert seen.page.inner_text("header .data") == "data changed on this page"
    distance = seen.page.inner_text(".panel-distance")
    assert "last answer of ridge, ELSA, faithful, which its certificate says" in distance
    seen.page.click("text=as given")
    ran(seen)
    stored = [np.array(state) for state in traced(LOOP, LOOP.prompt(**INPUTS))]
    assert all(np.array_equal(a, b) for a, b in zip(shown(seen), stored, strict=True))


def test_sliders_move_scalars_and_steps(visit: Visit, folder: Path) -> None:
    seen = visit(folder / "loop.html", "#layer=18")
    seen.page.locator("input[aria-label='steps']").fill("12")
    ran(seen)
    longer = inweave.compile(ridge, n=6, d=3, steps=12)
    assert f"{longer.depth} attention layers" in seen.page.inner_text("header")
    assert "are those of the network as given" in seen.page.inner_text(".changed")
    same(shown(seen), traced(longer, longer.prompt(**INPUTS)))
    assert seen.where() == "layer 24 of 24 · step 12 of 12"  # who stood at the end still does
    assert "repeat 12 ×" in seen.page.inner_text(".panel-network-0")
    seen.page.locator("input[aria-label='η']").press("Home")
    ran(seen)
    assert not shown(seen)[-1][:, LOOP.layout["w"].columns].any()  # a step of zero


def test_a_proof_is_not_said_to_cover_what_it_does_not(
    visit: Visit, folder: Path, tmp_path: Path
) -> None:
    seen = visit(folder / "loop.html", "#layer=3")
    assert seen.page.inner_text(".changed") == ""
    enter(seen, "steps", 12)
    assert LOOP.certificate is not None
    assert "however often its loops repeat" in LOOP.certificate.beyond
    assert "The proof covers the number of steps" in seen.page.inner_text(".changed")
    seen.page.click("text=off in every step")
    ran(seen)
    assert "Nothing here is about a network with parts ablated" in seen.page.inner_text(".changed")
    bare = inweave.compile(ridge, n=6, d=3, steps=9, verify=False)
    bare.explore(tmp_path / "bare.html", **INPUTS)
    seen = visit(tmp_path / "bare.html")
    enter(seen, "steps", 12)
    assert "Nothing here is about the number of steps" in seen.page.inner_text(".changed")
    distance = seen.page.inner_text(".panel-distance")
    assert "Reference: none" in distance
    assert "itself" not in distance
    seen.page.click("text=as given")
    enter(seen, "λ", 0.7)
    assert "last answer of ridge, ELSA, faithful itself" in seen.page.inner_text(".panel-distance")


def test_a_program_that_is_another_one_at_other_steps_has_no_reference_there(
    visit: Visit, tmp_path: Path
) -> None:
    """The proof holds however often the loop repeats, but 1 / steps is a constant."""

    @inweave.program
    def mean(x: Vector["n"], *, steps: int):
        return (1 / steps) * inweave.iterate(lambda w: w + x, inweave.zeros(3), steps)

    net = inweave.compile(mean, n=3, steps=4)
    assert net.certificate is not None
    assert "however often its loops repeat" in net.certificate.beyond
    net.explore(tmp_path / "page.html", x=np.ones(3))
    seen = visit(tmp_path / "page.html")
    enter(seen, "steps", 5)
    assert "may be another network" in seen.page.inner_text(".changed")
    assert "The proof covers" not in seen.page.inner_text(".changed")
    distance = seen.page.inner_text(".panel-distance")
    assert "Reference: none" in distance
    assert "which its certificate says" not in distance


def test_data_that_the_network_refuses_are_not_blessed(visit: Visit, tmp_path: Path) -> None:
    @inweave.program
    def share(x: Vector["n"], s: Scalar):
        return x / inweave.assume(s, 0.5, 4)

    net = inweave.compile(share, n=3)
    net.explore(tmp_path / "page.html", x=np.ones(3), s=1.0)
    seen = visit(tmp_path / "page.html")
    warning, distance = (
        seen.page.locator(f".panel-{name}") for name in ("data .warning", "distance")
    )
    assert warning.inner_text() == ""
    enter(seen, "s", 2)
    assert warning.inner_text() == ""
    assert "the program's within the error of its functions" in distance.inner_text()
    enter(seen, "s", 0.25)
    with pytest.raises(inweave.DomainError):
        net(x=np.ones(3), s=0.25)
    assert "got 0.25 in layer 2" in warning.inner_text()
    assert "its domain is [0.5, 4]" in warning.inner_text()
    assert "net(...) refuses these data" in warning.inner_text()
    assert "Reference: none, because" in distance.inner_text()
    net.explore(tmp_path / "outside.html", x=np.ones(3), s=0.25)
    seen = visit(tmp_path / "outside.html")
    assert "got 0.25 in layer 2" in seen.page.inner_text(".panel-data .warning")
    said = (
        "evaluated directly; but reciprocal is outside its domain, where the network has no answer"
    )
    assert said in seen.page.inner_text(".panel-distance")


def test_what_is_not_finite_is_said(visit: Visit, folder: Path) -> None:
    seen = visit(folder / "loop.html", "#layer=18")
    enter(seen, "η", 1e40)
    assert ": not finite any more." in seen.page.inner_text(".panel-data .warning")
    assert ": not finite any more." in seen.page.evaluate(
        "document.getElementById('inweave').explorer.said.textContent"
    )
    assert "not a number" in seen.page.inner_text(".panel-prompt-0 .legend")
    assert "max 0" not in seen.page.inner_text("main")
    assert "No value is finite." in seen.page.inner_text(".panel-distance")
    seen.page.click("text=as given")
    ran(seen)
    assert seen.page.inner_text(".panel-data .warning") == ""
    assert "not a number" not in seen.page.inner_text(".panel-prompt-0 .legend")


def test_norms_of_large_numbers_are_finite(visit: Visit, tmp_path: Path) -> None:
    @inweave.program
    def twice(x: Vector["n"]):
        return 2 * x

    for scale in (1e200, 1e-200):
        path = tmp_path / "page.html"
        given = {"x": np.full(4, scale)}
        inweave.explore.write(path, inweave.compile(twice, n=4), given, reference=np.zeros(4))
        norms, distance = visit(path).page.evaluate("""() => {
          const [t] = document.getElementById('inweave').explorer.tracks;
          return [t.norms.map((n) => n.at(-1)), t.answers[0].distances.at(-1)];
        }""")
        assert distance == pytest.approx(4 * scale)
        assert max(norms) == pytest.approx(4 * scale)


def test_networks_are_compared_on_the_same_number_of_steps(visit: Visit, folder: Path) -> None:
    seen = visit(folder / "two.html")
    enter(seen, "steps (A)", 40)
    ends = seen.page.evaluate(
        """() => document.getElementById('inweave').explorer.tracks
          .map((t) => t.answers[0].distances.at(-1))"""
    )
    assert ends == [0, 0]  # each against its own program
    note = seen.page.inner_text(".panel-distance")
    assert "Reference of shallow: the last answer of shallow" in note


def test_loops_that_follow_one_number_are_one_knob(visit: Visit, tmp_path: Path) -> None:
    @inweave.program
    def twice(x: Vector["n"], A: Matrix["n", "n"], *, steps: int):
        w = inweave.iterate(lambda w: A @ w + x, inweave.zeros(3), steps)
        return inweave.iterate(lambda v: A @ v + w, inweave.zeros(3), steps)

    net = inweave.compile(twice, n=3, steps=4)
    given = {"x": np.ones(3), "A": 0.1 * np.eye(3)}
    net.explore(tmp_path / "page.html", **given)
    seen = visit(tmp_path / "page.html")
    enter(seen, "steps", 6)  # a second knob of that name would make the label ambiguous
    end = seen.page.evaluate("""() => {
      const [t] = document.getElementById('inweave').explorer.tracks;
      return t.answers[0].cells.map((c) => t.end[c]);
    }""")
    np.testing.assert_allclose(end, inweave.compile(twice, n=3, steps=6)(**given), rtol=1e-12)


def test_a_number_that_no_network_can_take_is_marked_and_not_taken(
    visit: Visit, folder: Path
) -> None:
    seen = visit(folder / "loop.html")
    before = shown(seen)
    for label, bad in [("λ", ""), ("steps", "0"), ("steps", "2.5"), ("steps", "1e9")]:
        enter(seen, label, bad)
        field = seen.page.locator(f"input[aria-label='{label}, as a number']")
        assert field.get_attribute("aria-invalid") == "true"
    assert all(np.array_equal(a, b) for a, b in zip(before, shown(seen), strict=True))


def test_what_is_typed_and_no_number_leaves_the_one_before(visit: Visit, folder: Path) -> None:
    seen = visit(folder / "loop.html")
    lam = "input[aria-label='λ, as a number']"
    for typed in ("1e309", "1e"):
        seen.page.focus(lam)
        seen.page.keyboard.press("Control+A")
        seen.page.keyboard.type(typed)
        ran(seen)
        assert inputs_of(seen, "values")["lam"] == INPUTS["lam"]  # and neither 1e30 nor 1
        said = f"{INPUTS['lam']} is in use"
        assert said in seen.page.inner_text(".panel-data")
        seen.page.focus("input[aria-label='steps']")
        assert float(seen.page.input_value(lam)) == INPUTS["lam"]
        assert seen.page.get_attribute(lam, "aria-invalid") == "false"
        assert said not in seen.page.inner_text(".panel-data")


def test_new_data_reach_both_networks(visit: Visit, folder: Path) -> None:
    seen = visit(folder / "two.html", "#layer=18")
    seen.page.click("text=draw new")
    ran(seen)
    values = inputs_of(seen, "values")
    assert values["lam"] == INPUTS["lam"]
    assert not np.isin(values["X"], INPUTS["X"]).any()
    same(shown(seen), traced(LOOP, LOOP.prompt(**values)))
    ends = seen.page.evaluate(
        """() => document.getElementById('inweave').explorer.tracks
          .map((t) => t.answers[0].distances.at(-1))"""
    )
    assert all(distance < 1e-12 for distance in ends)  # they agree on data that nobody has seen
    assert "steps = 9 is in the weights" in seen.page.inner_text(".panel-data")


def test_new_data_are_of_the_same_kind(visit: Visit, tmp_path: Path) -> None:
    @inweave.program
    def some(A: Matrix["n", "n"], c: Vector["m"], X: Matrix["m", "n"]):
        return X @ A + c @ inweave.ones(1, 3)

    rng = np.random.default_rng(0)
    X = rng.normal(size=(5, 3))
    X[2] = 0
    half = rng.normal(size=(3, 3))
    given = {"A": half @ half.T, "c": np.array([0.0, 1, 1, 2, 0]), "X": X}
    inweave.compile(some, n=3, m=5).explore(tmp_path / "page.html", **given)
    seen = visit(tmp_path / "page.html")
    seen.page.click("text=draw new")
    ran(seen)
    drawn = inputs_of(seen, "values", given)
    before, after = (np.linalg.eigvalsh(one["A"]) for one in (given, drawn))
    np.testing.assert_allclose(after, before, rtol=1e-12)
    assert np.abs(drawn["A"] - given["A"]).min() > 1e-6
    assert sorted(drawn["c"]) == [0, 0, 1, 1, 2]
    assert not drawn["X"][2].any()
    assert (drawn["X"][[0, 1, 3, 4]] != X[[0, 1, 3, 4]]).all()


def test_entries_are_chosen_and_moved_by_keyboard(visit: Visit, folder: Path) -> None:
    seen = visit(folder / "loop.html", "#layer=3")
    seen.page.focus(".cells canvas")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        seen.page.keyboard.press(key)
    assert "X[1, 2]" in seen.page.inner_text(".panel-data")
    seen.page.focus("input[aria-label='X[1, 2]']")
    seen.page.keyboard.press("End")
    ran(seen)
    moved = shown(seen)[0][:, LOOP.layout["Xᵀ"].columns][2, 1]
    assert moved == pytest.approx(2 * np.abs(INPUTS["X"]).max())
    assert "layer 3 of 18" in seen.where()  # the arrows were the slider's and the cells'


def test_a_click_on_an_entry_of_the_input_chooses_it(visit: Visit, folder: Path) -> None:
    seen = visit(folder / "loop.html")
    seen.page.mouse.click(
        *seen.page.evaluate(
            """() => {
              const e = document.getElementById('inweave').explorer, p = e.prompts[0];
              const b = p.plan.boxes.find((b) => e.reader.track.blocks[b.block].name === 'Xᵀ');
              const r = p.canvas.getBoundingClientRect();
              return [r.left + b.x + 4.5 * b.cell, r.top + b.y + 1.5 * b.cell];
            }"""
        )
    )
    assert "X[4, 1]" in seen.page.inner_text(".panel-data")  # of Xᵀ, row 1 and column 4


def test_an_entry_can_be_dragged(visit: Visit, folder: Path) -> None:
    seen = visit(folder / "loop.html")
    box = seen.page.locator(".cells canvas").nth(1).bounding_box()
    seen.page.mouse.move(box["x"] + 5, box["y"] + 5)
    seen.page.mouse.down()
    seen.page.mouse.move(box["x"] + 65, box["y"] + 5, steps=4)
    seen.page.mouse.up()
    ran(seen)
    y = shown(seen)[0][:, LOOP.layout["yᵀ"].columns][0, 0]
    assert y == pytest.approx(INPUTS["y"][0] + np.abs(INPUTS["y"]).max())


def test_a_network_whose_weights_did_not_come_along_is_only_replayed(
    visit: Visit, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("inweave.explore.payload.WEIGHT_BYTES", 100)
    W = DenseProjection(0.3 * np.eye(4))
    layer = inweave.AttentionLayer((Head(W, W, W),))
    net = inweave.Network(Layout.of({"A": (2, 4)}), (Module((layer,), 2),))
    net.explore(tmp_path / "page.html", H=np.ones((2, 4)))
    seen = visit(tmp_path / "page.html")
    assert "too large to be run here" in seen.page.inner_text(".panel-data")
    assert seen.page.locator(".panel-ablate").count() == 0


# -- ablation --------------------------------------------------------------------------------------
def hooked(hooks: dict[str, Callable[[Any], Any]], H: np.ndarray) -> np.ndarray:
    """The last state of the torch network with some hooks."""
    torch = pytest.importorskip("torch")
    stack = LOOP.to_torch()
    for name, change in hooks.items():
        point = stack.get_submodule(name)
        point.register_forward_hook(lambda _module, _given, value, change=change: change(value))
    with torch.no_grad():
        return stack(torch.tensor(H)).numpy()


def off(head: int) -> Callable[[Any], Any]:
    def change(z: Any) -> Any:
        z = z.clone()
        z[..., head, :] = 0
        return z

    return change


def put(block: str, state: np.ndarray | None) -> Callable[[Any], Any]:
    columns = LOOP.layout[block].columns

    def change(residual: Any) -> Any:
        residual = residual.clone()
        new = 0 if state is None else residual.new_tensor(state[:, columns])
        residual[..., columns] = new
        return residual

    return change


def test_a_head_that_is_off_is_a_hook_of_torch(visit: Visit, folder: Path) -> None:
    H = LOOP.prompt(**INPUTS)
    seen = visit(folder / "loop.html", "#layer=5&head=1")
    seen.page.click("text=off in this step")
    ran(seen)
    wanted = hooked({"blocks.4.attn.hook_z": off(1)}, H)
    same(shown(seen)[-1:], [wanted])
    assert "Xᵀ y" in seen.page.inner_text(".ablated")
    seen.page.click("text=off in this step")  # and on again
    seen.page.click("text=off in every step")
    ran(seen)
    wanted = hooked({f"blocks.{i}.attn.hook_z": off(1) for i in range(0, 18, 2)}, H)
    same(shown(seen)[-1:], [wanted])
    assert not wanted[:, LOOP.layout["w"].columns].any()  # without Xᵀ y nothing is learned


def test_a_replaced_block_is_a_hook_of_torch(visit: Visit, folder: Path) -> None:
    H = LOOP.prompt(**INPUTS)
    seen = visit(folder / "loop.html", "#layer=6")
    seen.page.select_option("select[aria-label='Block to replace']", label="w")
    seen.page.click(".panel-ablate button:text-is('zeros')")
    ran(seen)
    same(shown(seen)[-1:], [hooked({"blocks.5.hook_resid_post": put("w", None)}, H)])
    seen.page.click(".ablated button")
    seen.page.click(".panel-ablate button:text-is('another prompt’s')")
    ran(seen)
    state = LOOP.trace(**inputs_of(seen, "other")).steps[5].after
    same(shown(seen)[-1:], [hooked({"blocks.5.hook_resid_post": put("w", state)}, H)])


def test_a_replaced_input_is_another_prompt(visit: Visit, folder: Path) -> None:
    seen = visit(folder / "loop.html", "#layer=0")
    seen.page.select_option("select[aria-label='Block to replace']", label="yᵀ")
    seen.page.click(".panel-ablate button:text-is('zeros')")
    ran(seen)
    zero = INPUTS | {"y": np.zeros(6)}
    same(shown(seen), traced(LOOP, LOOP.prompt(**zero)))


def test_the_difference_says_what_changes_where(visit: Visit, folder: Path) -> None:
    seen = visit(folder / "loop.html", "#layer=3&head=0")
    clean = traced(LOOP, LOOP.prompt(**INPUTS))
    seen.page.click("text=off in this step")
    ran(seen)
    ablated = shown(seen)
    seen.page.click(".panel-ablate button:text-is('difference')")
    for k in (2, 3, 4, 18):
        seen.layer(k)
        seen.settled(k)
        table = np.array(seen.table())
        np.testing.assert_allclose(table, ablated[k] - clean[k], rtol=1e-9, atol=1e-15)
        labels = seen.page.eval_on_selector_all(
            ".effects .meter > span:first-child", "s => s.map(x => x.textContent)"
        )
        gap = np.abs(ablated[k] - clean[k])
        moved = [block for block in LOOP.layout if (gap[:, block.columns] > 1e-9).any()]
        assert len(labels) == len(moved)
    assert seen.page.is_visible(".panel-effect")
    seen.page.click("text=as given")
    ran(seen)
    assert not seen.page.is_visible(".panel-effect")


# -- how long it takes -----------------------------------------------------------------------------
def test_the_benchmark_of_the_page_finds_what_it_measures(browser: Any) -> None:
    """No seconds are asserted: a page or a Chromium that no longer has these names would give 0."""
    rows = list(benchmark.in_browser(browser, 1, rounds=1, times=2))
    assert [row.name for row in rows] == [name for name, *_ in benchmark.CASES]
    assert all(row.value > 0 for row in rows)
