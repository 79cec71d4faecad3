"""Everything the page shows, as one JSON-able value.

Arrays travel as base64 of little-endian typed arrays. The page computes the rest itself: states
from the recorded changes, a head's query, key and value from the state and the head's pieces,
curves from the states. Nothing is stored that can be derived, so the size of a page grows with what
changes, not with depth times prompt.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from numbers import Real
from typing import Any

import numpy as np

from inweave.compiler.origin import Origin
from inweave.errors import BlockError, DTypeError, InputError, InweaveError, ShapeError
from inweave.exact.constants import Array, Ones, Shift
from inweave.explore.record import Recording, record
from inweave.explore.shown import Explorable, Shown
from inweave.model.inputs import accept
from inweave.model.layers import AttentionLayer, BlockPointwiseLayer, Head, Layer, PointwiseLayer
from inweave.model.modules import Module, Part
from inweave.model.network import Network
from inweave.model.projection import AnyProjection, Projection
from inweave.model.prompt import Input, Output, fill_prompt
from inweave.proof.certificate import about
from inweave.proof.degree import degree_text
from inweave.run.plan import Plan
from inweave.text.network import Words, facts, pretty
from inweave.version import __version__

Several = Mapping[Any, Explorable] | Sequence[Explorable] | Explorable

VERSION = 1
# Sizes in the page, that is, in base64.
EXACT_BYTES = 3_000_000  # states in float64 up to here, in float32 beyond
MOST_BYTES = 60_000_000  # and no page larger than about this
PAGE_BYTES = 4_600_000  # dense weights take what states leave of this,
WEIGHT_BYTES = 1_500_000  # and no more than this; heads beyond are shown without their parts
CURVE_POINTS = 129
SCALES = (1.0, 0.5, 0.2, 0.05, 0.01)  # of example data, the first on which nothing overflows
CURVES = 6  # most functions drawn for one dense pointwise layer


def payload(
    shown: Mapping[str, Shown],
    inputs: Mapping[str, Any],
    reference: Any = None,
) -> dict[str, Any]:
    """What the page needs to show these networks on the same inputs."""
    if not shown:
        raise InputError("there is no network to explore")
    networks = {name: one.network for name, one in shown.items()}
    note, prompts = prompts_of(networks, inputs)
    answers = references(shown, {name: own for name, (_, own) in prompts.items()}, reference)
    recordings = {name: record(net, prompts[name][0]) for name, net in networks.items()}
    size = sum(8 * (r.numbers + r.first.size) * 4 // 3 for r in recordings.values())
    if size > 2 * MOST_BYTES:
        raise InputError(
            f"the states would take about {size // 2_000_000} MB even in single precision, more "
            f"than a page can hold ({MOST_BYTES // 1_000_000} MB); explore fewer steps or a "
            "smaller prompt"
        )
    short = size > EXACT_BYTES
    left = min(WEIGHT_BYTES, PAGE_BYTES - (size // 2 if short else size)) // len(networks)
    data = {
        "version": VERSION,
        "inweave": __version__,
        "inputs": note,
        "networks": [
            Packer(name, one, recordings[name], short, left).pack(answers[name])
            for name, one in shown.items()
        ],
    }
    return unicode(data)  # type: ignore[no-any-return]


def unicode(data: Any) -> Any:
    """The same data with `\ufffd` for each lone surrogate, which no encoding can write."""
    if isinstance(data, str):
        return data if data.isascii() else re.sub("[\ud800-\udfff]", "\ufffd", data)
    if isinstance(data, dict):
        return {unicode(key): unicode(value) for key, value in data.items()}
    return [unicode(value) for value in data] if isinstance(data, (list, tuple)) else data


# -- inputs ----------------------------------------------------------------------------------------
def plain(value: Any) -> Any:
    """An array on this machine, as numpy, in its own precision."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if value.dtype.is_floating_point and value.dtype.itemsize < 4:
            value = value.float()  # numpy has no bfloat16
    if isinstance(value, (list, tuple, int, float)):
        return value
    array = np.asarray(value)
    if array.dtype.name.startswith(("float16", "bfloat16", "float8")):
        return array.astype(np.float32)
    return array.astype(np.float64) if array.dtype == np.longdouble else array


def real(what: str, value: Any) -> np.ndarray[Any, Any]:
    """A new array of real numbers, single or double."""
    try:
        found = np.array(plain(value))
        if found.dtype.kind in "fiub":
            return found if found.dtype.kind == "f" else found.astype(np.float64)
        if found.dtype.kind == "O":
            return found.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DTypeError(f"{what} must hold real numbers: {error}") from None
    raise DTypeError(f"{what} must hold real numbers, got dtype {found.dtype}")


def prompts_of(
    networks: Mapping[str, Network], inputs: Mapping[str, Any]
) -> tuple[str, dict[str, tuple[np.ndarray[Any, Any], dict[str, Any] | None]]]:
    """A note on where the data came from, and each network's prompt with the inputs behind it.

    Each network takes the inputs it names. `H` is the prompt itself, for a network whose inputs do
    not include one of that name. A network that says nothing about its prompt takes that of one
    with the same layout, and a random one where there is none.
    """
    if not isinstance(inputs, Mapping):
        raise InputError(
            f"give the inputs by name, as in {{'X': X}} or {{'H': H}}; got {type(inputs).__name__}"
        )
    known = {spec.name for net in networks.values() for spec in net.inputs}
    if "H" in inputs and "H" not in known:
        if len(inputs) > 1:
            raise BlockError("give either the prompt H or named inputs, not both")
        H = real("the prompt H", inputs["H"])
        for net in networks.values():
            net.layout.check(H)
            _single(H)
        return "a prompt given by the user", dict.fromkeys(networks, (H, None))
    unknown = [str(name) for name in inputs if name not in known]
    if unknown:
        raise BlockError(
            f"unknown input(s) {', '.join(unknown)}; "
            + (f"the inputs are {', '.join(sorted(known))}" if known
               else "no inputs are named here: give the prompt itself, as H")
        )  # fmt: skip
    bare = {name: net for name, net in networks.items() if _bare(net)}
    notes = []
    if inputs:
        notes.append("data given by the user")
    elif known:
        inputs = example(networks)
        notes.append("example data: random entries, seed 0")
    elif len(bare) < len(networks):
        notes.append("no inputs: the prompt holds constants only")
    out: dict[str, tuple[np.ndarray[Any, Any], dict[str, Any] | None]] = {}
    for name, net in networks.items():
        if name in bare:
            continue
        own = {s.name: plain(inputs[s.name]) for s in net.inputs if s.name in inputs}
        lifted, arithmetic = accept(net.inputs, own)
        H = fill_prompt(net.layout, net.fills, lifted, arithmetic)
        _single(H)
        out[name] = (np.asarray(H), own)
    lone = {}
    for name, net in bare.items():
        like = next((other for other in out if networks[other].layout == net.layout), None)
        if like is None:
            lone[name] = net
        else:
            out[name] = (out[like][0], None)
            notes.append(f"{name}, without named inputs, on the prompt of {like}")
    if lone:
        out |= {name: (H, None) for name, H in example_prompts(lone).items()}
        notes.append(
            "example data: a random prompt, seed 0" if len(lone) == len(networks)
            else f"{' and '.join(lone)}, without named inputs, on a random prompt, seed 0"
        )  # fmt: skip
    return "; ".join(notes), out


def _bare(network: Network) -> bool:
    """Whether a network says nothing about its prompt, as trained ones often do."""
    return not network.inputs and not network.fills


def _single(H: Array) -> None:
    if H.ndim != 2:
        raise ShapeError(
            f"the explorer shows one prompt at a time; got batch axes {tuple(H.shape[:-2])}: "
            "choose one entry of the batch"
        )


def example(networks: Mapping[str, Network]) -> dict[str, Any]:
    """Random inputs, shrunk until no network overflows on them."""
    specs: dict[str, Input] = {}
    for net in networks.values():
        specs |= {spec.name: spec for spec in net.inputs}
    plans = [Plan(net) for net in networks.values() if not _bare(net)]
    for scale in SCALES:
        rng = np.random.default_rng(0)
        drawn = {}
        for name, spec in specs.items():
            value = scale * rng.uniform(-1, 1, size=spec.shape)
            if spec.kind == "scalar" or spec.sign != "any":
                value = 0.1 * np.abs(value) + 0.01 * scale
            drawn[name] = value
        with np.errstate(all="ignore"):
            finals = [plan.forward(_prompt(plan.network, drawn)) for plan in plans]
        if _tame(finals):
            break
    return drawn


def _prompt(network: Network, inputs: Mapping[str, Any]) -> Array:
    return network.prompt(**{spec.name: inputs[spec.name] for spec in network.inputs})


def example_prompts(networks: Mapping[str, Network]) -> dict[str, np.ndarray[Any, Any]]:
    """Random prompts, the same for equal layouts, shrunk until no network overflows on them."""
    plans = {name: Plan(net) for name, net in networks.items()}
    for scale in SCALES:
        drawn = {}
        for name, net in networks.items():
            rng = np.random.default_rng(0)
            parts = {b.name: scale * rng.uniform(-1, 1, size=(b.rows, b.cols)) for b in net.layout}
            drawn[name] = np.asarray(net.layout.pack(parts))
        with np.errstate(all="ignore"):
            finals = [plan.forward(drawn[name]) for name, plan in plans.items()]
        if _tame(finals):
            break
    return drawn


def _tame(finals: Sequence[Array]) -> bool:
    return all(np.isfinite(H).all() and np.abs(H).max() < 1e3 for H in finals)


# -- the reference answer --------------------------------------------------------------------------
Answer = tuple[str, dict[str, np.ndarray[Any, Any]]]


def references(
    shown: Mapping[str, Shown], inputs: Mapping[str, dict[str, Any] | None], given: Any
) -> dict[str, Answer | None]:
    """What each network's answers should be: as given, or the program's own value on the data.

    A program's value also serves the networks without a program whose outputs it fits.
    """
    if given is not None:
        return given_references({name: one.network for name, one in shown.items()}, given)
    own = {name: program_value(one.origin, inputs[name]) for name, one in shown.items()}
    shared = next((found for found in own.values() if found is not None), None)
    return {name: _fitting(own[name] or shared, one.network) for name, one in shown.items()}


def given_references(networks: Mapping[str, Network], given: Any) -> dict[str, Answer | None]:
    """A reference that the user gave, by output or for the only one: all of it must fit."""
    one = "the reference"
    wanted = (
        {str(k): real(f"{one} for {str(k)!r}", v) for k, v in given.items()}
        if isinstance(given, Mapping)
        else {"": real(one, given)}
    )
    known = {output.name for net in networks.values() for output in net.outputs}
    if not known:
        raise InputError("a reference needs an answer to compare with; no output is named here")
    names = ", ".join(repr(name) for name in sorted(known))
    out: dict[str, Answer | None] = {}
    used = set()
    for name, net in networks.items():
        kept = {}
        for output in net.outputs:
            key = output.name
            if key not in wanted and len(wanted) == len(net.outputs) == 1:
                [only] = wanted
                if only == "" or (key == "" and only not in known):
                    key = only
            if key not in wanted:
                continue
            used.add(key)
            shape, found = _shape(output), wanted[key]
            if not _alike(found.shape, shape):
                said = f"the answer of {name}" + (f", {output.name!r}," if output.name else "")
                raise ShapeError(
                    f"the reference has shape {found.shape}, but {said} has shape {shape}"
                )
            kept[output.name] = found.astype(float).reshape(shape)
        out[name] = ("given by the user", kept) if kept else None
    unused = [key for key in wanted if key not in used]
    if unused == [""]:
        raise BlockError(f"give the reference by output, as a mapping; the outputs are {names}")
    if unused:
        raise BlockError(
            f"the reference names {', '.join(map(repr, unused))}; the outputs are {names}"
        )
    return out


def program_value(origin: Origin | None, inputs: dict[str, Any] | None) -> Answer | None:
    """The value of a network's program on the same data."""
    if origin is None or inputs is None:
        return None
    statics = {k: v for k, v in origin.sizes.items() if k in origin.program.statics}
    try:
        with np.errstate(all="ignore"):
            found = origin.program(**inputs, **statics)
    except InweaveError:
        return None
    named = found if isinstance(found, Mapping) else {"": found}
    return f"program {origin.program.name}, evaluated directly", {
        name: np.asarray(value, float) for name, value in named.items()
    }


def _shape(output: Output) -> tuple[int, int]:
    return (1, 1) if output.place.diagonal else (output.place.rows, output.place.cols)


def _alike(given: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether two shapes are the same but for axes of length one."""
    return [n for n in given if n != 1] == [n for n in shape if n != 1]


def _fitting(answer: Answer | None, network: Network) -> Answer | None:
    """The part of a program's value that a network's outputs can be compared with."""
    if answer is None:
        return None
    source, named = answer
    kept = {}
    for output in network.outputs:
        found = named.get(output.name)
        if found is None and len(named) == len(network.outputs) == 1:
            found = next(iter(named.values()))
        if found is not None and _alike(found.shape, _shape(output)):
            kept[output.name] = found.reshape(_shape(output))
    return (source, kept) if kept else None


# -- one network -----------------------------------------------------------------------------------
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
        self.network = network = shown.network
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

    def pack(self, answer: Answer | None) -> dict[str, Any]:
        net, kept = self.network, self.kept
        values = [v.ravel() for v in kept.values]
        flat = np.concatenate(values) if values else np.zeros(0)
        return {
            "name": self.name,
            "title": title(self.shown),
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
            "outputs": [self.output(output, answer) for output in net.outputs],
            "reference": answer[0] if answer else None,
            "report": report(self.shown),
            "certificate": _certificate(self.shown),
        }  # fmt: skip

    def part(self, part: Part) -> dict[str, Any]:
        if isinstance(part, Module):
            body = [self.part(inner) for inner in part.body]
            return {"repeat": part.repeat, "skip": part.skip, "body": body}
        self.layers.append(self.layer(part))
        return {"layer": len(self.layers) - 1}

    def layer(self, layer: Layer) -> dict[str, Any]:
        if isinstance(layer, AttentionLayer):
            return {"kind": "attention", "skip": layer.skip,
                    "heads": [self.head(head) for head in layer.heads]}  # fmt: skip
        if isinstance(layer, BlockPointwiseLayer):
            curves = self.block_curves(layer)
            return {"kind": "pointwise", "skip": layer.skip, "functions": curves}
        return {"kind": "pointwise", "skip": layer.skip, "units": int(layer.V.shape[0]),
                "functions": self.dense_curves(layer)}  # fmt: skip

    def head(self, head: Head) -> dict[str, Any]:
        parts = {}
        for name, p in zip(("query", "key", "value"), head.projections, strict=True):
            parts[name] = {
                "text": self.text(p, name == "key"),
                "pieces": self.pieces(p),
            }
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
            m = p.matrix
            start = -1 if p.block is None else self.network.layout[p.block].start
            shape: dict[str, Any] | None = {"rows": m.rows, "cols": m.cols}
            if isinstance(m, Shift):
                shape = {"rows": m.rows, "cols": m.cols, "shift": [m.row, m.col, m.size]}
            elif not isinstance(m, Ones):
                shape = self.matrix(m.entries())
            if shape is None:
                return None
            out.append({"from": start, "at": p.at, "c": float(p.coefficient), **shape})
        return out

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
            "place": asdict(output.place)
            | {"start": self.network.layout[output.place.block].start},
            "reference": None if found is None else array(found, "float64"),
        }

    # -- pointwise functions as curves -------------------------------------------------------------
    def block_curves(self, layer: BlockPointwiseLayer) -> list[dict[str, Any]]:
        out = []
        for place, function in layer.applied:
            low, high = self._range(layer, place.region(self.network.layout))
            if function.domain is not None:
                low, high = function.domain
            x, log = samples(low, high)
            curve = {"net": function.net(x)}
            if function.reference is not None:
                with np.errstate(all="ignore"):
                    curve["true"] = function.reference(np, x)
            out.append(
                {
                    "name": function.name,
                    "where": pretty(place.block),
                    "units": function.net.units,
                    "note": function.note(),
                    "log": log,
                    "x": _numbers(x),
                    **{key: _numbers(y) for key, y in curve.items()},
                }
            )
        return out

    def dense_curves(self, layer: PointwiseLayer) -> list[dict[str, Any]]:
        """The distinct functions of a dense layer, the identity left out, most frequent first."""
        units, area = layer.V.shape[0], self.network.tokens * self.network.width
        V, W, B = (np.asarray(a, float).reshape(units, area) for a in (layer.V, layer.W, layer.B))
        C = np.asarray(layer.C, float).reshape(units, area).sum(axis=0)
        if units * area > 2_000_000:
            return []
        _, first, count = np.unique(
            np.concatenate([V, W, B, C[None]]), axis=1, return_index=True, return_counts=True
        )
        out: list[dict[str, Any]] = []
        for at, times in sorted(zip(first, count, strict=True), key=lambda pair: -pair[1]):
            row, col = divmod(int(at), self.network.width)
            low, high = self._range(layer, (slice(row, row + 1), slice(col, col + 1)))
            x, log = samples(low, high)
            inner = W[:, at, None] * x + B[:, at, None]
            if layer.activation == "relu":
                inner = np.maximum(inner, 0)
            y = (V[:, at, None] * inner).sum(axis=0) + C[at] + (x if layer.skip else 0)
            if np.array_equal(y, x):
                continue
            block = self.network.layout.at(col)
            others = f" and {times - 1} more" if times > 1 else ""
            out.append(
                {
                    "name": "f",
                    "where": f"{pretty(block.name)}[{row}, {col - block.start}]{others}",
                    "units": units,
                    "note": "",
                    "log": log,
                    "x": _numbers(x),
                    "net": _numbers(y),
                }
            )
            if len(out) == CURVES:
                break
        return out

    def _range(self, layer: Layer, at: tuple[slice, slice]) -> tuple[float, float]:
        """The values met at a place, a little widened."""
        found = self.kept.ranges.get(id(layer))
        if found is None:
            return -1.0, 1.0
        low, high = float(np.min(found[0][at])), float(np.max(found[1][at]))
        if not (np.isfinite(low) and np.isfinite(high)):
            return -1.0, 1.0
        pad = 0.1 * (high - low) or max(abs(high), 1.0)
        return low - pad, high + pad


def samples(low: float, high: float) -> tuple[np.ndarray[Any, Any], bool]:
    """Points of an interval; geometric ones, and True, where it spans decades."""
    if low > 0 and high / low > 30:
        return np.geomspace(low, high, CURVE_POINTS), True
    return np.linspace(low, high, CURVE_POINTS), False


def _numbers(values: Any) -> list[float | None]:
    """Six digits suffice for a curve."""
    return [float(f"{v:.6g}") if np.isfinite(v) else None for v in np.asarray(values, float)]


# -- the report ------------------------------------------------------------------------------------
def title(shown: Shown) -> str:
    """A name for a network without one."""
    origin, kind = shown.origin, shown.network.target.upper()
    return f"{origin.program.name}, {kind}, {origin.optimize}" if origin else f"{kind} network"


def report(shown: Shown) -> dict[str, Any]:
    """Sizes, and depth beside its lower bound where that is known."""
    origin, known = shown.origin, facts(shown.network, degree=shown.degree)
    degree = None
    if shown.degree is not None:
        said = degree_text(shown.degree[0])
        degree = said if shown.degree[1] else f"at most {said}"
    return {
        **{name: known[name] for name in ("depth", "heads", "tokens", "width", "fingerprint")},
        "target": known["target"].upper(),
        "optimize": origin.optimize if origin else None,
        "program": origin.program.name if origin else None,
        "sizes": {str(k): str(v) for k, v in origin.sizes.items()} if origin else {},
        "numbers": known["stored_numbers"],
        "degree": degree,
        "bound": known["depth_lower_bound"],
    }


def _certificate(shown: Shown) -> dict[str, Any] | None:
    certificate = about(shown.network, shown.certificate)
    if certificate is None:
        return None
    data = asdict(certificate)
    notes = {name: list(data[name]) for name in ("functions", "conditions")}
    return {**data, "degree": degree_text(data["degree"]), **notes}


def named(networks: Several) -> dict[str, Shown]:
    """Networks by name; those without one are called after their program and options."""
    if hasattr(networks, "shown"):
        return {title(networks.shown()): networks.shown()}
    if not isinstance(networks, Iterable):
        raise InputError(f"expected a Network, or several, got {type(networks).__name__}")
    pairs = (
        list(networks.items()) if isinstance(networks, Mapping) else [(None, n) for n in networks]
    )
    out: dict[str, Shown] = {}
    for key, net in pairs:
        if not hasattr(net, "shown"):
            said = "this" if key is None else repr(key)
            raise InputError(f"{said} is not a Network, got {type(net).__name__}")
        if not (key is None or isinstance(key, (str, Real))):
            raise InputError(f"a network's name is text or a number, got {key!r}")
        base = name = title(net.shown()) if key is None else str(key)
        count = 1
        while name in out:
            if key is not None:
                raise InputError(f"two networks are called {name!r}")
            count += 1
            name = f"{base} ({count})"
        out[name] = net.shown()
    return out
