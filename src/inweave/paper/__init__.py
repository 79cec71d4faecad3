"""The paper, executable: every construction exactly as printed, beside the compiled ones.

K. Hagiwara, "An extension of linear self-attention for in-context learning". `properties` holds
Section 2 as functions of plain arrays, `ridge` the networks of Section 3; `components`, `division`
and `elimination` hold the appendix. docs/errata.md lists where the print slips.
"""

from inweave.paper.components import (
    WeightedSum,
    add_skip,
    affine,
    anti_mask,
    masking,
    multiply_skip,
    network_component,
    weighted_sum,
)
from inweave.paper.division import (
    Sigma,
    chord_error,
    geometric_knots,
    inverse_square,
    invsqr,
    invsqr_error,
    sigma,
)
from inweave.paper.elimination import (
    Elimination,
    GaussianElimination,
    backward_step,
    forward_step,
    gaussian_elimination,
    last_variable,
)
from inweave.paper.properties import (
    V_J,
    W_K,
    Product,
    Theta,
    constant_output,
    elsa,
    lsa,
    lsa_product,
    mask,
    mask_and_move,
    masked,
    movers,
    product_beside,
    product_diagonal,
    skip,
    skip_head,
    token_column_elsa,
    token_column_lsa,
    upper_right,
)
from inweave.paper.ridge import (
    GramTable,
    designed_gram,
    designed_layout,
    enumerated_gram,
    enumerated_layout,
    ridge_elsa,
    ridge_lsa,
)

__all__ = [
    "V_J", "W_K", "Elimination", "GaussianElimination", "GramTable", "Product", "Sigma",
    "Theta", "WeightedSum", "add_skip", "affine", "anti_mask", "backward_step", "chord_error",
    "constant_output", "designed_gram", "designed_layout", "elsa", "enumerated_gram",
    "enumerated_layout", "forward_step", "gaussian_elimination", "geometric_knots",
    "inverse_square", "invsqr", "invsqr_error", "last_variable", "lsa", "lsa_product", "mask",
    "mask_and_move", "masked", "masking", "movers", "multiply_skip", "network_component",
    "product_beside", "product_diagonal", "ridge_elsa", "ridge_lsa", "sigma", "skip",
    "skip_head", "token_column_elsa", "token_column_lsa", "upper_right", "weighted_sum",
]  # fmt: skip
