"""The prompts that are shown, in the basis of their blocks: the user's data, or example data.

Every network on a page runs on the same data. Each takes the inputs it names; where none are given,
random ones are drawn, small enough that no network overflows on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from inweave.errors import BlockError, DTypeError, InputError, ShapeError
from inweave.exact.constants import Array
from inweave.model.inputs import accept
from inweave.model.layout import Layout
from inweave.model.network import Network
from inweave.model.prompt import Input, fill_prompt
from inweave.run.plan import Plan

Drawn = TypeVar("Drawn")

SCALES = (1.0, 0.5, 0.2, 0.05, 0.01)  # of example data, the first on which nothing overflows


class Filled(NamedTuple):
    """A prompt, and the network whose inputs filled it, with their values; none: it was given."""

    prompt: np.ndarray[Any, Any]
    inputs: dict[str, Any] | None = None
    by: Network | None = None


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
) -> tuple[str, dict[str, Filled]]:
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
        return "a prompt given by the user", _given(networks, inputs)
    _check_names(inputs, known)
    bare = {name: net for name, net in networks.items() if _bare(net)}
    notes = []
    if inputs:
        notes.append("the data that were given")
    elif known:
        inputs = example(networks)
        notes.append("example data: random entries, seed 0")
    elif len(bare) < len(networks):
        notes.append("no inputs: the prompt holds constants only")
    out = {name: _filled(net, inputs) for name, net in networks.items() if name not in bare}
    lone = {}
    for name, net in bare.items():
        like = next((other for other in out if networks[other].layout == net.layout), None)
        if like is None:
            lone[name] = net
        else:
            out[name] = out[like]
            notes.append(f"{name}, without named inputs, on the prompt of {like}")
    if lone:
        out |= {name: Filled(H) for name, H in example_prompts(lone).items()}
        notes.append(
            "example data: a random prompt, seed 0" if len(lone) == len(networks)
            else f"{' and '.join(lone)}, without named inputs, on a random prompt, seed 0"
        )  # fmt: skip
    return "; ".join(notes), out


def _given(networks: Mapping[str, Network], inputs: Mapping[str, Any]) -> dict[str, Filled]:
    if len(inputs) > 1:
        raise BlockError("give either the prompt H or named inputs, not both")
    H = real("the prompt H", inputs["H"])
    for net in networks.values():
        net.layout.check(H)
    return {name: Filled(_single(net.in_blocks(H))) for name, net in networks.items()}


def _check_names(inputs: Mapping[str, Any], known: set[str]) -> None:
    unknown = [str(name) for name in inputs if name not in known]
    if unknown:
        raise BlockError(
            f"unknown input(s) {', '.join(unknown)}; "
            + (f"the inputs are {', '.join(sorted(known))}" if known
               else "no inputs are named here: give the prompt itself, as H")
        )  # fmt: skip


def _filled(network: Network, inputs: Mapping[str, Any]) -> Filled:
    own = {spec.name: plain(inputs[spec.name]) for spec in network.inputs if spec.name in inputs}
    lifted, arithmetic = accept(network.inputs, own)
    H = fill_prompt(network.layout, network.fills, lifted, arithmetic)
    return Filled(_single(H), own, network)


def _single(H: Array) -> np.ndarray[Any, Any]:
    if H.ndim != 2:
        raise ShapeError(
            f"the explorer shows one prompt at a time; got batch axes {tuple(H.shape[:-2])}: "
            "choose one entry of the batch"
        )
    return np.asarray(H)


def _bare(network: Network) -> bool:
    """Whether a network says nothing about its prompt, as trained ones often do."""
    return not network.inputs and not network.fills


def example(networks: Mapping[str, Network]) -> dict[str, Any]:
    """Random inputs, shrunk until no network overflows on them."""
    specs = {spec.name: spec for net in networks.values() for spec in net.inputs}
    plans = [Plan(net) for net in networks.values() if not _bare(net)]

    def draw(scale: float) -> dict[str, Any]:
        rng = np.random.default_rng(0)
        return {name: _value(spec, scale, rng) for name, spec in specs.items()}

    def prompt(net: Network, drawn: dict[str, Any]) -> Array:
        return net.prompt(**{spec.name: drawn[spec.name] for spec in net.inputs})

    return _tame(draw, lambda drawn: [p.forward(prompt(p.network, drawn)) for p in plans])


def _value(spec: Input, scale: float, rng: np.random.Generator) -> Array:
    value = scale * rng.uniform(-1, 1, size=spec.shape)
    if spec.kind == "scalar" or spec.sign != "any":
        return 0.1 * np.abs(value) + 0.01 * scale
    return value


def example_prompts(networks: Mapping[str, Network]) -> dict[str, np.ndarray[Any, Any]]:
    """Random prompts, the same for equal layouts, shrunk until no network overflows on them."""
    plans = {name: Plan(net) for name, net in networks.items()}

    def draw(scale: float) -> dict[str, np.ndarray[Any, Any]]:
        return {name: _packed(net.layout, scale) for name, net in networks.items()}

    return _tame(draw, lambda drawn: [p.forward(drawn[name]) for name, p in plans.items()])


def _packed(layout: Layout, scale: float) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(0)
    parts = {b.name: scale * rng.uniform(-1, 1, size=(b.rows, b.cols)) for b in layout}
    return np.asarray(layout.pack(parts))


def _tame(draw: Callable[[float], Drawn], run: Callable[[Drawn], list[Array]]) -> Drawn:
    """What is drawn at the first scale at which nothing overflows."""
    for scale in SCALES:
        drawn = draw(scale)
        with np.errstate(all="ignore"):
            finals = run(drawn)
        if all(np.isfinite(H).all() and np.abs(H).max() < 1e3 for H in finals):
            break
    return drawn
