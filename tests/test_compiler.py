"""Every case compiles for every target in every way, is proved equal to its program, and runs."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import inweave
from inweave import Matrix, Scalar, Vector, gallery
from inweave.errors import CompileError, InputError
from inweave.model.dense import forward
from tests.cases import CASES, Case, heavy_ball, product, ridge_gd, two_sided
from tests.fuzz import equal_in_rationals
from tests.ways import WAYS, compiled

TARGETS = ("elsa", "lsa")
EVERY = pytest.mark.parametrize(
    ("case", "target", "way"),
    [(c, t, w) for c in CASES for t in TARGETS for w in WAYS],
    ids=lambda x: x.name if isinstance(x, Case) else str(x),
)


def as_dict(answer):
    return answer if isinstance(answer, dict) else {"": answer}


def assert_same(got, expected, what=""):
    got, expected = as_dict(got), as_dict(expected)
    assert list(got) == list(expected)
    for name, value in expected.items():
        assert np.shape(got[name]) == np.shape(value), (what, name)
        scale = np.max(np.abs(value), initial=0.0)
        gap = np.max(np.abs(got[name] - value), initial=0.0)
        assert gap <= 1e-10 * scale if scale else gap == 0.0, (what, name, gap, scale)


@EVERY
@pytest.mark.usefixtures("compiled_once")
def test_every_case_is_proved_equal_and_agrees_in_float64(case, target, way):
    net = compiled(case.program, way, target, **case.sizes)
    assert net.certificate is not None
    assert net.certificate.network == net.fingerprint
    assert net.certificate.probability < 1e-9
    if target == "lsa":
        assert net.target == "lsa"
    inputs = case.inputs()
    expected = case.program(**inputs, **{k: v for k, v in case.sizes.items() if k in statics(case)})
    assert_same(net(**inputs), expected, "one prompt")
    # The definition of a network is its dense forward pass; the plan must not differ from it.
    state = forward(net, net.prompt(**inputs))
    assert_same(net.readout(state), expected, "dense")


def statics(case):
    return case.program.statics


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_batch_axes_stand_in_front_of_every_answer(case):
    net = inweave.compile(case.program, verify=False, **case.sizes)
    kept = {k: v for k, v in case.sizes.items() if k in statics(case)}
    inputs = case.inputs(batch=(2, 3))
    together = as_dict(net(**inputs))
    assert_same(together, case.program(**inputs, **kept), "batch")
    for i, j in ((0, 0), (1, 2)):
        alone = net(**{name: x[i, j] for name, x in inputs.items()})
        assert_same({name: x[i, j] for name, x in together.items()}, alone, "one of the batch")


def test_batch_axes_broadcast():
    case = next(case for case in CASES if case.name == "ridge_gd")
    net = inweave.compile(ridge_gd, verify=False, **case.sizes)
    inputs = case.inputs()
    queries = np.random.default_rng(1).normal(size=(6, case.sizes["d"]))
    got = net(**{**inputs, "u": queries})
    assert got.shape == (6,)
    assert_same(got, ridge_gd(**{**inputs, "u": queries}, steps=case.sizes["steps"]))


# -- the same program, the same network ------------------------------------------------------------
HASHES = """
import inweave
from tests.cases import CASES
for case in CASES:
    for target in ("elsa", "lsa"):
        for mode in ("faithful", "speed", "depth"):
            how = {"target": target, "optimize": mode, "verify": False}
            net = inweave.compile(case.program, **how, **case.sizes)
            print(case.name, target, mode, net.fingerprint)
"""


def fingerprints(seed: str) -> str:
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    # Memory addresses must not matter either; another allocator gives other ones.
    env["PYTHONMALLOC"] = "malloc" if seed == "1" else "default"
    done = subprocess.run(
        [sys.executable, "-c", HASHES], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_compilation_is_deterministic_across_processes():
    first, second = fingerprints("1"), fingerprints("2")
    assert len(first.splitlines()) == len(CASES) * 6
    assert first == second


def test_compiling_twice_gives_equal_networks():
    for case in CASES:
        one, two = (inweave.compile(case.program, verify=False, **case.sizes) for _ in range(2))
        assert one == two
        assert one.fingerprint == two.fingerprint


# -- options ---------------------------------------------------------------------------------------
def test_more_tokens_are_honoured_and_too_few_are_refused():
    net = inweave.compile(product, n=3, m=2, k=4, tokens=9)
    assert net.tokens == 9
    with pytest.raises(CompileError, match=r"tokens=1 is too few: .* rows"):
        inweave.compile(product, n=3, m=2, k=4, tokens=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "gpt"}, "target must be one of elsa, lsa, got 'gpt'"),
        ({"optimize": "fast"}, "optimize must be one of faithful, speed, depth, got 'fast'"),
    ],
)
def test_unknown_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        inweave.compile(product, n=2, m=2, k=2, **options)


def test_only_programs_compile():
    with pytest.raises(InputError, match=r"made by @inweave\.program"):
        inweave.compile(lambda x: x)


def test_sizes_are_checked():
    with pytest.raises(ValueError, match=r"takes n, m, k; missing: k"):
        inweave.compile(product, n=2, m=2)
    with pytest.raises(ValueError, match=r"unknown: rows"):
        inweave.compile(product, n=2, m=2, k=2, rows=3)
    for size in (0, -1, 2.5, True, "3"):
        with pytest.raises(ValueError, match="size k must be a positive int"):
            inweave.compile(product, n=2, m=2, k=size)


def test_a_static_argument_of_the_wrong_type_is_refused():
    with pytest.raises(InputError, match=r"steps must be an int, got 2\.5"):
        inweave.compile(ridge_gd, n=2, d=2, steps=2.5)


def test_an_unused_input_is_named_in_a_warning_and_ignored():
    @inweave.program
    def careless(A: Matrix["n", "n"], b: Vector["n"], s: Scalar):  # noqa: ARG001
        return A @ A

    with pytest.warns(UserWarning, match=r"'careless' does not use its input\(s\) b, s"):
        net = inweave.compile(careless, n=2)
    A = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert np.array_equal(net(A=A, b=np.ones(2), s=1.0), A @ A)


def test_a_network_that_takes_long_to_verify_is_left_unverified_with_a_warning():
    sizes = {"n": 400, "d": 300, "steps": 1000, "optimize": "depth"}
    with pytest.warns(UserWarning, match=r"about \d+ s or more, and 5 s.*net\.verify\(seconds="):
        net = inweave.compile(gallery.weighted_least_squares, **sizes)
    assert net.certificate is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net = inweave.compile(gallery.weighted_least_squares, verify=False, **sizes)
    assert net.certificate is None


def test_a_proof_by_algebra_takes_no_longer_for_large_matrices():
    assert inweave.compile(product, n=30_000, m=30_000, k=30_000).certificate.is_proof


# -- what the modes promise ------------------------------------------------------------------------
def test_a_faithful_loop_stays_one_tied_module():
    net = inweave.compile(ridge_gd, n=5, d=3, steps=50)
    assert [module.repeat for module in net.modules] == [50, 1]


@pytest.mark.usefixtures("compiled_once")
def test_depth_is_never_deeper_than_the_other_modes():
    for case in CASES:
        net = inweave.compile(case.program, optimize="depth", verify=False, **case.sizes)
        others = {way: compiled(case.program, way, verify=False, **case.sizes) for way in WAYS}
        depths = {way: other.depth for way, other in others.items()}
        assert net.depth <= min(depths.values()), (case.name, net.depth, depths)


@pytest.mark.usefixtures("compiled_once")
def test_no_network_is_shallower_than_its_lower_bound():
    for case in CASES:
        net = inweave.compile(case.program, optimize="depth", verify=False, **case.sizes)
        assert net.depth >= net.depth_lower_bound, case.name


def test_momentum_collapses_to_logarithmic_depth():
    depths = [
        inweave.compile(heavy_ball, optimize="depth", verify=False, n=4, d=3, steps=3**k).depth
        for k in range(3, 7)
    ]
    assert depths == [depths[0] + k for k in range(4)]
    assert (
        inweave.compile(heavy_ball, optimize="depth", n=4, d=3, steps=243).certificate is not None
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("way", WAYS)
def test_a_stored_value_may_turn_out_to_be_zero(way, target):
    @inweave.program
    def cancelled(A: Matrix["n", "n"], B: Matrix["n", "n"], C: Matrix["n", "n"], x: Vector["n"]):
        zero = A @ (B @ x + C @ x) - A @ (B @ x) - A @ (C @ x)
        return A @ inweave.iterate(lambda v: A @ v + zero, x, 4)

    @inweave.program
    def alternating(B: Matrix["n", "n"], C: Matrix["n", "n"]):
        return inweave.iterate(lambda v: C - v, B.T, 4)

    for program in (cancelled, alternating):
        net = compiled(program, way, target, n=2)
        assert net.certificate is not None
        assert equal_in_rationals(net)


def test_a_symmetric_state_is_stored_once():
    net = inweave.compile(two_sided, n=2, steps=3)
    (carries,) = (module.carries for module in net.modules if module.carries)
    assert [len(places) for places in carries] == [1]


def test_equal_products_are_computed_once():
    @inweave.program
    def twice(A: Matrix["n", "n"], x: Vector["n"]):
        return {"a": A @ x, "b": 3 * (A @ x), "c": x.T @ A.T}

    @inweave.program
    def once(A: Matrix["n", "n"], x: Vector["n"]):
        return A @ x

    shared = inweave.compile(twice, n=3)
    alone = inweave.compile(once, n=3)
    assert shared.depth == alone.depth == 1
    assert shared.certificate is not None


def test_lsa_reports_the_blocks_it_had_to_add_and_why():
    net = inweave.compile(product, target="lsa", n=3, m=2, k=4)
    assert net.target == "lsa"
    assert net.origin is not None
    assert len(net.origin.added) == 1
    assert "identity" in net.origin.added[0]


def test_a_computed_scalar_times_a_large_matrix_is_refused_with_advice():
    @inweave.program
    def scaled(A: Matrix["n", "n"], x: Vector["n"]):
        return (x.T @ x) * A

    with pytest.raises(CompileError, match=r"computed scalar times a matrix needs .* heads"):
        inweave.compile(scaled, n=100, verify=False)


def test_a_long_python_loop_compiles():
    @inweave.program
    def unrolled(A: Matrix["n", "n"], x: Vector["n"], *, steps: int):
        for _ in range(steps):
            x = A @ x + x
        return x

    net = inweave.compile(unrolled, n=2, steps=40)
    assert net.certificate is not None


@pytest.mark.parametrize("mode", ["faithful", "speed", "depth"])
def test_a_loop_that_begins_symmetric_and_does_not_stay_so_is_not_taken_for_symmetric(mode):
    @inweave.program
    def turned(X: Matrix["n", "d"], B: Matrix["d", "d"], v: Vector["d"]):
        P = inweave.iterate(lambda P: inweave.hold(P @ B) @ P, X.T @ X, 2)
        return P.T @ v

    assert inweave.compile(turned, optimize=mode, n=3, d=2).certificate is not None
