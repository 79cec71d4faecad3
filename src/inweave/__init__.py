"""inweave: matrix algorithms as the weights of attention networks, with proofs of equality.

The names below load when they are first used, so that `import inweave` costs little beside numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Eager, so that the package `inweave.verify` cannot later hide the function of that name.
from inweave.verify import verify as verify

if TYPE_CHECKING:
    from inweave import explore, gallery, lab, nn, paper
    from inweave.compiler import compile
    from inweave.constants import Constant
    from inweave.errors import (
        BlockError,
        CompileError,
        DivergenceError,
        DomainError,
        DTypeError,
        FileFormatError,
        InputError,
        InweaveError,
        ProgramError,
        ShapeError,
        VerificationError,
    )
    from inweave.files import load
    from inweave.functions import absolute as abs
    from inweave.functions import pointwise, reciprocal, relu, rsqrt, sigmoid, soft_threshold
    from inweave.language import (
        Matrix,
        Program,
        Scalar,
        Vector,
        block,
        constant,
        eye,
        hold,
        hstack,
        iterate,
        ones,
        program,
        vstack,
        zeros,
    )
    from inweave.layout import Block, Layout
    from inweave.network import (
        AttentionLayer,
        BlockPointwiseLayer,
        Head,
        Module,
        Network,
        PointwiseLayer,
    )
    from inweave.projection import DenseProjection, Piece, Projection
    from inweave.prompt import Fill, Input, Output, Place
    from inweave.verify.certificate import Certificate

__version__ = "0.1.0"

_WHERE = {
    "compiler": "compile",
    "constants": "Constant",
    "errors": "BlockError CompileError DTypeError DivergenceError DomainError FileFormatError "
    "InputError ProgramError ShapeError VerificationError InweaveError",
    "files": "load",
    "functions": "pointwise reciprocal relu rsqrt sigmoid soft_threshold",
    "language": "Matrix Program Scalar Vector block constant eye hold hstack iterate ones program "
    "vstack zeros",
    "layout": "Block Layout",
    "network": "AttentionLayer BlockPointwiseLayer Head Module Network PointwiseLayer",
    "projection": "DenseProjection Piece Projection",
    "prompt": "Fill Input Output Place",
    "verify.certificate": "Certificate",
}
_LAZY = {name: (module, name) for module, names in _WHERE.items() for name in names.split()}
_LAZY["abs"] = ("functions", "absolute")
_MODULES = ("explore", "gallery", "lab", "nn", "paper")

__all__ = [
    "AttentionLayer",
    "Block",
    "BlockError",
    "BlockPointwiseLayer",
    "Certificate",
    "CompileError",
    "Constant",
    "DTypeError",
    "DenseProjection",
    "DivergenceError",
    "DomainError",
    "FileFormatError",
    "Fill",
    "Head",
    "Input",
    "InputError",
    "InweaveError",
    "Layout",
    "Matrix",
    "Module",
    "Network",
    "Output",
    "Piece",
    "Place",
    "PointwiseLayer",
    "Program",
    "ProgramError",
    "Projection",
    "Scalar",
    "ShapeError",
    "Vector",
    "VerificationError",
    "__version__",
    "abs",
    "block",
    "compile",
    "constant",
    "explore",
    "eye",
    "gallery",
    "hold",
    "hstack",
    "iterate",
    "lab",
    "load",
    "nn",
    "ones",
    "paper",
    "pointwise",
    "program",
    "reciprocal",
    "relu",
    "rsqrt",
    "sigmoid",
    "soft_threshold",
    "verify",
    "vstack",
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
