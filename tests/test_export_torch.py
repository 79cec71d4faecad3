"""The torch module computes what the network computes, and can be looked into."""

from __future__ import annotations

import copy
import importlib.util
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import inweave
from inweave import InputError, Network, ShapeError
from inweave.model.dense import forward
from tests.cases import CASES
from tests.files_fuzz import every_kind

torch = pytest.importorskip("torch")

BY_NAME = {c.name: c for c in CASES}
RIDGE = BY_NAME["ridge_gd"]
TAPS = ("hook_resid_pre", "attn.hook_q", "attn.hook_k", "attn.hook_v", "attn.hook_pattern",
        "attn.hook_z", "hook_attn_out", "hook_resid_mid", "hook_mlp_out",
        "hook_resid_post")  # fmt: skip
FLAGS = {
    "use_split_qkv_input": ("hook_q_input", "hook_k_input", "hook_v_input"),
    "use_attn_result": ("attn.hook_result",),
    "use_hook_mlp_in": ("hook_mlp_in",),
}


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def ridge() -> Network:
    return inweave.compile(RIDGE.program, verify=False, **RIDGE.sizes)


def named(answer) -> dict:
    return answer if isinstance(answer, dict) else {"": answer}


def assert_equal(network: Network, inputs: dict, module=None) -> None:
    """State and answers of the module are those of the dense executor."""
    module = module or network.to_torch()
    H = network.prompt(**inputs)
    expected = forward(network, H)
    scale = max(1.0, np.abs(expected).max())
    assert np.abs(module(torch.as_tensor(H)).detach().numpy() - expected).max() < 1e-12 * scale
    answers, wanted = named(module(**inputs)), named(network.readout(expected))
    for name, value in wanted.items():
        assert np.shape(answers[name].detach()) == np.shape(value)
        assert np.abs(answers[name].detach().numpy() - value).max() < 1e-12 * scale


# -- equality --------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@pytest.mark.parametrize("target", ["elsa", "lsa"])
@pytest.mark.usefixtures("compiled_once")
def test_compiled_networks_are_equal_to_numpy(case, target):
    network = inweave.compile(case.program, target=target, verify=False, **case.sizes)
    assert_equal(network, case.inputs(batch=(2,)))


def test_every_kind_of_layer_is_equal_to_numpy():
    rng = np.random.default_rng(0)
    assert_equal(every_kind(), {"A": 0.1 * rng.normal(size=(4, 3, 2)), "s": np.full(4, 0.3)})


def test_batch_axes_broadcast(ridge):
    inputs = RIDGE.inputs(batch=(2, 3))
    inputs["lam"] = 0.25
    inputs["y"] = inputs["y"][:, :1]
    answer = ridge.to_torch()(**inputs)
    assert answer.shape == (2, 3)
    assert np.allclose(answer.numpy(), ridge(**inputs), rtol=1e-12)


def test_mistakes_are_named(ridge):
    module = ridge.to_torch()
    inputs = RIDGE.inputs()
    with pytest.raises(ShapeError, match="'y'"):
        module(**{**inputs, "y": np.zeros(99)})
    with pytest.raises(inweave.BlockError, match="missing: lam"):
        module(**{k: v for k, v in inputs.items() if k != "lam"})
    with pytest.raises(InputError, match="NaN"):
        module(**{**inputs, "lam": float("nan")})
    with pytest.raises(InputError, match="not both"):
        module(torch.zeros(ridge.tokens, ridge.width, dtype=torch.float64), **inputs)
    with pytest.raises(ShapeError):
        module(torch.zeros(2, 2))


# -- looking inside --------------------------------------------------------------------------------
def test_every_activation_has_its_name(ridge):
    module = ridge.to_torch()
    assert len(module.blocks) == ridge.depth
    _, cache = module.run_with_cache(**RIDGE.inputs())
    expected = {f"blocks.{i}.{tap}" for i in range(ridge.depth) for tap in TAPS}
    assert set(cache) == expected | {"hook_embed", "hook_final"}
    assert set(cache) == set(module.hook_names)


@pytest.mark.parametrize("flag", FLAGS)
def test_a_flag_opens_hook_points_and_changes_no_state(ridge, flag):
    module, inputs = ridge.to_torch(), RIDGE.inputs()
    plain, cache = module.run_with_cache(**inputs)
    name = f"blocks.0.{FLAGS[flag][0]}"
    with pytest.raises(InputError, match=f"cfg.{flag} = True"):
        module.run_with_cache(names_filter=name, **inputs)
    setattr(module.cfg, flag, True)
    answer, more = module.run_with_cache(**inputs)
    opened = {f"blocks.{i}.{tap}" for i in range(ridge.depth) for tap in FLAGS[flag]}
    assert set(more) == set(cache) | opened
    assert torch.allclose(answer, plain, rtol=1e-12)
    handle = module.get_submodule(name).register_forward_hook(lambda *args: 2 * args[2])
    changed = module(**inputs)
    handle.remove()
    assert torch.equal(changed, plain) == (flag == "use_hook_mlp_in")  # there is no mlp to read it


def test_a_pointwise_layer_adds_what_it_changes_without_rounding():
    """A block of a pointwise layer has no heads, adds its difference, and loses nothing of it."""
    layout = inweave.Layout.of({"a": (2, 1), "b": (2, 1)})
    small = inweave.model.relunet.ReluNet((1.0,), (0.0,), (1e-20,), 0.0)
    function = inweave.model.relunet.Function("tiny", small, (0.0, 1e9), 0.0, True)
    layer = inweave.model.layers.BlockPointwiseLayer(((inweave.Place("a", 2, 1), function),))
    heads = inweave.AttentionLayer(())
    module = Network(layout, (inweave.Module((heads, layer)),)).to_torch()
    H = torch.tensor([[1e8, 3.0], [7e7, 5.0]], dtype=torch.float64)
    state, cache = module.run_with_cache(H)
    assert torch.allclose(state, torch.tensor([[1e-12, 3.0], [7e-13, 5.0]]).double(), rtol=1e-14)
    assert torch.equal(cache["blocks.1.hook_mlp_out"][:, 1], torch.zeros(2).double())
    assert torch.allclose(cache["blocks.1.hook_mlp_out"][:, 0], -H[:, 0])
    assert not module.cfg.attn_only
    for name in ("attn.hook_q", "attn.hook_z", "attn.hook_pattern", "hook_attn_out"):
        assert not cache[f"blocks.1.{name}"].any()
    assert not cache["blocks.0.hook_mlp_out"].any()


def test_activations_are_those_of_the_trace(ridge):
    inputs = RIDGE.inputs()
    module = ridge.to_torch()
    _, cache = module.run_with_cache(**inputs)
    module.cfg.use_attn_kv = True
    _, fast = module.run_with_cache(**inputs)
    assert set(cache) - set(fast) == {f"blocks.{i}.attn.hook_pattern" for i in range(ridge.depth)}
    for i, step in enumerate(ridge.trace(**inputs)):
        q = cache[f"blocks.{i}.attn.hook_q"]
        assert q.shape == (ridge.tokens, len(step.heads), ridge.width)
        for h, head in enumerate(step.heads):
            for name, value in (("q", head.query), ("k", head.key), ("v", head.value)):
                assert np.allclose(cache[f"blocks.{i}.attn.hook_{name}"][:, h], value, rtol=1e-12)
            pattern = cache[f"blocks.{i}.attn.hook_pattern"][h]
            assert np.allclose(pattern, head.query @ head.key.T, rtol=1e-12, atol=1e-14)
            kv = fast[f"blocks.{i}.attn.hook_kv"][h]
            assert np.allclose(kv, head.key.T @ head.value, rtol=1e-12, atol=1e-14)
            z = cache[f"blocks.{i}.attn.hook_z"][:, h]
            assert np.allclose(z, head.output, rtol=1e-12, atol=1e-14)
        assert np.allclose(cache[f"blocks.{i}.hook_resid_pre"], step.before, rtol=1e-12, atol=1e-14)
        assert np.allclose(cache[f"blocks.{i}.hook_resid_post"], step.after, rtol=1e-12, atol=1e-14)


def test_names_filter_takes_a_name_names_or_a_function(ridge):
    module, inputs = ridge.to_torch(), RIDGE.inputs()
    one, two = "blocks.0.attn.hook_q", "blocks.1.hook_resid_pre"
    assert list(module.run_with_cache(names_filter=one, **inputs)[1]) == [one]
    assert set(module.run_with_cache(names_filter=[two, one], **inputs)[1]) == {one, two}
    _, cache = module.run_with_cache(names_filter=lambda name: name.endswith("hook_z"), **inputs)
    assert len(cache) == ridge.depth
    with pytest.raises(InputError, match=r"'blocks\.99'"):
        module.run_with_cache(names_filter="blocks.99", **inputs)
    assert not any(part._forward_hooks for part in module.modules())


def test_a_forward_hook_changes_one_step_alone(ridge):
    module, inputs = ridge.to_torch(), RIDGE.inputs()
    plain = module(**inputs)
    middle = module.get_submodule(f"blocks.{ridge.depth // 2}.attn.hook_z")
    handle = middle.register_forward_hook(lambda *args: torch.zeros_like(args[2]))
    changed, cache = module.run_with_cache(**inputs)
    handle.remove()
    assert not torch.equal(plain, changed)
    assert torch.equal(plain, module(**inputs))
    pre, post = (cache[f"blocks.{ridge.depth // 2}.hook_resid_{x}"] for x in ("pre", "post"))
    assert torch.equal(pre, post)


# -- parameters ------------------------------------------------------------------------------------
def test_repeated_modules_share_their_parameters(ridge):
    module = ridge.to_torch(trainable=True)
    by_layer = [tuple(id(p) for p in block.parameters()) for block in module.blocks]
    assert len(set(by_layer)) == len(ridge.layers) < len(by_layer)
    stored = sum(
        6 if any(p.has_bias for h in layer.heads for p in h.projections) else 3
        for layer in ridge.layers
    )
    assert len(list(module.parameters())) <= stored
    assert all(p.requires_grad for p in module.parameters())
    assert not any(p.requires_grad for p in ridge.to_torch().parameters())


def test_a_network_without_biases_stays_one():
    network = inweave.compile(RIDGE.program, target="lsa", verify=False, **RIDGE.sizes)
    names = {n for n, _ in network.to_torch(trainable=True).named_parameters()}
    assert names
    assert not any("bias" in name for name in names)


def test_gradients_of_inputs_and_weights_are_right():
    case = BY_NAME["swap_and_rotate"]
    network = inweave.compile(case.program, verify=False, **case.sizes)
    module = network.to_torch(trainable=True)
    inputs = {k: torch.tensor(v, requires_grad=True) for k, v in case.inputs().items()}
    names = list(inputs)

    def answers(*values):
        return tuple(module(**dict(zip(names, values, strict=True))).values())

    assert torch.autograd.gradcheck(answers, tuple(inputs.values()))
    direct = case.program(**inputs, steps=case.sizes["steps"])["p"].sum()
    ours = module(**inputs)["p"].sum()
    wanted = torch.autograd.grad(direct, inputs["A"])[0]
    got = torch.autograd.grad(ours, inputs["A"], retain_graph=True)[0]
    assert torch.allclose(got, wanted, rtol=1e-12)
    ours.backward()
    assert all(p.grad is not None for p in module.parameters())


def test_training_keeps_repeated_modules_tied(ridge):
    module = ridge.to_torch(trainable=True)
    before = module(**RIDGE.inputs())
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)
    (before - 1.0).square().backward()
    optimizer.step()
    after = module(**RIDGE.inputs())
    assert (after - 1.0).abs() < (before - 1.0).abs()
    blocks = {tuple(id(p) for p in block.parameters()) for block in module.blocks}
    assert len(blocks) == len(ridge.layers) < len(module.blocks)


def test_precision_and_copies(ridge):
    module, inputs = ridge.to_torch(), RIDGE.inputs()
    single = copy.deepcopy(module).to(torch.float32)
    assert single(**inputs).dtype == torch.float32
    assert torch.allclose(single(**inputs).double(), module(**inputs), rtol=1e-4)
    assert ridge.to_torch(dtype=torch.float32)(**inputs).dtype == torch.float32


def test_a_network_too_long_to_write_out_is_refused(ridge):
    long = inweave.Network(ridge.layout, (inweave.Module(ridge.modules, 10**6),))
    with pytest.raises(InputError, match="too many"):
        long.to_torch()


# -- compilers -------------------------------------------------------------------------------------
@pytest.mark.skipif(shutil.which("c++") is None and shutil.which("g++") is None,
                    reason="torch.compile needs a C++ compiler")  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_it_compiles_in_one_graph():
    case = BY_NAME["product"]
    module = inweave.compile(case.program, verify=False, **case.sizes).to_torch()
    inputs = {k: torch.tensor(v) for k, v in case.inputs(batch=(2,)).items()}
    fast = torch.compile(module, fullgraph=True)
    assert torch.allclose(fast(**inputs), module(**inputs), rtol=1e-12)


@pytest.mark.filterwarnings("ignore")
def test_a_prompt_and_every_layer_go_through_the_tracer():
    network = every_kind()
    module = network.to_torch()
    H = torch.randn(2, network.tokens, network.width, dtype=torch.float64) * 0.1
    fast = torch.compile(module, fullgraph=True, backend="eager")
    assert torch.allclose(fast(H), module(H), rtol=1e-12)


@pytest.mark.filterwarnings("ignore")
def test_it_exports_with_a_dynamic_batch(ridge):
    module = ridge.to_torch()
    batch = torch.export.Dim("batch", min=2)
    H = torch.randn(3, ridge.tokens, ridge.width, dtype=torch.float64) * 0.1
    exported = torch.export.export(module, (H,), dynamic_shapes=({0: batch},))
    more = torch.randn(5, ridge.tokens, ridge.width, dtype=torch.float64) * 0.1
    assert torch.allclose(exported.module()(more), module(more), rtol=1e-12)


@pytest.mark.filterwarnings("ignore")
def test_it_exports_with_named_inputs(ridge):
    module = ridge.to_torch()
    inputs = {k: torch.tensor(v) for k, v in RIDGE.inputs(batch=(2,)).items()}
    exported = torch.export.export(module, (), inputs)
    assert torch.allclose(exported.module()(**inputs), module(**inputs), rtol=1e-12)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.filterwarnings("ignore")
def test_it_moves_to_a_gpu_and_compiles_there(ridge):
    module = ridge.to_torch().to("cuda")
    inputs = RIDGE.inputs(batch=(4,))
    there = {k: torch.tensor(v, device="cuda") for k, v in inputs.items()}
    expected = torch.as_tensor(ridge(**inputs))
    assert torch.allclose(module(**there).cpu(), expected, rtol=1e-12)
    assert torch.allclose(torch.compile(module)(**there).cpu(), expected, rtol=1e-12)


# -- hub -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "make", [lambda ridge: ridge, lambda _: every_kind()], ids=["ridge", "all"]
)
def test_save_pretrained_and_from_pretrained_work_offline(ridge, make, tmp_path, monkeypatch):
    pytest.importorskip("huggingface_hub")
    from inweave.stack.exported import TorchNetwork

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    network = make(ridge)
    module = network.to_torch(trainable=True)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1.01)
    module.save_pretrained(tmp_path / "model")
    assert (tmp_path / "model" / "network.inweave").exists()
    back = TorchNetwork.from_pretrained(tmp_path / "model")
    assert back.network == network
    assert back.dtype == torch.float64
    H = torch.randn(2, network.tokens, network.width, dtype=torch.float64) * 0.1
    assert torch.equal(back(H), module(H))
    assert len(list(back.parameters())) == len(list(module.parameters()))
    assert all(p.requires_grad for p in back.parameters())


def test_without_the_hub_the_error_says_what_to_install_and_nnsight_is_never_imported():
    code = (
        "import sys; sys.modules['huggingface_hub'] = None\n"
        "from tests.files_fuzz import every_kind\n"
        "module = every_kind().to_torch()\n"
        "for name in ('save_pretrained', 'push_to_hub', 'from_pretrained'):\n"
        "    try: getattr(module, name)('x')\n"
        "    except ImportError as error: print(error, 'nnsight' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = run.stdout.splitlines()
    names = ("save_pretrained", "push_to_hub", "from_pretrained")
    for line, name in zip(lines, names, strict=True):
        assert line.startswith(f"{name} needs huggingface_hub, which the extra 'hub' installs")
        assert line.endswith(" False")


# -- other tools -----------------------------------------------------------------------------------
NNSIGHT = """
import torch, nnsight, inweave
from tests.cases import CASES
case = next(c for c in CASES if c.name == "ridge_gd")
network = inweave.compile(case.program, verify=False, **case.sizes)
module = network.to_torch()
H = torch.tensor(network.prompt(**case.inputs()))
expected, cache = module.run_with_cache(H)
model = nnsight.NNsight(module)
with model.trace(H):
    z = model.blocks[1].attn.hook_z.output.save()
    state = model.output.save()
assert torch.equal(z, cache["blocks.1.attn.hook_z"]), "activation"
assert torch.equal(state, expected), "state"
with model.trace(H):
    model.blocks[1].attn.hook_z.output[:] = 0
    state = model.output.save()
assert not torch.equal(state, expected), "intervention"

# step 7 of a tied loop alone, and what each head reads, if that is asked for
def double(_, __, z):
    return 2 * z
handle = module.blocks[7].attn.hook_pattern.register_forward_hook(double)
wanted = module(H)
handle.remove()
with model.trace(H):
    model.blocks[7].attn.hook_pattern.output[:] *= 2
    state = model.output.save()
assert torch.equal(state, wanted) and not torch.equal(state, expected), "one step"
module.cfg.use_split_qkv_input = True
with model.trace(H):
    read = model.blocks[2].hook_q_input.output.save()
    model.blocks[2].hook_q_input.output[:, 1] = 0
    q = model.blocks[2].attn.hook_q.output.save()
assert torch.equal(read[:, 0], cache["blocks.2.hook_resid_pre"]), "input of a head"
same = torch.isclose(q, cache["blocks.2.attn.hook_q"], rtol=1e-12).all(-1).all(0)
assert same.tolist() == [True, False, True], "one head"
print("traced")
"""


@pytest.mark.skipif(importlib.util.find_spec("nnsight") is None, reason="nnsight is not installed")
def test_nnsight_traces_and_changes_it(tmp_path):
    # In a process of its own: importing nnsight patches `object` for everyone.
    script = tmp_path / "trace.py"
    script.write_text(NNSIGHT)
    environment = {**os.environ, "PYTHONPATH": ".", "HF_HUB_OFFLINE": "1"}
    run = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=environment, check=False
    )
    assert run.stdout.endswith("traced\n"), run.stderr[-2000:]


def test_importing_inweave_imports_no_torch():
    code = "import sys, inweave; print([m for m in ('torch', 'jax', 'onnx') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
