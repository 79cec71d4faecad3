"""Every pass of a compilation checked: what it was given and what it made, at one random point.

The compiler's representations are evaluated in a finite field, each as it stands, and their answers
compared. A pass that changes an answer is refused by its name, however the passes after it would
hide that. This is no certificate, which is about the network alone: it says where to look.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from inweave.compiler.meaning import Answers, Point, meaning
from inweave.errors import VerificationError
from inweave.exact.field import Field, Ints, random_prime
from inweave.exact.field_arithmetic import FieldArithmetic
from inweave.language.program import Traced
from inweave.model.network import Network
from inweave.model.prompt import drawn_inputs, fill_prompt
from inweave.proof.cost import program_work
from inweave.run.plan import Plan

MOST_OPERATIONS = 1_000  # of a program; more are not evaluated a dozen times unasked
MOST_PRODUCTS = 100_000
MOST_STEPS = 300_000_000  # for all passes: heads are of whole matrices, of which most are zeros


class TooMuch(Exception):
    """The steps that a compilation's checks may take are done."""


class Metered(Field):
    """A field that reads so many numbers, and multiplies so many by matrix products, in all."""

    left = MOST_STEPS

    def matmul(self, a: Ints, b: Ints) -> Ints:
        self._step(a.size * b.shape[-1])
        return super().matmul(a, b)

    def residue(self, value: Any) -> Ints:
        self._step(np.size(value))
        return super().residue(value)

    def _step(self, count: int) -> None:
        object.__setattr__(self, "left", self.left - count)
        if self.left < 0:
            raise TooMuch


class PassCheck:
    """A check to hand to the driver; `notes` say of each pass what came of it."""

    def __init__(self, seed: int = 0) -> None:
        self.notes: dict[str, str] = {}
        self._rng = np.random.default_rng(seed)
        self._point: Point | None = None
        self._skipped = ""
        self._last: tuple[Any, Answers] | None = None

    def __call__(self, name: str, before: Any, after: Any) -> None:
        if isinstance(before, Traced) and (self._last is None or self._last[0] is not before):
            self._begin(before)
        try:
            found = None if self._point is None else self._evaluated(name, after)
        except TooMuch:
            self._point, self._skipped = None, f"that takes over {MOST_STEPS:,} multiplications"
            found = None
        if found is None or self._last is None:
            self.notes[name], self._last = f"not checked: {self._skipped}", None
            return
        _compare(name, self._last[1], found)
        self._last = (after, found)
        self.notes[name] = "checked: equal to what it was made from, at a random point"

    def _begin(self, recorded: Traced) -> None:
        """Draw a point for a program, unless it takes long to evaluate."""
        self._point = self._last = None
        operations, products = program_work(recorded)
        if operations > MOST_OPERATIONS or products > MOST_PRODUCTS:
            self._skipped = (
                f"its program takes {operations:,} operations and {products:,} multiplications"
            )
            return
        scalars = [spec.name for spec in recorded.inputs if spec.rows == spec.cols == 1]
        field = Metered(random_prime(self._rng))
        draw = partial(field.random, rng=self._rng)
        inputs, roots = drawn_inputs(recorded.inputs, scalars, draw)  # a prompt may hold a root
        arithmetic = FieldArithmetic(field, int(self._rng.integers(2**31)), opaque=True)
        self._point = Point(inputs, roots, arithmetic)
        self._last = (recorded, meaning(recorded, self._point))

    def _evaluated(self, name: str, made: Any) -> Answers:
        assert self._point is not None
        try:
            means = answers if isinstance(made, Network) else meaning
            return means(made, self._point)
        except TooMuch:
            raise
        except Exception as error:
            raise VerificationError(
                f"the pass {name!r} made something that has no meaning: {error!r}; this is a "
                "defect of inweave, please report the program"
            ) from error


def answers(network: Network, point: Point) -> Answers:
    """The answers of a network."""
    layout, arithmetic = network.layout, point.arithmetic
    H = fill_prompt(layout, network.fills, point.inputs, arithmetic, point.roots)
    H = Plan(network).forward(H, arithmetic)
    return {output.name: output.place.read(layout, H) for output in network.outputs}


def _compare(name: str, before: Answers, after: Answers) -> None:
    if list(before) != list(after):
        raise VerificationError(
            f"the pass {name!r} changed the answers from {list(before)} to {list(after)}"
        )
    for output, value in before.items():
        got = after[output]
        what = f"the output {output!r}" if output else "the answer"
        if got.shape != value.shape:
            raise VerificationError(
                f"the pass {name!r} changed the shape of {what} from {value.shape} to {got.shape}"
            )
        same = np.asarray(got == value)
        if not same.all():
            row, col = (int(i) for i in np.argwhere(~same)[0])
            raise VerificationError(
                f"the pass {name!r} changed the value of {what}, entry ({row}, {col}); this is a "
                "defect of inweave, please report the program"
            )
