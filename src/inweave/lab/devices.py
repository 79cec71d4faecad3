"""Whether a device can be used, and what is said when its memory does not suffice.

The first is asked before anything is drawn, built or written. The second shows only when torch asks
for the memory, which it says in as many ways as it has allocators.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from inweave.errors import InputError, needs_extra


def check_device(device: str, here: bool = True) -> None:
    """Refuse a device by name; `here=False` if the work is done by another machine's processes."""
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise InputError(f"device must be cpu, cuda or cuda:NUMBER, got {device!r}")
    if device == "cpu" or not here:
        return
    with needs_extra(f"device {device!r}", "lab"):
        import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        raise InputError(f"device {device!r}: torch {torch.__version__} finds no GPU; use cpu")
    if int(device.partition(":")[2] or 0) >= count:
        raise InputError(f"device {device!r}: there are {count} GPUs, the first is cuda:0")


NO_MEMORY = re.compile(
    "out of memory|can't allocate memory|not enough memory|size calculation over"
)
BYTES = re.compile(r"tried to allocate (\d+) bytes|Tried to allocate ([\d.]+ \w+)")


@contextmanager
def within_memory() -> Iterator[None]:
    """What asks for more memory than there is becomes a refusal of the settings."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not NO_MEMORY.search(str(error)):
            raise
        found = BYTES.search(str(error))
        asked = ""
        if found:
            asked = f" for {int(found[1]):,} bytes" if found[1] else f" for {found[2]}"
        raise InputError(
            f"not enough memory{asked}; lower [train] batch or eval_size (or --size), "
            "[task] n, d, hidden, levels or pool, or [model] heads, depth, blocks or mlp_units"
        ) from error
