"""Inputs that no look goes over are refused all the same when they are not finite."""

import itertools

import numpy as np
import pytest

import inweave
from inweave import Matrix, Vector, gallery
from inweave.errors import InputError
from inweave.run.lines import shown
from inweave.run.lines.code import Code, Line, Repeat

pytestmark = pytest.mark.usefixtures("unchecked_passes")

NAMES = ("preconditioned_gd", "soft_extraction", "kernel_smoother", "ridge_gd")


@pytest.mark.parametrize("lead", [(), (3,)])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_finite_is_refused_beside_nothing_but_zeros(name, lead):
    entry = gallery.get(name)
    net = entry.compile(verify=False, **dict.fromkeys(entry.program.size_names, 9))
    one = entry.example(**{**entry.sizes, **dict.fromkeys(entry.program.size_names, 9)})
    given = {k: np.zeros((*lead, *np.shape(x))) if np.ndim(x) else x for k, x in one.items()}
    net(**given)
    net(**given)  # the short way
    assert shown.shown(net.plan.from_inputs.code, np.dtype(float)).all
    for input_, x in given.items():
        for wrong in (np.nan, np.inf, -np.inf) if np.ndim(x) else ():
            bad = x.copy()
            bad.flat[-1] = wrong
            with pytest.raises(InputError, match=input_):
                net(**{**given, input_: bad})


@pytest.mark.parametrize("lead", [(), (3,)])
@pytest.mark.parametrize("entry", gallery.entries(), ids=lambda entry: entry.name)
def test_every_number_that_is_not_finite_is_refused_wherever_it_stands(entry, lead):
    net = entry.compile(optimize="speed", verify=False)
    given = {
        k: np.array(np.broadcast_to(x, (*lead, *np.shape(x)))) for k, x in entry.example().items()
    }
    net(**given)
    net(**given)  # the short way
    rng = np.random.default_rng(0)
    for name, x in given.items():
        for wrong in (np.nan, np.inf, -np.inf):
            bad = x.copy()
            bad.flat[rng.integers(x.size)] = wrong
            with pytest.raises(InputError, match=name):
                net(**{**given, name: bad})


@inweave.program
def entrywise(A: Matrix["n", "m"], B: Matrix["n", "m"], c: Vector["m"], D: Matrix["n", "m"]):
    return (A * B - c) / inweave.assume(D, 0.5, 2.0)


@inweave.program
def summed(A: Matrix["n", "m"], B: Matrix["n", "m"], c: Vector["m"], D: Matrix["n", "m"]):
    R = (A - c) * B
    return inweave.hold(R + D * D).sum()


@inweave.program
def thresholded(A: Matrix["n", "m"], B: Matrix["n", "m"], c: Vector["m"], D: Matrix["n", "m"]):
    return inweave.relu(A - c) * B + D


@pytest.mark.parametrize("lead", [(), (4,), (0,)])
@pytest.mark.parametrize("program", [entrywise, summed, thresholded], ids=lambda x: x.name)
def test_what_an_answer_shows_is_refused_as_what_is_looked_at(program, lead):
    rng = np.random.default_rng(0)
    net = inweave.compile(program, n=20, m=16, verify=False)
    shapes = {"A": (*lead, 20, 16), "B": (20, 16), "c": (*lead, 16), "D": (*lead, 20, 16)}
    given = {name: rng.uniform(0.6, 1.9, size=shape) for name, shape in shapes.items()}
    net(**given)
    for name, x in given.items():
        for i in {0, x.size - 1, *rng.integers(x.size, size=8)} if x.size else ():
            bad = x.copy()
            bad.flat[i] = rng.choice([np.nan, np.inf, -np.inf])
            with pytest.raises(InputError, match=name):
                net(**{**given, name: bad})
            with pytest.raises(InputError, match=name):
                net(**{**given, name: bad}, check=False)


@inweave.program
def chained(A: Matrix["n", "n"], x: Vector["n"], b: Vector["n"]):
    return inweave.iterate(lambda x: A @ x + b, x, 300)


@pytest.mark.parametrize("lead", [(), (4,)])
@pytest.mark.parametrize("n", [1, 2, 7])
def test_powers_that_are_looked_at_show_what_is_not_finite(n, lead):
    rng = np.random.default_rng(0)
    net = inweave.compile(chained, n=n, optimize="speed", verify=False)
    given = {x.name: rng.random((*lead, *x.shape)) / (2 * n) for x in net.inputs}
    net(**given)
    for name, x in given.items():
        for i, wrong in itertools.product(range(x.size), (np.nan, np.inf, -np.inf)):
            for size in (0.0, 1.0):  # beside zeros, too
                bad = {k: size * v for k, v in given.items()}
                bad[name].flat[i] = wrong
                with pytest.raises(InputError, match=name):
                    net(**bad)


def test_inputs_of_which_every_entry_takes_part_in_an_answer_need_no_look():
    found = {
        program.name: shown.shown(
            inweave.compile(program, n=20, m=16, verify=False).plan.from_inputs.batched.code,
            np.dtype(float),
        ).anyway
        for program in (entrywise, summed, thresholded)
    }
    assert {name: len(slots) for name, slots in found.items()} == {
        "entrywise": 4, "summed": 4, "thresholded": 2,
    }  # fmt: skip


def test_a_library_that_leaves_out_zeros_is_not_relied_upon(monkeypatch):
    code = gallery.get("preconditioned_gd").compile(verify=False).plan.from_inputs.code
    assert shown.shown(code, np.dtype(float)).all
    monkeypatch.setattr(np, "matmul", lambda a, b: np.zeros((a.shape[0], b.shape[1])))
    shown._carries.cache_clear()
    assert not shown.shown(code, np.dtype(float)).all
    shown._carries.cache_clear()


SIDE = 8
MATRIX, VECTOR, PART = 0, 1, 2  # slots
PRODUCT = Line("matmul", MATRIX, VECTOR, 3, SIDE, 1)
LOOP = Repeat(2, [Line("matmul", MATRIX, 4, MATRIX, SIDE, 1)], (4,), (1,), (MATRIX,), 0)


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([PRODUCT], {0: {MATRIX}}),  # the vector is no larger than the product
        ([Line("flip", 0, 0, 2, SIDE, SIDE), PRODUCT._replace(a=2)], {1: {MATRIX}}),
        ([PRODUCT, PRODUCT], {0: {MATRIX}}),
        ([Line("getitem", 0, 5, 2, SIDE, SIDE), PRODUCT._replace(a=2)], {}),  # perhaps not all
        ([Line("matmul", 0, 2, 3, SIDE, SIDE)], {}),  # too large
        ([Line("mul", 0, 1, 0, SIDE, SIDE), PRODUCT], {}),  # something else stands there by then
        ([LOOP, PRODUCT], {}),
    ],
)
def test_a_small_product_shows_a_whole_factor_that_is_a_source(lines, found):
    code = Code(lines, shapes={MATRIX: (SIDE, SIDE), VECTOR: (SIDE, 1)})
    assert shown.shown(code, np.dtype(float)).by_lines == found
