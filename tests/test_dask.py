"""Data beyond memory: networks over dask arrays are the networks over the same numbers."""

import os
import signal

import numpy as np
import pytest

import inweave
from inweave import Matrix, Scalar, Vector, gallery
from inweave.errors import DivergenceError, DomainError, InputError, ShapeError
from inweave.model.prompt import by_name
from tests.cases import ridge_weights as ridge

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

pytestmark = pytest.mark.usefixtures("unchecked_passes")

# Products and loops over small values, functions, matrices that are joined, scans with and without
# rows left behind, several answers.
ENTRIES = ["ridge_closed_form", "softmax_regression", "recursive_least_squares", "kalman_filter",
           "gaussian_mixture", "sinkhorn"]  # fmt: skip


@pytest.fixture(autouse=True)
def in_one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def lazily(data, cut):
    """Arrays in chunks: `cut` makes chunk sizes of an array's shape. Numbers stay."""
    return {k: da.from_array(v, chunks=cut(v.shape)) if np.ndim(v) else v for k, v in data.items()}


def by_rows(shape):
    return (max(1, shape[0] // 3), *shape[1:])


def both_ways(shape):
    return tuple(max(1, size // 2) for size in shape)


@pytest.mark.parametrize("name", ENTRIES)
def test_chunks_change_nothing(name):
    entry = gallery.get(name)
    net, data = entry.compile(), entry.example(0)
    expected = by_name(net(**data))
    for cut in (by_rows, both_ways, lambda shape: shape):
        (found,) = dask.compute(net(**lazily(data, cut)))
        for key, value in by_name(found).items():
            np.testing.assert_allclose(value, expected[key], rtol=1e-9, atol=1e-11)


@inweave.program
def absolute_loss(X: Matrix["n", "d"], y: Vector["n"], eta: Scalar, *, steps: int):
    """Every step needs every row: the sign of a residual is no product of inputs."""

    def step(w):
        left = X @ w - y
        return w - eta * (X.T @ (inweave.relu(left + 1) - inweave.relu(left - 1) - 1))

    return inweave.iterate(step, inweave.zeros(X.shape[1]), steps)


def problem(n, d=3, chunk=100):
    rng = np.random.default_rng(n)
    X, w = rng.normal(size=(n, d)), rng.normal(size=d)
    y = X @ w + rng.normal(size=n)
    return X, y, da.from_array(X, chunks=(chunk, d)), da.from_array(y, chunks=chunk)


class Sizes(dask.callbacks.Callback):
    """The number of tasks and the largest result of any."""

    def __init__(self):
        self.tasks, self.largest = 0, 0

    def _posttask(self, key, result, dsk, state, worker_id):
        self.tasks += 1
        if isinstance(result, np.ndarray):
            self.largest = max(self.largest, result.nbytes)


@pytest.mark.parametrize("program", [ridge, absolute_loss])
def test_nothing_of_the_size_of_the_data_is_in_one_place(program):
    X, y, lazy_X, lazy_y = problem(2000)
    net = inweave.compile(program, n=2000, d=3, steps=5, optimize="speed")
    numbers = {"eta": 1e-4} | ({"lam": 1.0} if program is ridge else {})
    with Sizes() as seen:
        found = net(X=lazy_X, y=lazy_y, **numbers).compute()
    np.testing.assert_allclose(found, net(X=X, y=y, **numbers), rtol=1e-10)
    assert 0 < seen.largest <= X.nbytes // 20


def test_a_loop_over_small_values_is_one_task_however_long():
    _, _, X, y = problem(400)
    tasks = []
    for steps in (5, 500):
        net = inweave.compile(ridge, n=400, d=3, steps=steps)
        with Sizes() as seen:
            net(X=X, y=y, lam=1.0, eta=1e-4).compute()
        tasks.append(seen.tasks)
    assert tasks[0] == tasks[1]


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_goes_chunk_by_chunk(reverse):
    @inweave.program
    def discounted(X: Matrix["n", "d"], y: Vector["n"], *, gamma: float):
        def step(s, x, t):
            s = gamma * s + t * x
            return s, s

        return inweave.scan(step, inweave.zeros(X.shape[1]), X, y, reverse=reverse)

    X, y, lazy_X, lazy_y = problem(600)
    net = inweave.compile(discounted, n=600, d=3, gamma=0.5)
    with Sizes() as seen:
        end, path = dask.compute(*net(X=lazy_X, y=lazy_y))
    expected = net(X=X, y=y)
    np.testing.assert_allclose(end, expected[0], rtol=1e-12)
    np.testing.assert_allclose(path, expected[1], rtol=1e-12)
    assert seen.tasks < 600  # none per row


def test_many_prompts_are_one_call_for_each_chunk():
    rng = np.random.default_rng(0)
    X, y, eta = rng.normal(size=(50, 2, 4, 2)), rng.normal(size=(50, 2, 4)), rng.random((50, 1))
    net = inweave.compile(ridge, n=4, d=2, steps=3)
    lazy = net(X=da.from_array(X, chunks=(7, 2, 4, 2)), y=da.from_array(y, chunks=(7, 1, 4)),
               lam=0.5, eta=da.from_array(eta / 9, chunks=(10, 1)))  # fmt: skip
    assert lazy.shape == (50, 2, 2)
    assert max(lazy.numblocks) > 1
    np.testing.assert_allclose(lazy, net(X=X, y=y, lam=0.5, eta=eta / 9), rtol=1e-12)


def test_float32_stays_float32():
    X, y, lazy_X, lazy_y = problem(300)
    net = inweave.compile(ridge, n=300, d=3, steps=3)
    found = net(X=lazy_X.astype("f4"), y=lazy_y.astype("f4"), lam=1.0, eta=1e-4)
    assert found.dtype == found.compute().dtype == np.float32
    np.testing.assert_allclose(found, net(X=X, y=y, lam=1.0, eta=1e-4), rtol=1e-4)


def test_what_is_wrong_is_said():
    _, _, X, y = problem(300)
    net = inweave.compile(ridge, n=300, d=3, steps=40)
    with pytest.raises(ShapeError, match=r"'X': got shape \(200, 3\), expected \(..., 300, 3\)"):
        net(X=X[:200], y=y, lam=1.0, eta=1e-4)
    with pytest.raises(ShapeError, match="compute_chunk_sizes"):
        net(X=X[X[:, 0] > 0], y=y, lam=1.0, eta=1e-4)
    with pytest.raises(InputError, match="'lam' holds NaN"):
        net(X=X, y=y, lam=float("nan"), eta=1e-4)
    with pytest.raises(InputError, match="'y' holds NaN"):
        net(X=X, y=da.where(y == y[7], np.nan, y), lam=1.0, eta=1e-4).compute()
    with pytest.raises(DivergenceError, match="check=False"):
        net(X=X, y=y, lam=1.0, eta=1.0).compute()
    assert abs(net(X=X, y=y, lam=1.0, eta=1.0, check=False).compute()).max() > 1e8


def test_a_domain_is_looked_at():
    @inweave.program
    def inverse_square(X: Matrix["n", "d"]):
        return inweave.reciprocal(X[:, 0] @ X[:, 0], (1, 9))

    net = inweave.compile(inverse_square, n=30, d=2)
    with pytest.raises(DomainError, match="domain"):
        net(X=da.full((30, 2), 5.0, chunks=(10, 2))).compute()
    assert net(X=da.full((30, 2), 0.5, chunks=(10, 2))).compute() == pytest.approx(1 / 7.5)


def test_a_killed_worker_loses_nothing():
    distributed = pytest.importorskip("distributed")
    X, y, lazy_X, lazy_y = problem(3000)
    net = inweave.compile(ridge, n=3000, d=3, steps=20, optimize="speed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        kept = client.persist(lazy_X.map_blocks(np.copy))
        distributed.wait(kept)
        answer = net(X=kept, y=lazy_y, lam=1.0, eta=1e-4)
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)  # with half of X
        found = client.compute(answer).result()
    np.testing.assert_allclose(found, net(X=X, y=y, lam=1.0, eta=1e-4), rtol=1e-10)
