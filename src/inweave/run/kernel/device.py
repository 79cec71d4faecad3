"""Kernels on a CUDA device: NVRTC through CuPy, tensors of torch, torch's current stream.

Code is found by its `Order`, in memory or on the disk; only where neither has it is the kernel
written at all. What a launch needs beyond pointers is decided once (`Launcher`): a call of a small
batch takes about as long as Python takes to reach the device, and a call that checks waits for it.
"""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

from inweave.errors import needs_extra
from inweave.exact import schema
from inweave.exact.constants import Array
from inweave.run.kernel import cache
from inweave.run.kernel.frame import Frame, Order
from inweave.run.lines.code import Lead

if TYPE_CHECKING:
    from inweave.run.kernel.generate import Kernel

T = TypeVar("T")
OPTIONS = ("-std=c++17", "--fmad=true")
PLAIN_SHARED = 48 << 10  # bytes of shared memory that a block may take without asking


# -- code -----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Loaded:
    """A kernel that is ready to be launched on a device, and what its compiler made of it."""

    frame: Frame
    module: Any  # which must live as long as its function
    pointer: int
    queue: Callable[..., None]  # what launches
    wait: Callable[[int], None]  # until a stream has come to its end
    registers: int
    spilled: int  # bytes of a thread that stand in memory
    blocks: int  # that a multiprocessor runs at a time


LOADED: dict[tuple[Order, int], Loaded] = {}
"""The kernels of this process, by device."""


def loaded(order: Order, device: int, write: Callable[[], Kernel]) -> Loaded:
    """A kernel on a device: from memory, from the disk, or written and compiled."""
    if (order, device) not in LOADED:
        LOADED[order, device] = _load(*_code(order, device, write), device)
    return LOADED[order, device]


def _code(order: Order, device: int, write: Callable[[], Kernel]) -> tuple[Frame, bytes]:
    with needs_extra("a kernel", "cuda"):
        import cupy
        from cupy.cuda import nvrtc

    arch = cupy.cuda.Device(device).compute_capability
    facts = repr((order, cache.generator(), arch, nvrtc.getVersion(), OPTIONS))
    key = f"{hashlib.sha256(facts.encode()).hexdigest()}.kernel"
    found = unpacked(cache.read(key))
    if found is None:
        kernel = write()
        found = kernel, compiled(kernel, arch)
        cache.write(key, packed(*found))
    return found


def packed(frame: Frame, code: bytes) -> bytes:
    """A kernel as it is kept: a line of JSON, and its code."""
    return schema.dumps(schema.write(Frame, frame)).encode() + b"\n" + code


def unpacked(kept: bytes | None) -> tuple[Frame, bytes] | None:
    """A kernel as it was kept; None if this is none."""
    if kept is None:
        return None
    head, _, code = kept.partition(b"\n")
    try:
        return schema.read(Frame, schema.loads(head)), code
    except schema.Mismatch:
        return None


def compiled(kernel: Kernel, arch: str) -> bytes:
    """The device code of a kernel, by NVRTC."""
    from cupy.cuda import nvrtc

    from inweave.run.kernel.prelude import on_device

    text = on_device(kernel.dtype) + kernel.text
    program = nvrtc.createProgram(text, f"{kernel.name}.cu", (), ())
    try:
        nvrtc.compileProgram(program, (f"--gpu-architecture=sm_{arch}", *OPTIONS))
        return bytes(nvrtc.getCUBIN(program))
    except nvrtc.NVRTCError as error:
        raise RuntimeError(f"{error}\n{nvrtc.getProgramLog(program)}") from error
    finally:
        nvrtc.destroyProgram(program)


def _load(frame: Frame, code: bytes, device: int) -> Loaded:
    import torch
    from cupy.cuda import driver, function, runtime

    with torch.cuda.device(device):
        torch.cuda.current_stream()  # its context is the current one
        module = function.Module()
        module.load(code)
        found = module.get_function(frame.name)
        if frame.shared > PLAIN_SHARED:
            driver.funcSetAttribute(found.ptr, 8, frame.shared)  # most dynamic shared memory
        registers, spilled = (driver.funcGetAttribute(at, found.ptr) for at in (4, 3))
        blocks = driver.occupancyMaxActiveBlocksPerMultiprocessor(
            found.ptr, frame.threads, frame.shared
        )
    return Loaded(frame, module, found.ptr, driver.launchKernel, runtime.streamSynchronize,
                  registers, spilled, blocks)  # fmt: skip


# -- launches -------------------------------------------------------------------------------------
class Launcher:
    """A kernel that is ready for sources of known shapes on one device.

    `shapes` are those of the answers, if not matrices with the batch axes before them.
    """

    def __init__(
        self,
        ready: Loaded,
        sources: Sequence[Array],
        lead: Lead,
        device: Any,
        shapes: Sequence[tuple[int, ...]] = (),
    ) -> None:
        import torch

        frame = ready.frame
        self.torch, self.ready, self.lead, self.prompts = torch, ready, lead, prod(lead)
        self.device, self.index = device, index_of(device)
        self.dtype, self.check = getattr(torch, frame.dtype), frame.check
        self.shapes = [*shapes] or [(*lead, *shape) for shape in frame.outputs]
        blocks = frame.blocks(self.prompts)
        self.layout = (ready.pointer, blocks, 1, 1, frame.threads, 1, 1, frame.shared)
        self.spread: list[tuple[int, ...] | None] = []  # shapes that sources are to have
        steps = []
        for tensor, size in zip(sources, frame.sizes, strict=True):
            step = 0 if tensor.numel() == size else size
            spread = bool(step) and tuple(tensor.shape[:-2]) != lead
            self.spread.append((*lead, *tensor.shape[-2:]) if spread else None)
            steps.append(step)
        self.given = _Given(steps, len(self.shapes), self.prompts)

    def __call__(self, sources: Sequence[Array], finish: Callable[[list[Array]], T]) -> T | None:
        """What is made of the answers while the device computes them; None if one is marked."""
        cuda = self.torch.cuda
        if self.index != cuda.current_device():
            with cuda.device(self.index):
                return self(sources, finish)
        stream = self.stream()
        if not self.check:
            return finish(self.queue(sources, stream))
        flag = _flag.get()
        flag.number.value = 0
        found = finish(self.queue(sources, stream, flag.address))
        self.ready.wait(stream)
        return None if flag.number.value else found

    def stream(self) -> int:
        """torch's current stream of the device."""
        return current_stream(self.index)

    def marks(self, sources: Sequence[Array]) -> tuple[Array, list[Array]]:
        """What is wrong with each prompt, its flag; and the answers."""
        torch = self.torch
        with torch.cuda.device(self.index):
            flags = torch.zeros(self.prompts, dtype=torch.int32, device=self.device)
            any_flag, stream = _flag.get(), self.stream()
            outs = self.queue(sources, stream, any_flag.address, flags.data_ptr())
            self.ready.wait(stream)
        return flags.reshape(self.lead), outs

    def queue(
        self, sources: Sequence[Array], stream: int, marked: int = 0, flags: int = 0
    ) -> list[Array]:
        """The answers, once a stream of the current device has come to them.

        `marked` is written if a prompt is, and `flags`, if given, for each that is.
        """
        torch, given = self.torch, self.given
        values, kept = given.values, []  # copies live until the launch is queued
        at = 0
        for tensor, shape in zip(sources, self.spread, strict=True):
            if shape is not None:
                tensor = tensor.expand(shape)
            if not tensor.is_contiguous():
                tensor = tensor.contiguous()
            address = tensor.data_ptr()
            if address % 16:
                tensor = tensor.clone()
                address = tensor.data_ptr()
            kept.append(tensor)
            values[at] = address
            at += 2
        outs = [torch.empty(shape, dtype=self.dtype, device=self.device) for shape in self.shapes]
        for out in outs:
            values[at] = out.data_ptr()
            at += 1
        values[at], values[at + 1] = flags, marked
        if self.prompts:
            self.ready.queue(*self.layout, stream, given.places, 0)
        return outs


class _Given(threading.local):
    """What a launch reads its parameters from, at once: a copy for every thread."""

    def __init__(self, steps: Sequence[int], outputs: int, prompts: int) -> None:
        each = [number for step in steps for number in (0, step)]
        each += [*[0] * outputs, 0, 0, prompts]
        self.values = (ctypes.c_longlong * len(each))(*each)
        start = ctypes.addressof(self.values)
        self._places = (ctypes.c_void_p * len(each))(*range(start, start + 8 * len(each), 8))
        self.places = ctypes.addressof(self._places)


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


def current_stream(device: int) -> int:
    """torch's current stream of a device, as the driver knows it."""
    import torch

    return torch._C._cuda_getCurrentRawStream(device)


def enter(device: Any) -> None:
    """Let the driver know this thread: one that autograd began has not called the runtime yet."""
    import torch

    torch.cuda.current_stream(device).query()


def index_of(device: Any) -> int:
    """The number of a device of torch."""
    import torch

    return torch.cuda.current_device() if device.index is None else int(device.index)
