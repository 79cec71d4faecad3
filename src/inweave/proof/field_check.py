"""Program and network at the same random points of a finite field, where nothing rounds.

Directly: both are run, and their answers are compared. By induction, for a tied loop: the network
enters it with the program's start, one repetition on a uniformly random state equals one step and
leaves everything else as it was, and what follows agrees for a random state too. That proves all
repetitions at the cost of one. Where a step equals the program's on symmetric states only, it is
proved for those, together with the symmetry of the start and of what a step leaves. Induction can
only fail to prove: if it does, the whole loop is run instead, and that decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from inweave.exact.constants import Array
from inweave.exact.field import Field, FieldArray
from inweave.exact.field_arithmetic import FieldArithmetic
from inweave.language import evaluate
from inweave.language import expressions as ex
from inweave.language.program import Traced
from inweave.model.modules import Module
from inweave.model.network import Network
from inweave.model.prompt import fill_prompt, rooted
from inweave.run.plan import Plan

Pairs = list[tuple[ex.Loop, int]]
"""The program's outermost loops, each with the index of the module that repeats it."""


class Mismatch(Exception):
    """Program and network part; says where."""


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
            if any((p.rows, p.cols) != symbol.shape for p in places):
                return None
    return [(loop, i) for loop, (i, _) in zip(order, modules, strict=True)]


def prompt(
    network: Network, arithmetic: FieldArithmetic, rng: np.random.Generator
) -> tuple[dict[str, FieldArray], FieldArray]:
    """Random inputs and the prompt they fill; where it holds a root, the root is drawn."""
    inputs, roots = {}, {}
    for spec in network.inputs:
        value = arithmetic.field.random((spec.rows, spec.cols), rng)
        if spec.name in rooted(network.fills):
            roots[spec.name], value = value, value * value
        inputs[spec.name] = value
    H = fill_prompt(network.layout, network.fills, inputs, arithmetic, roots)
    return inputs, H


class FieldCheck:
    """The comparison of one program with one network, at as many points as one asks for.

    `pairs` are the loops proved by one step, None once that failed; `general` tells whether states
    of any kind were drawn for them, or symmetric ones. What is run at every point is planned once.
    """

    def __init__(self, traced: Traced, network: Network) -> None:
        self.traced, self.network = traced, network
        self.pairs = matched_loops(traced, network)
        self.general = True
        self._plans: dict[tuple[Module, ...], Plan] = {}

    @property
    def method(self) -> str:
        return "direct" if self.pairs is None else "induction"

    def at_random(self, arithmetic: FieldArithmetic, rng: np.random.Generator) -> Mismatch | None:
        """Compare at one random point; what differs, if anything."""
        for general in (True, False) if self.general else (False,):
            if self.pairs is not None:
                try:
                    self._by_induction(self.pairs, arithmetic, rng, general)
                    self.general = general
                    return None
                except Mismatch:
                    continue
        self.pairs = None
        try:
            self._directly(arithmetic, rng)
        except Mismatch as found:
            return found
        return None

    def _directly(self, arithmetic: FieldArithmetic, rng: np.random.Generator) -> None:
        """Compare the answers of program and network."""
        inputs, H = prompt(self.network, arithmetic, rng)
        expected = self.traced.evaluate(inputs, arithmetic)
        self._compare(self._after(self.network.modules, H, arithmetic), expected)

    def _by_induction(
        self, pairs: Pairs, arithmetic: FieldArithmetic, rng: np.random.Generator, general: bool
    ) -> None:
        """Compare piece by piece, replacing the state of each loop by a random one.

        The states are any matrices, or, unless `general`, symmetric ones where the start is
        symmetric and a step keeps it so: that is checked too, and holds for every state that
        occurs.
        """
        modules, order = self.network.modules, ex.ordered(self.traced.outputs.values())
        inputs, H = prompt(self.network, arithmetic, rng)
        known: evaluate.Known = {x: inputs[x.name] for x in order if isinstance(x, ex.InputExpr)}
        at = 0
        for loop, index in pairs:
            module = modules[index]
            H = self._after(modules[at:index], H, arithmetic)
            before = [x for x in ex.ordered([*loop.init, *loop.outer]) if x not in known]
            evaluate.fill(before, known, arithmetic)
            start = [known[x] for x in loop.init]
            self._expect(H, module, start, arithmetic, f"the start of module {index}")
            kept = set() if general else {i for i, x in enumerate(start) if _is_symmetric(x)}
            state = _random_state(loop, kept, arithmetic.field, rng)
            after = evaluate.run(loop, state, known, arithmetic, 1)
            while lost := {i for i in kept if not _is_symmetric(after[i])}:
                kept -= lost
                state = _random_state(loop, kept, arithmetic.field, rng)
                after = evaluate.run(loop, state, known, arithmetic, 1)
            entered = self._overwritten(H, module, state, arithmetic)
            left = self._after((Module(module.body, 1, module.skip),), entered, arithmetic)
            self._expect(left, module, after, arithmetic, f"one step of module {index}")
            settled = self._overwritten(left, module, state, arithmetic)
            if not (settled == entered).all():
                raise Mismatch(f"one step of module {index} changes more than it carries")
            known[loop] = _random_state(loop, kept, arithmetic.field, rng)
            H = self._overwritten(H, module, known[loop], arithmetic)
            at = index + 1
        H = self._after(modules[at:], H, arithmetic)
        evaluate.fill([x for x in order if x not in known], known, arithmetic)
        self._compare(H, {name: known[x] for name, x in self.traced.outputs.items()})

    # -- states -----------------------------------------------------------------------------------
    def _after(
        self, modules: tuple[Module, ...], H: FieldArray, arithmetic: FieldArithmetic
    ) -> FieldArray:
        """The state after some modules, from any state."""
        if not modules:
            return H
        if modules not in self._plans:
            self._plans[modules] = Plan(Network(self.network.layout, modules))
        found: FieldArray = self._plans[modules].forward(H, arithmetic)
        return found

    def _compare(self, H: Array, expected: Mapping[str, Any]) -> None:
        """Refuse a state that does not hold the answers."""
        for output in self.network.outputs:
            same = output.place.read(self.network.layout, H) == expected[output.name]
            if not same.all():
                row, col = (int(i) for i in np.argwhere(~same)[0])
                name = f"output {output.name!r}" if output.name else "the answer"
                raise Mismatch(f"{name}, entry ({row}, {col})")

    def _expect(
        self,
        H: FieldArray,
        module: Module,
        values: Sequence[Any],
        arithmetic: FieldArithmetic,
        where: str,
    ) -> None:
        """Refuse a state that does not hold these carried values, each in all of its places."""
        if (self._overwritten(H, module, values, arithmetic) == H).all():
            return
        for places, value in zip(module.carries, values, strict=True):
            for place in places:
                if not (place.read(self.network.layout, H) == value).all():
                    raise Mismatch(f"{where}: block {place.block!r}")
        raise Mismatch(f"{where}: a diagonal")

    def _overwritten(
        self, H: FieldArray, module: Module, values: Sequence[Any], arithmetic: FieldArithmetic
    ) -> FieldArray:
        """A state with other carried values in it."""
        out, layout = H.values.copy(), self.network.layout
        for places, value in zip(module.carries, values, strict=True):
            for place in places:
                (rows, cols), left = place.extent, layout[place.block].start
                down = slice(place.row, place.row + rows)
                whole = place.write(layout, value, arithmetic).values
                out[down, left + place.col : left + place.col + cols] = whole[
                    down, place.col : place.col + cols
                ]
        return FieldArray(arithmetic.field, out)


def _is_symmetric(x: FieldArray) -> bool:
    return x.shape[-1] == x.shape[-2] and bool((x == x.mT).all())


def _random_state(
    loop: ex.Loop, symmetric: set[int], field: Field, rng: np.random.Generator
) -> list[Any]:
    """A uniformly random value for each that a loop carries; the given ones symmetric."""
    state = [field.random(x.shape, rng) for x in loop.carried]
    return [x + x.mT if i in symmetric else x for i, x in enumerate(state)]
