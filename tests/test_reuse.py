"""Lines of a batch that write into arrays which nothing reads any more."""

import platform
import subprocess
import sys

import numpy as np
import pytest

import inweave
from inweave import Matrix, Vector, gallery
from inweave.run.lines import reuse
from inweave.run.lines.code import Line

pytestmark = pytest.mark.usefixtures("unchecked_passes", "compiled_once")

SIDE = 20  # of all values here
# slots 0 and 1 are sources
PRODUCT = Line("matmul", 0, 1, 2, SIDE, SIDE)
SUM = Line("add", 2, 0, 3, SIDE, SIDE)


def test_the_last_reader_of_an_array_that_was_made_writes_into_it():
    assert reuse.reused([PRODUCT, SUM], [3]) == {1: 0}
    turned = SUM._replace(op="sub", a=0, b=2)
    assert reuse.reused([PRODUCT, turned], [3]) == {1: 1}


@pytest.mark.parametrize(
    ("lines", "outputs"),
    [
        ([PRODUCT, SUM, Line("mul", 2, 3, 4, SIDE, SIDE)], [3, 4]),  # the product is read again
        ([PRODUCT, SUM], [2, 3]),  # it is an answer
        ([SUM._replace(a=0, b=1)], [3]),  # sources belong to the caller
        ([PRODUCT._replace(rows=1), SUM], [3]),  # it is smaller than the sum
        ([PRODUCT, Line("flip", 2, 2, 4, SIDE, SIDE), SUM], [3, 4]),  # a view of it is an answer
        ([PRODUCT, Line("pointwise", 2, 5, 4, SIDE, SIDE), SUM], [3, 4]),  # which may be a view
        ([PRODUCT, Line("flip", 2, 2, 2, SIDE, SIDE), SUM], [3]),  # a view, not the array
        ([PRODUCT, Line("flip", 2, 2, 4, SIDE, SIDE), SUM._replace(b=4)], [3]),  # read beside it
    ],
)
def test_nothing_is_written_over_that_is_or_may_be_read(lines, outputs):
    found = reuse.reused(lines, outputs)
    assert all(lines[i].out != 3 for i in found)


@pytest.mark.parametrize(("row", "side"), [(0, 0), (1, 1)])
def test_rows_that_nothing_reads_any_more_are_written_over_beside_others_that_are(row, side):
    """The other operand is taken where the row that is still read is one of those."""
    low, one = (1, SIDE, 0, SIDE), (row, row + 1, 0, SIDE)
    lines = [
        PRODUCT,
        Line("matmul", 0, 1, 3, SIDE - 1, SIDE),
        Line("getitem", 2, 8, 4, SIDE - 1, SIDE),
        Line("getitem", 2, 9, 5, 1, SIDE),
        Line("sub", 4, 3, 6, SIDE - 1, SIDE),
    ]
    indices = {8: ("index", low), 9: ("index", one)}
    assert reuse.reused(lines, [5, 6], indices) == {4: side}
    assert reuse.reused(lines, [5, 6]) == {4: 1}  # of unknown rows


def test_small_values_are_not_worth_it():
    assert reuse.reused([x._replace(rows=2, cols=2) for x in (PRODUCT, SUM)], [3]) == {}


def test_an_operand_without_the_batch_axes_of_the_result_is_left_alone():
    a, b = np.ones((2, 2)), np.ones((3, 2, 2))
    found = reuse.into(np.add, 0)(a, b)
    assert found.shape == (3, 2, 2)
    assert (a == 1).all()
    assert reuse.into(np.subtract, 1)(a, b) is b


NAMES = ("gaussian_elimination", "matrix_polynomial", "diagonal_transformer",
         "kernel_regression", "covariate_shift", "nesterov")  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_has_the_answers_of_its_problems_and_inputs_stay(monkeypatch, name):
    monkeypatch.setattr(reuse, "LARGE", 1)
    entry = gallery.get(name)
    net = entry.compile(verify=False)
    drawn = [entry.example(seed) for seed in range(3)]
    given = {k: np.stack([np.asarray(one[k], dtype=float) for one in drawn]) for k in drawn[0]}
    before = {k: x.copy() for k, x in given.items()}
    batched = net.plan.from_inputs.batched.code
    assert reuse.reused(batched.lines, batched.outputs)
    for _ in range(2):
        found = net(**given)
        for i, one in enumerate(drawn):
            alone = net(**one)
            part = {k: x[i] for k, x in found.items()} if isinstance(found, dict) else found[i]
            assert gallery.difference(part, alone) <= 1e-9
    for k, x in before.items():
        np.testing.assert_array_equal(given[k], x)


ROWS, COLS = 5, 4


def _drawn(rng, operations):
    """A sum of columns, rows, matrices and a number in any order, and something made of it."""

    def parts(W, U, u, v):
        return [W, U * v, u[:, None], v[None, :], W * u[:, None], (W * U).sum(axis=1)[:, None],
                (U * U).sum(axis=0)[None, :], (u * u)[:, None], (v * v)[None, :]]  # fmt: skip

    def amount():
        return float(rng.choice([-2, -1, -1, 0.5, 1, 1]))

    which = rng.permutation([*range(4), *rng.integers(4, 9, size=rng.integers(4))])
    number, amounts, last = amount(), [amount() for _ in which], rng.integers(4)

    def run(W, U, u, v):
        each = parts(W, U, u, v)
        total = number
        for i, times in zip(which, amounts, strict=True):
            total = total + times * each[i]
        inverse = operations.inverse(total * total + 1)
        return [total, total * total, inverse, operations.relu(total) * W - inverse][last]

    return run


class _Networks:
    relu = staticmethod(inweave.relu)

    @staticmethod
    def inverse(x):
        return 1 / inweave.assume(x, 0.5, 1e4)


class _Numpy:
    @staticmethod
    def relu(x):
        return np.maximum(x, 0)

    @staticmethod
    def inverse(x):
        return 1 / x


@pytest.mark.parametrize("seed", range(12))
def test_sums_of_columns_rows_and_matrices_are_written_where_there_is_room(monkeypatch, seed):
    """The first two parts may be columns or numbers: what they make is no larger than they are."""
    monkeypatch.setattr(reuse, "LARGE", 1)
    made = _drawn(np.random.default_rng(seed), _Networks)
    wanted = _drawn(np.random.default_rng(seed), _Numpy)

    def program(
        W: Matrix["m", "n"], U: Matrix["m", "n"], u: Vector["m"], v: Vector["n"]
    ) -> Matrix["m", "n"]:
        return made(W, U, u, v)

    net = inweave.compile(inweave.program(program), m=ROWS, n=COLS, verify=False)
    rng = np.random.default_rng(seed)
    shapes = {"W": (ROWS, COLS), "U": (ROWS, COLS), "u": (ROWS,), "v": (COLS,)}
    batch = {name: rng.uniform(-1, 1, (6, *shape)) for name, shape in shapes.items()}
    each = [{name: x[i] for name, x in batch.items()} for i in range(6)]
    found = net(**batch)
    for i, one in enumerate(each):
        np.testing.assert_allclose(found[i], wanted(**one), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(net(**each[0]), wanted(**each[0]), rtol=1e-9, atol=1e-9)


CALLS = """
import resource, numpy as np
from inweave import gallery

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

entry = gallery.get("dual_gd")
net, one = entry.compile(verify=False), entry.example()
batch = {name: np.stack([np.asarray(x)] * 64) for name, x in one.items()}
for _ in range(20):
    net(**batch)
before = faults()
for _ in range(20):
    net(**batch)
print((faults() - before) / 20)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="others keep what is freed, or not")
def test_a_batch_is_not_computed_in_new_memory_every_time():
    """In a process of its own: whoever freed something large before has settled it."""
    done = subprocess.run([sys.executable, "-c", CALLS], capture_output=True, text=True, check=True)
    page, entries = 4096, 64 * 40 * 40
    assert float(done.stdout) < entries * 8 / page  # less than one of its arrays
