"""Tasks: distributions of in-context regression problems, seeded and batched on the device.

A `Task` says how inputs, functions and noise are drawn; `draw` gives a `Batch` of independent
problems, each with n examples and one query. Everything random comes from a generator made by
`stream(seed, ...)`, so that step t of run s is the same data wherever and whenever it is drawn;
nothing about randomness needs to be stored in a checkpoint.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from inweave.errors import InputError
from inweave.lab.checks import all_finite, at_least, positive, refuse_unless
from inweave.lab.tensors import Tensor, torch

Target = Literal["clean", "noisy"]


@dataclass(frozen=True)
class Task:
    """A distribution of regression problems.

    inputs: x has independent entries, standard normal or uniform on (-1/2, 1/2), times
    `input_scale`; with `eigenvalues`, x ~ N(0, Σ) where Σ has those eigenvalues and, with
    `rotation`, a random eigenbasis drawn from that seed. The query may be shifted and scaled
    against the examples (`query_shift` along the first axis, `query_scale`).

    function: `linear` has w ~ N(0, I), or N(0, Σ⁻¹) with `weights="whitened"`, all but `nonzero`
    entries zero if that is given, or one of `pool` fixed vectors. `relu-network` has `hidden`
    units, `tree` is a decision tree of depth `levels` on the signs of entries.

    noise: standard deviation `noise`, or per prompt uniform on (0, `noise_max`), or per prompt one
    of `noise_levels`, or of variance λ, log-uniform on `lam_range` per prompt: then the prompt may
    say λ, and ridge regression with it is the posterior mean. With `eta_range` a prompt has a step
    size too, η = r / (n E x² + λ), the r log-uniform. `output_scale` multiplies functions and
    noise.

    relevance: example i is about the query's function only as far as its relevance ρ says, with
    value √ρ x·w + √(1-ρ) x·w' and a w' of its own. ρ falls from example to example: evenly from 1
    to 0 if it is `graded`, or from 1 to 0 in the middle if it is `binary`. Examples and query have
    keys on a circle, and ρ = (1 + cosine of the two keys) / 2.
    """

    d: int = 10
    n: int = 10
    function: Literal["linear", "relu-network", "tree"] = "linear"
    inputs: Literal["gaussian", "uniform"] = "gaussian"
    input_scale: float = 1.0
    eigenvalues: tuple[float, ...] = ()
    rotation: int | None = None
    weights: Literal["gaussian", "whitened"] = "gaussian"
    nonzero: int = 0
    pool: int = 0
    pool_seed: int = 0
    noise: float = 0.0
    noise_max: float = 0.0
    noise_levels: tuple[float, ...] = ()
    lam_range: tuple[float, ...] = ()
    eta_range: tuple[float, ...] = ()
    output_scale: float = 1.0
    query_scale: float = 1.0
    query_shift: float = 0.0
    hidden: int = 20
    levels: int = 3
    relevance: Literal["all", "graded", "binary"] = "all"

    def __post_init__(self) -> None:
        if self.d < 1 or self.n < 1:
            raise InputError(f"a task needs d >= 1 and n >= 1, got d = {self.d}, n = {self.n}")
        if self.eigenvalues and len(self.eigenvalues) != self.d:
            raise InputError(f"{len(self.eigenvalues)} eigenvalues given for d = {self.d}")
        if self.eigenvalues and self.inputs != "gaussian":
            raise InputError("eigenvalues need inputs = 'gaussian'")
        ways = (self.noise > 0, self.noise_max > 0, self.noise_levels, self.lam_range)
        if sum(map(bool, ways)) > 1:
            raise InputError("give one of noise, noise_max, noise_levels and lam_range")
        for name, ends in (("lam_range", self.lam_range), ("eta_range", self.eta_range)):
            ordered = not ends or (len(ends) == 2 and 0 < ends[0] <= ends[1])
            refuse_unless(ordered, name, "two numbers above 0, the lower first", ends)
        if not 0 <= self.nonzero <= self.d:
            raise InputError(f"nonzero must be between 0 and d = {self.d}, got {self.nonzero}")
        if self.relevance != "all" and self.function != "linear":
            raise InputError(f"relevance {self.relevance!r} needs function = 'linear'")
        all_finite(self)
        at_least(1, d=self.d, n=self.n)
        positive(input_scale=self.input_scale, output_scale=self.output_scale)
        at_least(1, hidden=self.hidden, levels=self.levels)
        at_least(0, pool=self.pool, noise=self.noise, noise_max=self.noise_max)
        refuse_unless(self.levels <= 31, "levels", "at most 31 (a tree has 2**levels)", self.levels)
        for level in self.noise_levels:
            at_least(0, noise_levels=level)
        for eigenvalue in self.eigenvalues:
            positive(eigenvalues=eigenvalue)

    @property
    def is_plain(self) -> bool:
        """Whether this is noiseless linear regression, isotropic, the query like the examples."""
        return self == Task(self.d, self.n, inputs=self.inputs, input_scale=self.input_scale)

    @property
    def variance(self) -> float:
        """The variance σ² of one entry of an isotropic input."""
        return self.input_scale**2 * (1 / 12 if self.inputs == "uniform" else 1.0)

    @property
    def kurtosis(self) -> float:
        """κ = E x⁴ / σ⁴ of one entry."""
        return 9 / 5 if self.inputs == "uniform" else 3.0

    def covariance(self) -> Tensor:
        """Σ, d x d, in float64."""
        if not self.eigenvalues:
            return self.variance * torch.eye(self.d, dtype=torch.float64)
        basis = torch.eye(self.d, dtype=torch.float64)
        if self.rotation is not None:
            drawn = torch.randn(
                self.d, self.d, generator=stream(self.rotation, "basis"), dtype=torch.float64
            )
            basis = torch.linalg.qr(drawn).Q
        values = torch.tensor(self.eigenvalues, dtype=torch.float64) * self.input_scale**2
        return (basis * values) @ basis.T

    def relevances(self) -> Tensor:
        """ρ of each example, (n,), in float64; it never rises."""
        middles = (torch.arange(self.n, dtype=torch.float64) + 0.5) / self.n
        if self.relevance == "all":
            return torch.ones_like(middles)
        return 1 - middles if self.relevance == "graded" else (middles < 0.5).to(middles)

    def mean_square_noise(self) -> float:
        """E σ² of the noise, in units of `output_scale`."""
        if self.lam_range:
            low, high = self.lam_range
            return (high - low) / math.log(high / low) if low < high else low
        if self.noise_levels:
            return sum(s * s for s in self.noise_levels) / len(self.noise_levels)
        return self.noise_max**2 / 3 if self.noise_max else self.noise**2


@dataclass(frozen=True)
class Batch:
    """Problems side by side: examples (B, n, d) and (B, n), query (B, d), its two targets (B,).

    `w` is the true weight vector where there is one; `sigma` the noise level of each prompt, in
    units of the task's `output_scale`; `keys` (B, n, 2) and `key` (B, 2) say how relevant each
    example is to the query; `lam` and `eta` are the constants that a prompt may hold, where each
    has its own.
    """

    X: Tensor
    y: Tensor
    u: Tensor
    clean: Tensor
    noisy: Tensor
    sigma: Tensor
    w: Tensor | None = None
    keys: Tensor | None = None
    key: Tensor | None = None
    lam: Tensor | None = None
    eta: Tensor | None = None

    def __len__(self) -> int:
        return self.X.shape[0]

    def target(self, name: Target) -> Tensor:
        if name not in ("clean", "noisy"):
            raise InputError(f"target {name!r} is not 'clean' or 'noisy'")
        return self.clean if name == "clean" else self.noisy

    def rows(self, part: slice | Tensor) -> Batch:
        """Some of the problems."""
        return self._each(lambda array: array[part])

    def context(self, n: int) -> Batch:
        """The same problems with the first n examples only."""
        if not 1 <= n <= self.X.shape[1]:
            raise InputError(f"a context of {n} examples, of problems that have {self.X.shape[1]}")
        keys = None if self.keys is None else self.keys[:, :n]
        return replace(self, X=self.X[:, :n], y=self.y[:, :n], keys=keys)

    def to(self, dtype: torch.dtype) -> Batch:
        return self._each(lambda array: array.to(dtype))

    def _each(self, act: Callable[[Tensor], Tensor]) -> Batch:
        arrays: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        done: dict[str, Any] = {k: None if a is None else act(a) for k, a in arrays.items()}
        return Batch(**done)


def stream(seed: int, *name: object, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator that depends on the seed and the name alone, the same in every process."""
    digest = hashlib.sha256(repr((seed, *name)).encode()).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest[:8], "little") >> 1)


class Draws:
    """Random arrays of one dtype from one generator, on its device.

    On a CPU, uniform numbers come from numpy's SFC64, seeded by the generator: torch's own take
    three times as long and would be most of the cost of a small training step.
    """

    def __init__(self, generator: torch.Generator, dtype: torch.dtype) -> None:
        self.generator, self.dtype, self.device = generator, dtype, generator.device
        self._bits: np.random.SFC64 | None = None
        if self.device.type == "cpu":
            seed = int(torch.randint(2**62, (), generator=generator))
            self._bits = np.random.SFC64(seed)

    def normal(self, *shape: int) -> Tensor:
        where = self.device
        return torch.randn(shape, generator=self.generator, device=where, dtype=self.dtype)

    def centred(self, *shape: int) -> Tensor:
        """Uniform on (-1/2, 1/2)."""
        out = torch.empty(shape, dtype=self.dtype, device=self.device)
        return self.fill_centred(out)

    def fill_centred(self, out: Tensor, scale: float = 1.0) -> Tensor:
        """Uniform on (-scale/2, scale/2), in place.

        On a CPU in single precision a number is the midpoint of one of 2^16 cells: its variance is
        1/12 up to 2e-11, and drawing takes half the time that 32 bits would.
        """
        if self._bits is None:
            return out.uniform_(-0.5 * scale, 0.5 * scale, generator=self.generator)
        size, double = out.numel(), self.dtype == torch.float64
        raw = self._bits.random_raw(size if double else (size + 3) // 4)
        signed = torch.from_numpy(raw.view(np.int64 if double else np.int16))[:size]
        cell = scale * (2.0**-64 if double else 2.0**-16)
        half = torch.tensor(0.5 * cell, dtype=self.dtype)
        return torch.add(half, signed.view(out.shape), alpha=cell, out=out)  # one pass

    def uniform(self, *shape: int) -> Tensor:
        """Uniform on (0, 1)."""
        return self.centred(*shape).add_(0.5)

    def integers(self, high: int, *shape: int) -> Tensor:
        where = self.device
        return torch.randint(high, shape, generator=self.generator, device=where)


def draw(
    task: Task,
    size: int,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float32,
    batch_last: bool = False,
) -> Batch:
    """`size` independent problems, on the generator's device.

    With `batch_last` the inputs lie in memory with the problems innermost, behind the same
    indices: the fastest order for products of one vector per problem on a CPU. The numbers drawn
    are others, from the same distribution.
    """
    draws = Draws(generator, dtype)
    points = _inputs(task, size, draws, batch_last)
    if task.query_scale != 1.0 or task.query_shift != 0.0:
        points[:, -1] *= task.query_scale
        points[:, -1, 0] += task.query_shift
    w, values = _values(task, points, draws, batch_last)
    keys = None
    if task.relevance != "all":
        keys, values = _relevant(task, points, values, draws)
    sigma, noise = _noise(task, values, draws)
    noisy = values if noise is None else values + noise
    if task.output_scale != 1.0:
        values, noisy = values * task.output_scale, noisy * task.output_scale
        w = None if w is None else w * task.output_scale
    lam = sigma.square() if task.lam_range else None
    eta = None
    if task.eta_range:
        share = _log_uniform(task.eta_range, size, draws)
        eta = share / (task.n * task.variance + (0.0 if lam is None else lam))
    asked = {} if keys is None else {"keys": keys[:, :-1], "key": keys[:, -1]}
    return Batch(
        points[:, :-1], noisy[:, :-1], points[:, -1], values[:, -1], noisy[:, -1], sigma, w,
        **asked, lam=lam, eta=eta,
    )  # fmt: skip


def _log_uniform(ends: tuple[float, ...], size: int, draws: Draws) -> Tensor:
    low, high = map(math.log, ends)
    return (low + (high - low) * draws.uniform(size)).exp()


def _inputs(task: Task, size: int, draws: Draws, batch_last: bool) -> Tensor:
    """Examples and, last, the query: (size, n + 1, d)."""
    shape = (task.n + 1, task.d, size) if batch_last else (size, task.n + 1, task.d)
    points = draws.centred(*shape) if task.inputs == "uniform" else draws.normal(*shape)
    points = points.permute(2, 0, 1) if batch_last else points
    if task.eigenvalues:
        return points @ _root(task, 0.5).to(points)
    return points if task.input_scale == 1.0 else points.mul_(task.input_scale)


@lru_cache(maxsize=64)
def _root(task: Task, power: float) -> Tensor:
    """Σ to a power."""
    values, basis = torch.linalg.eigh(task.covariance())
    root: Tensor = (basis * values**power) @ basis.T
    return root


def _values(
    task: Task, points: Tensor, draws: Draws, batch_last: bool
) -> tuple[Tensor | None, Tensor]:
    """The weights of linear functions, and the clean value at every point."""
    size, _, d = points.shape
    if task.function == "relu-network":
        hidden = (points @ draws.normal(size, d, task.hidden)).relu()
        second = draws.normal(size, task.hidden, 1)
        return None, (hidden @ second).squeeze(-1) * (2.0 / (task.hidden * d)) ** 0.5
    if task.function == "tree":
        return None, _tree(task, points, draws)
    if task.pool:
        pool = torch.randn(task.pool, d, generator=stream(task.pool_seed, "pool"))
        w = pool.to(points)[draws.integers(task.pool, size)]
    else:
        w = draws.normal(d, size).T if batch_last else draws.normal(size, d)
    if task.weights == "whitened":
        w = w @ _root(task, -0.5).to(w)
    if task.nonzero:
        w = w * (draws.uniform(size, d).argsort(-1) < task.nonzero)
    if batch_last:
        return w, (points.permute(1, 2, 0) * w.T).sum(1).T
    return w, (points @ w.unsqueeze(-1)).squeeze(-1)


def _tree(task: Task, points: Tensor, draws: Draws) -> Tensor:
    """A complete binary tree per problem: a random entry's sign at each node, normal leaves."""
    size, count, d = points.shape
    nodes = 2**task.levels - 1
    entries, leaves = draws.integers(d, size, nodes), draws.normal(size, nodes + 1)
    at = torch.zeros(size, count, dtype=torch.long, device=points.device)
    for _ in range(task.levels):
        entry = entries.gather(1, at)
        right = points.gather(2, entry.unsqueeze(-1)).squeeze(-1) > 0
        at = 2 * at + 1 + right
    return leaves.gather(1, at - nodes)


def _relevant(task: Task, points: Tensor, values: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
    """Keys of all examples and, last, of the query; values that are as relevant as they say."""
    size, count, _ = points.shape
    relevance = torch.cat([task.relevances(), torch.ones(1, dtype=torch.float64)]).to(points)
    side = draws.integers(2, size, count) * 2.0 - 1.0
    angle = draws.uniform(size, 1) * math.tau + side * (2 * relevance - 1).arccos()
    own = (points * draws.normal(*points.shape)).sum(-1)
    mixed = relevance.sqrt() * values + (1 - relevance).sqrt() * own
    return torch.stack([angle.cos(), angle.sin()], -1), mixed


def _noise(task: Task, values: Tensor, draws: Draws) -> tuple[Tensor, Tensor | None]:
    """Each prompt's noise level, and the noise of every value."""
    size = values.shape[0]
    if task.noise_max:
        sigma = draws.uniform(size) * task.noise_max
    elif task.noise_levels:
        levels = torch.tensor(task.noise_levels).to(values)
        sigma = levels[draws.integers(len(levels), size)]
    elif task.lam_range:
        sigma = _log_uniform(task.lam_range, size, draws).sqrt()
    else:
        sigma = torch.full((size,), task.noise, dtype=values.dtype, device=values.device)
        if not task.noise:
            return sigma, None
    return sigma, draws.normal(*values.shape) * sigma[:, None]


def mse(prediction: Tensor, batch: Batch, target: Target = "clean") -> Tensor:
    """THE loss: mean squared error of the prediction for the query."""
    return (prediction - batch.target(target)).square().mean()


TASKS: dict[str, Task] = {
    "linear-uniform": Task(inputs="uniform"),
    "linear-gaussian": Task(),
    "anisotropic": Task(
        d=5, n=20, eigenvalues=(1.0, 1.0, 0.25, 0.0625, 1.0), rotation=0, weights="whitened"
    ),
    "noisy": Task(n=20, noise=0.5),
    "noisy-per-prompt": Task(n=20, noise_max=5.0),
    "mixed-noise": Task(n=20, noise_levels=(0.0, 1.0, 3.0)),
    "sparse": Task(d=20, n=20, nonzero=3),
    "covariate-shift": Task(n=20, query_shift=2.0),
    "scale-shift": Task(n=20, query_scale=3.0),
    "relu-network": Task(n=40, function="relu-network"),
    "decision-tree": Task(n=40, function="tree"),
    "task-pool": Task(n=20, pool=32),
}
