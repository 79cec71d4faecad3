"""Do the layers learn to precondition with the inverse of the input covariance?

d = 5, n = 20, three layers, x ~ N(0, Σ) with eigenvalues 1, 1, 1/4, 1/16, 1 in a rotated basis and
w ~ N(0, Σ⁻¹). The layers are LSA heads whose scores see x only and whose values see y only, so
each has one d x d matrix A_k (and the query is masked out of the keys, as usual in this setting):
r ← r - X A_k Xᵀ r / n on the residuals. The distance of A_k to the multiples of Σ⁻¹ is 0 for a
multiple and 1 for an orthogonal matrix.
"""

from __future__ import annotations

from typing import Any

from inweave.lab import baselines, measures
from inweave.lab.ensemble import Ensemble, tries
from inweave.lab.experiments import common
from inweave.lab.forms import form
from inweave.lab.tasks import TASKS, stream
from inweave.lab.tensors import Tensor, nn, torch
from inweave.lab.trainer import Settings

TASK = TASKS["anisotropic"]
LAYERS = 3


class Preconditioned(nn.Module):
    """LSA layers restricted to A_k: scores diag(A_k, 0), values in the last column, one query."""

    def __init__(self, layers: int, d: int, scale: float, generator: torch.Generator) -> None:
        super().__init__()
        self.A = nn.Parameter(scale * torch.randn(layers, d, d, generator=generator))

    def forward(self, H: Tensor) -> Tensor:
        x, r, n = H[..., :-1], H[..., -1:], H.shape[-2] - 1
        for A in self.A.unbind(0):
            r = r - x @ (A @ (x[..., :n, :].mT @ r[..., :n, :]) / n)
        return r[..., -1, 0]


def distances(ensemble: Ensemble) -> list[list[float]]:
    """Each member's layers: distance of A_k to the multiples of Σ⁻¹."""
    inverse = torch.linalg.inv(TASK.covariance())
    A = ensemble.weights["A"].detach().to("cpu", torch.float64)
    return [[measures.multiple_of(layer, inverse) for layer in member] for member in A]


def run(quick: bool, device: str, seed: int) -> dict[str, Any]:
    made = form("examples", TASK.n, TASK.d)
    settings = Settings(
        steps=8000 if quick else 10_000,
        batch=512 if quick else 2048,
        tries=tries(1e-2) if quick else tries(3e-3, 1e-2),
        clip=1.0,
        log_every=200,
    )
    seeds = common.seeds(seed, quick)

    def start(which: int) -> nn.Module:
        return Preconditioned(LAYERS, TASK.d, 0.1, stream(which, "init"))

    ensemble = common.fit(start, TASK, made, settings, seeds, device, watch=distances)
    tuning = common.held_out(TASK, 20_000, seed, "tune", device)
    batch = common.held_out(TASK, 50_000 if quick else 200_000, seed, "eval", device)
    members, errors = common.chosen_errors(ensemble, made, tuning, batch)
    eta, plain = baselines.tuned_descent(LAYERS, 4.0, tuning)
    inverse = torch.linalg.inv(TASK.covariance())
    rate, whitened = baselines.tuned_descent(LAYERS, 2.0, tuning, preconditioner=inverse)
    steps = [step for step, _ in ensemble.snapshots]
    series = []
    for m in members:
        for k in range(LAYERS):
            y = [found[m][k] for _, found in ensemble.snapshots]
            who = ensemble.seeds[m // len(ensemble.tries)]
            series.append({"label": f"A{k + 1}, seed {who}", "group": f"layer {k + 1}",
                           "x": steps, "y": y})  # fmt: skip
    final = [ensemble.snapshots[-1][1][m] for m in members]
    identity = measures.multiple_of(torch.eye(TASK.d, dtype=torch.float64), inverse)
    rows = [
        common.row("trained, three matrices", errors),
        common.row(f"GD, η = {eta:.3f}", measures.squared_errors(plain, batch)),
        common.row(f"GD preconditioned by Σ⁻¹, η = {rate:.3f}",
                   measures.squared_errors(whitened, batch)),
        common.row("zero", batch.clean.square()),
    ]  # fmt: skip
    worst = max(max(layers) for layers in final)
    mean = sum(sum(layers) for layers in final) / (len(final) * LAYERS)
    found = common.told(TASK, settings, seeds, rows, "MSE")
    found["table"] += (
        f"\n\ndistance of A_k to the multiples of Σ⁻¹ (the identity's: {identity:.3f}), "
        "most over seeds, by layer: "
        + ", ".join(f"{max(by_seed):.3f}" for by_seed in zip(*final, strict=True))
    )
    return found | {
        "series": series,
        "lines": [{"label": "identity", "y": identity}],
        "axes": {"x": "step", "y": "distance to the multiples of Σ⁻¹"},
        "distances": final,
        "claims": [
            common.claim("mean distance below 0.2", mean, mean < 0.2),
            common.claim("every layer nearer to Σ⁻¹ than the identity is", worst, worst < identity),
        ],
    }
