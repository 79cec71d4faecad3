"""Compiled networks inside TransformerLens, tested with TransformerLens: its own root, caches and
patching run on them, and what they find is what the algorithm says."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import inweave
from inweave import InputError, Matrix, Network, ShapeError, Vector
from inweave.model.dense import forward
from tests.cases import CASES
from tests.files_fuzz import every_kind
from tests.test_docs import blocks

WHY = "`make test-lens` has an environment with TransformerLens"
torch = pytest.importorskip("torch", reason=WHY)
lens = pytest.importorskip("transformer_lens", reason=WHY)
attribution = pytest.importorskip("transformer_lens.tools.analysis.attribution_patching")
patching = lens.patching

BY_NAME = {c.name: c for c in CASES}
RIDGE = BY_NAME["ridge_gd"]
STEPS = RIDGE.sizes["steps"]
FLAGS = ("use_split_qkv_input", "use_attn_result", "use_hook_mlp_in")


@pytest.fixture(scope="module")
def ridge() -> Network:
    return inweave.compile(RIDGE.program, verify=False, **RIDGE.sizes)


def opened(network: Network):
    """A model whose hook points are all in use."""
    model = network.to_lens()
    for flag in FLAGS:
        getattr(model, f"set_{flag}")(True)
    return model


def pair() -> tuple[dict, dict]:
    """Two sets of inputs that differ in y alone, in which ridge descent is linear."""
    clean = RIDGE.inputs(batch=(2,))
    return clean, {**clean, "y": clean["y"] + np.linspace(-1, 1, clean["y"].shape[-1])}


# -- what it computes ------------------------------------------------------------------------------
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@pytest.mark.usefixtures("unchecked_passes")
def test_states_and_answers_are_those_of_the_network(case):
    network = inweave.compile(case.program, verify=False, **case.sizes)
    model, inputs = network.to_lens(), case.inputs(batch=(2,))
    H = np.broadcast_to(network.prompt(**inputs), (2, network.tokens, network.width))
    expected = forward(network, H)
    for given in (torch.tensor(H), model.to_tokens(torch.tensor(H))):
        state = model(given).detach().numpy()
        assert np.allclose(state, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())
    for given in (inputs, case.inputs()):
        wanted, got = network.readout(forward(network, network.prompt(**given))), model(**given)
        for name in wanted if isinstance(wanted, dict) else [None]:
            a, b = (got, wanted) if name is None else (got[name], wanted[name])
            assert a.shape == np.shape(b)
            assert np.allclose(a.detach(), b, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


@pytest.mark.filterwarnings("ignore:program 'ridge.*does not use")
def test_inputs_that_are_not_read_have_batch_axes_too():
    network = inweave.compile(RIDGE.program, verify=False, **{**RIDGE.sizes, "steps": 0})
    inputs = RIDGE.inputs(batch=(2,))
    assert network.to_lens()(**inputs).shape == network(**inputs).shape == (2,)


@pytest.mark.parametrize("flag", [None, *FLAGS])
def test_a_network_with_layers_and_skips_of_every_kind_is_the_same(flag):
    network = every_kind()
    model = network.to_lens()
    if flag:
        getattr(model, f"set_{flag}")(True)
    H = torch.randn(2, network.tokens, network.width, dtype=torch.float64) * 0.1
    expected = forward(network, H.numpy())
    assert np.allclose(model(H).detach(), expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())
    _, cache = model.run_with_cache(H)
    heads = {cache["z", i].shape for i in range(model.cfg.n_layers)}
    assert heads == {(2, network.tokens, 2, network.width)}  # a layer of one has a zero one


def test_it_is_a_root_of_transformer_lens_with_its_configuration(ridge):
    model = ridge.to_lens()
    assert isinstance(model, lens.HookedRootModule)
    sizes = {name: getattr(model.cfg, name) for name in (
        "n_layers", "n_heads", "d_model", "d_head", "n_ctx", "attn_only", "parallel_attn_mlp",
        "normalization_type", "dtype", "device", *FLAGS,
    )}  # fmt: skip
    assert sizes == {
        "n_layers": ridge.depth, "n_heads": max(len(x.heads) for x in ridge.layers),
        "d_model": ridge.width, "d_head": ridge.width, "n_ctx": ridge.tokens,
        "attn_only": True, "parallel_attn_mlp": False, "normalization_type": None,
        "dtype": torch.float64, "device": "cpu", **dict.fromkeys(FLAGS, False),
    }  # fmt: skip
    single = copy.deepcopy(model).to(torch.float32)
    assert single.cfg.dtype == torch.float32
    assert torch.allclose(single(**RIDGE.inputs()), model(**RIDGE.inputs()).float(), rtol=1e-4)


def test_prompts_of_other_shapes_are_refused(ridge):
    model = ridge.to_lens()
    with pytest.raises(ShapeError, match="one batch axis"):
        model(torch.zeros(2, 2, ridge.tokens, ridge.width, dtype=torch.float64))
    with pytest.raises(ShapeError):
        model(torch.zeros(2, ridge.tokens, ridge.width + 1, dtype=torch.float64))
    with pytest.raises(ShapeError):
        model.to_tokens(torch.zeros(2, ridge.tokens, ridge.width + 1, dtype=torch.float64))
    for ids in (torch.zeros(1, ridge.tokens), torch.zeros(1, ridge.tokens, ridge.width)):
        with pytest.raises(InputError, match=r"the 0 that model\.to_tokens"):
            model(ids.long())


# -- names and shapes ------------------------------------------------------------------------------
def test_every_hook_point_has_its_name_and_shape(ridge):
    model = opened(ridge)
    _, cache = model.run_with_cache(**RIDGE.inputs(batch=(2,)))
    n, d, h = ridge.tokens, ridge.width, model.cfg.n_heads
    shapes = {
        **dict.fromkeys(("hook_resid_pre", "hook_resid_mid", "hook_resid_post"), (2, n, d)),
        **dict.fromkeys(("hook_attn_out", "hook_mlp_in", "hook_mlp_out"), (2, n, d)),
        **dict.fromkeys(("hook_q_input", "hook_k_input", "hook_v_input"), (2, n, h, d)),
        **dict.fromkeys((f"attn.hook_{x}" for x in ("q", "k", "v", "z", "result")), (2, n, h, d)),
        "attn.hook_pattern": (2, h, n, n),
    }
    expected = {f"blocks.{i}.{x}": s for i in range(ridge.depth) for x, s in shapes.items()}
    expected |= {"hook_embed": (2, n, d), "hook_final": (2, n, d)}
    assert {name: tuple(value.shape) for name, value in cache.items()} == expected


@pytest.mark.parametrize("network", [None, every_kind()], ids=["ridge", "every kind"])
def test_the_torch_module_has_the_same_names(ridge, network):
    model, plain = opened(network or ridge), (network or ridge).to_torch()
    for flag in FLAGS:
        setattr(plain.cfg, flag, True)
    assert model.hook_names == plain.hook_names
    assert set(plain.hook_names) <= set(model.hook_dict)


def test_a_cache_knows_short_names_and_holds_what_heads_compute(ridge):
    model = opened(ridge)
    state, cache = model.run_with_cache(**RIDGE.inputs(batch=(2,)))
    assert isinstance(cache, lens.ActivationCache)
    last = ridge.depth - 1
    assert cache["z", -1] is cache[f"blocks.{last}.attn.hook_z"]
    for i in range(ridge.depth):
        pattern = torch.einsum("bqhf,bkhf->bhqk", cache["q", i], cache["k", i])
        assert torch.allclose(cache["pattern", i], pattern, rtol=1e-12, atol=1e-12)
        z = torch.einsum("bhqk,bkhf->bqhf", cache["pattern", i], cache["v", i])
        assert torch.allclose(cache["z", i], z, rtol=1e-12, atol=1e-12)
        assert torch.equal(cache["result", i], cache["z", i])
        added = cache["resid_pre", i] + cache["result", i].sum(2)
        assert torch.allclose(cache["resid_post", i], added, rtol=1e-12, atol=1e-12)
    assert state.shape == (2,)


def test_transformer_lens_takes_the_state_apart(ridge):
    model = ridge.to_lens()
    state, cache = model.run_with_cache(model.to_tokens(**RIDGE.inputs()))
    parts = (
        cache.decompose_resid(),
        cache.get_full_resid_decomposition(expand_neurons=False),
        cache.stack_head_results(incl_remainder=True),
    )
    for part in parts:
        assert torch.allclose(part.sum(0), state, rtol=1e-12, atol=1e-12)
    assert torch.equal(cache.accumulated_resid()[-1], state)


@pytest.mark.usefixtures("unchecked_passes")
def test_a_pointwise_layer_is_the_mlp_of_its_block():
    network = inweave.gallery.get("lasso_ista").compile(n=4, d=2, steps=3, verify=False)
    model = opened(network)
    rng = np.random.default_rng(0)
    inputs = {x.name: rng.uniform(0.1, 0.2, size=shape(x)) for x in network.inputs}
    state, cache = model.run_with_cache(torch.tensor(network.prompt(**inputs)))
    assert not model.cfg.attn_only
    assert torch.allclose(cache.decompose_resid().sum(0), state, rtol=1e-12, atol=1e-12)
    blocks = range(model.cfg.n_layers)
    wrote = [bool(cache["mlp_out", i].any()) for i in blocks]
    heads = [bool(cache["result", i].any()) for i in blocks]
    assert any(wrote)
    assert not any(a and b for a, b in zip(wrote, heads, strict=True))


def shape(spec: inweave.Input) -> tuple[int, ...]:
    return {"scalar": (), "vector": (spec.rows,)}.get(spec.kind, (spec.rows, spec.cols))


# -- tied loops ------------------------------------------------------------------------------------
def test_blocks_are_steps_and_share_their_weights():
    @inweave.program
    def power(A: Matrix["d", "d"], w: Vector["d"], *, steps: int) -> Vector["d"]:
        return inweave.iterate(lambda w: A @ w, w, steps)

    network = inweave.compile(power, d=3, steps=9)
    model = network.to_lens()
    assert model.cfg.n_layers == 9
    assert len({id(p) for block in model.blocks for p in block.parameters()}) == len(
        list(model.blocks[7].parameters())
    )
    rng = np.random.default_rng(0)
    A, w = rng.normal(size=(3, 3)), rng.normal(size=3)
    _, cache = model.run_with_cache(A=A, w=w)
    step = np.linalg.matrix_power(A, 8) @ w
    assert np.allclose(network.readout(cache["resid_post", 7][0].numpy()), step)

    def twice(z, hook):
        assert hook.name == "blocks.7.attn.hook_z"
        return 2 * z

    changed = model.run_with_hooks(A=A, w=w, fwd_hooks=[("blocks.7.attn.hook_z", twice)])
    old = np.linalg.matrix_power(A, 7) @ w  # what a head writes is A w − w
    assert np.allclose(changed.detach(), A @ (2 * step - old))


# -- patching --------------------------------------------------------------------------------------
def descent(clean: dict, corrupt: dict, at: tuple[int, str] | None = None) -> np.ndarray:
    """Ridge descent on corrupt inputs, in which one product is the clean run's at one step."""
    w = {"clean": 0.0, "corrupt": 0.0}
    left = 0.0  # of a gradient that was not cleared
    for t in range(STEPS):
        terms, gradient = {}, {}
        for run, x in (("clean", clean), ("corrupt", corrupt)):
            X, zero = x["X"], np.zeros_like(x["u"])
            w[run] = w[run] + zero
            terms[run] = {
                "gram": np.einsum("bij,bik,bk->bj", X, X, w[run]),
                "data": -np.einsum("bij,bi->bj", X, x["y"]),
                "ridge": np.asarray(x["lam"])[..., None] * w[run],
            }
        used = {
            name: terms["clean" if at == (t, name) else "corrupt"][name] for name in terms["clean"]
        }
        gradient["clean"] = sum(terms["clean"].values())
        gradient["corrupt"] = sum(used.values()) + left
        for run, x in (("clean", clean), ("corrupt", corrupt)):
            by = gradient["clean"] if at == (t, "step") else gradient[run]
            w[run] = w[run] - np.asarray(x["eta"])[..., None] * by
        left = gradient["corrupt"] - gradient["clean"] if at == (t, "clear") else 0.0
    answer = np.einsum("bj,bj->b", corrupt["u"], w["corrupt"])
    return np.einsum("bj,bj->b", clean["u"], w["clean"]) if at == (STEPS, "read") else answer


def expected_effects(layers: int, heads: int, clean: dict, corrupt: dict) -> np.ndarray:
    """The mean answer with each head patched; heads of a layer in no particular order."""
    products = [("gram", "data", "ridge"), ("step", "clear")]
    rows = []
    for i in range(layers):
        names = ("read",) if i == 2 * STEPS else products[i % 2]
        found = [descent(clean, corrupt, (i // 2, name)).mean() for name in names]
        rows.append(sorted(found + [descent(clean, corrupt).mean()] * (heads - len(found))))
    return np.array(rows)


@pytest.mark.filterwarnings("ignore")  # progress bars
def test_a_patched_head_changes_what_the_algebra_says(ridge):
    clean, corrupt = pair()
    model = ridge.to_lens()
    _, cache = model.run_with_cache(model.to_tokens(**clean))
    found = patching.get_act_patch_attn_head_out_all_pos(
        model, model.to_tokens(**corrupt), cache, lambda state: ridge.readout(state).mean()
    )
    expected = expected_effects(model.cfg.n_layers, model.cfg.n_heads, clean, corrupt)
    assert len(np.unique(expected.round(9))) > 20  # heads differ in what they do
    assert np.allclose(np.sort(found.numpy(), axis=1), expected, rtol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_the_helpers_of_transformer_lens_run(ridge):
    clean, corrupt = pair()
    model = ridge.to_lens()
    ids = model.to_tokens(**clean), model.to_tokens(**corrupt)
    (state, cache), (_, other) = map(model.run_with_cache, ids)
    plain = ridge.readout(model(ids[1])).mean()

    def metric(state):
        return ridge.readout(state).mean()

    layers, heads, tokens = model.cfg.n_layers, model.cfg.n_heads, ridge.tokens
    blocks = patching.get_act_patch_block_every(model, ids[1], cache, metric)
    assert blocks.shape == (3, layers, tokens)
    assert torch.allclose(blocks[2], plain.detach().float())  # there is no mlp
    by_head = patching.get_act_patch_attn_head_all_pos_every(model, ids[1], cache, metric)
    assert by_head.shape == (5, layers, heads)
    expected = expected_effects(layers, heads, clean, corrupt)
    assert np.allclose(np.sort(by_head[0].numpy(), axis=1), expected, rtol=1e-5)
    assert torch.allclose(by_head[1, 0], plain.detach().float())  # no query knows y yet
    if hasattr(patching, "get_act_patch_direct_path"):  # since 4.3
        for part in "qkv":
            paths = patching.get_act_patch_direct_path(
                model, ids[1], cache, other, metric, 0, 1, part
            )
            assert paths.shape == (layers, heads)
    assert torch.equal(model(ids[0]), state)  # nothing was left behind


@pytest.mark.filterwarnings("ignore")
def test_attribution_is_exact_where_the_answer_is_linear(ridge):
    """Gradients through every hook point: in y, ridge descent is linear."""
    clean, corrupt = ({k: v[:1] for k, v in x.items()} for x in pair())
    model = ridge.to_lens()
    ids = model.to_tokens(**clean), model.to_tokens(**corrupt)

    def metric(state):
        return ridge.readout(state).mean()

    for granularity in ("node", "edge"):
        config = attribution.EdgeAttributionConfig(granularity=granularity)
        found = attribution.attribution_patch(model, *ids, metric, config).node_scores
        effect = torch.zeros(model.cfg.n_layers, model.cfg.n_heads, dtype=torch.float64)
        for node, score in found.items():
            if node.kind == "attn_head_out":
                effect[node.layer, node.head] += score
        expected = expected_effects(*effect.shape, clean, corrupt)
        expected -= descent(clean, corrupt).mean()
        assert np.allclose(np.sort(effect.numpy(), axis=1), expected, rtol=1e-5, atol=1e-12)
        embed = sum(score for node, score in found.items() if node.kind == "embed")
        change = descent(clean, clean).mean() - descent(clean, corrupt).mean()
        assert np.isclose(embed, change, rtol=1e-6)
    assert not model.cfg.use_split_qkv_input


@pytest.mark.skipif(
    not hasattr(patching, "get_act_patch_direct_path_all_sources"), reason="it came with 4.3"
)
@pytest.mark.filterwarnings("ignore")
def test_paths_that_transformer_lens_finds_are_the_edges_of_the_circuit():
    network = inweave.compile(RIDGE.program, verify=False, **{**RIDGE.sizes, "steps": 2})
    edges = {(e.source, e.target, e.letter) for e in network.circuit().functional}
    expected = {edge for edge in edges if edge[0][0] == edge[1][0] == "a"}
    model, rng = network.to_lens(), np.random.default_rng(3)
    given = [
        {k: v + rng.uniform(0.5, 1, np.shape(v)) for k, v in RIDGE.inputs().items()} for _ in "ab"
    ]
    clean, corrupt = (model.to_tokens(**x) for x in given)
    (_, cache), (state, other) = map(model.run_with_cache, (clean, corrupt))
    plain = model.readout(state)

    def change(state):
        return (model.readout(state) / plain - 1).mean()

    found = set()
    for letter in "qkv":
        table = patching.get_act_patch_direct_path_all_sources(
            model, corrupt, cache, other, change, letter, verbose=False
        )
        for i, j, k, h in np.argwhere(np.abs(table.numpy()) > 1e-9):
            found.add((f"a{i}.h{j}", f"a{k}.h{h}", letter))
    assert len(expected) > 5
    assert found == expected


# -- hooks -----------------------------------------------------------------------------------------
def test_hooks_come_and_go(ridge):
    model, inputs = ridge.to_lens(), RIDGE.inputs()
    plain = model(**inputs)

    def off(value, **_):
        value[:] = 0  # hooks may write into what they get
        return value

    name = f"blocks.{ridge.depth - 1}.attn.hook_z"
    H = torch.tensor(ridge.prompt(**inputs))
    before = H.clone()
    with torch.no_grad(), model.hooks(fwd_hooks=[(name, off), ("hook_embed", off)]):
        assert not model(H).any()
    assert torch.equal(H, before)
    assert torch.equal(model(**inputs), plain)
    model.add_hook(name, off)
    with torch.no_grad():
        assert model(**inputs) == 0
    model.reset_hooks()
    assert torch.equal(model(**inputs), plain)


def test_what_one_head_reads_can_be_changed_alone(ridge):
    model, inputs = ridge.to_lens(), RIDGE.inputs(batch=(2,))
    model.set_use_split_qkv_input(True)
    _, cache = model.run_with_cache(**inputs)

    def off(each, **_):
        each = each.clone()
        each[:, :, 1] = 0
        return each

    for name in ("blocks.2.hook_q_input", "blocks.2.attn.hook_q_input"):  # its two names
        with model.hooks(fwd_hooks=[(name, off)]):
            _, changed = model.run_with_cache(**inputs)
        for x, heads in (("q", [1]), ("k", []), ("v", [])):
            differs = (changed[x, 2] != cache[x, 2]).any(-1).any(1).any(0)
            assert differs.nonzero().flatten().tolist() == heads


def test_hooks_that_would_never_be_called_are_refused(ridge):
    model, inputs = ridge.to_lens(), RIDGE.inputs()
    closed = {
        "blocks.0.hook_q_input": "use_split_qkv_input",
        "blocks.0.attn.hook_k_input": "use_split_qkv_input",
        "blocks.0.attn.hook_result": "use_attn_result",
        "blocks.0.hook_mlp_in": "use_hook_mlp_in",
    }
    for name, flag in closed.items():
        calls = (
            lambda name: model.run_with_hooks(**inputs, fwd_hooks=[(name, print)]),
            lambda name: model.add_hook(name, print),
            lambda name: model.run_with_cache(names_filter=[name], **inputs),
        )
        for call in calls:
            with pytest.raises(InputError, match=f"cfg.{flag} = True"):
                call(name)
        for call in calls[:2]:
            with pytest.raises(InputError, match=f"cfg.{flag} = True"):
                call(name.__eq__)  # a function of names, which chooses this one
    for call in calls[:2]:
        for wrong in ("blocks.99", "blocks.0.attn", 5):
            with pytest.raises(InputError, match=f"no activation {wrong!r}"):
                call(wrong)
        with pytest.raises(InputError, match="keeps no activation"):
            call(lambda _: False)
    _, cache = model.run_with_cache(**inputs)
    assert not set(closed) & set(cache)


def test_a_function_of_names_chooses_each_point_that_is_open_once(ridge):
    model, inputs, called = ridge.to_lens(), RIDGE.inputs(), []

    def note(_, hook):
        called.append(hook.name)

    def wanted(name):
        return name.startswith("blocks.1.") and "hook_q" in name

    model.run_with_hooks(**inputs, fwd_hooks=[(wanted, note)])
    assert called == ["blocks.1.attn.hook_q"]
    model.set_use_split_qkv_input(True)  # which opens a point that has two names
    called.clear()
    model.run_with_hooks(**inputs, fwd_hooks=[(wanted, note)])
    assert sorted(called) == ["blocks.1.attn.hook_q", "blocks.1.hook_q_input"]
    model.add_hook(wanted, note)
    called.clear()
    model(**inputs)
    assert sorted(called) == ["blocks.1.attn.hook_q", "blocks.1.hook_q_input"]


def test_gradients_are_cached_beside_activations(ridge):
    model, inputs = ridge.to_lens(), RIDGE.inputs()
    _, cache = model.run_with_cache(**inputs, incl_bwd=True)
    last = ridge.depth - 1
    grad = cache[f"blocks.{last}.hook_resid_post_grad"]
    assert torch.equal(ridge.readout(grad[0]), torch.tensor(1.0).double())
    assert grad.count_nonzero() == 1
    assert cache["blocks.0.attn.hook_z_grad"].any()


def test_ids_stand_for_rows(ridge):
    model = ridge.to_lens()
    first, second = model.to_tokens(**RIDGE.inputs()), model.to_tokens(**RIDGE.inputs(batch=(2,)))
    assert first.shape == (1, ridge.tokens)
    assert second.shape == (2, ridge.tokens)
    assert model.cfg.d_vocab == len(model.W_E) == 3 * ridge.tokens
    _, cache = model.run_with_cache(second)
    assert np.array_equal(cache["hook_embed"], ridge.prompt(**RIDGE.inputs(batch=(2,))))


def test_a_network_in_another_basis_is_one_too(ridge):
    """Prompt, ids and answers are those of the network; states stand in its basis."""
    columns = np.diag(np.arange(1, ridge.width + 1))[:, ::-1].astype(object)
    to = inweave.Embedding(columns, None)
    modules = tuple(to.module(module, ridge.layout) for module in ridge.modules)
    moved = replace(ridge, modules=modules, embedding=to)
    model, inputs = moved.to_lens(), RIDGE.inputs()
    answer, cache = model.run_with_cache(**inputs)
    assert np.isclose(answer.item(), ridge(**inputs), rtol=1e-9)
    assert np.allclose(cache["hook_embed"][0], moved.prompt(**inputs), rtol=1e-12)
    assert torch.allclose(model.readout(model(model.to_tokens(**inputs))), answer, rtol=1e-12)


# -- the page --------------------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore")
def test_the_code_on_the_page_about_transformer_lens_runs():
    names: dict[str, Any] = {"__name__": "page"}
    for code in blocks("howto/lens.md", "python"):
        exec(compile(code, "lens.md", "exec", dont_inherit=True), names)
    net, inputs = names["net"], names["inputs"]
    assert np.isclose(names["answer"].item(), net(**inputs))
    changed = names["effects"] - net(**names["corrupted"])
    assert np.allclose(names["linear"], changed, rtol=1e-4, atol=1e-6)
    assert changed[::2].abs().max(1).values[:5].gt(1e-4).all()
    two = inweave.compile(names["ridge"], n=10, d=3, steps=2)
    assert np.isclose(names["stopped"].item(), two(**inputs))


# -- other public tools ----------------------------------------------------------------------------
@pytest.mark.usefixtures("unchecked_passes")
def test_captum_as_it_is_sees_the_heads_that_the_answer_depends_on():
    pytest.importorskip("captum", reason=WHY)
    from fractions import Fraction

    from inweave.circuits.baselines import methods
    from inweave.circuits.build import make
    from inweave.circuits.public import integrated_gradients
    from inweave.circuits.suite import specification

    model = make(specification(1), Fraction(1))
    ends = {name for edge in model.circuit.functional for name in (edge.source, edge.target)}
    heads = [node.name for node in model.circuit.nodes if node.name.startswith("a")]
    scores, true = integrated_gradients(model)
    assert [score > 1e-9 for score in scores] == [name in ends for name in heads]
    assert 0 < sum(true) < len(true)  # and cannot tell baits from heads of the algorithm
    found = methods()["integrated gradients (Captum)"](model)
    assert 0 < found["heads"] < 1
