"""Kernels on a CUDA device: NVRTC through CuPy, tensors of torch, torch's current stream."""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections.abc import Sequence
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


class Launcher:
    """A kernel that is ready for sources of known shapes on one device."""

    def __init__(self, kernel: Kernel, sources: Sequence[Array], lead: Lead, device: Any) -> None:
        import torch

        self.torch, self.lead, self.device, self.index = torch, lead, device, index_of(device)
        self.ready, self.prompts = loaded(kernel, self.index), prod(lead)
        self.dtype, self.check = getattr(torch, kernel.dtype), kernel.check
        self.shapes = [(*lead, *shape) for shape in kernel.outputs]
        blocks = kernel.blocks(self.prompts)
        self.layout = (self.ready.pointer, blocks, 1, 1, kernel.threads, 1, 1, kernel.shared)
        self.places: list[tuple[int, tuple[int, ...] | None]] = []  # step, and shape to be had
        for tensor, size in zip(sources, kernel.sizes, strict=True):
            step = 0 if tensor.numel() == size else size
            spread = bool(step) and tuple(tensor.shape[:-2]) != lead
            self.places.append((step, (*lead, *tensor.shape[-2:]) if spread else None))

    def __call__(self, sources: Sequence[Array]) -> list[Array] | None:
        """The answers; None if a prompt is marked."""
        stream = self.torch.cuda.current_stream(self.index)
        if not self.check:
            return self.queue(sources, stream.cuda_stream)
        flag = _flag.get()
        flag.number.value = 0
        outs = self.queue(sources, stream.cuda_stream, flag.address)
        stream.synchronize()
        return None if flag.number.value else outs

    def queue(self, sources: Sequence[Array], stream: int, marked: int = 0) -> list[Array]:
        """The answers, once a stream has come to them; `marked` is written if a prompt is."""
        torch = self.torch
        if self.index != torch.cuda.current_device():
            with torch.cuda.device(self.index):
                return self.queue(sources, stream, marked)
        kept: list[Array] = []  # copies live until the launch is queued
        given: list[int] = []
        for tensor, (step, shape) in zip(sources, self.places, strict=True):
            if shape is not None:
                tensor = tensor.expand(shape)
            if not tensor.is_contiguous():
                tensor = tensor.contiguous()
            address = tensor.data_ptr()
            if address % 16:
                tensor = tensor.clone()
                address = tensor.data_ptr()
            kept.append(tensor)
            given += (address, step)
        outs = [torch.empty(shape, dtype=self.dtype, device=self.device) for shape in self.shapes]
        given += [*(out.data_ptr() for out in outs), 0, marked, self.prompts]
        if self.prompts:
            values = (ctypes.c_longlong * len(given))(*given)  # which a launch reads at once
            start = ctypes.addressof(values)
            places = (ctypes.c_void_p * len(given))(*range(start, start + 8 * len(given), 8))
            self.ready.queue(*self.layout, stream, ctypes.addressof(places), 0)
        return outs


class _Flag(threading.local):
    """A number in memory that the device writes and each thread reads after it has waited."""

    def get(self) -> _Flag:
        if not hasattr(self, "tensor"):
            import torch

            self.tensor = torch.zeros(1, dtype=torch.int32).pin_memory()
            self.address = self.tensor.data_ptr()
            self.number = ctypes.c_int.from_address(self.address)
        return self


_flag = _Flag()


def index_of(device: Any) -> int:
    """The number of a device of torch."""
    import torch

    return torch.cuda.current_device() if device.index is None else int(device.index)
