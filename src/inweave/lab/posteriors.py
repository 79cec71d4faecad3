"""The best that any predictor can do on a task, by exact formulas.

Each is the posterior mean of the query's value, given everything that the task says of how its
problems are drawn. Sparse functions and trees are finite mixtures of normal models: every support,
or every choice of what the nodes ask, is weighed by the evidence that the examples give it. For
networks of ReLU units there is no such formula; what is known exactly is the best predictor that is
linear in the labels, which is the posterior mean in the limit of many units.
"""

from __future__ import annotations

import itertools
import math

from inweave.errors import InputError
from inweave.lab.baselines import Predictor, bayes, dot, moments, shrunk
from inweave.lab.tasks import Batch, Task
from inweave.lab.tensors import Tensor, torch

MOST_SUPPORTS = 5000
JITTER = 1e-9  # stands in for the noise of a noiseless task where a matrix must be regular


def posterior(task: Task) -> Predictor:
    """The posterior mean of the query's value."""
    if task.function == "relu-network":
        raise InputError("networks of ReLU units have no known posterior; see best_linear")
    if task.function == "tree":
        return _in_double(lambda batch: tree_mean(batch, task.levels))
    if task.relevance != "all":
        return _in_double(lambda batch: relevant_mean(batch, task))
    if task.nonzero:
        return _in_double(lambda batch: sparse_mean(batch, task))
    return bayes(task)


def _in_double(predict: Predictor) -> Predictor:
    return lambda batch: predict(batch.to(torch.float64)).to(batch.u.dtype)


def _noise(batch: Batch) -> Tensor:
    return batch.sigma.square().clamp(min=JITTER)


LEVELS = 200  # of noise, at which a mean over them is taken


def unknown_noise(task: Task, chunk: int = 4096) -> Predictor:
    """For linear functions with normal weights whose noise, uniform on (0, noise_max), is not told.

    The mean over σ of what ridge regression with λ = σ² predicts, weighed by the density of y.
    That is N(0, XXᵀ + σ²I): variances s² + σ² along the left singular vectors of X, and σ² else.
    """
    if task.noise_max <= 0 or task.weights != "gaussian" or task.function != "linear":
        raise InputError("a noise level is averaged over for linear tasks with noise_max only")

    def predict(batch: Batch) -> Tensor:
        size, (n, d) = len(batch), batch.X.shape[1:]
        levels = task.noise_max * (torch.arange(LEVELS, dtype=torch.float64) + 0.5) / LEVELS
        variance = levels.square().to(batch.X.device)[:, None, None]  # (levels, 1, 1)
        found = []
        for at in range(0, size, chunk):
            part = batch.rows(slice(at, at + chunk))
            U, s, Vt = (it.to(batch.X.device) for it in torch.linalg.svd(part.X.cpu(), False))
            along = (U.mT @ part.y.unsqueeze(-1)).squeeze(-1)
            asked = (Vt @ part.u.unsqueeze(-1)).squeeze(-1)
            rest = (part.y.square().sum(-1) - along.square().sum(-1)).clamp(min=0.0)
            total = s.square() + variance
            evidence = -0.5 * (
                (along.square() / total + total.log()).sum(-1)
                + rest / variance[..., 0] + (n - d) * variance[..., 0].log()
            )  # fmt: skip
            means = (s * along * asked / total).sum(-1)
            found.append((evidence.softmax(0) * means).sum(0))
        return torch.cat(found)

    return _in_double(predict)


def sparse_mean(batch: Batch, task: Task) -> Tensor:
    """For w with `nonzero` normal entries at places drawn evenly.

    Given the support S, y ~ N(0, X_S X_Sᵀ + σ²I). With M = X_SᵀX_S + σ²I and b = X_Sᵀy its
    log-density is (bᵀM⁻¹b/σ² - log det(M/σ²)) / 2 up to what is the same for all supports, and
    the mean of w_S is M⁻¹b.
    """
    d, s = task.d, task.nonzero
    if math.comb(d, s) > MOST_SUPPORTS or task.weights != "gaussian" or task.pool:
        raise InputError(
            f"the posterior of a sparse task is a sum over supports: {math.comb(d, s)} of them "
            f"(at most {MOST_SUPPORTS}), with normal weights"
        )
    supports = torch.tensor(list(itertools.combinations(range(d), s)), device=batch.u.device)
    gram, moment = moments(batch)
    noise = _noise(batch)[:, None]
    M = gram[:, supports[:, :, None], supports[:, None, :]]
    M = M + noise[..., None, None] * torch.eye(s).to(M)
    b = moment[:, supports]
    mean: Tensor = torch.linalg.solve(M, b.unsqueeze(-1)).squeeze(-1)
    determinant: Tensor = torch.linalg.slogdet(M / noise[..., None, None]).logabsdet
    evidence = ((b * mean).sum(-1) / noise - determinant) / 2
    answers = (mean * batch.u[:, supports]).sum(-1)
    return dot(evidence.softmax(-1), answers)


def tree_mean(batch: Batch, levels: int) -> Tensor:
    """For trees whose nodes ask for the sign of an entry drawn evenly, with normal leaves.

    Below a node the two subtrees are independent given the entry it asks for, so evidence is a
    mean over entries of products, from the leaves up. A leaf with m examples of sum t has
    log-evidence t²/(σ²(σ² + m))/2 - log(1 + m/σ²)/2, up to what is the same for all trees, and
    mean t/(σ² + m).
    """
    right = (batch.X > 0).permute(2, 0, 1)
    asked = batch.u.T > 0
    noise = _noise(batch)

    def below(level: int, here: Tensor) -> tuple[Tensor, Tensor]:
        """Log-evidence and the query's mean, (..., B), of the examples that are `here`."""
        if level == 0:
            count, total = here.sum(-1), (here * batch.y).sum(-1)
            mean = total / (noise + count)
            return (total * mean / noise - torch.log1p(count / noise)) / 2, mean
        parts = [below(level - 1, here.unsqueeze(-3) & side) for side in (right, ~right)]
        evidence = parts[0][0] + parts[1][0]
        means = torch.where(asked, parts[0][1], parts[1][1])
        share = evidence.softmax(-2)
        return evidence.logsumexp(-2) - math.log(evidence.shape[-2]), (share * means).sum(-2)

    return below(levels, torch.ones_like(batch.y, dtype=torch.bool))[1]


def relevant_mean(batch: Batch, task: Task) -> Tensor:
    """For linear functions of which each example tells as much as it is relevant.

    An example is √ρ x·w with normal noise of variance (1 - ρ)‖x‖² + σ², so it is ridge regression
    with λ = 1 on rows and labels over that noise's size.
    """
    relevance = task.relevances().to(batch.X)[: batch.X.shape[1]]
    own = (1 - relevance) * batch.X.square().sum(-1)
    size = (own + _noise(batch)[:, None]).sqrt()
    rows = relevance.sqrt()[:, None] * batch.X / size.unsqueeze(-1)
    w = shrunk(rows, batch.y / size, torch.ones(len(batch)).to(batch.X))
    return dot(w, batch.u)


def best_linear(batch: Batch) -> Tensor:
    """The best predictor for networks of ReLU units that is linear in the labels.

    With any number of units the covariance of f(x) and f(x') is
    ‖x‖‖x'‖ (sin θ + (π - θ) cos θ) / (πd), θ the angle between them; the rest is regression with
    known covariances.
    """
    wide = batch.to(torch.float64)
    points = torch.cat([wide.X, wide.u.unsqueeze(1)], 1)
    length = points.norm(dim=-1).clamp(min=JITTER)
    cosine = (points @ points.mT / (length[:, :, None] * length[:, None, :])).clamp(-1.0, 1.0)
    angle = cosine.arccos()
    shape = (angle.sin() + (math.pi - angle) * cosine) / (math.pi * points.shape[-1])
    covariance = length[:, :, None] * length[:, None, :] * shape
    inner, asked = covariance[:, :-1, :-1], covariance[:, -1, :-1]
    shifted = inner + _noise(wide)[:, None, None] * torch.eye(inner.shape[-1]).to(inner)
    solved: Tensor = torch.linalg.solve(shifted, wide.y.unsqueeze(-1))
    return dot(solved.squeeze(-1), asked).to(batch.u.dtype)
