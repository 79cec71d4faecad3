"""Kernels on a CPU: the text that a device would run, built with the system's C compiler.

Threads of a block run from barrier to barrier, one after another, and shared memory begins as NaN,
so that a barrier that is missing or a value that is not there shows in the answers.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import numpy as np
import pytest

import inweave
from inweave import gallery
from inweave.exact.arithmetic import Floats
from inweave.model.inputs import accept
from inweave.run.kernel import shim
from inweave.run.kernel.generate import Shape, generate
from inweave.run.kernel.prelude import FAR, LEFT_DOMAIN, NOT_FINITE
from inweave.run.kernel.text import Refused
from tests.cases import CASES
from tests.kernels import batch_of_examples

needs_compiler = pytest.mark.skipif(shim.compiler() is None, reason="needs a C compiler")
pytestmark = pytest.mark.usefixtures("unchecked_passes")

LEAD = (2, 3)
SHAPES = {
    "prompt": Shape(kind="prompt"),
    "prompt, short streams": Shape(kind="prompt", long=2, unrolled=2),
    "row": Shape(kind="row", prompts=4),
    "row, short streams": Shape(kind="row", long=2, chunk=2, prompts=3),
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
            variant = net.plan.from_inputs
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
@pytest.mark.parametrize("layout", SHAPES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
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
