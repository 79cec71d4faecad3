"""What tests of kernels share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


def batch_of_examples(example: Callable[[int], dict[str, Any]], lead: tuple[int, ...]) -> Any:
    """A batch of examples, seven of them in turn."""
    count = math.prod(lead)
    found = [example(seed) for seed in range(min(count, 7))]
    return {
        name: np.resize(np.stack([np.asarray(one[name], float) for one in found]),
                        (count, *np.shape(x))).reshape(*lead, *np.shape(x))
        for name, x in found[0].items()
    }  # fmt: skip
