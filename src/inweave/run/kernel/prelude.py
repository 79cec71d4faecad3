"""The C that stands before every kernel, for the device and for a CPU.

The same text of a kernel is compiled by NVRTC and, in tests, by the system's C compiler: there the
threads of a block are run one after another from barrier to barrier, each on a stack of its own.
"""

from __future__ import annotations

LEFT_DOMAIN, FAR, NOT_FINITE = 1, 2, 4
"""What a prompt's flag says: a function left its domain, an answer is far, an input not finite."""

COMMON = """
#define ONE ((real)1)
#define NIL ((real)0)
#define INF ((real)(1e300 * 1e300))
#define TRI(i, j) ((i) >= (j) ? (i) * ((i) + 1) / 2 + (j) : (j) * ((j) + 1) / 2 + (i))
#define LEFT_DOMAIN 1
#define FAR_OFF 2
#define NOT_FINITE 4
#define LOOK(x) (finite += (x) * 0)
#define REACH(x) { if (!(ABS(x) <= (real)1e8)) flag |= FAR_OFF; }
INLINE real POSITIVE(real x) { return x < 0 ? NIL : x; }
"""

DEVICE = """
#define INLINE static __device__ __forceinline__
#define TABLE static __device__ const __align__(16)
#define KERNEL(...) extern "C" __global__ __launch_bounds__(__VA_ARGS__) void
#define SHARED(name, size) extern __shared__ __align__(16) real name[]
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
#define TWICE _Pragma("unroll 2")
#define FOURFOLD _Pragma("unroll 4")
#define SYNC __syncthreads()
#define SYNCWARP __syncwarp()
#define LDG(x) __ldg(&(x))
#define ABS(x) fabs(x)
#define SQRT(x) sqrt(x)
"""

WIDE = {
    "float32": """
typedef float real;
typedef float4 real4;
#define BITS(x) __float_as_int(x)
static __device__ __forceinline__ real4 LDG4(const real *p, int q) {
  return __ldg((const float4 *)p + q);
}
#define LDS4(p, q) (((const real4 *)(p))[q])
""",
    "float64": """
typedef double real;
struct __align__(16) real4 { double x, y, z, w; };
#define BITS(x) __double_as_longlong(x)
static __device__ __forceinline__ real4 LDG4(const real *p, int q) {
  double2 a = __ldg((const double2 *)p + 2 * q), b = __ldg((const double2 *)p + 2 * q + 1);
  real4 r; r.x = a.x; r.y = a.y; r.z = b.x; r.w = b.y;
  return r;
}
#define LDS4(p, q) (((const real4 *)(p))[q])
""",
}


def on_device(dtype: str) -> str:
    """What stands before a kernel for NVRTC."""
    return WIDE[dtype] + DEVICE + COMMON


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
""",
    "float64": """
typedef double real;
typedef struct { double x, y, z, w; } real4;
static inline long long BITS(double x) { long long y; memcpy(&y, &x, 8); return y; }
#define ABS(x) fabs(x)
#define SQRT(x) sqrt(x)
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
