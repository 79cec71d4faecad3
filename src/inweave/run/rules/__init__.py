"""Less work for the same answers: rules over a graph.

`fold` applies them. Constants are multiplied before the loop (with `multiples` of one matrix seen),
rows are made `ahead` of it, only what is `needed` is computed, and what only moves stands `still`.
Affine loops are powers of their step, from one side (`power`) or from both (`sandwich`), before any
call where it is `constant`. `cut` makes a long loop a loop of loops, for the way back.
"""
