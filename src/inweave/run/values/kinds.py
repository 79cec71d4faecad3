"""What kind of value a node is, read off how it is made: what rules ask before they act."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from inweave.exact.constants import Ones, Shift
from inweave.run.values.node import Node, Part

ONE = Fraction(1)
NEAR = 20  # powers of two from one, within which a number multiplies later rather than sooner


def is_near(c: Fraction, near: int = NEAR) -> bool:
    """Whether a number is some powers of two from one."""
    return abs(c.numerator.bit_length() - c.denominator.bit_length()) <= near


def is_outer(x: Node) -> bool:
    """Whether a node is a column times a row."""
    return x.op == "mul" and x.args[0].cols == x.args[1].rows == 1 and min(x.shape) > 1


def is_even(x: Node) -> bool:
    """Whether one number stands in all entries."""
    if (x.op == "mul" and x.args[0].is_scalar) or x.op == "scale":
        x = x.args[-1]
    return is_ones(x)


def is_constant(x: Node) -> bool:
    """Whether a node is a constant, a multiple or a slice of one."""
    return x.op == "const" or (x.op in ("scale", "view") and is_constant(x.args[0]))


def is_ones(x: Node) -> bool:
    return x.op == "const" and isinstance(x.data, Ones)


def is_zero(x: Node) -> bool:
    return x.op == "const" and isinstance(x.data, Shift) and x.data.size == 0


def on_diagonal(x: Node) -> Node | None:
    """The column on the diagonal of a diagonal matrix, which is that column times the identity."""
    is_made = x.op == "mul" and x.args[0].cols == 1 and x.rows == x.cols > 1
    return (
        x.args[0] if is_made and x.args[1].op == "const" and x.args[1].data.is_identity() else None
    )


def parts_of(x: Node, row: int, col: int, rows: int, cols: int) -> list[Part] | None:
    """The parts of a sum that a slice meets; None of what is no sum."""
    if x.op != "sum":
        return None
    placed = zip(x.args, x.data[2], strict=True)
    return [
        (sign, node, up, left)
        for node, (sign, up, left) in placed
        if up < row + rows and row < up + node.rows and left < col + cols and col < left + node.cols
    ]


def more_turned(nodes: Sequence[Node]) -> int:
    """How many more of these nodes are transposed than not; what is either way does not count."""
    either = (x.args[0] if x.op == "scale" else x for x in nodes)
    free = [x for x, of in zip(nodes, either, strict=True)
            if not (x.symmetric or x.is_scalar or of.turns)]  # fmt: skip
    return sum(1 if x.flipped else -1 for x in free)


def wants_turn(nodes: Sequence[Node]) -> bool:
    """Whether an operation entry by entry is computed transposed: where less is so, or the oldest.

    So a value is one node, whichever way round it is asked for.
    """
    turned = more_turned(nodes)
    return turned > 0 or (turned == 0 and min((age(x), x.flipped) for x in nodes)[1])


def age(node: Node) -> int:
    return node.args[0].order if node.op == "view" else node.order
