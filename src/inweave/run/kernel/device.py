"""Kernels on a CUDA device: NVRTC through CuPy, tensors of torch, torch's current stream."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache as cached
from math import prod
from typing import Any

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
    pointer: int
    queue: Any  # what launches
    registers: int
    spilled: int  # bytes of a thread that stand in memory
    blocks: int  # that a multiprocessor runs at a time

    def launch(self, kernel: Kernel, prompts: int, given: Sequence[int], stream: int) -> None:
        """Queue a launch; `given` are addresses and whole numbers, which are read at once."""
        values = (ctypes.c_longlong * len(given))(*given)
        start = ctypes.addressof(values)
        places = (ctypes.c_void_p * len(given))(*range(start, start + 8 * len(given), 8))
        grid, block = (kernel.blocks(prompts), 1, 1), (kernel.threads, 1, 1)
        self.queue(self.pointer, *grid, *block, kernel.shared, stream, ctypes.addressof(places), 0)


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
    return Loaded(module, found.ptr, driver.launchKernel, registers, spilled, blocks)


def launch(
    kernel: Kernel, sources: Mapping[Any, Array], lead: Lead, device: Any
) -> tuple[list[Array], Array | None]:
    """The answers with these batch axes; and, if it checks, the marks: of all prompts together,
    then of each."""
    import torch

    index = index_of(device)
    if index != torch.cuda.current_device():
        with torch.cuda.device(index):
            return launch(kernel, sources, lead, device)
    ready, prompts = loaded(kernel, index), prod(lead)
    dtype = getattr(torch, kernel.dtype)
    outs = [torch.empty((*lead, *shape), dtype=dtype, device=device) for shape in kernel.outputs]
    marks, marked = None, 0
    if kernel.check:
        marks = torch.zeros(prompts + 1, dtype=torch.int32, device=device)
        marked = marks.data_ptr()
    if prompts == 0:
        return outs, marks
    kept, given = [], []  # copies live until the launch is queued
    for name, size in zip(kernel.sources, kernel.sizes, strict=True):
        tensor, step = _placed(sources[name], lead, size)
        kept.append(tensor)
        given += [tensor.data_ptr(), step]
    given += [out.data_ptr() for out in outs]
    given += [marked + 4, marked, prompts]
    ready.launch(kernel, prompts, given, torch.cuda.current_stream(index).cuda_stream)
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
