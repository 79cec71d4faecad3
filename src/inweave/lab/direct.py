"""Loss and gradient of one plain LSA layer, written out: no graph, no new memory.

At d = n = 10 a step is a dozen passes over a prompt of a megabyte, and what automatic
differentiation adds (a graph, fresh temporaries, slices of weights) costs more than they do. Here
the inputs are drawn into the prompt itself, both products go through one scratch buffer, and the
gradient is the one that `inweave.stack.entry` gives to autograd. The numbers are those of the
general path; a test compares weights after training both ways.
"""

from __future__ import annotations

from inweave.lab.ensemble import Ensemble
from inweave.lab.tasks import Draws, Task
from inweave.lab.tensors import Tensor, torch
from inweave.nn import AttentionNetwork
from inweave.stack.entry import factors, write_gradient

LAST = -1  # the query is the last token, its answer the last column


class DirectStep:
    """Loss and gradient of an ensemble of one, a one-layer LSA network on linear problems."""

    @staticmethod
    def applies(task: Task, ensemble: Ensemble) -> bool:
        """Whether this step is right for the task and the model."""
        model = ensemble.template
        plain = isinstance(model, AttentionNetwork) and model.reads_entries
        single = ensemble.members == 1 and ensemble.rows.dtype == torch.float32
        return task.is_plain and plain and single

    def __init__(self, task: Task, ensemble: Ensemble, batch: int) -> None:
        self.task, self.batch = task, batch
        (shape,) = ensemble.shapes.values()
        self.weight = ensemble.rows.detach().view(shape)
        self.gradient = torch.zeros_like(self.weight)
        prompts = (task.n + 1, task.d + 1, batch)
        self.H, self.product = torch.zeros(prompts), torch.empty(prompts)

    @torch.no_grad()
    def __call__(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The loss (MSE on the clean target) on new problems, and the gradient; one row each."""
        H, product, W = self.H, self.product, self.weight
        target = self._draw(Draws(generator, torch.float32))
        _, _, scores, values = factors(W, H, LAST, LAST, product)
        error = (scores * values).sum(0).sub_(target)
        scaled = error * (2.0 / self.batch)
        by_score, by_value = values.mul_(scaled), scores.mul_(scaled)
        write_gradient(self.gradient, W, H, by_score, by_value, LAST, LAST, product)
        return error.square_().mean().reshape(1), self.gradient.view(1, -1)

    def _draw(self, draws: Draws) -> Tensor:
        """New examples and queries in the prompt; returns the queries' clean values."""
        n, d = self.task.n, self.task.d
        points = self.H[:, :d]
        if self.task.inputs == "uniform":
            draws.fill_centred(points, self.task.input_scale)
        else:
            points.copy_(draws.normal(*points.shape))
            points.mul_(self.task.input_scale)
        w = draws.normal(d, self.batch)
        y = torch.mul(points, w, out=self.product[:, :d]).sum(1)
        torch.neg(y[:n], out=self.H[:n, d])
        return y[n]
