"""Pointwise functions as curves: what a layer computes, over the values that it met."""

from __future__ import annotations

from typing import Any

import numpy as np

from inweave.explore.record import Recording
from inweave.model.layers import BlockPointwiseLayer, PointwiseLayer
from inweave.model.network import Network
from inweave.text.network import pretty

POINTS = 129
MOST = 6  # functions drawn for one dense layer
MOST_NUMBERS = 2_000_000  # of a dense layer that is searched for them


def curves(
    layer: BlockPointwiseLayer | PointwiseLayer, network: Network, kept: Recording
) -> list[dict[str, Any]]:
    """The functions of a pointwise layer; where one leaves the floats, its curve has a gap."""
    with np.errstate(all="ignore"):
        if isinstance(layer, BlockPointwiseLayer):
            return block_curves(layer, network, kept)
        return dense_curves(layer, network, kept)


def block_curves(
    layer: BlockPointwiseLayer, network: Network, kept: Recording
) -> list[dict[str, Any]]:
    """Each function over its domain, beside what it stands for where that is known."""
    out = []
    for place, function in layer.applied:
        x, log = samples(*(function.domain or kept.met(layer, place.region(network.layout))))
        values = {"net": function.net(x)}
        if function.reference is not None:
            values["true"] = function.reference(np, x)
        said = {"name": function.name, "where": pretty(place.block), "note": function.note()}
        out.append({**said, "units": function.net.units, **drawn(x, log, values)})
    return out


def dense_curves(layer: PointwiseLayer, network: Network, kept: Recording) -> list[dict[str, Any]]:
    """The distinct functions of a dense layer, the identity left out, most frequent first."""
    units, area = layer.V.shape[0], network.tokens * network.width
    V, W, B = (np.asarray(a, float).reshape(units, area) for a in (layer.V, layer.W, layer.B))
    C = np.asarray(layer.C, float).reshape(units, area).sum(axis=0)
    if units * area > MOST_NUMBERS:
        return []
    _, first, count = np.unique(
        np.concatenate([V, W, B, C[None]]), axis=1, return_index=True, return_counts=True
    )
    out: list[dict[str, Any]] = []
    for at, times in sorted(zip(first, count, strict=True), key=lambda pair: -pair[1]):
        row, col = divmod(int(at), network.width)
        x, log = samples(*kept.met(layer, (slice(row, row + 1), slice(col, col + 1))))
        inner = W[:, at, None] * x + B[:, at, None]
        if layer.activation == "relu":
            inner = np.maximum(inner, 0)
        y = (V[:, at, None] * inner).sum(axis=0) + C[at] + (x if layer.skip else 0)
        if np.array_equal(y, x):
            continue
        block = network.layout.at(col)
        others = f" and {times - 1} more" if times > 1 else ""
        where = f"{pretty(block.name)}[{row}, {col - block.start}]{others}"
        said = {"name": "f", "where": where, "note": ""}
        out.append({**said, "units": units, **drawn(x, log, {"net": y})})
        if len(out) == MOST:
            break
    return out


def samples(low: float, high: float) -> tuple[np.ndarray[Any, Any], bool]:
    """Points of an interval; geometric ones, and True, where it spans decades."""
    if low > 0 and high / low > 30:
        return np.geomspace(low, high, POINTS), True
    return 2 * np.linspace(low / 2, high / 2, POINTS), False  # high - low may be no float


def drawn(x: Any, log: bool, values: dict[str, Any]) -> dict[str, Any]:
    """Points and values for the page: six digits suffice for a curve."""
    lists = {
        name: [float(f"{v:.6g}") if np.isfinite(v) else None for v in np.asarray(array, float)]
        for name, array in {"x": x, **values}.items()
    }
    return {"log": log, **lists}
