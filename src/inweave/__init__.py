"""inweave: matrix algorithms as the weights of attention networks, with proofs of equality.

The names below load when they are first used, so that `import inweave` costs little beside numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from inweave.version import __version__ as __version__

if TYPE_CHECKING:
    from inweave.decompiler import decompile
    from inweave.errors import (
        BlockError,
        CompileError,
        DecompileError,
        DivergenceError,
        DomainError,
        DTypeError,
        FileFormatError,
        InputError,
        InweaveError,
        MissingExtraError,
        ProgramError,
        ShapeError,
        VerificationError,
    )
    from inweave.exact.constants import Constant
    from inweave.language.annotations import Matrix, Scalar, Vector
    from inweave.language.functions import absolute as abs
    from inweave.language.functions import (
        assume,
        exp,
        gelu,
        hold,
        log,
        pointwise,
        reciprocal,
        relu,
        rsqrt,
        sigmoid,
        soft_threshold,
        softmax,
        sqrt,
        tanh,
    )
    from inweave.language.iterate import iterate
    from inweave.language.matrices import (
        block,
        constant,
        diag,
        eye,
        hstack,
        kron,
        matrix_power,
        ones,
        outer,
        squared_norm,
        trace,
        tril,
        triu,
        vstack,
        where,
        zeros,
    )
    from inweave.language.program import Program, program
    from inweave.language.ranges import Range
    from inweave.language.scan import scan
    from inweave.model.embedding import Embedding
    from inweave.model.layers import AttentionLayer, BlockPointwiseLayer, Head, PointwiseLayer
    from inweave.model.layout import Block, Layout
    from inweave.model.modules import Module
    from inweave.model.projection import DenseProjection, Piece, Projection
    from inweave.model.prompt import Fill, Input, Output, Place
    from inweave.network import Network, compile, explain, load, verify
    from inweave.proof.bounds import Bounds
    from inweave.proof.certificate import Certificate
    from inweave.smallest import Frontier, bounds, frontier

_WHERE = {
    "decompiler": "decompile",
    "errors": "BlockError CompileError DTypeError DecompileError DivergenceError DomainError "
    "FileFormatError InputError InweaveError MissingExtraError ProgramError ShapeError "
    "VerificationError",
    "exact.constants": "Constant",
    "language.annotations": "Matrix Scalar Vector",
    "language.functions": "assume exp gelu hold log pointwise reciprocal relu rsqrt sigmoid "
    "soft_threshold softmax sqrt tanh",
    "language.iterate": "iterate",
    "language.matrices": "block constant diag eye hstack kron matrix_power ones outer squared_norm "
    "trace tril triu vstack where zeros",
    "language.program": "Program program",
    "language.ranges": "Range",
    "language.scan": "scan",
    "model.embedding": "Embedding",
    "model.layers": "AttentionLayer BlockPointwiseLayer Head PointwiseLayer",
    "model.layout": "Block Layout",
    "model.modules": "Module",
    "model.projection": "DenseProjection Piece Projection",
    "model.prompt": "Fill Input Output Place",
    "network": "Network compile explain load verify",
    "proof.bounds": "Bounds",
    "proof.certificate": "Certificate",
    "smallest": "Frontier bounds frontier",
}
_LAZY = {name: (module, name) for module, names in _WHERE.items() for name in names.split()}
_LAZY["abs"] = ("language.functions", "absolute")
_MODULES = ("circuits", "explore", "gallery", "lab", "nn", "paper")

__all__ = [
    "AttentionLayer",
    "Block",
    "BlockError",
    "BlockPointwiseLayer",
    "Bounds",
    "Certificate",
    "CompileError",
    "Constant",
    "DTypeError",
    "DecompileError",
    "DenseProjection",
    "DivergenceError",
    "DomainError",
    "Embedding",
    "FileFormatError",
    "Fill",
    "Frontier",
    "Head",
    "Input",
    "InputError",
    "InweaveError",
    "Layout",
    "Matrix",
    "MissingExtraError",
    "Module",
    "Network",
    "Output",
    "Piece",
    "Place",
    "PointwiseLayer",
    "Program",
    "ProgramError",
    "Projection",
    "Range",
    "Scalar",
    "ShapeError",
    "Vector",
    "VerificationError",
    "__version__",
    "abs",
    "assume",
    "block",
    "bounds",
    "circuits",
    "compile",
    "constant",
    "decompile",
    "diag",
    "exp",
    "explain",
    "explore",
    "eye",
    "frontier",
    "gallery",
    "gelu",
    "hold",
    "hstack",
    "iterate",
    "kron",
    "lab",
    "load",
    "log",
    "matrix_power",
    "nn",
    "ones",
    "outer",
    "paper",
    "pointwise",
    "program",
    "reciprocal",
    "relu",
    "rsqrt",
    "scan",
    "sigmoid",
    "soft_threshold",
    "softmax",
    "sqrt",
    "squared_norm",
    "tanh",
    "trace",
    "tril",
    "triu",
    "verify",
    "vstack",
    "where",
    "zeros",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"inweave.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module 'inweave' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    value = getattr(import_module(f"inweave.{module}"), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
