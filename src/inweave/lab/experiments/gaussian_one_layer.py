"""Does one trained LSA layer reach d(d+1)/(n+d+1) on normal inputs?

That is the MSE of the best single gradient step for x ~ N(0, I), w ~ N(0, I), and no single LSA
layer does better. The same comparison as `one-step`, with MSE shown.
"""

from __future__ import annotations

from typing import Any

from inweave.lab.experiments import one_step
from inweave.lab.tasks import Task

TASK = Task(d=5, n=20)


def run(quick: bool, device: str, seed: int) -> dict[str, Any]:
    return one_step.run(quick, device, seed, TASK, scale=1.0)
