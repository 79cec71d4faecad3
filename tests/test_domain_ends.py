"""The end of a domain is the same on all paths, and rounding in a dtype does not leave it."""

from __future__ import annotations

import numpy as np
import pytest

import inweave
from inweave import Scalar, Vector
from inweave.exact.arithmetic import Floats
from inweave.run.kernel.generate import generate
from tests import kernels

pytestmark = pytest.mark.usefixtures("unchecked_passes")

LOW, HIGH = -4.1, 4.3  # in float32 4.3 is more than in float64, and 4.1 less
SLACK = {"float32": 8 * 2.0**-23, "float64": 1e-9}
WAYS = ["numpy", "numpy, a batch", "numpy, a loop", "torch", "torch, gradients", "torch, vmap",
        "jax", "jax, compiled", "kernel"]  # fmt: skip


@inweave.program
def entries(x: Vector[2]):
    return inweave.sigmoid(x, domain=(LOW, HIGH))


@inweave.program
def loop(x: Scalar):
    return inweave.iterate(lambda v: v - v + inweave.sigmoid(x + 0 * v, domain=(LOW, HIGH)), x, 2)


@pytest.fixture(scope="module")
def networks():
    return inweave.compile(entries, verify=False), inweave.compile(loop, verify=False)


@pytest.fixture(scope="module")
def in_kernels(networks, tmp_path_factory):
    """By dtype, whether a kernel marks a prompt."""
    if kernels.compiler() is None:
        pytest.skip("needs a C compiler")
    network, marked = networks[0], {}
    for dtype in SLACK:
        variant = network.plan.in_one_call
        kernel = generate(variant.nodes, variant.outputs, dtype, True, None)
        library = kernels.build([kernel], tmp_path_factory.mktemp(dtype), "-O0")

        def run(x, kernel=kernel, library=library):
            sources = network.plan.sources({"x": x.reshape(1, 2, 1)}, Floats())
            return kernels.run(library, kernel, sources, (1,))[1].any()

        marked[dtype] = run
    return marked


def accepts(way, networks, x, request):
    """Whether one of the ways to call a network takes an entry."""
    library, _, how = way.partition(", ")
    network, x = networks[0], np.array([x, x / 2])
    if way == "kernel":
        return not request.getfixturevalue("in_kernels")[x.dtype.name](x)
    if library in ("torch", "jax"):
        xp = pytest.importorskip(library)
        x = xp.tensor(x) if library == "torch" else xp.numpy.asarray(x)
    try:
        match how or library:
            case "a batch":
                answer = network(x=np.stack([x, x]))
            case "a loop":
                answer = networks[1](x=x[0, ...])
            case "gradients":
                answer = network(x=x.requires_grad_()).detach()
            case "vmap":
                answer = xp.func.vmap(lambda x: network(x=x))(x[None])
            case "compiled":
                answer = xp.jit(lambda x: network(x=x))(x)
            case _:
                answer = network(x=x)
    except inweave.DomainError:
        return False
    return bool(np.isfinite(np.asarray(answer)).all())


@pytest.mark.parametrize("dtype", SLACK)
@pytest.mark.parametrize("way", WAYS)
def test_what_rounding_adds_to_a_domain_is_accepted_and_no_more_on_every_path(
    way, dtype, networks, request
):
    if way.startswith("jax") and dtype == "float64":
        pytest.skip("jax computes in float32 here")
    kind = np.dtype(dtype).type
    for end in (LOW, HIGH):
        for part, expected in ((0, True), (0.8, True), (1.5, False)):
            x = kind(end * (1 + part * SLACK[dtype]))
            assert accepts(way, networks, x, request) is expected, (end, part)


def test_only_a_domain_of_positive_numbers_speaks_of_singular_systems():
    @inweave.program
    def f(x: Scalar, y: Scalar):
        return inweave.exp(x, (-2, 2), 1e-3), inweave.reciprocal(y, (1, 5), 1e-3)

    net = inweave.compile(f, verify=False)
    with pytest.raises(inweave.DomainError, match=r"exp got -2.5.*: widen the domain"):
        net(x=-2.5, y=1.0)
    with pytest.raises(inweave.DomainError, match=r"reciprocal got -1.*not positive definite"):
        net(x=0.0, y=-1.0)
