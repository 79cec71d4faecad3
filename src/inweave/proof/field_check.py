"""Program and network at the same random points of a finite field, where nothing rounds.

Directly: both are run, and their answers are compared. By induction, for a tied loop: the network
enters it with the program's start, one repetition on a uniformly random state equals one step and
leaves everything else as it was, and what follows agrees for a random state too. That proves all
repetitions at the cost of one. Where a step equals the program's on symmetric states only, it is
proved for those, together with the symmetry of the start and of what a step leaves. Where a step
changes other blocks too, which the answer need not depend on, it is proved whatever stands in them.
Induction can only fail to prove: if it does, the whole loop is run instead, and that decides. So it
is in words, where the network has no loops at all: see `runs`.

The same code runs in two worlds: at a `Point` of the field it compares, and over `Bounds` it says
how large the polynomials are that are compared, from which follows how sure the comparison is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from inweave.exact.arithmetic import bordered
from inweave.exact.constants import Array
from inweave.exact.field import LONG, FieldArray
from inweave.exact.field_arithmetic import FieldArithmetic
from inweave.language import evaluate
from inweave.language import expressions as ex
from inweave.language.program import Traced
from inweave.model.modules import Module
from inweave.model.network import Network
from inweave.model.prompt import Place, drawn_inputs, fill_blocks, rooted
from inweave.proof import affine, runs
from inweave.proof.heights import VARIABLE, ZERO, Blocks, Bounded, Heights, Size
from inweave.proof.states import NotProved
from inweave.run.plan import Plan

Pairs = list[tuple[ex.Loop, int]]
"""The program's outermost loops, each with the index of the module that repeats it."""

WORDS, LOOSE = "words", "loose induction"

State = dict[str, Array]
"""The prompt, block by block, each as high as the prompt is."""


class Mismatch(Exception):
    """Program and network part; says where."""


# -- the worlds -----------------------------------------------------------------------------------
class Point:
    """A random point of a field."""

    def __init__(self, arithmetic: FieldArithmetic, rng: np.random.Generator) -> None:
        self.arithmetic, self.rng = arithmetic, rng

    def apart(self) -> Point:
        """A point of the same field at which functions meet no arguments of this one."""
        known = self.arithmetic
        return Point(FieldArithmetic(known.field, known.key, known.opaque), self.rng)

    def variable(self, shape: tuple[int, int]) -> FieldArray:
        """Something of which nothing is known."""
        return self.arithmetic.field.random(shape, self.rng)

    def differ(self, x: FieldArray, y: FieldArray) -> tuple[int, int] | None:
        """The first entry at which two values differ."""
        where = np.argwhere(x != y)
        return (int(where[0][0]), int(where[0][1])) if len(where) else None

    def is_symmetric(self, x: FieldArray) -> bool:
        """Whether a value equals its transpose, as far as is known."""
        return x.shape[-1] == x.shape[-2] and bool((x == x.mT).all())

    def overwritten(self, strip: FieldArray, row: int, col: int, part: FieldArray) -> FieldArray:
        """A value with another one in it, from an entry on."""
        values, (rows, cols) = strip.values.copy(), part.shape
        values[row : row + rows, col : col + cols] = part.values
        return FieldArray(self.arithmetic.field, values)

    def affine(
        self, loop: ex.Loop, start: Sequence[FieldArray], known: evaluate.Known
    ) -> list[FieldArray]:
        """What a loop of affine steps ends with; NotAffine if it is none, or short."""
        return affine.powered(loop, start, known, self.arithmetic)


class Bounds:
    """All points at once: nothing differs, and the largest difference is kept."""

    def __init__(self, opaque: bool) -> None:
        self.arithmetic, self.worst = Heights(opaque), ZERO

    def variable(self, shape: tuple[int, int]) -> Bounded:
        return Bounded(shape, VARIABLE)

    def differ(self, x: Bounded, y: Bounded) -> tuple[int, int] | None:
        self.worst |= (x - y).height
        return None

    def is_symmetric(self, x: Bounded) -> bool:
        return x.shape[-1] == x.shape[-2]

    def overwritten(self, strip: Bounded, row: int, col: int, part: Bounded) -> Bounded:
        return Bounded(strip.shape, strip.height | part.height)

    def affine(
        self, loop: ex.Loop, start: Sequence[Bounded], known: evaluate.Known
    ) -> list[Bounded]:
        return affine.bounded(loop, start, known, self.arithmetic)

    @property
    def size(self) -> Size:
        return Size.of(self.worst, self.arithmetic)


World = Point | Bounds  # where program and network are evaluated and compared


# -- what corresponds to what ---------------------------------------------------------------------
def matched_loops(traced: Traced, network: Network) -> Pairs | None:
    """Loops and modules that can be compared step by step; None if they do not correspond."""
    found = ex.ordered(traced.outputs.values())
    loops = {x.loop for x in found if isinstance(x, ex.LoopResult)}
    order = sorted(loops, key=lambda loop: loop.carried[0].path)
    modules = [(i, m) for i, m in enumerate(network.modules) if m.carries]
    if not order or len(order) != len(modules):
        return None
    for loop, (_, module) in zip(order, modules, strict=True):
        if module.repeat != loop.times or len(module.carries) != len(loop.carried):
            return None
        for symbol, places in zip(loop.carried, module.carries, strict=True):
            if any(place.value_shape != symbol.shape for place in places):
                return None
    return [(loop, i) for loop, (i, _) in zip(order, modules, strict=True)]


def drawn(network: Network, world: World) -> tuple[dict[str, Array], dict[str, Array]]:
    """Inputs of which nothing is known, and roots; of a root, the root is drawn."""
    return drawn_inputs(network.inputs, rooted(network.fills), world.variable)


def start(network: Network, world: World) -> tuple[dict[str, Array], State]:
    """Inputs of which nothing is known, and the prompt they fill."""
    inputs, roots = drawn(network, world)
    layout, arithmetic = network.layout, world.arithmetic
    blocks = fill_blocks(layout, network.fills, inputs, arithmetic, roots)
    for b in layout:
        blocks[b.name] = bordered(arithmetic, blocks[b.name], -2, 0, layout.tokens - b.rows)
    return inputs, blocks


class Comparison:
    """One program and one network; what is run at every point is planned once.

    `plan` is that of the whole network.
    """

    def __init__(self, traced: Traced, network: Network, plan: Plan) -> None:
        self.traced, self.network, self.plan = traced, network, plan
        self.pairs = matched_loops(traced, network)
        self._plans: dict[tuple[Module, ...], Plan] = {}
        self._loose: dict[int, set[str]] | None = None

    @property
    def methods(self) -> tuple[str, ...]:
        """Ways to compare, the cheapest first; each can decide, only the last must."""
        if self.pairs:
            return "induction", "symmetric induction", LOOSE, "direct"
        return (WORDS, "direct") if runs.are_readable(self.traced, self.network) else ("direct",)

    def compare(self, method: str, world: World) -> None:
        """Raise Mismatch if program and network differ in a world."""
        if method == WORDS and isinstance(world, Point):
            try:
                runs.compare(self.traced, self.network, world.arithmetic.field, world.rng)
            except NotProved as found:
                raise Mismatch(str(found)) from None
            return
        if method == "direct" or self.pairs is None:
            self._directly(world)
            return
        if method == LOOSE and isinstance(world, Point):
            if self._loose is None:
                self._loose = self._changing(self.pairs, world.apart())
            if not any(self._loose.values()):
                raise Mismatch("no block is changed beside what loops carry")
        loose = (self._loose or {}) if method == LOOSE else {}
        self._by_induction(self.pairs, world, method == "induction", loose)

    def size(self, method: str, opaque: bool) -> Size:
        """How large the polynomials are that a method compares."""
        bounds = Bounds(opaque)
        if method == WORDS:
            self._in_heads(bounds)
            return replace(bounds.size, primes=LONG)
        self.compare(method, bounds)
        return bounds.size

    def _directly(self, world: World) -> None:
        """Compare the answers of program and network."""
        inputs, roots = drawn(self.network, world)
        plan, arithmetic = self.plan, world.arithmetic
        found = plan.answers(inputs, arithmetic, roots, plan.from_inputs)
        self._same(found, self._run(inputs, world), world)

    def _in_heads(self, bounds: Bounds) -> None:
        """As `_directly`, without a plan."""
        inputs, state = start(self.network, bounds)
        heights = {name: x.height for name, x in state.items()}
        found = Blocks(self.network.layout, bounds.arithmetic).run(self.network.modules, heights)
        after = {name: Bounded(x.shape, found[name]) for name, x in state.items()}
        self._same(self._answers(after), self._run(inputs, bounds), bounds)

    def _run(self, inputs: Mapping[str, Array], world: World) -> dict[str, Array]:
        """The program's answers; loops of affine steps are powers of a matrix."""
        order = ex.ordered(self.traced.outputs.values())
        known: evaluate.Known = {x: inputs[x.name] for x in order if isinstance(x, ex.InputExpr)}
        for x in order:
            if isinstance(x, ex.LoopResult) and x.loop not in known:
                begin = [evaluate.value(y, known, world.arithmetic) for y in x.loop.init]
                with suppress(affine.NotAffine):
                    known[x.loop] = world.affine(x.loop, begin, known)
            evaluate.fill([x], known, world.arithmetic)
        return self._expected(known, world)

    def _expected(self, known: evaluate.Known, world: World) -> dict[str, Array]:
        """The program's answers, of which all parts are known."""
        outputs = self.traced.outputs.items()
        return {name: evaluate.value(x, known, world.arithmetic) for name, x in outputs}

    def _changing(self, pairs: Pairs, world: World) -> dict[int, set[str]]:
        """For every repeated module the blocks that a step changes beside what it carries.

        Seen at a point at which nothing else is compared, so that what is claimed of all other
        blocks is fixed before it is tried.
        """
        modules, (_, state) = self.network.modules, start(self.network, world)
        found, at = dict[int, set[str]](), 0
        for loop, index in pairs:
            module, loose = modules[index], set[str]()
            state = self._after(modules[at:index], state, world)
            more = {""}
            while more:
                values = _carried(loop, set(), world)
                entered = self._overwritten(_unknown(state, loose, world), module, values, world)
                left = self._after((Module(module.body, 1, module.skip),), entered, world)
                settled = self._overwritten(left, module, values, world)
                changed = {x for x in settled if world.differ(settled[x], entered[x]) is not None}
                more = changed - loose
                loose |= more
            found[index], state, at = loose, entered, index + 1
        return found

    def _by_induction(
        self, pairs: Pairs, world: World, general: bool, loose: Mapping[int, set[str]]
    ) -> None:
        """Compare piece by piece, replacing the state of each loop by an unknown one.

        The states are any matrices, or, unless `general`, symmetric ones where the start is
        symmetric and a step keeps it so: that is checked too, and holds for every state that
        occurs. Blocks that are `loose` in a module hold anything before and after each step.
        """
        modules, order = self.network.modules, ex.ordered(self.traced.outputs.values())
        inputs, state = start(self.network, world)
        known: evaluate.Known = {x: inputs[x.name] for x in order if isinstance(x, ex.InputExpr)}
        at = 0
        for loop, index in pairs:
            module = modules[index]
            state = self._after(modules[at:index], state, world)
            before = [x for x in ex.ordered([*loop.init, *loop.outer]) if x not in known]
            evaluate.fill(before, known, world.arithmetic)
            begin = [evaluate.value(x, known, world.arithmetic) for x in loop.init]
            self._expect(state, module, begin, world, f"the start of module {index}")
            kept = set() if general else {i for i, x in enumerate(begin) if world.is_symmetric(x)}
            values = _carried(loop, kept, world)
            after = evaluate.run(loop, values, known, world.arithmetic, 1)
            while lost := {i for i in kept if not world.is_symmetric(after[i])}:
                kept -= lost
                values = _carried(loop, kept, world)
                after = evaluate.run(loop, values, known, world.arithmetic, 1)
            free = loose.get(index, set())
            entered = self._overwritten(_unknown(state, free, world), module, values, world)
            left = self._after((Module(module.body, 1, module.skip),), entered, world)
            self._expect(left, module, after, world, f"one step of module {index}")
            settled = self._overwritten(left, module, values, world)
            if any(world.differ(settled[x], entered[x]) for x in settled.keys() - free):
                raise Mismatch(f"one step of module {index} changes more than it carries")
            known[loop] = _carried(loop, kept, world)
            state = self._overwritten(_unknown(state, free, world), module, known[loop], world)
            at = index + 1
        state = self._after(modules[at:], state, world)
        evaluate.fill([x for x in order if x not in known], known, world.arithmetic)
        self._same(self._answers(state), self._expected(known, world), world)

    # -- states -----------------------------------------------------------------------------------
    def _after(self, modules: tuple[Module, ...], state: State, world: World) -> State:
        """The state after some modules, from any state."""
        if not modules:
            return state
        if modules not in self._plans:
            self._plans[modules] = Plan(Network(self.network.layout, modules))
        return self._plans[modules].between(state, world.arithmetic)

    def _answers(self, state: State) -> dict[str, Array]:
        return {output.name: _read(output.place, state) for output in self.network.outputs}

    def _same(
        self, found: Mapping[str, Array], expected: Mapping[str, Array], world: World
    ) -> None:
        """Refuse other answers than those expected."""
        for name, value in found.items():
            entry = world.differ(value, expected[name])
            if entry is not None:
                what = f"output {name!r}" if name else "the answer"
                raise Mismatch(f"{what}, entry {entry}")

    def _expect(
        self, state: State, module: Module, values: Sequence[Any], world: World, where: str
    ) -> None:
        """Refuse a state that does not hold these carried values, each in all of its places."""
        expected = self._overwritten(state, module, values, world)
        for name in dict.fromkeys(place.block for places in module.carries for place in places):
            if world.differ(state[name], expected[name]) is not None:
                raise Mismatch(f"{where}: block {name!r}")

    def _overwritten(
        self, state: State, module: Module, values: Sequence[Any], world: World
    ) -> State:
        """A state with other carried values in it."""
        out = dict(state)
        for places, value in zip(module.carries, values, strict=True):
            for place in places:
                part = value
                if place.diagonal:
                    part = value * world.arithmetic.array(np.eye(place.diagonal))
                elif place.transpose:
                    part = value.mT
                out[place.block] = world.overwritten(out[place.block], place.row, place.col, part)
        return out


def _read(place: Place, state: State) -> Array:
    part = state[place.block][..., *place.inside]
    return part.mT if place.transpose else part


def _unknown(state: State, blocks: set[str], world: World) -> State:
    """A state with something of which nothing is known in some blocks."""
    return {**state, **{name: world.variable(state[name].shape) for name in sorted(blocks)}}


def _carried(loop: ex.Loop, symmetric: set[int], world: World) -> list[Any]:
    """An unknown value for each that a loop carries; the given ones symmetric."""
    values = [world.variable(x.shape) for x in loop.carried]
    return [x + x.mT if i in symmetric else x for i, x in enumerate(values)]
