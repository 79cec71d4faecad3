"""weft: matrix algorithms as the weights of attention networks, with proofs of equality."""

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
from weft.layout import Block, Layout
from weft.network import AttentionLayer, Head, Module, Network, PointwiseLayer
from weft.projection import DenseProjection, Piece, Projection
from weft.prompt import Fill, Input, Output, Place

__version__ = "0.1.0"

__all__ = [
    "AttentionLayer",
    "Block",
    "BlockError",
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
    "Module",
    "Network",
    "Output",
    "Piece",
    "Place",
    "PointwiseLayer",
    "ProgramError",
    "Projection",
    "ShapeError",
    "VerificationError",
    "WeftError",
    "__version__",
]
