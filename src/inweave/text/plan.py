"""A plan in words: one line per value, in the order in which they are computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from inweave.compiler.forms import number
from inweave.exact.names import FACTOR, compound
from inweave.run.lines.code import live_nodes, needs
from inweave.run.plan import Plan
from inweave.run.values.node import LoopBody, Node

SILENT = ("const", "source", "phi", "view", "loop", "result")


def describe(plan: Plan) -> str:
    """The lines that compute the answers, such as `w -= G w - b`."""
    variant, names = plan.shown
    outputs = list(zip(names, variant.outputs, strict=True))
    lines = _Printer(variant.outputs).lines(variant.nodes, outputs)
    return "\n".join([f"Plan, {plan.flops:,} flops:", *lines])


class _Printer:
    def __init__(self, outputs: Sequence[Node]) -> None:
        self.live = live_nodes(outputs)
        self.uses = Counter(arg for node in self.live for arg in node.args)
        self.uses.update(outputs)
        self.names: dict[Node, str] = {}
        self._fresh = 0

    def lines(self, nodes: Sequence[Node], outputs: Sequence[tuple[str, Node]]) -> list[str]:
        out = self._scope(nodes, "  ", {})
        for name, node in outputs:
            out.append(f"  return {f'{name} = ' if name else ''}{self._text(node)}")
        return out

    def _scope(self, nodes: Sequence[Node], indent: str, goals: dict[Node, Node]) -> list[str]:
        """One straight line; `goals` maps the last value of a carried one to its phi."""
        nodes = [node for node in nodes if node in self.live]
        out: list[str] = []
        for i, node in enumerate(nodes):
            if node.op == "loop":
                out += self._loop(node.data, indent)
            elif node.op == "result":
                self.names[node] = self.names[node.args[0].data.phis[node.data]]
            elif node.op == "source":
                self.names[node] = node.label
            elif node.op not in SILENT and (node.label or self.uses[node] > 1 or node in goals):
                phi = goals.get(node)
                later = {n for other in nodes[i + 1 :] for n in needs(other, self.live)}
                if phi is not None and phi not in later and node not in later:
                    name = self.names[phi]
                else:
                    name = self._new_name(node)
                out.append(indent + self._assignment(name, node))
                self.names[node] = name
        return out

    def _loop(self, body: LoopBody, indent: str) -> list[str]:
        carried = [i for i, phi in enumerate(body.phis) if phi in self.live]
        out = []
        for i in carried:
            phi = body.phis[i]
            self.names[phi] = self._new_name(phi)
            out.append(f"{indent}{self.names[phi]} = {self._text(body.inits[i])}")
        out.append(f"{indent}repeat {body.repeat}:")
        goals = {body.nexts[i]: body.phis[i] for i in carried if body.nexts[i] in body.nodes}
        out += self._scope(body.nodes, indent + "  ", goals)
        for i in carried:
            name, value = self.names[body.phis[i]], self._text(body.nexts[i])
            if name != value:
                out.append(f"{indent}  {name} = {value}")
        return out

    def _new_name(self, node: Node) -> str:
        name = node.label
        if not name or name.startswith(FACTOR):
            self._fresh += 1
            return f"t{self._fresh}"
        if compound(name) or name.endswith("ᵀ"):
            name = f"[{name}]"
        while name in self.names.values():
            name += "′"
        return name

    # -- expressions ------------------------------------------------------------------------------
    def _assignment(self, name: str, node: Node) -> str:
        """`w -= ...` where a value is what it was before plus something."""
        if node.op == "sum":
            parts = self._parts(node)
            for i, (sign, text, whole) in enumerate(parts):
                if sign > 0 and whole and text == name:
                    rest = parts[:i] + parts[i + 1 :]
                    if all(s < 0 for s, _, _ in rest):
                        return f"{name} -= {_joined([(1, t) for _, t, _ in rest])}"
                    return f"{name} += {_joined([(s, t) for s, t, _ in rest])}"
        return f"{name} = {self._expression(node)}"

    def _parts(self, node: Node) -> list[tuple[int, str, bool]]:
        rows, cols, where = node.data
        out = []
        for arg, (sign, row, col) in zip(node.args, where, strict=True):
            whole = (arg.rows, arg.cols) == (rows, cols)
            text = self._text(arg, "+" if arg.op == "sum" or not whole else "")
            out.append((sign, text if whole else f"{text}@({row},{col})", whole))
        return out

    def _text(self, node: Node, inside: str = "") -> str:
        """A node by its name, or as an expression in brackets if it needs them."""
        if node in self.names:
            return self.names[node]
        text = self._expression(node)
        return f"({text})" if inside and " " in text else text

    def _expression(self, node: Node) -> str:
        if node.op in ("matmul", "mul"):
            sign = " * " if _is_entrywise(node) else " "
            return sign.join(self._text(arg, "*") for arg in node.args)
        if node.op == "diagonal":
            return f"diag({self._text(node.args[0])})"
        if node.op == "scale" and node.data == -1:
            return f"-{self._text(node.args[0], '*')}"
        if node.op == "scale":
            return f"{number(node.data)} {self._text(node.args[0], '*')}".removeprefix("1 ")
        if node.op == "sum":
            return _joined([(sign, text) for sign, text, _ in self._parts(node)])
        if node.op == "view":
            return self._view(node)
        if node.op == "apply":
            return f"{node.data.name}({self._text(node.args[0])})"
        if node.op == "pointwise":
            units = len(node.data.V)
            return f"{node.data.activation}{units}({self._text(node.args[0])})"
        if node.op == "const":
            return "0" if getattr(node.data, "size", 1) == 0 else repr(node.data)
        return node.label or node.op

    def _view(self, node: Node) -> str:
        row, col, rows, cols, flip = node.data
        base = node.args[0]
        text = self._text(base, "[")
        if (rows, cols) != (base.rows, base.cols):
            down = "" if rows == base.rows else f"{row}:{row + rows}"
            across = "" if cols == base.cols else f"{col}:{col + cols}"
            text += f"[{down or ':'},{across or ':'}]"
        return f"{text}ᵀ" if flip else text


def _is_entrywise(node: Node) -> bool:
    """Whether a product is no product of matrices, and not by a scalar either."""
    a, b = node.args
    return node.op == "mul" and not a.is_scalar and (a.cols, b.rows) != (1, 1)


def _joined(parts: Sequence[tuple[int, str]]) -> str:
    text = ""
    for sign, part in parts:
        if text:
            text += (" + " if sign > 0 else " - ") + part
        else:
            text = part if sign > 0 else f"-{part}"
    return text
