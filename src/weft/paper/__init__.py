"""The paper, executable: every construction exactly as printed, beside the compiled ones.

K. Hagiwara, "An extension of linear self-attention for in-context learning". `properties` holds
Section 2 as functions of plain arrays, `ridge` the networks of Section 3. docs/errata.md lists
where the print slips.
"""

from weft.paper.properties import (
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
from weft.paper.ridge import (
    GramTable,
    designed_gram,
    designed_layout,
    enumerated_gram,
    enumerated_layout,
    ridge_elsa,
    ridge_lsa,
)

__all__ = [
    "V_J",
    "W_K",
    "GramTable",
    "Product",
    "Theta",
    "constant_output",
    "designed_gram",
    "designed_layout",
    "elsa",
    "enumerated_gram",
    "enumerated_layout",
    "lsa",
    "lsa_product",
    "mask",
    "mask_and_move",
    "masked",
    "movers",
    "product_beside",
    "product_diagonal",
    "ridge_elsa",
    "ridge_lsa",
    "skip",
    "skip_head",
    "token_column_elsa",
    "token_column_lsa",
    "upper_right",
]
