"""Kernels on a CUDA device: NVRTC through CuPy, tensors of torch, torch's current stream."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache as cached
from typing import Any

import numpy as np

from inweave.errors import needs_extra
from inweave.exact.constants import Array
from inweave.run.code import Lead
from inweave.run.kernel import cache
from inweave.run.kernel.generate import Kernel
from inweave.run.kernel.prelude import on_device

OPTIONS = ("-std=c++17", "--fmad=true")
PLAIN_SHARED = 48 << 10  # bytes of shared memory that a block may take without asking


@dataclass(frozen=True)
class Loaded:
    """A kernel that is ready to be launched on a device, and what its compiler made of it."""

    module: Any  # which must live as long as its function
    function: Any
    registers: int
    spilled: int  # bytes of a thread that stand in memory
    blocks: int  # that a multiprocessor runs at a time


def compiled(kernel: Kernel, device: int) -> bytes:
    """The device code of a kernel: from the disk, or from NVRTC."""
    with needs_extra("a kernel", "cuda"):
        import cupy
        from cupy.cuda import nvrtc

    arch = cupy.cuda.Device(device).compute_capability
    text = on_device(kernel.dtype) + kernel.text
    facts = repr((text, arch, nvrtc.getVersion(), OPTIONS))
    key = f"{hashlib.sha256(facts.encode()).hexdigest()}.cubin"
    found = cache.read(key)
    if found is None:
        program = nvrtc.createProgram(text, f"{kernel.name}.cu", (), ())
        try:
            nvrtc.compileProgram(program, (f"--gpu-architecture=sm_{arch}", *OPTIONS))
            found = bytes(nvrtc.getCUBIN(program))
        except nvrtc.NVRTCError as error:
            raise RuntimeError(f"{error}\n{nvrtc.getProgramLog(program)}") from error
        finally:
            nvrtc.destroyProgram(program)
        cache.write(key, found)
    return found


@cached
def loaded(kernel: Kernel, device: int) -> Loaded:
    """A kernel on a device."""
    code = compiled(kernel, device)
    import torch
    from cupy.cuda import driver, function

    with torch.cuda.device(device):
        torch.cuda.current_stream()  # its context is the current one
        module = function.Module()
        module.load(code)
        found = module.get_function(kernel.name)
        if kernel.shared > PLAIN_SHARED:
            driver.funcSetAttribute(found.ptr, 8, kernel.shared)  # most dynamic shared memory
        registers, spilled = (driver.funcGetAttribute(at, found.ptr) for at in (4, 3))
        blocks = driver.occupancyMaxActiveBlocksPerMultiprocessor(
            found.ptr, kernel.threads, kernel.shared
        )
    return Loaded(module, found, registers, spilled, blocks)


def launch(
    kernel: Kernel, sources: Mapping[Any, Array], lead: Lead, device: Any
) -> tuple[list[Array], Array | None]:
    """The answers with these batch axes; and, if it checks, the marks: four bytes of all prompts
    together, then one of each."""
    import torch
    from cupy.cuda import ExternalStream

    index = index_of(device)
    ready = loaded(kernel, index)
    dtype, prompts = getattr(torch, kernel.dtype), int(np.prod(lead, dtype=np.int64))
    with torch.cuda.device(index):
        outs = [
            torch.empty((*lead, *shape), dtype=dtype, device=device) for shape in kernel.outputs
        ]
        marks, pointer = None, 0
        if kernel.check:
            marks = torch.zeros(prompts + 4, dtype=torch.uint8, device=device)
            pointer = marks.data_ptr()
        if prompts == 0:
            return outs, marks
        given: list[Any] = []
        kept = []  # copies live until the launch is queued
        for name, size in zip(kernel.sources, kernel.sizes, strict=True):
            tensor, step = _placed(sources[name], lead, size)
            kept.append(tensor)
            given += [np.intp(tensor.data_ptr()), np.int64(step)]
        given += [np.intp(out.data_ptr()) for out in outs]
        given += [np.intp(pointer + 4), np.intp(pointer), np.int32(prompts)]
        stream = ExternalStream(torch.cuda.current_stream(index).cuda_stream, index)
        grid, block = (kernel.blocks(prompts), 1, 1), (kernel.threads, 1, 1)
        ready.function(grid, block, tuple(given), kernel.shared, stream)
    return outs, marks


def index_of(device: Any) -> int:
    """The number of a device of torch."""
    import torch

    return torch.cuda.current_device() if device.index is None else int(device.index)


def _placed(tensor: Array, lead: Lead, size: int) -> tuple[Array, int]:
    """A source as it is read: one prompt after another, or one for all."""
    own = tuple(tensor.shape[:-2])
    if tensor.numel() == size:
        step = 0
    else:
        step = size
        if own != lead:
            tensor = tensor.expand(*lead, *tensor.shape[-2:])
    tensor = tensor.contiguous()
    if tensor.data_ptr() % 16:
        tensor = tensor.clone()
    return tensor, step
