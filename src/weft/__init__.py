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
from weft.language import (
    Matrix,
    Program,
    Scalar,
    Vector,
    block,
    constant,
    eye,
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
    "block",
    "compile",
    "constant",
    "eye",
    "hstack",
    "iterate",
    "ones",
    "program",
    "verify",
    "vstack",
    "zeros",
]
