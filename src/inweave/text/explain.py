"""Every pass of a compilation, printed: how a program became a network.

There are as many kinds of text as there are representations (expressions, forms, schedules,
allocations, networks); which pass made one is of no concern here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import singledispatch
from typing import Any

from inweave.compiler.driver import PASSES, Compilation
from inweave.compiler.forms import AppliedLeaf, DefinedLeaf, Written, number
from inweave.compiler.layers import Allocation, Item, Key, LoopSpec, Part, Schedule
from inweave.compiler.options import CANDIDATES
from inweave.compiler.origin import Origin
from inweave.language.expressions import shortened
from inweave.language.program import Traced
from inweave.model.network import Network
from inweave.run.cost import Cost


def explain(
    done: Compilation,
    origin: Origin,
    network: str,
    plan: str,
    notes: Mapping[str, str],
    costs: Mapping[str, Cost],
) -> str:
    """What every pass made, as text; `notes` say more of some.

    `network` describes what the last one made, and `plan` how that runs. `costs` are those of the
    candidates that were compared, if they were.
    """
    sizes = ", ".join(f"{name}={size}" for name, size in origin.sizes.items())
    out = [f"explain {origin.program.name}: {origin.target}, {origin.optimize}, {sizes}"]
    out += candidates(costs, origin.candidate)
    out += ["", "record: the program's trace, its answers as expressions", *words(done.recorded)]
    before = words(done.recorded)
    for i, (name, made) in enumerate(done.made.items(), 1):
        out += ["", f"{i}. {name}: {PASSES[name].makes}"]
        lines = _indented(network) if isinstance(made, Network) else words(made)
        out += ["   (as before)"] if lines == before else lines
        out += [f"   {notes[name]}"] if name in notes else []
        before = lines
    out += ["", "run: the plan, the least work that the network stands for", *_indented(plan)]
    return "\n".join(out)


def candidates(costs: Mapping[str, Cost], kept: str) -> list[str]:
    """The candidates with their estimated costs, the one that was kept first."""
    if not costs:
        return []
    out = ["", "candidates: what one prompt takes, by estimate"]
    for name in sorted(costs, key=lambda name: (name != kept, costs[name].seconds)):
        seconds, batched, calls, entries, multiplications = costs[name]
        said = "kept" if name == kept else "rejected"
        out.append(f"   {said} {name}: {CANDIDATES[name]}")
        took = f"alone {1e6 * seconds:,.1f} µs, in a batch {1e6 * batched:,.1f} µs"
        long = "would take long to verify" if math.isinf(seconds) else took
        out.append(
            f"      {long}: {calls:,} calls, {entries:,} entries read or written, "
            f"{multiplications:,} multiplications in products"
        )
    return out


def _indented(text: str) -> list[str]:
    return [f"   {line}".rstrip() for line in text.splitlines()]


@singledispatch
def words(made: Any) -> list[str]:
    """What a pass made, line by line."""
    return _indented(repr(made))


@words.register
def _(made: Traced) -> list[str]:
    return [f"   {name or 'answer'} = {x!r}" for name, x in made.outputs.items()]


@words.register
def _(made: Written) -> list[str]:
    out = [f"   {name or 'answer'} = {form!r}" for name, form in made.outputs.items()]
    leaves = dict.fromkeys(leaf for form in made.reachable() for leaf, _, _ in form.leaves)
    for leaf in leaves:
        if isinstance(leaf, DefinedLeaf):
            what = f"{leaf.function.name} of " if isinstance(leaf, AppliedLeaf) else ""
            out.append(f"   {leaf!r} := {what}{leaf.definition!r}")
    for loop in made.loops:
        for carried, init, step in zip(loop.carried, loop.init, loop.step, strict=True):
            known = ", symmetric," if not carried.is_scalar and carried.family is not None else ""
            out.append(f"   {loop.times} times: {carried!r}{known} from {init!r} ← {step!r}")
    return out


@words.register
def _(made: Schedule) -> list[str]:
    return Words(lambda key: shortened(key.label, 60)).parts(made.parts, "   ")


@words.register
def _(made: Allocation) -> list[str]:
    out = []
    for name, slot in made.blocks.items():
        held = ", then ".join(shortened(key.label, 60) for key in slot.keys) or "a constant"
        out.append(f"   {name} {slot.rows}x{slot.cols}: {held}")
    return out + Words(lambda key: made.where[key]).parts(made.parts, "   ")


class Words:
    """Layers of heads in words; `name` says what a stored value is called."""

    def __init__(self, name: Callable[[Key], str]) -> None:
        self.name = name

    def parts(self, parts: Sequence[Part], indent: str) -> list[str]:
        out = []
        for i, part in enumerate(parts, 1):
            if isinstance(part, LoopSpec):
                out.append(f"{indent}repeat {part.loop.times} times:")
                out += self.parts(part.body, indent + "  ")
                continue
            out.append(f"{indent}layer {i}")
            for head in part.heads:
                put: dict[str, list[Item]] = {}
                for dest, item in head.values:
                    put.setdefault(self.name(dest), []).append(item)
                front = f"{indent}  ({self.read(head.query)}) · ({self.read(head.key)})ᵀ"
                out += [f"{front} · ({self.read(read)}) → {dest}" for dest, read in put.items()]
            for linear in part.linear:
                out.append(f"{indent}  {self.read(linear.read)} → {self.name(linear.dest)}")
            for key, function in part.pointwise:
                out.append(f"{indent}  then {function.name} of {self.name(key)}")
        return out

    def read(self, read: Sequence[Item]) -> str:
        return " + ".join(self.item(item) for item in read) or "0"

    def item(self, item: Item) -> str:
        parts = [] if item.coefficient == 1 else [number(item.coefficient)]
        if item.key is not None:
            diagonal = f"·I{item.diagonal}" if item.diagonal > 1 else ""
            parts.append(self.name(item.key) + diagonal)
        if item.constant is not None:
            parts.append(repr(item.constant))
        return " ".join(parts)
