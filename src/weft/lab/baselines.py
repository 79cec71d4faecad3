"""What a trained network's predictions are held against, batched in torch.

A baseline maps a `Batch` to predictions (B,). Gradient descent uses the gradient of the mean,
`Xᵀ(Xw - y)/n + λ w`. Step sizes come from the closed form where there is one and otherwise from a
tuning set, which is drawn from its own stream and never evaluated on.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from weft.errors import InputError
from weft.lab.tasks import Batch, Target, Task, mse

Predictor = Callable[[Batch], Tensor]
Number = float | Tensor


def _dot(w: Tensor, u: Tensor) -> Tensor:
    return (w * u).sum(-1)


def _moments(batch: Batch) -> tuple[Tensor, Tensor]:
    """XᵀX and Xᵀy."""
    Xt = batch.X.mT
    return Xt @ batch.X, (Xt @ batch.y.unsqueeze(-1)).squeeze(-1)


def zero(batch: Batch) -> Tensor:
    """Always 0."""
    return torch.zeros_like(batch.clean)


def averaging(batch: Batch) -> Tensor:
    """w = Xᵀy / n, which is unbiased for whitened inputs."""
    return _dot(_moments(batch)[1] / batch.X.shape[1], batch.u)


def least_squares(batch: Batch) -> Tensor:
    """The least-squares fit of least norm, in float64."""
    wide = batch.to(torch.float64)
    gram, moment = _moments(wide)
    # On the CPU: cuSOLVER's batched eigensolver fails on hundreds of thousands of matrices.
    inverse = torch.linalg.pinv(gram.cpu(), hermitian=True, rtol=1e-11).to(gram)
    w = (inverse @ moment.unsqueeze(-1)).squeeze(-1)
    return _dot(w, wide.u).to(batch.u.dtype)


def ridge_weights(batch: Batch, lam: Number, prior: Tensor | None = None) -> Tensor:
    """(XᵀX + λ P)⁻¹ Xᵀy with P the identity or the inverse of a prior covariance."""
    gram, moment = _moments(batch)
    d = gram.shape[-1]
    P = torch.eye(d).to(gram) if prior is None else torch.linalg.inv(prior).to(gram)
    scale = torch.as_tensor(lam).to(gram).reshape(-1, 1, 1)
    found: Tensor = torch.linalg.solve(gram + scale * P, moment.unsqueeze(-1))
    return found.squeeze(-1)


def ridge(lam: Number) -> Predictor:
    """Ridge regression with one fixed λ > 0."""
    return lambda batch: _dot(ridge_weights(batch, lam), batch.u)


def bayes(task: Task) -> Predictor:
    """The posterior mean for linear functions with a normal prior and known noise: an oracle."""
    if task.function != "linear" or task.nonzero or task.pool:
        raise InputError("the Bayes predictor is known for linear tasks with a normal prior only")
    prior = torch.linalg.inv(task.covariance()) if task.weights == "whitened" else None

    def predict(batch: Batch) -> Tensor:
        wide = batch.to(torch.float64)
        floor = 1e-10 * batch.X.shape[1] * task.variance
        lam = (wide.sigma**2).clamp(min=floor)
        return _dot(ridge_weights(wide, lam, prior), wide.u).to(batch.u.dtype)

    return predict


def noise_estimate(batch: Batch) -> Tensor:
    """σ̂² from the residuals of least squares, RSS / (n - d)."""
    n, d = batch.X.shape[1:]
    if n <= d:
        raise InputError(f"the noise level needs n > d to be estimated, got n = {n}, d = {d}")
    w = ridge_weights(batch, 1e-6)
    residual = batch.y - (batch.X @ w.unsqueeze(-1)).squeeze(-1)
    return residual.square().sum(-1) / (n - d)


def adaptive_ridge(batch: Batch) -> Tensor:
    """Ridge with λ = σ̂², estimated from each prompt's own residuals."""
    wide = batch.to(torch.float64)
    lam = noise_estimate(wide).clamp(min=1e-8)
    return _dot(ridge_weights(wide, lam), wide.u).to(batch.u.dtype)


def tuned_adaptive_ridge(scale: Number, offset: Number) -> Predictor:
    """Ridge with λ = scale σ̂² + offset; both are to be tuned."""

    def predict(batch: Batch) -> Tensor:
        wide = batch.to(torch.float64)
        lam = scale * noise_estimate(wide) + offset
        return _dot(ridge_weights(wide, lam.clamp(min=1e-8)), wide.u).to(batch.u.dtype)

    return predict


def nearest(k: int) -> Predictor:
    """The mean y of the k examples nearest to the query."""

    def predict(batch: Batch) -> Tensor:
        distance = (batch.X - batch.u[:, None]).square().sum(-1)
        which = distance.topk(min(k, distance.shape[1]), largest=False).indices
        return batch.y.gather(1, which).mean(1)

    return predict


def lasso(lam: float, iterations: int = 200) -> Predictor:
    """argmin ‖Xw - y‖² / 2n + λ ‖w‖₁ by accelerated proximal gradient steps."""

    def predict(batch: Batch) -> Tensor:
        gram, moment = _moments(batch)
        n = batch.X.shape[1]
        gram, moment = gram / n, moment / n
        step = 1.0 / torch.linalg.matrix_norm(gram, 2).clamp(min=1e-12)[:, None]
        w, ahead, t = torch.zeros_like(moment), torch.zeros_like(moment), 1.0
        for _ in range(iterations):
            gradient = (gram @ ahead.unsqueeze(-1)).squeeze(-1) - moment
            moved = ahead - step * gradient
            new = moved.sign() * (moved.abs() - step * lam).clamp(min=0.0)
            t_next = (1 + (1 + 4 * t * t) ** 0.5) / 2
            w, ahead, t = new, new + (t - 1) / t_next * (new - w), t_next
        return _dot(w, batch.u)

    return predict


def descent_weights(
    batch: Batch, steps: int, eta: Number, lam: Number = 0.0, preconditioner: Tensor | None = None
) -> list[Tensor]:
    """w after 1, ..., `steps` steps of (preconditioned) gradient descent from 0."""
    gram, moment = _moments(batch)
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
    return lambda b: _dot(descent_weights(b, steps, eta, lam, preconditioner)[-1], b.u)


def gd_plus_plus(steps: int, eta: Number, gamma: Number) -> Predictor:
    """Gradient descent that also turns every input x into (I - γ XᵀX/n) x after each step."""

    def predict(batch: Batch) -> Tensor:
        X, y, u = batch.X, batch.y, batch.u
        n, prediction = X.shape[1], torch.zeros_like(batch.clean)
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
        gram, moment = _moments(batch)
        A = gram + lam * torch.eye(gram.shape[-1]).to(gram)
        bound = A.abs().sum(-1).amax(-1)[:, None, None] ** 2
        M = A / bound
        for _ in range(steps):
            M = 2 * M - M @ A @ M
        return _dot((M @ moment.unsqueeze(-1)).squeeze(-1), batch.u)

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
    plain = task.function == "linear" and task.weights == "gaussian" and not task.nonzero
    if task.eigenvalues or task.mean_square_noise() or not plain:
        raise InputError("the closed form is for isotropic, noiseless linear tasks; tune η instead")
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


def _finite(loss: float) -> float:
    """Losses that overflow come last."""
    return loss if loss == loss else float("inf")
