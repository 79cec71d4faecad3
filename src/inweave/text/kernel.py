"""A kernel in words: its code with comments in matrix terms, and what it takes of a device."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from inweave.errors import InputError
from inweave.run.kernel.call import DTYPES, LEAST
from inweave.run.kernel.generate import Kernel
from inweave.run.kernel.text import Refused
from inweave.run.plan import Plan

if TYPE_CHECKING:
    from inweave.run.kernel.device import Loaded

# Of an H200, as measured: what reading and multiplying take at least.
BYTES, FLOPS = 4.3e12, {"float32": 60e12, "float64": 30e12}


@dataclass(frozen=True)
class KernelReport:
    """A network as one kernel, or `why_not`. True if there is one."""

    kernel: Kernel | None
    why_not: str = ""
    loaded: Callable[[int], Loaded] | None = field(default=None, compare=False)

    def __bool__(self) -> bool:
        return self.kernel is not None

    @property
    def text(self) -> str:
        """The code, without what stands before every kernel; nothing if there is none."""
        return "" if self.kernel is None else self.kernel.text

    def __repr__(self) -> str:
        if self.kernel is None:
            return f"<no kernel: {self.why_not}>"
        kernel = self.kernel
        return f"<kernel, one {kernel.kind} per thread, {kernel.dtype}>"

    def __str__(self) -> str:
        if self.kernel is None:
            return f"This network does not run as one kernel: {self.why_not}."
        lines = facts(self.kernel, self._on_device())
        return "\n".join([*(f"// {line}" for line in lines), "", self.kernel.text])

    def _on_device(self) -> Loaded | None:
        """What the compiler made of it, where a device is at hand."""
        torch = sys.modules.get("torch")
        if torch is None or self.loaded is None or importlib.util.find_spec("cupy") is None:
            return None
        return self.loaded(torch.cuda.current_device()) if torch.cuda.is_available() else None


def report(plan: Plan, dtype: str, check: bool) -> KernelReport:
    """The kernel of a plan, or why there is none."""
    if dtype not in DTYPES:
        raise InputError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    if not (plan.network.fills and plan.network.outputs):
        return KernelReport(None, "it takes no named inputs, or has no answers to read")
    try:
        kernel = plan.kernels.get(dtype, check)
        return KernelReport(kernel, loaded=partial(plan.kernels.loaded, dtype, check))
    except Refused as refused:
        return KernelReport(None, str(refused))


def facts(kernel: Kernel, compiled: Loaded | None = None) -> list[str]:
    """What a kernel is and takes, line by line."""
    per = {
        "prompt": f"one prompt per thread, {kernel.threads} prompts",
        "row": f"one row per thread, {kernel.prompts} prompts and {kernel.threads} threads",
    }[kernel.kind]
    checked = "checked" if kernel.check else "not checked"
    reads, computes = bound(kernel)
    least = max(reads, computes)
    lines = [f"{per} per block, {kernel.dtype}, {checked}"]
    if kernel.why_not:
        lines.append(f"not {kernel.why_not}")
    lines.append(
        f"about {kernel.registers} registers per thread, {kernel.shared:,} bytes of shared memory "
        "per block"
    )
    if compiled is not None:
        lines.append(
            f"compiled: {compiled.registers} registers, {compiled.spilled} bytes of a thread in "
            f"memory, {compiled.blocks} blocks on a multiprocessor at a time"
        )
    lines.append(
        f"{kernel.flops:,} operations and {kernel.bytes:,} bytes per prompt: on an H200 at least "
        f"{1e9 * least:.3g} ns, in which arithmetic is busy {computes / least:.0%} and memory "
        f"{reads / least:.0%} of the time"
    )
    lines.append(f"net(...) uses it by itself from {LEAST} prompts on")
    return lines


def bound(kernel: Kernel) -> tuple[float, float]:
    """The seconds that reading and writing, and arithmetic, take at least for a prompt."""
    return kernel.bytes / BYTES, kernel.flops / FLOPS[kernel.dtype]
