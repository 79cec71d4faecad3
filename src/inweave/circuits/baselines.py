"""What simple methods find, written by hand in torch: numbers to compare other methods with.

Attribution patching scores an edge by the change of what its source writes, times the gradient of
the answer at what its target reads: two forward passes and a backward one for all edges together.
Path patching puts the change on each edge in turn and runs the network again: as many passes as
there are edges. Probes look for variables: a linear map from each row of the state to the rows of
the variable, fitted on half of the prompts and scored on the others.

Edges are ranked against the functional and the genuine ones of the circuit, among all that a method
has to choose from; variables among all layers after which they might stand. How good a ranking is,
is the area under its ROC curve, of each model by itself; of genuine edges also the precision at as
many edges as there are. Captum, a public tool, ranks heads (see `public`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from inweave.circuit.graph import INPUT, LOGITS, Edge
from inweave.circuits.forward import Run, Torch
from inweave.circuits.load import Model
from inweave.circuits.public import integrated_gradients, is_installed

PAIRS, FEWER = 16, 2  # of prompts, for edges all together and for one by one
BATCH = 2**16  # numbers of the states that are patched at once
RIDGE = 1e-6  # of a probe, relative to the features' mean square
Scores = dict[str, float]
Measures = dict[str, float | None]


# -- edges -----------------------------------------------------------------------------------------
def attribution(model: Model, seed: int = 0) -> Scores:
    """Attribution patching: `|change · gradient|`, the mean over pairs of prompts.

    The answer is one number: its entries with random signs, added up.
    """
    net, edges = Torch(model), model.circuit.possible()
    clean, other = (net.prompt(inputs, PAIRS) for inputs in model.pairs())
    there = net.run(other).wrote | {INPUT: other}
    run = net.run(clean, tapped=True)
    generator = torch.Generator().manual_seed(seed)
    answers = net.answers(run.final)
    signs = torch.randint(0, 2, answers.shape[-1:], generator=generator).double() * 2 - 1
    final = run.final.detach().requires_grad_()
    torch.autograd.backward((net.answers(final) * signs).sum())
    if run.final.requires_grad:
        torch.autograd.backward(run.final, final.grad)
    changes = {name: there[name] - x.detach() for name, x in run.wrote.items()}
    changes[INPUT] = other - clean
    gradients = {(LOGITS, ""): final.grad}
    for layer, read, done in zip(net.layers, run.reads, net.way.layers, strict=True):
        for k, name in enumerate(done.nodes):
            for i, letter in enumerate(layer.letters or [""]):
                gradients[name, letter] = None if read.grad is None else read.grad[k, i]
    return {e.name: _size(changes[e.source], gradients[e.target, e.letter]) for e in edges}


def _size(change: Tensor, gradient: Tensor | None) -> float:
    if gradient is None:
        return 0.0
    return float((change * gradient).sum((-2, -1)).abs().mean())


def path_patching(model: Model) -> Scores:
    """Path patching: how far the answer moves, the mean over pairs of prompts."""
    net, edges = Torch(model), model.circuit.possible()
    with torch.no_grad():
        clean, other = (net.prompt(inputs, FEWER) for inputs in model.pairs())
        run, there = net.run(clean), net.run(other)
        changes = {name: there.wrote[name] - x for name, x in run.wrote.items()}
        changes[INPUT] = other - clean
        found: Scores = {}
        for at in range(len(net.layers)):
            some = [e for e in edges if e.target in net.way.layers[at].nodes]
            found |= _patched_into(net, at, some, run, changes)
        answers = net.answers(run.final)
        for edge in (e for e in edges if e.target == LOGITS):
            moved = net.answers(run.final + net.way.final[edge.source] * changes[edge.source])
            found[edge.name] = float((moved - answers).abs().mean())
    return found


def _patched_into(
    net: Torch, at: int, edges: list[Edge], clean: Run, changes: dict[str, Tensor]
) -> Scores:
    """The scores of edges into one layer."""
    done, read = net.way.layers[at], clean.reads[at][0, 0]
    answers, position = net.answers(clean.final), net.way.order.index(at)
    opened, after = _open_at(net, position, clean), clean.states[at]
    found: Scores = {}
    many = max(1, BATCH // read.numel())
    for k, name in enumerate(done.nodes):
        node, into = net.layers[at].only(k), [edge for edge in edges if edge.target == name]
        for first in range(0, len(into), many):
            some = into[first : first + many]
            ways = max(1, len(node.letters))
            reads = read.expand(1, ways, len(some), *read.shape).clone()
            for i, edge in enumerate(some):
                way = max(0, node.letters.find(edge.letter))
                reads[0, way, i] += done.stream[edge.source] * changes[edge.source]
            wrote = node(reads.flatten(2, 3))[0].reshape(len(some), *read.shape)
            states = (after + wrote - clean.wrote[name]).flatten(0, 1)
            held = tuple(x.expand(len(some), *x.shape).flatten(0, 1) for x in opened)
            final = net.onward(position + 1, states, held).final
            moved = net.answers(final).reshape(len(some), *answers.shape) - answers
            sizes = moved.abs().mean((1, 2)).tolist()
            found |= dict(zip((edge.name for edge in some), sizes, strict=True))
    return found


def _open_at(net: Torch, position: int, clean: Run) -> tuple[Tensor, ...]:
    """The states of skips around layers that are open at a place of the order."""
    opened: list[int] = []
    for i, step in enumerate(net.way.order[:position]):
        if step == "open":
            opened.append(i)
        elif step == "close":
            opened.pop()
    following = [next(s for s in net.way.order[i:] if isinstance(s, int)) for i in opened]
    return tuple(clean.reads[k][0, 0] for k in following)


# -- variables -------------------------------------------------------------------------------------
def probes(model: Model) -> tuple[list[float], list[bool]]:
    """For every variable and every layer: how well a linear probe reads it (R² on prompts that it
    was not fitted on), and whether it stands there."""
    net = Torch(model)
    layout = model.network.layout
    with torch.no_grad():
        H = net.prompt(model.prompts)
        states = [H, *net.run(H).states]
        plain = [np.asarray(model.network.in_blocks(state)) for state in states]
    scores, stands = list[float](), list[bool]()
    for variable in model.circuit.variables:
        block = layout[variable.block]
        at = 0 if variable.layer is None else variable.layer + 1
        value = plain[at][:, : block.rows, block.columns]
        if not np.ptp(value, 0).any():
            continue  # a constant: nothing to read
        for state, blocks in zip(states, plain, strict=True):
            here = blocks[:, : block.rows, block.columns]
            scores.append(explained(state.numpy()[:, : block.rows], value))
            stands.append(bool(np.allclose(here, value, rtol=1e-9, atol=1e-12)))
    return scores, stands


def explained(features: np.ndarray[Any, Any], value: np.ndarray[Any, Any]) -> float:
    """R² of a ridge from rows of features to rows of a value, on the second half of the prompts."""
    half = len(features) // 2
    X = np.concatenate([features, np.ones((*features.shape[:2], 1))], -1)
    train, test = (x.reshape(-1, X.shape[-1]) for x in (X[:half], X[half:]))
    y, truth = (v.reshape(-1, value.shape[-1]) for v in (value[:half], value[half:]))
    scale = np.sqrt((train**2).mean(0)) + 1e-300
    A = train / scale
    gram = A.T @ A / len(A)
    weights = np.linalg.solve(gram + RIDGE * np.eye(len(gram)), A.T @ y / len(A))
    rest = ((test / scale) @ weights - truth) ** 2
    spread = (truth - y.mean(0)) ** 2
    return float(1 - rest.sum() / spread.sum()) if spread.sum() else 0.0


# -- how good that is ------------------------------------------------------------------------------
def auroc(scores: Any, labels: Any) -> float | None:
    """The chance that a true one has a higher score than a false one; None if one kind is missing.

    >>> auroc([0.1, 0.4, 0.35, 0.8], [False, False, True, True])
    0.75
    """
    scores, labels = np.asarray(scores, float), np.asarray(labels, bool)
    true, false = scores[labels], np.sort(scores[~labels])
    if not len(true) or not len(false):
        return None
    below, up_to = np.searchsorted(false, true, "left"), np.searchsorted(false, true, "right")
    return float((below + up_to).mean() / (2 * len(false)))


def precision(scores: Any, labels: Any) -> float | None:
    """The share of true ones among as many of the highest scores as there are true ones."""
    labels = np.asarray(labels, bool)
    many = int(labels.sum())
    order = np.argsort(-np.asarray(scores, float), kind="stable")
    return float(labels[order[:many]].mean()) if many else None


def of_edges(method: Callable[[Model], Scores]) -> Callable[[Model], Measures]:
    """How well a method tells functional edges, and genuine ones, from all others."""

    def measures(model: Model) -> Measures:
        found, edges = method(model), model.circuit.possible()
        scores = [found[edge.name] for edge in edges]
        names = {edge.name for edge in model.circuit.genuine}
        genuine = [edge.name in names for edge in edges]
        return {
            "functional edges": auroc(scores, [bool(edge.functional) for edge in edges]),
            "genuine edges": auroc(scores, genuine),
            "genuine edges, precision": precision(scores, genuine),
        }

    return measures


def of_heads(model: Model) -> Measures:
    """How well Captum tells the heads of the algorithm from all others."""
    found = integrated_gradients(model)
    return {"heads": auroc(*found), "heads, precision": precision(*found)}


def methods() -> dict[str, Callable[[Model], Measures]]:
    """Every method, those of public tools where they are installed."""
    found: dict[str, Callable[[Model], Measures]] = {
        "attribution patching": of_edges(attribution),
        "path patching": of_edges(path_patching),
        "linear probes": lambda model: {"variables": auroc(*probes(model))},
    }
    return found | ({"integrated gradients (Captum)": of_heads} if is_installed() else {})
