"""Divergence: an iteration with too large a step grows, and that is not silent.

It is looked for only when an answer is not finite or suspiciously large, so that a good call pays
nothing for it. Then the program itself is stepped to say where it happened and how fast it grows:
its first steps, if they are very many.
"""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from inweave.errors import DivergenceError, ProgramError
from inweave.exact.arithmetic import Floats
from inweave.exact.constants import Array
from inweave.language import evaluate
from inweave.language import expressions as ex
from inweave.language.program import Traced
from inweave.model.inputs import is_concrete
from inweave.run.lines.code import Lead

SUSPICIOUS = 1e8  # answers this much larger than every input are looked at
STEPS = 20_000  # of a loop that are looked at: a second
SUSTAINED = 0.5  # of the growth of all steps, that the last ones would come to
LATE = 1000  # steps between two changes of a loop whose growth shows in its changes only


def largest(x: Array, xp: Any) -> float:
    """The largest magnitude in an array, outside any gradient."""
    x = x.detach() if hasattr(x, "detach") else x
    return float(xp.max(xp.abs(x))) if math.prod(x.shape) else 0.0


def reach(answers: Mapping[str, Array], xp: Any) -> float:
    """The largest magnitude in the answers, where NaN counts as large; 0 if values are unknown."""
    if not all(is_concrete(value) for value in answers.values()):
        return 0.0
    found = [largest(value, xp) for value in answers.values()]
    return math.nan if any(map(math.isnan, found)) else max(found, default=0.0)


def grown(answers: Iterable[Array], inputs: Iterable[Array], lead: Lead) -> np.ndarray:
    """Which prompts of a batch reach too far, each beside its own inputs.

    All as (..., rows, cols) arrays, the batch axes of which broadcast to `lead`.
    """

    def each(arrays: Iterable[Array], least: float) -> np.ndarray:
        tops = (np.max(np.abs(_as_numpy(x)), axis=(-2, -1), initial=least) for x in arrays)
        return functools.reduce(np.maximum, tops, np.full(lead, least))

    return ~(each(answers, 0.0) <= SUSPICIOUS * each(inputs, 1.0))


def check_growth(
    program: Callable[[], Traced | None], inputs: Mapping[str, Array], top: float, xp: Any
) -> None:
    """Raise DivergenceError if the answers reach too far and the program's loops say why."""
    if top <= SUSPICIOUS:
        return
    scale = max([1.0, *(largest(x, xp) for x in inputs.values())])
    if math.isfinite(top) and top <= SUSPICIOUS * scale:
        return
    recorded, arrays = program(), {name: _as_numpy(x) for name, x in inputs.items()}
    if recorded is not None and recorded.flat is not None:  # a few steps in Python are meant so
        recorded = recorded.flat
    narrow = any("float32" in str(x.dtype) for x in inputs.values())
    diagnosis = diagnose(recorded, arrays) or _alone(recorded, arrays, top, narrow)
    if diagnosis:
        raise DivergenceError(
            f"the answer reached {top:.3g}, inputs are at most {scale:.3g}{diagnosis}"
            "; check=False returns it as it is"
        )


def _alone(traced: Traced | None, inputs: dict[str, Array], top: float, narrow: bool) -> str:
    """Whether it is the network alone that reaches so far, and not the program step by step.

    In floats of 64 bits, and if what was given is `narrow`, in those of 32 bits as well.
    """
    said = "" if math.isfinite(top) else "; an intermediate value overflowed"
    loops = {x.loop for x in traced.operations if isinstance(x, ex.LoopResult)} if traced else set()
    if traced is None or sum(loop.times for loop in loops) > STEPS:
        return said
    own = _reached(traced, inputs, np.float64)
    if not own <= (top / 2 if math.isfinite(top) else sys.float_info.max):
        return said
    if math.isfinite(top):
        return (
            f"; the program itself, step by step, reaches {own:.3g}: what this network multiplies "
            "before it meets the data, such as XᵀX, grows where only rounding errors meet it"
        )
    if narrow and not math.isfinite(_reached(traced, inputs, np.float32)):
        return (
            "; the program itself, step by step, leaves the range of float32, up to 3.4e38, and "
            f"reaches {own:.3g} in float64: give inputs in float64"
        )
    return (
        "; the program itself, step by step, stays finite: a product that this network multiplies "
        'out, such as a power of a step with optimize="depth", leaves the range of floats; '
        'optimize="faithful" keeps the steps, inweave.hold a value'
    )


def _reached(traced: Traced, inputs: Mapping[str, Array], dtype: Any) -> float:
    """The largest magnitude in a program's answers, in floats of a type; NaN counts as large."""
    arithmetic = Floats(np, dtype)
    with np.errstate(all="ignore"):
        given = {name: x.astype(dtype) for name, x in inputs.items()}
        return reach(traced.evaluate(given, arithmetic), np)


def _as_numpy(x: Array) -> Array:
    x = x.detach().cpu() if hasattr(x, "detach") else x
    return np.asarray(x, dtype=np.float64)


def diagnose(traced: Traced | None, inputs: dict[str, Array]) -> str:
    """Which loop grows, from which step on, how fast, and what would be stable."""
    if traced is None:
        return ""
    arithmetic = Floats()
    order = ex.ordered(traced.outputs.values())
    known: evaluate.Known = {x: inputs[x.name] for x in order if isinstance(x, ex.InputExpr)}
    with np.errstate(all="ignore"):
        for x in order:
            if isinstance(x, ex.LoopResult) and x.loop not in known:
                loop = x.loop
                state = [evaluate.value(y, known, arithmetic) for y in loop.init]
                sizes, changes = [_size(state)], list[float]()
                for step in range(min(loop.times, STEPS)):
                    before, state = state, evaluate.run(loop, state, known, arithmetic, 1)
                    sizes.append(_size(state))
                    if step % LATE == LATE - 1:
                        changes.append(_size([a - b for a, b in zip(state, before, strict=True)]))
                    if not math.isfinite(sizes[-1]) or sizes[-1] > 1e150:
                        break
                text = _growth(sizes, loop.carried[0].name)
                if not text and loop.times > STEPS:
                    text = _late(changes, loop.carried[0].name)
                if text or loop.times > STEPS:  # what comes after it is not known
                    return text and text + _stable(loop, inputs)
                known[loop] = state
            evaluate.fill([x], known, arithmetic)
    return ""


def _size(state: list[Array]) -> float:
    return float(max((np.max(np.abs(x), initial=0.0) for x in state), default=0.0))


def _growth(sizes: list[float], name: str) -> str:
    """'; w grows ...' if the last steps grow geometrically: as fast as all of them together.

    What grew at first, and comes to an end or goes on ever more slowly, does not diverge.
    """
    ratios = [b / a for a, b in itertools.pairwise(sizes) if a > 0 and math.isfinite(b)]
    if len(ratios) < 2:
        return ""
    factor = float(np.median(ratios[-5:]))
    start = max([1.0, *sizes[:2]])
    past = next(
        (t for t, size in enumerate(sizes) if size > 1e3 * start or not math.isfinite(size)), None
    )
    if factor <= 1.0 or past is None:
        return ""
    if math.isfinite(sizes[-1]) and len(ratios) * math.log(factor) < SUSTAINED * math.log(
        sizes[-1] / start
    ):
        return ""
    return (
        f": {name} grows by a factor of {_above_one(factor)} per step "
        f"and passes {1e3 * start:.3g} at step {past}"
    )


def _late(changes: list[float], name: str) -> str:
    """'; w grows ...' if a step changes more and more, by little: what it adds to is still larger.

    In an affine loop changes are what is multiplied in every step, and nothing else.
    """
    if len(changes) < 2 or not changes[-2] > 0 or not changes[-1] > changes[-2]:
        return ""
    factor = float((changes[-1] / changes[-2]) ** (1 / LATE))
    return f": what a step changes of {name} grows by a factor of {_above_one(factor)} per step"


def _above_one(factor: float) -> str:
    """A factor above one in digits that say how much above."""
    digits = 3 + max(0, -math.floor(math.log10(factor - 1))) if factor > 1 else 3
    return f"{factor:.{min(digits, 17)}g}"


def _stable(loop: ex.Loop, inputs: Mapping[str, Array]) -> str:
    """For `x ← x − s G x + c` with a scalar input s and symmetric G >= 0: the largest stable s."""
    symbol = loop.carried[0]
    if len(loop.carried) != 1 or symbol.cols != 1 or symbol.rows > 512:
        return ""
    if any(np.ndim(x) > 2 for x in inputs.values()):
        return ""

    def matrix(values: Mapping[str, Array]) -> Array:
        own: evaluate.Known = {
            x: values[x.name]
            for x in ex.every([*loop.step, *loop.init])
            if isinstance(x, ex.InputExpr)
        }
        outside = [x for x in ex.ordered([*loop.init, *loop.outer]) if x not in own]
        if any(isinstance(x, ex.LoopResult) for x in outside):
            raise ValueError
        evaluate.fill(outside, own, Floats())
        basis = np.eye(symbol.rows)[:, :, None]
        zero = evaluate.run(loop, [np.zeros((symbol.rows, 1))], dict(own), Floats(), 1)[0]
        moved = evaluate.run(loop, [basis], dict(own), Floats(), 1)[0]
        return (moved - zero)[..., 0].T

    scalars = [name for name, x in inputs.items() if np.shape(x) == (1, 1) and float(x[0, 0]) > 0]
    try:
        A, eye = matrix(inputs), np.eye(symbol.rows)
        for name in scalars:
            double = matrix({**inputs, name: 2 * inputs[name]})
            if np.allclose(double - eye, 2 * (A - eye), rtol=1e-9, atol=1e-12):
                G = (eye - A) / float(inputs[name][0, 0])
                if np.allclose(G, G.T, rtol=1e-8, atol=1e-10):
                    return (
                        f"; the largest stable {name} here is {2 / np.linalg.eigvalsh(G)[-1]:.4g}"
                    )
    except (ValueError, KeyError, ProgramError):
        return ""
    return ""
