"""The plan of the reverse pass: beside torch's autograd, differences, and as a kernel on a CPU."""

from __future__ import annotations

import contextlib
import functools
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest

import inweave
from inweave import Matrix, Scalar, Vector, gallery
from inweave.exact.arithmetic import Floats
from inweave.language.functions import ABS, RELU
from inweave.model.inputs import accept
from inweave.run.backward.reverse import NoReverse, reverse
from inweave.run.kernel.generate import Shape, generate
from inweave.run.kernel.text import Refused
from inweave.run.libraries.execute import Bound
from inweave.run.libraries.functions import applied
from inweave.run.libraries.slopes import Slope
from inweave.run.lines.code import encode, live_nodes
from inweave.run.values.graph import Graph
from inweave.run.values.newton import Refined
from tests import kernels as shim
from tests.kernels import batch_of_examples
from tests.test_kernel import NAMES, SHAPES, networks
from tests.test_scan import in_blocks

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("unchecked_passes", "compiled_once")
needs_compiler = pytest.mark.skipif(shim.compiler() is None, reason="needs a C compiler")

LEAD = (2, 3)
BUILT = (
    "ridge_gd", "heavy_ball", "td0", "newton_schulz", "ridge_closed_form", "lasso_ista",
    "logistic_gd", "recursive_least_squares", "conjugate_gradient", "delta_net", "kalman_filter",
    "pca", "two_layer_gd", "sinkhorn", "weighted_least_squares",
)  # fmt: skip
"""Entries whose reverse pass is built in every layout; a device builds them all."""


def unchecked():
    floats = Floats()
    floats.checked = False
    return floats


def sources_of(net, inputs):
    arrays, _ = accept(net.inputs, inputs)
    return net.plan.sources(arrays, Floats())


def cotangents(net, lead=()):
    rng = np.random.default_rng(1)
    outputs = net.plan.in_one_call.outputs
    return {
        ("cotangent", str(i)): rng.normal(size=(*lead, *x.shape)) for i, x in enumerate(outputs)
    }


def reversed_plan(net, **options):
    variant = net.plan.in_one_call
    wanted = [node.data for node in variant.nodes if node.op == "source"]
    return wanted, reverse(variant.nodes, variant.outputs, wanted, **options)


def gradients(net, sources, given, **options):
    """By the plan of the reverse pass, in numpy."""
    wanted, plan = reversed_plan(net, **options)
    found = Bound(encode(*plan), unchecked()).run(sources | given)
    return dict(zip(wanted, found, strict=True))


def autograd(net, sources, given, checked=True):
    """By torch, through the plan itself."""
    tensors = {name: torch.tensor(x, requires_grad=True) for name, x in sources.items()}
    floats = Floats.like(next(iter(tensors.values())))
    floats.checked = checked
    outs = net.plan.in_one_call.run(tensors, floats)
    pairs = [(out, torch.as_tensor(c)) for out, c in zip(outs, given.values(), strict=True)]
    asked = sum((c * out).sum() for out, c in pairs) + 0.0 * next(iter(tensors.values())).sum()
    found = torch.autograd.grad(asked, [*tensors.values()], materialize_grads=True)
    return {name: x.numpy() for name, x in zip(tensors, found, strict=True)}


def furthest(found, expected):
    """The largest difference, relative to the largest gradient."""
    size = max(np.max(np.abs(x)) for x in expected.values())
    return max(np.max(np.abs(found[name] - expected[name])) for name in found) / max(size, 1e-30)


@pytest.mark.parametrize("stored", [1 << 12, 4], ids=["all states", "from checkpoints"])
def test_gradients_are_those_of_autograd(stored):
    wrong = {}
    for name in NAMES:
        net, draw = networks()[name]
        sources, given = sources_of(net, draw(3)), cotangents(net)
        gap = furthest(gradients(net, sources, given, stored=stored), autograd(net, sources, given))
        if not gap < 1e-9:
            wrong[name] = gap
    assert not wrong


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("stored", [1 << 12, 4], ids=["all states", "from checkpoints"])
def test_gradients_pass_loops_that_take_several_rows_in_a_step(backward, stored):
    net = inweave.compile(in_blocks, n=26, d=4, k=2, size=3, backward=backward, verify=False)
    rng = np.random.default_rng(0)
    inputs = {"K": 0.3 * rng.normal(size=(26, 4)), "V": rng.normal(size=(26, 2))}
    sources, given = sources_of(net, inputs), cotangents(net)
    found = gradients(net, sources, given, stored=stored)
    assert furthest(found, autograd(net, sources, given)) < 1e-9


@pytest.mark.parametrize("name", ["ridge_gd", "logistic_gd", "kalman_filter", "pca"])
def test_gradients_are_limits_of_differences(name):
    net, draw = networks()[f"gallery.{name}"]
    sources, given = sources_of(net, draw(5)), cotangents(net)
    rng, step = np.random.default_rng(2), 1e-6
    found = gradients(net, sources, given)

    def value(by):
        moved = {n: x + by * directions[n] for n, x in sources.items()}
        outs = net.plan.in_one_call.run(moved, unchecked())
        return sum(float(np.sum(c * out)) for c, out in zip(given.values(), outs, strict=True))

    for n, x in found.items():
        directions = {m: np.zeros_like(y) for m, y in sources.items()}
        directions[n] = rng.normal(size=x.shape)
        slope = float(np.sum(x * directions[n]))
        size = np.linalg.norm(x) * np.linalg.norm(directions[n])
        assert abs((value(step) - value(-step)) / (2 * step) - slope) <= 1e-4 * size + 1e-9


def test_gradients_of_a_batch_are_those_of_each():
    net, draw = networks()["gallery.lasso_ista"]
    sources = sources_of(net, batch_of_examples(draw, LEAD))
    given = cotangents(net, LEAD)
    whole = gradients(net, sources, given)
    one = gradients(net, *({n: x[1, 2] for n, x in arrays.items()} for arrays in (sources, given)))
    assert furthest({n: x[1, 2] for n, x in whole.items()}, one) < 1e-12


@pytest.mark.parametrize("steps", [1, 2, 4, 7, 53, 100])
def test_any_number_of_steps_is_cut(steps):
    @inweave.program
    def descent(A: Matrix["d", "d"], w: Vector["d"], s: Scalar):
        return inweave.iterate(lambda w: w - s * (A @ w), w, steps)

    net = inweave.compile(descent, d=3, verify=False)
    rng = np.random.default_rng(0)
    inputs = {"A": rng.normal(size=(3, 3)), "w": rng.normal(size=3), "s": 0.1}
    sources, given = sources_of(net, inputs), cotangents(net)
    expected = autograd(net, sources, given)
    assert furthest(gradients(net, sources, given, stored=1), expected) < 1e-11


def test_checkpoints_are_a_root_of_the_steps():
    net, _ = networks()["gallery.ridge_gd"]
    steps, size = gallery.get("ridge_gd").sizes["steps"], gallery.get("ridge_gd").sizes["d"]
    rows = {}
    for stored in (1, 1 << 20):
        _, plan = reversed_plan(net, stored=stored)
        results = [x for x in live_nodes(plan.outputs) if x.op == "result" and x.cols == size]
        rows[stored] = max(x.rows for x in results)
    assert rows[1 << 20] == steps
    assert rows[1] <= 2 * steps**0.5


def test_only_what_is_wanted_is_computed():
    net, draw = networks()["gallery.ridge_gd"]
    variant = net.plan.in_one_call
    sources, given = sources_of(net, draw(1)), cotangents(net)
    plan = reverse(variant.nodes, variant.outputs, [("input", "u")])
    (found,) = Bound(encode(*plan), unchecked()).run(sources | given)
    np.testing.assert_allclose(found, gradients(net, sources, given)["input", "u"])
    loops = [node for node in live_nodes(plan.outputs) if node.op == "loop"]
    assert len(loops) == 1  # forwards: u is read after it
    assert sum(node.op == "loop" for node in live_nodes(reversed_plan(net)[1].outputs)) == 2


def test_what_an_input_has_no_part_in_is_zero():
    @inweave.program
    def first(x: Vector["n"], y: Vector["n"]):
        return x, 0 * y

    net = inweave.compile(first, n=3, verify=False)
    inputs = {"x": np.ones(3), "y": np.ones(3)}
    sources, given = sources_of(net, inputs), cotangents(net)
    found = gradients(net, sources, given)
    np.testing.assert_array_equal(found["input", "x"], given["cotangent", "0"])
    assert not found.get(("input", "y"), np.zeros(1)).any()


# -- functions -------------------------------------------------------------------------------------
def functions():
    found = {"relu": RELU, "abs": ABS}
    for name in ("logistic_gd", "conjugate_gradient", "huber_gd"):
        net = networks()[f"gallery.{name}"][0]
        for node in live_nodes(net.plan.in_one_call.outputs):
            if node.op == "apply":
                found[node.data.name] = node.data
    return found


@pytest.mark.parametrize("checked", [True, False])
def test_a_slope_is_that_of_autograd_at_every_knot_and_between(checked):
    for name, function in functions().items():
        low, high = getattr(function, "table", function).domain or (-2.0, 2.0)
        x = np.concatenate([np.linspace(low, high, 1001), [0.0] if low < 0 < high else []])[:, None]
        floats = unchecked()
        slope = applied(Slope(function), *x.shape, floats)(x)
        tensor = torch.tensor(x, requires_grad=True)
        there = Floats.like(tensor)
        there.checked = checked
        applied(function, *x.shape, there)(tensor).sum().backward()
        expected = tensor.grad.numpy()
        gap = np.max(np.abs(slope - expected)) / np.max(np.abs(expected))
        exact = isinstance(function, Refined) and checked  # torch divides, where it has looked
        assert gap < (1e-6 if exact else 1e-9), name


def test_a_layer_of_units_has_no_reverse():
    graph = Graph()
    x = graph.source("x", 2, 2, "x")
    out = graph.make("pointwise", (x,), object(), 2, 2)
    with pytest.raises(NoReverse, match="units"):
        reverse(graph.scopes[0].nodes, [out], ["x"])


# -- as kernels ------------------------------------------------------------------------------------
@functools.cache
def built(dtype, layout):
    kernels = {}
    for name in BUILT:
        _, plan = reversed_plan(networks()[f"gallery.{name}"][0])
        kernels[name] = generate(*plan, dtype, False, SHAPES[layout])
    return kernels, shim.build([*kernels.values()], Path(tempfile.mkdtemp()), "-O0")


@needs_compiler
@pytest.mark.parametrize(
    ("dtype", "layout"),
    [("float64", "prompt, short streams"), ("float64", "row, short streams"), ("float32", "row")],
)
def test_kernels_compute_what_reverse_plans_do(dtype, layout):
    kernels, library = built(dtype, layout)
    tolerance = {"float64": 1e-9, "float32": 2e-3}[dtype]
    wrong = {}
    for name in BUILT:
        net, draw = networks()[f"gallery.{name}"]
        sources, given = sources_of(net, batch_of_examples(draw, LEAD)), cotangents(net, LEAD)
        outs, _ = shim.run(library, kernels[name], sources | given, LEAD)
        expected = gradients(net, sources, given)
        gap = furthest(dict(zip(expected, outs, strict=True)), expected)
        if not gap < tolerance:
            wrong[name] = gap
    assert not wrong


WITHOUT = {"float32": {}, "float64": {"gd_plus_plus": "registers"}}
"""Entries whose gradients are no kernel, and what says why."""


@pytest.mark.parametrize("dtype", WITHOUT)
def test_nearly_every_entry_has_a_kernel_for_its_gradients(dtype):
    found = {}
    for name in gallery.names():
        net = networks()[f"gallery.{name}"][0]
        wanted, plan = reversed_plan(net)
        with contextlib.suppress(Refused):  # what is tried first
            generate(*plan, dtype, False)
            continue
        try:
            net.plan.kernels.backward.kernel(dtype, True, wanted)
        except Refused as refused:
            found[name] = str(refused)
    assert found.keys() == WITHOUT[dtype].keys()
    assert all(why in found[name] for name, why in WITHOUT[dtype].items())


@needs_compiler
@pytest.mark.parametrize("layout", ["prompt", "row", "two rows"])
def test_what_steps_ask_of_a_symmetric_matrix_is_a_product_and_its_transpose(layout, tmp_path):
    """Which are one triangle, of rows that the steps leave."""
    net = gallery.get("ridge_gd").compile(n=14, d=10, steps=13, verify=False)
    inputs = batch_of_examples(lambda seed: ridge(seed, 14, 10), LEAD)
    sources, given = sources_of(net, inputs), cotangents(net, LEAD)
    wanted, plan = reversed_plan(net)
    assert sum(node.op == "both" for node in live_nodes(plan.outputs)) == 1
    kernel = generate(*plan, "float64", False, SHAPES[layout])
    assert ("[55];" in kernel.text) == (layout == "prompt")
    outs, _ = shim.run(shim.build([kernel], tmp_path, "-O0"), kernel, sources | given, LEAD)
    expected = autograd(net, sources, given)
    assert furthest(gradients(net, sources, given), expected) < 1e-10
    assert furthest(dict(zip(wanted, outs, strict=True)), expected) < 1e-10


def ridge(seed, n, d):
    rng = np.random.default_rng(seed)
    vectors = {"y": rng.normal(size=n), "u": rng.normal(size=d), "w0": rng.normal(size=d)}
    return {"X": rng.normal(size=(n, d)), **vectors, "lam": 0.1, "eta": 0.01}


def test_memory_is_used_again_where_it_is_short():
    _, plan = reversed_plan(networks()["gallery.nesterov"][0])
    few, many = (
        generate(*plan, "float32", False, Shape(kind="row", prompts=prompts)) for prompts in (1, 64)
    )
    places = [re.findall(r"real \*\w+ = memory \+ (\d+);", kernel.text) for kernel in (few, many)]
    assert len(set(places[0])) == len(places[0])
    assert len(set(places[1])) < len(places[1])
    assert many.shared // many.prompts < few.shared
