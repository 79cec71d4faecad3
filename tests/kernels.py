"""Kernels on a CPU: the same text, built with the system's C compiler.

The threads of a block run one after another from barrier to barrier, each on a stack of its own,
and shared memory begins as NaN: what is read too early is not there.
"""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from inweave.run.kernel.device import Loaded
from inweave.run.kernel.generate import Kernel
from inweave.run.kernel.prelude import COMMON

CPU = """
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
typedef struct { int x; } dim;
static dim threadIdx, blockIdx, blockDim;
static char shared_memory[1 << 20];
static ucontext_t scheduler, *running;
static int *waiting;
#define INLINE static inline
#define TABLE static const
#define KERNEL(...) static void
#define SHARED(name, size) real *name = (real *)shared_memory
#define __restrict__
#define UNROLL
#define ROLLED
#define TWICE
#define FOURFOLD
#define SYNC swapcontext(running, &scheduler)
#define SYNCWARP SYNC
#define LDG(x) (x)
static inline void atomicOr(int *p, int x) { *p |= x; }
"""

CPU_WIDE = {
    "float32": """
typedef float real;
typedef struct { float x, y, z, w; } real4;
static inline int BITS(float x) { int y; memcpy(&y, &x, 4); return y; }
#define ABS(x) fabsf(x)
#define SQRT(x) sqrtf(x)
#define CLAMP(x, low, high) fminf(fmaxf(x, low), high)
""",
    "float64": """
typedef double real;
typedef struct { double x, y, z, w; } real4;
static inline long long BITS(double x) { long long y; memcpy(&y, &x, 8); return y; }
#define ABS(x) fabs(x)
#define SQRT(x) sqrt(x)
#define CLAMP(x, low, high) fmin(fmax(x, low), high)
""",
}

CPU_LAST = """
static real4 LDG4(const real *p, int q) {
  real4 r; r.x = p[4 * q]; r.y = p[4 * q + 1]; r.z = p[4 * q + 2]; r.w = p[4 * q + 3];
  return r;
}
#define LDS4(p, q) LDG4(p, q)
static void (*job)(void **);
static void **given;
static int ended;
static void one_thread(void) { job(given); ended++; }
/* All threads of a block from barrier to barrier, until they have ended. */
static void run_blocks(void (*kernel)(void **), void **args, int blocks, int threads) {
  enum { STACK = 1 << 17 };
  char *stacks = malloc((size_t)threads * STACK);
  ucontext_t *each = malloc(threads * sizeof *each);
  char *over = malloc(threads);
  job = kernel; given = args; blockDim.x = threads;
  for (int block = 0; block < blocks; block++) {
    blockIdx.x = block;
    memset(shared_memory, 0xff, sizeof shared_memory);
    memset(over, 0, threads);
    for (int t = 0; t < threads; t++) {
      getcontext(&each[t]);
      each[t].uc_stack.ss_sp = stacks + (size_t)t * STACK;
      each[t].uc_stack.ss_size = STACK;
      each[t].uc_link = &scheduler;
      makecontext(&each[t], one_thread, 0);
    }
    for (int left = threads; left > 0;) {
      for (int t = 0; t < threads; t++) {
        if (over[t]) continue;
        threadIdx.x = t; running = &each[t];
        int before = ended;
        swapcontext(&scheduler, running);
        if (ended > before) { over[t] = 1; left--; }
      }
    }
  }
  free(stacks); free(each); free(over);
}
"""


def on_cpu(dtype: str) -> str:
    """What stands before kernels for a C compiler."""
    return CPU + CPU_WIDE[dtype] + COMMON + CPU_LAST


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


def batch_of_examples(example: Callable[[int], dict[str, Any]], lead: tuple[int, ...]) -> Any:
    """A batch of examples, seven of them in turn."""
    count = math.prod(lead)
    found = [example(seed) for seed in range(min(count, 7))]
    return {
        name: np.resize(np.stack([np.asarray(one[name], float) for one in found]),
                        (count, *np.shape(x))).reshape(*lead, *np.shape(x))
        for name, x in found[0].items()
    }  # fmt: skip


# -- a device that is none -------------------------------------------------------------------------
def loaded(kernel: Kernel, folder: Path) -> Loaded:
    """A kernel that the CPU runs, launched as the driver launches kernels of a device."""
    place = folder / f"{kernel.name}-{kernel.dtype}-{kernel.check}"
    place.mkdir()
    library = build([kernel], place, "-O0")
    inputs, outputs = len(kernel.sources), len(kernel.outputs)

    def queue(_: int, blocks: int, *layout: int) -> None:
        threads, params = layout[2], layout[-2]
        places = (ctypes.c_void_p * (2 * inputs + outputs + 3)).from_address(params)
        numbers = [ctypes.c_longlong.from_address(at).value for at in places]
        steps = [ctypes.c_longlong(step) for step in numbers[1 : 2 * inputs : 2]]
        count = ctypes.c_int(numbers[-1])
        given: list[int | None] = []
        for address, step in zip(numbers[: 2 * inputs : 2], steps, strict=True):
            given += [address, ctypes.addressof(step)]
        given += [number or None for number in numbers[2 * inputs : -1]]
        given.append(ctypes.addressof(count))
        run = getattr(library, f"run_{kernel.name}")
        run((ctypes.c_void_p * len(given))(*given), blocks, threads)

    return Loaded(kernel, library, 0, queue, lambda _: None, 0, 0, 0)
