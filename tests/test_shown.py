"""Inputs that no look goes over are refused all the same when they are not finite."""

import numpy as np
import pytest

from inweave import gallery
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
    assert shown.shown(net.plan.from_inputs.code, np.dtype(float))
    for input_, x in given.items():
        for wrong in (np.nan, np.inf, -np.inf) if np.ndim(x) else ():
            bad = x.copy()
            bad.flat[-1] = wrong
            with pytest.raises(InputError, match=input_):
                net(**{**given, input_: bad})


def test_a_library_that_leaves_out_zeros_is_not_relied_upon(monkeypatch):
    code = gallery.get("preconditioned_gd").compile(verify=False).plan.from_inputs.code
    assert shown.shown(code, np.dtype(float))
    monkeypatch.setattr(np, "matmul", lambda a, b: np.zeros((a.shape[0], b.shape[1])))
    shown._carries.cache_clear()
    assert not shown.shown(code, np.dtype(float))
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
    assert shown.shown(code, np.dtype(float)) == found
