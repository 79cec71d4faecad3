"""Running lines in any arithmetic.

A line's function is looked up once per library, so that running it is one call of the library's own
operator. Loops are the one thing libraries differ in: numpy steps through preallocated arrays
(`numpy`), jax stages a `scan`, everything else repeats the body.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, cached_property, lru_cache, partial
from typing import Any

import numpy as np

from inweave.exact.arithmetic import Arithmetic, Floats
from inweave.exact.constants import Array, zeros
from inweave.run.libraries import numpy
from inweave.run.libraries.functions import applied, layer
from inweave.run.libraries.numpy import Look
from inweave.run.libraries.trusted import look as look_at_powers
from inweave.run.lines.code import Code, Lead, Line, Lines, Repeat
from inweave.run.lines.narrow import with_unread
from inweave.run.lines.reuse import into, reused
from inweave.run.lines.shown import shown

Step = Callable[[list[Any]], None]
OFTEN = 8  # calls after which lines are written out
LONGEST = 512  # lines that are
QUICK = 1 << 27  # multiplications and additions without BLAS, in a fraction of a second


class Bound:
    """Code with its constants written out in one arithmetic."""

    def __init__(
        self,
        code: Code,
        arithmetic: Arithmetic,
        writer: type[numpy.InPlace] = numpy.InPlace,
    ) -> None:
        self.code, self.arithmetic = code, arithmetic
        self.library = arithmetic.library
        self.slots: list[Any] = [None] * code.slots
        with _for_later(self.library):
            made = cache(partial(of_constants, arithmetic=arithmetic))
            for slot, (kind, content) in code.fixed.items():
                known = kind == "made"
                self.slots[slot] = (
                    made(content.code)[content.output]
                    if known
                    else fixed(kind, content, arithmetic)
                )
        functions = operations(arithmetic)
        self._batched = self._plain = steps_of(
            code.lines, functions, partial(_repeated, arithmetic)
        )
        self.shown: set[int] = set()  # sources that are finite if what is made of them is
        self.of: Callable[[Sequence[Array]], list[Array]] = self.straight
        if self.library == "numpy":
            functions |= {"div": operator.truediv, "guard": numpy.guarded}
            single = functions | {"matmul": np.ndarray.dot, "concat": np.concatenate}
            several = functions | {"matmul": numpy.matmul} | writer.entrywise

            def in_numpy(loop: Repeat, body: list[Step]) -> Step:
                return numpy.loop(loop, _repeated(arithmetic, loop, body), writer, self.slots)

            found = shown(code, arithmetic.dtype, arithmetic.checked)
            self.shown, shows = found.all, found.by_lines
            lines = numpy.divided(code.lines, set(code.outputs), self.slots)
            lines = with_unread(lines, code.outputs, code.fixed)
            self._plain = steps_of(lines, single, in_numpy, None, shows, _often)
            into = reused(lines, code.outputs, code.fixed)
            self._batched = steps_of(lines, several, in_numpy, into, shows, _often)
        elif self.library == "torch":
            from inweave.run.libraries import in_torch, lent

            joined = in_torch.fused(code.lines, code.outputs)
            self._batched = self._plain = steps_of(
                joined,
                functions | in_torch.operations(),
                lambda loop, body: in_torch.loop(loop, _repeated(arithmetic, loop, body)),
            )
            self.of = lent.lending(self.straight, lambda: self.in_numpy.of, code.heaviest)
        elif self.library == "jax":
            from inweave.run.libraries import jax

            functions |= {"pick": jax.pick, "matmul": jax.matmul}
            self._batched = self._plain = steps_of(code.lines, functions, jax.loop)
            self.of = jax.staged(self.straight)

    @cached_property
    def in_numpy(self) -> Bound:
        """The same code for numpy arrays of the same float type, lent by torch."""
        from inweave.run.libraries.lent import InLentMemory

        return Bound(self.code, self.numpy_floats, InLentMemory)

    @property
    def numpy_floats(self) -> Floats:
        floats = Floats(np, np.dtype(str(self.arithmetic.dtype).removeprefix("torch.")))
        floats.checked = self.arithmetic.checked
        return floats

    def run(self, sources: Mapping[Any, Array]) -> list[Array]:
        """The outputs; sources are given by name."""
        return self.of([sources[name] for name in self.code.sources])

    def straight(self, arrays: Sequence[Array], look: Look | None = None) -> list[Array]:
        """The outputs, given sources in their order."""
        slots = self.slots.copy()
        for slot, array in zip(self.code.sources.values(), arrays, strict=True):
            slots[slot] = array
        if not any(len(array.shape) > 2 for array in arrays):
            return self.through(slots, False, look)
        shapes = {slot: slots[slot].shape for slot in self.code.sources.values()}
        return self.through(slots, True, look, self.piece(shapes))

    def piece(self, shapes: Mapping[int, tuple[int, ...]]) -> int:
        """How many problems are computed at a time, given the shapes of sources by slot; 0: all."""
        return numpy.piece(self.code, shapes, self.shown) if self.library == "numpy" else 0

    def through(
        self, slots: list[Any], batched: bool, look: Look | None = None, piece: int = 0
    ) -> list[Array]:
        """The outputs, given slots with the sources filled in; `batched` if any has batch axes.

        A `look` at products, and in a batch at all sources that nothing shows, may raise.
        """
        if batched and self.library == "numpy":
            return numpy.in_pieces(self.code, self._through_batch, slots, piece, self.shown, look)
        return self._through(self._batched if batched else self._plain, slots, look)

    def _through_batch(self, slots: list[Any], look: Look | None) -> list[Array]:
        return self._through(self._batched, slots, look)

    def _through(self, steps: Sequence[Step], slots: list[Any], look: Look | None) -> list[Array]:
        for step in steps:
            step(slots)
            if look is not None and isinstance(step, Shown):
                look(slots[step.slot])
        return [slots[slot] for slot in self.code.outputs]

    def follow(self, sources: Mapping[Any, Array], steps: list[int]) -> None:
        """Run line by line; `steps` are those of the loops around the line that is running."""
        slots = self.slots.copy()
        for name, slot in self.code.sources.items():
            slots[slot] = sources[name]
        counted = partial(_counted, self.arithmetic, steps)
        for step in steps_of(self.code.lines, operations(self.arithmetic), counted):
            step(slots)


def in_batch(outs: Sequence[Array], lead: Lead, arithmetic: Arithmetic) -> list[Array]:
    """The outputs, each with these batch axes: of a value that no problem changes, a copy each."""
    return [
        out if tuple(out.shape[:-2]) == lead else out + arithmetic.zeros((*lead, *out.shape[-2:]))
        for out in outs
    ]


class Shown:
    """A place between lines where what stands in a slot may be looked at."""

    def __init__(self, slot: int) -> None:
        self.slot = slot

    def __call__(self, slots: list[Any]) -> None: ...


# -- from lines to calls --------------------------------------------------------------------------
def steps_of(
    lines: Lines,
    functions: Mapping[str, Any],
    loop: Callable[[Repeat, list[Step]], Step],
    reused: Mapping[int, int] | None = None,
    shown: Container[int] = (),
    stretched: Callable[[list[tuple[Any, int, int, int]]], Step] | None = None,
) -> list[Step]:
    """Stretches of lines between loops, and the loops, which `loop` makes of their bodies.

    Some lines write into operands; see `inweave.run.lines.reuse`. What those in `shown` make may be
    looked at.
    """
    steps: list[Step] = []
    stretch: list[tuple[Any, int, int, int]] = []
    for i, line in enumerate(lines):
        if isinstance(line, Line):
            if not stretch:
                steps.append((stretched or _stretch)(stretch))
            side = None if reused is None else reused.get(i)
            function = functions[line.op] if side is None else into(functions[line.op], side)
            stretch.append((function, line.a, line.b, line.out))
            if i in shown:
                stretch = []
                steps.append(Shown(line.out))
        else:
            stretch = []
            steps.append(loop(line, steps_of(line.body, functions, loop)))
    return steps


def _for_later(library: str) -> AbstractContextManager[Any]:
    """Constants are kept for later calls, so they must not belong to a trace that is under way.

    Nor may they be torch's inference tensors, which no gradient can pass.
    """
    if library == "jax":
        import jax

        return jax.ensure_compile_time_eval()
    if library == "torch":
        import torch

        if torch.is_inference_mode_enabled():
            return torch.inference_mode(mode=False)
    return nullcontext()


def _stretch(lines: list[tuple[Any, int, int, int]]) -> Step:
    def step(slots: list[Any]) -> None:
        for function, a, b, out in lines:
            slots[out] = function(slots[a], slots[b])

    return step


def _often(lines: list[tuple[Any, int, int, int]]) -> Step:
    """The same for numpy, written out as Python once it is seen to be called often.

    Of a call of numpy on a few numbers, going from line to line takes a fifth.
    """
    interpreted, calls = _stretch(lines), 0
    written: Step | None = None

    def step(slots: list[Any]) -> None:
        nonlocal calls, written
        if written is not None:
            written(slots)
            return
        interpreted(slots)
        calls += 1
        if calls == OFTEN and len(lines) <= LONGEST:
            written = _written(lines)

    return step


def _written(lines: Sequence[tuple[Any, int, int, int]]) -> Step:
    """Lines as a function of slots; every slot is a name, and what is filled is put back."""
    space: dict[str, Any] = {}
    body: list[str] = []
    read: dict[int, None] = {}
    filled: dict[int, None] = {}
    for i, (function, operands, out) in enumerate(_collected(lines)):
        read |= {slot: None for slot in operands if slot not in filled}
        names = [f"x{slot}" for slot in operands]
        if function is tuple:
            text = f"({', '.join(names)},)"
        else:
            text = TEXTS.get(function, "f{i}({a}, {b})").format(i=i, a=names[0], b=names[1])
        space[f"f{i}"] = function
        body.append(f"x{out} = {text}")
        filled[out] = None
    before = [f"x{slot} = slots[{slot}]" for slot in read]
    after = [f"slots[{slot}] = x{slot}" for slot in filled]
    source = ["def written(slots):", *(f"    {line}" for line in (*before, *body, *after))]
    exec(compile("\n".join(source), f"<{len(lines)} lines>", "exec"), space)
    found: Step = space["written"]
    return found


def _collected(
    lines: Sequence[tuple[Any, int, int, int]],
) -> list[tuple[Any, tuple[int, ...], int]]:
    """The same lines; arrays that one reader wants are one tuple, if collected one by one."""
    made: list[tuple[Any, tuple[int, ...], int]] = []
    for function, a, b, out in lines:
        if function is _one:
            made.append((tuple, (a,), out))
        elif function is _more and made and made[-1][::2] == (tuple, a):
            made.append((tuple, (*made.pop()[1], b), out))
        else:
            made.append((function, (a, b), out))
    return made


def _repeated(arithmetic: Arithmetic, loop: Repeat, body: list[Step]) -> Step:
    def stacked(rows: Sequence[Any], flip: bool) -> Any:
        matrix = arithmetic.concat(rows, -2)
        return matrix.mT if flip else matrix

    return lambda slots: repeated(stacked, loop, body, slots)


def repeated(
    stacked: Callable[[Sequence[Any], bool], Any],
    loop: Repeat,
    body: list[Step],
    slots: list[Any],
    settled: Callable[[list[Any]], Sequence[Any]] = lambda values: values,
) -> None:
    """Run a loop step by step; what it carries is `settled` after each, rows left are `stacked`."""
    values: Sequence[Any] = [slots[i] for i in loop.inits]
    left: list[list[Any]] = [[] for _ in loop.stacks]
    for i in range(loop.times):
        for counter in loop.counters:
            slots[counter.slot] = loop.rows(counter, i)
        for phi, value in zip(loop.phis, values, strict=True):
            slots[phi] = value
        for part in body:
            part(slots)
        values = settled([slots[i] for i in loop.nexts])
        for stack, rows in zip(loop.stacks, left, strict=True):
            rows.append(slots[stack.slot])
    for phi, value in zip(loop.phis, values, strict=True):
        slots[phi] = value
    for stack, rows in zip(loop.stacks, left, strict=True):
        slots[stack.out] = stacked(rows[::-1] if stack.backward else rows, stack.flip)


def _counted(arithmetic: Arithmetic, steps: list[int], loop: Repeat, body: list[Step]) -> Step:
    """A loop whose current step is the last of `steps`."""

    def tick(_: list[Any]) -> None:
        steps[-1] += 1

    repeated = _repeated(arithmetic, loop, [tick, *body])

    def step(slots: list[Any]) -> None:
        steps.append(-1)
        repeated(slots)
        steps.pop()

    return step


# -- what lines call ------------------------------------------------------------------------------
def _flip(x: Any, _: Any) -> Any:
    return x.mT


def _one(x: Any, _: Any) -> Any:
    return (x,)


def _more(held: Any, x: Any) -> Any:
    return (*held, x)


def _applied(x: Any, function: Any) -> Any:
    return function(x)


TEXTS: dict[Any, str] = {
    operator.mul: "{a} * {b}",
    operator.add: "{a} + {b}",
    operator.sub: "{a} - {b}",
    operator.truediv: "{a} / {b}",
    operator.getitem: "{a}[{b}]",
    np.ndarray.dot: "{a}.dot({b})",
    _flip: "{a}.mT",
    _more: "(*{a}, {b})",
    _applied: "{b}({a})",
}
"""How functions are written that Python has signs for."""


def operations(arithmetic: Arithmetic) -> dict[str, Any]:
    """The functions of two slots that lines name."""
    return {
        "matmul": operator.matmul,
        "mul": operator.mul,
        "add": operator.add,
        "sub": operator.sub,
        "getitem": operator.getitem,
        "flip": _flip,
        "diagonal": lambda x, _: arithmetic.diagonal(x),
        "one": _one,
        "more": _more,
        "concat": arithmetic.concat,
        "pointwise": _applied,
        "pick": lambda x, rows: x[..., rows[0] : rows[0] + rows[1], :],
    }


def of_constants(code: Code, arithmetic: Arithmetic) -> list[Array]:
    """The outputs of code that needs no sources; in floats, rounded once if that is quick."""
    if not isinstance(arithmetic, Floats):
        return Bound(code, arithmetic).run({})
    with np.errstate(over="ignore"):  # what is too large makes an answer that says so
        return [arithmetic.array(x) for x in _in_numpy(code)]


@lru_cache(maxsize=64)
def _in_numpy(code: Code) -> list[Array]:
    """What constants make, with more digits than answers have where that takes no time."""
    wide = code.flops <= QUICK and all(
        isinstance(line, Line) and line.op != "pointwise" for line in code.lines
    )
    return Bound(code, Floats(np, np.longdouble if wide else np.float64)).run({})


def fixed(kind: str, content: Any, arithmetic: Arithmetic) -> Any:
    if kind == "made":
        return of_constants(content.code, arithmetic)[content.output]
    if kind == "number":
        return arithmetic.number(content)
    if kind == "const":
        if content == zeros(*content.shape):
            return arithmetic.zeros(content.shape)
        return arithmetic.array(content.entries())
    if kind == "index":
        top, bottom, left, right = content
        return (..., slice(top, bottom), slice(left, right))
    if kind == "layer":
        return layer(content, arithmetic)
    if kind == "look":
        return look_at_powers(content, arithmetic.dtype)
    if kind == "function":
        function, rows, cols = content
        return applied(function, rows, cols, arithmetic)
    return content
