"""A value of a plan: the operation that makes it, what it reads, its shape, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from inweave.exact.constants import Ones, Shift


@dataclass(eq=False, slots=True)
class Node:
    """A rows x cols value.

    The operations: `source`, `const`, `view` (a slice, perhaps transposed), `matmul`, `both` (a
    product plus its transpose), `mul` (entry by entry, where a single row or column stands for
    many), `diagonal` (as a column), `scale` (by a number), `sum` (of placed nodes), `pointwise` (a
    layer) and `apply` (a function) entry by entry; `grown` (whether powers may have lost digits, by
    a look at them); for loops `phi` (a carried value), `loop`, and `result` (its last one); and for
    loops over rows `at` (which rows they are in this step), `unit` (the columns with a one there),
    `pick` (those rows of a matrix) and `place` (rows there, zeros elsewhere).
    """

    op: str
    args: tuple[Node, ...]
    data: Any
    rows: int
    cols: int
    level: int
    order: int
    symmetric: bool = False
    label: str = ""
    known: bool = False  # made of constants only: computed once, before any call

    @property
    def flipped(self) -> bool:
        """Whether this is a transposed view."""
        return self.op == "view" and bool(self.data[-1])

    @property
    def turns(self) -> bool:
        """Whether this is a constant that can be written down transposed as well."""
        return self.op == "const" and isinstance(self.data, (Shift, Ones))

    @property
    def size(self) -> int:
        return self.rows * self.cols

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.cols

    @property
    def is_scalar(self) -> bool:
        return self.rows == self.cols == 1

    def __repr__(self) -> str:
        name = self.label or f"{self.op}{self.order}"
        return f"<{name} {self.rows}x{self.cols}>"


def placed(node: Node) -> tuple[Node, bool] | None:
    """Of rows in their place or the transpose: the `place` node, and whether transposed."""
    base = node.args[0] if node.flipped and node.args[0].shape == node.shape[::-1] else node
    return (base, base is not node) if base.op == "place" else None


@dataclass(eq=False)
class LoopBody:
    """What a repeated module does: in every step each phi takes the value of its next."""

    repeat: int
    nodes: list[Node] = field(default_factory=list)
    phis: tuple[Node, ...] = ()
    inits: tuple[Node, ...] = ()
    nexts: tuple[Node, ...] = ()


class Powers(NamedTuple):
    """What was computed, and is looked at in this order: powers, what each adds, values on the way.

    What a power adds may stand `beside` it, above a row for the one that it meets, which values
    end with as well; that with which all begins does not. Everything but powers is a column.
    """

    rows: int  # of the carried values, on top of each other
    repeat: int
    squarings: int
    beside: bool
    added: bool
    values: int = 1  # that are carried
    sides: str = ""  # of a matrix: L and R multiply it, of which one may be missing, or L and Lᵀ
    itself: bool = False  # one power, with all that it is made of, and the same of what it adds


PRODUCTS = ("matmul", "both")
LOOPING = ("phi", "loop", "result", "at", "unit", "pick", "place", "grown")  # never known

Part = tuple[int, Node, int, int]
"""(sign, node, row, col): a node added or subtracted where it stands in a sum."""


def free_nodes(body: LoopBody) -> list[Node]:
    """The nodes outside a loop that its body reads."""
    inside, seen, free = set(body.nodes), set[Node](), list[Node]()
    stack = list(body.nexts)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            if node in inside:
                stack.extend(node.args)
            else:
                free.append(node)
    return sorted(free, key=lambda node: node.order)


# -- what things cost ---------------------------------------------------------------------------
class Work(NamedTuple):
    """Calls of array operations, entries read or written, multiplications in matrix products.

    What products read of constants is apart: all prompts of a batch have the same.
    """

    calls: int
    entries: int
    multiplications: int
    constants: int = 0


class Price(NamedTuple):
    """Nanoseconds of each kind of work, measured with numpy on one core; their ratios matter."""

    call: float
    entry: float
    multiplication: float
    constant: float = 0.0

    def of(self, work: Work) -> float:
        return (
            self.call * work.calls
            + self.entry * work.entries
            + self.multiplication * work.multiplications
            + self.constant * work.constants
        )


ALONE = Price(500.0, 0.12, 0.04, 0.12)
"""Of one prompt. A call takes 280 in a loop, 520 outside. A product of a matrix and a vector takes
0.09 an entry from a cache, 0.13 from a slow one and 0.38 from memory, a sum 0.08 to 0.28; a product
of large matrices takes 0.04 a multiplication, half of that if symmetric."""

BATCHED = Price(10.0, 0.3, 0.06)
"""Of each prompt in a batch of a thousand, which shares the calls and has its numbers further away.
A product of small matrices takes 35 a call, anything else 1."""

SHARED = Price(10.0, 0.3, 0.0)
"""The same where matrices are those of the whole batch: they are multiplied once for all of it."""

STAGED = Price(3.0, 0.1, 0.06)
"""Of each prompt in a batch where jax has compiled all of it: of products with vectors, too, a call
takes next to nothing."""

ARITHMETIC = Price(0.0, 0.05, 1.0, 0.05)
"""Of each prompt where all work is one call, as in a kernel."""

CALL, ENTRY, MULTIPLY, _ = ALONE


LOOK = {False: 14, True: 40}  # calls of a look at powers: columns, or a matrix from both sides
GROWTH = 4  # of what steps do to a value, for each of them: what a power may do by itself


def cost(node: Node, price: Price = ALONE) -> float:
    """Roughly how many nanoseconds a node takes."""
    return price.of(work(node))


def work(node: Node) -> Work:
    """What computing a node takes in a call."""
    if node.known:
        return Work(0, 0, 0)
    if node.op in (*PRODUCTS, "mul"):
        multiplications = node.rows * node.args[0].cols * node.cols if node.op != "mul" else 0
        read, constants = (
            sum(arg.size for arg in node.args if arg.known == known) for known in (False, True)
        )
        return Work(1, read + node.size, multiplications, constants)
    if node.op in ("pick", "diagonal"):
        return Work(1, node.size, 0)
    if node.op == "grown":
        return Work(LOOK[bool(node.data.sides)], 3 * sum(arg.size for arg in node.args), 0)
    if node.op in ("scale", "sum", "pointwise", "apply", "place"):
        read = sum(arg.size for arg in node.args)
        return Work(max(1, len(node.args) - 1), read + node.size, 0)
    return Work(0, 0, 0)


def flops(node: Node) -> int:
    """Multiplications and additions that a node takes, loops multiplied out."""
    if node.op == "matmul":
        return 2 * node.rows * node.args[0].cols * node.cols
    if node.op == "both":
        return 4 * node.rows * node.args[0].cols * node.cols
    if node.op in ("mul", "scale"):
        return node.size
    if node.op == "sum":
        return max(0, sum(arg.size for arg in node.args) - node.size)
    if node.op == "pointwise":
        return 4 * len(node.data.V) * node.size
    if node.op == "apply":
        return int(4 * node.data.net.units * node.size)
    return 0
