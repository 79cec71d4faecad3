"""The check itself: program and network at the same random points of a finite field.

A tied loop is checked by induction: the network enters it with the program's start, one repetition
on a uniformly random state equals one step and leaves everything else as it was, and what follows
agrees for a random state too. That proves all repetitions at the cost of one. Where a step equals
the program's on symmetric states only, it is proved for those, together with the symmetry of the
start and of what a step leaves. It can only fail to prove: if neither succeeds, the whole loop is
run instead, and that decides.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np

from inweave.errors import ProgramError, VerificationError
from inweave.exact.arithmetic import Floats
from inweave.exact.constants import Array
from inweave.exact.field import LEAST, FieldArray, modulo, random_prime
from inweave.exact.field_arithmetic import FieldArithmetic
from inweave.language import evaluate
from inweave.language import expressions as ex
from inweave.language.program import Program, Traced
from inweave.model.layers import BlockPointwiseLayer
from inweave.model.modules import Module, Part
from inweave.model.network import Network
from inweave.model.prompt import Place, fill_prompt, rooted
from inweave.proof.certificate import Certificate
from inweave.proof.degree import Bounded, Heights, state_heights
from inweave.run.plan import plan

# more than this is not run in floating point unasked
FLOAT_LAYERS, FLOAT_FLOPS, FLOAT_OPERATIONS = 5000, 2e9, 200_000

SECONDS_PER_OPERATION = 3e-5  # of the program, two trials
SECONDS_PER_FLOP = 4e-9  # program and network, two trials, one core
UNSURE = 1e-3  # a larger chance of passing by accident is no certificate
MOST_TRIALS = 100  # more are not worth asking for
UNLUCKY = 8  # draws at which something is divided by zero, before that is taken for certain


class Mismatch(Exception):
    """Program and network part; says where."""


@dataclass
class Point:
    """Random inputs, and the roots of those whose square root the prompt holds."""

    inputs: dict[str, Any]
    roots: dict[str, Any]


def draw(network: Network, rng: np.random.Generator) -> Point:
    inputs, roots = {}, {}
    for spec in network.inputs:
        value = FieldArray.random((spec.rows, spec.cols), rng)
        if spec.name in rooted(network.fills):
            roots[spec.name], value = value, value * value
        inputs[spec.name] = value
    return Point(inputs, roots)


def verify(
    name: str,
    traced: Traced,
    network: Network,
    *,
    trials: int = 2,
    seed: int | None = None,
    reference: Callable[[], Network] | None = None,
) -> Certificate:
    """Check a network against a recorded program; a Certificate, or VerificationError.

    `reference` compiles the program again, to say where a wrong network parts from a right one.
    """
    compatible(name, traced, network)
    if not isinstance(trials, int) or trials < 1:
        raise ProgramError(f"verification needs at least one trial, got {trials!r}")
    if seed is not None and (not isinstance(seed, int) or seed < 0):
        raise ProgramError(f"the seed of a verification is a whole number from 0 on, got {seed!r}")
    seed = secrets.randbelow(2**32) if seed is None else seed
    try:
        method, height, prime = compared(traced, network, trials, seed, name, reference, True)
    except VerificationError:
        if not divides(traced):
            raise
        method, height, prime = compared(traced, network, trials, seed, name, reference, False)
    probability = float((min(height, LEAST) / LEAST) ** trials)  # a degree may pass any float
    if probability > UNSURE:
        raise VerificationError(
            f"no difference between network and program {name!r} was found, but that "
            f"proves nothing: their degree may reach {_rounded(height)}, and a wrong network would "
            f"pass with probability up to {probability:.2g}. {_remedy(traced, height)}; compile "
            "with verify=False to have it unproved"
        )
    return Certificate(
        program=name,
        network=network.fingerprint,
        method=method,
        prime=prime,
        seed=seed,
        trials=trials,
        degree=height,
        probability=probability,
        float_difference=float_difference(traced, network),
        functions=tuple(function_notes(traced, network)),
    )


def _rounded(height: int) -> str:
    return f"{height:.3g}" if height < 10**300 else f"{Decimal(height):.3g}"


def _remedy(traced: Traced, height: int) -> str:
    """What makes a proof out of a check that proves nothing, because the degree is too large."""
    if height < LEAST:
        enough = math.ceil(math.log(UNSURE) / math.log(height / LEAST))
        if enough <= MOST_TRIALS:
            return f"Ask for more trials: {enough} are enough, as in net.verify(trials={enough})"
    if any(isinstance(x, ex.LoopResult) for x in ex.every(traced.outputs.values())):
        return (
            'Compile with optimize="faithful", which keeps loops, and write every repetition with '
            "inweave.iterate: a loop is proved one step at a time"
        )
    return "Write the repetition with inweave.iterate, which is proved one step at a time"


def divides(traced: Traced) -> bool:
    """Whether a program uses a reciprocal."""
    every = ex.every(traced.outputs.values())
    return any(isinstance(x, ex.Applied) and x.function.is_reciprocal for x in every)


def compared(
    traced: Traced,
    network: Network,
    trials: int,
    seed: int,
    name: str,
    reference: Callable[[], Network] | None,
    opaque: bool,
) -> tuple[str, int, int]:
    """How program and network were found equal, the degree of what was compared, the least prime.

    Every trial has a prime of its own, drawn like the point. `opaque` takes a reciprocal for a
    function of which nothing is known, which keeps degrees small. A compiled network equals its
    program even so; another one may need that it is an inverse.
    """
    rng = np.random.default_rng(seed)
    pairs = matched_loops(traced, network)
    general, least = True, 2**31
    for trial in range(trials):
        arithmetic = FieldArithmetic(seed + trial, opaque)
        for _ in range(UNLUCKY):
            prime = random_prime(rng)
            try:
                with modulo(prime):
                    pairs, general, found = _trial(traced, network, pairs, arithmetic, rng, general)
                    where = (
                        "" if found is None else first_layer(network, rng, arithmetic, reference)
                    )
                break
            except ZeroDivisionError:  # the prime divides a denominator, or a pivot was drawn as 0
                continue
        else:
            raise VerificationError(
                f"program {name!r} divides by zero at {UNLUCKY} random points, so by what is zero "
                "everywhere"
            )
        if found is not None:
            raise VerificationError(f"network and program {name!r} differ: {found}{where}")
        least = min(least, prime)
    method = "direct" if pairs is None else "induction"
    return method, checked_height(traced, network, pairs, opaque), least


def _trial(
    traced: Traced,
    network: Network,
    pairs: list[tuple[ex.Loop, int]] | None,
    arithmetic: FieldArithmetic,
    rng: np.random.Generator,
    general: bool,
) -> tuple[list[tuple[ex.Loop, int]] | None, bool, Mismatch | None]:
    """Compare at one point; which loops, if any, were proved by one step, how, and what differs."""
    if pairs is not None:
        for states in (True, False) if general else (False,):
            try:
                point = draw(network, rng)
                by_induction(traced, network, pairs, point, arithmetic, rng, states)
                return pairs, states, None
            except Mismatch:
                continue
    try:
        directly(traced, network, draw(network, rng), arithmetic)
    except Mismatch as found:
        return None, general, found
    return None, general, None


def trace_for(program: Program, network: Network, sizes: Mapping[str, Any]) -> Traced:
    """The program at the network's own sizes."""
    found = dict(sizes)
    for spec in network.inputs:
        kind = program.arguments.get(spec.name)
        if kind is None:
            continue
        for size, value in zip(kind.sizes, (spec.rows, spec.cols), strict=False):
            if isinstance(size, str):
                found.setdefault(size, value)
    return program.trace(**found)


def compatible(name: str, traced: Traced, network: Network) -> None:
    """Refuse a network whose inputs or answers are not the program's."""
    mine = {spec.name: (spec.rows, spec.cols) for spec in network.inputs}
    theirs = {spec.name: (spec.rows, spec.cols) for spec in traced.inputs}
    if mine != theirs:
        raise VerificationError(f"program {name!r} takes {theirs}, the network takes {mine}")
    if list(traced.outputs) != [output.name for output in network.outputs]:
        raise VerificationError(
            f"program {name!r} answers {list(traced.outputs)}, "
            f"the network {[output.name for output in network.outputs]}"
        )


def matched_loops(traced: Traced, network: Network) -> list[tuple[ex.Loop, int]] | None:
    """The program's outermost loops, each with the module that repeats it; None if they differ."""
    roots = traced.outputs.values()
    loops = {x.loop for x in ex.ordered(roots) if isinstance(x, ex.LoopResult)}
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


def program_work(traced: Traced, once: bool = False) -> tuple[int, int]:
    """Operations and multiplications that evaluating a program takes.

    With `once`, an outermost loop counts as one step: so it is where the network has that loop too.
    """

    def work(order: Sequence[ex.Expr], once: bool) -> np.ndarray[Any, Any]:
        total, loops = np.zeros(2, dtype=object), set[ex.Loop]()
        for x in order:
            parts = x.parts
            inner = parts[0].cols if len(parts) == 2 and parts[0].cols == parts[1].rows else 1
            total += 1, x.rows * x.cols * inner
            if isinstance(x, ex.LoopResult):
                loops.add(x.loop)
        for loop in loops:
            body = ex.ordered(loop.step, stop=loop.carried)
            total += (1 if once else loop.times) * work(body, once=False)
        return total

    operations, products = work(ex.ordered(traced.outputs.values()), once)
    return int(operations), int(products)


def seconds(traced: Traced, network: Network) -> float:
    """About how many seconds it takes to verify a network; of a loop, one step is checked.

    But a network without the program's loops is checked against all of their steps.
    """
    once = tuple(replace(m, repeat=1) if m.carries else m for m in network.modules)
    flops = plan(
        Network(network.layout, once, network.inputs, network.fills, network.outputs)
    ).flops
    operations, products = program_work(traced, once=matched_loops(traced, network) is not None)
    return (flops + products) * SECONDS_PER_FLOP + operations * SECONDS_PER_OPERATION


def run_parts(
    network: Network, parts: Sequence[Part], H: Array, arithmetic: FieldArithmetic
) -> Array:
    """The state after some parts of a network, from any state."""
    modules = tuple(p if isinstance(p, Module) else Module((p,)) for p in parts)
    return plan(Network(network.layout, modules)).forward(H, arithmetic)


def directly(traced: Traced, network: Network, point: Point, arithmetic: FieldArithmetic) -> None:
    """Compare the answers of program and network."""
    expected = traced.evaluate(point.inputs, arithmetic)
    H = fill_prompt(network.layout, network.fills, point.inputs, arithmetic, point.roots)
    H = run_parts(network, network.modules, H, arithmetic)
    compare(network, H, expected)


def compare(network: Network, H: Array, expected: Mapping[str, Any]) -> None:
    for output in network.outputs:
        got = output.place.read(network.layout, H)
        same = got == expected[output.name]
        if not same.all():
            row, col = (int(i) for i in np.argwhere(~same)[0])
            name = f"output {output.name!r}" if output.name else "the answer"
            raise Mismatch(f"{name}, entry ({row}, {col})")


def by_induction(
    traced: Traced,
    network: Network,
    pairs: Sequence[tuple[ex.Loop, int]],
    point: Point,
    arithmetic: FieldArithmetic,
    rng: np.random.Generator,
    general: bool,
) -> None:
    """Compare piece by piece, replacing the state of each loop by a random one.

    The states are any matrices, or, unless `general`, symmetric ones where the start is symmetric
    and a step keeps it so: that is checked too, and then holds for every state that occurs.
    """
    layout, roots = network.layout, list(traced.outputs.values())
    order = ex.ordered(roots)
    known: evaluate.Known = {x: point.inputs[x.name] for x in order if isinstance(x, ex.InputExpr)}
    H = fill_prompt(layout, network.fills, point.inputs, arithmetic, point.roots)
    at = 0
    for loop, index in pairs:
        module = network.modules[index]
        H = run_parts(network, network.modules[at:index], H, arithmetic)
        before = [x for x in ex.ordered([*loop.init, *loop.outer]) if x not in known]
        evaluate.fill(before, known, arithmetic)
        start = [known[x] for x in loop.init]
        _expect(network, H, module, start, arithmetic, f"the start of module {index}")
        kept = set() if general else {i for i, x in enumerate(start) if _is_symmetric(x)}
        state = _random_state(loop, kept, rng)
        after = evaluate.run(loop, state, known, arithmetic, 1)
        while lost := {i for i in kept if not _is_symmetric(after[i])}:
            kept -= lost
            state = _random_state(loop, kept, rng)
            after = evaluate.run(loop, state, known, arithmetic, 1)
        entered = overwrite(network, H, module, state, arithmetic)
        left = run_parts(network, (Module(module.body, 1, module.skip),), entered, arithmetic)
        _expect(network, left, module, after, arithmetic, f"one step of module {index}")
        settled = overwrite(network, left, module, state, arithmetic)
        if not (settled == entered).all():
            raise Mismatch(f"one step of module {index} changes more than it carries")
        final = _random_state(loop, kept, rng)
        known[loop] = final
        H = overwrite(network, H, module, final, arithmetic)
        at = index + 1
    H = run_parts(network, network.modules[at:], H, arithmetic)
    evaluate.fill([x for x in order if x not in known], known, arithmetic)
    compare(network, H, {name: known[x] for name, x in traced.outputs.items()})


def _is_symmetric(x: FieldArray) -> bool:
    return x.shape[-1] == x.shape[-2] and bool((x == x.mT).all())


def _random_state(loop: ex.Loop, symmetric: set[int], rng: np.random.Generator) -> list[Any]:
    """A uniformly random value for each that a loop carries; the given ones symmetric."""
    state = [FieldArray.random(x.shape, rng) for x in loop.carried]
    return [x + x.mT if i in symmetric else x for i, x in enumerate(state)]


def _expect(
    network: Network,
    H: Array,
    module: Module,
    values: Sequence[Any],
    arithmetic: FieldArithmetic,
    where: str,
) -> None:
    """Refuse a state that does not hold these carried values, each in all of its places."""
    if (overwrite(network, H, module, values, arithmetic) == H).all():
        return
    for places, value in zip(module.carries, values, strict=True):
        for place in places:
            if not (place.read(network.layout, H) == value).all():
                raise Mismatch(f"{where}: block {place.block!r}")
    raise Mismatch(f"{where}: a diagonal")


def overwrite(
    network: Network, H: Array, module: Module, values: Sequence[Any], arithmetic: FieldArithmetic
) -> Array:
    """A state with other carried values in it."""
    out = H.values.copy()
    for places, value in zip(module.carries, values, strict=True):
        for place in places:
            block = network.layout[place.block]
            rows, cols = place.extent
            where = (slice(place.row, place.row + rows),
                     slice(block.start + place.col, block.start + place.col + cols))  # fmt: skip
            own = Place(place.block, place.rows, place.cols, place.row, place.col, place.transpose,
                        place.diagonal)  # fmt: skip
            whole = own.write(network.layout, value, arithmetic).values
            out[where] = whole[place.row : place.row + rows, place.col : place.col + cols]
    return FieldArray(out)


def first_layer(
    network: Network,
    rng: np.random.Generator,
    arithmetic: FieldArithmetic,
    compiled: Callable[[], Network] | None,
) -> str:
    """The first layer at which a network parts from a fresh compilation of its own program."""
    if compiled is None:
        return ""
    reference = compiled()
    if reference.layout != network.layout or len(reference.modules) != len(network.modules):
        return ""
    point = draw(network, rng)
    H = fill_prompt(network.layout, network.fills, point.inputs, arithmetic, point.roots)
    mine = list(_unrolled(network.modules))
    theirs = list(_unrolled(reference.modules))
    for (name, part), (_, other) in zip(mine, theirs, strict=False):
        if part == other:
            H = run_parts(network, (part,), H, arithmetic)
            continue
        a = run_parts(network, (part,), H, arithmetic)
        b = run_parts(network, (other,), H, arithmetic)
        if not (a == b).all():
            _, col = (int(i) for i in np.argwhere(~(a == b))[0])
            return f"; first at {name}, which writes block {network.layout.at(col).name!r}"
        H = a
    return ""


def _unrolled(parts: Sequence[Part], name: str = "module") -> Any:
    """(name, layer) for every executed layer; a repeated module is entered once per step."""
    for i, part in enumerate(parts):
        if not isinstance(part, Module):
            yield f"{name}, layer {i}", part
            continue
        if part.skip:
            yield f"{name} {i}", Module(part.body, 1, True)
            continue
        for t in range(min(part.repeat, 3)):
            here = f"{name} {i}" + (f", step {t}" if part.repeat != 1 else "")
            yield from _unrolled(part.body, here)


def checked_height(
    traced: Traced,
    network: Network,
    pairs: Sequence[tuple[ex.Loop, int]] | None,
    opaque: bool = False,
) -> int:
    """A bound on the degree of every polynomial that was compared, arguments of functions too."""
    heights = Heights(opaque)
    inputs: dict[str, Array] = {s.name: Bounded((s.rows, s.cols), (1, 0)) for s in traced.inputs}
    start = {block.name: (-1, 0) for block in network.layout}
    for fill in network.fills:
        own = (0, 0) if fill.source is None else (1, 0)
        own = (own[0] + len(fill.scale), 0)
        start[fill.place.block] = max(start[fill.place.block], own)
    factor = 2 if rooted(network.fills) else 1
    worst, at, state = 0, 0, start
    known: evaluate.Known = {}
    order = ex.ordered(traced.outputs.values())
    for x in order:
        if isinstance(x, ex.InputExpr):
            known[x] = inputs[x.name]
    for loop, index in pairs or ():
        module = network.modules[index]
        state = state_heights(network, network.modules[at:index], state, heights)
        free = [Bounded(x.shape, (1, 0)) for x in loop.carried]
        evaluate.fill(
            [x for x in ex.ordered([*loop.init, *loop.outer]) if x not in known],
            known,
            heights,
        )
        worst = max([worst, *(_total(known[x].height) for x in loop.init)])
        worst = max(
            [worst, *(_total(x.height) for x in evaluate.run(loop, free, known, heights, 1))]
        )
        for places in module.carries:
            for place in places:
                worst = max(worst, _total(state[place.block]))
                state[place.block] = (1, 0)
        after = state_heights(network, [Module(module.body, 1, module.skip)], state, heights)
        worst = max([worst, *(_total(h) for h in after.values())])
        known[loop] = free
        at = index + 1
    state = state_heights(network, network.modules[at:], state, heights)
    evaluate.fill([x for x in order if x not in known], known, heights)
    worst = max([worst, *(_total(known[x].height) for x in traced.outputs.values())])
    worst = max([worst, *(_total(state[o.place.block]) for o in network.outputs)])
    return factor * (worst + heights.arguments)


def _total(height: tuple[int, int]) -> int:
    return max(height[0], 0) + height[1]


def float_difference(traced: Traced, network: Network) -> float | None:
    """The largest relative difference in float64 on one random input.

    None if it overflows, if it takes a function out of its domain, or if running every step would
    cost far more than the exact check of one.
    """
    from inweave.run.checks import OutOfDomain

    if network.depth > FLOAT_LAYERS or plan(network).flops > FLOAT_FLOPS:
        return None
    if program_work(traced)[0] > FLOAT_OPERATIONS:
        return None
    rng = np.random.default_rng(0)
    inputs = {}
    for spec in network.inputs:
        value = rng.uniform(-1, 1, size=(spec.rows, spec.cols)) / max(spec.rows, spec.cols)
        inputs[spec.name] = np.abs(value) if spec.sign != "any" else value
    worst = 0.0
    with np.errstate(all="ignore"):
        try:
            expected = traced.evaluate(inputs, Watched())
        except OutOfDomain:
            return None
        found = plan(network).answers(inputs, Floats())
        for name, value in expected.items():
            scale = float(np.max(np.abs(value), initial=0.0))
            gap = float(np.max(np.abs(value - found[name]), initial=0.0))
            if not np.isfinite(scale) or not np.isfinite(gap):
                return None
            worst = max(worst, gap / scale if scale else gap)
    return worst


class Watched(Floats):
    """Floats in which a function refuses what lies outside its domain."""

    def pointwise(self, function: Any, x: Array) -> Array:
        from inweave.run.checks import guard

        guard(function, x, self.xp)
        return super().pointwise(function, x)


def function_notes(traced: Traced, network: Network) -> list[str]:
    """What the certificate says about pointwise functions: only their wiring is checked exactly."""
    program = [x.function for x in ex.every(traced.outputs.values()) if isinstance(x, ex.Applied)]
    layers = [layer for layer in network.layers if isinstance(layer, BlockPointwiseLayer)]
    applied = [function for layer in layers for _, function in layer.applied]
    return [note for note in dict.fromkeys(f.note() for f in (*program, *applied)) if note]
