"""Every stage of a compilation, printed: how a program became a network."""

from __future__ import annotations

from inweave.compiler.allocate import label
from inweave.compiler.driver import Stages
from inweave.compiler.forms import Form, LoopItem, number
from inweave.compiler.layers import Item, LayerSpec, LoopSpec, Read
from inweave.compiler.normalize import reachable
from inweave.compiler.origin import Origin


def explain(done: Stages, origin: Origin, network: str) -> str:
    """What every stage produced, as text."""
    sizes = ", ".join(f"{name}={size}" for name, size in origin.sizes.items())
    out = [f"explain {origin.program.name}: {origin.target}, {origin.optimize}, {sizes}"]
    out += ["", "1. trace: the program's answers as expressions"]
    out += [f"   {name or 'answer'} = {x!r}" for name, x in done.traced.outputs.items()]
    out += ["", "2. normalize: matrix polynomials"]
    out += [f"   {name or 'answer'} = {form!r}" for name, form in done.normalized.items()]
    out += ["", "3. expand and collapse: what is computed, with what is stored on the way"]
    out += _forms(done.expanded, done.loops)
    out += ["", "4. schedule: layers of heads (query · keyᵀ · value → destination)"]
    out += _parts(done.schedule.parts, "   ")
    out += ["", "5. allocate: blocks and the values that stand in them over time"]
    for slot in done.allocation.slots:
        held = ", then ".join(label(key) for key in slot.keys) or "a constant"
        out.append(f"   {slot.name} {slot.rows}x{slot.cols}: {held}")
    out += ["", "6. emit: the network"]
    out += [f"   {line}".rstrip() for line in network.splitlines()]
    return "\n".join(out)


def _forms(outputs: dict[str, Form], loops: list[LoopItem]) -> list[str]:
    out = [f"   {name or 'answer'} = {form!r}" for name, form in outputs.items()]
    seen: set[int] = set()
    for form in reachable(list(outputs.values())):
        for leaf, _, _ in form.leaves:
            if id(leaf) not in seen and leaf.definition is not None:
                seen.add(id(leaf))
                what = f"{leaf.function.name} of " if leaf.function is not None else ""
                out.append(f"   {leaf!r} := {what}{leaf.definition!r}")
    for item in loops:
        for carried, init, step in zip(item.carried, item.init, item.step, strict=True):
            out.append(f"   {item.times} times: {carried!r} from {init!r} ← {step!r}")
    return out


def _parts(parts: list[LayerSpec | LoopSpec], indent: str) -> list[str]:
    out = []
    for i, part in enumerate(parts, 1):
        if isinstance(part, LoopSpec):
            out.append(f"{indent}repeat {part.item.times} times:")
            out += _parts(part.body, indent + "  ")
            continue
        out.append(f"{indent}layer {i}")
        for head in part.heads:
            texts = [_read(read) for read in (head.query, head.key, head.value)]
            out.append(
                f"{indent}  ({texts[0]}) · ({texts[1]})ᵀ · ({texts[2]}) → {label(head.dest)}"
            )
        for linear in part.linear:
            out.append(f"{indent}  {_read(linear.read)} → {label(linear.dest)}")
        for key, function in part.pointwise:
            out.append(f"{indent}  then {function.name} of {label(key)}")
    return out


def _read(read: Read) -> str:
    return " + ".join(_item(item) for item in read) or "0"


def _item(item: Item) -> str:
    parts = [] if item.coefficient == 1 else [number(item.coefficient)]
    if item.key is not None:
        spread = f"·I{item.spread}" if item.spread > 1 else ""
        parts.append(label(item.key) + spread)
    if item.constant is not None:
        parts.append(repr(item.constant))
    return " ".join(parts)
