"""numpy's own functions without the Python around them, which takes longer than they do.

`np.interp` looks for complex numbers first and `np.einsum` for other array libraries: a microsecond
each, in loops over a few numbers half of a step. What is left is what both of them call.
"""

from __future__ import annotations

try:
    from numpy._core.multiarray import c_einsum as einsum
    from numpy._core.multiarray import interp
except ImportError:  # in another numpy they may have other names
    from numpy import einsum, interp

__all__ = ["einsum", "interp"]
