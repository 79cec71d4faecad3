"""One network and its recording, written down for the page.

A head's weights travel as its pieces: which block, which coefficient, which matrix. Identities and
matrices of ones are named, others are stored once, as far as the budget for weights goes. With the
inputs and how they fill the prompt, that is all it takes to run the network again, so the page does
when its reader changes something. What is beyond the budget is null, and such a page only replays.
"""

from __future__ import annotations

import base64
import math
from dataclasses import asdict
from typing import Any

import numpy as np

from inweave.decompiler import lines
from inweave.errors import DecompileError
from inweave.exact.constants import Constant, Ones, Shift
from inweave.explore.curves import curves
from inweave.explore.prompts import Filled
from inweave.explore.record import Recording
from inweave.explore.references import Answer
from inweave.explore.report import proof, report
from inweave.explore.shown import Shown
from inweave.model.layers import PARTS, AttentionLayer, Head, Layer, PointwiseLayer
from inweave.model.modules import Module, Part
from inweave.model.network import Network
from inweave.model.projection import AnyProjection, Projection
from inweave.model.prompt import Fill, Input, Output, Place
from inweave.model.relunet import Function, interval
from inweave.run.domains import limits
from inweave.text.network import Words, pretty

SECONDS = 5.0  # for the proof that the lines are the network's


def array(values: Any, dtype: str) -> dict[str, Any]:
    """A typed array for the page."""
    kinds = {"float64": "<f8", "float32": "<f4", "int32": "<i4"}
    data = np.ascontiguousarray(values, dtype=kinds[dtype])
    return {"dtype": dtype, "shape": list(data.shape),
            "data": base64.b64encode(data.tobytes()).decode()}  # fmt: skip


class Packer:
    """Writes one network and its recording down for the page."""

    def __init__(self, name: str, shown: Shown, kept: Recording, short: bool, weights: int) -> None:
        self.name, self.shown, self.kept, self.weights = name, shown, kept, weights
        self.network = network = shown.network.plain
        single = kept.first.dtype == np.float32
        largest = max((float(np.abs(v).max()) for v in [kept.first, *kept.values] if v.size),
                      default=0.0)  # fmt: skip
        self.rounded = short and not single and not largest > 1e38
        self.dtype = "float32" if single or self.rounded else "float64"
        self.words = Words(network)
        self.layers: list[dict[str, Any]] = []
        self.dense: dict[Any, int] = {}
        self.arrays: list[dict[str, Any]] = []
        self.spent = 0

    def pack(self, answer: Answer | None, filled: Filled) -> dict[str, Any]:
        net, kept = self.network, self.kept
        values = [v.ravel() for v in kept.values]
        flat = np.concatenate(values) if values else np.zeros(0)
        return {
            "name": self.name,
            "layout": {
                "tokens": net.tokens,
                "width": net.width,
                "blocks": [
                    {"name": b.name, "label": pretty(b.name), "rows": b.rows, "cols": b.cols,
                     "start": b.start} for b in net.layout
                ],
            },
            "modules": [self.part(module) for module in net.modules],
            "layers": self.layers,
            "arrays": self.arrays,
            "rounded": self.rounded,
            "first": array(kept.first, self.dtype),
            "changes": array(np.array(kept.rectangles, dtype=np.int32).reshape(-1, 5), "int32"),
            "values": array(flat, self.dtype),
            "positions": kept.positions,
            **self.data(filled),
            "outputs": [self.output(output, answer) for output in net.outputs],
            "reference": answer[0] if answer else None,
            "source": source(self.shown.network),
            "report": report(self.shown),
            "counted": self.counted(),
            **proof(self.shown),
        }  # fmt: skip

    def counted(self) -> dict[str, list[int]]:
        """The loops that are as long as a number of the program says, where no more follows it."""
        made = self.shown.made
        return {name: list(loops) for name, loops in made.counted().items()} if made else {}

    def part(self, part: Part) -> dict[str, Any]:
        if isinstance(part, Module):
            body = [self.part(inner) for inner in part.body]
            return {"repeat": part.repeat, "skip": part.skip, "body": body}
        self.words.layer(len(self.layers))
        made = {self.network.layout.names.index(name): text
                for name, text in self.words.made(part).items()}  # fmt: skip
        self.layers.append({**self.layer(part), "made": made})
        return {"layer": len(self.layers) - 1}

    def layer(self, layer: Layer) -> dict[str, Any]:
        if isinstance(layer, AttentionLayer):
            return {"kind": "attention", "skip": layer.skip,
                    "heads": [self.head(head) for head in layer.heads]}  # fmt: skip
        said = {"kind": "pointwise", "skip": layer.skip,
                "functions": curves(layer, self.network, self.kept)}  # fmt: skip
        if isinstance(layer, PointwiseLayer):
            units, tokens, width = layer.V.shape
            arrays = [
                self.matrix(np.reshape(a, (units * tokens, width)))
                for a in (layer.V, layer.W, layer.B, layer.C)
            ]
            stored = None if None in arrays else [a["dense"] for a in arrays if a is not None]
            return {**said, "units": units, "relu": layer.activation == "relu",
                    "dense": stored}  # fmt: skip
        nets = [
            {"place": self.place(place), **asdict(function.net), **self.promised(function)}
            for place, function in layer.applied
        ]
        return {**said, "nets": nets}

    def promised(self, function: Function) -> dict[str, Any]:
        """What a function takes, in the precision of the states, and how well it is known there."""
        ends = [end if math.isfinite(end) else None for end in limits(function, self.dtype)]
        domain = None if function.domain is None else interval(function.domain)
        return {"name": function.name, "domain": domain, "limits": ends,
                "exact": not function.error}  # fmt: skip

    def head(self, head: Head) -> dict[str, Any]:
        parts = {}
        for name, p in zip(PARTS, head.projections, strict=True):
            parts[name] = {"text": self.text(p, name == "key"), "pieces": self.pieces(p)}
        whole = all(part["pieces"] is not None for part in parts.values())
        return {"lines": [[what, dest] for dest, what in self.words.head(head)],
                "parts": parts if whole else None}  # fmt: skip

    def text(self, projection: AnyProjection, transposed: bool) -> str:
        if not isinstance(projection, Projection):
            return "H W + B" if projection.has_bias else "H W"
        return self.words.affine(projection.pieces, transposed)

    def pieces(self, projection: AnyProjection) -> list[dict[str, Any]] | None:
        """What the page needs to apply a projection; None where its weights are too large."""
        if not isinstance(projection, Projection):
            W = self.matrix(projection.W)
            B = None if projection.B is None else self.matrix(projection.B)
            if W is None or (projection.B is not None and B is None):
                return None
            bias = [] if B is None else [{"from": -1, "at": 0, "c": 1, **B}]
            return [{"from": 0, "at": 0, "c": 1, **W}, *bias]
        out = []
        for p in projection.pieces:
            start = -1 if p.block is None else self.network.layout[p.block].start
            shape = self.constant(p.matrix)
            if shape is None:
                return None
            out.append({"from": start, "at": p.at, "c": float(p.coefficient), **shape})
        return out

    def constant(self, m: Constant) -> dict[str, Any] | None:
        """A constant as what it is; None where it is dense and the budget is spent."""
        if isinstance(m, Shift):
            return {"rows": m.rows, "cols": m.cols, "shift": [m.row, m.col, m.size]}
        return {"rows": m.rows, "cols": m.cols} if isinstance(m, Ones) else self.matrix(m.entries())

    def matrix(self, entries: Any) -> dict[str, Any] | None:
        """A dense constant, stored once; None where the budget for weights is spent."""
        values = np.asarray(entries).astype(np.float64)
        key = (values.shape, values.tobytes())
        if key not in self.dense:
            size = 8 * values.size * 4 // 3
            if self.spent + size > self.weights:
                return None
            self.spent += size
            self.dense[key] = len(self.arrays)
            self.arrays.append(array(values, "float64"))
        return {"rows": values.shape[0], "cols": values.shape[1], "dense": self.dense[key]}

    def output(self, output: Output, answer: Answer | None) -> dict[str, Any]:
        found = answer[1].get(output.name) if answer else None
        return {
            "name": output.name,
            "kind": output.kind,
            "place": self.place(output.place),
            "reference": None if found is None else array(found, "float64"),
        }

    def place(self, place: Place) -> dict[str, Any]:
        return asdict(place) | {"start": self.network.layout[place.block].start}

    def data(self, filled: Filled) -> dict[str, Any]:
        """The inputs and how they fill the prompt; one that was given is the only input itself."""
        inputs: tuple[Input, ...]
        values, net, kind = filled.inputs or {}, self.network, {}
        if filled.by is not None:
            inputs, fills = filled.by.inputs, [self.fill(fill) for fill in filled.by.fills]
        else:
            name = "H" if self.shown.network.embedding is None else f"H of {self.name}"
            inputs, values = (Input(name, net.tokens, net.width),), {name: filled.prompt}
            fills, kind = [self.prompt(name)], {"kind": "prompt"}
        return {
            "inputs": [
                asdict(one)
                | {"label": pretty(one.name), "value": array(values[one.name], "float64"), **kind}
                for one in inputs
            ],
            "fills": None if None in fills else fills,
        }

    def prompt(self, name: str) -> dict[str, Any]:
        """How an input that is the prompt itself fills it: all blocks at once."""
        place = Place(self.network.layout.names[0], self.network.tokens, self.network.width)
        return {"place": self.place(place), "source": name, "scale": [], "c": 1, "constant": None}

    def fill(self, fill: Fill) -> dict[str, Any] | None:
        constant = None if fill.constant is None else self.constant(fill.constant)
        if fill.constant is not None and constant is None:
            return None
        scale = [[name, float(power)] for name, power in fill.scale]
        return {"place": self.place(fill.place), "source": fill.source, "scale": scale,
                "c": float(fill.coefficient), "constant": constant}  # fmt: skip


def source(network: Network) -> dict[str, Any]:
    """What the program does, line by line, and the heads of each; or why that cannot be read."""
    try:
        found = lines(network, seconds=SECONDS)
    except DecompileError as error:
        return {"lines": [], "why": str(error)}
    named = next(i for i, line in enumerate(found) if line.text.startswith("def "))
    body = next(i for i, line in enumerate(found) if i >= named and line.text.endswith(":")) + 1
    return {
        "lines": [
            {"text": line.text.removeprefix("    "), "heads": [list(at) for at in line.heads]}
            for line in found[body:]
        ],
        "why": "",
    }
