"""Kernels on a CPU: the text that a device would run, built with the system's C compiler.

Threads of a block run from barrier to barrier, one after another, and shared memory begins as NaN,
so that a barrier that is missing or a value that is not there shows in the answers.
"""

from __future__ import annotations

import functools
import json
import re
import sys
import tempfile
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import inweave
from benchmarks import kernel_bars, kernel_docs
from inweave import gallery
from inweave.exact.arithmetic import Floats
from inweave.model.inputs import accept
from inweave.run.kernel import cache, device
from inweave.run.kernel.frame import Frame, Order
from inweave.run.kernel.generate import Shape, generate
from inweave.run.kernel.prelude import FAR, LEFT_DOMAIN, NOT_FINITE
from inweave.run.kernel.text import Refused
from tests import kernels as shim
from tests.cases import CASES
from tests.kernels import batch_of_examples

needs_compiler = pytest.mark.skipif(shim.compiler() is None, reason="needs a C compiler")
pytestmark = pytest.mark.usefixtures("unchecked_passes", "compiled_once")

LEAD = (2, 3)
SHAPES = {
    "prompt": Shape(kind="prompt"),
    "prompt, short streams": Shape(kind="prompt", long=2, unrolled=2),
    "row": Shape(kind="row", prompts=4),
    "row, short streams": Shape(kind="row", long=2, chunk=2, prompts=3, rows=1),
    "two rows": Shape(kind="row", prompts=2, rows=2),
}
"""Layouts; short streams, so that small cases have some, in pieces that do not divide them."""


@functools.cache
def networks():
    """Every case, and every entry of the gallery: a network and how to draw inputs for it."""
    found = {case.name: (case.program, case.sizes, {}, case.inputs) for case in CASES}
    for entry in gallery.entries():
        found[f"gallery.{entry.name}"] = (entry.program, entry.sizes, entry.options, entry.example)
    return {
        name: (inweave.compile(program, **sizes, **options, verify=False), draw)
        for name, (program, sizes, options, draw) in found.items()
    }


@functools.cache
def built(dtype, layout):
    """The kernels of all networks that have one in this layout, in one library."""
    kernels = {}
    for name, (net, _) in networks().items():
        try:
            variant = net.plan.in_one_call
            kernels[name] = generate(variant.nodes, variant.outputs, dtype, True, SHAPES[layout])
        except Refused as refused:
            kernels[name] = refused
    folder = Path(tempfile.mkdtemp())
    some = [kernel for kernel in kernels.values() if not isinstance(kernel, Refused)]
    return kernels, shim.build(some, folder, "-O0")


def answered(dtype, layout, name, inputs):
    """What a kernel answers, its flags, and what the plan answers in double precision."""
    kernels, library = built(dtype, layout)
    if isinstance(kernels[name], Refused):
        return None
    net = networks()[name][0]
    arrays, _ = accept(net.inputs, inputs)
    sources = net.plan.sources(arrays, Floats())
    outs, flags = shim.run(library, kernels[name], sources, LEAD)
    return outs, flags, net.plan.from_inputs.run(sources, Floats())


NAMES = [case.name for case in CASES] + [f"gallery.{name}" for name in gallery.names()]


@needs_compiler
@pytest.mark.parametrize(
    ("dtype", "layout"),
    [*(("float64", layout) for layout in SHAPES), ("float32", "prompt"), ("float32", "row")],
)
def test_kernels_compute_what_plans_do(dtype, layout):
    tolerance = {"float64": 1e-9, "float32": 2e-3}[dtype]
    wrong, count = {}, 0
    for name in NAMES:
        draw = networks()[name][1]
        found = answered(dtype, layout, name, batch_of_examples(draw, LEAD))
        if found is None:
            continue
        outs, flags, expected = found
        count += 1
        for out, value in zip(outs, expected, strict=True):
            assert out.shape == (*LEAD, *value.shape[-2:])
            gap = np.max(np.abs(out - value), initial=0.0)
            if not gap <= tolerance * np.max(np.abs(value), initial=1e-30) or flags.any():
                wrong[name] = gap, flags
    assert not wrong
    assert count >= (len(NAMES) if layout.startswith("prompt") else 60)


@needs_compiler
@pytest.mark.parametrize("layout", ["prompt", "row"])
def test_a_prompt_is_marked_for_what_is_wrong_with_it_and_no_other_is(layout):
    entry = gallery.get("conjugate_gradient")
    inputs = batch_of_examples(entry.example, LEAD)
    inputs["A"] = inputs["A"].copy()
    inputs["A"][1, 0] *= -1.0  # pᵀAp < 0, of which there is no reciprocal
    inputs["A"][1, 2, 3, 3] = np.nan
    flags = flags_of("gallery.conjugate_gradient", layout, inputs)
    assert flags[1, 0] & LEFT_DOMAIN
    assert flags[1, 2] & NOT_FINITE
    assert not flags[0].any()
    assert not flags[1, 1]
    given = batch_of_examples(gallery.get("ridge_gd").example, LEAD)
    given["eta"] = given["eta"] * np.where(np.arange(6).reshape(LEAD) == 4, 1e3, 1.0)
    flags = flags_of("gallery.ridge_gd", layout, given)
    assert flags[1, 1] & FAR
    assert np.count_nonzero(flags) == 1


@needs_compiler
def test_a_table_that_ends_where_its_domain_does_marks_what_is_beyond():
    inputs = batch_of_examples(gallery.get("logistic_gd").example, LEAD)
    inputs["X"][0, 2] *= 1e4  # sigmoid(Xw) far beyond its table
    for dtype in ("float32", "float64"):
        flags = flags_of("gallery.logistic_gd", "prompt", inputs, dtype)
        assert flags[0, 2] & LEFT_DOMAIN
        assert np.count_nonzero(flags) == 1


@needs_compiler
@pytest.mark.parametrize("layout", ["prompt, short streams", "row, short streams"])
def test_an_entry_that_is_not_finite_is_seen_wherever_it_stands(layout):
    """Whether it is looked at by itself, or in a sum that it enters, or in a stream's row."""
    unseen = []
    for name in NAMES:
        net, draw = networks()[name]
        if isinstance(built("float64", layout)[0][name], Refused):
            continue
        used = {source for _, source in built("float64", layout)[0][name].sources}
        for spec in net.inputs:
            if spec.name not in used or spec.sign != "any":
                continue
            inputs = batch_of_examples(draw, LEAD)
            entries = inputs[spec.name].copy().reshape(6, -1)
            entries[1, 0], entries[4, -1], entries[5, entries.shape[1] // 2] = (
                -np.inf,
                np.nan,
                np.inf,
            )
            inputs[spec.name] = entries.reshape(inputs[spec.name].shape)
            flags = flags_of(name, layout, inputs).ravel()
            if [*np.flatnonzero(flags & NOT_FINITE)] != [1, 4, 5] or flags[[0, 2, 3]].any():
                unseen.append((name, spec.name, flags))
    assert not unseen


def flags_of(name, layout, inputs, dtype="float64"):
    kernels, library = built(dtype, layout)
    net = networks()[name][0]
    specs = {spec.name: spec for spec in net.inputs}
    lifted = {
        n: np.asarray(x).reshape(*LEAD, specs[n].rows, specs[n].cols) for n, x in inputs.items()
    }
    _, flags = shim.run(library, kernels[name], net.plan.sources(lifted, Floats()), LEAD)
    return flags.reshape(LEAD)


@needs_compiler
@pytest.mark.parametrize("layout", ["prompt", "row"])
def test_what_a_batch_shares_is_read_by_all(layout):
    kernels, library = built("float64", layout)
    net, draw = networks()["gallery.ridge_gd"]
    inputs = batch_of_examples(draw, LEAD)
    for name in ("lam", "eta", "X"):
        inputs[name] = inputs[name][0, 0]
    arrays, _ = accept(net.inputs, inputs)
    sources = net.plan.sources(arrays, Floats())
    outs, flags = shim.run(library, kernels["gallery.ridge_gd"], sources, LEAD)
    (expected,) = net.plan.from_inputs.run(sources, Floats())
    np.testing.assert_allclose(outs[0], expected, rtol=1e-10)
    assert not flags.any()


def test_nothing_is_checked_that_is_not_to_be():
    net = networks()["gallery.conjugate_gradient"][0]
    text = net.kernel(check=False).text
    assert "LEFT_DOMAIN" in net.kernel().text
    assert not any(word in text for word in ("LEFT_DOMAIN", "LOOK", "REACH", "atomicOr"))


def test_products_are_made_in_the_order_of_least_arithmetic():
    kernel = gallery.get("diagonal_transformer").compile(verify=False).kernel().kernel
    assert "= X Xᵀ " not in kernel.text  # quicker call by call, where fewer calls count for more
    assert kernel.registers < 100


def test_an_array_in_registers_has_no_index_that_a_rolled_loop_counts():
    """Which would put all of it into memory."""
    indexed = {}
    net = networks()["gallery.diagonal_transformer"][0]
    texts = {name: net.kernel().text for name, (net, _) in networks().items()}
    variant = net.plan.from_inputs  # where y is both summed over and held
    texts["call by call"] = generate(variant.nodes, variant.outputs, "float32", True).text
    for name, text in texts.items():
        lines = text.splitlines()
        for i, line in enumerate(lines[:-1]):
            head = re.match(r"( *)for \(int (k) = 0", lines[i + 1])
            if head and line.strip() in ("ROLLED", '_Pragma("unroll 4")'):
                end = lines.index(f"{head[1]}}}", i + 1)
                found = [x for x in lines[i:end] if re.search(r"\bv\d+\[[^]]*\bk\b", x)]
                indexed |= {name: found} if found else {}
    assert not indexed


def test_rows_that_go_round_are_not_moved():
    entry = gallery.get("ridge_closed_form")
    text = entry.compile(n=40, d=20, verify=False).kernel().text
    loop = text[text.index("for (int t0") : text.index("the answer")]
    assert loop.count("SYNC") == 2  # one in a step, one for the inner product after them
    assert "= rowt0 >= 1" in loop


def test_a_symmetric_matrix_is_a_triangle_and_a_stream_is_not_held():
    text = gallery.get("ridge_gd").compile(verify=False).kernel().text
    d = gallery.get("ridge_gd").sizes["d"]
    assert f"[{d * (d + 1) // 2}];" in text
    assert "summed row by row" in text
    assert "[320]" not in text  # X


# -- the door --------------------------------------------------------------------------------------
def test_a_kernel_says_what_it_is():
    net = networks()["gallery.ridge_gd"][0]
    found = net.kernel()
    assert found
    told = str(found)
    for words in (
        "one prompt per thread",
        "registers",
        "shared memory",
        "operations",
        "Xᵀ X",
        "H200",
    ):
        assert words in told
    assert repr(found) == "<kernel, one prompt per thread, float32>"
    assert "real" in net.kernel("float64").text


def test_what_fits_no_shape_is_said():
    @inweave.program
    def wide(A: inweave.Matrix["n", "n"], x: inweave.Vector["n"]):
        return inweave.iterate(lambda z: A @ (A.T @ z), x, 3)

    found = inweave.compile(wide, n=200, verify=False).kernel()
    assert not found
    assert found.text == ""
    assert "200 rows" in str(found)
    assert "registers" in str(found)
    with pytest.raises(inweave.InputError, match="float16"):
        inweave.compile(wide, n=3, verify=False).kernel("float16")


def test_of_a_loop_over_rows_a_thread_keeps_only_so_many_states():
    @inweave.program
    def fast_weights(X: inweave.Matrix["n", "d"]):
        S = inweave.zeros(X.shape[1], X.shape[1])
        for r in X:
            S = 0.9 * S + inweave.outer(r - S @ r, r)
        return S

    def back(n):
        net = inweave.compile(fast_weights, n=n, d=8, verify=False)
        return net.plan.kernels.backward.kernel("float32", True, [("input", "X")])

    assert back(20).kind == "prompt"
    wide = back(80)
    assert (wide.kind, wide.why_not) == (
        "row", "one prompt per thread: a prompt keeps 5120 numbers of its steps, 4096 are the most"
    )  # fmt: skip
    with pytest.raises(Refused, match=r"keeps 57600 numbers of its steps.* KB of shared"):
        back(900)


def test_a_kernel_that_is_asked_for_must_run():
    net = networks()["gallery.ridge_gd"][0]
    inputs = gallery.get("ridge_gd").example()
    with pytest.raises(inweave.InputError, match="no tensors of torch on a CUDA device"):
        net(kernel=True, **inputs)
    assert net(kernel=False, **inputs) == net(**inputs)


def test_no_input_is_called_kernel():
    with pytest.raises(inweave.ProgramError, match="kernel"):

        @inweave.program
        def named(kernel: inweave.Matrix["n", "n"]):
            return kernel


# -- the cache -------------------------------------------------------------------------------------
def test_the_cache_gives_back_what_was_written_and_nothing_else(monkeypatch, tmp_path):
    monkeypatch.setenv(cache.FOLDER, str(tmp_path / "kept" / "kernels"))
    assert cache.read("key") is None
    cache.write("key", b"code")
    assert cache.read("key") == b"code"
    cache.write("key", b"other code")
    assert cache.read("key") == b"other code"
    (file,) = cache.folder().iterdir()  # and no draft
    file.write_bytes(file.read_bytes()[:-1])
    assert cache.read("key") is None
    file.write_bytes(b"")
    assert cache.read("key") is None


def test_a_folder_that_cannot_be_written_is_no_cache(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(cache.FOLDER, str(tmp_path / "file" / "folder"))
    cache.write("key", b"code")
    assert cache.read("key") is None


def test_code_that_is_kept_is_used_without_writing_the_kernel(monkeypatch, tmp_path):
    monkeypatch.setenv(cache.FOLDER, str(tmp_path))
    built = []

    def compile_(kernel, _):
        built.append(kernel.name)
        return b"code\nof " + kernel.name.encode()

    cuda = SimpleNamespace(
        nvrtc=SimpleNamespace(getVersion=lambda: (13, 0)),
        Device=lambda _: SimpleNamespace(compute_capability="90"),
    )
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    monkeypatch.setattr(device, "compiled", compile_)
    monkeypatch.setattr(device, "_load", lambda frame, code, _: (frame, code))
    monkeypatch.setattr(device, "LOADED", {})
    net = networks()["gallery.ridge_gd"][0]
    found = net.plan.kernels.loaded("float32", True, 0)
    assert net.plan.kernels.loaded("float32", True, 0) is found
    assert len(built) == 1

    def again(**changes):
        """The same in a process of its own, where nothing can be written."""
        fields = {"dtype": "float32", "check": True, "plan": net.fingerprint} | changes
        device.LOADED.clear()
        return device.loaded(Order(**fields), 0, lambda: pytest.fail("written again"))

    frame, code = again()
    assert type(frame) is Frame
    assert all(getattr(frame, f.name) == getattr(found[0], f.name) for f in fields(Frame))
    assert code == found[1]
    for other in ({"dtype": "float64"}, {"check": False}, {"plan": "another"}, {"shape": "row"}):
        with pytest.raises(pytest.fail.Exception, match="written again"):
            again(**other)
    monkeypatch.setattr(cache, "generator", lambda: "another")
    with pytest.raises(pytest.fail.Exception, match="written again"):
        again()
    assert device.unpacked(b'{"name":"cut"}\ncode') is None
    assert device.unpacked(b"code") is None


def test_without_cupy_its_extra_is_named(monkeypatch):
    kernels = networks()["gallery.ridge_gd"][0].plan.kernels
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setattr(device, "LOADED", {})
    with pytest.raises(inweave.MissingExtraError, match=r"cuda"):
        kernels.loaded("float32", True, 0)


# -- the bars --------------------------------------------------------------------------------------
def test_a_summary_says_which_bars_are_met_and_what_failed():
    case = {"case": "ridge", "milliseconds": {"net": 0.3}, "most_ms": 0.25, "bar": 4.0,
            "times faster": 4.5, "first call, s": 1.0, "from the cache, s": 0.06}  # fmt: skip
    entries = [
        {"case": "pca", "times faster": 2.0, "first call, s": 1.6, "from the cache, s": 0.01},
        {"case": "td0", "times faster": 0.9},
        {"case": "mesa_layer", "failed": "no memory"},
    ]
    assert kernel_bars.summary({"cases": [case], "entries": entries}).splitlines() == [
        "met    ridge: times faster than the best rival 4.5, >= 4",
        "MISSED ridge: ms of net(...) 0.3, <= 0.25",
        "met    ridge: s of the first call 1, <= 1.5",
        "MISSED ridge: s from the disk 0.06, <= 0.05",
        "MISSED pca: s of the first call 1.6, <= 1.5",
        "MISSED td0: times faster than call by call 0.9, >= 1",
        "FAILED mesa_layer: no memory",
        "4 of 8 bars are met",
    ]


# -- the page --------------------------------------------------------------------------------------
def test_the_page_says_what_was_measured():
    found = json.loads(kernel_docs.RESULTS.read_text("utf-8"))
    page = kernel_docs.PAGE.read_text("utf-8")
    assert kernel_docs.filled(page, found) == page
    assert {row["case"] for row in found["entries"]} == set(gallery.names())
    assert not any("failed" in row for part in ("cases", "entries") for row in found[part])
