"""What a trained network's predictions are held against, batched in torch.

A baseline maps a `Batch` to predictions (B,). Gradient descent uses the gradient of the mean,
`Xᵀ(Xw - y)/n + λ w`. Step sizes come from the closed form where there is one and otherwise from a
tuning set, which is drawn from its own stream and never evaluated on.

Gradient descent, GD++ and Newton's iteration are programs of the gallery. On a GPU, where a million
prompts run as one kernel, the network compiled from the program answers for the baseline; where
there is none, or gradients are wanted, the same sums in torch do.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from inweave import Network, gallery
from inweave.errors import InputError
from inweave.lab.tasks import Batch, Target, Task, mse
from inweave.lab.tensors import Tensor, torch
from inweave.run.kernel import call

Predictor = Callable[[Batch], Tensor]
Number = float | Tensor


def dot(w: Tensor, u: Tensor) -> Tensor:
    """The product of each pair."""
    return (w * u).sum(-1)


def moments(batch: Batch) -> tuple[Tensor, Tensor]:
    """XᵀX and Xᵀy."""
    Xt = batch.X.mT
    return Xt @ batch.X, (Xt @ batch.y.unsqueeze(-1)).squeeze(-1)


def zero(batch: Batch) -> Tensor:
    """Always 0."""
    return torch.zeros_like(batch.clean)


def averaging(batch: Batch) -> Tensor:
    """w = Xᵀy / n, which is unbiased for whitened inputs."""
    return dot(moments(batch)[1] / batch.X.shape[1], batch.u)


def least_squares(batch: Batch) -> Tensor:
    """The least-squares fit of least norm, in float64."""
    wide = batch.to(torch.float64)
    w = shrunk(wide.X, wide.y, torch.zeros(len(batch)).to(wide.X))
    return dot(w, wide.u).to(batch.u.dtype)


def shrunk(X: Tensor, y: Tensor, lam: Tensor) -> Tensor:
    """(XᵀX + λI)⁻¹Xᵀy through singular values, also for λ = 0, where it is the fit of least norm.

    XᵀX would square the condition number, which costs all digits where n is near d. On the CPU:
    batched decompositions of a GPU fail on hundreds of thousands of matrices.
    """
    U, s, Vt = torch.linalg.svd(X.cpu(), full_matrices=False)
    kept = s > max(X.shape[1:]) * torch.finfo(s.dtype).eps * s[:, :1]
    factor = torch.where(kept, s / (s.square() + lam.cpu()[:, None]), 0.0)
    inner = factor * (U.mT @ y.cpu().unsqueeze(-1)).squeeze(-1)
    w: Tensor = (Vt.mT @ inner.unsqueeze(-1)).squeeze(-1)
    return w.to(X)


def ridge_weights(batch: Batch, lam: Number) -> Tensor:
    """(XᵀX + λI)⁻¹ Xᵀy."""
    gram, moment = moments(batch)
    scale = torch.as_tensor(lam).to(gram).reshape(-1, 1, 1)
    shifted = gram + scale * torch.eye(gram.shape[-1]).to(gram)
    found: Tensor = torch.linalg.solve(shifted, moment.unsqueeze(-1))
    return found.squeeze(-1)


def ridge(lam: Number) -> Predictor:
    """Ridge regression with one fixed λ > 0."""
    return lambda batch: dot(ridge_weights(batch, lam), batch.u)


def bayes(task: Task) -> Predictor:
    """The posterior mean for linear functions with a normal prior and known noise: an oracle."""
    if task.function != "linear" or task.nonzero or task.pool:
        raise InputError("the Bayes predictor is known for linear tasks with a normal prior only")
    root = torch.eye(task.d, dtype=torch.float64)
    if task.weights == "whitened":
        values, basis = torch.linalg.eigh(task.covariance())
        root = (basis * values**-0.5) @ basis.T  # w = Σ^(-1/2) z with z standard normal

    def predict(batch: Batch) -> Tensor:
        wide = batch.to(torch.float64)
        whitener = root.to(wide.X)
        z = shrunk(wide.X @ whitener, wide.y, wide.sigma.square())
        return dot(z @ whitener, wide.u).to(batch.u.dtype)

    return predict


def noise_estimate(batch: Batch) -> Tensor:
    """σ̂² from the residuals of least squares, RSS / (n - d)."""
    n, d = batch.X.shape[1:]
    if n <= d:
        raise InputError(f"the noise level needs n > d to be estimated, got n = {n}, d = {d}")
    w = ridge_weights(batch, 1e-6)
    residual = batch.y - (batch.X @ w.unsqueeze(-1)).squeeze(-1)
    return residual.square().sum(-1) / (n - d)


def tuned_adaptive_ridge(scale: Number, offset: Number) -> Predictor:
    """Ridge with λ = scale σ̂² + offset; both are to be tuned."""

    def predict(batch: Batch) -> Tensor:
        wide = batch.to(torch.float64)
        lam = scale * noise_estimate(wide) + offset
        return dot(ridge_weights(wide, lam.clamp(min=1e-8)), wide.u).to(batch.u.dtype)

    return predict


def adaptive_ridge(batch: Batch) -> Tensor:
    """Ridge with λ = σ̂², estimated from each prompt's own residuals."""
    return tuned_adaptive_ridge(1.0, 0.0)(batch)


def nearest(k: int) -> Predictor:
    """The mean y of the k examples nearest to the query."""

    def predict(batch: Batch) -> Tensor:
        distance = (batch.X - batch.u[:, None]).square().sum(-1)
        which = distance.topk(min(k, distance.shape[1]), largest=False).indices
        return batch.y.gather(1, which).mean(1)

    return predict


def lasso(lam: float, tolerance: float = 1e-6, sweeps: int = 5000) -> Predictor:
    """argmin ‖Xw - y‖² / 2n + λ ‖w‖₁ by coordinate descent, in float64.

    It ends when a sweep moves no entry of a problem by more than `tolerance` times its largest;
    problems that are done are set aside.
    """

    def predict(batch: Batch) -> Tensor:
        wide = batch.to(torch.float64)
        gram, moment = (part / batch.X.shape[1] for part in moments(wide))
        w, open_ = torch.zeros_like(moment), torch.arange(len(batch), device=moment.device)
        for _ in range(sweeps):
            G, m, v = gram[open_], moment[open_], w[open_]
            before = v.clone()
            for j in range(v.shape[1]):
                rest = m[:, j] - dot(G[:, j], v) + G[:, j, j] * v[:, j]
                shrunk = rest.sign() * (rest.abs() - lam).clamp(min=0.0)
                v[:, j] = shrunk / G[:, j, j].clamp(min=1e-300)
            w[open_] = v
            moved = (v - before).abs().amax(1) > tolerance * v.abs().amax(1)
            open_ = open_[moved]
            if not len(open_):
                break
        return dot(w, wide.u).to(batch.u.dtype)

    return predict


def predictions(name: str, batch: Batch, steps: int, **numbers: Any) -> Tensor | None:
    """What the network of a gallery's entry predicts; None where torch is to compute it.

    Numbers are the program's own: one for all prompts, or one for each.
    """
    if steps < 1 or not call.is_cuda(batch.X.device) or not call.has_cupy():
        return None
    given = {"X": batch.X, "y": batch.y, "u": batch.u, **numbers}
    tensors = [value for value in given.values() if isinstance(value, Tensor)]
    if any(x.device != batch.X.device for x in tensors):  # a parameter that is being tuned
        return None
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        return None
    _, n, d = batch.X.shape
    found: Tensor = network(name, n, d, steps)(check=False, **given)  # whatever it computes
    return found


@cache
def network(name: str, n: int, d: int, steps: int) -> Network:
    """An entry of the gallery for contexts of n examples, proved."""
    return gallery.get(name).compile(n=n, d=d, steps=steps)


def descent_weights(
    batch: Batch, steps: int, eta: Number, lam: Number = 0.0, preconditioner: Tensor | None = None
) -> list[Tensor]:
    """w after 1, ..., `steps` steps of (preconditioned) gradient descent from 0."""
    gram, moment = moments(batch)
    n = batch.X.shape[1]
    w, found = torch.zeros_like(moment), []
    for _ in range(steps):
        gradient = ((gram @ w.unsqueeze(-1)).squeeze(-1) - moment) / n + lam * w
        if preconditioner is not None:
            gradient = gradient @ preconditioner.to(gradient).T
        w = w - eta * gradient
        found.append(w)
    return found


def gradient_descent(
    steps: int, eta: Number, lam: Number = 0.0, preconditioner: Tensor | None = None
) -> Predictor:
    """Gradient descent from 0, with Σ⁻¹ or another preconditioner if given."""

    def predict(batch: Batch) -> Tensor:
        n, d = batch.X.shape[1:]
        if preconditioner is None:
            start = batch.X.new_zeros(d)
            found = predictions("ridge_gd", batch, steps, eta=eta / n, lam=n * lam, w0=start)
            if found is not None:
                return found
        return dot(descent_weights(batch, steps, eta, lam, preconditioner)[-1], batch.u)

    return predict


def gd_plus_plus(steps: int, eta: Number, gamma: Number) -> Predictor:
    """Gradient descent that also turns every input x into (I - γ XᵀX/n) x after each step."""

    def predict(batch: Batch) -> Tensor:
        X, y, u = batch.X, batch.y, batch.u
        n, prediction = X.shape[1], torch.zeros_like(batch.clean)
        found = predictions("gd_plus_plus", batch, steps, eta=eta / n, gamma=gamma / n)
        if found is not None:
            return found
        for _ in range(steps):
            moment = (X.mT @ y.unsqueeze(-1)) / n
            prediction = prediction + eta * (u.unsqueeze(1) @ moment).flatten()
            y = y - eta * (X @ moment).squeeze(-1)
            gram = X.mT @ X / n
            u = u - gamma * (u.unsqueeze(1) @ gram).squeeze(1)
            X = X - gamma * X @ gram
        return prediction

    return predict


def newton(steps: int, lam: float = 0.0) -> Predictor:
    """uᵀ M Xᵀy with M ≈ (XᵀX + λI)⁻¹ after `steps` of Newton's iteration M ← M (2I - A M)."""

    def predict(batch: Batch) -> Tensor:
        gram, moment = moments(batch)
        A = gram + lam * torch.eye(gram.shape[-1]).to(gram)
        bound = A.abs().sum(-1).amax(-1) ** 2
        found = predictions("newton_ridge", batch, steps, lam=lam, alpha=1 / bound)
        if found is not None:
            return found
        M = A / bound[:, None, None]
        for _ in range(steps):
            M = 2 * M - M @ A @ M
        return dot((M @ moment.unsqueeze(-1)).squeeze(-1), batch.u)

    return predict


def one_step_eta(task: Task) -> float:
    """η* = 1/(cσ²), the best first step for isotropic inputs, with c as in `one_step_loss`."""
    return 1.0 / (_spread(task) * task.variance)


def one_step_loss(task: Task) -> float:
    """The MSE σ²d(1 - 1/c) of the best first step, c = (n-1)/n + (κ+d-1)/n.

    With S = XᵀX/n, E S = σ²I and E S² = cσ⁴I, so E‖(I - ηS)w‖² σ² = σ²d(1 - 2ησ² + η²cσ⁴).
    For normal inputs c = (n+d+1)/n, and the loss is d(d+1)/(n+d+1).
    """
    return task.variance * task.d * (1.0 - 1.0 / _spread(task))


def _spread(task: Task) -> float:
    if not task.is_plain:
        raise InputError(
            "the closed form is for isotropic, noiseless linear tasks, with the query drawn like "
            "the examples; tune η instead"
        )
    return (task.n - 1) / task.n + (task.kurtosis + task.d - 1) / task.n


def tune(
    make: Callable[..., Predictor],
    ranges: Sequence[tuple[float, float]],
    batch: Batch,
    target: Target = "clean",
    points: int = 9,
    starts: int = 4,
) -> tuple[float, ...]:
    """The parameters with the least loss on a tuning set, within their ranges.

    A grid on part of the set finds the best few starting points (these losses have several
    valleys), L-BFGS on the whole set goes down from each, and the lowest end wins.
    """
    wide = batch.to(torch.float64)
    few = wide.rows(slice(0, 2000))
    grids = [[low + (high - low) * i / (points - 1) for i in range(points)] for low, high in ranges]

    def loss(values: Sequence[float] | Tensor, on: Batch) -> Tensor:
        return mse(make(*values)(on), on, target)

    with torch.no_grad():
        grid = sorted(itertools.product(*grids), key=lambda v: _finite(float(loss(v, few))))
    best = grid[0]
    least = _finite(float(loss(best, wide)))
    for start in grid[:starts]:
        values = torch.tensor(start, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS([values], max_iter=60, line_search_fn="strong_wolfe")

        def closure(values: Tensor = values, optimizer: torch.optim.LBFGS = optimizer) -> Tensor:
            optimizer.zero_grad()
            total = loss(values, wide)
            total.backward()  # type: ignore[no-untyped-call]
            return total

        optimizer.step(closure)  # type: ignore[no-untyped-call]
        end = tuple(
            min(max(value, low), high)
            for value, (low, high) in zip(values.tolist(), ranges, strict=True)
        )
        found = _finite(float(loss(end, wide)))
        if found < least:
            least, best = found, end
    return best


def tuned_descent(
    steps: int,
    top: float,
    batch: Batch,
    target: Target = "clean",
    preconditioner: Tensor | None = None,
) -> tuple[float, Predictor]:
    """That many steps of gradient descent with η tuned between 0 and `top`, and that η."""

    def make(eta: Number) -> Predictor:
        return gradient_descent(steps, eta, preconditioner=preconditioner)

    (eta,) = tune(make, [(0.0, top)], batch, target)
    return eta, make(eta)


def _finite(loss: float) -> float:
    """Losses that overflow come last."""
    return loss if loss == loss else float("inf")
