"""The same computations as a good programmer writes them without inweave, for speed.

`in_numpy`, `in_torch` and `in_jax` hold ridge descent: `plain`, by someone who writes the loop down
as it is, and `gram`, by someone who computes the Gram matrix once and folds the constants. A row
compares with the faster of the two.

`regression`, `solving`, `memories` and `kernels` hold every algorithm of the gallery, by name, one
function for all libraries and batches; `kits` has what libraries do differently.
"""
