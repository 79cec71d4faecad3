"""A call of a plan as one kernel: when that is done, and what is done with its marks."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from inweave.errors import DivergenceError, DomainError, InputError
from inweave.exact.arithmetic import Floats
from inweave.exact.constants import Array
from inweave.run.growth import grown
from inweave.run.kernel.frame import Order
from inweave.run.kernel.gradient import Backward, Made
from inweave.run.kernel.prelude import LEFT_DOMAIN
from inweave.run.kernel.text import Refused
from inweave.run.lines.code import Lead

if TYPE_CHECKING:
    from inweave.run.kernel.device import Loaded
    from inweave.run.kernel.generate import Kernel, Shape

LEAST = 16  # prompts: a kernel is quicker from one on, but has to be compiled
DTYPES = ("float32", "float64")
NAMED = 3  # prompts that an error names


class Kernels:
    """The kernels of a plan that begins with named inputs, each written once at most.

    `mark` is the fingerprint of what they compute, `made` the nodes and outputs that are written:
    where code is kept for the fingerprint, nobody asks for them.
    """

    def __init__(self, mark: Callable[[], str], made: Callable[[], Made]) -> None:
        self._mark, self._made = mark, made
        self.backward = Backward(mark, made)
        self._found: dict[Any, Kernel | Refused] = {}

    def get(self, dtype: str, check: bool, shape: Shape | None = None) -> Kernel:
        """The kernel for a dtype; Refused if there is none."""
        from inweave.run.kernel.generate import generate

        key = (dtype, check, shape)
        if key not in self._found:
            try:
                self._found[key] = generate(*self._made(), dtype, check, shape)
            except Refused as refused:
                self._found[key] = refused
        found = self._found[key]
        if isinstance(found, Refused):
            raise found
        return found

    def loaded(self, dtype: str, check: bool, device: int, shape: Shape | None = None) -> Loaded:
        """The same on a device, ready to be launched."""
        from inweave.run.kernel.device import loaded

        refused = self._found.get((dtype, check, shape))
        if isinstance(refused, Refused):
            raise refused
        order = Order(self._mark(), dtype, check, repr(shape) if shape else "")
        return loaded(order, device, lambda: self.get(dtype, check, shape))

    def wanted(
        self, sources: Mapping[Any, Array], lead: Lead, arithmetic: Floats, asked: bool | None
    ) -> Loaded | None:
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
    ) -> Loaded | None:
        if arithmetic.library != "torch" or not is_cuda(arithmetic.device):
            raise Refused("its inputs are no tensors of torch on a CUDA device")
        from inweave.run.libraries.lent import is_plain

        if not asked and (prod(lead) < LEAST or not has_cupy()):
            return None
        dtype = str(arithmetic.dtype).removeprefix("torch.")
        if dtype not in DTYPES:
            raise Refused(f"its inputs are {dtype}, expected float32 or float64")
        if not is_plain(sources.values()):
            raise Refused(
                "its inputs are not plain tensors here, or torch follows what is done with them"
            )
        return self._loaded(dtype, arithmetic.checked, arithmetic.device, asked)

    def _loaded(self, dtype: str, check: bool, device: Any, asked: bool) -> Loaded:
        """A kernel; what cannot be compiled here is not used again, and said."""
        from inweave.run.kernel.device import index_of

        try:
            return self.loaded(dtype, check, index_of(device))
        except (RuntimeError, ImportError) as error:
            if asked:
                raise
            refused = Refused(f"it cannot be compiled: {error}")
            self._found[dtype, check, None] = refused
            warnings.warn(f"this batch runs call by call and not as one kernel: {refused}",
                          stacklevel=6)  # fmt: skip
            raise refused from error


def is_cuda(device: Any) -> bool:
    """Whether a device of torch is one that runs kernels."""
    return getattr(device, "type", "") == "cuda"


def answers(
    backward: Backward, ready: Loaded, sources: Mapping[Any, Array], lead: Lead, device: Any
) -> list[Array] | None:
    """The answers with these batch axes; None if one is marked, or gradients have no kernel."""
    from inweave.run.kernel.device import Launcher

    given = [sources[name] for name in ready.frame.sources]
    try:
        return backward.computed(Launcher(ready, given, lead, device), given, list)
    except Refused:
        return None


def naming(
    error: DomainError | DivergenceError,
    ready: Loaded,
    sources: Mapping[Any, Array],
    inputs: Iterable[Array],
    lead: Lead,
    device: Any,
) -> DomainError | DivergenceError:
    """An error that also says which prompts of the batch it is about."""
    from inweave.run.kernel.device import Launcher

    given = [sources[name] for name in ready.frame.sources]
    flags, outs = Launcher(ready, given, lead, device).marks(given)
    if isinstance(error, DomainError):
        wrong = flags.cpu().numpy() & LEFT_DOMAIN
    else:
        wrong = grown(outs, inputs, lead)
    found = np.argwhere(wrong).tolist()
    if not found:
        return error
    names = ", ".join(str(at[0] if len(at) == 1 else tuple(at)) for at in found[:NAMED])
    more = f" and {len(found) - NAMED:,} more" if len(found) > NAMED else ""
    prompts = "prompt" if len(found) == 1 else "prompts"
    return type(error)(f"{error}; in this batch that is {prompts} {names}{more}")


@cache
def has_cupy() -> bool:
    return importlib.util.find_spec("cupy") is not None
