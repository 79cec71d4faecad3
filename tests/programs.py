"""Random programs, for the fuzzer: every construct of the language, at small sizes.

A recipe is a list of statements over a growing pool of values. Building it draws each statement
from what fits the pool, so almost every program is well formed; what is not must be refused by
inweave itself. The same recipe is replayed each time the program is called or traced.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import inweave
from inweave import Matrix, Program, Scalar, Vector

Shape = tuple[int, int]
Pool = list[Any]  # values while a program runs
Statement = Callable[[Pool], Any]
NUMBERS = (-2, -1, 0, 1, 2, 3, 0.5, -0.25, 0.1, 1 / 3)
FACTORS = (1, 0.5, 0.1, 0.3, 1e-3)
SCALES = (1e-30, 1e-12, 2.0**-60, 1e12, 1e30)
ENTRIES = (-2.0, -1.0, 0.0, 0.0, 1.0, 1.0, 0.5, 0.1)
MAX_DEPTH = 6
MAX_DEGREE = 200  # keeps rationals short and the number of layers small
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "relu": inweave.relu,
    "abs": inweave.abs,
    "soft_threshold[0.5]": lambda x: inweave.soft_threshold(x, 0.5),
    "sigmoid": lambda x: inweave.sigmoid(x, domain=(-4, 4), error=0.05),
    "rsqrt": lambda x: inweave.rsqrt(x, domain=(0.5, 4), error=0.05),
    "reciprocal": lambda x: inweave.reciprocal(x, domain=(0.5, 4), error=0.05),
    "tanh": inweave.pointwise(np.tanh, domain=(-2, 2), error=0.05),
}


@dataclass(frozen=True)
class Known:
    """What is known of a pool's value while a recipe is built."""

    shape: Shape
    depth: int  # of its expression
    degree: int


@dataclass(frozen=True)
class Recipe:
    """A random program: its arguments, its statements, and which values it returns."""

    arguments: tuple[tuple[str, str, Shape], ...]  # name, kind, shape
    statements: tuple[tuple[str, Statement], ...]
    returned: tuple[int, ...]

    def program(self) -> Program:
        def function(**given: Any) -> Any:
            pool = [given[name] for name, _, _ in self.arguments]
            run(self.statements, pool)
            if len(self.returned) == 1:
                return pool[self.returned[0]]
            return {f"out{i}": pool[k] for i, k in enumerate(self.returned)}

        kinds = {
            "matrix": lambda shape: Matrix[shape],
            "vector": lambda shape: Vector[shape[0]],
            "scalar": lambda shape: Scalar,  # noqa: ARG005
        }
        parameters = [
            inspect.Parameter(
                name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=kinds[kind](shape)
            )
            for name, kind, shape in self.arguments
        ]
        function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        function.__name__ = "random_program"
        return inweave.program(function)

    def __repr__(self) -> str:
        lines = [f"{name} = {kind} {shape}" for name, kind, shape in self.arguments]
        at = len(lines)
        for text, _ in self.statements:
            lines.append(f"v{at} = {text}")
            at += 1
        return "\n".join([*lines, f"return {', '.join(f'v{k}' for k in self.returned)}"])


def run(statements: Sequence[tuple[str, Statement]], pool: Pool) -> None:
    """Replay statements; each appends one value."""
    for _, statement in statements:
        pool.append(statement(pool))


class NothingFits(Exception):
    """There is no value that a statement could be made of."""


class Builder:
    """Draws statements that fit; `pool` says what each value so far looks like."""

    def __init__(self, draw: Callable[[Any], Any], pool: list[Known], loops: int) -> None:
        self.draw, self.pool, self.loops = draw, pool, loops
        self.statements: list[tuple[str, Statement]] = []

    def among(self, options: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(options))

    def value(self, test: Callable[[Known], bool] = lambda _: True) -> int:
        """The index of a value that passes a test and may still grow; NothingFits without one."""
        found = self.some(test)
        if found is None:
            raise NothingFits
        return found

    def some(self, test: Callable[[Known], bool]) -> int | None:
        """The same, or None; recent ones are likelier."""
        fits = [i for i, k in enumerate(self.pool) if k.depth < MAX_DEPTH and test(k)]
        if not fits:
            return None
        return int(self.among(fits + fits[-2:]))

    def put(self, text: str, statement: Statement, shape: Shape, depth: int, degree: int) -> bool:
        if degree > MAX_DEGREE or max(shape) > 8:
            return False
        self.pool.append(Known(shape, depth, degree))
        self.statements.append((text, statement))
        return True

    def statement(self) -> None:
        kinds = ["add", "matmul", "matmul", "transpose", "number", "scalar", "constant", "slice",
                 "stack", "affine", "scaled", "entry", "function", "function", "entrywise",
                 "masked", "summed", "centered", "scan", "divided", "softmax"]  # fmt: skip
        if self.loops > 0:
            kinds += ["iterate", "iterate", "several", "descent"]
        with suppress(NothingFits):
            getattr(self, self.among(kinds))()

    # -- one method per construct ------------------------------------------------------------------
    def add(self) -> None:
        i = self.value()
        a = self.pool[i]
        j = self.value(lambda k: k.shape == a.shape)
        b, sign = self.pool[j], self.among((1, -1))
        self.put(
            f"v{i} {'+' if sign > 0 else '-'} v{j}",
            (lambda p: p[i] + p[j]) if sign > 0 else (lambda p: p[i] - p[j]),
            a.shape, 1 + max(a.depth, b.depth), max(a.degree, b.degree),
        )  # fmt: skip

    def matmul(self) -> None:
        i = self.value()
        a = self.pool[i]
        j = self.value(lambda k: a.shape[1] in k.shape)
        b = self.pool[j]
        flip = b.shape[0] != a.shape[1] or (b.shape[0] == b.shape[1] and self.among((True, False)))
        inner = (b.shape[1], b.shape[0]) if flip else b.shape
        self.put(
            f"v{i} @ v{j}{'.T' if flip else ''}",
            (lambda p: p[i] @ p[j].T) if flip else (lambda p: p[i] @ p[j]),
            (a.shape[0], inner[1]), 1 + max(a.depth, b.depth), a.degree + b.degree,
        )  # fmt: skip

    def affine(self) -> None:
        """`a @ b + c`, the shape most algorithms are made of."""
        before = len(self.pool)
        self.matmul()
        if len(self.pool) == before:
            return
        a = self.pool[-1]
        j = self.value(lambda k: k.shape == a.shape)
        i, c = before, self.among((1, -1, 0.5))
        self.put(
            f"v{i} + {c} * v{j}",
            lambda p: p[i] + c * p[j],
            a.shape,
            1 + max(a.depth, self.pool[j].depth),
            max(a.degree, self.pool[j].degree),
        )

    def transpose(self) -> None:
        i = self.value()
        k = self.pool[i]
        self.put(f"v{i}.T", lambda p: p[i].T, k.shape[::-1], k.depth + 1, k.degree)

    def number(self) -> None:
        i = self.value()
        k, how = self.pool[i], self.among(("*", "*", "/", "-"))
        c = self.among(SCALES if self.among((False, False, True)) else NUMBERS)
        if how == "/" and c:
            self.put(f"v{i} / {c}", lambda p: p[i] / c, k.shape, k.depth + 1, k.degree)
        elif how == "-":
            self.put(f"-v{i}", lambda p: -p[i], k.shape, k.depth + 1, k.degree)
        else:
            self.put(f"{c} * v{i}", lambda p: c * p[i], k.shape, k.depth + 1, k.degree)

    def scalar(self) -> None:
        """A number added to or taken from a scalar."""
        i = self.value(lambda k: k.shape == (1, 1))
        k, c = self.pool[i], self.among(NUMBERS)
        self.put(f"{c} - v{i}", lambda p: c - p[i], k.shape, k.depth + 1, k.degree)

    def scaled(self) -> None:
        i, j = self.value(lambda k: k.shape == (1, 1)), self.value()
        a, b = self.pool[i], self.pool[j]
        self.put(
            f"v{i} * v{j}", lambda p: p[i] * p[j],
            b.shape, 1 + max(a.depth, b.depth), a.degree + b.degree,
        )  # fmt: skip

    def function(self) -> None:
        """A pointwise function; of a scalar, perhaps one with Newton steps or with a threshold."""
        i = self.value()
        k, name = self.pool[i], self.among((*FUNCTIONS, "precise", "threshold"))
        j = self.some(lambda k: k.shape == (1, 1))
        if name == "threshold" and j is not None:
            self.put(
                f"soft_threshold(v{i}, v{j})", lambda p: inweave.soft_threshold(p[i], p[j]),
                k.shape, 1 + max(k.depth, self.pool[j].depth), max(k.degree, self.pool[j].degree),
            )  # fmt: skip
        elif name == "precise" and k.shape == (1, 1):
            compute = lambda p: inweave.reciprocal(p[i], domain=(0.5, 4), error=1e-9)  # noqa: E731
            self.put(f"reciprocal(v{i}) to 1e-9", compute, k.shape, k.depth + 1, 3 * k.degree)
        elif name in FUNCTIONS:
            f = FUNCTIONS[name]
            self.put(f"{name}(v{i})", lambda p: f(p[i]), k.shape, k.depth + 1, k.degree)

    def divided(self) -> None:
        """A value by a scalar or, entry by entry, by one of its shape; Newton's steps multiply."""
        i = self.value()
        a, either = self.pool[i], self.among((False, False, True))
        j = self.value(lambda k: k.shape in ((1, 1), a.shape))
        b, low = self.pool[j], self.among((0.5, 1, 2))
        self.put(
            f"v{i} / assume(v{j}, {low}, {2 * low}{', either_sign=True' * either})",
            lambda p: p[i] / inweave.assume(p[j], low, 2 * low, either_sign=either),
            a.shape, 1 + max(a.depth, b.depth), a.degree + (15 if either else 7) * b.degree,
        )  # fmt: skip

    def softmax(self) -> None:
        """exp, a sum and a division along an axis, coarsely."""
        i = self.value(lambda k: k.shape != (1, 1))
        k, axis = self.pool[i], self.among((0, -1))
        compute = lambda p: inweave.softmax(p[i], axis, domain=(-2, 2), error=0.05)  # noqa: E731
        self.put(f"softmax(v{i}, {axis})", compute, k.shape, k.depth + 1, 4 * k.degree)

    def scan(self) -> None:
        """A loop over the rows of a value; what is carried in the end, or what was said of each."""
        i = self.value()
        X, reverse = self.pool[i], self.among((False, True))
        j = self.value(lambda k: k.shape == (X.shape[1], 1))
        how, start = self.among(("add", "project", "scale")), self.pool[j]

        def step(w: Any, x: Any) -> tuple[Any, Any]:
            x = x.T.T  # a row is a column; the entry of a vector, a scalar
            if how == "add":
                return w - 0.5 * x, w
            if how == "scale":
                return 2 * (x.T @ w) * w + x, x.T @ w
            return w - (x.T @ w) * x, w - x

        which = self.among((0, 1))
        rows, cols = X.shape
        text = f"scan({how}, v{j}, v{i}{', reverse' if reverse else ''})[{which}]"
        growth = {"add": start.degree + X.degree, "project": start.degree + 2 * rows * X.degree,
                  "scale": 2**rows * (start.degree + X.degree)}[how]  # fmt: skip
        said = (rows, 1) if how == "scale" or cols == 1 else X.shape
        self.put(
            text, lambda p: inweave.scan(step, p[j], p[i], reverse=reverse)[which],
            said if which else start.shape, 1 + max(start.depth, X.depth), growth,
        )  # fmt: skip

    def entrywise(self) -> None:
        i = self.value()
        a = self.pool[i]
        j = self.value(lambda k: k.shape == a.shape)
        b = self.pool[j]
        self.put(
            f"v{i} * v{j}", lambda p: p[i] * p[j],
            a.shape, 1 + max(a.depth, b.depth), a.degree + b.degree,
        )  # fmt: skip

    def summed(self) -> None:
        """A product entry by entry, its rows or columns added up, or all of it."""
        i = self.value(lambda k: min(k.shape) > 1)
        a = self.pool[i]
        j = self.value(lambda k: k.shape == a.shape)
        b, axis = self.pool[j], self.among((0, 1, None))
        self.put(
            f"(v{i} * v{j}).sum({axis})", lambda p: (p[i] * p[j]).sum(axis=axis),
            (1 if axis is None else a.shape[1 - axis], 1), 1 + max(a.depth, b.depth),
            a.degree + b.degree,
        )  # fmt: skip

    def centered(self) -> None:
        """One row taken away from all rows of a matrix."""
        i = self.value(lambda k: min(k.shape) > 1)
        a = self.pool[i]
        j = self.value(lambda k: k.shape[1] == a.shape[1])
        b, rows = self.pool[j], a.shape[0]
        self.put(
            f"v{i} - ones({rows}, 1) @ v{j}[:1]",
            lambda p: p[i] - inweave.ones(rows, 1) @ p[j][:1],
            a.shape, 1 + max(a.depth, b.depth), max(a.degree, b.degree),
        )  # fmt: skip

    def masked(self) -> None:
        """A product with a constant entry by entry, or a diagonal."""
        i = self.value()
        a, how = self.pool[i], self.among(("constant", "tril", "matrix", "vector"))
        rows, cols = a.shape
        if how == "constant":
            mask = np.array([self.among(ENTRIES) for _ in range(rows * cols)]).reshape(a.shape)
            self.put(f"{mask.tolist()} * v{i}", lambda p: mask * p[i], a.shape, a.depth + 1,
                     a.degree)  # fmt: skip
        elif how == "tril":
            self.put(f"tril(v{i})", lambda p: inweave.tril(p[i]), a.shape, a.depth + 1, a.degree)
        elif how == "matrix":
            compute = lambda p: inweave.diag(p[i][:, 0])  # noqa: E731
            self.put(f"diag(v{i}[:, 0])", compute, (rows, rows), a.depth + 1, a.degree)
        elif rows > 1 < cols:
            self.put(f"diag(v{i})", lambda p: inweave.diag(p[i]), (min(a.shape), 1), a.depth + 1,
                     a.degree)  # fmt: skip

    def constant(self) -> None:
        i = self.value()
        a = self.pool[i]
        how = self.among(("eye", "ones", "zeros", "left", "right", "add"))
        rows, cols = a.shape
        if how == "eye":
            compute = lambda p: inweave.eye(rows) @ p[i]  # noqa: E731
            self.put(f"eye({rows}) @ v{i}", compute, a.shape, a.depth + 1, a.degree)
            return
        if how in ("ones", "zeros"):
            make = inweave.ones if how == "ones" else inweave.zeros
            self.put(f"v{i} - {how}{a.shape}", lambda p: p[i] - make(rows, cols), a.shape,
                     a.depth + 1, a.degree)  # fmt: skip
            return
        size = self.among((1, 2, 3))
        shape = {"left": (size, rows), "right": (cols, size), "add": a.shape}[how]
        flat = [self.among(ENTRIES) for _ in range(shape[0] * shape[1])]
        array = np.array(flat).reshape(shape)
        text = array.tolist()
        if how == "left":
            self.put(f"{text} @ v{i}", lambda p: array @ p[i], (size, cols), a.depth + 1, a.degree)
        elif how == "right":
            self.put(f"v{i} @ {text}", lambda p: p[i] @ array, (rows, size), a.depth + 1, a.degree)
        else:
            self.put(f"v{i} + {text}", lambda p: p[i] + array, a.shape, a.depth + 1, a.degree)

    def _range(self, size: int) -> slice:
        start = self.draw(st.integers(0, size - 1))
        return slice(start, self.draw(st.integers(start + 1, size)))

    def slice(self) -> None:
        i = self.value()
        a = self.pool[i]
        rows, cols = self._range(a.shape[0]), self._range(a.shape[1])
        self.put(
            f"v{i}[{rows.start}:{rows.stop}, {cols.start}:{cols.stop}]", lambda p: p[i][rows, cols],
            (rows.stop - rows.start, cols.stop - cols.start), a.depth + 1, a.degree,
        )  # fmt: skip

    def entry(self) -> None:
        i = self.value()
        a = self.pool[i]
        r, c = (self.draw(st.integers(0, n - 1)) for n in a.shape)
        self.put(f"v{i}[{r}, {c}]", lambda p: p[i][r, c], (1, 1), a.depth + 1, a.degree)

    def stack(self) -> None:
        i = self.value()
        a, how = self.pool[i], self.among(("hstack", "vstack", "block"))
        if how == "block":
            j = self.value(lambda k: k.shape == a.shape)
            rows, cols = a.shape
            self.put(
                f"block([[v{i}, 0], [eye, v{j}.T]])",
                lambda p: inweave.block(
                    [[p[i], inweave.zeros(rows, rows)], [inweave.eye(cols), p[j].T]]
                ),
                (rows + cols, rows + cols), 1 + max(a.depth, self.pool[j].depth),
                max(a.degree, self.pool[j].degree),
            )  # fmt: skip
            return
        axis = 0 if how == "hstack" else 1  # the axis along which sizes must agree
        j = self.value(lambda k: k.shape[axis] == a.shape[axis])
        b, join = self.pool[j], getattr(inweave, how)
        shape = list(a.shape)
        shape[1 - axis] += b.shape[1 - axis]
        self.put(
            f"{how}([v{i}, v{j}])", lambda p: join([p[i], p[j]]),
            (shape[0], shape[1]), 1 + max(a.depth, b.depth), max(a.degree, b.degree),
        )  # fmt: skip

    def descent(self) -> None:
        """A loop of many steps that are affine in what is carried, as those of descent are."""
        i = self.value()
        A = self.pool[i]
        rows, cols = A.shape

        def column(size: int) -> int | None:
            return (
                self.some(lambda k: k.shape == (size, 1))
                if self.among((True, True, False))
                else None
            )

        weight, target, start, added = (column(n) for n in (rows, rows, cols, cols))
        times, keep, eta = self.among((1, 7, 20)), self.among((1, 0.5)), self.among(FACTORS)

        def loop(p: Pool) -> Any:
            vectors = [None if j is None else p[j][:, 0] for j in (weight, target, start, added)]
            s, y, begin, c = vectors

            def step(x: Any) -> Any:
                residual = p[i] @ x if y is None else p[i] @ x - y
                residual = residual if s is None else s * residual
                new = keep * x - eta * (p[i].T @ residual)
                return new if c is None else new + c

            return inweave.iterate(step, inweave.zeros(cols) if begin is None else begin, times)

        degrees = [0 if j is None else self.pool[j].degree for j in (weight, target, start, added)]
        names = ", ".join("none" if j is None else f"v{j}" for j in (weight, target, start, added))
        text = f"descent(v{i}; {names}; keep {keep}, eta {eta}, {times} times)"
        degree = times * (2 * A.degree + degrees[0]) + max(degrees[1:])
        self.put(text, loop, (cols, 1), 2, degree)

    def iterate(self) -> None:
        self._iterate(1)

    def several(self) -> None:
        self._iterate(self.among((2, 2, 3)))

    def _iterate(self, carried: int) -> None:
        """A loop whose body is a recipe of its own over the pool and what it carries."""
        starts = [self.value() for _ in range(carried)]
        size = len(self.pool)
        written = self.among((False, False, True))  # out, as a loop of Python's, by a factor each
        times = self.draw(st.integers(0, 12 if written else 4))
        factor = self.among(FACTORS) if written else 1
        symbols = [Known(self.pool[i].shape, 0, self.pool[i].degree) for i in starts]
        body = Builder(self.draw, [*self.pool, *symbols], self.loops - 1)
        for _ in range(self.draw(st.integers(0, 4))):
            body.statement()
        results, shapes = [], [self.pool[i].shape for i in starts]
        for shape in shapes:
            found = body.some(lambda k, shape=shape: k.shape == shape)
            results.append(found if found is not None else size)
        grown = [body.pool[r].degree for r in results]
        degree = max([*(self.pool[i].degree for i in starts), *grown], default=1)
        # One step maps degree D to at most D * (growth); a rough bound keeps programs small.
        growth = max(grown) / max(1, min(k.degree for k in symbols))
        degree = int(degree * max(1.0, growth) ** max(times - 1, 0))
        statements, several = tuple(body.statements), carried > 1

        def loop(p: Pool) -> Any:
            def step(*state: Any) -> Any:
                inner = [*p[:size], *state]
                run(statements, inner)
                found = tuple(inner[r] if factor == 1 else factor * inner[r] for r in results)
                return found if several else found[0]

            start = tuple(p[i] for i in starts)
            if written:
                for _ in range(times):
                    start = step(*start) if several else (step(*start),)
                return start if several else start[0]
            return inweave.iterate(step, start if several else start[0], times)

        text = "; ".join(f"v{size + carried + n} = {t}" for n, (t, _) in enumerate(statements))
        text += f"; times {factor}" * written
        carries = ", ".join(f"v{size + n}" for n in range(carried))
        begins, ends = (", ".join(f"v{i}" for i in which) for which in (starts, results))
        kind = "for" if written else "iterate"
        text = f"{kind}(({carries}) = ({begins}), {times} times: {{{text}; -> {ends}}})"
        if not several:
            self.put(text, loop, shapes[0], 2, degree)
            return
        if degree > MAX_DEGREE:
            return
        at = len(self.pool)
        self.put(text, loop, shapes[0], MAX_DEPTH, degree)  # a tuple: used by the next ones only
        for n, shape in enumerate(shapes):
            self.put(f"v{at}[{n}]", lambda p, n=n: p[at][n], shape, 2, degree)


@st.composite
def recipes(draw: Callable[[Any], Any]) -> Recipe:
    """A random recipe: up to five arguments, up to a dozen statements, loops up to two deep."""
    sizes = [draw(st.integers(1, 4)) for _ in range(2)]
    arguments = []
    for name in "ABCDE"[: draw(st.integers(1, 5))]:
        kind = draw(st.sampled_from(("matrix", "matrix", "vector", "scalar")))
        rows, cols = draw(st.sampled_from(sizes)), draw(st.sampled_from(sizes))
        shape = {"matrix": (rows, cols), "vector": (rows, 1), "scalar": (1, 1)}[kind]
        arguments.append((name, kind, shape))
    builder = Builder(draw, [Known(shape, 0, 1) for _, _, shape in arguments], loops=2)
    for _ in range(draw(st.integers(1, 10))):
        builder.statement()
    loops = [text.startswith(("iterate", "for")) for text, _ in builder.statements]
    tuples = {
        i
        for i, is_loop in enumerate(loops, len(arguments))
        if is_loop and builder.pool[i].depth == MAX_DEPTH
    }
    usable = [i for i in range(len(builder.pool)) if i not in tuples]
    last = usable[-1]
    returned = [last]
    for _ in range(draw(st.integers(0, 2))):
        more = draw(st.sampled_from(usable))
        if more not in returned:
            returned.append(more)
    return Recipe(tuple(arguments), tuple(builder.statements), tuple(returned))
