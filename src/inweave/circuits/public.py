"""Public tools, run as they are, beside the methods that are written by hand.

Captum's integrated gradients attribute the change of the answer, from one prompt to another, to
what passes a module; and what every head writes passes a hook point, which is a module. That says
how much each head matters, not each edge: it is to find the heads of the algorithm, those at an end
of a genuine edge, among all.
"""

from __future__ import annotations

import importlib.util

from torch import Tensor

from inweave.circuit.graph import place_of
from inweave.circuits.load import Model

PAIRS, STEPS = 16, 8  # of prompts; points of Gauss and Legendre, exact up to degree 15


def integrated_gradients(model: Model) -> tuple[list[float], list[bool]]:
    """For every head: how much is attributed to it, and whether it is one of the algorithm."""
    from captum.attr import LayerIntegratedGradients

    net = model.network.to_torch()
    net.cfg.use_attn_result = True
    clean, other = (net.prompt_of(**inputs)[:PAIRS] for inputs in model.pairs())

    def answer(H: Tensor) -> Tensor:
        found: Tensor = model.answers(net(H)).sum(-1)
        return found

    ends = {name for edge in model.circuit.genuine for name in (edge.source, edge.target)}
    known: dict[int, Tensor] = {}
    scores, true = list[float](), list[bool]()
    for node in model.circuit.nodes[1:-1]:
        layer, head = place_of(node.name)
        if head is None:
            continue
        if layer not in known:
            point = net.get_submodule(f"blocks.{layer}.attn.hook_result")
            attributed = LayerIntegratedGradients(answer, point).attribute
            known[layer] = attributed(clean, baselines=other, n_steps=STEPS).detach()
        scores.append(float(known[layer][:, :, head].sum((-2, -1)).abs().mean()))
        true.append(node.name in ends)
    return scores, true


def is_installed() -> bool:
    """Whether there is a Captum to run."""
    return importlib.util.find_spec("captum") is not None
