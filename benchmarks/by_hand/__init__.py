"""The same computations as a good programmer writes them without inweave, one file per library.

Each has `plain`, by someone who writes the loop down as it is, and `gram`, by someone who computes
the Gram matrix once before the loop. Both take one problem or a batch of them. A row compares with
the faster of the two.
"""
