"""Kernels on a CPU: the same text, built with the system's C compiler. For tests, not for speed."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from inweave.run.kernel.generate import Kernel
from inweave.run.kernel.prelude import on_cpu


def compiler() -> str | None:
    """The system's C compiler."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def source(kernels: Sequence[Kernel]) -> str:
    """One file with all kernels of one dtype, each behind a function of an array of pointers."""
    parts = [on_cpu(kernels[0].dtype)]
    for kernel in {kernel.name: kernel for kernel in kernels}.values():
        n, m = len(kernel.sources), len(kernel.outputs)
        given = [f"(const real *)a[{2 * i}], *(long long *)a[{2 * i + 1}]" for i in range(n)]
        given += [f"(real *)a[{2 * n + i}]" for i in range(m)]
        flags, any_flag, count = (2 * n + m + i for i in range(3))
        given += [f"(int *)a[{flags}], (int *)a[{any_flag}], *(int *)a[{count}]"]
        call = (
            f"static void call_{kernel.name}(void **a) {{ {kernel.name}({', '.join(given)}); }}\n"
        )
        run = f"{{ run_blocks(call_{kernel.name}, a, blocks, threads); }}\n"
        parts += [kernel.text, call]
        parts += [f"void run_{kernel.name}(void **a, int blocks, int threads) {run}"]
    return "".join(parts)


def build(kernels: Sequence[Kernel], folder: Path, level: str = "-O1") -> ctypes.CDLL:
    """A library of kernels."""
    found = compiler()
    assert found is not None
    file, library = folder / "kernels.c", folder / "kernels.so"
    file.write_text(source(kernels))
    options = [level, "-w", "-std=gnu11", "-shared", "-fPIC"]
    subprocess.run([found, *options, "-o", library, file, "-lm"], check=True)
    return ctypes.CDLL(str(library))


def run(
    library: ctypes.CDLL, kernel: Kernel, sources: Mapping[Any, np.ndarray], lead: tuple[int, ...]
) -> tuple[list[np.ndarray], np.ndarray]:
    """The answers with these batch axes, and the flags of the prompts."""
    count, dtype = int(np.prod(lead)), np.dtype(kernel.dtype)
    arrays, steps = [], []
    for name, size in zip(kernel.sources, kernel.sizes, strict=True):
        array = np.asarray(sources[name], dtype)
        if array.ndim > 2:
            array = np.broadcast_to(array, (*lead, *array.shape[-2:]))
        arrays.append(np.ascontiguousarray(array))
        steps.append(ctypes.c_longlong(size if array.ndim > 2 else 0))
    outs = [np.full((*lead, *shape), np.nan, dtype) for shape in kernel.outputs]
    flags, any_flag = np.zeros(count, np.int32), ctypes.c_int(0)
    total = ctypes.c_int(count)
    pointers: list[int] = []
    for array, step in zip(arrays, steps, strict=True):
        pointers += [array.ctypes.data, ctypes.addressof(step)]
    pointers += [out.ctypes.data for out in outs]
    pointers += [flags.ctypes.data, ctypes.addressof(any_flag), ctypes.addressof(total)]
    given = (ctypes.c_void_p * len(pointers))(*pointers)
    getattr(library, f"run_{kernel.name}")(given, kernel.blocks(count), kernel.threads)
    return outs, flags
