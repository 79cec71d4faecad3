"""Lines in torch with fewer calls: a product and what is added to it are one.

A call costs a microsecond or more in torch whatever it does, so a step of `A w + c` is one
`baddbmm` and not two operators. Lines are functions of two slots; the first of the two keeps the
factors side by side, the second multiplies and adds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from inweave.run.libraries.written import Step, Value, Writer, stepping
from inweave.run.lines.code import Line, Lines, Repeat, Stack
from inweave.run.lines.lifetimes import reader

Pair = tuple[Any, Any]
JOINED = {("add", 0): "plus", ("add", 1): "plus", ("sub", 0): "less", ("sub", 1): "minus"}
"""What a line becomes that adds or subtracts a product, by where the product stands."""


SIGNS = {"mul": "*", "add": "+", "sub": "-"}


def stands_turned(a: Any, b: Any) -> bool:
    """Whether columns are multiplied by matrices that lie transposed in memory.

    On the CPU torch goes through those several times slower than through rows times what they are
    the transpose of.
    """
    turned: bool = b.shape[-1] == 1 and a.stride(-1) > a.stride(-2) and a.device.type == "cpu"
    return turned


def batched(a: Any, b: Any) -> Any:
    """The products of a batch."""
    return (b.mT.bmm(a.mT)).mT if stands_turned(a, b) else a.bmm(b)


def batched_sum(c: Any, a: Any, b: Any, alpha: float = 1, beta: float = 1) -> Any:
    """Products of a batch, and what is added to them."""
    if stands_turned(a, b):
        return c.mT.baddbmm(b.mT, a.mT, alpha=alpha, beta=beta).mT
    return c.baddbmm(a, b, alpha=alpha, beta=beta)


def loop(loop: Repeat, otherwise: Step) -> Step:
    """A loop as a step over slots."""
    return stepping(loop, lambda slots, _: OutOfPlace(loop, slots), otherwise)


def operations() -> dict[str, Callable[[Any, Any], Any]]:
    """What torch does otherwise than other libraries."""
    import torch

    def product(a: Any, b: Any) -> Any:
        if a.ndim == b.ndim == 2:
            return torch.mm(a, b)
        if a.ndim == 2 and b.shape[-1] == 1:  # a matrix that the whole batch shares
            return (b[..., 0] @ a.mT)[..., None]
        return (b.mT @ a.mT).mT if stands_turned(a, b) else a @ b

    def added(c: Any, factors: Pair, alpha: float = 1, beta: float = 1) -> Any:
        a, b = factors
        if a.ndim == b.ndim == c.ndim == 2:
            return torch.addmm(c, a, b, alpha=alpha, beta=beta)
        if a.ndim == b.ndim == c.ndim == 3 and a.shape[0] == b.shape[0] == c.shape[0]:
            return batched_sum(c, a, b, alpha=alpha, beta=beta)
        return c * beta + product(a, b) * alpha

    return {
        "matmul": product,
        "factors": lambda a, b: (a, b),
        "plus": added,
        "minus": lambda c, factors: added(c, factors, alpha=-1),
        "less": lambda c, factors: added(c, factors, beta=-1),
        "pick": lambda x, rows: x.narrow(-2, *rows),
    }


def fused(lines: Lines, kept: Iterable[int]) -> Lines:
    """The same lines, sums with a product that nothing else reads as one; `kept` is read after."""
    out, kept = list(lines), set(kept)
    for i, line in enumerate(out):
        if not isinstance(line, Line):
            ends = {*line.nexts, *(stack.slot for stack in line.stacks)}
            out[i] = replace(line, body=fused(line.body, ends))
            continue
        j = reader(out, i, kept) if line.op == "matmul" else None
        if j is None:
            continue
        after = out[j]
        assert isinstance(after, Line)
        side = 0 if after.a == line.out else 1
        op = JOINED.get((after.op, side))
        if op is not None and after[4:] == line[4:]:
            out[i] = line._replace(op="factors")
            out[j] = after._replace(op=op, a=(after.b, after.a)[side], b=line.out)
    return out


class OutOfPlace(Writer):
    """In torch: every call makes its tensor."""

    signs: ClassVar = {"plus": "", "minus": ", alpha=-1", "less": ", beta=-1"}

    def library(self) -> dict[str, Any]:
        import torch

        def forward(x: Any, height: int) -> Any:
            return x.unflatten(-2, (-1, height)).unbind(-3)

        return operations() | {
            "mm": torch.mm, "bmm": batched, "addmm": torch.addmm, "baddbmm": batched_sum,
            "rows": lambda x, i, height: x.narrow(-2, i * height, height), "cat": torch.cat,
            "forward": forward, "backward": lambda x, height: forward(x, height)[::-1],
            "diagonal": lambda x: torch.linalg.diagonal(x)[..., None],
        }  # fmt: skip

    def start(self) -> None:
        for phi, init in zip(self.phis, self.loop.inits, strict=True):
            self.before.append(f"{phi.name} = {self.spread(self.values[init], phi)}")

    def spread(self, x: Value, like: Value) -> str:
        """A value with the batch axes of another."""
        return f"{x.name}.expand(*lead, -1, -1)" if like.batched and not x.batched else x.name

    def compute(self, made: Value, op: str, a: Value, b: Value) -> Value:
        if op == "factors":
            return made._replace(parts=(a, b))
        self.body.append(f"{made.name} = {self.expression(op, a, b)}")
        return made

    def expression(self, op: str, a: Value, b: Value) -> str:
        if op in self.signs:
            return self.summed(op, a, *b.parts)
        if op == "matmul":
            call = {"": "mm", "b": "bmm", None: "matmul"}[self.kind(a, b)]
            return f"{call}({a.name}, {b.name})"
        if op == "concat":
            return f"cat(({', '.join(self.spread(part, a) for part in a.parts)}), {b.name})"
        if op == "pointwise":
            return f"{b.name}({a.name})"
        return f"{a.name} {SIGNS[op]} {b.name}"

    def summed(self, op: str, c: Value, a: Value, b: Value) -> str:
        every = self.kind(a, b, c)
        if every is None:
            return f"{op}({c.name}, ({a.name}, {b.name}))"
        call = "baddbmm" if every else "addmm"
        return f"{call}({c.name}, {a.name}, {b.name}{self.signs[op]})"

    def kind(self, *values: Value) -> str | None:
        """'' if none has batch axes, 'b' if all have one, None otherwise."""
        if not any(value.batched for value in values):
            return ""
        return "b" if self.axes == 3 and all(value.batched for value in values) else None

    def stack(self, name: str, stack: Stack, row: Value) -> None:
        self.before.append(f"{name} = []")
        self.body.append(f"{name}.append({row.name})")
        rows = f"{name}{'[::-1]' if stack.backward else ''}"
        self.after.append(f"slots[{stack.out}] = cat({rows}, -2){'.mT' if stack.flip else ''}")

    def carry(self, nexts: Sequence[Value]) -> None:
        if self.phis:
            pairs = zip(nexts, self.phis, strict=True)
            after = ", ".join(self.spread(value, phi) for value, phi in pairs)
            self.body.append(f"{', '.join(phi.name for phi in self.phis)} = {after}")
