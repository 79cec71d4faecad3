"""A training step of one plain LSA layer, written out: no graph, no new memory.

At d = n = 10 a step is a dozen passes over a prompt of a megabyte, and what automatic
differentiation adds (a graph, fresh temporaries, slices of weights) costs more than they do. Here
the inputs are drawn into the prompt itself, both products go through one scratch buffer, and the
gradient is the one that `inweave.nn` gives to autograd. The numbers are those of the general path;
a test compares weights after training both ways.
"""

from __future__ import annotations

import torch
from torch import Tensor

from inweave.lab.tasks import Draws, Task
from inweave.nn import KEY, QUERY, AttentionModule, AttentionNetwork, ExtendedLinearAttention


def applies(task: Task, model: AttentionNetwork, dtype: torch.dtype) -> bool:
    """Whether this step is right for the task and the model."""
    return task.is_plain and model.reads_entries and dtype == torch.float32


class DirectStep:
    """Loss and gradient of a one-layer LSA network on freshly drawn linear problems."""

    def __init__(self, task: Task, model: AttentionNetwork, batch: int) -> None:
        self.task, self.batch = task, batch
        module = model.stack[0]
        assert isinstance(module, AttentionModule)
        layer = module.body[0]
        assert isinstance(layer, ExtendedLinearAttention)
        self.weight = layer.weight
        shape = (task.n + 1, task.d + 1, batch)
        self.H, self.product = torch.zeros(shape), torch.empty(shape)
        self.gradient = torch.zeros_like(self.weight)

    @torch.no_grad()
    def __call__(self, generator: torch.Generator) -> Tensor:
        """Draw, set the weights' gradient, and return the loss (MSE on the clean target)."""
        H, product, W = self.H, self.product, self.weight.detach()
        target = self._draw(Draws(generator, torch.float32))
        query, v = W[:, 0, 0], W[:, 0, -1, -1]
        merged = W.shape[2] == 2
        A = query if merged else query @ W[:, 0, KEY].T
        values = torch.bmm(v.expand(len(H), 1, -1), H).squeeze(1)
        scores = torch.mul(A.T @ H[-1], H, out=product).sum(1)
        error = (scores * values).sum(0).sub_(target)
        scaled = error * (2.0 / self.batch)
        values.mul_(scaled)
        scores.mul_(scaled)
        by_query = torch.mul(values.unsqueeze(1), H, out=product).sum(0)
        grad_A = H[-1] @ by_query.T
        if merged:
            self.gradient[:, 0, 0] = grad_A
        else:
            self.gradient[:, 0, QUERY] = grad_A @ W[:, 0, KEY]
            self.gradient[:, 0, KEY] = grad_A.T @ query
        self.gradient[:, 0, -1, -1] = torch.bmm(H, scores.unsqueeze(-1)).sum((0, 2))
        self.weight.grad = self.gradient
        return error.square_().mean()

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


@torch.no_grad()
def adamw(optimizer: torch.optim.AdamW, parameter: Tensor) -> None:
    """One step of AdamW on one parameter, in the optimizer's own state.

    `optimizer.step()` does the same; for a few hundred numbers its bookkeeping takes five times as
    long as the step.
    """
    group, state = optimizer.param_groups[0], optimizer.state[parameter]
    if not state:
        state["step"] = torch.zeros(())
        state["exp_avg"], state["exp_avg_sq"] = (torch.zeros_like(parameter) for _ in range(2))
    gradient, lr, (beta1, beta2) = parameter.grad, float(group["lr"]), group["betas"]
    assert gradient is not None
    state["step"] += 1
    step = float(state["step"])
    if group["weight_decay"]:
        parameter.mul_(1 - lr * group["weight_decay"])
    mean = state["exp_avg"].lerp_(gradient, 1 - beta1)
    square = state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    spread = square.sqrt().div_((1 - beta2**step) ** 0.5).add_(group["eps"])
    parameter.addcdiv_(mean, spread, value=-lr / (1 - beta1**step))
