"""Whether a device can be used, asked before anything is drawn, built or written."""

from __future__ import annotations

import re

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
