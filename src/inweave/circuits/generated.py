"""Programs drawn from a seed: products, sums and loops of a few matrices and vectors.

A program is drawn as Python text, statement by statement, each from what was computed before; what
the answer does not need is left out. Numbers stay near one: every product is halved, degrees are
bounded, loops are short. The text is what is compiled, kept in the network's file, and shown on the
model's card.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import inweave
from inweave.language.program import Program

INPUTS = {  # what may be given: its kind and the names of its sizes
    "X": ("n", "d"),
    "A": ("d", "d"),
    "B": ("d", "d"),
    "y": ("n",),
    "u": ("d",),
    "w": ("d",),
    "s": (),
}
NAMES = "abcefghpqrtvz"
FACTORS = ("+ ", "- ", "+ 0.5 * ", "- 0.5 * ")
HIGHEST = 16  # degree


@dataclass(frozen=True)
class Value:
    """A value of a program that is being written."""

    name: str
    shape: tuple[str, ...]  # names of sizes: (), (d) or (n, d)
    degree: int


@dataclass(frozen=True)
class Statement:
    """One line, and the values that it needs."""

    made: Value
    text: str
    needs: tuple[str, ...]


def generated(seed: int) -> Program:
    """The program of a seed."""
    name, text = f"generated_{seed}", source(seed)
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, object] = {
        "inweave": inweave,
        "Matrix": inweave.Matrix,
        "Vector": inweave.Vector,
        "Scalar": inweave.Scalar,
    }
    exec(compile(text, file, "exec"), space)  # it was written just above, here
    return inweave.program(space[name])  # type: ignore[arg-type]


def source(seed: int) -> str:
    """The text of a program."""
    rng = np.random.default_rng(seed)
    while True:
        writer = Writer(rng)
        for _ in range(int(rng.integers(6, 14))):
            writer.statement()
        answers = writer.answers()
        if answers:
            break
    lines = list(writer.needed(answers))
    used = {name for line in lines for name in line.needs} | set(answers)
    given = [f"{name}: {_annotation(INPUTS[name])}" for name in INPUTS if name in used]
    head = f"def generated_{seed}({', '.join(given)}):\n"
    body = "".join(f"    {line.made.name} = {line.text}\n" for line in lines)
    return f"{head}{body}    return {', '.join(answers)}\n"


def _annotation(shape: tuple[str, ...]) -> str:
    kind = ("Scalar", "Vector", "Matrix")[len(shape)]
    return kind if not shape else f"{kind}[{', '.join(repr(size) for size in shape)}]"


class Writer:
    """Draws statements that fit what is there."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        some = rng.permutation(len(INPUTS))[: rng.integers(3, 6)]
        kept = {list(INPUTS)[i] for i in some} | {"X", "w"}  # with which something always fits
        self.pool = [Value(name, INPUTS[name], 1) for name in INPUTS if name in kept]
        self.lines: list[Statement] = []

    def among(self, several: list[Value]) -> Value:
        """One of some values; those that nothing was made of yet are likelier."""
        weights = np.array([3.0 if v in self.loose() else 1.0 for v in several])
        return several[int(self.rng.choice(len(several), p=weights / weights.sum()))]

    def loose(self) -> list[Value]:
        """What was computed, and nothing of it."""
        used = {name for line in self.lines for name in line.needs}
        return [line.made for line in self.lines if line.made.name not in used]

    def statement(self) -> None:
        """One more line, if what was drawn fits."""
        draw = self.rng.random()
        kind = self._loop if draw < 0.15 else self._sum if draw < 0.45 else self._product
        kind(self.among(self.pool))

    def put(self, text: str, shape: tuple[str, ...], degree: int, *needs: Value) -> None:
        if degree > HIGHEST or len(self.lines) == len(NAMES):
            return
        made = Value(NAMES[len(self.lines)], shape, degree)
        self.lines.append(Statement(made, text, tuple(v.name for v in needs)))
        self.pool.append(made)

    def _sum(self, left: Value) -> None:
        right = self.among([v for v in self.pool if v.shape == left.shape])
        factor = FACTORS[int(self.rng.integers(len(FACTORS)))]
        if left == right:
            return
        joint = (
            f"{left.name} - {right.name}"
            if factor == "- "
            else f"{left.name} + {factor}{right.name}"
        )
        self.put(joint, left.shape, max(left.degree, right.degree), left, right)

    def _product(self, left: Value) -> None:
        fits = list(_products(left, self.pool))
        if not fits:
            return
        text, shape, right = fits[int(self.rng.integers(len(fits)))]
        self.put(f"{text} / 2", shape, left.degree + right.degree, left, right)

    def _loop(self, start: Value) -> None:
        """`v ← v / 2 + M v / 4`, a few times, for a square or a symmetric product M."""
        if not start.shape:
            return
        size, times = start.shape[0], int(self.rng.integers(2, 4))
        steps = [(f"{m.name} @ v", m) for m in self.pool if m.shape == (size, size)]
        for m in self.pool:
            if len(m.shape) == 2 and m.shape[0] != m.shape[1] and size in m.shape:
                inner, outer = (
                    (m.name, f"{m.name}.T") if m.shape[1] == size else (f"{m.name}.T", m.name)
                )
                steps.append((f"{outer} @ ({inner} @ v)", m))
        if not steps:
            return
        step, m = steps[int(self.rng.integers(len(steps)))]
        text = f"inweave.iterate(lambda v: v / 2 - {step} / 4, {start.name}, {times})"
        self.put(text, start.shape, start.degree + times * m.degree, start, m)

    def answers(self) -> tuple[str, ...]:
        """The last values that nothing was made of; none if one layer could compute them."""
        found = self.loose()[-2:]
        return tuple(v.name for v in found) if any(v.degree > 3 for v in found) else ()

    def needed(self, answers: tuple[str, ...]) -> Iterator[Statement]:
        """The lines that some answers need, in order."""
        wanted, kept = set(answers), list[Statement]()
        for line in reversed(self.lines):
            if line.made.name in wanted:
                wanted |= set(line.needs)
                kept.append(line)
        return reversed(kept)


def _products(left: Value, pool: list[Value]) -> Iterator[tuple[str, tuple[str, ...], Value]]:
    """Every product of a value with others, as a text, with its shape."""
    for right in pool:
        a, b = left.shape, right.shape
        if not a or not b:
            yield f"{left.name} * {right.name}", a or b, right
            continue
        if len(a) == len(b) == 1:
            yield f"inweave.outer({left.name}, {right.name})", (a[0], b[0]), right
        if a[-1] == b[0]:
            yield f"{left.name} @ {right.name}", (*a[:-1], *b[1:]), right
        if len(a) == 2 and a[0] == b[0]:
            yield f"{left.name}.T @ {right.name}", (a[1], *b[1:]), right
