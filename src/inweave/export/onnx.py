"""Networks as ONNX models, built directly so that every value has a name a person would give it.

A model takes the network's inputs by name, each with a leading `batch` axis, and returns the
answers; a network without inputs takes the prompt `H` and returns the final `state`. Values are
named after where they are, such as `module 0/layer 1/head 0/q`; a repeated module is one `Loop`,
with its weights stored once.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from inweave.atomic import write
from inweave.errors import InputError
from inweave.model.cost import check_numbers, written
from inweave.model.embedding import Embedding
from inweave.model.layers import PARTS, AttentionLayer, Layer, PointwiseLayer
from inweave.model.modules import Executor, Module
from inweave.model.network import Network
from inweave.model.prompt import Fill, Input, Output, Place, rooted
from inweave.model.written import (
    fixed_prompt,
    function_weights,
    is_fixed,
    pointwise_weights,
    standing,
)

OPSET, IR = 18, 10  # old enough for every onnxruntime of the last years
KINDS = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE}


def to_onnx(network: Network, path: str | os.PathLike[str], dtype: str = "float32") -> None:
    """Write a network as an ONNX model, whole or not at all."""
    made = model(network, dtype)
    write(path, made.SerializeToString())


def model(network: Network, dtype: str = "float32") -> Any:
    """The ONNX model of a network."""
    if dtype not in KINDS:
        raise InputError(f"dtype {dtype!r} is not one of {', '.join(KINDS)}")
    check_numbers("an ONNX model", written(network))
    graph, opset = _Graph(network, dtype).build(), helper.make_opsetid("", OPSET)
    made = helper.make_model(graph, opset_imports=[opset], ir_version=IR, producer_name="inweave")
    helper.set_model_props(made, {"inweave.fingerprint": network.fingerprint})
    onnx.checker.check_model(made)
    return made


class _Graph(Executor[str]):
    """Collects nodes; methods return the name of the value they make. A state is a name."""

    between = "/"

    def __init__(self, network: Network, dtype: str) -> None:
        self.network, self.layout = network, network.layout
        self.dtype, self.kind = np.dtype(dtype), KINDS[dtype]
        self.nodes: list[Any] = []
        self.stored: dict[str, Any] = {}
        self.answers_in = "final state"

    def build(self) -> Any:
        tokens, width = self.network.tokens, self.network.width
        if self.network.inputs:
            specs = self.network.inputs
            inputs = [self.declared(spec.name, spec.shape) for spec in specs]
            embedding = self.network.embedding
            state = self.final(self.embedded(self.prompt(specs), embedding, "prompt"))
            if embedding is not None:
                state = self.embedded(state, embedding.inverse, "final state")
            self.answers_in = state
            outputs = [self.answer(output) for output in self.network.outputs]
        else:
            inputs = [self.declared("H", (tokens, width))]
            self.node("Identity", [self.final("H")], "state")
            outputs = [self.declared("state", (tokens, width))]
        stored = list(self.stored.values())
        return helper.make_graph(self.nodes, "inweave", inputs, outputs, stored)

    # -- small pieces ------------------------------------------------------------------------------
    def declared(self, name: str, shape: Sequence[int]) -> Any:
        return helper.make_tensor_value_info(name, self.kind, ["batch", *shape])

    def node(self, op: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def store(self, name: str, array: Any, dtype: Any = None) -> str:
        if name not in self.stored:
            array = np.array(array, dtype=dtype or self.dtype, order="C")
            self.stored[name] = numpy_helper.from_array(array, name)
        return name

    def integers(self, name: str, *values: int) -> str:
        return self.store(name, values, np.int64)

    def sliced(self, value: str, name: str, rows: slice, cols: slice) -> str:
        start = self.integers(f"{name}/start", rows.start, cols.start)
        stop = self.integers(f"{name}/stop", rows.stop, cols.stop)
        return self.node(
            "Slice", [value, start, stop, self.integers("last two axes", -2, -1)], name
        )

    def padded(self, value: str, name: str, rows: slice, cols: slice) -> str:
        below, right = self.network.tokens - rows.stop, self.network.width - cols.stop
        pads = self.integers(f"{name}/pads", 0, rows.start, cols.start, 0, below, right)
        return self.node("Pad", [value, pads], name)

    # -- inputs and answers ------------------------------------------------------------------------
    def prompt(self, specs: Sequence[Input]) -> str:
        """The prompt (batch, tokens, width) of the inputs."""
        lifted, roots = {}, rooted(self.network.fills)
        for spec in specs:
            axes = {"scalar": (1, 2), "vector": (2,), "matrix": ()}[spec.kind]
            lifted[spec.name] = spec.name
            if axes:
                where = self.integers(f"axes of a {spec.kind}", *axes)
                name = f"{spec.name} as a matrix"
                lifted[spec.name] = self.node("Unsqueeze", [spec.name, where], name)
        squares = {
            name: self.node("Sqrt", [lifted[name]], f"square root of {name}") for name in roots
        }
        H = self.store("prompt/fixed", fixed_prompt(self.network)[None])
        if all(map(is_fixed, self.network.fills)):
            batch = self.node("Shape", [specs[0].name], "batch size", start=0, end=1)
            sizes = self.integers("prompt/sizes", self.network.tokens, self.network.width)
            shape = self.node("Concat", [batch, sizes], "prompt/shape", axis=0)
            H = self.node("Expand", [H, shape], "prompt/for every problem")
        for i, fill in enumerate(self.network.fills):
            if not is_fixed(fill):
                name = f"prompt/fill {i} of {fill.place.block}"
                value = self.filled(fill, name, lifted, squares)
                rows, cols = fill.place.region(self.layout)
                whole = self.padded(value, f"{name}/in place", rows, cols)
                H = self.node("Add", [H, whole], f"prompt/after fill {i}")
        return H

    def embedded(self, H: str, embedding: Embedding | None, name: str) -> str:
        """A state in another basis."""
        if embedding is None:
            return H
        tokens, columns = embedding.floats
        if tokens is not None:
            P = self.store(f"{name}/tokens", tokens)
            H = self.node("MatMul", [P, H], f"{name}/tokens mixed")
        if columns is not None:
            M = self.store(f"{name}/columns", columns)
            H = self.node("MatMul", [H, M], f"{name}/columns mixed")
        return H

    def filled(self, fill: Fill, name: str, lifted: dict[str, str], roots: dict[str, str]) -> str:
        if fill.constant is not None:
            value = self.store(f"{name}/constant", standing(fill)[None])
        else:
            value = lifted[str(fill.source)]
            if fill.place.diagonal:
                eye = self.store(f"I{fill.place.diagonal}", np.eye(fill.place.diagonal))
                value = self.node("Mul", [value, eye], f"{name}/diagonal")
            if fill.place.transpose:
                value = self.node("Transpose", [value], f"{name}/transposed", perm=[0, 2, 1])
            if fill.coefficient != 1:
                factor = self.store(f"{name}/coefficient", float(fill.coefficient))
                value = self.node("Mul", [value, factor], f"{name}/times coefficient")
        for k, (scalar, power) in enumerate(fill.scale):
            factor = lifted[scalar] if power == 1 else roots[scalar]
            value = self.node("Mul", [value, factor], f"{name}/scaled {k}")
        return value

    def answer(self, output: Output) -> Any:
        place = output.place
        name = output.name or "answer"
        if name in {spec.name for spec in self.network.inputs}:
            name = f"{name} out"
        rows, cols = place.source(self.layout)
        value = self.sliced(self.answers_in, f"answer {name}/read", rows, cols)
        if place.transpose:
            value = self.node("Transpose", [value], f"answer {name}/transposed", perm=[0, 2, 1])
        size = (1, 1) if place.diagonal else (place.rows, place.cols)
        axes, shape = {
            "scalar": ((1, 2), ()), "vector": ((2,), size[:1]), "matrix": ((), size),
        }[output.kind]  # fmt: skip
        if axes:
            self.node("Squeeze", [value, self.integers(f"axes of a {output.kind}", *axes)], name)
        else:
            self.node("Identity", [value], name)
        return self.declared(name, shape)

    # -- layers ------------------------------------------------------------------------------------
    def final(self, H: str) -> str:
        return self.node("Identity", [self.run(self.network.modules, H)], "final state")

    def repeat(self, module: Module, state: str, name: str) -> str:
        if module.repeat == 1:
            return self.step(module, state, name)
        outside, self.nodes = self.nodes, []
        entered = f"{name}/state"
        after = self.node("Identity", [self.step(module, entered, name)], f"{name}/next state")
        goes = f"{name}/going", f"{name}/still going"
        self.node("Identity", goes[:1], goes[1])
        number = helper.make_tensor_value_info(f"{name}/step number", TensorProto.INT64, [])
        flag, still = (helper.make_tensor_value_info(x, TensorProto.BOOL, []) for x in goes)
        shape = (self.network.tokens, self.network.width)
        given = [number, flag, self.declared(entered, shape)]
        made = [still, self.declared(after, shape)]
        inner = helper.make_graph(self.nodes, f"{name}/step", given, made)
        self.nodes = outside
        steps = self.store(f"{name}/steps", module.repeat, np.int64)
        always = self.store("always", True, np.bool_)
        return self.node("Loop", [steps, always, state], f"{name}/after", body=inner)

    def plus(self, before: str, after: str, name: str) -> str:
        return self.node("Add", [before, after], f"{name}/skip")

    def layer(self, layer: Layer, state: str, name: str) -> str:
        if isinstance(layer, AttentionLayer):
            out = self.attention(layer, state, name)
        elif isinstance(layer, PointwiseLayer):
            out = self.pointwise(layer, state, name)
        else:
            out = state
            for k, (place, function) in enumerate(layer.applied):
                out = self.function(place, function_weights(function), state, out, f"{name}/f {k}")
        return self.plus(state, out, name) if layer.skip else out

    def attention(self, layer: AttentionLayer, H: str, name: str) -> str:
        heads = []
        for k, head in enumerate(layer.heads):
            at = f"{name}/head {k}"
            q, k_, v = (self.project(getattr(head, p), H, f"{at}/{p[0]}") for p in PARTS)
            turned = self.node("Transpose", [k_], f"{at}/k transposed", perm=[0, 2, 1])
            kv = self.node("MatMul", [turned, v], f"{at}/kv")
            heads.append(self.node("MatMul", [q, kv], f"{at}/z"))
        if not heads:
            return self.node("Sub", [H, H], f"{name}/out")
        return self.node("Sum", heads, f"{name}/out")

    def project(self, projection: Any, H: str, name: str) -> str:
        W = self.store(f"{name}/W", projection.weight(self.layout))
        out = self.node("MatMul", [H, W], f"{name}/H W" if projection.has_bias else name)
        if not projection.has_bias:
            return out
        return self.node("Add", [out, self.store(f"{name}/B", projection.bias(self.layout))], name)

    def pointwise(self, layer: PointwiseLayer, H: str, name: str) -> str:
        stored = {n: self.store(f"{name}/{n}", a) for n, a in pointwise_weights(layer).items()}
        units = self.node("Unsqueeze", [H, self.integers("axis of units", 1)], f"{name}/units")
        inner = self.node("Mul", [units, stored["W"]], f"{name}/W H")
        inner = self.node("Add", [inner, stored["B"]], f"{name}/pre")
        if layer.activation == "relu":
            inner = self.node("Relu", [inner], f"{name}/post")
        outer = self.node("Mul", [inner, stored["V"]], f"{name}/V post")
        outer = self.node("Add", [outer, stored["C"]], f"{name}/terms")
        axis = self.integers("axis of units", 1)
        return self.node("ReduceSum", [outer, axis], f"{name}/out", keepdims=0)

    def function(self, place: Place, net: Any, H: str, out: str, name: str) -> str:
        """`out` with `V @ relu(W x + B) + C` of the entries of H that stand at a place."""
        rows, cols = place.region(self.layout)
        stored = {letter: self.store(f"{name}/{letter}", array) for letter, array in net.items()}
        x = self.sliced(H, f"{name}/x", rows, cols)
        x = self.node("Unsqueeze", [x, self.integers("axis of entries", -1)], f"{name}/entries")
        inner = self.node("Mul", [x, stored["W"]], f"{name}/W x")
        inner = self.node("Add", [inner, stored["B"]], f"{name}/pre")
        inner = self.node("Relu", [inner], f"{name}/post")
        outer = self.node("MatMul", [inner, stored["V"]], f"{name}/V post")
        outer = self.node("Add", [outer, stored["C"]], f"{name}/y")
        here = np.zeros((self.network.tokens, self.network.width), dtype=np.bool_)
        here[rows, cols] = True
        mask = self.store(f"{name}/here", here, np.bool_)
        there = self.padded(outer, f"{name}/in place", rows, cols)
        return self.node("Where", [mask, there, out], f"{name}/out")
