"""Lines in numpy, torch and jax.

`execute` binds them to an arithmetic. Loops are `written` out as Python for `numpy` (those over
single `numbers` too) and `in_torch`, staged for `jax`; tensors are `lent` to numpy where that is
quicker. `functions` has what is pointwise (over `tables`, with `slopes` for the way back),
`trusted` the look at powers, `by_powers` what follows from it, `compiled` numpy's own functions
without the Python around them.
"""
