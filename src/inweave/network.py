"""Networks as plain immutable data: heads, layers, modules, and a layout to read them by.

Nothing here computes. A network says what is multiplied with what; `inweave.run` executes it (the
dense executor is the definition), `inweave.verify` checks it, `inweave.files` stores it. Shapes are
checked when a network is built, equal networks are equal, and `fingerprint` is the same in every
process.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from inweave.arithmetic import Floats
from inweave.constants import Array, content, real_array
from inweave.errors import BlockError, InputError, ShapeError
from inweave.layout import Layout
from inweave.layout import describe as describe_layout
from inweave.projection import AnyProjection
from inweave.prompt import Fill, Input, Output, Place, fill_prompt, lift, lower
from inweave.relunet import Function

if TYPE_CHECKING:
    from inweave.compiler.origin import Origin
    from inweave.export.torch import TorchNetwork
    from inweave.files import Record
    from inweave.run.dense import Trace
    from inweave.verify.certificate import Certificate


@dataclass(frozen=True)
class Head:
    """`Q Kᵀ V` of three projections: the paper's (H W3 + B3)(H W1 + B1)ᵀ(H W2 + B2)."""

    query: AnyProjection
    key: AnyProjection
    value: AnyProjection

    @property
    def projections(self) -> tuple[AnyProjection, AnyProjection, AnyProjection]:
        return self.query, self.key, self.value

    def check(self, layout: Layout, what: str) -> None:
        for name, projection in zip(("query", "key", "value"), self.projections, strict=True):
            projection.check(layout, f"{what}, {name}")

    def describe(self) -> dict[str, Any]:
        return {"query": self.query.describe(), "key": self.key.describe(),
                "value": self.value.describe()}  # fmt: skip


@dataclass(frozen=True)
class AttentionLayer:
    """A sum of heads; with `skip`, `H + sum`."""

    heads: tuple[Head, ...]
    skip: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "heads", tuple(self.heads))

    def check(self, layout: Layout, what: str) -> None:
        for k, head in enumerate(self.heads):
            head.check(layout, f"{what}, head {k}")

    def describe(self) -> dict[str, Any]:
        return {"attention": [head.describe() for head in self.heads], "skip": self.skip}


@dataclass(frozen=True, eq=False)
class PointwiseLayer:
    """The paper's network component, `Σ_k V_k ⊙ σ(W_k ⊙ H + B_k) + C_k`; with `skip`, `H + ...`.

    The arrays have the shape (units, tokens, width); σ is ReLU or the identity.
    """

    V: Array
    W: Array
    B: Array
    C: Array
    activation: str = "relu"
    skip: bool = False
    digest: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.activation not in ("relu", "identity"):
            raise InputError(f"activation {self.activation!r} is not 'relu' or 'identity'")
        digest = hashlib.sha256(f"{self.activation}{self.skip}".encode())
        shape = np.shape(self.V)
        for name in "VWBC":
            array = real_array(f"pointwise layer: {name}", getattr(self, name))
            if array.ndim != 3 or array.shape != shape:
                raise ShapeError(
                    f"pointwise layer: {name} has shape {array.shape}, expected (units, tokens, "
                    f"width) like V, which is {shape}"
                )
            object.__setattr__(self, name, array)
            digest.update(content(array))
        object.__setattr__(self, "digest", digest.hexdigest())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PointwiseLayer) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def touched(self, layout: Layout) -> tuple[str, ...]:
        """The blocks that this layer may change."""
        return layout.names

    def check(self, layout: Layout, what: str) -> None:
        if self.V.shape[1:] != (layout.tokens, layout.width):
            raise ShapeError(
                f"{what}: its arrays are for prompts of {self.V.shape[1:]}, "
                f"this prompt is {layout.tokens} x {layout.width}"
            )

    def describe(self) -> dict[str, Any]:
        return {"pointwise": self.digest, "activation": self.activation, "skip": self.skip}

    def __repr__(self) -> str:
        units, tokens, width = self.V.shape
        around = ", skip" if self.skip else ""
        return f"PointwiseLayer({units} {self.activation} units on {tokens} x {width}{around})"


@dataclass(frozen=True)
class BlockPointwiseLayer:
    """A pointwise layer held as what it is: a function at each of some places, identity elsewhere.

    `dense(layout)` writes it as the paper's network component; the identity takes two ReLU units.
    """

    applied: tuple[tuple[Place, Function], ...]
    skip: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "applied", tuple(self.applied))
        if self.skip:
            raise InputError("a block pointwise layer keeps other blocks itself: no skip, please")

    def check(self, layout: Layout, what: str) -> None:
        for place, _ in self.applied:
            place.check(layout, what)

    def touched(self, layout: Layout) -> tuple[str, ...]:
        return tuple(place.block for place, _ in self.applied)

    @property
    def units(self) -> int:
        """Hidden units of one entry, for the widest function."""
        return max((function.net.units for _, function in self.applied), default=0)

    def dense(self, layout: Layout) -> PointwiseLayer:
        """`V`, `W`, `B`, `C` of shape (units, tokens, width)."""
        shape = (max(self.units, 2), layout.tokens, layout.width)
        V, W, B, C = (np.zeros(shape) for _ in range(4))
        V[0], W[0], V[1], W[1] = 1.0, 1.0, -1.0, -1.0
        for place, function in self.applied:
            rows, cols = place.extent
            left = layout[place.block].start + place.col
            at = (slice(place.row, place.row + rows), slice(left, left + cols))
            net = function.net
            for array, numbers in ((V, net.outputs), (W, net.weights), (B, net.biases)):
                array[(slice(None), *at)] = 0.0
                for k, number in enumerate(numbers):
                    array[(k, *at)] = number
            C[(0, *at)] = net.constant
        return PointwiseLayer(V, W, B, C)

    def describe(self) -> dict[str, Any]:
        return {"functions": [[p.describe(), f.describe()] for p, f in self.applied]}


Layer = AttentionLayer | PointwiseLayer | BlockPointwiseLayer


@dataclass(frozen=True)
class Module:
    """Layers in sequence, optionally with one skip around them, repeated with tied weights.

    `carries` names what a repeated module updates: for each value that the loop carries, the places
    where it stands. Verification uses it to check one step instead of all of them.
    """

    body: tuple[Layer | Module, ...]
    repeat: int = 1
    skip: bool = False
    carries: tuple[tuple[Place, ...], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "body", tuple(self.body))
        if not isinstance(self.repeat, int) or isinstance(self.repeat, bool) or self.repeat < 0:
            raise InputError(f"repeat must be a non-negative int, got {self.repeat!r}")

    def check(self, layout: Layout, what: str) -> None:
        for i, part in enumerate(self.body):
            part.check(layout, f"{what}.{i}")
        for places in self.carries:
            for place in places:
                place.check(layout, f"{what}, carried value")

    def describe(self) -> dict[str, Any]:
        return {
            "module": [part.describe() for part in self.body],
            "repeat": self.repeat,
            "skip": self.skip,
            "carries": [[place.describe() for place in places] for places in self.carries],
        }


Part = Layer | Module


def layers_of(part: Part) -> Iterator[Layer]:
    """The layers of a part as stored: those of a repeated module once."""
    if isinstance(part, Module):
        for inner in part.body:
            yield from layers_of(inner)
    else:
        yield part


def executed(part: Part) -> int:
    """How many attention layers run when a part runs."""
    if isinstance(part, Module):
        return part.repeat * sum(executed(inner) for inner in part.body)
    return int(isinstance(part, AttentionLayer))


def _check_names(what: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise BlockError(f"{what} {name!r} is named twice; the {what}s are {', '.join(names)}")


@dataclass(frozen=True)
class Network:
    """A layout, modules, how inputs fill the prompt and where the answers are read."""

    layout: Layout
    modules: tuple[Module, ...]
    inputs: tuple[Input, ...] = ()
    fills: tuple[Fill, ...] = ()
    outputs: tuple[Output, ...] = ()
    origin: Origin | None = field(default=None, compare=False, repr=False)
    certificate: Certificate | None = field(default=None, compare=False, repr=False)
    record: Record | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("modules", "inputs", "fills", "outputs"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for i, module in enumerate(self.modules):
            module.check(self.layout, f"module {i}")
        _check_names("input", [spec.name for spec in self.inputs])
        for fill in self.fills:
            fill.check(self.layout, self.inputs)
        _check_names("output", [output.name for output in self.outputs])
        for output in self.outputs:
            output.place.check(self.layout, f"output {output.name!r}")

    # -- sizes ------------------------------------------------------------------------------------
    @property
    def tokens(self) -> int:
        return self.layout.tokens

    @property
    def width(self) -> int:
        return self.layout.width

    @cached_property
    def depth(self) -> int:
        """Attention layers executed."""
        return sum(executed(module) for module in self.modules)

    @cached_property
    def heads(self) -> int:
        """Heads stored; those of a tied module count once."""
        return sum(len(layer.heads) for layer in self.layers if isinstance(layer, AttentionLayer))

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers as stored, those of a tied module once."""
        return tuple(layer for module in self.modules for layer in layers_of(module))

    @cached_property
    def stored_numbers(self) -> int:
        """How many numbers it takes to write the weights down."""
        total = 0
        for layer in self.layers:
            if isinstance(layer, AttentionLayer):
                parts = [p for head in layer.heads for p in head.projections]
                total += sum(p.stored_numbers() for p in parts)
            elif isinstance(layer, PointwiseLayer):
                total += 4 * int(layer.V.size)
            else:
                total += sum(3 * f.net.units + 1 for _, f in layer.applied)
        return total

    @property
    def target(self) -> str:
        """'lsa' if no head has a bias, otherwise 'elsa'."""
        biased = any(
            projection.has_bias
            for layer in self.layers
            if isinstance(layer, AttentionLayer)
            for head in layer.heads
            for projection in head.projections
        )
        return "elsa" if biased else "lsa"

    # -- running ----------------------------------------------------------------------------------
    def prompt(self, **inputs: Any) -> Array:
        """The prompt H that holds these inputs."""
        lifted, arithmetic = lift(self.inputs, inputs)
        return fill_prompt(self.layout, self.fills, lifted, arithmetic)

    def forward(self, H: Array) -> Array:
        """The state after the last module."""
        from inweave.run import forward

        return forward(self, H)

    def readout(self, H: Array) -> Any:
        """The answers that stand in a state: one value, or a dict of named ones."""
        self.layout.check(H)
        found = {o.name: lower(o.place.read(self.layout, H), o.kind) for o in self.outputs}
        return found[""] if list(found) == [""] else found

    def __call__(self, *, check: bool = True, **inputs: Any) -> Any:
        """The program's answer, computed by attention alone.

        With `check`, a pointwise function that leaves its domain raises DomainError, and an
        iteration that blows up DivergenceError; without it the network does what it does. Inside
        jax.jit, jax.grad or jax.vmap nothing can be raised: there an answer is NaN where a domain
        was left, and divergence is not looked for.
        """
        from inweave.run import call

        return call(self, inputs, check)

    def trace(self, **inputs: Any) -> Trace:
        """Every state and every head's query, key, value and output, by name."""
        from inweave.run.dense import trace

        lifted, arithmetic = lift(self.inputs, inputs)
        H = fill_prompt(self.layout, self.fills, lifted, arithmetic)
        return trace(self, H, Floats.like(H))

    def explore(
        self, path: str | os.PathLike[str], *, compare: Network | None = None, **inputs: Any
    ) -> None:
        """Write a page that shows this network, or two side by side, running on these inputs.

        Without inputs, random ones are drawn; `H` instead of them is the prompt itself.
        """
        from inweave.explore import write

        write(path, self if compare is None else [self, compare], inputs)

    # -- proof ------------------------------------------------------------------------------------
    def verify(self, trials: int = 2, seed: int | None = None) -> Certificate:
        """Check this network against the program it was compiled from, exactly."""
        from inweave.verify.check import verify

        if self.origin is None and self.record is not None:
            raise InputError(
                "this network was read from a file, which holds the text of its program "
                f"{self.record.program!r} but runs nothing; use inweave.verify(program, network), "
                "with the program's static arguments by name"
            )
        if self.origin is None:
            raise InputError(
                "this network was not compiled from a program; use inweave.verify(program, network)"
            )
        found = verify(self.origin.program, self, trials=trials, seed=seed)
        object.__setattr__(self, "certificate", found)  # what is known of it, not what it is
        return found

    @cached_property
    def _degree(self) -> tuple[int, bool]:
        from inweave.verify.degree import network_degree

        return network_degree(self)

    @property
    def degree(self) -> int:
        """The degree of the answers as polynomials in the inputs.

        Where large terms cancel and exactness is too expensive, an upper bound: `print` says so.
        """
        return self._degree[0]

    @property
    def depth_lower_bound(self) -> int:
        """⌈log₃ degree⌉: no exact network of attention layers is shallower.

        Where only an upper bound of the degree is known, it follows from a degree that is reached.
        """
        from inweave.verify.degree import least_degree, lower_bound

        degree, exact = self._degree
        if not exact:
            assert self.origin is not None
            degree = least_degree(self.origin.traced)
        return lower_bound(degree)

    # -- other places -----------------------------------------------------------------------------
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a `.inweave` file, which `inweave.load` reads; see `inweave.files`."""
        from inweave.files import save

        save(self, path)

    def to_torch(self, trainable: bool = False, dtype: Any = None) -> TorchNetwork:
        """A torch module with named activation taps, in float64 unless told."""
        from inweave.export.torch import to_torch

        return to_torch(self, trainable, dtype)

    def to_onnx(self, path: str | os.PathLike[str], dtype: str = "float32") -> None:
        """Write an ONNX model of named inputs and answers, with a dynamic batch axis."""
        from inweave.export.onnx import to_onnx

        to_onnx(self, path, dtype)

    def to_jax(self, dtype: str | None = None) -> tuple[Any, dict[str, Any]]:
        """A pure function and its parameters: `apply(params, **inputs)` or `apply(params, H)`."""
        from inweave.export.jax import to_jax

        return to_jax(self, dtype)

    # -- identity ---------------------------------------------------------------------------------
    def describe(self) -> dict[str, Any]:
        """A JSON-able description of all that makes this network what it is."""
        return {
            "layout": describe_layout(self.layout),
            "modules": [module.describe() for module in self.modules],
            "inputs": [spec.describe() for spec in self.inputs],
            "fills": [fill.describe() for fill in self.fills],
            "outputs": [output.describe() for output in self.outputs],
        }

    @cached_property
    def fingerprint(self) -> str:
        """A content hash, the same for equal networks in every process."""
        text = json.dumps(self.describe(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def __hash__(self) -> int:
        return int(self.fingerprint[:15], 16)

    def resize(self, **sizes: int) -> Network:
        """The same weights at another size that they do not depend on."""
        from inweave.compiler.resize import resize

        if self.origin is None and self.record is not None:
            raise InputError(
                "this network was read from a file, which holds the text of its program "
                f"{self.record.program!r} but runs nothing; compile that program at "
                f"{', '.join(f'{name}={size}' for name, size in sizes.items())}"
            )
        return resize(self, sizes)

    def __str__(self) -> str:
        from inweave.show import describe

        return describe(self)

    def __repr__(self) -> str:
        return (
            f"Network({self.target}: {self.depth} attention layers, {self.heads} heads, "
            f"{self.tokens} tokens x {self.width} columns)"
        )
