"""weft: matrix algorithms as the weights of attention networks, with proofs of equality."""

from weft.compiler import compile
from weft.constants import Constant
from weft.errors import (
    BlockError,
    CompileError,
    DivergenceError,
    DomainError,
    DTypeError,
    FileFormatError,
    InputError,
    ProgramError,
    ShapeError,
    VerificationError,
    WeftError,
)
from weft.files import load
from weft.functions import absolute as abs
from weft.functions import (
    pointwise,
    reciprocal,
    relu,
    rsqrt,
    sigmoid,
    soft_threshold,
)
from weft.language import (
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
from weft.layout import Block, Layout
from weft.network import (
    AttentionLayer,
    BlockPointwiseLayer,
    Head,
    Module,
    Network,
    PointwiseLayer,
)
from weft.projection import DenseProjection, Piece, Projection
from weft.prompt import Fill, Input, Output, Place
from weft.verify import Certificate, verify

__version__ = "0.1.0"

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
    "WeftError",
    "__version__",
    "abs",
    "block",
    "compile",
    "constant",
    "eye",
    "hold",
    "hstack",
    "iterate",
    "load",
    "ones",
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
