"""The definition: every layer computed exactly as the paper writes it, with full matrices.

`(H W3 + B3)(H W1 + B1)ᵀ(H W2 + B2)` for each head, heads summed, skips added, modules repeated.
Slow on purpose and in any arithmetic; every faster executor is tested against this one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from inweave.errors import BlockError
from inweave.exact.arithmetic import Arithmetic, Floats
from inweave.exact.constants import Array
from inweave.model.cost import check_layers, check_numbers, traced, written
from inweave.model.layers import AttentionLayer, BlockPointwiseLayer, Head, Layer, PointwiseLayer
from inweave.model.layout import Layout
from inweave.model.modules import Executor, Module
from inweave.model.network import Network
from inweave.model.projection import AnyProjection


@dataclass(frozen=True)
class HeadTrace:
    """What one head did: `output = query @ key.mT @ value`."""

    query: Array
    key: Array
    value: Array
    output: Array


@dataclass(frozen=True)
class Step:
    """One executed layer: its name, the state before and after, and its heads."""

    name: str
    layer: Layer
    before: Array
    output: Array
    after: Array
    heads: tuple[HeadTrace, ...] = ()


@dataclass(frozen=True)
class Trace:
    """Everything that happened in one forward pass.

    `states` maps 'input', then each executed part such as 'module 0, step 2, layer 1' or
    'module 0, step 2' to the state after it; `steps` are the executed layers in order.
    """

    layout: Layout
    steps: tuple[Step, ...]
    states: dict[str, Array] = field(repr=False)
    network: Network | None = field(default=None, repr=False)

    @property
    def final(self) -> Array:
        return next(reversed(self.states.values()))

    def __getitem__(self, name: str) -> Step:
        for step in self.steps:
            if step.name == name:
                return step
        raise BlockError(f"no layer {name!r} in this trace; layers are "
                         f"{', '.join(step.name for step in self.steps)}")  # fmt: skip

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def block(self, name: str) -> list[Array]:
        """One block in every state, from the input to the end."""
        states = self.states.values()
        plain = states if self.network is None else map(self.network.in_blocks, states)
        return [self.layout.unpack(H)[name] for H in plain]


Record = Callable[[str, Array, Step | None], None]


class DenseExecutor(Executor[Array]):
    """Executes the parts of one network, writing each projection's `W` and `B` out once.

    `record` is called with every state by name, and with the Step of the layer that made it; None
    where a step of a module ends.
    """

    def __init__(
        self, layout: Layout, arithmetic: Arithmetic, record: Record | None = None
    ) -> None:
        self.layout, self.arithmetic = layout, arithmetic
        self.record = record or (lambda *_: None)
        self._written: dict[AnyProjection, tuple[Array, Array]] = {}

    def project(self, projection: AnyProjection, H: Array) -> Array:
        """`H W + B`."""
        if projection not in self._written:
            W = projection.weight(self.layout, self.arithmetic)
            self._written[projection] = W, projection.bias(self.layout, self.arithmetic)
        W, B = self._written[projection]
        return H @ W + B

    def head(self, head: Head, H: Array) -> HeadTrace:
        q, k, v = (self.project(p, H) for p in head.projections)
        return HeadTrace(q, k, v, q @ k.mT @ v)

    def layer(self, layer: Layer, state: Array, name: str) -> Array:
        done = self.done(layer, state, name)
        self.record(name, done.after, done)
        return done.after

    def step(self, module: Module, state: Array, name: str) -> Array:
        after = super().step(module, state, name)
        self.record(name, after, None)
        return after

    def done(self, layer: Layer, H: Array, name: str) -> Step:
        """What a layer does to a state."""
        heads: tuple[HeadTrace, ...] = ()
        if isinstance(layer, AttentionLayer):
            heads = tuple(self.head(head, H) for head in layer.heads)
            output = sum((h.output for h in heads[1:]), heads[0].output) if heads else H - H
        elif isinstance(layer, PointwiseLayer):
            output = pointwise(layer, H, self.arithmetic)
        else:
            output = applied(layer, H, self.layout, self.arithmetic)
        return Step(name, layer, H, output, H + output if layer.skip else output, heads)


def pointwise(layer: PointwiseLayer, H: Array, arithmetic: Arithmetic) -> Array:
    """`Σ_k V_k ⊙ σ(W_k ⊙ H + B_k) + C_k`."""
    total = None
    for V, W, B, C in zip(layer.V, layer.W, layer.B, layer.C, strict=True):
        V, W, B, C = (arithmetic.array(x) for x in (V, W, B, C))
        inner = W * H + B
        if layer.activation == "relu":
            inner = arithmetic.relu(inner)
        term = V * inner + C
        total = term if total is None else total + term
    return H - H if total is None else total


def applied(layer: BlockPointwiseLayer, H: Array, layout: Layout, arithmetic: Arithmetic) -> Array:
    """A function at each place, the identity elsewhere.

    Floats and rationals go through the component `Σ V ⊙ σ(W ⊙ H + B) + C`; any other arithmetic has
    no order and hence no ReLU, and is asked for its own stand-in of each function.
    """
    if arithmetic.ordered:
        return pointwise(layer.dense(layout), H, arithmetic)
    for place, function in layer.applied:
        rows, cols = place.region(layout)
        part = arithmetic.pointwise(function, H[..., rows, cols])
        middle = [H[..., : rows.start, cols], part, H[..., rows.stop :, cols]]
        column = arithmetic.concat([x for x in middle if x.shape[-2]], -2)
        parts = [H[..., : cols.start], column, H[..., cols.stop :]]
        H = arithmetic.concat([x for x in parts if x.shape[-1]], -1)
    return H


def _ready(network: Network, H: Array, arithmetic: Arithmetic | None) -> tuple[Array, Arithmetic]:
    """A checked prompt, in floating point unless another arithmetic is given."""
    network.layout.check(H)
    if arithmetic is not None:
        return H, arithmetic
    floats = Floats.like(H)
    return (H if H.dtype == floats.dtype else floats.xp.astype(H, floats.dtype)), floats


def forward(network: Network, H: Array, arithmetic: Arithmetic | None = None) -> Array:
    """The state after the last module, computed densely."""
    H, arithmetic = _ready(network, H, arithmetic)
    return DenseExecutor(network.layout, arithmetic).run(network.modules, H)


def trace(network: Network, H: Array, arithmetic: Arithmetic | None = None) -> Trace:
    """A forward pass that keeps everything."""
    check_layers(network, "a trace")
    H, arithmetic = _ready(network, H, arithmetic)
    kept = math.prod(H.shape) * sum(map(traced, network.modules))
    check_numbers("a trace", kept + written(network))
    steps: list[Step] = []
    states: dict[str, Array] = {"input": H}

    def record(name: str, state: Array, step: Step | None) -> None:
        states[name] = state
        if step is not None:
            steps.append(step)

    DenseExecutor(network.layout, arithmetic, record).run(network.modules, H)
    return Trace(network.layout, tuple(steps), states, network)
