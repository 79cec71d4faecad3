"""A call inside torch.compile, torch.func and jax; all entries: `python -m tests.transforms`."""

from __future__ import annotations

import numpy as np
import pytest

from inweave import gallery
from tests.transforms import SLOW, WAYS, attempt

torch = pytest.importorskip("torch")

SMALL = {
    "sinkhorn": {"n": 2, "m": 3, "steps": 1},  # tables, divisions, two carried values
    "delta_net": {"n": 3, "d": 2, "k": 1},  # rows of inputs, rows of the answer
}
CASES = [
    ("sinkhorn", "call, eager"),
    ("delta_net", "module, aot_eager"),
    ("sinkhorn", "torch.func"),
    ("sinkhorn", "jax"),
    ("delta_net", "call, aot_eager"),
    ("delta_net", "module, eager"),
    ("delta_net", "torch.func"),
    ("delta_net", "jax"),
]


@pytest.mark.usefixtures("unchecked_passes")
@pytest.mark.parametrize(("name", "way"), CASES)
def test_a_transformed_call_gives_what_a_plain_one_gives(name, way):
    if way == "jax":
        pytest.importorskip("jax")
    attempt(way, gallery.get(name), **SMALL[name])


def test_every_way_is_tried_here():
    assert {way for _, way in CASES} | set(SLOW) == set(WAYS)


# -- a module that is one operation ----------------------------------------------------------------
@pytest.fixture
def opaque(monkeypatch):
    """A module to look through and one of the same weights that is one operation, and a prompt."""
    torch._dynamo.reset()
    net = gallery.get("ridge_gd").compile(verify=False, n=3, d=2, steps=2)
    module = net.to_torch(trainable=True)
    H = torch.from_numpy(np.random.default_rng(0).normal(size=(4, net.tokens, net.width)) / 4)
    monkeypatch.setattr("inweave.stack.blocks.CLEAR", 0)
    return module, torch.compile(module, fullgraph=True, backend="aot_eager"), H


@pytest.mark.filterwarnings("ignore")
def test_a_long_module_is_one_operation_with_gradients(opaque):
    module, fast, H = opaque
    found = []
    for call in (module, fast):
        H = H.detach().clone().requires_grad_()
        module.zero_grad()
        call(H).square().sum().backward()
        found.append([H.grad, *(x.grad.clone() for x in module.parameters())])
    assert len(found[0]) > 2
    for a, b in zip(*found, strict=True):
        assert torch.allclose(a, b, rtol=1e-12, atol=1e-14)
    with torch.no_grad():
        next(module.parameters()).mul_(0.5)  # as an optimizer does
        assert torch.allclose(fast(H), module(H), rtol=1e-12)


@pytest.mark.filterwarnings("ignore")
def test_a_long_module_can_be_mapped_over_prompts_and_weights(opaque):
    from inweave.stack.opaque import final_state, keep

    module, _, H = opaque
    with torch.no_grad():
        expected = module(H)
        tensors = [x.detach() for x in module.parameters()]
        over_prompts = torch.func.vmap(lambda H: final_state(keep(module), H, tensors))
        assert torch.allclose(over_prompts(H), expected)
        twice = [torch.stack([x, x / 2]) for x in tensors]
        over_both = torch.func.vmap(lambda H, *x: final_state(keep(module), H, list(x)))
        found = over_both(H[:2], *twice)
        assert torch.allclose(found[0], expected[0])
        assert not torch.allclose(found[1], expected[1])
        over_weights = torch.func.vmap(lambda *x: final_state(keep(module), H[0], list(x)))
        assert torch.allclose(
            over_weights(*twice), torch.stack([expected[0], module_of(module, H)])
        )


def module_of(module, H):
    half = {name: x.detach() / 2 for name, x in module.named_parameters()}
    return torch.func.functional_call(module, half, (H[0],))


@pytest.mark.filterwarnings("ignore")
def test_hooks_of_a_long_module_are_part_of_what_is_compiled(opaque):
    module, fast, H = opaque
    handle = module.blocks[0].hook_resid_post.register_forward_hook(lambda *args: args[2] * 0)
    with torch.no_grad():
        assert torch.allclose(fast(H), module(H), rtol=1e-12)
        changed = module(H)
        handle.remove()
        assert not torch.allclose(changed, module(H))
