"""A call of a plan as one kernel: when that is done, and what is done with its marks."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

from inweave.errors import InputError
from inweave.exact.arithmetic import Floats
from inweave.exact.constants import Array
from inweave.model.inputs import is_concrete
from inweave.run.code import Lead
from inweave.run.kernel.text import Refused
from inweave.run.node import Node

if TYPE_CHECKING:
    from inweave.run.kernel.generate import Kernel, Shape

LEAST = 16  # prompts: a kernel is quicker from one on, but has to be compiled
DTYPES = ("float32", "float64")


class Kernels:
    """The kernels of a plan that begins with named inputs, each generated once."""

    def __init__(self, nodes: Sequence[Node], outputs: Sequence[Node]) -> None:
        self.nodes, self.outputs = nodes, outputs
        self._found: dict[Any, Kernel | Refused] = {}

    def get(self, dtype: str, check: bool, shape: Shape | None = None) -> Kernel:
        """The kernel for a dtype; Refused if there is none."""
        from inweave.run.kernel.generate import generate

        key = (dtype, check, shape)
        if key not in self._found:
            try:
                self._found[key] = generate(self.nodes, self.outputs, dtype, check, shape)
            except Refused as refused:
                self._found[key] = refused
        found = self._found[key]
        if isinstance(found, Refused):
            raise found
        return found

    def wanted(
        self, sources: Mapping[Any, Array], lead: Lead, arithmetic: Floats, asked: bool | None
    ) -> Kernel | None:
        """The kernel that computes these prompts, if one does; where it is asked for, it must."""
        if asked is False:
            return None
        try:
            return self._fitting(sources, lead, arithmetic, bool(asked))
        except Refused as refused:
            if asked:
                raise InputError(f"this call does not run as one kernel: {refused}") from refused
            return None

    def _fitting(
        self, sources: Mapping[Any, Array], lead: Lead, arithmetic: Floats, asked: bool
    ) -> Kernel | None:
        if arithmetic.library != "torch" or not is_cuda(arithmetic.device):
            raise Refused("its inputs are no tensors of torch on a CUDA device")
        if not asked and (prod(lead) < LEAST or not has_cupy()):
            return None
        dtype = str(arithmetic.dtype).removeprefix("torch.")
        if dtype not in DTYPES:
            raise Refused(f"its inputs are {dtype}, expected float32 or float64")
        if not all(map(is_concrete, sources.values())):
            raise Refused("its inputs hold no values here")
        kernel = self.get(dtype, arithmetic.checked)
        self._load(kernel, arithmetic.device, asked)
        return kernel

    def _load(self, kernel: Kernel, device: Any, asked: bool) -> None:
        """Compile a kernel; what cannot be compiled here is not used again, and said."""
        from inweave.run.kernel.device import index_of, loaded

        try:
            loaded(kernel, index_of(device))
        except (RuntimeError, ImportError) as error:
            if asked:
                raise
            refused = Refused(f"it cannot be compiled: {error}")
            self._found[kernel.dtype, kernel.check, None] = refused
            warnings.warn(f"this batch runs call by call and not as one kernel: {refused}",
                          stacklevel=6)  # fmt: skip
            raise refused from error


def is_cuda(device: Any) -> bool:
    """Whether a device of torch is one that runs kernels."""
    return getattr(device, "type", "") == "cuda"


def answers(
    kernel: Kernel, sources: Mapping[Any, Array], lead: Lead, device: Any
) -> list[Array] | None:
    """The answers with these batch axes; None if a prompt is marked, so that all are looked at."""
    from inweave.run.kernel.device import Launcher

    given = [sources[name] for name in kernel.sources]
    return Launcher(kernel, given, lead, device)(given)


def differentiated(sources: Iterable[Array]) -> bool:
    """Whether gradients are wanted, which no kernel has; says so once."""
    import torch

    if not any(x.requires_grad for x in sources) or not torch.is_grad_enabled():
        return False
    warnings.warn(
        "gradients are wanted, so this batch runs call by call and not as one kernel; "
        "under torch.no_grad() it runs as one, kernel=False silences this",
        stacklevel=6,
    )
    return True


@cache
def has_cupy() -> bool:
    return importlib.util.find_spec("cupy") is not None
