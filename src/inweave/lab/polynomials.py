"""What a network of linear attention can compute: polynomials in the moments of its examples.

Linear heads see their tokens only through `HᵀH`, so whatever the depth, a prediction is a
polynomial in S = XᵀX/n, m = Xᵀy/n and yᵀy/n; where nobody attends to the query it is linear in the
query. No direction is special in the tasks here, and by symmetry the best such prediction is
uᵀ p(S) m, with coefficients that may depend on the invariants (tr S, yᵀy). L layers reach degree
(3ᴸ - 1)/2 - 1 of p: a layer turns inputs x into x (1 - γ S'), S' being made of the inputs that it
got, and residuals r into r - η X'X'ᵀr. L steps of gradient descent are L layers too, and reach
degree L - 1.

So the gain of a trained network over gradient descent is asked after in three steps: how much of
it has the best polynomial of gradient descent's own degree, which is descent with better step
sizes; how much the best of the network's degree; and how much one with coefficients that depend on
the problem. Polynomials are fitted on problems of their own, in the basis of Chebyshev.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from inweave.lab.baselines import moments
from inweave.lab.tasks import Batch
from inweave.lab.tensors import Tensor, torch

BEYOND = 1.05  # the basis is for spectra up to so many times the largest seen
LEAST = 1e-11  # singular values below are left out of a fit, relative to the largest


def degree(layers: int) -> int:
    """Of p, where so many layers of linear attention predict uᵀ p(S) m."""
    return int(3**layers - 1) // 2 - 1


@dataclass(frozen=True)
class Basis:
    """The features uᵀ T_j(2S/L - 1) m, j up to the degree, T_j the polynomials of Chebyshev.

    With `invariants` each also times tr S and times yᵀy/n.
    """

    degree: int
    largest: float
    invariants: bool = False

    @classmethod
    def of(cls, batch: Batch, degree: int, invariants: bool = False) -> Basis:
        """For problems like these."""
        # on the CPU: batched decompositions of a GPU fail on many thousands of matrices
        spectra = torch.linalg.eigvalsh(_moments(batch)[0].cpu())
        return cls(degree, BEYOND * float(spectra.max()), invariants)

    def __call__(self, batch: Batch) -> Tensor:
        """The features of problems, (B, count), in float64."""
        S, m = _moments(batch)
        u = batch.u.to(torch.float64)
        vectors = [m]
        for j in range(self.degree):
            turned = 2 / self.largest * (S @ vectors[-1].unsqueeze(-1)).squeeze(-1) - vectors[-1]
            vectors.append(turned if j == 0 else 2 * turned - vectors[-2])
        features = torch.stack([(u * v).sum(-1) for v in vectors], 1)
        if not self.invariants:
            return features
        trace = S.diagonal(dim1=-2, dim2=-1).sum(-1) / self.largest
        labels = batch.y.to(torch.float64).square().mean(-1) / self.largest
        return torch.cat([features, features * trace[:, None], features * labels[:, None]], 1)


def _moments(batch: Batch) -> tuple[Tensor, Tensor]:
    gram, moment = moments(batch.to(torch.float64))
    return gram / batch.X.shape[1], moment / batch.X.shape[1]


def fitted(basis: Basis, problems: Batch, wanted: Tensor) -> Callable[[Batch], Tensor]:
    """The combination of the basis nearest to wanted predictions, (B,) or one column for each."""
    features = basis(problems)
    sizes = features.norm(dim=0).clamp(min=torch.finfo(torch.float64).tiny)
    inverse = torch.linalg.pinv(features / sizes, rtol=LEAST)
    numbers = inverse @ wanted.to(torch.float64)
    numbers = numbers / (sizes if numbers.dim() == 1 else sizes[:, None])
    return lambda batch: basis(batch) @ numbers
