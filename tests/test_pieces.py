"""Pieces of identities, zeros, sums in bands: what a plan reads where it stands, it reads right."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import inweave
from inweave import Matrix, gallery
from inweave.exact.arithmetic import Rationals
from inweave.exact.constants import Shift
from inweave.run.lines.code import Line
from inweave.run.values.graph import Graph, _slice
from inweave.run.values.node import Node
from inweave.run.values.term import Box, Term
from inweave.run.values.terms import assemble, clip, standing, times, triple

pytestmark = pytest.mark.usefixtures("unchecked_passes")


def value(node: Node, sources: dict[str, np.ndarray]) -> np.ndarray:
    """What a node of the straight line holds."""
    args = [value(arg, sources) for arg in node.args]
    if node.op == "source":
        return sources[node.data]
    if node.op == "const":
        return node.data.entries()
    if node.op == "view":
        row, col, rows, cols, flip = node.data
        part = args[0][row : row + rows, col : col + cols]
        return part.T if flip else part
    if node.op == "sum":
        rows, cols, where = node.data
        out = np.zeros((rows, cols))
        for x, (sign, row, col) in zip(args, where, strict=True):
            out[row : row + x.shape[0], col : col + x.shape[1]] += sign * x
        return out
    if node.op == "scale":
        return float(node.data) * args[0]
    return args[0] @ args[1] if node.op == "matmul" else args[0] * args[1]


@st.composite
def shifts(draw):
    rows, cols = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    row, col = draw(st.integers(0, rows)), draw(st.integers(0, cols))
    return Shift(rows, cols, row, col, draw(st.integers(0, min(rows - row, cols - col))))


@given(st.data(), shifts())
def test_a_slice_of_a_piece_of_an_identity_is_one(data, shift):
    row, col = data.draw(st.integers(0, shift.rows - 1)), data.draw(st.integers(0, shift.cols - 1))
    rows = data.draw(st.integers(1, shift.rows - row))
    cols = data.draw(st.integers(1, shift.cols - col))
    expected = shift.entries()[row : row + rows, col : col + cols]
    assert np.array_equal(_slice(shift, row, col, rows, cols).entries(), expected)
    graph = Graph()
    for flip in (False, True):
        node = graph.view(graph.const(shift), row, col, rows, cols, flip)
        assert node.op == "const"
        assert np.array_equal(value(node, {}), expected.T if flip else expected)


@given(st.data(), shifts(), st.booleans())
def test_a_product_with_a_piece_of_an_identity_moves_rows_or_columns(data, shift, left):
    graph, other = Graph(), data.draw(st.integers(1, 5))
    shape = (shift.cols, other) if left else (other, shift.rows)
    entries = np.arange(1.0, 1 + shape[0] * shape[1]).reshape(shape)
    x, moved = graph.source("x", *shape, "x"), graph.const(shift)
    node = graph.matmul(moved, x) if left else graph.matmul(x, moved)
    expected = shift.entries() @ entries if left else entries @ shift.entries()
    assert np.array_equal(value(node, {"x": entries}), expected)
    assert not [n for n in graph.scopes[0].nodes if n.op in ("matmul", "mul")]


@given(st.data(), st.integers(2, 7), st.integers(1, 4))
def test_sums_in_bands_are_the_sums_and_rows_of_them_are_read_where_they_stand(data, rows, cols):
    """One matrix after the other, each the one before with something added to some of its rows."""
    graph, rng = Graph(), np.random.default_rng(data.draw(st.integers(0, 1000)))
    sources = {"x": rng.integers(-9, 9, (rows, cols)).astype(float)}
    node, expected = graph.source("x", rows, cols, "x"), sources["x"].copy()
    for i in range(data.draw(st.integers(1, 5))):
        low = data.draw(st.integers(0, rows - 1))
        high, sign = data.draw(st.integers(low + 1, rows)), data.draw(st.sampled_from([1, -1]))
        sources[f"p{i}"] = rng.integers(-9, 9, (high - low, cols)).astype(float)
        part = graph.source(f"p{i}", high - low, cols, "p")
        node = graph.total(rows, cols, [(1, node, 0, 0), (sign, part, low, 0)])
        expected[low:high] += sign * sources[f"p{i}"]
        if data.draw(st.booleans()):  # something reads all of it
            square = graph.matmul(graph.flip(node), node)
            assert np.array_equal(value(square, sources), expected.T @ expected)
        row = data.draw(st.integers(0, rows - 1))
        read = graph.view(node, row, 0, 1, cols)
        assert np.array_equal(value(read, sources), expected[row : row + 1])
    assert np.array_equal(value(node, sources), expected)


@given(st.integers(1, 5), st.integers(0, 3), st.integers(0, 3), st.integers(1, 4))
def test_rows_of_zeros_take_no_part_in_a_product(size, above, below, cols):
    graph, rng = Graph(), np.random.default_rng(size)
    rows = above + size + below
    sources = {
        "a": rng.integers(-9, 9, (3, rows)).astype(float),
        "b": rng.integers(-9, 9, (size, cols)).astype(float),
    }
    a, b = graph.source("a", 3, rows, "a"), graph.source("b", size, cols, "b")
    padded = graph.total(rows, cols, [(1, b, above, 0)])
    expected = sources["a"][:, above : above + size] @ sources["b"]
    turned = graph.flip(graph.matmul(graph.flip(padded), graph.flip(a)))
    for node in (graph.matmul(a, padded), turned):
        assert np.array_equal(value(node, sources), expected)
    assert all(n.args[0].cols == size for n in graph.scopes[0].nodes if n.op == "matmul")


def test_elimination_below_the_pivots_leaves_the_rows_above_alone():
    """As many additions as by hand, and no step puts the whole matrix together again."""
    net = gallery.get("gaussian_elimination").compile(m=8, k=2, verify=False)
    lines = [line for line in net.plan.from_inputs.code.lines if isinstance(line, Line)]
    assert sum(line.op == "concat" and line.cols == 10 for line in lines) <= 1
    tables = 8 * 4 * 63  # of the pivots' reciprocals
    assert net.plan.from_inputs.code.flops - tables < 2 * 8**3
    rng = np.random.default_rng(0)
    F, B = rng.normal(size=(8, 8)) + 8 * np.eye(8), rng.normal(size=(8, 2))
    assert np.allclose(net(F=F, B=B), np.linalg.solve(F, B), rtol=1e-12)


@given(st.data(), st.integers(2, 6), st.integers(2, 6), st.booleans())
def test_a_slice_of_a_column_times_a_row_multiplies_no_more(data, rows, cols, flip):
    graph = Graph()
    sources = {"x": np.arange(1.0, rows + 1)[:, None], "y": np.arange(2.0, cols + 2)[None]}
    x, y = (graph.source(name, *entries.shape, name) for name, entries in sources.items())
    top, left = data.draw(st.integers(1, rows - 1)), data.draw(st.integers(0, cols - 1))
    part = graph.view(graph.matmul(x, y), top, left, rows - top, cols - left, flip)
    expected = (sources["x"] @ sources["y"])[top:, left:]
    assert np.array_equal(value(part, sources), expected.T if flip else expected)
    upright = part.args[0] if part.op == "view" else part
    assert upright.size == expected.size


@given(st.integers(1, 4), st.integers(0, 3), st.integers(0, 3), st.booleans(), st.booleans())
def test_zeros_beside_a_factor_are_beside_the_product(size, before, after, left, flip):
    graph, rng = Graph(), np.random.default_rng(size)
    wide = before + size + after
    sources = {
        "a": rng.integers(-9, 9, (3, 2)).astype(float),
        "b": rng.integers(-9, 9, (2, size)).astype(float),
    }
    a, b = graph.source("a", 3, 2, "a"), graph.source("b", 2, size, "b")
    padded = graph.total(2, wide, [(1, b, 0, before)])
    if flip:  # the same, but what is stored stands the other way round
        padded = graph.flip(graph.total(wide, 2, [(1, graph.flip(b), before, 0)]))
    node = graph.matmul(a, padded)
    if left:
        node = graph.flip(graph.matmul(graph.flip(padded), graph.flip(a)))
    expected = np.zeros((3, wide))
    expected[:, before : before + size] = sources["a"] @ sources["b"]
    assert np.array_equal(value(node, sources), expected)
    assert all(n.size == 3 * size for n in graph.scopes[0].nodes if n.op in ("matmul", "mul"))


def test_a_number_times_a_unit_vector_is_that_number_in_its_place():
    graph = Graph()
    s = graph.source("s", 1, 1, "s")
    node = graph.mul(s, graph.const(Shift(1, 4, 0, 2, 1)))
    assert (node.op, node.args, node.data[2]) == ("sum", (s,), ((1, 0, 2),))


@given(st.data(), st.integers(3, 6), st.booleans(), st.booleans())
def test_a_slice_of_diagonal_matrices_is_what_stands_there_without_zeros(data, n, flip, whole):
    """Diagonal matrices stand beside each other with zeros around them; some of it is cut out."""
    graph, rng = Graph(), np.random.default_rng(n)
    parts, wanted, sources = [], np.zeros((n, 2 * n)), {}
    for i in range(2):
        size = n if whole else data.draw(st.integers(2, n))
        at = data.draw(st.integers(0, n - size))
        entries = data.draw(st.sampled_from([size, 1]))  # or one number for all
        sources[f"x{i}"] = rng.integers(1, 9, (entries, 1)).astype(float)
        column = graph.source(f"x{i}", entries, 1, "x")
        square = graph.entrywise(column, graph.const(Shift(size, size, 0, 0, size)))
        parts.append((data.draw(st.sampled_from([1, -1])), square, at, i * n + at))
        rows = at + np.arange(size)
        wanted[rows, i * n + rows] = parts[-1][0] * sources[f"x{i}"][:, 0]
    node = graph.total(n, 2 * n, parts)
    node, wanted = (graph.flip(node), wanted.T) if flip else (node, wanted)
    low, high = sorted(data.draw(st.lists(st.integers(0, n), min_size=2, max_size=2, unique=True)))
    box = Box(low, n, high, 2 * n) if not flip else Box(n, low, 2 * n, high)
    term = clip(graph, standing(graph, node, 0, 0), box)
    found = value(assemble(graph, [term], box), sources)
    assert np.array_equal(found, wanted[box.top : box.bottom, box.left : box.right])
    y = graph.source("y", n, 3, "y")
    sources["y"] = rng.integers(-9, 9, (n, 3)).astype(float)
    left, right = (term.moved(-box.top, -box.left),), (standing(graph, y, 0, 0),)
    if flip:
        right = (standing(graph, graph.view(y, 0, 0, high - low, 3), 0, 0),)
    product = times(graph, left, right)
    expected = wanted[box.top : box.bottom, box.left : box.right] @ sources["y"][: box.cols]
    assert np.array_equal(
        value(assemble(graph, product, Box(0, 0, box.rows, 3)), sources), expected
    )
    assert all(x.op != "matmul" for x in graph.scopes[0].nodes)


def test_of_the_middle_of_a_head_no_more_is_multiplied_than_the_others_read():
    graph = Graph()
    X, w = graph.source("X", 9, 4, "X"), graph.source("w", 4, 1, "w")
    some, all_rows = (Term(0, 0, 3),), (Term(0, 0, 9),)
    X, w = (standing(graph, X, 0, 0),), (standing(graph, w, 0, 0),)
    (term,) = triple(graph, some, X, w)
    assert term.core.op == "matmul"
    assert term.core.rows == 3
    (whole,) = triple(graph, all_rows, X, w)
    (term,) = triple(graph, (Term(0, 0, 5),), X, w)
    assert term.core.args[0] is whole.core  # which is there already


@given(st.data(), st.booleans(), st.booleans())
def test_neighbouring_slices_that_stand_as_in_their_value_are_one(data, flip, across):
    rows, cols = 7, 5
    graph, x = Graph(), np.random.default_rng(0).normal(size=(rows, cols))
    source, size = graph.source("x", rows, cols, "x"), cols if across else rows
    cuts = sorted({0, size, *data.draw(st.lists(st.integers(0, size), max_size=3))})
    left_out = data.draw(st.sampled_from([None, *cuts[:-1]]))
    shape, parts, wanted = (cols, rows) if flip else (rows, cols), [], np.zeros((rows, cols))
    for low, high in pairwise(cuts):
        if low == left_out:
            continue
        box = (0, low, rows, high - low) if across else (low, 0, high - low, cols)
        place = (box[1], box[0]) if flip else box[:2]
        parts.append((1, graph.view(source, *box, flip), *place))
        wanted[box[0] : box[0] + box[2], box[1] : box[1] + box[3]] = x[
            box[0] : box[0] + box[2], box[1] : box[1] + box[3]
        ]
    found = graph.total(*shape, parts)
    np.testing.assert_array_equal(value(found, {"x": x}), wanted.T if flip else wanted)
    if left_out is None:
        assert found is (graph.flip(source) if flip else source)


def test_a_step_makes_as_many_calls_for_many_clusters_as_for_few():
    """Their lengths stand in blocks of their own, which are made alike."""
    entry = gallery.get("gaussian_mixture")
    few, many = (
        entry.compile(verify=False, optimize="speed", n=20, d=6, k=k).plan.from_inputs.code.calls
        for k in (7, 12)
    )
    assert few == many


@pytest.mark.parametrize("optimize", ["faithful", "speed", "depth"])
@pytest.mark.parametrize("sides", ["left", "right", "both", "held"])
def test_a_matrix_that_centers_takes_sums_and_no_products_from_either_side(sides, optimize):
    n = 24
    H = np.eye(n) - 1 / n

    @inweave.program
    def program(K: Matrix["n", "n"], L: Matrix["n", "n"]):
        if sides == "held":
            return inweave.trace(inweave.hold(K @ H) @ inweave.hold(L @ H))
        left = H @ K if sides != "right" else K
        return left @ H if sides != "left" else left

    with (
        pytest.warns(UserWarning, match="not use") if sides != "held" else nullcontext()
    ):  # L is not used
        net = inweave.compile(program, n=n, optimize=optimize, verify=False)
    K, L = np.random.default_rng(0).normal(size=(2, n, n))
    wanted = {"left": H @ K, "right": K @ H, "both": H @ K @ H, "held": np.trace(K @ H @ L @ H)}
    np.testing.assert_allclose(net(K=K, L=L), wanted[sides], rtol=1e-11, atol=1e-12)
    lines = net.plan.from_inputs.code.lines
    assert all(line.rows * line.cols <= n for line in lines if line.op == "matmul")


def test_what_centers_is_taken_apart_exactly():
    """1 - 1/n and -1/n are floats, and their difference is none."""
    n = 19
    H = np.eye(n) - 1 / n

    @inweave.program
    def program(K: Matrix["n", "n"]):
        return H @ K @ H

    net = inweave.compile(program, n=n, optimize="speed", verify=False)
    arithmetic = Rationals()
    K, exactly = map(arithmetic.array, (np.random.default_rng(0).integers(-9, 9, (n, n)), H))
    (found,) = net.plan.in_batch({"K": K}, arithmetic).values()
    assert (found == exactly @ K @ exactly).all()
