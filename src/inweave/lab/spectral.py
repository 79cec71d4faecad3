"""Ridge regression's rivals as functions of the spectrum: what a polynomial of XᵀX + λI can do.

Every method here predicts uᵀ g(A) Xᵀy with A = XᵀX + λI and some function g of the eigenvalues, so
one decomposition answers for all of them, at any number of steps: gradient descent of a million
steps costs what one does.

    ridge                      g(s) = 1/s, the posterior mean if the noise has variance λ
    k steps of descent         (1 - (1 - ηs)ᵏ) / s
    k steps of Chebyshev       (1 - T_k(x(s)) / T_k(x(0))) / s, x the spectrum's ends at ±1
    k steps of Newton          (1 - (1 - αs²)^2ᵏ) / s, α = 1 / (largest s)²
    the best polynomial        of k coefficients in s / (n E x² + λ), fitted to the posterior mean
"""

from __future__ import annotations

from collections.abc import Callable

from inweave.errors import InputError
from inweave.lab.tasks import Batch, Task
from inweave.lab.tensors import Tensor, torch

MANY = tuple(range(9)) + tuple(2**k for k in range(4, 21))  # numbers of steps, without a cap


class Spectrum:
    """The problems of a batch in the eigenbasis of XᵀX."""

    def __init__(self, batch: Batch, task: Task) -> None:
        if batch.lam is None or batch.eta is None:
            raise InputError("these problems have no λ and η of their own")
        X, y = batch.X.cpu().to(torch.float64), batch.y.cpu().to(torch.float64)
        values, basis = torch.linalg.eigh(X.mT @ X)  # on the CPU, as in `baselines`
        moment = (basis.mT @ (X.mT @ y.unsqueeze(-1))).squeeze(-1)
        query = (basis.mT @ batch.u.cpu().to(torch.float64).unsqueeze(-1)).squeeze(-1)
        self.device = batch.X.device
        self.lam, self.eta = (
            one.cpu().to(torch.float64)[:, None] for one in (batch.lam, batch.eta)
        )
        self.s, self.weight = values.clamp(min=0.0) + self.lam, moment * query
        self.scale = task.n * task.variance + self.lam

    def predict(self, g: Tensor) -> Tensor:
        """The predictions of a method from its g at every eigenvalue."""
        found: Tensor = (g * self.weight).sum(1)
        return found.to(self.device)

    def ridge(self) -> Tensor:
        return self.predict(1 / self.s)

    def descent(self, steps: int) -> Tensor:
        """With the prompt's own η, from 0."""
        return self.predict((1 - (1 - self.eta * self.s) ** steps) / self.s)

    def chebyshev(self, steps: int) -> Tensor:
        low, high = self.s.amin(1, keepdim=True), self.s.amax(1, keepdim=True)
        half = ((high - low) / 2).clamp(min=1e-12)
        at, origin = ((high + low) / 2 - self.s) / half, (high + low) / 2 / half
        ratio = _chebyshev(at, steps) / _chebyshev(origin, steps)
        return self.predict((1 - ratio) / self.s)

    def newton(self, steps: int) -> Tensor:
        alpha = self.s.amax(1, keepdim=True) ** -2
        return self.predict((1 - (1 - alpha * self.s**2) ** (2**steps)) / self.s)

    def powers(self, count: int) -> Tensor:
        """uᵀ (A / scale)ᵏ Xᵀy / scale for k below `count`: (B, count)."""
        ratio = self.s / self.scale
        return torch.stack([self.predict(ratio**k / self.scale) for k in range(count)], 1)

    def best_polynomial(self, count: int) -> Tensor:
        """Of so many coefficients, the same for all problems, fitted to the posterior mean."""
        powers = self.powers(count)
        wanted = self.ridge().unsqueeze(-1)
        coefficients = torch.linalg.lstsq(powers.cpu(), wanted.cpu()).solution.to(powers)
        found: Tensor = (powers @ coefficients).squeeze(-1)
        return found


def _chebyshev(x: Tensor, degree: int) -> Tensor:
    before, now = torch.ones_like(x), x
    for _ in range(degree - 1):
        before, now = now, 2 * x * now - before
    return now if degree else before


def nearest(
    own: Tensor, rival: Callable[[int], Tensor], counts: tuple[int, ...] = MANY
) -> list[int]:
    """For each row of predictions the count whose rival is nearest in the median."""
    gaps = torch.stack([(own - rival(count)).square().median(1).values for count in counts])
    gaps = torch.nan_to_num(gaps, nan=torch.inf)
    return [counts[i] for i in gaps.argmin(0).tolist()]
