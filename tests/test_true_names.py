"""A name that reads as algebra is true: its value, on random data, is what the block holds.

Names are read by a small parser that knows the inputs, and of each loop, run here in numpy: its
matrix (`A`), what it carries after k steps (`w₉`) and after k steps from zero (`z₉`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.compiler.names import CUT
from inweave.exact.names import GREEK, OTHERS, THEN
from inweave.gallery.least_squares import chebyshev_weights
from inweave.text.network import Words
from scripts.least_depth import PROGRAMS, SMALL, sizes
from tests import ways

pytestmark = pytest.mark.usefixtures("unchecked_passes")
CARRIED = {"w", "v", "a", "x", "M", "omega"}  # by the loops below
RAISED, LOWERED = "⁰¹²³⁴⁵⁶⁷⁸⁹", "₀₁₂₃₄₅₆₇₈₉"
NEUTRAL = re.compile(r"(part\d+|answer|out\d*|first|second)ᵀ?|I")


# -- names as values -------------------------------------------------------------------------------
class Unreadable(Exception):
    """A word of a name is none that a reader could know."""


class Reader:
    """Evaluates one name: sums of products of known words, written side by side or with dots."""

    def __init__(self, name: str, known: Mapping[str, Any]) -> None:
        self.rest, self.known = name, known

    def value(self) -> Any:
        out = self.sum()
        if self.rest:
            raise Unreadable(self.rest)
        return out

    def take(self, pattern: str) -> str:
        found = re.match(pattern, self.rest)
        self.rest = self.rest[found.end() :] if found else self.rest
        return found.group() if found else ""

    def sum(self) -> Any:
        out = self.signed()
        while self.rest[:1] in ("+", "−") and self.rest:
            out = added(out, self.signed())
        return out

    def signed(self) -> Any:
        sign = self.take("[+−]")
        out = self.factor()
        while self.rest and self.rest[0] not in "+−)":
            self.take("·")
            out = times(out, self.factor())
        return -out if sign == "−" else out

    def factor(self) -> Any:
        if self.take(r"\("):
            out = self.sum()
            assert self.take(r"\)"), self.rest
        elif digits := self.take(r"[0-9]+(/\d+|(\.\d+)?(e[-+]?\d+)?)"):
            top, _, bottom = digits.partition("/")
            out = float(top) / float(bottom or 1)
        else:
            out = self.symbol()
        while mark := self.take(f"ᵀ|[{RAISED}]+"):
            out = np.transpose(out) if mark == "ᵀ" else power(out, digits_of(mark, RAISED))
        return out

    def symbol(self) -> Any:
        """The longest word that is known here, with steps below it, a power, a place in it."""
        words = [word for word in self.known if self.rest.startswith(word)]
        if not words:
            raise Unreadable(self.rest)
        word = max(words, key=len)
        self.rest = self.rest.removeprefix(word)
        found = self.known[word]
        if not isinstance(found, Word):
            return found
        steps = self.take(f"[{LOWERED}]+(‥[{LOWERED}]+)?")
        out = found.after(*(digits_of(step, LOWERED) for step in steps.split("‥") if step))
        if exponent := self.take(f"[{RAISED}]+"):
            out = power(out, digits_of(exponent, RAISED))
        rows, *cols = self.take(r"\[\w+(,\w+)?\]")[1:-1].split(",")
        out = out[found.places[rows]] if rows else out
        return out[:, found.places[cols[0]]] if cols else out


def digits_of(text: str, digits: str) -> int:
    return int("".join(str(digits.index(c)) for c in text))


def power(value: Any, exponent: int) -> Any:
    return np.linalg.matrix_power(value, exponent) if np.ndim(value) else value**exponent


def times(a: Any, b: Any) -> Any:
    return a * b if np.ndim(a) == 0 or np.ndim(b) == 0 else a @ b


def added(a: Any, b: Any) -> Any:
    """A sum; a number beside a matrix stands for that multiple of I."""
    size = max(np.shape(a), np.shape(b), key=len)
    a, b = (x * np.eye(size[0]) if size and np.ndim(x) == 0 else x for x in (a, b))
    return a + b


# -- loops as words --------------------------------------------------------------------------------
class Word(NamedTuple):
    """What a name of a loop stands for, by the steps below it; where in it carried values stand."""

    after: Callable[..., Any]
    places: Mapping[str, Any]

    def turned(self, square: bool) -> Word:
        """The transpose, whose places are columns if it is not square."""
        places = {name: place if square else np.s_[:, place] for name, place in self.places.items()}
        return Word(lambda *steps: self.after(*steps).T, places)


class Loop:
    """A loop in numpy, all that it carries on top of one another."""

    def __init__(
        self,
        start: Mapping[str, Any],
        step: Callable[..., Any],
        matrix: str = "A",
        zero: str = "z",
        row: bool = False,
    ) -> None:
        columns = [np.reshape(x, (len(x), -1)) for x in start.values()]
        ends = np.cumsum([len(x) for x in columns])
        self.places = {
            name: slice(end - len(x), end)
            for name, x, end in zip(start, columns, ends, strict=True)
        }
        self.start, self.step, self.row = np.vstack(columns), step, row
        self.matrix, self.zero = matrix, zero

    def run(self, stacked: Any, first: int, last: int) -> Any:
        for number in range(first, last + 1):
            made = self.step(number, *(stacked[place] for place in self.places.values()))
            stacked = np.vstack(made if isinstance(made, tuple) else [made])
        return stacked

    def linear(self, first: int = 1, last: int | None = None) -> Any:
        """The matrix of some steps."""
        units = np.eye(len(self.start))[:, :, None] * np.eye(1, self.start.shape[1])
        steps = first, last or first
        none = self.run(0 * self.start, *steps)
        return np.stack([(self.run(unit, *steps) - none)[:, 0] for unit in units], axis=1)

    def states(self, place: slice, *steps: int) -> Any:
        """What is carried now, after so many steps, or from zero after steps a to b."""
        if len(steps) < 2:
            return self.run(self.start, 1, *(steps or [0]))[place]
        return self.run(0 * self.start, *steps)[place]

    def sums(self, *steps: int) -> Any:
        return self.run(0 * self.start, *([1, *steps] if len(steps) == 1 else steps))

    @property
    def words(self) -> dict[str, Word]:
        out = {name: Word(partial(self.states, at), {}) for name, at in self.places.items()}
        if len(out) > 1:
            whole = slice(0, len(self.start))
            out[f"[{','.join(self.places)}]"] = Word(partial(self.states, whole), {})
        out[self.zero] = Word(self.sums, self.places)
        out[self.matrix] = Word(self.linear, self.places)
        if self.row:  # a row is multiplied from the right
            out = {name: word.turned(name == self.matrix) for name, word in out.items()}
        return out


# -- what blocks hold ------------------------------------------------------------------------------
def false_names(
    net: Any, inputs: Mapping[str, Any], loops: Callable[[Mapping[str, Any]], list[Any]]
) -> list[str]:
    """The names that are not what their blocks hold when a layer has written them.

    `loops` are those that collapsed and the words of others, by what blocks hold before a layer.
    """
    unpack = net.layout.unpack
    steps = [
        (step.layer, meanings(inputs, loops(unpack(step.before))), unpack(step.after))
        for step in net.trace(**inputs).steps
    ]
    turns, wrong = Words(net).turns, []
    for block in net.layout.names:
        at = {name: i for i, name in turns.get(block, {}).items()}
        for name in block.split(THEN):
            shown = re.sub("′[0-9]*$", "", name)  # the same once more
            if NEUTRAL.fullmatch(shown) or CUT in shown or name == OTHERS:
                continue
            if shown.removesuffix("ᵀ") in CARRIED:  # by a loop that stayed one
                continue
            told = [step for step in steps if name in at and step[0] is net.layers[at[name]]]
            try:
                if not any(
                    stands(Reader(shown, known).value(), held[block])
                    for _, known, held in told or steps
                ):
                    wrong.append(f"{block}: {name} is not what stands there")
            except Unreadable as error:
                wrong.append(f"{block}: {name} is not to be read at {error}")
    return wrong


def meanings(inputs: Mapping[str, Any], loops: list[Any]) -> dict[str, Any]:
    """All words that a reader knows."""
    out: dict[str, Any] = {"I": 1.0}
    for loop in loops:
        out |= loop.words if isinstance(loop, Loop) else loop
    for name, value in inputs.items():
        out[GREEK.get(name, name)] = out[name] = value[:, None] if np.ndim(value) == 1 else value
    return out


def stands(value: Any, held: Any) -> bool:
    """Whether a value stands at the top of a block, with zeros below; a scalar once or as s I."""
    value = value * np.eye(held.shape[-1]) if np.ndim(value) == 0 else np.asarray(value)
    if value.shape[1] != held.shape[1] or len(value) > len(held):
        return False
    padded = np.zeros(held.shape)
    padded[: len(value)] = value
    return bool(np.allclose(padded, held, rtol=1e-5, atol=1e-8 * np.abs(value).max()))


# -- the families ----------------------------------------------------------------------------------
def drawn(**shapes: Any) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=shape) * 0.7 for name, shape in shapes.items()}


def descent_loop(
    v: Any, step: Any = 0.01, lam: Any = 0.0, start: Any = (0.0, 0.0), **named
) -> Loop:
    return Loop(
        {"w": np.array(start)},
        lambda _, w: w - step * (v["X"].T @ (v["X"] @ w - v["y"][:, None]) + lam * w),
        **named,
    )


n, d, m = SMALL["n"], SMALL["d"], SMALL["m"]
DATA = {"X": (n, d), "y": n, "u": d, "lam": (), "eta": (), "beta": (), "w0": d, "D": (n, n),
        "A": (m, m), "b": m, "alpha": (), "Phi": (n, d), "After": (n, d), "r": n,
        "gamma": ()}  # fmt: skip


def momentum(v: Any, gradient_at: Any) -> Loop:
    def step(_: int, w: Any, x: Any) -> Any:
        z = w + v["beta"] * (w - x)
        g = z if gradient_at == "z" else w
        slope = v["X"].T @ (v["X"] @ g - v["y"][:, None]) + v["lam"] * g
        return z - v["eta"] * slope, w

    return Loop({"w": np.zeros(d), "v": np.zeros(d)}, step)


def chebyshev_loop(v: Any, steps: int) -> Loop:
    omega = chebyshev_weights(1.0, 100.0, steps)

    def step(k: int, w: Any, x: Any) -> Any:
        slope = v["X"].T @ (v["X"] @ w - v["y"][:, None]) + v["lam"] * w
        return x + omega[(k - 1) % steps] * (w - x - 2 / 101 * slope), w

    return Loop({"w": np.zeros(d), "v": np.zeros(d)}, step)


def inverse_loop(v: Any) -> Loop:
    start = v["alpha"] * v["A"].T
    return Loop({"S": np.zeros((m, m))}, lambda _, S: S - start @ v["A"] @ S + start, matrix="B")


LOOPS: dict[str, Callable[[Any, int], Loop]] = {
    "descent": lambda v, _: descent_loop(v),
    "ridge": lambda v, _: descent_loop(v, v["eta"], v["lam"]),
    "ridge_gd": lambda v, _: descent_loop(v, v["eta"], v["lam"], v["w0"]),
    "heavy_ball": lambda v, _: momentum(v, "w"),
    "nesterov": lambda v, _: momentum(v, "z"),
    "td0": lambda v, _: Loop(
        {"w": np.zeros(d)},
        lambda _, w: w + v["eta"] * v["Phi"].T
        @ (v["r"][:, None] + v["gamma"] * v["After"] @ w - v["Phi"] @ w),
    ),
    "weighted_least_squares": lambda v, _: Loop(
        {"w": np.zeros(d)},
        lambda _, w: w
        - v["eta"] * (v["X"].T @ v["D"] @ (v["X"] @ w - v["y"][:, None]) + v["lam"] * w),
    ),
    "neumann_series": lambda v, _: Loop({"x": v["b"]}, lambda _, x: v["A"] @ x + v["b"][:, None]),
    "kernel_regression": lambda v, _: Loop(
        {"a": np.zeros(n)},
        lambda _, a: a - v["eta"] * (v["X"] @ v["X"].T @ a + v["lam"] * a - v["y"][:, None]),
    ),
    "chebyshev": chebyshev_loop,
    "newton_schulz": lambda v, _: inverse_loop(v),
    "hyperpower": lambda v, _: inverse_loop(v),
}  # fmt: skip


LENGTHS = {"newton_schulz": (3, 5), "hyperpower": (2, 3)}


@pytest.mark.parametrize("target", ["elsa", "lsa"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_names_in_collapsed_networks_are_true(name, target):
    program = PROGRAMS[name]
    lengths = LENGTHS.get(name, (2, 3, 4, 13))
    for steps in lengths if target == "elsa" else lengths[-1:]:  # most passes are the same
        at = sizes(program, SMALL, steps)
        net = inweave.compile(program, target=target, optimize="depth", verify=False, **at)
        inputs = drawn(**{spec.name: DATA[spec.name] for spec in net.inputs})
        loop = LOOPS[name](inputs, steps)
        assert not false_names(net, inputs, lambda _: [loop]), steps  # noqa: B023


@pytest.mark.parametrize("way", ["as written", "factored", "hoisted"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_names_in_loops_are_true_at_each_step(name, way):
    """What a step computes is called after what the loop carries when the step begins."""
    program = PROGRAMS[name]
    net = ways.compiled(program, way, verify=False, **sizes(program, SMALL, 3))
    inputs = drawn(**{spec.name: DATA[spec.name] for spec in net.inputs})
    carried = [block for block in net.layout.names if block.removesuffix("ᵀ") in CARRIED]

    def now(held: Mapping[str, Any]) -> list[Any]:
        return [{b.removesuffix("ᵀ"): held[b].T if b[-1] == "ᵀ" else held[b] for b in carried}]

    assert carried
    assert not false_names(net, inputs, now)


# -- loops beside and inside one another -----------------------------------------------------------
@inweave.program
def chained(X: Matrix["n", "d"], y: Vector["n"], w0: Vector["d"], eta: Scalar, *, a: int, b: int):
    """Two loops that call what they carry the same; the second starts where the first ended."""
    half = inweave.iterate(lambda w: w - eta * (X.T @ (X @ w - y)), w0, a)
    return inweave.iterate(lambda w: 3 * w - X.T @ (X @ w) + half, half, b)


def chained_loops(v: Any, a: int) -> list[Loop]:
    first = descent_loop(v, v["eta"], start=v["w0"])
    half = first.run(first.start, 1, a)
    second = Loop(
        {"w′": half}, lambda _, w: 3 * w - v["X"].T @ v["X"] @ w + half, matrix="B", zero="s"
    )
    return [first, second]


@inweave.program
def paired(A: Matrix["m", "m"], z: Vector["m"], b: Vector["m"], *, a: int):
    """Several values from starts of their own; the letters A and z are the user's."""

    def step(p: Vector["m"], q: Vector["m"]):
        return A @ (A @ q) - 2 * p + b, p - A @ q

    return sum(inweave.iterate(step, (b, z), a))


def paired_loops(v: Any, _: int) -> list[Loop]:
    A, b = v["A"], v["b"][:, None]
    start = {"p": v["b"], "q": v["z"]}
    step = lambda _, p, q: (A @ A @ q - 2 * p + b, p - A @ q)  # noqa: E731
    return [Loop(start, step, matrix="B", zero="s")]


@inweave.program
def rows(A: Matrix["m", "m"], X: Matrix["n", "m"], C: Matrix["n", "m"], *, a: int, b: int):
    """Loops that multiply from the right, one by an input and one by what is computed."""
    first = inweave.iterate(lambda W: W @ A + C, X, a)
    return first @ inweave.iterate(lambda W: W - (W @ A) @ A.T + X, C, b).T


def rows_loops(v: Any, _: int) -> list[Loop]:
    A, X, C = v["A"], v["X"], v["C"]
    first = Loop({"W": X.T}, lambda _, W: A.T @ W + C.T, matrix="-", row=True)
    second = {"matrix": "M", "zero": "s", "row": True}
    return [first, Loop({"W′": C.T}, lambda _, W: W - A @ A.T @ W + X.T, **second)]


@inweave.program
def paired_rows(A: Matrix["m", "m"], X: Matrix["n", "m"], C: Matrix["n", "m"], *, a: int):
    """Several values that are multiplied from the right."""

    def step(p: Any, q: Any):
        return (q @ A) @ A - 2 * p + C, p - q @ A

    return sum(inweave.iterate(step, (C, X), a))


def paired_rows_loops(v: Any, _: int) -> list[Loop]:
    A, start = v["A"].T, {"p": v["C"].T, "q": v["X"].T}
    step = lambda _, p, q: (A @ A @ q - 2 * p + v["C"].T, p - A @ q)  # noqa: E731
    return [Loop(start, step, matrix="B", row=True)]


@inweave.program
def nested(X: Matrix["n", "d"], y: Vector["n"], eta: Scalar, *, a: int, b: int):
    """An affine loop inside one that is not."""

    def outer(v: Vector["d"]):
        inner = lambda w: w - eta * (X.T @ (X @ w - y)) + v  # noqa: E731
        return (v.T @ v) * inweave.iterate(inner, v, a)

    return inweave.iterate(outer, X.T @ y, b)


def nested_loops(v: Any, now: Mapping[str, Any]) -> list[Loop]:
    X, y, eta = v["X"], v["y"][:, None], v["eta"]
    kept = now["v"] if "v" in now else now["vᵀ"].T
    kept = kept[:d, :1]
    step = lambda _, w: w - eta * (X.T @ (X @ w - y)) + kept  # noqa: E731
    return [Loop({"w": kept}, step), Loop({"v": kept}, lambda _, v: v, matrix="-", zero="-")]


MORE = {
    "chained": (chained, chained_loops, {"X": (n, d), "y": n, "w0": d, "eta": ()}),
    "paired": (paired, paired_loops, {"A": (m, m), "z": m, "b": m}),
    "rows": (rows, rows_loops, {"A": (m, m), "X": (n, m), "C": (n, m)}),
    "paired_rows": (paired_rows, paired_rows_loops, {"A": (m, m), "X": (n, m), "C": (n, m)}),
}


@pytest.mark.parametrize("target", ["elsa", "lsa"])
@pytest.mark.parametrize("name", MORE)
def test_names_of_several_loops_and_states_are_true(name, target):
    program, loops, shapes = MORE[name]
    inputs = drawn(**shapes)
    for lengths in ((4, 9), (9, 4), (2, 2)) if target == "elsa" else ((13, 5),):
        given = dict(zip(program.statics, lengths, strict=False))
        at = {size: SMALL[size] for size in program.size_names} | given
        net = inweave.compile(program, target=target, optimize="depth", verify=False, **at)
        found = loops(inputs, lengths[0])
        assert not false_names(net, inputs, lambda _: found), lengths  # noqa: B023


@pytest.mark.parametrize("target", ["elsa", "lsa"])
def test_names_of_a_loop_inside_another_are_true_at_each_step(target):
    inputs = drawn(X=(n, d), y=n, eta=())
    for a in (3, 10):
        at = {"n": n, "d": d, "a": a, "b": 2}
        net = inweave.compile(nested, target=target, optimize="depth", verify=False, **at)
        assert not false_names(net, inputs, partial(nested_loops, inputs)), a
