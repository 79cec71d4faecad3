"""The C that stands before every kernel.

All that only a device has is named here, so that tests can give the same text of a kernel to the
system's C compiler, with other meanings of these names.
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
#define CLAMP(x, low, high) fmin(fmax(x, low), high)
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
